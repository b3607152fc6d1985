from collections.abc import Iterator
from typing import Self

from typing_extensions import disjoint_base

from logstore._index import OffsetIndex, TimeIndex
from logstore.io._files import File

@disjoint_base
class SegmentIndex:
    """End, index entries and times of the batches in one segment file."""

    def __new__(
        cls,
        file: File,
        base_offset: int,
        *,
        index_interval_bytes: int = 4096,
        size: int = 0,
        next_offset: int = -1,
        sealed: bool = False,
    ) -> Self: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def file(self) -> File: ...
    @property
    def path(self) -> str:
        """Path of the file, also after it was renamed."""

    @property
    def offsets(self) -> OffsetIndex: ...
    @property
    def times(self) -> TimeIndex: ...
    @property
    def size(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def max_timestamp_ms(self) -> int: ...
    @property
    def max_timestamp_offset(self) -> int: ...
    @property
    def first_timestamp_ms(self) -> int: ...
    @property
    def sealed(self) -> bool: ...
    @property
    def joined(self) -> bool: ...
    @property
    def stale(self) -> bool: ...
    def mark_stale(self) -> None:
        """Have both index files written from the entries: what they hold is not known."""

    def mark_saved(self) -> None:
        """Record that both index files hold the entries."""

    def replace(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        """Use index entries that were read from their files; unsound ones are rebuilt from the log."""

    def load(self) -> None:
        """Load or rebuild the indexes, if they are not loaded."""

    def rebuild(self) -> None:
        """Rebuild both indexes from the batch headers."""

    def seal(self) -> None:
        """Add the final entry of the time index; no batch may follow."""

    def set_end(self, next_offset: int) -> None:
        """Set the end offset of a sealed segment; its last batch may end before it."""

    def largest_timestamp(self) -> tuple[int, int] | None:
        """Return (timestamp, offset) of the newest record by time, or None for an empty segment."""

    def first_timestamp(self) -> int | None:
        """Return the largest timestamp of the first batch, or None: the age of a segment counts from it."""

    def offset_for_time(self, timestamp_ms: int) -> int | None:
        """Return the offset from which to search for the first record with at least that timestamp, or None."""

    def headers(self, position: int = 0) -> Iterator[tuple[int, int, int, int, int, int]]:
        """Yield (base offset, last offset, position, size, max timestamp, leader epoch) of each batch."""

    def continues_at(self, position: int, offset: int) -> bool:
        """Return whether an offset is next at a position: of the batch there or, at the end, of the next append."""

    def floor(self, offset: int) -> int:
        """Return the position of a batch that ends below an offset, near it if the index is sound; or 0."""

    def is_joined(self) -> bool:
        """Return whether the last batch of a sealed segment ends where the next one begins; True is cached."""

    def batches_end(self) -> int:
        """Return the offset after the last batch, by its header, not by the next segment's base offset."""

    def holding(self, offset: int, position: int) -> tuple[int, int] | None:
        """Return (position, base offset) of the first batch that ends at or after ``offset``, or None."""

    def position_of(self, offset: int) -> int:
        """Return the position of the batch that holds or follows ``offset``; the size if there is none."""
