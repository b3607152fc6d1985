from logstore.batch._encode import Encoder

def add_arrow(encoder: Encoder, data: object) -> int:
    """Add a record for each row of Arrow data; return how many."""

def add_numpy(encoder: Encoder, array: object) -> int:
    """Add a value for each item of a fixed-width array; return how many."""
