# cython: language_level=3
"""Fetch requests from bytes, as other compiled modules see them; `_fetch.pyx` describes them."""

from libc.stdint cimport int32_t, int64_t

from logstore.broker._loop cimport Answer, QuickRequests
from logstore.broker.fetching._routes cimport FetchRoute, FetchRoutes
from logstore.broker.fetching._sessions cimport ClientFetchSession, FetchSessions, Plan
from logstore.io._file_region cimport FileRegion
from logstore.io._files cimport Files
from logstore.log._partition_log cimport Moment
from logstore.protocol._reading cimport Reader
from logstore.protocol._writing cimport Writer


cdef struct Head:                     # of a request
    int version
    int32_t correlation_id
    int64_t wait_ms
    int64_t min_bytes
    int64_t most                      # bytes of the answer
    bint committed
    bint flexible
    bint is_id                        # topics are named by their ids


cdef struct AskedFields:              # of a partition in a request
    int32_t partition
    int64_t epoch                     # that the client believes in; -1: any
    int64_t offset
    int64_t last_epoch                # of the batch that the client has read last; -1: unknown
    int64_t max_bytes


cdef class FetchAnswers(QuickRequests):
    cdef FetchRoutes _routes
    cdef FetchSessions _sessions
    cdef object _go_on                # called with a request whose session has changed
    cdef Files _files
    cdef int64_t _most_open           # descriptors: beyond it an answer brings one region only
    cdef int64_t _most_bytes          # of an answer
    cdef bint _asks_rights
    cdef int64_t _requests            # outside of a session, that were looked at
    cdef readonly int64_t answered    # of all requests
    cdef readonly int64_t answered_in_sessions
    cdef list _answer_to(self, Reader r, const Head *head)
    cdef int _take_step(self, Answer answer, const Head *head, Plan plan) except -1
    cdef list _answer_in_session(self, Plan plan, const Head *head)
    cdef FileRegion _find(self, FetchRoute route, const AskedFields *asked, int64_t left, int64_t size,
                          bint committed, Moment *moment)
