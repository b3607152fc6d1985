# cython: language_level=3
"""Buffer memory of a producer (``buffer.memory``): the limit of bytes in records that wait to be written.

`BufferMemory` counts bytes and allocates none. A batch reserves its bytes when it is opened, and releases them
when it is written or given up. Single records reserve nothing. Any thread may reserve, release and wait.

The count changes under the GIL, in steps that do not release it. The lock is for threads that wait.
"""

cimport cython
from libc.stdint cimport int64_t

from logstore.io._interrupts import Condition


@cython.final
cdef class BufferMemory:
    """A number of bytes, of which each batch reserves and releases a share.

    Invariant: ``0 <= reserved``; and ``reserved <= limit``, unless one batch alone is larger than the limit.
    """

    def __init__(self, int64_t limit: int, clock: Clock):
        self.limit = limit
        self._clock = clock
        self._changed = Condition()

    cpdef bint try_reserve(self, int64_t size) except -1:
        """Reserve ``size`` bytes if so many are available; return whether they were reserved.

        If no bytes are reserved, a size above the limit is allowed: such a batch could never be written otherwise.
        """
        if self.reserved and self.reserved + size > self.limit:
            return False
        self.reserved += size
        return True

    cpdef int release(self, int64_t size) except -1:
        """Release ``size`` bytes and wake the threads that wait for memory."""
        assert self.reserved >= size, "more was released than was reserved"
        self.reserved -= size
        if self.waiting:
            # A thread that counts as waiting holds the lock until it waits: it is notified.
            with self._changed:
                self._changed.notify_all()
        return 0

    def wait(self, int64_t seen: int, double timeout_s: float) -> None:
        """Wait for the next release, at most ``timeout_s``; return at once if less than ``seen`` is reserved."""
        with self._changed:
            # Nothing releases the GIL between the two steps: a release before them is seen, one after notifies.
            if self.reserved < seen:
                return
            self.waiting += 1
            try:
                self._clock.wait(self._changed, timeout_s)
            finally:
                self.waiting -= 1
