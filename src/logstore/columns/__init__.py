"""Batches as columns and back: the Arrow C data interface, JSON values, numpy."""
