"""Group commit: many threads that want the disk share one sync.

The first to come becomes the leader and syncs for all whose bytes were written before it began;
the others wait. Whoever wrote later is served by the next round. No thread of its own.

Threads that append in a loop come back right after a round has let them go. A leader that synced at
once would leave most of them for the next round, so it waits until as many are there as were at the
end of the last one, but never longer than an eighth of what its sync took: on a slow disk all share
one sync, on a fast one nobody waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from logstore.clock import SYSTEM_CLOCK, Clock

_PATIENCE = 8


class GroupCommit:
    """Runs a sync so that at most one runs at a time and nobody syncs what another has synced."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._busy = False
        self._present = 0  # threads in `run`
        self._expected = 0  # how many the leader waits for; 0: it does not
        self._gathered = 1  # threads that were in `run` at the end of the last round
        self._sync_s = 0.0  # what the last round took

    def run(self, is_done: Callable[[], bool], sync: Callable[[], None]) -> None:
        """Return once ``is_done`` holds, having called ``sync`` as the leader if nobody else does.

        An error of ``sync`` is raised in its leader; a waiter becomes the next leader and meets it
        in ``is_done`` or ``sync`` itself.
        """
        changed = self._changed
        with changed:
            self._present += 1
            if 0 < self._expected <= self._present:
                changed.notify_all()
        try:
            while True:
                with changed:
                    while self._busy and not is_done():
                        changed.wait()
                    if is_done():
                        return
                    self._busy = True
                    self._gather_locked()
                began = self._clock.monotonic_s()
                try:
                    sync()
                finally:
                    with changed:
                        self._busy = False
                        self._gathered = self._present
                        self._sync_s = self._clock.monotonic_s() - began
                        changed.notify_all()
        finally:
            with changed:
                self._present -= 1

    def _gather_locked(self) -> None:
        """Wait, as the leader, for those whom the last round has let go."""
        if self._present >= self._gathered:
            return
        self._expected = self._gathered
        left = self._sync_s / _PATIENCE
        until = self._clock.monotonic_s() + left
        while left > 0 and self._present < self._expected:
            self._clock.wait(self._changed, left)
            left = until - self._clock.monotonic_s()
        self._expected = 0
