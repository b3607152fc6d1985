"""Partitions as a reader sees them: structural types, which a log satisfies as it is.

They are protocols and no base classes, so that a log needs neither a wrapper nor an import of this package. The
partition of a cluster has the same attributes. Nothing here is compiled or does I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from logstore.batch._batch import Batches, Record
from logstore.batch.moments import When
from logstore.records import Isolation, LeftOut, TimestampOffset, TopicPartition


class Mark(Protocol):
    """An end that moves by itself."""

    @property
    def value(self) -> int:
        """The offset up to which records can be handed out without waiting."""


class RangeScan(Protocol):
    """A range of records that was fixed when it was made; it may be used any number of times."""

    @property
    def start_offset(self) -> int: ...
    @property
    def end_offset(self) -> int:
        """The end of the range, exclusive."""

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """What the latest use has skipped, with ``on_damage="skip"``."""

    def chunks(self) -> Iterator[Batches]:
        """Iterate over the range as runs of whole batches."""

    def __iter__(self) -> Iterator[Record]:
        """Iterate over the records of the range."""

    def count(self) -> int:
        """Count the records of the range: as many as reading it gives."""


class Partition(Protocol):
    """A partition as scans and lookups read it. A log satisfies it; calls of a cluster's ask its brokers."""

    @property
    def name(self) -> TopicPartition: ...

    @property
    def path(self) -> str:
        """The directory of a log; empty in a cluster."""

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""

    def end_offset(self, isolation: Isolation = ...) -> int:
        """Return the end of the records visible to a reader of that isolation, exclusive."""

    def offset_for_time(self, when: int, *, isolation: Isolation = ...) -> TimestampOffset | None:
        """Return the first record of that time in milliseconds or later; None if there is none."""

    def read(
        self, offset: int, *, max_bytes: int = ..., isolation: Isolation = ..., timeout_s: float = ...
    ) -> Batches:
        """Return whole batches from the one that holds ``offset`` on; empty if none has come in time.

        Raises:
            OffsetOutOfRangeError: ``offset`` is below the log start offset or above the end.
            CorruptRecordError: a stored or received batch is damaged; raised when it is read.
        """

    def record_at(self, offset: int, *, isolation: Isolation = ...) -> Record | None:
        """Return the record at one offset; None if there is none.

        Raises:
            OffsetOutOfRangeError: ``offset`` is below the log start offset, or at the end or above it.
        """

    def scan(
        self,
        start: int | None = ...,
        end: int | None = ...,
        *,
        since: When | None = ...,
        until: When | None = ...,
        isolation: Isolation = ...,
        max_bytes: int = ...,
        on_damage: str = ...,
        limit: int | None = ...,
    ) -> RangeScan:
        """Fix a range of records, by offset, by time or both; see `Log.scan`.

        Raises:
            OffsetOutOfRangeError: ``start`` or ``end`` is outside of the partition.
            UnsupportedOperationError: damage is to be skipped, in a cluster.
        """


class PartitionCursor(Protocol):
    """A partition of one consumer. No call waits for records.

    A store's cursor is the log itself. A cluster's has what was fetched ahead, and only `log_start_offset`,
    `offset_for_time` and `_end_of_epoch` ask a broker.
    """

    @property
    def name(self) -> TopicPartition: ...

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""

    def end_offset(self, isolation: Isolation) -> int:
        """Return the end of the records visible to a reader of that isolation, exclusive."""

    def offset_for_time(self, when: int, *, isolation: Isolation) -> TimestampOffset | None:
        """Return the first record of that time in milliseconds or later; None if there is none."""

    def read(self, offset: int, *, max_bytes: int, isolation: Isolation) -> Batches:
        """Return whole batches from the one that holds ``offset`` on; empty if none is there now.

        A store gives at most ``max_bytes``, but always the first batch whole; a cluster what one answer had. Their
        CRC is checked by their reader. The next read begins at ``next_offset`` of the result.

        Raises:
            OffsetOutOfRangeError: ``offset`` is below the log start offset or above the end.
            CorruptRecordError: a stored or received batch is damaged.
            UnknownTopicError: the topic is gone, or another one has its name.
        """

    def _sought(self, offset: int, epoch: int) -> None:
        """Hear that the next read begins at an offset, whatever was handed out before; does no I/O.

        ``epoch`` is the leader epoch of the record before it, -1 if it is not known: a log without that record is
        read from where its epoch has ended.
        """

    def _readable_end(self, isolation: Isolation) -> int:
        """Return an offset at which `read` has nothing to give now, and raises nothing; does no I/O.

        Of a store it is the end of the visible records, of a cluster the end of what was fetched.
        """

    def _live_end(self, isolation: Isolation) -> Mark | None:
        """Return what `_readable_end` gives as a mark that moves; None if it has to be asked for."""

    def _epoch_before(self, offset: int) -> int:
        """Return the leader epoch of the record before an offset; -1 if unknown."""

    def _end_of_epoch(self, epoch: int) -> int | None:
        """Return the offset at which the records of a leader epoch end; None for an unknown epoch."""
