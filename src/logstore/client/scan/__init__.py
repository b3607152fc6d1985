"""A topic as a table."""
