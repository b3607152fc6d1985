from collections.abc import Iterator
from typing import Protocol, Self, TypeAlias, final

from typing_extensions import Buffer, disjoint_base

from logstore._batch import Record
from logstore._files import File
from logstore._growth import Growth
from logstore._index import OffsetIndex, TimeIndex
from logstore.errors import LogstoreError
from logstore.records import Marker

HEADER: int
SUFFIX_DIGITS: int

#: base offset, last offset, producer id, producer epoch, base sequence, last sequence, max timestamp,
#: is transactional, is control, marker, coordinator epoch
_Produced: TypeAlias = tuple[int, int, int, int, int, int, int, bool, bool, Marker | None, int]

class _HasFileno(Protocol):
    def fileno(self) -> int: ...

@disjoint_base
class Extent:
    """What a scan found: how far the segment is whole, and what the state above is rebuilt from."""

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

@final
class Slice:
    """Whole batches in a segment's file: what a fetch sends."""

    def __new__(cls, file: File, position: int, size: int, base_offset: int, next_offset: int) -> Self: ...
    @property
    def file(self) -> File: ...
    @property
    def position(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    def close(self) -> None:
        """Let go of the file."""

    def read(self) -> bytes:
        """The bytes. They are not checked: their reader checks the CRC of each batch."""

    def send_to(self, socket: int | _HasFileno, start: int = 0) -> int:
        """Send the bytes from ``start`` on with sendfile; returns how many went."""

    def copy_to(self, socket: int | _HasFileno, start: int = 0) -> int:
        """As `send_to`, through a buffer: for sockets that sendfile cannot serve."""

    def __len__(self) -> int: ...

@disjoint_base
class Segment:
    """One `.log` file with its indexes."""

    def __new__(
        cls,
        file: File,
        base_offset: int,
        *,
        index_interval_bytes: int = 4096,
        size: int = 0,
        next_offset: int = -1,
        sealed: bool = False,
        growth: Growth | None = None,
    ) -> Self: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def file(self) -> File: ...
    @property
    def path(self) -> str: ...
    @property
    def index(self) -> OffsetIndex: ...
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

    index_stale: bool

    def append(self, batches: Buffer, next_offset: int, leader_epoch: int) -> int:
        """Write whole batches behind the segment and index them."""

    def seal(self) -> None:
        """No more appends: the time index gets its final entry."""

    def cut(self, position: int, next_offset: int) -> None:
        """Cut the file of an active segment to ``position``, where ``next_offset`` would begin."""

    def set_indexes(self, index: OffsetIndex, times: TimeIndex) -> None:
        """Use index entries that were read from their files; unsound ones are rebuilt from the log."""

    def ensure_indexes(self) -> None:
        """Load or rebuild the indexes, if that has not happened."""

    def rebuild_indexes(self) -> None:
        """Make both indexes anew from the batch headers."""

    def largest_timestamp(self) -> tuple[int, int] | None:
        """(timestamp, offset) of the newest record by time, or None for an empty segment."""

    def first_timestamp(self) -> int | None:
        """The largest timestamp of the first batch, or None: the age of a segment counts from it."""

    def locate(self, offset: int, max_bytes: int, end_offset: int, hint: int = -1) -> Slice | None:
        """The `Slice` of whole batches from the one that holds ``offset`` on, or None if there is none."""

    def read(self, offset: int, max_bytes: int, end_offset: int, hint: int = -1) -> tuple[bytes, int, int] | None:
        """(bytes of whole batches, position, next offset) from the batch that holds ``offset`` on, or None."""

    def record_at(self, offset: int, name: tuple[str, int], limit: int) -> Record | None:
        """The record at an offset, with no more of its batch than itself, or None."""

    def offset_for_time(self, timestamp_ms: int) -> int | None:
        """Position to begin looking for the first record with at least that timestamp, or None."""

    def headers(self, position: int = 0) -> Iterator[tuple[int, int, int, int, int, int]]:
        """Yield (base offset, last offset, position, size, max timestamp, leader epoch) of each batch."""

    def extend(self, end_offset: int) -> None:
        """Take batches that another process has appended, up to an end that it has published."""

    def begins_batch(self, position: int, offset: int) -> bool:
        """Whether a batch with that base offset has its header at a position."""

    def ends_at(self, offset: int) -> bool:
        """Whether the last batch of the file ends right before an offset."""

    def indexed_floor(self, offset: int) -> int:
        """Position of a batch that ends below an offset, near it if the index is sound; or 0."""

    def set_end(self, next_offset: int) -> None:
        """Tell where a sealed segment ends, which its own last batch need not reach."""

    def position_of(self, offset: int) -> int:
        """Position of the batch that holds or follows ``offset``; the size if there is none."""

    def scan(
        self,
        position: int = 0,
        *,
        next_offset: int = -1,
        end: int = -1,
        check: bool = True,
        adopt: bool = False,
    ) -> Extent:
        """Walk the batches from ``position`` to the end of the file; an `Extent` says what is whole."""

    def release(self) -> None:
        """Give back the room that was taken ahead of the end."""

    def close(self) -> None:
        """Let go of the file."""
