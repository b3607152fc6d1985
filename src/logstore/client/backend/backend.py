"""Back end of topics and consumers: the one contract under everything that a user calls.

`logstore.store` implements it over files, `logstore.remote` over Kafka's protocol. It deals in topics, offsets and
whole record batches. Each docstring says what is atomic, what is durable on return and what may be repeated. Where
one says nothing, the call changes nothing and may be repeated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from logstore.accumulator._batcher import BatchResult
from logstore.client.backend.batch_appends import BatchAppends, BatchRules
from logstore.client.backend.batch_writer import BatchWriter
from logstore.client.backend.facts import TopicFacts
from logstore.client.backend.fetcher import PartitionFetcher
from logstore.client.backend.group_offsets import GroupOffsets
from logstore.client.backend.members import ReaderMember, WriterMember
from logstore.client.backend.membership import GroupMembership
from logstore.client.backend.partitions import Partition
from logstore.clock import Clock
from logstore.config.client import ConsumerConfig, ProducerConfig
from logstore.config.log import Setting
from logstore.errors import LogstoreError
from logstore.io._notifier import Notifier
from logstore.records import Isolation, TimestampOffset, TopicPartition

if TYPE_CHECKING:
    import random


class OneRound:
    """A round of questions: each leader is asked once, and none keeps the partitions of the others waiting.

    After the first answer the others have ``patience_s``; with ``counts_at_once``, all of them from the beginning.
    ``left`` gets the partitions that no leader has answered for, each with an error that may go away.
    """

    def __init__(self, patience_s: float, *, counts_at_once: bool) -> None:
        self.patience_s = patience_s
        self.counts_at_once = counts_at_once
        self.left: dict[TopicPartition, LogstoreError] = {}


class Backend(ABC):
    """The topics of one store or of one cluster. Any thread may call any method.

    After `close` each call raises `StoreClosedError`, or `ClientClosedError` of a cluster; in a forked child
    `ForkedError`.
    """

    #: Whether a call waits for other machines.
    is_remote: ClassVar[bool]
    #: The settings of its producers.
    producer_config: ClassVar[type[ProducerConfig]]
    #: The settings that its consumers have.
    consumer_config: ClassVar[type[ConsumerConfig]] = ConsumerConfig
    #: Values that hold for a consumer that is opened without them, by the names of fields.
    consumer_defaults: Mapping[str, Setting] = MappingProxyType({})

    #: The directory, or the bootstrap servers without credentials: for messages.
    location: str
    clock: Clock
    #: What chance decides with, if it is to be repeatable.
    rng: random.Random | None
    #: How often a waiting consumer asks for new partitions of its topics, in seconds; None: it is told.
    look_s: float | None
    #: How long a call asks again after errors that may go away, in seconds; None: never.
    answers_within_s: float | None = None

    def retry_pause_s(self, count: int) -> float:
        """Return the next pause before a question is asked again, after ``count`` pauses."""
        return 0.0

    # -- topics

    @abstractmethod
    def topics(self, *, internal: bool = False) -> list[str]:
        """Return the names of all topics that exist now, sorted; with ``internal`` also those of the back end."""

    @abstractmethod
    def facts(self, topic: str, topic_id: str | None = None) -> TopicFacts:
        """Return a topic as it is now; with ``topic_id`` that very one, and none of its name made later.

        Raises:
            UnknownTopicError: there is none.
        """

    @abstractmethod
    def look_again(self, topics: Iterable[str]) -> None:
        """Ask what became of topics, so that `facts` and `check_exists` know it. None has to exist."""

    @abstractmethod
    def topics_known(self) -> object:
        """Return what is known of all topics: another object after each change that was seen. Does no I/O.

        Objects are compared by identity only.
        """

    @abstractmethod
    def check_exists(self, name: TopicPartition, topic_id: str) -> None:
        """Raise if a partition is known to be gone. Does no I/O that waits.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is no such partition of that very topic any more.
        """

    # -- offsets: one call for many partitions, on a cluster one request for each leader. With a round, the answer
    # lacks the partitions that are left in it.

    @abstractmethod
    def start_offsets(
        self, partitions: Iterable[TopicPartition], asked: OneRound | None = None
    ) -> dict[TopicPartition, int]:
        """Return the oldest offset that is kept of each partition.

        Raises:
            UnknownTopicError, UnknownPartitionError: one of them does not exist.
        """

    @abstractmethod
    def end_offsets(
        self, partitions: Iterable[TopicPartition], isolation: Isolation, asked: OneRound | None = None
    ) -> dict[TopicPartition, int]:
        """Return the end of the records visible to a reader of that isolation, in each partition.

        Raises:
            UnknownTopicError, UnknownPartitionError: one of them does not exist.
        """

    @abstractmethod
    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], isolation: Isolation, asked: OneRound | None = None
    ) -> dict[TopicPartition, TimestampOffset | None]:
        """Return the first record of each partition that is of that time in milliseconds or later, or None.

        Raises:
            UnknownTopicError, UnknownPartitionError: one of them does not exist.
        """

    @abstractmethod
    def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], asked: OneRound | None = None
    ) -> dict[TopicPartition, int | None]:
        """Return the offset at which the records of each partition's leader epoch end; None for an unknown epoch.

        Raises:
            UnknownTopicError, UnknownPartitionError: one of them does not exist.
        """

    # -- reading

    @abstractmethod
    def partition(self, name: TopicPartition, topic_id: str | None = None) -> Partition:
        """Return a partition to scan and to look records up in. It keeps a store open.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is none; nor in a later topic of the same name.
        """

    @abstractmethod
    def fetcher(self, config: ConsumerConfig, notifier: Notifier) -> PartitionFetcher:
        """Return a fetcher for one consumer. It notifies ``notifier`` of records that its consumer waits for."""

    @abstractmethod
    def add_reader(self, reader: ReaderMember) -> None:
        """Tell a consumer of new partitions from now on, unless `look_s` is set, and end it with the back end."""

    # -- writing

    @abstractmethod
    def batch_writer(self, config: ProducerConfig, failures: list[BatchResult]) -> BatchWriter:
        """Return a writer for one producer. ``failures`` gets the results of batches that fail unnoticed.

        A batch is answered once it is as durable as its acks say; see `BatchWriter`.

        Raises:
            ReadOnlyError: nothing can be written through this back end.
        """

    @abstractmethod
    def batch_rules(self, topics: Iterable[str]) -> dict[str, BatchRules]:
        """Return what batches of topics have to keep to, for `batch_appends`, as far as it is known.

        The log, or the broker, that writes a batch in the end checks it too.

        Raises:
            UnknownTopicError: there is no topic of one of the names.
        """

    @abstractmethod
    def batch_appends(self) -> BatchAppends:
        """Return what appends batches that its caller has encoded. Close it before the back end.

        Raises:
            ReadOnlyError: nothing can be written through this back end.
        """

    @abstractmethod
    def attach(self, member: WriterMember) -> None:
        """Close a producer with this back end. It is not kept alive."""

    @abstractmethod
    def detach(self, member: WriterMember) -> None:
        """Forget a producer that has been closed."""

    @abstractmethod
    def drop(self, member: WriterMember) -> None:
        """Register a producer as `attach` does, and keep it alive until it is closed.

        For the finalizer of a dropped one: takes no lock.
        """

    # -- groups

    @property
    @abstractmethod
    def offsets(self) -> GroupOffsets:
        """The committed offsets of every group."""

    @abstractmethod
    def membership(self, config: ConsumerConfig, notifier: Notifier) -> GroupMembership:
        """Return the membership of one consumer in its group. It notifies ``notifier`` of changes.

        Raises:
            UnsupportedOperationError: the groups of this back end assign no partitions.
        """
