# cython: language_level=3
"""Planned faults, for other compiled tests; see `_faults.pyx`."""

from libc.stdint cimport int64_t

from logstore.io._files cimport FileOps, Files

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    int pthread_mutex_init(pthread_mutex_t *mutex, const void *attributes)
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)
    int pthread_mutex_destroy(pthread_mutex_t *mutex)
    ctypedef unsigned long pthread_t
    pthread_t pthread_self()

cdef enum:
    PATH_ROOM = 512
    PLAN_COUNT = 32

ctypedef int (*NameCall)(void *context, const char *path) noexcept nogil
ctypedef int (*NamesCall)(void *context, const char *old, const char *new) noexcept nogil

cdef struct Plan:
    int op                      # an OP_ number, or ANY_CHANGE
    int error                   # 0: only a short count
    int64_t first               # the call that fails, counted from 1 over the matching ones
    int64_t times               # how many calls fail from that one on; -1: all
    int64_t part                # bytes that are transferred anyway; -1: none
    bint torn                   # the part is not reported: the same call fails
    bint owed                   # the part was reported: the next matching call fails
    int64_t seen
    int64_t fired
    char path[PATH_ROOM]        # matches paths that contain it; empty: all
    char fired_on[PATH_ROOM]

cdef struct Event:
    int op
    int64_t position
    int64_t size
    int64_t status
    char *path

cdef struct Faults:
    FileOps inner
    pthread_mutex_t guard
    int64_t counts[32]
    int64_t changes
    int plan_count
    Plan plans[PLAN_COUNT]
    char **paths                # of the open descriptors, by number
    int64_t path_room
    pthread_mutex_t quota        # locked while syncs of paths that contain `held` must wait
    bint is_held
    int64_t waiting
    char held[PATH_ROOM]
    bint recording
    Event *events
    int64_t event_count
    int64_t event_room
    # Called after a planned failure of a sync, if the table behind can lose unsynced bytes.
    void (*lose)(void *context, int fd) noexcept nogil
    void (*lose_names)(void *context, const char *path) noexcept nogil
    int64_t delays_ns[32]       # the least duration of each operation
    bint is_watched
    pthread_t watched           # a thread whose calls are counted
    int64_t watched_calls


cdef class FaultyFiles(Files):
    cdef Faults *_faults
    cdef void _forget_events(self) noexcept
    cdef int64_t _guarded(self, const int64_t *count) noexcept
