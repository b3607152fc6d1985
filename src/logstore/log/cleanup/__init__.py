"""Removal of records: retention, truncation, the files of a deleted partition."""
