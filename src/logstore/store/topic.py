"""One topic of a store: appending to it, reading it, deleting from its beginning.

A topic is a handle: it keeps a name and an id, and asks the store for partitions. It holds neither
bytes nor files; for many records one by one use a `Producer`. Any thread may use it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from logstore.accumulator.acknowledging import no_node
from logstore.batch._encode import timestamp_of
from logstore.client.backend.source import Acknowledger, Opened, Source
from logstore.client.topic import AnyTopic
from logstore.clock import Clock
from logstore.config.log import LogConfig
from logstore.errors import (
    InvalidRecordError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    ReadOnlyError,
)
from logstore.log import Log
from logstore.records import Ack, Acks, AppendResult, Codec, Isolation, RecordMetadata, acks_of
from logstore.store.catalog.partitions import LentLog, Partitions
from logstore.store.catalog.topics import TopicTable
from logstore.topic_names import INTERNAL, check_writable_by_users

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from logstore.batch._batch import Record
    from logstore.batch.moments import Time
    from logstore.batch.record_types import Headers, Records


class TopicHost(Source, Protocol):
    """The store of a topic, with what an append asks of it without a call of Python."""

    partitions: Partitions
    table: TopicTable
    replicas: Acknowledger | None


class Topic(AnyTopic):
    """A topic of an open store: a sequence of logs, one for each partition.

    ``topic[2]`` is one of them, ``len(topic)`` their number, ``2 in topic`` whether it exists, and iterating
    gives them in order.

    >>> with logstore.open(tmp / "data") as store:
    ...     flights = store.create_topic("flights", partitions=4)
    ...     at = flights.append(b"AA 1141", key=b"AA")
    ...     [record.value for record in flights.read(at.partition)]
    [b'AA 1141']
    """

    def __init__(self, host: TopicHost, name: str, topic_id: str, store: Any = None) -> None:
        super().__init__(host, name, topic_id, store)
        self._host: TopicHost = host
        #: What `append` asks of the host, without a call of Python for each record.
        self._table, self._open_log = host.table, host.partitions.found
        #: The topics as they were known when its partitions were last counted, and their number: see `_count`.
        self._counted: tuple[object, int] = (None, 0)
        self._is_usual = name not in INTERNAL and not host.read_only

    # -- properties

    @property
    def partition_count(self) -> int:
        """The number of partitions now; it can only rise."""
        return self._host.partition_count(self.name, self.id)

    @property
    def config(self) -> LogConfig:
        """The settings that hold for the topic's logs: its own, and the store's for all others."""
        return self._host.topic_config(self.name, self.id)

    @property
    def partitions(self) -> tuple[Opened, ...]:
        """The log of every partition, in order. They belong to the store: do not close them."""
        return tuple(self[number] for number in range(self.partition_count))

    def __getitem__(self, partition: int) -> Opened:
        """Return the log of one partition; it keeps the store open, as the topic does.

        Raises:
            UnknownTopicError: the topic was deleted.
            UnknownPartitionError: it has no such partition.
        """
        return self._host.partition(self.name, partition, topic_id=self.id)

    @property
    def _clock(self) -> Clock:
        return self._host.clock

    def _at_hand(self, number: int) -> Opened | None:
        """Return the log of a partition if it is open, and no topic has changed since this very one was found."""
        if self._counted[0] is self._table.catalogue and self._is_usual and type(number) is int:
            return self._open_log((self.name, number))
        return None

    def _partition(self, number: int) -> Opened:
        known = self._at_hand(number)
        if known is not None:
            return known
        found = self._host._log_of(self.name, number, self.id)
        if self._is_usual:
            self._count()
        return found

    # -- appending

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
        """Append one record; return its partition, offset and timestamp.

        ``value`` and ``key`` are buffers or None. Without ``partition``, a key decides by Kafka's hash,
        and records without one go to the partitions in turn. With ``expect`` the record is written only
        if it gets exactly that offset, else nothing is. With ``ack="written"`` it survives the process on
        return, with ``"synced"`` power loss; the default is the topic's ``logstore.ack``.

        ``acks`` is for a topic that has replicas (`logstore.replication.Node`), and counts machines where ``ack``
        says what this machine's disk has. With ``acks="all"`` every replica in sync has the record on return, at
        least ``min.insync.replicas`` of them; ``timeout_s`` bounds the wait. With 1, the default, the leader alone
        has it. Without replicas it has no effect.

        Raises:
            NotLeaderError: the topic has replicas, and this node does not lead the partition, or no longer.
            NotEnoughReplicasError, NotEnoughReplicasAfterAppendError, DeliveryTimeoutError: with ``acks="all"``,
                too few replicas are in sync (nothing is written), were so before the acks, or have not answered in
                time (the record is in the leader's log in both cases, and may be committed later).
            RecordTypeError, InvalidRecordError, InvalidTimestampError, RecordTooLargeError: the record
                cannot be written. Nothing is.
            UnexpectedOffsetError: with ``expect``, another record came first. Nothing is written.
            UnknownTopicError, UnknownPartitionError: the topic or partition does not exist.
            DiskFullError: there is no space. Nothing is written; retry when there is.
            StorageFailedError: this or an earlier write or flush failed; reopen the store.
            ReadOnlyError: the store is open read-only.
        """
        known, count = self._counted
        # A closed store has no open log, and a log refuses a process that was forked from its own.
        if known is self._table.catalogue and self._is_usual:
            if partition is None:
                partition = 0 if count == 1 else self._choose(key, count)
            is_plain = timestamp is None and headers is None and ack is None and acks is None and expect is None
            if is_plain and type(partition) is int:
                name = self.name
                opened: Any = self._open_log((name, partition))
                if opened is not None:
                    written: RecordMetadata | None = opened._state.append_one(
                        value, key, name, partition, opened._writer
                    )
                    if written is not None:
                        return written
        count = self._count()
        if partition is None:
            partition = 0 if count == 1 else self._choose(key, count)
        stamp = self._host.clock.now_ms() if timestamp is None else timestamp_of(timestamp)
        log = self._log_to_write(partition)
        records: Records = [(key, value, stamp, headers)]
        if acks is None:
            result = log.append(records, ack=ack, expect=expect)
        else:
            result = self._acknowledged(log, acks, timeout_s, lambda: log.append(records, ack=ack, expect=expect))
        given = stamp if result.timestamp_ms < 0 else result.timestamp_ms
        return RecordMetadata(self.name, partition, result.first_offset, given)

    def _acknowledged(
        self, log: Log, acks: Acks | int | str, timeout_s: float, append: Callable[[], AppendResult]
    ) -> AppendResult:
        """Append, and wait for the replicas of the log if it has some."""
        wanted = acks_of(acks)
        if not log.maintenance.config.replicated:
            return append()
        replicas = self._host.replicas
        if replicas is None:
            raise no_node(log.name)
        return replicas.acknowledged(log.name, wanted, timeout_s, append)

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
        """Append many records at once, in as few batches as they need; return the offsets by partition.

        ``records`` are those of `Log.append`: a list of values, of (key, value), of (key, value, timestamp,
        headers) or of `Record`s. An Arrow array or table and a numpy array are accepted too. Without
        ``partition``, keys decide by Kafka's hash; those without a key go together to one partition, with each
        call the next one. Order is kept within each partition.

        Everything is encoded and checked before the first byte is written: bad records change nothing.
        Without records (an empty list, frame or array) nothing is written, and the answer is empty.
        Partitions are written one after the other, or with ``"synced"`` written and synced side by side.

        Raises:
            PartialAppendError: the disk refused after some partitions were written; it names them.
            and as `append`.
        """
        count = self._count() if partition is None else 1
        if partition is None and count > 1:
            from logstore.store.bulk_append import append_by_key  # here: only this call needs it; compiled

            if expect is not None:
                raise InvalidRecordError(
                    f"topic {self.name!r} has several partitions, each with offsets of its own: name the one that "
                    "is expected to end there, with partition="
                )
            return append_by_key(
                self,
                records,
                count=count,
                now_ms=self._host.clock.now_ms(),
                keyless=next(self._turn) % count,
                timestamp=timestamp,
                codec=codec,
                ack=ack,
            )
        number = 0 if partition is None else partition
        result = self._log_to_write(number).append(
            records, timestamp=timestamp, codec=codec, ack=ack, expect=expect
        )
        return {number: result} if result.last_offset >= result.first_offset else {}

    def log(self, partition: int) -> Log:
        """Return the log of one partition, to be written; raises as `append`."""
        return LentLog(self._log_to_write(partition), self._host)

    def _log_to_write(self, partition: int) -> Log:
        """Return a log as `log` does, for the time of a call: this one does not keep the store open."""
        known = self._at_hand(partition)
        if isinstance(known, Log):
            return known
        if not self._is_usual:
            check_writable_by_users(self.name)
        if type(partition) is int and 0 <= partition < self._count():
            log = self._host._log_there(self.name, partition)
        else:
            log = self._host._log_of(self.name, partition, self.id)
        if not isinstance(log, Log):
            raise ReadOnlyError(
                "the store is open read-only; open it without read_only=True to append", path=log.path
            )
        return log

    def _count(self) -> int:
        """Return the number of partitions, counted again after a change of any topic.

        This one may have been deleted then, or have grown. A store that is open read-only, whose topics another
        process changes, gives no log to write to, whatever their number.
        """
        known = self._host._topics_known()
        counted, count = self._counted
        if counted is not known:
            count = self.partition_count
            self._counted = known, count
        return count

    # -- reading

    def record_at(self, partition: int, offset: int, *, isolation: Isolation | str | None = None) -> Record | None:
        """Return the record of one partition at one offset; see `AnyTopic.record_at`. Mostly one compiled call."""
        # A closed store has no open log, and a log refuses a process that was forked from its own.
        if isolation is None and self._is_usual and self._counted[0] is self._table.catalogue:
            opened: Any = self._open_log((self.name, partition)) if type(partition) is int else None
            if opened is not None:
                found: Record | None = opened._state.record_at(offset, False, opened.name)
                if found is not None:
                    return found
        return super().record_at(partition, offset, isolation=isolation)

    # -- deleting

    def delete_records(self, before: Mapping[int, int]) -> dict[int, int]:
        """Delete the records below an offset, by partition; -1 stands for all that consumers may see.

        Durable on return. Returns the log start offset of each partition named.

        Raises:
            PolicyViolationError: the topic is compacted only, where old offsets may be newest values.
            UnknownPartitionError, OffsetOutOfRangeError: nothing was deleted anywhere.
            DiskFullError, StorageFailedError: what was deleted until then stays deleted.
        """
        if "delete" not in self.config.cleanup_policy.split(","):
            raise PolicyViolationError(
                f"topic {self.name!r} is compacted: delete keys by appending tombstones, or add delete to its "
                "cleanup.policy"
            )
        wanted = []
        for partition, offset in before.items():
            log = self._log_to_write(partition)
            end = log.high_watermark
            if not -1 <= offset <= end:
                raise OffsetOutOfRangeError(
                    f"{log.name}: cannot delete up to {offset}, the high watermark is {end}",
                    offset=offset,
                )
            wanted.append((partition, log, end if offset == -1 else offset))
        return {partition: log.delete_before(offset) for partition, log, offset in wanted}

    def __repr__(self) -> str:
        return f"<Topic {self.name!r} of {self._host.path!r}>"
