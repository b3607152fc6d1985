"""Timer thread: one for all timed work of the process.

It runs only while a log with ``flush.ms``, a producer or a buffered appender is open. An object with a clock other
than the machine's is not ticked by the thread: its user calls `tick`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from typing import Protocol

from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.io._interrupts import held

_logger = logging.getLogger(__name__)

PERIOD_S = 0.005


class Ticking(Protocol):
    """A flusher, producer or appender with timed work."""

    def tick(self) -> None: ...


class Ticker:
    """Calls `tick` of every member, every few milliseconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._members: weakref.WeakSet[Ticking] = weakref.WeakSet()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, member: Ticking, clock: Clock) -> None:
        """Tick a member from now on if it uses the machine's clock, else do nothing."""
        if clock is not SYSTEM_CLOCK:
            return
        with held(self._lock):
            self._members.add(member)
            # Threads do not survive a fork: a child starts its own.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="logstore-ticker", daemon=True)
                self._thread.start()

    def remove(self, member: Ticking) -> None:
        """Stop ticking a member; the thread ends when no member is left."""
        with held(self._lock):
            self._members.discard(member)
        self._wake.set()

    def _run(self) -> None:
        pause_s = PERIOD_S
        while True:
            self._wake.wait(pause_s)
            self._wake.clear()
            with held(self._lock):
                members = list(self._members)
                if not members:
                    self._thread = None
                    return
            # A reference left after the loop would keep a dropped member alive until the next tick.
            began_s = time.thread_time()
            while members:
                self._tick(members.pop())
            # At most half of a core: beside a thread that sends to a thousand partitions it would take all of it to
            # write batches of few records, and make more of them.
            pause_s = max(PERIOD_S, time.thread_time() - began_s)

    def _tick(self, member: Ticking) -> None:
        try:
            member.tick()
        except Exception:
            # The member has failed or is closed: the next call to it raises the error.
            _logger.warning("a timed flush failed", exc_info=True)
            self.remove(member)

    def forget(self) -> None:
        """Reset in a forked child: the members are the parent's, and a thread of the parent may hold the lock."""
        self._lock = threading.Lock()
        self._members = weakref.WeakSet()
        self._wake = threading.Event()
        self._thread = None


TICKER = Ticker()
os.register_at_fork(after_in_child=TICKER.forget)
