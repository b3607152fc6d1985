"""What topics, scans and committed offsets still need of a store, beside the contract of `backend`.

`StoreHost` has all of it. Its users do not depend on how a store opens, locks or closes, and a test may pass a
smaller object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from logstore.accumulator.acknowledging import ReplicaSource
from logstore.clock import Clock
from logstore.config.log import LogConfig, Setting
from logstore.log import Log, LogReader
from logstore.log.read.reader import Readable
from logstore.metrics import ReplicaMetrics
from logstore.records import Acks, AppendResult, TopicPartition

#: A partition's log: writable, or read-only if its store is open read-only.
Opened = Log | LogReader


class Acknowledger(ReplicaSource, Protocol):
    """What waits for the replicas of a store's partitions, and describes them; without it there are none."""

    def acknowledged(
        self, place: TopicPartition, acks: Acks, timeout_s: float, append: Callable[[], AppendResult]
    ) -> AppendResult:
        """Make an append, and return its result once the acks have come."""

    def metrics(self) -> Sequence[ReplicaMetrics]:
        """Return the numbers of each replica in this process, sorted by topic and partition."""


class PartitionedTopic(Protocol):
    """A topic, as far as scans and imports need it: a log for each of its partitions."""

    @property
    def partition_count(self) -> int: ...
    @property
    def id(self) -> str: ...
    @property
    def config(self) -> LogConfig: ...
    def __getitem__(self, partition: int) -> Readable: ...
    def _log_to_write(self, partition: int) -> Log:
        """Return one partition's log, opened if needed; it does not keep the store open."""


class Source(Protocol):
    """A source of partitions. Any thread may call it."""

    @property
    def path(self) -> str:
        """The directory, for messages."""

    @property
    def clock(self) -> Clock: ...

    @property
    def read_only(self) -> bool:
        """Return whether nothing can be appended."""

    def partition_count(self, topic: str, topic_id: str | None = None) -> int:
        """Return the number of a topic's partitions; ``topic_id`` excludes a later topic of the same name."""

    def is_unused(self, topic: str) -> bool:
        """Return whether no log of a topic was ever opened for writing: there are no records in it."""

    def topic_config(self, topic: str, topic_id: str | None = None) -> LogConfig:
        """Return the settings of a topic's logs."""

    def partition(self, topic: str, partition: int, *, topic_id: str | None = None) -> Opened:
        """Return one partition's log, which belongs to the store and keeps it open."""

    def _log_of(self, topic: str, partition: int, topic_id: str | None = None) -> Opened:
        """Return a log as `partition` does; the log does not keep the store open, so the caller must."""

    def _log_there(self, topic: str, partition: int) -> Opened:
        """Return a log as `_log_of` does, of a partition that the caller has found among the topics known."""

    def _topics_known(self) -> object:
        """Return the known state of all topics: a new object after each change."""

    def topic_id(self, topic: str) -> str:
        """Return a topic's id in Kafka's text form, unique among topics of its name; "" if it has none."""

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        settings: Mapping[str, Setting] | None = None,
        *,
        if_not_exists: bool = False,
    ) -> object:
        """Create a topic."""

    def next_producer_id(self) -> int:
        """Return a producer id that was never assigned before."""
