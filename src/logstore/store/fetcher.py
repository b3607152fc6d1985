"""PartitionFetcher of a store: its cursors are the logs themselves, and a wait is for their marks in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from logstore.client.backend.fetcher import PartitionFetcher
from logstore.client.backend.partitions import PartitionCursor
from logstore.clock import Clock
from logstore.io._notifier import Notifier
from logstore.log.read.wait import OffsetListener
from logstore.records import Isolation, TopicPartition


class LocalFetcher(PartitionFetcher):
    """Reads logs of a store, which caches and prefetches nothing."""

    LOOK_S = OffsetListener.LOOK_S

    def __init__(
        self,
        log_of: Callable[[str, int, str], PartitionCursor],
        isolation: Isolation,
        notifier: Notifier,
        clock: Clock,
    ) -> None:
        self._log_of = log_of
        self._isolation = isolation
        self._clock = clock
        self.listen(notifier)

    def cursor(self, name: TopicPartition, topic_id: str) -> PartitionCursor:
        return self._log_of(*name, topic_id)

    def keep(self, names: Iterable[TopicPartition]) -> None:
        """Do nothing: the listener forgets logs at the next wait."""

    def listen(self, notifier: Notifier) -> None:
        self._listener = OffsetListener(self._isolation, notifier, self._clock)

    @property
    def must_look(self) -> bool:
        return self._listener.must_look

    def begin(self, places: Sequence[tuple[PartitionCursor, int]]) -> bool:
        logs: Any = places  # each cursor is a log
        return self._listener.begin(logs)

    def wait(self, places: Sequence[tuple[PartitionCursor, int]], timeout_s: float | None = None) -> bool:
        logs: Any = places
        return self._listener.wait(logs, timeout_s)

    def close(self) -> None:
        self._listener.begin([])
