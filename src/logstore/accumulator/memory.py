"""The memory that a producer may fill with records that wait to be written: `buffer.memory`.

Counts bytes, owns none. A batch takes its share when it is opened and gives it back when it is
written or given up, so no record of a batch asks here. Any thread may take, give back and wait.
"""

from __future__ import annotations

from logstore.clock import Clock
from logstore.io._interrupts import Condition, held


class BufferMemory:
    """A number of bytes of which shares are taken and given back.

    Invariant: ``0 <= taken``, and ``taken <= limit`` unless one single batch is larger than the limit.
    """

    def __init__(self, limit: int, clock: Clock) -> None:
        self.limit = limit
        self._clock = clock
        self._taken = 0
        self._changed = Condition()
        self._waiting = 0

    @property
    def taken(self) -> int:
        return self._taken

    @property
    def waiting(self) -> int:
        """How many threads wait for room."""
        return self._waiting

    def try_take(self, size: int) -> bool:
        """Take a share if there is room; if nothing is taken at all, also one that is too large."""
        with held(self._changed):
            if self._taken and self._taken + size > self.limit:
                return False
            self._taken += size
            return True

    def give_back(self, size: int) -> None:
        """Return a share and wake whoever waits for room."""
        with held(self._changed):
            self._taken -= size
            assert self._taken >= 0, "more was given back than was taken"
            if self._waiting:
                self._changed.notify_all()

    def wait(self, seen: int, timeout_s: float) -> None:
        """Wait until less is taken than ``seen``, at most ``timeout_s``."""
        with held(self._changed):
            if self._taken < seen:
                return
            self._waiting += 1
            try:
                self._clock.wait(self._changed, timeout_s)
            finally:
                self._waiting -= 1
