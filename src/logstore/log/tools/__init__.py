"""Tools for the files of a log that is closed, or is copied while it is open."""
