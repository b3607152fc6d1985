"""Byte formats of a log's small files."""
