"""Producers, consumers and scans over a `Backend`: no files, no sockets."""
