# cython: language_level=3
"""Ways to partitions' records, as other compiled modules see them; `_routes.pyx` describes them."""

from libc.stdint cimport int64_t

from logstore.broker._counts cimport TopicCounts
from logstore.broker.fetching._fields cimport AskedFields
from logstore.io._file_region cimport FileRegion
from logstore.log._partition_log cimport Moment, PartitionLog


cdef class FetchRoute:
    cdef PartitionLog _log
    cdef object _log_of_records       # that has what is not compiled
    cdef TopicCounts _counts
    cdef int64_t _request             # the last one outside of a session that has named the partition
    cdef int64_t _size                # of the region for it; -1: none
    cdef int64_t _seen                # the end that was seen for it
    cdef bint _agrees(self, int64_t last_epoch, int64_t offset) except -1
    cdef FileRegion look(self, const AskedFields *asked, int64_t left, int64_t size, bint committed,
                         Moment *moment)


cdef class FetchRoutes:
    cdef object _route_to
    cdef object _table
    cdef object _known                # the table that the routes were found in
    cdef dict _routes
    cdef object now(self)
    cdef FetchRoute find(self, bytes topic, int64_t partition, bint is_id)
