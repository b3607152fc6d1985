<<<<<<< HEAD
"""What topics, producers and consumers need of the store that they belong to.

`Store` is one; they are written against this, so that they know nothing of how a store opens, locks or
ends, and a test may hand in something smaller.
=======
"""What consumers and committed offsets need of a store: its partitions, its clock, its topics' ids.

A `Protocol`, so that they can be used with any directory of logs. `Store` is one.
>>>>>>> 890e84b4a0847199f2f81fe7ec4080f626d7a03b
"""

from __future__ import annotations

<<<<<<< HEAD
from typing import Protocol

from logstore.clock import Clock
from logstore.config import LogConfig
from logstore.store.partitions import Opened


class Source(Protocol):
    """Where partitions come from. Any thread may call it."""

    @property
    def path(self) -> str:
        """The directory, for messages."""
=======
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
>>>>>>> 890e84b4a0847199f2f81fe7ec4080f626d7a03b

    @property
    def clock(self) -> Clock: ...

<<<<<<< HEAD
    @property
    def read_only(self) -> bool:
        """Whether nothing can be appended."""

    def partition_count(self, topic: str, topic_id: str | None = None) -> int:
        """How many partitions a topic has; with ``topic_id``, that very topic and none made later."""

    def topic_config(self, topic: str, topic_id: str | None = None) -> LogConfig:
        """The settings of a topic's logs."""

    def partition(self, topic: str, partition: int, *, topic_id: str | None = None) -> Opened:
        """One partition's log, which belongs to the store."""

    def next_producer_id(self) -> int:
        """A producer id that was never given before."""
=======
    def partition(self, topic: str, partition: int) -> AnyLog:
        """The log of one partition, which stays the store's. Raises if there is none."""

    def partitions_of(self, topic: str) -> int:
        """How many partitions a topic has; 0 if there is no such topic."""

    def topic_id(self, partition: TopicPartition) -> uuid.UUID | None:
        """The id of the topic, or None if it has none. Raises if there is no such partition."""

    def create_offsets_topic(self) -> None:
        """Make ``__consumer_offsets`` if there is none yet."""
>>>>>>> 890e84b4a0847199f2f81fe7ec4080f626d7a03b
