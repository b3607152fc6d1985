# cython: language_level=3
"""Steps of fetch sessions, as other compiled modules see them; `_steps.pyx` describes them."""

from libc.stdint cimport int64_t

from logstore.broker._loop cimport Answer
from logstore.broker.fetching._fields cimport Head
from logstore.broker.fetching._routes cimport FetchRoutes
from logstore.broker.fetching._sessions cimport ClientFetchSession, FetchSessions, Plan
from logstore.io._files cimport Files
from logstore.protocol._reading cimport Reader


cdef class ParkedStep:
    cdef SessionSteps _steps
    cdef Answer _answer
    cdef Head _head
    cdef Plan _plan
    cdef list _timer
    cdef double _until_s


cdef class SessionSteps:
    cdef FetchSessions _sessions
    cdef FetchRoutes _routes
    cdef object _go_on                # called with a request whose session has changed
    cdef Files _files
    cdef int64_t _most_open           # descriptors: beyond it an answer brings one region only
    cdef object _allows               # None: every client may read all
    cdef object _notified             # notifier -> its session, as long as that is in use
    cdef readonly int64_t answered
    cdef readonly int64_t parked
    cdef ClientFetchSession session_of(self, Reader r, const Head *head, int64_t number, int64_t epoch)
    cdef int take(self, Answer answer, Reader r, const Head *head, ClientFetchSession session,
                  bytes client_id) except -1
    cdef int _begin(self, Answer answer, const Head *head, Plan plan, bytes client_id) except -1
    cdef bint _is_allowed(self, Answer answer, const Head *head, Plan plan, bytes client_id) except -1
    cdef int64_t _look(self, Plan plan, const Head *head, list told, list moved) except -2
    cdef int _look_again(self, ParkedStep step, bint is_over) except -1
    cdef int _hand_over(self, Answer answer, const Head *head, Plan plan, int64_t wait_ms,
                        bytes client_id, bint was_parked) except -1
    cdef int _tell(self, Answer answer, const Head *head, Plan plan, list told, list moved) except -1
    cdef int _park(self, Answer answer, const Head *head, Plan plan) except -1
    cdef int _arm(self, Plan plan, bint committed) except -1
    cdef int _unpark(self, ParkedStep step) except -1
