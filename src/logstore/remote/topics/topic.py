"""A topic of a cluster: appends to its brokers, and what reads it as every topic is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from logstore.batch._encode import Encoder, timestamp_of
from logstore.client.backend.partitions import Partition
from logstore.client.scan.encoding import encode_by_key
from logstore.client.scan.topic_scan import PartitionsOf
from logstore.client.topic import AnyTopic
from logstore.clock import Clock
from logstore.config.log import LogConfig
from logstore.errors import PolicyViolationError, UnknownPartitionError, UnsupportedOperationError
from logstore.records import Ack, Acks, AppendResult, Codec, Isolation, RecordMetadata, TopicPartition, acks_of
from logstore.remote.backend.backend import RemoteBackend
from logstore.remote.client import Client
from logstore.remote.topic_settings import TopicSettings
from logstore.remote.topics.appends import Appends

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from logstore.batch.moments import Time
    from logstore.batch.record_types import Headers, Records


#: How many partitions a scan reads at once.
_SCANNED_AT_ONCE = 8


class RemoteTopic(AnyTopic):
    """A topic of a cluster, as `RemoteStore` returns it."""

    def __init__(
        self,
        client: Client,
        backend: RemoteBackend,
        appends: Appends,
        settings: TopicSettings,
        name: str,
        topic_id: str,
        store: Any,
    ) -> None:
        super().__init__(backend, name, topic_id, store)
        self._client = client
        self._backend = backend
        self._appends = appends
        self._settings = settings
        self._isolation = client.config.isolation

    @property
    def partition_count(self) -> int:
        """The number of partitions, at most ``metadata.max.age.ms`` ago."""
        return self._backend.facts(self.name, self.id).partitions

    @property
    def config(self) -> LogConfig:
        """The settings that hold for the topic's logs, as a broker tells them now."""
        return self._settings.all_of(self.name)

    def __getitem__(self, partition: int) -> Partition:
        """Return one partition; raises as `AnyTopic`."""
        return self._partition(partition)

    def _partition(self, number: int) -> Partition:
        return self._backend.partition(TopicPartition(self.name, number), self.id)

    @property
    def _clock(self) -> Clock:
        return self._backend.clock

    # -- reading

    def _scanned(self, partitions: Iterable[int] | None, isolation: Isolation) -> Mapping[int, Partition]:
        """Return all partitions by number. The ends of the given ones are asked for together."""
        count = self.partition_count
        chosen = range(count) if partitions is None else [each for each in partitions if each in range(count)]
        names = [TopicPartition(self.name, number) for number in chosen]
        return _ScannedPartitions(self, self._backend.ends(names, isolation))

    def _reads(self, max_bytes: int) -> tuple[int, int]:
        """Return the size of one read of a scan, and how many partitions it reads ahead: two reads of each."""
        most = self._client.config.fetch_max_bytes
        read_bytes = min(max_bytes, max(most // 2, 1))
        return read_bytes, max(1, min(_SCANNED_AT_ONCE, most // (2 * max(read_bytes, 1))))

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
        """Append one record, and wait for its acknowledgement; return its partition, offset and timestamp.

        Each call waits for a broker: send many records with a `Producer`, or together with `append_many`.
        On return the replicas have the record that the client's ``acks`` asks for, by default all in sync.
        ``acks`` must be what the client has; ``delivery.timeout.ms`` of the client bounds the wait, and not
        ``timeout_s``. A lost answer writes nothing twice.

        Raises:
            RecordTypeError, InvalidRecordError, InvalidTimestampError, RecordTooLargeError: the record
                cannot be written. Nothing is.
            UnknownTopicError, UnknownPartitionError: the topic or partition does not exist.
            DeliveryTimeoutError, BrokerError: a broker has not acknowledged it. It may have been written.
            UnsupportedOperationError: ``ack``, ``expect`` or other ``acks`` are given.
        """
        self._refuse(ack, acks, expect)
        count = self.partition_count
        number = self._choose(key, count) if partition is None else self._checked(partition, count)
        stamp = self._clock.now_ms() if timestamp is None else timestamp_of(timestamp)
        encoder = self._begin(None, stamp)
        encoder.add(value, key, stamp, headers)
        name = TopicPartition(self.name, number)
        result = self._appends.append({name: encoder})[name]
        given = stamp if result.timestamp_ms < 0 else result.timestamp_ms
        return RecordMetadata(self.name, number, result.first_offset, given)

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

        ``records``, ``partition``, ``timestamp`` and ``codec`` are those of a store's topic; without ``codec`` the
        client's ``compression.type`` holds. Everything is encoded and checked before the first byte is sent: bad
        records change nothing. The partitions' batches are sent together. As durable on return as `append`.

        Raises:
            PartialAppendError: some partitions have acknowledged, another one has not; it names them.
            and as `append`.
        """
        self._refuse(ack, None, expect)
        count = self.partition_count
        now_ms = self._clock.now_ms()
        stamp = now_ms if timestamp is None else timestamp_of(timestamp)
        if partition is not None:
            only = self._checked(partition, count)
            count, keyless = 1, 0
        else:
            only, keyless = 0, next(self._turn) % count
        encoders = encode_by_key(records, count, keyless, lambda _partition: self._begin(codec, stamp))
        batches = {
            TopicPartition(self.name, only + number): encoder.finish()
            for number, encoder in encoders.items()
            if encoder.pending_records
        }
        return {name.partition: result for name, result in self._appends.append(batches).items()}

    def _begin(self, codec: Codec | None, stamp_ms: int) -> Encoder:
        config, limits = self._backend.batch_rules([self.name])[self.name]
        own = self._client.config.codec if codec is None else codec
        chosen = config.codec if config.codec is not None else Codec(own or 0)
        return Encoder().begin(
            timestamp_ms=stamp_ms, codec=chosen, level=self._client.config.level_of(chosen), limits=limits
        )

    def _checked(self, partition: int, count: int) -> int:
        if type(partition) is int and 0 <= partition < count:
            return partition
        raise UnknownPartitionError(f"topic {self.name!r} has partitions 0 to {count - 1}, found {partition!r}")

    def _refuse(self, ack: object, acks: Acks | int | str | None, expect: object) -> None:
        where = f"topic {self.name!r} of {self._backend.location}"
        if ack is not None:
            raise UnsupportedOperationError(
                f"{where}: brokers say which replicas have a record, and not whether a disk has it; leave ack= "
                "out, and give acks= to connect()"
            )
        if expect is not None:
            raise UnsupportedOperationError(
                f"{where}: no broker compares an expected offset; leave expect= out, or append to a store"
            )
        if acks is not None and acks_of(acks) is not acks_of(self._client.config.acks):
            raise UnsupportedOperationError(
                f"{where}: appends wait for acks={self._client.config.acks}, as the client was opened; give "
                f"acks={acks!r} to connect()"
            )

    def log(self, partition: int) -> NoReturn:
        """Refuse: a cluster hands out no log."""
        raise UnsupportedOperationError(
            f"topic {self.name!r} of {self._backend.location}: a log is files of a store; read topic[{partition}], "
            "and write with append_many(partition=)"
        )

    # -- deleting

    def delete_records(self, before: Mapping[int, int]) -> dict[int, int]:
        """Delete the records below an offset, by partition; -1 stands for all that consumers may see.

        Returns the log start offset of each partition named. May be repeated.

        Raises:
            PolicyViolationError: the topic is compacted only, where old offsets may be newest values.
            UnknownTopicError, UnknownPartitionError, OffsetOutOfRangeError, BrokerError: a partition was refused;
                others may be done.
        """
        if not self.config.deletes:
            raise PolicyViolationError(
                f"topic {self.name!r} is compacted: delete keys by appending tombstones, or add delete to its "
                "cleanup.policy"
            )
        wanted = {TopicPartition(self.name, number): offset for number, offset in before.items()}
        return {name.partition: start for name, start in self._client.delete_records(wanted).items()}

    def __repr__(self) -> str:
        return f"<RemoteTopic {self.name!r} of {self._backend.location}>"


class _ScannedPartitions(PartitionsOf):
    """The partitions of a topic, with the ends that a scan was told of some of them."""

    def __init__(self, topic: RemoteTopic, ends: Mapping[TopicPartition, tuple[int, int]]) -> None:
        super().__init__(topic)
        self._name = topic.name
        self._open = topic._backend.partition
        self._id = topic.id
        self._ends = ends

    def __getitem__(self, number: int) -> Partition:
        name = TopicPartition(self._name, number)
        return self._open(name, self._id, self._ends.get(name))
