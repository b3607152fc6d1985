"""Requests from a process to the one that writes the store."""
