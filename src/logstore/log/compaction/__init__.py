"""Compaction: planning, transaction filter, and the swap of new segments for old ones."""
