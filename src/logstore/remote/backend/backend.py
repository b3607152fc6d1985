"""Back end over the brokers of a cluster: the contract of `logstore.client.backend` by Kafka's protocol."""

from __future__ import annotations

import atexit
import dataclasses
import logging
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Self

from logstore.accumulator._batcher import BatchResult
from logstore.client.backend.backend import Backend, OneRound
from logstore.client.backend.batch_appends import BatchAppends, BatchRules
from logstore.client.backend.batch_writer import BatchWriter
from logstore.client.backend.facts import TopicFacts
from logstore.client.backend.fetcher import PartitionFetcher
from logstore.client.backend.group_offsets import GroupOffsets
from logstore.client.backend.members import ReaderMember, ReaderMembers, WriterMember, WriterMembers
from logstore.client.backend.membership import GroupMembership
from logstore.client.backend.partitions import Partition
from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.config.client import ConsumerConfig, ProducerConfig
from logstore.config.log import LogConfig
from logstore.config.remote import ClusterConsumerConfig, RemoteProducerConfig, WireConfig
from logstore.config.schema import Setting
from logstore.errors import LogstoreError, UnknownPartitionError, UnknownTopicError
from logstore.io._files import fork_generation
from logstore.io._interrupts import shielded
from logstore.io._notifier import Notifier
from logstore.records import Isolation, TimestampOffset, TopicPartition
from logstore.remote.backend.batch_writer import RemoteBatchWriter
from logstore.remote.backend.fetcher import RemoteFetcher
from logstore.remote.backend.group_offsets import RemoteOffsets
from logstore.remote.backend.membership import RemoteMembership
from logstore.remote.backend.partition import RemotePartition, epoch_ends, first_records
from logstore.remote.backoff import pause_s
from logstore.remote.client import EARLIEST, LATEST, Client
from logstore.remote.metadata.known import KnownTopic
from logstore.remote.producer import IdempotentProducer
from logstore.remote.sasl.tokens import OAuthToken
from logstore.remote.topic_settings import ANY_TIME, TopicSettings

_logger = logging.getLogger(__name__)

#: What a consumer may say of its fetches; otherwise the client's value holds.
_FETCHES = (
    "fetch_min_bytes",
    "fetch_max_wait_ms",
    "fetch_max_bytes",
    "max_partition_fetch_bytes",
    "isolation_level",
    "client_rack",
)

#: The settings of at most this many topics are asked for at once; with more, only the brokers check the records.
_DESCRIBED = 20

#: Every back end that has made a producer. No WeakSet: iterating one fails if another thread adds to it.
_WITH_PRODUCERS: weakref.WeakKeyDictionary[RemoteBackend, None] = weakref.WeakKeyDictionary()


@atexit.register
def _flush_forgotten() -> None:
    """Flush the producers that are open when the program ends."""
    for reference in _WITH_PRODUCERS.keyrefs():
        backend = reference()
        if backend is not None:
            backend._flush_forgotten()


