# cython: language_level=3
"""Fetch requests from bytes, as other compiled modules see them; `_fetch.pyx` describes them."""

from libc.stdint cimport int64_t

from logstore.broker._loop cimport Answer, QuickRequests
from logstore.io._files cimport Files
from logstore.log._partition_log cimport PartitionLog
from logstore.protocol._reading cimport Reader


cdef class FetchRoute:
    cdef PartitionLog _log
    cdef object _aborted_between      # called with two offsets, for a reader with read_committed
    cdef object _counts
    cdef bint _is_replicated          # led as long as the log takes clients' batches, no longer
    cdef int64_t _request             # the last one that has named the partition
    cdef int64_t _size                # of the region for it; -1: none


cdef class FetchAnswers(QuickRequests):
    cdef object _route_to             # called with a name or an id, a partition, and whether it is an id
    cdef object _table                # called for the table of topics: another object after each change
    cdef object _known                # that the routes were found in
    cdef Files _files
    cdef int64_t _most_open           # descriptors: beyond it an answer brings one region only
    cdef int64_t _most_bytes          # of an answer
    cdef dict _routes
    cdef int64_t _requests            # that were looked at
    cdef readonly int64_t answered    # of them
    cdef list _answer_to(self, Reader r)
    cdef FetchRoute _route_of(self, bytes topic, int64_t partition, bint is_id, bint is_follower)
