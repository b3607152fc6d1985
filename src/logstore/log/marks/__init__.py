"""Marks of a log: offsets that rise, and what waits for them."""
