"""What is removed: retention, truncation, the files of a deleted partition."""
