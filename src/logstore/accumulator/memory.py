"""Buffer memory of a producer, for records that wait to be written: `buffer.memory`.

Counts bytes, owns none. A batch reserves its share when it is opened and releases it when it is
written or given up, so single records do not reserve. Any thread may reserve, release and wait.
"""

from __future__ import annotations

from logstore.clock import Clock
from logstore.io._interrupts import Condition, held


class BufferMemory:
    """A number of bytes of which shares are reserved and released.

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
        """How many threads wait for memory."""
        return self._waiting

    def try_take(self, size: int) -> bool:
        """Reserve a share if there is room; if nothing is reserved, also one above the limit."""
        with held(self._changed):
            if self._taken and self._taken + size > self.limit:
                return False
            self._taken += size
            return True

    def give_back(self, size: int) -> None:
        """Release a share and wake the threads that wait for memory."""
        with held(self._changed):
            self._taken -= size
            assert self._taken >= 0, "more was given back than was taken"
            if self._waiting:
                self._changed.notify_all()

    def wait(self, seen: int, timeout_s: float) -> None:
        """Wait until less is reserved than ``seen``, at most ``timeout_s``."""
        with held(self._changed):
            if self._taken < seen:
                return
            self._waiting += 1
            try:
                self._clock.wait(self._changed, timeout_s)
            finally:
                self._waiting -= 1
