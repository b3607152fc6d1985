"""What consumers and committed offsets need of a store: its partitions, its clock, its topics' ids.

A `Protocol`, so that they can be used with any directory of logs. `Store` is one.
"""

from __future__ import annotations

import uuid
from typing import Protocol

from logstore.clock import Clock
from logstore.log import Log, LogReader
from logstore.records import TopicPartition

#: A log of this process, or one that another process writes.
AnyLog = Log | LogReader


class PartitionSource(Protocol):
    """A directory of logs. Every method may be called from any thread."""

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written."""

    @property
    def clock(self) -> Clock: ...

    def partition(self, topic: str, partition: int) -> AnyLog:
        """The log of one partition, which stays the store's. Raises if there is none."""

    def partitions_of(self, topic: str) -> int:
        """How many partitions a topic has; 0 if there is no such topic."""

    def topic_id(self, partition: TopicPartition) -> uuid.UUID | None:
        """The id of the topic, or None if it has none. Raises if there is no such partition."""

    def create_offsets_topic(self) -> None:
        """Make ``__consumer_offsets`` if there is none yet."""
