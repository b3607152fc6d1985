# cython: language_level=3
"""Fetch requests from bytes, as other compiled modules see them; `_fetch.pyx` describes them."""

from libc.stdint cimport int32_t, int64_t

from logstore.broker._loop cimport Answer, QuickRequests
from logstore.broker.fetching._fields cimport Head
from logstore.broker.fetching._routes cimport FetchRoutes
from logstore.broker.fetching._steps cimport SessionSteps
from logstore.io._files cimport Files
from logstore.io._notifier cimport Notifier
from logstore.protocol._reading cimport Reader


cdef class ParkedFetch:
    cdef FetchAnswers _fetches
    cdef Answer _answer
    cdef bytes _frame
    cdef Notifier _notifier
    cdef list _registrations          # with the marks of the partitions; they end with it
    cdef list _timer
    cdef double _until_s


cdef class FetchAnswers(QuickRequests):
    cdef FetchRoutes _routes
    cdef SessionSteps _steps
    cdef object _go_on                # called with a request that has waited, and is not usual now
    cdef Files _files
    cdef int64_t _most_open           # descriptors: beyond it an answer brings one region only
    cdef int64_t _most_bytes          # of an answer
    cdef object _allows               # None: every client may read all
    cdef set _topics                  # of the last request that was looked at; None: not asked for
    cdef int64_t _requests            # outside of a session, that were looked at
    cdef dict _parked                 # notifier -> its fetch
    cdef bint _is_short               # the last request that was looked at is usual, and finds too little
    cdef readonly int64_t answered    # requests outside of a session
    cdef readonly int64_t parked
    cdef list _look(self, Reader r, const Head *head, list routes)
    cdef bytes _client_of(self, bytes frame)
    cdef int _count(self, list routes) except -1
    cdef int _park(self, Answer answer, bytes frame, const Head *head, list routes) except -1
    cdef int _arm(self, ParkedFetch parked, list routes, bint committed) except -1
    cdef int _unpark(self, ParkedFetch parked) except -1
    cdef int _look_again(self, ParkedFetch parked, bint is_over) except -1
    cdef int32_t _left_ms(self, ParkedFetch parked, bint is_over) except -1
