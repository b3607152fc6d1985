# cython: language_level=3
"""Fetch requests from bytes, as other compiled modules see them; `_fetch.pyx` describes them."""

from libc.stdint cimport int64_t

from logstore.broker._loop cimport QuickRequests
from logstore.broker.fetching._fields cimport Head
from logstore.broker.fetching._routes cimport FetchRoutes
from logstore.broker.fetching._steps cimport SessionSteps
from logstore.io._files cimport Files
from logstore.protocol._reading cimport Reader


cdef class FetchAnswers(QuickRequests):
    cdef FetchRoutes _routes
    cdef SessionSteps _steps
    cdef Files _files
    cdef int64_t _most_open           # descriptors: beyond it an answer brings one region only
    cdef int64_t _most_bytes          # of an answer
    cdef bint _asks_rights
    cdef int64_t _requests            # outside of a session, that were looked at
    cdef readonly int64_t answered    # of them
    cdef list _answer_to(self, Reader r, const Head *head)
