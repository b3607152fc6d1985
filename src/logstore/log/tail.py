"""Memory tail: the newest batches of a log, held in memory until they are flushed (``logstore.tail=memory``).

In Kafka's paper (Kreps et al., NetDB 2011) the newest records are in memory, and consumers see them once they are
on disk. A process that is killed before a flush loses these records, but no consumer has seen them. The caller
holds the log's lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from logstore.io._interrupts import together
from logstore.records import AbortedTransaction


class Held(NamedTuple):
    """One append in the memory tail."""

    data: bytes
    next_offset: int
    max_timestamp_ms: int
    aborted: AbortedTransaction | None  #: the transaction that it aborts, if it is an abort marker


class MemoryTail:
    """Stamped batches in the order of their offsets, not yet in any file."""

    def __init__(self) -> None:
        self._batches: deque[Held] = deque()
        self.size = 0  #: bytes held

    def add(self, held: Held, added: Callable[[], object]) -> None:
        """Hold one append of whole, stamped batches; no interrupt comes between that and ``added``."""
        self.size += len(held.data)
        together(partial(self._batches.append, held), added)

    @property
    def next_offset(self) -> int:
        """The offset after the newest held append; -1 if there is none."""
        return self._batches[-1].next_offset if self._batches else -1

    def head(self) -> Held | None:
        """Return the oldest append; it stays until `drop_head`."""
        return self._batches[0] if self._batches else None

    def drop_head(self) -> None:
        """Remove the oldest append, once it is in the file."""
        dropped = self._batches.popleft()
        # An interrupt in `add` may leave a size that counts a missing append. So an empty tail has size 0.
        self.size = self.size - len(dropped.data) if self._batches else 0
