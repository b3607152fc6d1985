# cython: language_level=3
"""The marks of an open log, as other compiled modules see them; `_marks.pyx` describes them."""

from libc.stdint cimport int64_t

from logstore.log.marks._watermark cimport Watermark


cdef class LogMarks:
    cdef readonly int64_t log_start         # <= last_stable: no record below it can be read
    cdef readonly Watermark last_stable     # <= high_watermark: every transaction below it has ended
    cdef readonly Watermark high_watermark  # <= end: records below it are not truncated any more
    cdef readonly Watermark end             # of the batches that are in the log
    cdef readonly Watermark synced          # <= end: everything below it is on disk
    cdef readonly bint lowering             # a truncation has begun and not lowered them yet
    cdef readonly int64_t cuts              # how often the log end was lowered
    cdef list _falls                        # (number, end) of each cut that no later one went below; ends rise
    cdef int _note_cut(self, int64_t end) except -1
    cdef int check(self) except -1
    cpdef bint was_cut(self, int64_t end, int64_t since) except -1
    cpdef bint raise_visible(self, int64_t high_watermark, int64_t last_stable) except -1
    cpdef int raise_synced(self, int64_t offset) except -1
