"""What topics, producers, consumers and committed offsets need of the store that they belong to.

`Store` is one such source; they are written against this, so that they know nothing of how a store opens,
locks or ends, and a test may hand in something smaller.
"""

from __future__ import annotations

import uuid
from typing import Protocol

from logstore.clock import Clock
from logstore.config import LogConfig
from logstore.records import TopicPartition
from logstore.store.partitions import Opened

#: A log of this process, or one that another process writes.
AnyLog = Opened


class PartitionSource(Protocol):
    """A directory of logs. Every method may be called from any thread."""

    @property
    def path(self) -> str:
        """The directory, for messages."""

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written."""

    @property
    def clock(self) -> Clock: ...

    def partition_count(self, topic: str, topic_id: str | None = None) -> int:
        """How many partitions a topic has; with ``topic_id``, that very topic and none made later.

        Raises:
            UnknownTopicError: there is no such topic.
        """

    def partitions_of(self, topic: str) -> int:
        """How many partitions a topic has; 0 if there is no such topic."""

    def topic_config(self, topic: str, topic_id: str | None = None) -> LogConfig:
        """The settings of a topic's logs."""

    def topic_id(self, partition: TopicPartition) -> uuid.UUID | None:
        """The id of a partition's topic, or None if it has none. Raises if there is no such partition."""

    def partition(self, topic: str, partition: int, *, topic_id: str | None = None) -> AnyLog:
        """The log of one partition, which stays the store's. Raises if there is none."""

    def create_offsets_topic(self) -> None:
        """Make ``__consumer_offsets`` if there is none yet."""

    def next_producer_id(self) -> int:
        """A producer id that was never given before."""
