from logstore._segment import Segment

def count_whole(segment: Segment, offset: int, end_offset: int) -> tuple[int, int] | None:
    """Count the records of whole batches in [offset, end_offset): (records, offset reached), or None if none."""
