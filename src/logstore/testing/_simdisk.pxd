# cython: language_level=3
"""Simulated disk, for other compiled tests; see `_simdisk.pyx`."""

from libc.stdint cimport int64_t

from logstore.testing._disk cimport Disk
from logstore.testing._faults cimport FaultyFiles
from logstore.testing._powercut cimport Chance
from logstore.testing._simtable cimport Machine

cdef class SimFiles(FaultyFiles):
    cdef Machine *_machine
    cdef Chance _chance
    cdef int _take(self, Disk *disk) except -1
    cdef void _forget_moments(self) noexcept
