"""What a store offers to those who read it: consumers, the offsets of their groups, how far they are behind.

The half of `Store` that knows groups; it ties together what `consumer`, `offsets` and `lag` do, which are
imported when they are first needed. Any thread may call.
"""

from __future__ import annotations

import logging
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar, cast

from logstore.config.log import Setting
from logstore.config.schema import naming_arguments
from logstore.errors import ConcurrentUseError, LogstoreError
from logstore.io._interrupts import held
from logstore.records import Ack, Isolation, TopicPartition

if TYPE_CHECKING:
    from logstore.client.backend import Source
    from logstore.client.consumer import Consumer
    from logstore.client.lag import Lag
    from logstore.client.offsets import CommittedOffsets
    from logstore.config.client import ConsumerConfig
    from logstore.config.store import StoreConfig
    from logstore.groups.offsets import OffsetAndMetadata
    from logstore.store.requests.requests import Request


_logger = logging.getLogger(__name__)

R = TypeVar("R")


class _Writer:
    """The process that writes a store, asked by one that is open read-only."""

    def __init__(self, store: Consuming) -> None:
        self._store = store

    def check(self) -> None:
        from logstore.store.requests.asking import check  # what few readers need

        check(self._store.path)

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | None],
        ack: Ack | None,
        at_ms: int,
    ) -> None:
        from logstore.store.requests.requests import Commit

        self._store._ask_owner(Commit(group, offsets, ack, at_ms))


class Consuming(ABC):
    """A `Source` that hands out consumers."""

    config: StoreConfig
    path: str

    def __init__(self) -> None:
        #: No WeakSet: to go through one fails if another thread adds to it.
        self._consumers: weakref.WeakKeyDictionary[Consumer, None] = weakref.WeakKeyDictionary()
        self._offsets: CommittedOffsets | None = None
        self._offsets_lock = threading.Lock()

    @abstractmethod
    def _check_open(self) -> None:
        """Raise if the store is closed."""

    @abstractmethod
    def _ask_owner(self, request: Request[R]) -> R:
        """Have a request carried out by whoever writes the store, for one that is open read-only."""

    @abstractmethod
    def partition_count(self, topic: str, topic_id: str | None = None) -> int:
        """How many partitions a topic has."""

    @property
    def offsets(self) -> CommittedOffsets:
        """The committed offsets of every group: to list groups, to delete, to let expire."""
        self._check_open()
        if self._offsets is None:
            from logstore.client.offsets import CommittedOffsets

            with held(self._offsets_lock):
                if self._offsets is None:
                    self._offsets = CommittedOffsets.of(cast("Source", self), self.config, _Writer(self))
        return self._offsets

    @naming_arguments
    def consumer(
        self,
        group: str | None = None,
        settings: ConsumerConfig | Mapping[str, Setting] | None = None,
        **more_settings: Setting,
    ) -> Consumer:
        """A consumer: `assign` it partitions, then iterate it or `poll`. With a group it keeps its offsets here.

        ``settings`` are Kafka's consumer settings by their dotted keys, ``more_settings`` the same with
        underscores. Where the store is open read-only, offsets are committed by the process that writes it; if
        there is none, by this one, which opens it for that moment. When the store is closed first, what it is known
        to have processed is committed.

        Raises:
            InvalidGroupError: the name cannot be used.
            ConfigError: settings are unknown or out of range; every one is named.
            ReadOnlyError: the group would have to commit by itself, the store is open read-only, and its directory
                is Kafka's or cannot be written.
        """
        from logstore.client.consumer import open_consumer

        self._check_open()
        consumer = open_consumer(cast("Source", self), self.offsets, group, settings, more_settings)
        self._consumers[consumer] = None
        return consumer

    def commit_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        ack: Ack | str | None = None,
    ) -> None:
        """Store the next offsets that a group has to read, all of them or none; see `CommittedOffsets.commit`."""
        self.offsets.commit(group, offsets, ack=ack)

    def committed(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group has committed, for these partitions or for all; one without a commit is left out."""
        return self.offsets.committed(group, partitions)

    def lag(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> list[Lag]:
        """How far a group is behind, in records and seconds, for each partition that it has committed.

        Partitions that were added to a topic that the group reads count from offset 0 until it has committed
        there. Only records that a reader of that isolation will see are counted; see `logstore.client.lag`.
        """
        from logstore.client.lag import lag_of_group

        return lag_of_group(cast("Source", self), self.offsets, group, Isolation(isolation), partitions)

    def _tell_consumers(self) -> None:
        """Let consumers that wait look for the partitions that a topic has got."""
        for consumer in self._living_consumers():
            consumer.look_around()

    def _living_consumers(self) -> list[Consumer]:
        return [consumer for each in self._consumers.keyrefs() if (consumer := each()) is not None]

    def _end_consumers(self) -> None:
        """Let every consumer commit what it is known to have processed, while there is a log to commit it to."""
        for consumer in self._living_consumers():
            try:
                consumer.abandon()
            except ConcurrentUseError:
                # Another thread waits in it, and is told that the store is closed.
                consumer.end_with_store()
            except LogstoreError as error:
                # What is not committed is read again, and the logs have to be closed in any case.
                _logger.warning("a consumer could not commit at the end of its store: %r: %s", consumer, error)


__all__ = ["Consuming"]
