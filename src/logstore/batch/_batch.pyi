from collections.abc import Iterable, Iterator
from typing import Any, Self, final

from typing_extensions import Buffer, disjoint_base

from logstore.errors import RecordError
from logstore.records import Codec, Marker, TimestampType

@final
class Record:
    """One record. Key, value and headers become objects at their first use."""

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp_ms: int,
        timestamp_type: TimestampType | int,
        key: bytes | None,
        value: bytes | None,
        headers: Iterable[tuple[str, bytes | None]] = (),
    ) -> None: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def timestamp_type(self) -> TimestampType:
        """Return the timestamp type: set by the producer or by the log."""

    @property
    def key(self) -> bytes | None:
        """The key as bytes, or None."""

    @property
    def value(self) -> bytes | None:
        """The value as bytes, or None: a tombstone in a compacted log."""

    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """((key, value or None), ...) in order; a key may repeat."""

    def copy(self) -> Record:
        """Return the same record, holding only its own key, value and headers."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[type[Record], tuple[Any, ...]]: ...

@final
class BatchView:
    """One record batch, read in place."""

    def __new__(cls, source: Buffer) -> Self: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int:
        """Offset of the last record that the batch had when it was written."""

    @property
    def next_offset(self) -> int: ...
    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""

    @property
    def leader_epoch(self) -> int: ...
    @property
    def crc(self) -> int: ...
    @property
    def attributes(self) -> int: ...
    @property
    def codec(self) -> Codec:
        """The `Codec`; raises UnsupportedCodecError for an unknown number."""

    @property
    def timestamp_type(self) -> TimestampType: ...
    @property
    def is_transactional(self) -> bool: ...
    @property
    def is_control(self) -> bool: ...
    @property
    def delete_horizon_ms(self) -> int | None:
        """Time from which a compaction may remove the tombstones and markers in this batch, or None."""

    @property
    def base_timestamp_ms(self) -> int: ...
    @property
    def max_timestamp_ms(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences wrap from 2^31-1 to 0. -1 without a producer."""

    @property
    def record_count(self) -> int: ...
    @property
    def marker(self) -> tuple[Marker, int] | None:
        """(`Marker`, coordinator epoch) of a transaction marker, else None."""

    def check(self) -> Self:
        """Compare the CRC-32C with the bytes."""

    def payload(self, limit: int = 67_108_864) -> bytes:
        """Return the records as bytes, decompressed to at most ``limit`` bytes."""

    def validate(self, *, contiguous: bool = True, limit: int = 67_108_864) -> tuple[int, int, int]:
        """Walk every record; return (least timestamp, greatest timestamp, records without key)."""

    def __iter__(self) -> Iterator[Record]: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def run_of(
    data: bytes,
    start_offset: int,
    end_offset: int,
    since_ms: int | None,
    until_ms: int | None,
    topic: str,
    partition: int,
    path: str | None,
    position: int,
    aborted: Iterable[tuple[int, int, int] | tuple[int, int, int, int]],
    committed_only: bool,
    limit: int,
    next_offset: int,
    marks: tuple[int, int, int],
) -> Batches:
    """Return `Batches` of bytes that a segment has read and checked; for a log's reader, once for every read."""

@disjoint_base
class Batches:
    """Whole record batches as stored in a log, with the range that a reader may see."""

    def __init__(
        self,
        data: bytes,
        *,
        start_offset: int = 0,
        end_offset: int = 9_223_372_036_854_775_807,
        since_ms: int | None = None,
        until_ms: int | None = None,
        topic: str = "",
        partition: int = -1,
        path: str | None = None,
        position: int = 0,
        aborted: Iterable[tuple[int, int, int] | tuple[int, int, int, int]] = (),
        committed_only: bool = False,
        limit: int = 67_108_864,
        check: bool = True,
        next_offset: int = -1,
    ) -> None: ...
    @property
    def data(self) -> bytes: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def limit(self) -> int: ...
    @property
    def path(self) -> str | None: ...
    @property
    def position(self) -> int: ...
    @property
    def aborted(self) -> tuple[tuple[int, int, int] | tuple[int, int, int, int], ...]: ...
    @property
    def committed_only(self) -> bool: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def size(self) -> int:
        """Bytes of all batches."""

    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    def __bool__(self) -> bool: ...
    def batches(self) -> list[BatchView]:
        """Return every batch, control and aborted ones included, as `BatchView`s."""

    def __iter__(self) -> RecordIterator: ...
    def damage(self) -> tuple[RecordError, int, int] | None:
        """Find the first batch that cannot be read: return (error, position, size) in ``data``, or None."""

    def between(self, start: int, stop: int, next_offset: int) -> Batches:
        """Return the batches from one position in ``data`` to another, with the same bounds."""

    def within(self, since_ms: int | None, until_ms: int | None) -> Batches:
        """Return the run with only the records between two times, on the same bytes; ``until_ms`` is exclusive."""

    def first(self, count: int) -> Batches:
        """Return the run up to its ``count``-th visible record, or all of it: its bytes are not copied."""

    def records(self) -> list[Record]:
        """Return every visible record, in a list."""

    def values(self) -> list[bytes | None]:
        """Return the values of the visible records, in a list: the fastest way to Python objects."""

    def tuples(self) -> list[tuple[int, int, bytes | None, bytes | None]]:
        """Return (offset, timestamp_ms, key, value) of the visible records, in a list."""

    def count(self) -> int:
        """Count the visible records. Whole batches inside the bounds are not decoded."""

    def first_at_or_after(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Return (timestamp, offset) of the first visible record with at least that timestamp, or None."""

@final
class RunReader:
    """A cursor over the visible records of a run. One user at a time."""

    def __new__(cls, run: Batches) -> Self: ...

@final
class RecordIterator:
    """The visible records of a run, one by one. It has a position, and can be stopped on the way."""

    def __new__(cls, run: Batches) -> Self: ...
    @property
    def position(self) -> int:
        """The offset after the last record that was handed out; at the end, that of the next read."""

    @property
    def exhausted(self) -> bool:
        """Return whether the end of the run was reached."""

    @property
    def failed(self) -> bool:
        """Return whether a step is running or did not finish, by damage or a stop; no record follows then."""

    def allow(self, count: int) -> Self:
        """Hand out ``count`` more records at most, then stop until the next call of this."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> Record: ...

@final
class RecordChain:
    """The records of many runs in order, from an iterator of `RecordIterator`s."""

    def __new__(cls, runs: Iterable[RecordIterator]) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Record: ...

def stamp(batch: Buffer, base_offset: int, leader_epoch: int) -> None:
    """Set base offset and leader epoch in a writable batch; the CRC does not cover them."""

def stamp_run(batches: Buffer, base_offset: int, leader_epoch: int) -> int:
    """Run `stamp` on every batch of a run, offsets rising from base_offset; -1 keeps them."""

def restamp_time(batch: Buffer, max_timestamp_ms: int, append_time: bool) -> None:
    """Set the greatest timestamp, whether the log gave it, and the new CRC, in a writable batch."""

def stamp_producer(
    batches: Buffer,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    *,
    transactional: bool = False,
    append_time_ms: int = -1,
) -> int:
    """Set the producer of every batch of a run, sequences rising from base_sequence; CRCs are set again."""

def with_codec(view: BatchView, codec: int, payload: bytes) -> bytearray:
    """Return a copy of a batch whose records are ``payload``, already compressed with ``codec``."""
