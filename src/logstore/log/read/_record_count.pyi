from logstore._segment import Segment

def count_whole(segment: Segment, offset: int, end_offset: int) -> tuple[int, int] | None:
    """(records, offset reached) of the batches that lie whole in [offset, end_offset), or None if there is none."""
