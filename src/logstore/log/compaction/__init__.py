"""Compaction: what is due, which transactions count, new segments in the place of old ones."""
