from typing import NamedTuple

from typing_extensions import Buffer, disjoint_base

from logstore.errors import LogstoreError
from logstore.log._partition_log import PartitionLog
from logstore.log._producers import Producers
from logstore.records import AbortedTransaction, Marker

class Piece(NamedTuple):
    """Batches that one segment takes, in one write."""

    batch_count: int
    position: int  #: of the first one in the run
    size: int
    record_count: int
    next_offset: int

@disjoint_base
class ReplicatedRun:
    """The good batches at the beginning of a run, and the error of the first bad one.

    Owns: an export of the buffer until `release`, the headers' fields, and how many batches were taken.
    """

    def __init__(self, data: Buffer) -> None: ...
    @property
    def bytes(self) -> memoryview: ...
    @property
    def count(self) -> int: ...
    @property
    def taken(self) -> int: ...
    @property
    def error(self) -> LogstoreError | None: ...
    @property
    def markers(self) -> dict[int, tuple[Marker, int]]: ...
    @property
    def first_offset(self) -> int:
        """Base offset of the next batch to take."""

    @property
    def left(self) -> int:
        """Bytes of the batches that are not taken yet."""

    def check_follows(self, name: object, end_offset: int, latest_epoch: int) -> None:
        """Raise if the next batch does not continue a log that ends there and has seen that epoch; under its lock.

        Raises:
            UnexpectedOffsetError: it begins below the log end offset.
            FencedLeaderEpochError: its leader epoch is below that of the log's newest batch.
        """

    def end_before_wrong(self, end_offset: int, leader_epoch: int, is_contiguous: bool) -> None:
        """End the run before a batch of a newer epoch than the leader's, or before a gap if there must be none.

        ``end_offset`` is the log end offset. Neither the offset nor the epoch of a batch is under its CRC-32C.
        """

    def piece(self, log: PartitionLog) -> Piece | None:
        """Return the next batches that the active segment takes, None if it has to be rolled first.

        An empty segment takes any batch: no limit of this log refuses what its leader stores.
        """

    def epochs(self, count: int) -> list[tuple[int, int]]:
        """Return epoch and base offset of the first batch of each epoch among the next ``count``."""

    def has_producers(self, count: int) -> bool:
        """Return whether a producer has written one of the next ``count`` batches."""

    def apply(self, producers: Producers, count: int, now_ms: int) -> list[AbortedTransaction]:
        """Record the next ``count`` batches in the producer state; return the transactions that they abort."""

    def take(self, count: int) -> None:
        """Count the next batches as written."""

    def release(self) -> None:
        """Give the buffer back; the run cannot be used any more."""
