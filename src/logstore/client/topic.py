"""A topic as its users hold it, of a store or of a cluster: what reads it is the same on both sides.

`AnyTopic` keeps a name and an id, and asks for partitions when they are needed. How records are appended and
deleted stands with each side. Imports nothing of files and sockets.
"""

from __future__ import annotations

import itertools
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from logstore.batch.moments import moment_of
from logstore.batch.runs import DEFAULT_READ_BYTES
from logstore.errors import InvalidRecordError
from logstore.records import Ack, Acks, AppendResult, Codec, Isolation, RecordMetadata, TimestampOffset

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from logstore.batch._batch import Batches, Record
    from logstore.batch.moments import Time, When
    from logstore.batch.record_types import ArrowArray, ArrowStream, Headers, Records
    from logstore.client.backend.partitions import Partition
    from logstore.client.scan.topic_scan import Bound, TopicScan
    from logstore.clock import Clock
    from logstore.columns.value_schema import ValueSchema
    from logstore.config.log import LogConfig

_UNCOMMITTED = Isolation.READ_UNCOMMITTED

#: The next partition for a record without a key: one counter for each topic, whichever handle is used.
_turns: weakref.WeakKeyDictionary[Any, dict[str, itertools.count[int]]] = weakref.WeakKeyDictionary()


