"""The partitions that the application holds, and the callbacks that change them.

Invariant: one callback runs at a time, and no step of the protocol that depends on what is held is taken before
it has finished. A partition is held from its `PartitionsAssigned` until its `PartitionsRevoked` has finished, or
until `PartitionsLost` is handed out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from logstore.groups.membership.steps import Callback, PartitionsAssigned, PartitionsLost, PartitionsRevoked
from logstore.records import TopicPartition


class Holdings:
    """What one member holds, and its callbacks in order."""

    def __init__(self) -> None:
        self.held: set[TopicPartition] = set()
        self._waiting: deque[Callback] = deque()
        self._running: Callback | None = None

    @property
    def is_settled(self) -> bool:
        """Whether no callback runs or waits: ``held`` is what the application reads."""
        return self._running is None and not self._waiting

    def revoke(self, partitions: Iterable[TopicPartition]) -> bool:
        """Take partitions after a callback; tell whether there are any."""
        found = tuple(sorted(partitions))
        assert self.held.issuperset(found)
        if found:
            self._waiting.append(PartitionsRevoked(found))
        return bool(found)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Give partitions."""
        self._waiting.append(PartitionsAssigned(tuple(sorted(partitions))))

    def lose(self) -> None:
        """Take everything without asking, after the callback that runs; those that wait are dropped."""
        self._waiting.clear()
        self._waiting.append(PartitionsLost(()))

    def next_callback(self) -> Callback | None:
        """Return the callback that is to run now; the same one is not returned twice."""
        if self._running is not None:
            return None
        while self._waiting:
            found = self._waiting.popleft()
            if isinstance(found, PartitionsLost):
                found = PartitionsLost(tuple(sorted(self.held)))
                self.held.clear()
                if not found.partitions:
                    continue
            elif isinstance(found, PartitionsAssigned):
                assert self.held.isdisjoint(found.partitions)
                self.held.update(found.partitions)
            self._running = found
            return found
        return None

    def finish(self, callback: Callback) -> None:
        """Note that the callback which runs has returned or raised. Any other one is ignored."""
        if callback is not self._running:
            return
        self._running = None
        if isinstance(callback, PartitionsRevoked):
            self.held.difference_update(callback.partitions)
