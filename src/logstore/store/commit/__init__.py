"""Batches from other processes: staged, checked, and taken in once, all or none."""
