# cython: language_level=3
"""Offers of batches to a log, as other compiled modules see them; `_offers.pyx` describes them."""

from libc.stdint cimport int64_t

from logstore.log._partition_log cimport Offer, PartitionLog


cdef class BatchOffers:
    cdef readonly PartitionLog log
    cdef object _writer
    cdef bint is_open(self) except -1
    cdef Py_ssize_t put(self, Offer *offers, Py_ssize_t count) except -1
