# cython: language_level=3
"""One segment as other compiled modules see it; `_segment.pyx` says what it answers for."""

from logstore._growth cimport Growth
from logstore._scan cimport Scanned


cdef class Segment(Scanned):
    cdef Growth _growth
    cdef int _cut_back(self, int status) except -1
