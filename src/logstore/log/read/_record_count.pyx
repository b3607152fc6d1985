# cython: language_level=3
"""Record count of a range of a segment, from the headers of its batches alone.

Of large batches only the headers are read; small ones are read many at a time. Nothing is decompressed, and no
CRC is checked, so damage inside a batch goes unnoticed: a read or a verification reports it.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from libc.stdlib cimport free, malloc

from logstore.batch._batch cimport CONTROL_FLAG, HEADER_BYTES, BatchHeader, last_offset_of
from logstore.batch._bytes cimport OK
from logstore.io._files cimport OP_PREADV, FileOps, raise_status
from logstore._segment_index cimport WINDOW_BYTES, Window, check_gap, check_order, header_at, window_over
from logstore._segment cimport Segment

cdef enum:
    # Reading a header alone costs about as much as copying eight kilobytes. So smaller batches are read many
    # at a time, of larger ones only the header.
    LARGE_BYTES = 8_192
    BUFFER_BYTES = 65_536


cdef int64_t tally(FileOps *ops, int fd, int64_t position, int64_t bound, int64_t end_offset, Window *window,
                   int64_t *next_offset) noexcept nogil:
    """Count the records of the batches from a position on; a read that fails leaves a negative size in the window.

    At the top of the loop they are counted up to ``position``, and ``next_offset`` is the offset after them.
    Stops before a batch that is not whole, reaches end_offset, or is out of place.
    """
    cdef const BatchHeader *header = &window.header
    cdef int64_t records = 0
    window.span = BUFFER_BYTES
    while position < bound:
        if (header_at(ops, fd, position, bound, window) != OK
                or check_order(header, next_offset[0] - 1, end_offset) != OK):
            break
        if header.base_offset > next_offset[0] and (
                check_gap(ops, fd, header, next_offset[0], position, INT64_MAX) != OK):
            break
        if not header.attributes & CONTROL_FLAG:
            records += header.record_count
        position += header.size
        next_offset[0] = last_offset_of(header) + 1
        window.span = HEADER_BYTES if header.size >= LARGE_BYTES else BUFFER_BYTES
    return records


def count_whole(Segment segment not None, int64_t offset, int64_t end_offset):
    """Count the records of whole batches in [offset, end_offset): (records, offset reached), or None if none.

    None: no batch of the segment reaches ``offset``. The offset reached is that of the first batch that is
    incomplete in the range, or damaged: a read there raises its error.
    """
    cdef uint8_t *buffer = <uint8_t *>malloc(BUFFER_BYTES)
    cdef Window window = window_over(buffer, WINDOW_BYTES)
    cdef int64_t bound = segment.index.size, next_offset = offset, records = 0, position
    cdef FileOps *ops = &segment.file.files.ops
    cdef int fd
    if buffer == NULL:
        raise MemoryError
    try:
        position = segment.index._find(offset, bound, &window)
        if position < 0:
            return None
        fd = segment.file.acquire()
        segment.file.files.calls[OP_PREADV] += 1
        with nogil:
            records = tally(ops, fd, position, bound, end_offset, &window, &next_offset)
        segment.file.release()
        raise_status(window.size, "read", segment.path, window.start)
    finally:
        free(buffer)
    return records, next_offset
