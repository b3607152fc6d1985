# cython: language_level=3
"""Offers of clients' batches to a log, by a caller that must not wait: a loop that serves many connections.

`PartitionLog.offer` takes what it can at once: batches that keep every rule and fit the active segment, while no
other thread has the lock. Everything else is for `LogReplica.append_batch`, in a thread that may wait.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, malloc

from logstore.batch._batch cimport AT_RECORD_COUNT
from logstore.batch._bytes cimport load32
from logstore.log._partition_log cimport Offer, PartitionLog

from logstore.records import AppendResult


@cython.final
cdef class BatchOffers:
    """What one caller offers to an open log. One thread at a time uses it; others may append meanwhile."""

    def __init__(self, PartitionLog log not None, writer: LogWriter):
        self.log = log
        self._writer = writer

    cdef bint is_open(self) except -1:
        """Return whether the log is open still, so that an offer may be taken."""
        return not self.log.closed

    cdef Py_ssize_t put(self, Offer *offers, Py_ssize_t count) except -1:
        return self.log.offer(offers, count, self._writer)

    def offer(self, list batches: list[bytes]) -> list[AppendResult]:
        """Append the first of whole batches of clients, as far as that waits for nothing; return their results.

        They are in the page cache on return. What is left, perhaps all of them, is not in the log, nor is a batch
        that is wrong: `LogReplica.append_batch` appends it, or says what is wrong.

        Raises:
            StorageFailedError: the log has failed meanwhile. None of the batches may be called written.
        """
        cdef Py_ssize_t count = len(batches), n, taken
        cdef bytes batch
        cdef list results = []
        cdef Offer *offers = <Offer *>malloc(<size_t>max(count, 1) * sizeof(Offer))
        if offers == NULL:
            raise MemoryError
        try:
            for n in range(count):
                batch = batches[n]
                offers[n].data, offers[n].size = <const uint8_t *>PyBytes_AS_STRING(batch), PyBytes_GET_SIZE(batch)
            taken = self.put(offers, count)
            for n in range(taken):
                last = offers[n].first + load32(offers[n].data + AT_RECORD_COUNT) - 1
                results.append(AppendResult(offers[n].first, last, -1))
        finally:
            free(offers)
        return results
