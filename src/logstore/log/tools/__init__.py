"""For files of a log that is not open, or is copied while it is."""
