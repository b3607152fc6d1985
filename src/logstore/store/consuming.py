"""Consumers of a store, the committed offsets of their groups, and their lag.

The half of `Store` that knows groups. It ties together `consumer`, `offsets` and `lag`, which are
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
        from logstore.store.requests.asking import check  # here: few readers need it

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
    """A `Source` that opens consumers."""

    config: StoreConfig
    path: str

    def __init__(self) -> None:
        #: No WeakSet: iterating one fails if another thread adds to it.
        self._consumers: weakref.WeakKeyDictionary[Consumer, None] = weakref.WeakKeyDictionary()
        self._offsets: CommittedOffsets | None = None
        self._offsets_lock = threading.Lock()

    @abstractmethod
    def _check_open(self) -> None:
        """Raise if the store is closed."""

    @abstractmethod
    def _ask_owner(self, request: Request[R]) -> R:
        """Have the process that writes the store carry out a request, for a store that is open read-only."""

    @abstractmethod
    def partition_count(self, topic: str, topic_id: str | None = None) -> int:
        """Return the number of a topic's partitions."""

    @property
    def offsets(self) -> CommittedOffsets:
        """The committed offsets of every group: to list groups, to delete, to expire."""
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
        """Open a consumer: `assign` it partitions, then iterate it or `poll`. A group keeps its offsets here.

        ``settings`` are Kafka's consumer settings by their dotted keys, ``more_settings`` the same with
        underscores. Where the store is open read-only, offsets are committed by the process that writes it; if
        there is none, by this one, which opens it for that moment. If the store is closed first, the consumer
        commits the records that it is known to have processed.

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
        """Store the next offsets that a group will read, all of them or none; see `CommittedOffsets.commit`."""
        self.offsets.commit(group, offsets, ack=ack)

    def committed(
        self, group: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return a group's committed offsets, of these partitions or of all; one without a commit is left out."""
        return self.offsets.committed(group, partitions)

    def lag(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> list[Lag]:
        """Return how far a group is behind, in records and seconds, for each partition that it has committed.

        Partitions that were added to a topic that the group reads count from offset 0 until it has committed
        there. Only records that a reader of that isolation will see are counted; see `logstore.client.lag`.
        """
        from logstore.client.lag import lag_of_group

        return lag_of_group(cast("Source", self), self.offsets, group, Isolation(isolation), partitions)

    def _tell_consumers(self) -> None:
        """Wake waiting consumers, so that they look for partitions that were added to a topic."""
        for consumer in self._living_consumers():
            consumer._look_around()

    def _living_consumers(self) -> list[Consumer]:
        return [consumer for each in self._consumers.keyrefs() if (consumer := each()) is not None]

    def _end_consumers(self) -> None:
        """Have every consumer commit what it is known to have processed, while the logs are still open."""
        for consumer in self._living_consumers():
            try:
                consumer._abandon()
            except ConcurrentUseError:
                # Another thread waits in the consumer; it raises that the store is closed.
                consumer._end_with_store()
            except LogstoreError as error:
                # An error raised here would leave the logs open; records without a commit are read again.
                _logger.warning("a consumer could not commit at the end of its store: %r: %s", consumer, error)


__all__ = ["Consuming"]
