"""A registry of one process: in its memory, and kept in a store's directory if that is asked for."""