class AnyTopic(ABC):
    """A topic of an open store (`logstore.open`) or of a cluster (`logstore.connect`). Any thread may use it.

    ``topic[2]`` is one of its partitions, ``len(topic)`` their number, ``2 in topic`` whether it exists, and
    iterating gives them in order.

    Once the topic was deleted, or deleted and created again, its calls raise `UnknownTopicError`, on both sides; so
    do the reads of partitions and scans that it gave before.
    """

    def __init__(self, home: Any, name: str, topic_id: str, store: Any) -> None:
        self.store = store  #: as its user has opened it
        self.name = name
        self.id = topic_id  #: differs from that of an earlier or later topic of the same name
        self._turn = _turns.setdefault(home, {}).setdefault(topic_id or name, itertools.count())

    # -- of each side

    @property
    @abstractmethod
    def partition_count(self) -> int:
        """The number of partitions now; it can only rise."""

    @property
    @abstractmethod
    def config(self) -> LogConfig:
        """The settings that hold for the topic's logs: its own, and the defaults for all others."""

    @abstractmethod
    def __getitem__(self, partition: int) -> Partition:
        """Return one partition.

        Raises:
            UnknownTopicError: the topic was deleted.
            UnknownPartitionError: it has no such partition.
        """

    @property
    @abstractmethod
    def _clock(self) -> Clock: ...

    @abstractmethod
    def _partition(self, number: int) -> Partition:
        """Return one partition for the time of a call; raises as ``topic[number]``."""

    @abstractmethod
    def append(
        self,
        value: Buffer | None,
        key: Buffer | None = None,
        *,
        partition: int | None = None,
        timestamp: Time | None = None,
        headers: Headers | None = None,
        ack: Ack | str | None = None,
        acks: Acks | int | str | None = None,
        timeout_s: float = 30.0,
        expect: int | None = None,
    ) -> RecordMetadata:
        """Append one record; return its partition, offset and timestamp."""

    @abstractmethod
    def append_many(
        self,
        records: Records,
        *,
        partition: int | None = None,
        timestamp: Time | None = None,
        codec: Codec | None = None,
        ack: Ack | str | None = None,
        expect: int | None = None,
    ) -> dict[int, AppendResult]:
        """Append many records at once, in as few batches as they need; return the offsets by partition."""

    @abstractmethod
    def delete_records(self, before: Mapping[int, int]) -> dict[int, int]:
        """Delete the records below an offset, by partition; -1 stands for all that consumers may see."""

    #: The isolation of a read or scan that names none.
    _isolation = _UNCOMMITTED

    def _chosen(self, isolation: Isolation | str | None) -> Isolation:
        return self._isolation if isolation is None else Isolation(isolation)

    def _scanned(self, partitions: Iterable[int] | None, isolation: Isolation) -> Mapping[int, Partition]:
        """Return all partitions by number, for a scan of the given ones; each is opened when it is asked for."""
        from logstore.client.scan.topic_scan import PartitionsOf

        return PartitionsOf(self)

    def _reads(self, max_bytes: int) -> tuple[int, int]:
        """Return the size of one read of a scan, and how many partitions it reads ahead."""
        return max_bytes, 0

    # -- the partitions

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """Every partition, in order."""
        return tuple(self[number] for number in range(self.partition_count))

    def __len__(self) -> int:
        return self.partition_count

    def __iter__(self) -> Iterator[Partition]:
        """Iterate over the partitions there are now, in order; each is opened when its turn comes."""
        return (self[number] for number in range(self.partition_count))

    def __contains__(self, partition: object) -> bool:
        """Return whether there is a partition of this number."""
        return not isinstance(partition, bool | float) and partition in range(self.partition_count)

    def _choose(self, key: Any, count: int) -> int:
        """Return the partition for a record: by its key, or the next one in turn."""
        if key is None:
            return next(self._turn) % count
        from logstore.batch._key_hash import partition_of

        return partition_of(key, count)

    # -- appending

    def append_arrow(
        self,
        data: ArrowArray | ArrowStream,
        *,
        partition: int | None = None,
        timestamp: Time | None = None,
        codec: Codec | None = None,
        ack: Ack | str | None = None,
    ) -> dict[int, AppendResult]:
        """Append Arrow data: an array of values, or a table or stream with columns key, value, timestamp, headers.

        Anything with ``__arrow_c_array__`` or ``__arrow_c_stream__`` will do. Otherwise as `append_many`.
        """
        if not (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")):
            raise InvalidRecordError(
                f"append_arrow takes Arrow data (with __arrow_c_stream__ or __arrow_c_array__), found "
                f"{type(data).__name__}; use append_many for Python objects"
            )
        return self.append_many(data, partition=partition, timestamp=timestamp, codec=codec, ack=ack)

    # -- reading

    def read(
        self,
        partition: int = 0,
        offset: int | None = None,
        *,
        max_bytes: int = DEFAULT_READ_BYTES,
        isolation: Isolation | str | None = None,
        timeout_s: float = 0.0,
    ) -> Batches:
        """Return record batches of one partition from ``offset``, by default its log start; see `Log.read`.

        Iterating the result gives the records; its ``next_offset`` is where the next read continues.

        Raises:
            OffsetOutOfRangeError: ``offset`` is below the log start offset or above the end.
            CorruptRecordError: a stored batch is damaged; names file and position.
            UnknownTopicError, UnknownPartitionError: the topic or partition does not exist.
        """
        found = self._partition(partition)
        start = found.log_start_offset if offset is None else offset
        return found.read(start, max_bytes=max_bytes, isolation=self._chosen(isolation), timeout_s=timeout_s)

    def record_at(self, partition: int, offset: int, *, isolation: Isolation | str | None = None) -> Record | None:
        """Return the record of one partition at one offset, or None if there is none; see `Log.record_at`.

        Raises:
            OffsetOutOfRangeError: ``offset`` is below the log start offset, or at the end or above it.
            CorruptRecordError: the stored batch is damaged; names file and position.
            UnknownTopicError, UnknownPartitionError: the topic or partition does not exist.
        """
        if isolation is None:
            isolation = self._isolation
        elif isolation is not _UNCOMMITTED:
            isolation = Isolation(isolation)
        return self._partition(partition).record_at(offset, isolation=isolation)

    def offset_for_time(
        self, timestamp: When, *, isolation: Isolation | str | None = None
    ) -> dict[int, TimestampOffset | None]:
        """Return each partition's first record that is at least so new, or None; see `Log.offset_for_time`."""
        moment = moment_of(timestamp, self._clock)
        chosen = self._chosen(isolation)
        return {
            number: self._partition(number).offset_for_time(moment, isolation=chosen)
            for number in range(self.partition_count)
        }

    def scan(
        self,
        *,
        partitions: Iterable[int] | int | None = None,
        start: Bound = None,
        end: Bound = None,
        since: When | None = None,
        until: When | None = None,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        isolation: Isolation | str | None = None,
        value_schema: ValueSchema | None = None,
        on_error: str = "raise",
        views: bool = False,
        max_bytes: int = DEFAULT_READ_BYTES,
        on_damage: str = "raise",
    ) -> TopicScan:
        """Read the topic as a table: an Arrow stream, records, numpy columns or a count; bounded and lazy.

        The range is fixed by this call; see `TopicScan` for the arguments, for the order of the records and for the
        bound of memory. The partitions of a cluster are read in parallel, unless ``limit`` is given.

        Raises:
            UnknownTopicError, UnknownPartitionError: the topic or partition does not exist.
            OffsetOutOfRangeError: a start or end is outside of its partition.
            InvalidTimestampError, RecordTypeError: ``since`` or ``until`` is no time.
            ValueError: a column or a word for an offset is unknown.
            UnsupportedOperationError: damage is to be skipped, in a cluster.
        """
        from logstore.client.scan.topic_scan import TopicScan

        if partitions is not None:
            partitions = [partitions] if isinstance(partitions, int) else list(partitions)
        read_bytes, at_once = self._reads(max_bytes)
        isolation = self._chosen(isolation)
        return TopicScan(
            self.name,
            self._scanned(partitions, isolation),
            partitions=partitions,
            start=start,
            end=end,
            since=None if since is None else moment_of(since, self._clock),
            until=None if until is None else moment_of(until, self._clock),
            limit=limit,
            columns=columns,
            isolation=isolation,
            value_schema=value_schema,
            on_error=on_error,
            views=views,
            max_bytes=read_bytes,
            on_damage=on_damage,
            at_once=at_once,
        )
