"""Fetcher of one consumer of a cluster: cursors of its partitions over what `Fetching` fetches ahead.

The thread of the sockets fetches; the consumer's thread takes what has arrived. The fetches end with `close`, or
when the fetcher is dropped.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from logstore.client.backend.fetcher import PartitionFetcher
from logstore.client.backend.partitions import PartitionCursor
from logstore.clock import Clock
from logstore.config.remote import WireConfig
from logstore.io._interrupts import held
from logstore.io._notifier import Notifier
from logstore.records import Isolation, TopicPartition
from logstore.remote.backend.cursors import RemoteCursor
from logstore.remote.backend.fetching import Fetching
from logstore.remote.client import Client


class RemoteFetcher(PartitionFetcher):
    """Fetches the partitions of one consumer. Owns: the connections by which it fetches."""

    LOOK_S = 1.0

    def __init__(
        self, client: Client, config: WireConfig, isolation: Isolation, notifier: Notifier, clock: Clock
    ) -> None:
        cluster = client.cluster
        self._loop = Fetching(cluster.network.thread, cluster.updates, config, isolation, notifier)
        self._client = client
        self._clock = clock
        self._finalizer = weakref.finalize(self, self._loop.stop)
        self._finalizer.atexit = False

    def cursor(self, name: TopicPartition, topic_id: str) -> PartitionCursor:
        self._client.cluster.check_partition(name)  # a leader is waited for
        loop = self._loop
        cursor = RemoteCursor(name, topic_id, self._client, self._clock, loop.lock, loop.go_on)
        with held(loop.lock):
            loop.cursors[name] = cursor
        return cursor

    def keep(self, names: Iterable[TopicPartition]) -> None:
        kept = set(names)
        with held(self._loop.lock):
            self._loop.cursors = {name: each for name, each in self._loop.cursors.items() if name in kept}

    def listen(self, notifier: Notifier) -> None:
        self._loop.notifier = notifier

    @property
    def must_look(self) -> bool:
        return False

    def begin(self, places: Sequence[tuple[PartitionCursor, int]]) -> bool:
        loop = self._loop
        offsets: Any = dict(places)
        with held(loop.lock):
            for cursor in loop.cursors.values():
                cursor.is_wanted = cursor in offsets
            # All are asked: the answer to the first must not keep the others from being fetched.
            found = [cursor for cursor, offset in offsets.items() if cursor.has_something_locked(offset)]
        loop.go_on()
        return not found

    def want(self, cursors: Iterable[PartitionCursor], *, is_wanted: bool) -> None:
        loop = self._loop
        theirs: Any = cursors
        with held(loop.lock):
            for cursor in theirs:
                cursor.is_wanted = is_wanted
        loop.go_on()

    def wait(self, places: Sequence[tuple[PartitionCursor, int]], timeout_s: float | None = None) -> bool:
        return True if not self.begin(places) else self._loop.notifier.wait(timeout_s)

    def close(self) -> None:
        self._finalizer.detach()
        self._loop.stop()
