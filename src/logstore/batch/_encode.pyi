from collections.abc import Iterable
from typing import Self, final

from typing_extensions import Buffer

from logstore.batch.record_types import Headers, RecordLike, Timestamp

def timestamp_of(value: Timestamp) -> int:
    """Convert an int or an aware datetime to milliseconds since 1970."""

@final
class Encoder:
    """An encoder of record batches v2, one after the other in one buffer."""

    def __new__(cls) -> Self: ...
    @property
    def record_count(self) -> int: ...
    @property
    def batch_count(self) -> int: ...
    @property
    def max_timestamp_ms(self) -> int: ...
    @property
    def min_timestamp_ms(self) -> int: ...
    @property
    def null_keys(self) -> int: ...
    @property
    def appended_at(self) -> int: ...
    @property
    def cuts(self) -> int: ...
    @property
    def pending_bytes(self) -> int:
        """Bytes in the buffer, the open batch included."""

    @property
    def pending_records(self) -> int:
        """Records in the buffer, the open batch included."""

    def begin(
        self,
        *,
        timestamp_ms: int,
        codec: int = 0,
        level: int = 0,
        max_batch_bytes: int = 1_048_588,
        limits: tuple[tuple[str, int], ...] = (),
        append_time: bool = False,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
        control: bool = False,
        keep_offsets: bool = False,
    ) -> Self:
        """Discard the contents of the buffer and start from scratch."""

    def renew(self, timestamp_ms: int) -> Self:
        """Begin as `begin` does, with the settings of the last one."""

    def number(self, producer_id: int, producer_epoch: int, base_sequence: int) -> Self:
        """Give the batches that are not closed yet a producer id and the sequence of their first record."""

    def add(
        self,
        value: Buffer | None,
        key: Buffer | None = None,
        timestamp_ms: Timestamp | None = None,
        headers: Headers | None = None,
    ) -> None:
        """Add one record."""

    def add_all(self, records: Iterable[RecordLike]) -> None:
        """Add every record of an iterable: values, (key, value, timestamp, headers) or `Record`s."""

    def finish(self) -> Self:
        """Close the open batch; the buffer now holds `batch_count` whole batches with base offset 0."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __release_buffer__(self, buffer: memoryview, /) -> None: ...

def encode(
    records: Iterable[RecordLike],
    *,
    timestamp_ms: int = 0,
    codec: int = 0,
    level: int = 0,
    max_batch_bytes: int = 0x7FFFFFFF,
    append_time: bool = False,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """Encode records as record batches with base offset 0; one batch unless it would be too large."""

def encode_marker(
    marker: int, coordinator_epoch: int, producer_id: int, producer_epoch: int, timestamp_ms: int
) -> bytes:
    """Encode a control batch that ends a transaction (0 abort, 1 commit)."""