class RemoteBackend(Backend):
    """The topics of one cluster. Owns: the client, and its connections."""

    is_remote = True
    producer_config = RemoteProducerConfig
    consumer_config = ClusterConsumerConfig

    def __init__(self, client: Client, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._client = client
        client.cluster.serves_children = False
        self.location = client.config.bootstrap_servers
        self.clock = clock
        self.rng = None
        self._fork = fork_generation()
        self.look_s = client.config.metadata_max_age_ms / 1000
        self.consumer_defaults = {name: getattr(client.config, name) for name in _FETCHES}
        self._offsets = RemoteOffsets(client)
        #: The settings of topics, for all that write.
        self.settings = TopicSettings(client, clock)
        #: Topic id -> the number of partitions that the topic had when it was seen first.
        self._first_seen: dict[str, int] = {}
        self._readers = ReaderMembers()
        self._writers = WriterMembers()

    @classmethod
    def open(
        cls,
        bootstrap: str,
        settings: Mapping[str, Setting] | None = None,
        *,
        is_patient: bool = False,
        oauth_token: Callable[[], OAuthToken] | None = None,
    ) -> Self:
        """Return the topics of the cluster behind some bootstrap servers; arguments as of `Client`.

        It connects at the first call.

        Raises:
            UnknownSettingError, InvalidSettingError, MissingLibraryError: as `Client`.
        """
        return cls(Client(bootstrap, settings, is_patient=is_patient, oauth_token=oauth_token))

    # -- topics

    def _check(self) -> None:
        self._client.cluster.check_open()

    def topics(self, *, internal: bool = False) -> list[str]:
        found = self._client.metadata().topics.values()
        return sorted(each.name for each in found if internal or not each.is_internal)

    def facts(self, topic: str, topic_id: str | None = None) -> TopicFacts:
        found = self._client.topic(topic, fresh=False)
        self._check_id(found, topic_id)
        added_from = self._first_seen.setdefault(found.id or topic, len(found.partitions))
        return TopicFacts(topic, found.id, len(found.partitions), added_from, found.is_internal)

    def look_again(self, topics: Iterable[str]) -> None:
        for topic in topics:
            try:
                self._client.metadata([topic])
            except UnknownTopicError:
                pass  # `check_exists` says so

    def topics_known(self) -> object:
        self._check()
        return self._client.cluster.known.topics

    def check_exists(self, name: TopicPartition, topic_id: str) -> None:
        self._check()
        found = self._client.cluster.known.topics.get(name.topic)
        if found is None:
            raise UnknownTopicError(f"the cluster has no topic {name.topic!r}")
        self._check_id(found, topic_id)
        if name.partition not in found.partitions:
            raise UnknownPartitionError(f"topic {name.topic!r} has no partition {name.partition}")

    def _check_id(self, found: KnownTopic, topic_id: str | None) -> None:
        if topic_id and found.id and found.id != topic_id:
            raise UnknownTopicError(f"topic {found.name!r} was deleted, and another one has its name")

    # -- offsets

    @property
    def answers_within_s(self) -> float:  # type: ignore[override]  # as long as no broker was reached, less
        return self._client.cluster.timeout_ms() / 1000

    def retry_pause_s(self, count: int) -> float:
        config = self._client.config
        return pause_s(count, config.retry_backoff_ms, config.retry_backoff_max_ms)

    def start_offsets(
        self, partitions: Iterable[TopicPartition], asked: OneRound | None = None
    ) -> dict[TopicPartition, int]:
        found = self._client.list_offsets(dict.fromkeys(partitions, EARLIEST), asked=asked)
        return {name: each.offset for name, each in found.items()}

    def end_offsets(
        self, partitions: Iterable[TopicPartition], isolation: Isolation, asked: OneRound | None = None
    ) -> dict[TopicPartition, int]:
        found = self._client.list_offsets(dict.fromkeys(partitions, LATEST), isolation, asked=asked)
        return {name: each.offset for name, each in found.items()}

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], isolation: Isolation, asked: OneRound | None = None
    ) -> dict[TopicPartition, TimestampOffset | None]:
        return first_records(self._client, times, isolation, asked)

    def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], asked: OneRound | None = None
    ) -> dict[TopicPartition, int | None]:
        return epoch_ends(self._client, epochs, asked)

    # -- reading

    def partition(
        self, name: TopicPartition, topic_id: str | None = None, ends: tuple[int, int] | None = None
    ) -> Partition:
        facts = self.facts(name.topic, topic_id)
        self._client.cluster.leader(name)  # raises if there is no such partition
        return RemotePartition(self._client, name, facts.id, self.clock, ends)

    def ends(
        self, partitions: Iterable[TopicPartition], isolation: Isolation
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Return log start offset and visible end of some partitions, by two requests to each leader."""
        names = list(partitions)
        last = self.end_offsets(names, isolation)
        first = self.start_offsets(names)
        # Records that are deleted between the two requests leave an empty range.
        return {name: (first[name], max(first[name], last[name])) for name in names}

    def fetcher(self, config: ConsumerConfig, notifier: Notifier) -> PartitionFetcher:
        return RemoteFetcher(self._client, self._fetches(config), config.isolation, notifier, self.clock)

    def _fetches(self, config: ConsumerConfig) -> WireConfig:
        """Return the client's settings with what a consumer says of its fetches."""
        said: Iterable[str] = _FETCHES
        if not isinstance(config, ClusterConsumerConfig):
            # Its defaults are those of a store.
            said = [key.replace(".", "_") for key in config._said()]
        own = {name: getattr(config, name) for name in _FETCHES if name in said}
        if not own.get("max_partition_fetch_bytes", 1):
            own["max_partition_fetch_bytes"] = 1  # a batch comes whole, however small this is
        return dataclasses.replace(self._client.config, **own)

    def add_reader(self, reader: ReaderMember) -> None:
        self._readers.add(reader)

    # -- writing

    def batch_writer(self, config: ProducerConfig, failures: list[BatchResult]) -> BatchWriter:
        self._check()
        _WITH_PRODUCERS[self] = None
        assert isinstance(config, RemoteProducerConfig)
        return RemoteBatchWriter(
            self._client,
            config,
            failures,
            clock=self.clock,
            topics_known=self.topics_known,
            settings=self.settings,
        )

    def batch_rules(self, topics: Iterable[str]) -> dict[str, BatchRules]:
        ids = {topic: self.facts(topic).id for topic in topics}
        limit = ("max.request.size", self._client.config.max_request_size)
        rules = {}
        for topic, topic_id in ids.items():
            is_asked = len(ids) <= _DESCRIBED
            config = self.settings.for_writing(topic, topic_id) if is_asked else LogConfig.of(ANY_TIME)
            own = BatchRules.of(config)
            rules[topic] = own._replace(limits=(*own.limits, limit))
        return rules

    def batch_appends(self) -> BatchAppends:
        self._check()
        return IdempotentProducer(self._client)

    def attach(self, member: WriterMember) -> None:
        self._check()
        self._writers.attach(member)

    def detach(self, member: WriterMember) -> None:
        self._writers.detach(member)

    def drop(self, member: WriterMember) -> None:
        self._writers.drop(member)

    # -- groups

    @property
    def offsets(self) -> GroupOffsets:
        return self._offsets

    def membership(self, config: ConsumerConfig, notifier: Notifier) -> GroupMembership:
        self._check()
        if not isinstance(config, ClusterConsumerConfig):
            config = ClusterConsumerConfig.of(config._said())
        return RemoteMembership(self._client, self._offsets, config, notifier)

    # -- life

    def _flush_forgotten(self) -> None:
        if self._writers.count and self._fork == fork_generation():
            try:
                shielded(self._writers.close)
            except LogstoreError as error:
                _logger.error(
                    "records were not acknowledged at the end of the program: to=%s error=%s", self.location, error
                )
            message = f"producers of {self.location} were left open: they have been flushed; use `with` or close()"
            warnings.warn(message, ResourceWarning, stacklevel=1)

    def close(self) -> None:
        """End the consumers and producers of this back end, and close the connections. May be called again."""
        self._readers.end()
        try:
            self._writers.close()
        finally:
            self._client.close()
