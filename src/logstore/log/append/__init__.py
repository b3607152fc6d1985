"""Appending: validation, one append, batches and files from elsewhere, single records, flushes."""
