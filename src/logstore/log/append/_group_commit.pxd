# cython: language_level=3
"""Group commit, as other compiled modules see it; `_group_commit.pyx` describes it."""

from libc.stdint cimport int64_t, uint64_t

cdef extern from "<semaphore.h>" nogil:
    ctypedef struct sem_t:
        pass


cdef enum WaiterState:
    RUNS                            # in no queue: it asks, leads, or has not begun to wait
    WAITS                           # in the queue of those whose bytes are not on disk
    SERVED                          # asleep still, in the queue of those that are woken one after another
    WOKEN                           # in no queue: on its way, it will wake the next one


cdef struct Waiter:                 # a thread in `GroupCommit.run`, on its stack
    sem_t turn                      # posted when the thread is served, or leads
    int64_t offset                  # everything below it is to be on disk
    int rounds                      # that it may lead, so that it waits for no more than two syncs
    WaiterState state
    Waiter *before
    Waiter *after


cdef struct WaiterQueue:
    Waiter *first                   # it has waited longest
    Waiter *last


cdef class Rounds:
    cpdef bint is_done(self, int64_t offset) except -1
    cpdef sync(self, GroupCommit commit)


cdef class GroupCommit:
    cdef Rounds _rounds
    cdef uint64_t _fork
    # Guarded by the GIL.
    cdef Waiter *_leader            # NULL: no thread leads
    cdef WaiterQueue _waiters
    cdef WaiterQueue _served
    cdef bint _is_waking            # a thread is WOKEN
    cdef Waiter *_next              # of `wake_served`: the waiter that it looks at
    cdef Py_ssize_t _waiting        # threads in `_waiters`; a leader that gathers reads it without the GIL
    cdef Py_ssize_t _gathered       # threads that have waited at the end of the last round
    cdef bint _is_counted           # `_gathered` is that of the running round
    cdef Py_ssize_t _expected       # threads that a sleeping leader waits for; 0: it does not sleep
    cdef int64_t _sync_ns           # time of the last round
    cdef double _patience           # share of that time
    cpdef int run(self, int64_t offset) except -1
    cpdef int wake_served(self) except -1
    cdef int _take_part(self, Waiter *own) except -1
    cdef int _lead(self, Waiter *own) except -1
    cdef void _gather(self, Waiter *own) noexcept
    cdef int _wait(self, Waiter *own) except -1
    cdef void _wake_next(self) noexcept
    cdef void _come_back(self, Waiter *own) noexcept
    cdef bint _is_served(self, int64_t offset) except -1
    cdef bint _has_ended(self, int64_t offset) except -1
    cdef void _enqueue(self, Waiter *waiter) noexcept
    cdef void _dequeue(self, Waiter *waiter) noexcept
    cdef void _leave(self, Waiter *own) noexcept
