# cython: language_level=3
"""Produce requests of a turn, as other compiled modules see them; `_produce.pyx` describes them."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from logstore.broker._loop cimport Answer, QuickRequests
from logstore.log.append._offers cimport BatchOffers


cdef class Route:
    cdef BatchOffers _offers
    cdef list _batches            # of this turn, in the order in which they came


cdef class OfferedBatch:
    cdef bytes _frame             # keeps the bytes
    cdef const uint8_t *_data
    cdef int64_t _size
    cdef int64_t _first           # its first offset; -1: it is not in the log
    cdef int64_t _log_start
    cdef int16_t _error
    cdef bint _is_done            # it is in the log, or has an error
    cdef const uint8_t *_topic    # name or id
    cdef int64_t _topic_size
    cdef int32_t _partition
    cdef int64_t _partitions      # of the topic, if this is the first of them; else 0


cdef class ProduceRequestBytes:
    cdef Answer _answer
    cdef bytes _frame
    cdef object _request          # as a message; None: it is not decoded
    cdef int16_t _version
    cdef int32_t _correlation_id
    cdef int16_t _acks
    cdef int64_t _topic_count
    cdef list _batches            # empty: it is not a usual request, and nothing of it is done
    cdef bint _parse(self) except -1
    cdef bint _is_done(self) except -1
    cdef bint _has_error(self) except -1
    cdef bytes _response(self)


cdef class ProduceTurn(QuickRequests):
    cdef object _route_to         # called with a name, an id and a partition
    cdef object _finish           # called with a connection and its requests that are not done
    cdef object _allows           # called with a connection, a client id, topics; None: all is allowed
    cdef object _table            # called for the table of topics: another object after each change
    cdef object _known            # that the routes were found in
    cdef dict _routes
    cdef list _requests           # of this turn
    cdef list _active             # routes with batches
    cdef set _waiting             # connections with a request of this turn that nothing is done of yet
    cdef bint _is_allowed(self, ProduceRequestBytes request) except -1
    cdef list _routes_of(self, ProduceRequestBytes request)
    cdef int _append(self, Route route) except -1
