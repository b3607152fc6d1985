"""Buffer memory of a producer (``buffer.memory``): the limit of bytes in records that wait to be written.

`BufferMemory` counts bytes and allocates none. A batch reserves its bytes when it is opened, and releases them
when it is written or given up. Single records reserve nothing. Any thread may reserve, release and wait.
"""

from __future__ import annotations

from logstore.clock import Clock
from logstore.io._interrupts import Condition, held


class BufferMemory:
    """A number of bytes, of which each batch reserves and releases a share.

    Invariant: ``0 <= reserved``; and ``reserved <= limit``, unless one batch alone is larger than the limit.
    """

    def __init__(self, limit: int, clock: Clock) -> None:
        self.limit = limit
        self._clock = clock
        self._changed = Condition()
        self.reserved = 0
        self.waiting = 0  #: threads that wait for memory

    def try_reserve(self, size: int) -> bool:
        """Reserve ``size`` bytes if so many are available; return whether they were reserved.

        If no bytes are reserved, a size above the limit is allowed: such a batch could never be written otherwise.
        """
        with held(self._changed):
            if self.reserved and self.reserved + size > self.limit:
                return False
            self.reserved += size
            return True

    def release(self, size: int) -> None:
        """Release ``size`` bytes and wake the threads that wait for memory."""
        with held(self._changed):
            self.reserved -= size
            assert self.reserved >= 0, "more was released than was reserved"
            if self.waiting:
                self._changed.notify_all()

    def wait(self, seen: int, timeout_s: float) -> None:
        """Wait for the next release, at most ``timeout_s``; return at once if less than ``seen`` is reserved."""
        with held(self._changed):
            if self.reserved < seen:
                return
            self.waiting += 1
            try:
                self._clock.wait(self._changed, timeout_s)
            finally:
                self.waiting -= 1
