"""The simulated world: virtual time, one seed, and events in the order of their times.

Each event runs to its end before the next one, in one thread. So the same seed gives the same events, and the same
trace. A `World` knows nothing of clusters. Each machine has a `SimClock`: all run alike, and wall clocks may jump.
"""

from __future__ import annotations

import heapq
import random
import threading
from collections.abc import Callable
from zlib import crc32

from logstore.clock import Clock
from logstore.testing.clock import START_MS


class World:
    """Virtual time of one simulation, in milliseconds from 0 on.

    >>> world = World(seed=1)
    >>> world.after(5, lambda: print("at", world.now_ms))
    >>> world.run_until(10)
    at 5
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_ms = 0
        self.trace = 0  #: a checksum of what has happened; the same seed gives the same one
        self.watchers: list[Callable[[], object]] = []  #: called after each event: they judge the invariants
        self._events: list[tuple[int, int, Callable[[], object]]] = []
        self._count = 0

    def after(self, delay_ms: int, event: Callable[[], object]) -> None:
        """Run an event that many milliseconds from now, after those that are due at the same time already."""
        self._count += 1
        heapq.heappush(self._events, (self.now_ms + (delay_ms if delay_ms > 0 else 0), self._count, event))

    def run_until(self, end_ms: int) -> None:
        """Run every event that is due before ``end_ms``, and leave the time there."""
        events = self._events
        while events and events[0][0] < end_ms:
            at_ms, _, event = heapq.heappop(events)
            self.now_ms = at_ms
            event()
            for watcher in self.watchers:
                watcher()
        self.now_ms = max(self.now_ms, end_ms)

    def note(self, *what: object) -> None:
        """Add to the trace."""
        self.trace = crc32(repr((self.now_ms, *what)).encode(), self.trace)

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    def between(self, least: int, most: int) -> int:
        """Return a random number, of which ``most`` is the largest."""
        return least + int(self.random.random() * (most - least + 1))


class SimClock(Clock):
    """The clock of one machine of a simulation. Its wall clock is wrong by ``offset_ms``, which may be set."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.offset_ms = 0

    def now_ms(self) -> int:
        return START_MS + self._world.now_ms + self.offset_ms

    def monotonic_s(self) -> float:
        return self._world.now_ms / 1000

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> bool:
        raise AssertionError("an event of a simulation waits for nothing: it comes back later")
