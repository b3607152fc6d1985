"""PartitionFetcher of one consumer: hands out cursors of its partitions, and waits for records on all of them.

A store's fetcher reads files and waits on marks in memory. A cluster's fetches ahead from brokers; it learns what
is wanted from the positions that `begin` and `wait` are given. One thread at a time, the consumer's, calls
everything but what the notifier does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from logstore.client.backend.partitions import PartitionCursor
from logstore.io._notifier import Notifier
from logstore.records import TopicPartition


class PartitionFetcher(ABC):
    """Reads the partitions of one consumer."""

    #: How often a caller looks by itself while `must_look` is true, in seconds.
    LOOK_S: float

    @abstractmethod
    def cursor(self, name: TopicPartition, topic_id: str) -> PartitionCursor:
        """Return the cursor of a partition.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is none; nor in a later topic of the same name.
        """

    @abstractmethod
    def keep(self, names: Iterable[TopicPartition]) -> None:
        """Forget what was fetched of all partitions but these."""

    @abstractmethod
    def listen(self, notifier: Notifier) -> None:
        """Notify this notifier from now on, and no other."""

    @property
    @abstractmethod
    def must_look(self) -> bool:
        """Whether a place of the last `begin` notifies nothing when it gets records: the caller has to look."""

    @abstractmethod
    def begin(self, places: Sequence[tuple[PartitionCursor, int]]) -> bool:
        """Have the notifier notified once one of the cursors has something to hand out at the offset beside it.

        An end that has fallen below the offset counts, too. Returns False if that is so already. Does no I/O that
        waits. Cursors of an earlier call that are not among these notify no more.
        """

    def want(self, cursors: Iterable[PartitionCursor], *, is_wanted: bool) -> None:  # noqa: B027  a store needs none
        """Hear that the consumer reads these partitions from now on, or that it has paused them.

        What is not fetched ahead has nothing to do here.
        """

    @abstractmethod
    def wait(self, places: Sequence[tuple[PartitionCursor, int]], timeout_s: float | None = None) -> bool:
        """Wait as `begin` describes; return False if ``timeout_s`` passes first. A notification ends it."""

    @abstractmethod
    def close(self) -> None:
        """End all notifications and release what was fetched. May be called again."""
