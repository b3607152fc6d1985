"""Buffer memory of a producer, for records that wait to be written: `buffer.memory`.

Counts bytes, owns none. A batch reserves its share when it is opened and releases it when it is
written or given up, so single records do not reserve. Any thread may reserve, release and wait.
"""

from __future__ import annotations

from logstore.clock import Clock
from logstore.io._interrupts import Condition, held


class BufferMemory:
    """A number of bytes of which shares are reserved and released.

    Invariant: ``0 <= reserved``, and ``reserved <= limit`` unless one single batch is larger than the limit.
    """

    def __init__(self, limit: int, clock: Clock) -> None:
        self.limit = limit
        self._clock = clock
        self._changed = Condition()
        self.reserved = 0
        self.waiting = 0  #: threads that wait for memory

    def try_reserve(self, size: int) -> bool:
        """Reserve a share if there is room; if nothing is reserved, also one above the limit."""
        with held(self._changed):
            if self.reserved and self.reserved + size > self.limit:
                return False
            self.reserved += size
            return True

    def release(self, size: int) -> None:
        """Release a share and wake the threads that wait for memory."""
        with held(self._changed):
            self.reserved -= size
            assert self.reserved >= 0, "more was released than was reserved"
            if self.waiting:
                self._changed.notify_all()

    def wait(self, seen: int, timeout_s: float) -> None:
        """Wait until less is reserved than ``seen``, at most ``timeout_s``."""
        with held(self._changed):
            if self.reserved < seen:
                return
            self.waiting += 1
            try:
                self._clock.wait(self._changed, timeout_s)
            finally:
                self.waiting -= 1
