"""Group commit: many threads that want the disk share one sync.

The first to come becomes the leader and syncs for all whose bytes were written before it began; the
others wait, each on a lock of its own, and are let go when their bytes are on disk. Whoever wrote
later is served by the next round, which the same leader runs at once, since waking another would leave
the disk idle for longer than a sync takes; after a few rounds it hands over. No thread of its own.

Threads that append in a loop come back right after a round has let them go. A leader that synced at
once would leave half of them for the next round, so it waits until as many are there as were at the
end of the last one, but never longer than an eighth of what its sync took.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.errors import LogstoreError

_PATIENCE = 8
_LEAST_WAIT_S = 0.001  #: a timed wait of less takes longer than it says
_TURNS = 10_000
_ROUNDS = 4


class _Waiter:
    """A thread that is not served yet."""

    __slots__ = ("is_done", "leads", "lock")

    def __init__(self, is_done: Callable[[], bool]) -> None:
        self.is_done = is_done
        self.leads = False
        self.lock = threading.Lock()
        self.lock.acquire()

    def is_served(self) -> bool:
        try:
            return self.is_done()
        except LogstoreError:
            # Its error, not the leader's: let it go, and it meets that itself.
            return True


class GroupCommit:
    """Runs a sync so that at most one runs at a time and nobody syncs what another has synced."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._changed = threading.Condition(threading.Lock())
        self._busy = False
        self._waiting: list[_Waiter] = []
        self._expected = 0  # how many waiters the leader gathers; 0: it does not
        self._gathered = 0  # waiters there were at the end of the last round
        self._sync_s = 0.0  # what the last round took

    @property
    def is_busy(self) -> bool:
        """Whether somebody leads a round."""
        return self._busy

    def run(self, is_done: Callable[[], bool], sync: Callable[[], None]) -> None:
        """Return once ``is_done`` holds, having called ``sync`` as the leader if nobody else does.

        An error of ``sync`` is raised in its leader, unless that had been served by an earlier round; a
        waiter becomes the next leader and meets it in ``is_done`` or ``sync`` itself.
        """
        while not is_done():
            waiter = _Waiter(is_done)
            try:
                with self._changed:
                    # No signal is looked at between the two, so whoever leads knows it.
                    if not self._busy:
                        waiter.leads = self._busy = True
                    else:
                        self._waiting.append(waiter)
                        if 0 < self._expected <= len(self._waiting):
                            self._changed.notify()
                if not waiter.leads:
                    waiter.lock.acquire()
                if waiter.leads:
                    self._lead(is_done, sync)
            except BaseException:
                self._leave(waiter)
                raise
            if waiter.leads:
                self._hand_over()

    def _lead(self, is_done: Callable[[], bool], sync: Callable[[], None]) -> None:
        served = False
        for _ in range(_ROUNDS):
            self._gather()
            began = self._clock.monotonic_s()
            try:
                sync()
            except Exception:
                if not served:
                    raise
                return
            self._sync_s = self._clock.monotonic_s() - began
            served = served or is_done()
            if not self._let_go() or not served:
                return

    def _gather(self) -> None:
        """Wait, as the leader, for those whom the last round has let go."""
        patience_s = self._sync_s / _PATIENCE
        if patience_s <= 0 or len(self._waiting) >= self._gathered:
            return
        until = self._clock.monotonic_s() + patience_s
        if patience_s < _LEAST_WAIT_S:
            # Only the interpreter is given away meanwhile.
            for _ in range(_TURNS):
                if len(self._waiting) >= self._gathered or self._clock.monotonic_s() >= until:
                    break
                time.sleep(0)
            return
        with self._changed:
            self._expected = self._gathered
            while patience_s > 0 and len(self._waiting) < self._expected:
                self._clock.wait(self._changed, patience_s)
                patience_s = until - self._clock.monotonic_s()
            self._expected = 0

    def _let_go(self) -> bool:
        """Wake those whose bytes are on disk; whether others are left."""
        with self._changed:
            self._gathered = len(self._waiting)
            served = [waiter for waiter in self._waiting if waiter.is_served()]
            for waiter in served:
                self._waiting.remove(waiter)
                waiter.lock.release()
            return bool(self._waiting)

    def _hand_over(self) -> None:
        """Let the one that has waited longest lead, if there is one."""
        with self._changed:
            if self._waiting:
                first = self._waiting.pop(0)
                first.leads = True
                first.lock.release()
            else:
                self._busy = False

    def _leave(self, waiter: _Waiter) -> None:
        """A thread was interrupted, or its sync has failed: it waits no more, and another leads."""
        with self._changed:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
        if waiter.leads:
            self._hand_over()
