"""Rolls of the active segment: the file prepared for the next one, and the work that follows in the background."""
