from typing import TypeAlias

from typing_extensions import disjoint_base

from logstore._segment_index import SegmentIndex
from logstore.errors import LogstoreError
from logstore.records import Marker

#: base offset, last offset, producer id, producer epoch, base sequence, last sequence, max timestamp,
#: is transactional, is control, marker, coordinator epoch
_Produced: TypeAlias = tuple[int, int, int, int, int, int, int, bool, bool, Marker | None, int]

@disjoint_base
class Extent:
    """Result of a scan: the end of the valid part, and the batches from which state is rebuilt."""

    @property
    def valid_bytes(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def file_bytes(self) -> int: ...
    @property
    def batch_count(self) -> int: ...
    @property
    def record_count(self) -> int: ...
    @property
    def max_timestamp_ms(self) -> int: ...
    @property
    def produced(self) -> list[_Produced]: ...
    @property
    def epochs(self) -> list[tuple[int, int]]: ...
    @property
    def problem(self) -> str | None: ...
    @property
    def error(self) -> LogstoreError | None: ...
    @property
    def is_whole(self) -> bool: ...

@disjoint_base
class Damage:
    """Results of the last searches behind damage in one segment, so that each read does not repeat them."""

def scan(
    index: SegmentIndex,
    position: int = 0,
    *,
    next_offset: int = -1,
    end: int = -1,
    check: bool = True,
    adopt: bool = False,
) -> Extent:
    """Scan the batches from ``position`` to the end of the file; return the valid part as an `Extent`."""

def extend(index: SegmentIndex, damage: Damage, end_offset: int) -> None:
    """Add batches that another process has appended, up to an end that it has published."""

def behind(
    index: SegmentIndex, damage: Damage, position: int, limit: int, since: int = -1
) -> tuple[int, int] | None:
    """Return (position, base offset) of the first trustworthy batch after damage, or None."""
