# cython: language_level=3
"""Fetch sessions, as other compiled modules see them; `_sessions.pyx` describes them."""

from libc.stdint cimport int32_t, int64_t

from logstore.broker.fetching._routes cimport FetchRoute
from logstore.io._file_region cimport FileRegion
from logstore.io._notifier cimport Notifier
from logstore.log._partition_log cimport Moment
from logstore.log.marks._watermark cimport Registration


cdef class FetchedPartition:
    cdef readonly bytes topic         # a name or an id
    cdef readonly str name            # "" for one that is named by its id
    cdef readonly str topic_id
    cdef readonly int32_t partition
    cdef readonly int32_t current_leader_epoch
    cdef readonly int64_t fetch_offset
    cdef readonly int32_t last_fetched_epoch
    cdef readonly int32_t partition_max_bytes
    # What the client was told last; -1: nothing, or an error.
    cdef int64_t _high_watermark
    cdef int64_t _log_start
    cdef bint _is_dropped             # from its session
    cdef bint _moves                  # to the end of its session
    # For fetches from bytes.
    cdef FetchRoute _route
    cdef object _table                # that the route was found in
    cdef Moment _moment               # of the last look, as the rest
    cdef FileRegion _region
    cdef bint _has_list               # of aborted transactions, which is empty
    cdef Registration _registration   # of the session's notifier; None: no step from bytes has waited yet
    cdef int _ask(self, int64_t epoch, int64_t offset, int64_t last_epoch, int64_t max_bytes) except -1
    cdef int _note(self, int64_t high_watermark, int64_t log_start) except -1


cdef class ClientFetchSession:
    cdef readonly int64_t number
    cdef readonly bint by_id
    cdef public int64_t epoch         # of the next request
    cdef readonly list partitions     # in the order of their turns; a change makes another list
    cdef dict _known                  # (topic, partition) -> its partition
    cdef frozenset _topics            # of the partitions; None: not looked for since they have changed
    cdef readonly double made_s
    cdef readonly double used_s
    cdef Notifier _notifier           # None: no step from bytes has waited yet
    cdef Py_ssize_t _counted          # partitions, in the sum of all sessions
    cdef object _step                 # from bytes, that waits; None: there is none
    cdef object __weakref__
    cdef frozenset topics(self)
    cdef int disarm(self) except -1
    cdef FetchedPartition find(self, bytes topic, int64_t partition)
    cdef int add(self, list added) except -1
    cdef int drop(self, list dropped) except -1
    cpdef int move_back(self, list moved) except -1


cdef class Plan:
    cdef readonly list wanted
    cdef readonly ClientFetchSession session
    cdef readonly bint is_incremental
    cdef readonly int code            # of the whole answer


cdef class FetchSessions:
    cdef int64_t _most
    cdef public int64_t most_partitions  # of all sessions
    cdef int64_t _partitions          # of all sessions
    cdef object _clock
    cdef object _rng
    cdef dict _sessions               # the one that was used last is the last
    cdef ClientFetchSession find(self, int64_t number, int64_t epoch, bint by_id)
    cdef Plan go_on(self, ClientFetchSession session)
    cdef int _keep(self, ClientFetchSession session) except -1
    cdef int _end(self, ClientFetchSession session) except -1
    cdef bint _end_idle(self, double now_s) except -1
