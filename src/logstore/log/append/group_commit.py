"""Group commit: many threads share one sync.

The first thread becomes the leader and syncs for all whose bytes were written before it began. The others wait,
each on a lock of its own, and are woken when their bytes are on disk. Later writers are served by the next round.
The same leader runs it at once, since waking another would leave the disk idle for longer than a sync takes. After
a few rounds another thread leads. The module starts no thread.

Threads that append in a loop come back right after a round has woken them. A leader that synced at once would
leave half of them for the next round. So it waits until as many threads wait as at the end of the last round, but
at most an eighth of the last sync's time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.errors import LogstoreError
from logstore.io._interrupts import Condition, guarded, held

_PATIENCE = 8
_LEAST_WAIT_S = 0.001  #: a shorter timed wait takes longer than asked
_TURNS = 10_000
_ROUNDS = 4


class _Waiter:
    """A thread that is not served yet."""

    __slots__ = ("is_done", "lock")

    def __init__(self, is_done: Callable[[], bool]) -> None:
        self.is_done = is_done
        self.lock = threading.Lock()
        self.lock.acquire()

    def is_served(self) -> bool:
        try:
            return self.is_done()
        except LogstoreError:
            # Its error, not the leader's: woken, it raises that itself.
            return True

    def wake(self) -> None:
        # An interrupted `_wake_served` or `_leave` wakes a waiter twice: releasing a free lock would raise.
        # Releasing the lock again after its waiter has woken does no harm: no other thread acquires it.
        if self.lock.locked():
            self.lock.release()


class GroupCommit:
    """Runs a sync so that at most one runs at a time and no thread syncs bytes that another has synced.

    An interrupt may stop its thread anywhere. `_leave` can follow any step: only `_leader` and `_waiting` record
    leader and waiters, and a thread is woken before it is removed from the list.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._changed = Condition()
        self._leader: _Waiter | None = None
        self._waiting: list[_Waiter] = []
        self._expected = 0  # count of waiters that the leader waits for; 0: it does not wait
        self._gathered = 0  # count of waiters at the end of the last round
        self._sync_s = 0.0  # duration of the last round

    def run(self, is_done: Callable[[], bool], sync: Callable[[], None]) -> None:
        """Return once ``is_done`` holds; call ``sync`` as the leader if there is none.

        An error of ``sync`` is raised in its leader, unless an earlier round had served that one. A waiter
        becomes the next leader and gets the error from ``is_done`` or ``sync`` itself.
        """
        while not is_done():
            waiter = _Waiter(is_done)
            guarded(partial(self._take_part, waiter, sync), partial(self._leave, waiter))

    def _take_part(self, waiter: _Waiter, sync: Callable[[], None]) -> None:
        with held(self._changed):
            if self._leader is None:
                self._leader = waiter
            else:
                self._waiting.append(waiter)
                if 0 < self._expected <= len(self._waiting):
                    self._changed.notify()
        if self._leader is not waiter:
            waiter.lock.acquire()
        if self._leader is waiter:
            self._lead(waiter.is_done, sync)

    def _lead(self, is_done: Callable[[], bool], sync: Callable[[], None]) -> None:
        served = False
        for _ in range(_ROUNDS):
            self._gather()
            began = self._clock.monotonic_s()
            try:
                sync()
            except LogstoreError:
                if not served:
                    raise
                return
            self._sync_s = self._clock.monotonic_s() - began
            served = served or is_done()
            if not self._wake_served() or not served:
                return

    def _gather(self) -> None:
        """Wait, as the leader, for the threads that the last round has woken."""
        patience_s = self._sync_s / _PATIENCE
        if patience_s <= 0 or len(self._waiting) >= self._gathered:
            return
        until = self._clock.monotonic_s() + patience_s
        if patience_s < _LEAST_WAIT_S:
            # Only the interpreter lock is released: a timed wait would take longer.
            for _ in range(_TURNS):
                if len(self._waiting) >= self._gathered or self._clock.monotonic_s() >= until:
                    break
                time.sleep(0)
            return
        with held(self._changed):
            self._expected = self._gathered
            while patience_s > 0 and len(self._waiting) < self._expected:
                self._clock.wait(self._changed, patience_s)
                patience_s = until - self._clock.monotonic_s()
            self._expected = 0

    def _wake_served(self) -> bool:
        """Wake the waiters whose bytes are on disk; return whether others are left."""
        with held(self._changed):
            self._gathered = len(self._waiting)
            for waiter in list(self._waiting):
                if waiter.is_served():
                    waiter.wake()
                    self._waiting.remove(waiter)
            return bool(self._waiting)

    def _leave(self, waiter: _Waiter) -> None:
        """Stop waiting and leading; the longest waiter leads next. May be called again."""
        # A leader that is on the list, too, was chosen by an interrupted call that did not wake it.
        if waiter is not self._leader and waiter not in self._waiting and self._leader not in self._waiting:
            return
        with held(self._changed):
            if self._leader is waiter:
                self._leader = next((other for other in self._waiting if other is not waiter), None)
            if self._leader is not None:
                self._leader.wake()
            self._waiting = [other for other in self._waiting if other not in (waiter, self._leader)]
