"""Conversion between batches and columns: the Arrow C data interface, JSON values, numpy."""
