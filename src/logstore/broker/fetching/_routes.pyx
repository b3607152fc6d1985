# cython: language_level=3
"""The ways from the names and ids of partitions to their open logs, found once for all fetches from bytes.

A route is dropped when a topic is made, changed or deleted, and looked for again when its log has closed. Used by
the loop's thread; no request, no answer.
"""

cimport cython
from libc.stdint cimport int64_t

from logstore.broker._counts cimport TopicCounts
from logstore.broker.fetching._fields cimport AskedFields
from logstore.io._file_region cimport FileRegion
from logstore.log._partition_log cimport Moment, PartitionLog

from logstore.broker.served import end_of_epoch


@cython.final
cdef class FetchRoute:
    """The way to a partition's records: its open log, and the counts of its topic."""

    def __init__(self, PartitionLog log not None, log_of_records: object, TopicCounts counts not None):
        self._log, self._log_of_records, self._counts = log, log_of_records, counts

    cdef bint _agrees(self, int64_t last_epoch, int64_t offset) except -1:
        """Return whether the log is the one that a client has read, by the epoch of its last batch (KIP-595)."""
        if last_epoch == self._log.leader_epoch:
            return offset <= self._log.end.value
        epoch, end = end_of_epoch(self._log_of_records, last_epoch)
        return epoch == last_epoch and offset <= end

    cdef FileRegion look(self, const AskedFields *asked, int64_t left, int64_t size, bint committed,
                         Moment *moment):
        """Return what there is for an answer that has ``size`` bytes; None if nothing, or if it is not usual."""
        cdef FileRegion region
        moment.is_usual = False
        if asked.epoch not in (-1, self._log.leader_epoch):
            return None
        if asked.last_epoch >= 0 and not self._agrees(asked.last_epoch, asked.offset):
            return None
        region = self._log.region_at(asked.offset, left, committed, moment)
        if region is None or not moment.is_usual:
            return None
        if region.size > left and size:
            return None  # only the first one of an answer is larger
        if committed and (self._log_of_records._aborted_between(asked.offset, region.next_offset)
                          or not self._log.is_in(moment)):
            moment.is_usual = False
        return region


@cython.final
cdef class FetchRoutes:
    """The routes that were found.

    ``route_to(topic, partition, is_id)`` returns the route to a partition, or None; ``topic`` has the bytes of a
    name or an id. ``table()`` returns the table of topics, another object after each change.
    """

    def __init__(self, route_to: object, table: object):
        self._route_to, self._table, self._routes = route_to, table, {}

    cdef object now(self):
        """Return the table of topics; the routes that were found in another one are dropped."""
        table = self._table()
        if table is not self._known:
            self._known = table
            self._routes.clear()
        return table

    cdef FetchRoute find(self, bytes topic, int64_t partition, bint is_id):
        """Return the route to a partition in the table of `now`; None if there is none."""
        cdef FetchRoute route
        key = (topic, partition, is_id)  # the bytes of an id may be those of a name
        route = self._routes.get(key)
        if route is None or route._log.closed:
            route = self._route_to(topic, partition, is_id)
            if route is not None:
                self._routes[key] = route
        return route
