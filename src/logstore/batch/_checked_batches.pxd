# cython: language_level=3
"""Table of checked batches, as other compiled modules see it; `_checked_batches.pyx` describes it."""

from cpython.object cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from logstore.batch._batch cimport BatchHeader, Record

cdef struct Piece:                # some neighbouring records of a batch
    int32_t start                 # of its bytes; the last piece is followed by one with only this and the sum
    uint32_t sum                  # CRC-32C of the batch up to this piece

cdef struct Checked:              # small: those of 1 GB in batches of 100 x 100 B fit the table
    uint64_t owner
    int64_t base_offset
    int64_t timestamp             # of every record, if the log has set it; else the base
    PyObject *records             # decompressed, as bytes; NULL: they are read from the file, each time
    Checked *chain                # the next one of the same hash
    Checked *older
    Checked *newer
    uint32_t position             # of the batch in its file
    int32_t record_count
    int32_t step                  # records of a piece
    int16_t attributes
    uint8_t used                  # since it was last considered for removal
    Piece pieces[1]               # as many as needed


cdef uint64_t new_owner() noexcept
cdef Checked *pieces_of(const BatchHeader *header, const uint8_t *begin, const uint8_t *end, int32_t origin,
                        uint32_t sum) noexcept nogil
cdef Checked *find(uint64_t owner, int64_t position) noexcept
cdef int keep(Checked *entry, uint64_t owner, int64_t position, bytes records) except -1
cdef void forget(uint64_t owner) noexcept
cdef Record record_in(const uint8_t *p, const uint8_t *end, int32_t skipped, int32_t left,
                      const BatchHeader *header, int64_t offset, object name)
