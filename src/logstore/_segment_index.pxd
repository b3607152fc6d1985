# cython: language_level=3
"""Index of a segment file, as other compiled modules see it; `_segment_index.pyx` describes it."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from logstore.batch._batch cimport BAD_OFFSET, HEADER_BYTES, SHORT, BatchHeader, last_offset_of, parse_header
from logstore.batch._bytes cimport OK
from logstore.io._files cimport File, FileOps, read_upto
from logstore._index cimport OffsetIndex, TimeIndex

cdef enum:
    WINDOW_BYTES = 16_384         # bytes that a search reads at once: an index interval and a batch

cdef struct Window:                # bytes of a segment's file, and the header that was read last
    uint8_t *data
    int64_t span                  # bytes to read at once
    int64_t start                 # position of the first byte
    int64_t size                  # bytes held; negative: the status of a read that failed
    BatchHeader header


cdef inline Window window_over(uint8_t *data, int64_t span) noexcept nogil:
    """Return an empty window over room for at least ``span`` bytes."""
    cdef Window window
    memset(&window, 0, sizeof(window))
    window.data, window.span = data, span
    return window


cdef inline uint8_t *bytes_at(const Window *window, int64_t position) noexcept nogil:
    return window.data + (position - window.start)


cdef inline int header_at(FileOps *ops, int fd, int64_t position, int64_t bound, Window *window) noexcept nogil:
    """Read the header at position, of a batch that must end before bound, from the window or the file.

    A read that fails returns SHORT and leaves a negative size.
    """
    cdef int status
    if position < window.start or position + HEADER_BYTES > window.start + window.size:
        window.start = position
        window.size = read_upto(ops, fd, window.data, min(window.span, bound - position), position)
        if window.size < 0:
            return SHORT
    status = parse_header(bytes_at(window, position), window.data + window.size, &window.header)
    return SHORT if status == OK and window.header.size > bound - position else status


cdef inline int check_order(const BatchHeader *header, int64_t seen, int64_t limit) noexcept nogil:
    """Return BAD_OFFSET unless a batch begins after offset seen and ends before limit (-1: there is none)."""
    return BAD_OFFSET if header.base_offset <= seen or 0 <= limit <= last_offset_of(header) else OK


cdef inline bint holds(const BatchHeader *header, int64_t offset, int64_t named, int64_t span,
                       int64_t limit) noexcept nogil:
    """Return whether a batch holds offset, ends at named (-1: anywhere), and fits in span bytes and below limit."""
    cdef int64_t last = last_offset_of(header)
    return (header.base_offset <= offset <= last and (last == named or named < 0) and header.size <= span
            and (last < limit or limit < 0))


cdef int check_gap(FileOps *ops, int fd, const BatchHeader *header, int64_t expected, int64_t position,
                   int64_t bound) noexcept nogil
cdef int check_sum(FileOps *ops, int fd, int64_t position, int64_t bound) noexcept nogil
cdef object header_fields(bytes data, str path, int64_t position)


cdef class SegmentIndex:
    cdef readonly int64_t base_offset
    cdef readonly File file
    cdef readonly OffsetIndex offsets
    cdef readonly TimeIndex times
    cdef readonly int64_t size
    cdef readonly int64_t next_offset
    cdef readonly int64_t max_timestamp_ms
    cdef readonly int64_t max_timestamp_offset
    cdef readonly int64_t first_timestamp_ms
    cdef readonly bint sealed
    cdef readonly bint stale            # the files of the indexes lack entries, or have wrong ones
    cdef readonly bint joined
    cdef uint64_t owner                 # of its batches in the table of checked ones; another after a cut
    cdef int32_t _interval
    cdef int64_t _unindexed
    cdef bint _ready
    cdef int _publish(self, int64_t position, int64_t next_offset) except -1
    cdef int _begin(self, int64_t position, int64_t next_offset) except -1
    cdef int _cut(self, int64_t position, int64_t next_offset) except -1
    cdef int _load_saved(self, int64_t end_offset) except -1
    cdef int _load_indexes(self) except -1
    cdef int _raise_not_followed(self, int64_t position) except -1
    cdef int _rebuild(self) except -1
    cdef int _rebuild_hint(self) except -1
    cdef int _hop(self, int64_t position, int64_t bound) except -1
    cdef int64_t _find(self, int64_t offset, int64_t bound, Window *window) except -2
    cdef int64_t _span(self, int64_t offset, int64_t bound) except -1
    cdef int64_t _candidate(self, int64_t offset, int64_t bound, int64_t *named, int64_t *span) except -2
    cdef int64_t _walk(self, int64_t offset, int64_t position, int64_t bound, Window *window) except -2
    cdef int64_t _walk_from(self, int64_t entry, OffsetIndex offsets, int64_t offset, int64_t bound,
                            Window *window) except -2
    cdef int _raise_at(self, int status, const Window *window, int64_t position) except -1
    cdef int _note(self, const BatchHeader *header, int64_t position) except -1
