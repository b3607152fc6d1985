"""BatchWriter of one producer: makes the batcher of each partition, and owns what these batchers share.

A store's batchers append to its logs, and a batch is answered once it is there, or once the disk or the replicas
have it. A cluster's hand their batches over, and keep them queued until brokers answer. The producer is the same
for both: it chooses partitions, gathers records and waits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

from logstore.accumulator._memory import BufferMemory
from logstore.accumulator._partition_batches import Shared
from logstore.accumulator.partition_batcher import PartitionBatcher


class WritableTopic(NamedTuple):
    """A topic as a producer sees it at one moment."""

    id: str  #: differs from that of an earlier or later topic of the same name
    partitions: int
    needs_key: bool  #: whether a record without a key is refused
    batcher: Callable[[int], PartitionBatcher]  #: makes the batcher of a partition, by its number


class BatchWriter(ABC):
    """Writes the batches of one producer. Any thread may call."""

    #: What batches wait for that stay queued, for messages.
    AWAITED: ClassVar[str]
    #: What to do about it.
    ADVICE: ClassVar[str]
    #: What to call in a process that was forked after the producer was opened.
    AFTER_FORK: ClassVar[str]

    #: What all batchers of the producer share: settings, clock, the list of failures.
    shared: Shared
    #: Holds the records that are not answered.
    memory: BufferMemory
    #: Returns what is known of all topics, another object after each change that was seen. Does no I/O. A field,
    #: since the producer calls it for each batch.
    topics_known: Callable[[], object]

    @abstractmethod
    def topic(self, name: str) -> WritableTopic:
        """Return a topic to send to; make it if there is none and the back end's settings say so.

        Raises:
            UnknownTopicError: there is none.
        """

    @property
    @abstractmethod
    def producer_id(self) -> int:
        """The newest producer id of its batches; -1 without idempotence, and while none was needed."""

    @property
    @abstractmethod
    def answer_count(self) -> int:
        """The number of answers to queued batches so far, for `wait`."""

    @abstractmethod
    def wait(self, answer_count: int, timeout_s: float) -> None:
        """Wait for an answer after the one of this number, at most ``timeout_s``."""

    @abstractmethod
    def sync(self) -> None:
        """Have every batch that was written before, and waits for a disk, answered on return."""

    @property
    @abstractmethod
    def sync_count(self) -> int:
        """The number of syncs of single logs so far."""

    @abstractmethod
    def close(self) -> None:
        """End the threads. Batches that are queued are not written any more. May be called again."""
