# cython: language_level=3
"""Rows of Arrow data for other compiled modules: bound to C structs, read without the GIL."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from logstore.columns._arrow cimport ArrowArray, ArrowArrayStream, ArrowSchema
from logstore.batch._bytes cimport OK
from logstore.batch._encode cimport Encoder

cdef enum Kind:                       # the layout of a column of byte strings
    ABSENT                            # and a column of type null: all are null
    STARTS32
    STARTS64
    FIXED
    VIEW

cdef enum Unit:                       # what a timestamp counts
    SECONDS
    MILLISECONDS
    MICROSECONDS
    NANOSECONDS

# Statuses after `_encode.FULL` and below `_bytes.OK`.
cdef enum:
    SCRATCH_FULL = 2
    FALLING = -1                      # an offset is negative or below the one before it
    OUTSIDE = -2                      # a view points outside its buffer
    NULL_ROW = -3
    NULL_HEADER = -4
    BEFORE_1970 = -5
    NO_OFFSET = -6                    # is null, negative or too large, and was to be kept

cdef struct Cells:                    # a column of byte strings
    Kind kind
    const uint8_t *valid              # NULL: no nulls
    int64_t first                     # slot of row 0
    const void *starts
    const uint8_t *data
    int64_t width                     # of fixed ones
    int64_t stride
    const void **buffers              # of views
    const void *sizes                 # of these buffers
    int64_t buffer_count

cdef struct Numbers:                  # a column of int64
    const void *data                  # NULL: there is none
    const uint8_t *valid
    int64_t first

cdef struct Rows:
    int64_t count
    const int32_t *picks              # the wanted rows, count of them; NULL: all
    const uint8_t *valid
    int64_t first
    Cells key
    Cells value
    Numbers times
    Unit unit
    int64_t default_time
    Numbers offsets
    Kind lists                        # of headers: STARTS32, STARTS64 or ABSENT
    const void *list_starts
    const uint8_t *lists_valid
    int64_t lists_first
    int64_t header_count              # in all
    const uint8_t *headers_valid
    int64_t headers_first
    Cells header_key
    Cells header_value

cdef struct Fields:                   # one record
    int64_t timestamp
    const uint8_t *key
    int64_t key_size
    const uint8_t *value
    int64_t value_size
    int64_t headers_size
    int64_t offset                    # the offset to keep


cdef inline int64_t load_start32(const void *starts, int64_t i) noexcept nogil:
    """Load an entry of a buffer that need not be aligned: Arrow only recommends it. Costs no more than a load."""
    cdef int32_t number
    memcpy(&number, <const uint8_t *>starts + 4 * i, 4)
    return number


cdef inline int64_t load_start64(const void *starts, int64_t i) noexcept nogil:
    cdef int64_t number
    memcpy(&number, <const uint8_t *>starts + 8 * i, 8)
    return number


cdef inline void load_range(Kind kind, const void *starts, int64_t i, int64_t *start, int64_t *end) noexcept nogil:
    """Load where entry i begins and ends."""
    if kind == STARTS32:
        start[0] = load_start32(starts, i)
        end[0] = load_start32(starts, i + 1)
    else:
        start[0] = load_start64(starts, i)
        end[0] = load_start64(starts, i + 1)


cdef inline bint is_set(const uint8_t *bits, int64_t i) noexcept nogil:
    return bits == NULL or bits[i >> 3] >> (i & 7) & 1


cdef inline int cell(const Cells *cells, int64_t row, const uint8_t **data, int64_t *size) noexcept nogil:
    """Find the bytes of one row; size -1 means null."""
    cdef int64_t i = cells.first + row
    cdef int64_t start, end
    cdef const uint8_t *view
    cdef int32_t words[4]
    cdef int64_t announced
    if cells.kind == ABSENT or not is_set(cells.valid, i):
        size[0] = -1
        return OK
    if cells.kind == STARTS32 or cells.kind == STARTS64:
        load_range(cells.kind, cells.starts, i, &start, &end)
    elif cells.kind == FIXED:
        data[0] = cells.data + i * cells.stride
        size[0] = cells.width
        return OK
    else:
        view = cells.data + i * 16
        memcpy(words, view, 16)
        if words[0] < 0:
            return OUTSIDE
        size[0] = words[0]
        if words[0] <= 12:
            data[0] = view + 4
            return OK
        if words[2] < 0 or words[2] >= cells.buffer_count or cells.buffers[words[2]] == NULL:
            return OUTSIDE
        announced = load_start64(cells.sizes, words[2])
        if words[3] < 0 or words[3] > announced or words[0] > announced - words[3]:
            return OUTSIDE
        data[0] = <const uint8_t *>cells.buffers[words[2]] + words[3]
        return OK
    if start < 0 or end < start or (cells.data == NULL and end > start):
        return FALLING
    data[0] = cells.data + start
    size[0] = end - start
    return OK


cdef int add_rows(Encoder encoder, const Rows *rows, int64_t *row, uint8_t *scratch, int64_t capacity,
                  Fields *fields) noexcept nogil
cdef int bind(Rows *rows, const ArrowSchema *schema, const ArrowArray *array) except -1
cdef object fault(int status)


cdef class _Intake:
    cdef ArrowSchema schema
    cdef ArrowArray array
    cdef ArrowArrayStream stream
    cdef uint8_t *scratch
    cdef int64_t capacity

    cdef bint is_stream
    cdef bint is_through                # of an array: it was handed out

    cdef int take(self, object data) except -1
    cdef int take_array(self, object data) except -1
    cdef int take_stream(self, object data) except -1
    cdef bint next_array(self) except -1
    cdef bint next_rows(self, Rows *rows) except -1
    cdef int raise_stream(self, int number) except -1
    cdef int grow_scratch(self, int64_t needed) except -1
    cdef int add(self, Encoder encoder, Rows *rows, int64_t before) except -1
    cdef int check_offsets(self, Encoder encoder, const Rows *rows) except -1
    cdef int go_on(self, Encoder encoder, const Rows *rows, int64_t *row, int status, const Fields *fields,
                   int64_t before) except -1
