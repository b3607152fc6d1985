"""Batches from other processes: staged, checked, and ingested once, all or none."""
