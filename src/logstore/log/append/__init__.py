"""Appending: validation, single appends, runs and files from elsewhere, buffered records, flushes."""
