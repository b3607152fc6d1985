# cython: language_level=3
"""Table of file operations whose syncs take a set time, for benchmarks of what a log adds to a sync.

A sync of a shared disk takes 0.1 to 10 ms, and another time at each call. `SlowSyncFiles` sleeps instead, as a
thread does that waits for a device. Writes may be slow, too. All other calls are those of libc.

Nothing is synced: the table is for files that a benchmark deletes.
"""

cimport cython
from libc.stdint cimport int64_t

from logstore.io._file_ops cimport OP_FDATASYNC, OP_FSYNC_DIR, OP_PWRITE, Call, FileOps
from logstore.io._files cimport Files

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <sys/prctl.h>
    #include <stdint.h>
    #include <time.h>

    static void logstore_sleep_exactly(int64_t time_ns) {
        /* By default the kernel may wake a thread 50 us late, which is half of a fast sync. */
        static _Thread_local int is_exact;
        struct timespec wanted = {time_ns / 1000000000, time_ns % 1000000000};
        if (!is_exact) {
            prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
            is_exact = 1;
        }
        clock_nanosleep(CLOCK_MONOTONIC, 0, &wanted, 0);
    }
    """
    void logstore_sleep_exactly(int64_t time_ns) nogil


cdef int64_t answer(void *context, const Call *call) noexcept nogil:
    cdef SlowSync *slow = <SlowSync *>context
    if call.op == OP_FDATASYNC or call.op == OP_FSYNC_DIR:
        if slow.sync_ns:
            logstore_sleep_exactly(slow.sync_ns)
        return 0
    if call.op == OP_PWRITE and slow.write_ns:
        logstore_sleep_exactly(slow.write_ns)
    return slow.behind.make(slow.behind.context, call)


@cython.final
cdef class SlowSyncFiles(Files):
    """`Files` whose syncs take `sync_us` microseconds, and sync nothing; each write takes `write_us` longer.

    Owns: nothing beside what `Files` owns; the table refers to the object itself.

    >>> files = SlowSyncFiles()
    >>> files.sync_us = 120
    """

    def __cinit__(self, *, descriptor_limit=None):
        self._slow = SlowSync(self.ops, 0, 0)
        self.ops = FileOps(<void *>&self._slow, answer)

    @property
    def sync_us(self):
        """Time of a sync in microseconds, at first 0."""
        return self._slow.sync_ns // 1_000

    @sync_us.setter
    def sync_us(self, int64_t value):
        self._slow.sync_ns = value * 1_000

    @property
    def write_us(self):
        """Time in microseconds that each write takes longer, at first 0."""
        return self._slow.write_ns // 1_000

    @write_us.setter
    def write_us(self, int64_t value):
        self._slow.write_ns = value * 1_000
