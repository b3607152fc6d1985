"""The small files of a log as bytes."""
