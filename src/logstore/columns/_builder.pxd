# cython: language_level=3
"""A table of Arrow buffers, and the leaves that write the records of a batch into it.

`_builder.pyx` owns the tables and makes room in them; `_export` hands them over.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from logstore.columns._arrow cimport ArrowSchema
from logstore.batch._batch cimport (
    CODEC_MASK,
    HEADER_BYTES,
    BatchHeader,
    Batches,
    Bounds,
    RecordView,
    RunReader,
    is_before,
    is_utf8,
    next_header,
    next_record,
    parse_header,
)
from logstore.batch._bytes cimport MALFORMED, OK, read_varint

cdef enum:
    KEY
    VALUE
    TOPIC
    PARTITION
    OFFSET
    TIMESTAMP
    TIMESTAMP_TYPE
    HEADERS
    COLUMNS                       # and from here on: the fields that a `Decoder` makes of the values

cdef enum:
    LEAST_RECORD_BYTES = 7        # length, attributes, two deltas, two sizes, header count

# A status in addition to those of `_batch`: a header key is not UTF-8.
cdef enum:
    NO_TEXT = -100


# --- structs that are filled ------------------------------------------------------------------

cdef struct Region:
    uint8_t *data                 # aligned to 64 bytes
    int64_t capacity

cdef struct Slices:               # a column of byte strings
    bint wanted
    bint as_views
    Region starts                 # int32 offsets
    Region data
    Region views                  # instead of both, 16 bytes for each
    Region valid
    int64_t size                  # of the bytes in data
    int64_t nulls

cdef struct Segment:              # bytes that views point into
    PyObject *owner
    const uint8_t *base
    int64_t size

cdef struct Field:                # one column that was decoded
    int kind                      # of `_values`
    bint is_slices                # else numbers in slices.data, or bits
    Slices slices

cdef struct Table:
    int64_t references            # atomic: one for each array handed out, one for the ColumnBatch
    int column_count
    int *columns
    bint views                    # any column points into the batches
    int64_t rows
    int64_t payload_bytes         # the most bytes of values to decode
    int field_count
    Field *fields
    Slices slices[PARTITION]      # key, value and topic
    Region numbers[HEADERS]       # partition, offset, timestamp and its type; those below are empty
    Region header_starts
    Region header_valid           # for Spark: of the records that have any
    int64_t headerless
    int64_t headers
    Slices header_key
    Slices header_value
    Segment *segments
    int segment_count
    Region segment_sizes


# --- from records to columns ------------------------------------------------------------------

cdef inline void put_null(Slices *slices, int64_t row) noexcept nogil:
    slices.valid.data[row >> 3] &= <uint8_t>~(1 << (row & 7))
    slices.nulls += 1


cdef inline void put(Slices *slices, int64_t row, const uint8_t *data, int32_t size) noexcept nogil:
    """Copy one value (size -1: null) into a column that has room for it."""
    if size > 0:
        memcpy(slices.data.data + slices.size, data, <size_t>size)
        slices.size += size
    elif size < 0:
        put_null(slices, row)
    (<int32_t *>slices.starts.data)[row + 1] = <int32_t>slices.size


cdef inline void put_view(Slices *slices, int64_t row, const uint8_t *data, int32_t size,
                          int32_t segment, const uint8_t *base) noexcept nogil:
    """Write a view of one value; up to twelve bytes are stored in the view itself."""
    cdef uint8_t *view = slices.views.data + row * 16
    cdef int32_t words[2]
    if size > 12:
        words[0] = segment
        words[1] = <int32_t>(data - base)
        memcpy(view, &size, 4)
        memcpy(view + 4, data, 4)
        memcpy(view + 8, words, 8)
        return
    memset(view, 0, 16)
    if size > 0:
        memcpy(view, &size, 4)
        memcpy(view + 4, data, <size_t>size)
    elif size < 0:
        put_null(slices, row)


cdef struct Run:                      # the records of one batch that are still to come
    const uint8_t *cursor
    const uint8_t *end
    int32_t left
    bint append_time
    int32_t segment
    const uint8_t *base               # of the segment


cdef struct HeaderExtent:
    int64_t count
    int64_t key_bytes
    int64_t value_bytes


cdef inline int measure_headers(const Run *run, HeaderExtent *out) noexcept nogil:
    """Count the headers of a batch's records; every one of them is then known to be whole.

    At the top of the loop the headers of the records before cursor are whole and counted.
    """
    cdef RecordView record
    cdef const uint8_t *cursor = run.cursor
    cdef const uint8_t *p
    cdef const uint8_t *key
    cdef const uint8_t *value
    cdef int32_t _i, _j, count, key_size, value_size
    cdef int status
    memset(out, 0, sizeof(HeaderExtent))
    for _i in range(run.left):
        status = next_record(&cursor, run.end, 0, 0, &record)
        if status != OK:
            return OK                 # `fill` reaches this record and raises its error
        p = record.headers
        if read_varint(&p, record.end, &count) != OK or count < 0:
            return MALFORMED
        for _j in range(count):
            if next_header(&p, record.end, &key, &key_size, &value, &value_size) != OK:
                return MALFORMED
            # Consumers trust a utf8 column without checking it.
            if not is_utf8(key, key_size):
                return NO_TEXT
            out.key_bytes += key_size
            out.value_bytes += max(value_size, 0)
        if p != record.end:
            return MALFORMED
        out.count += count
    return OK


cdef inline void put_headers(Table *table, int64_t row, const uint8_t *p, const uint8_t *end) noexcept nogil:
    """Add the headers of one record, which `measure_headers` has checked and made room for."""
    cdef int32_t _, count, key_size, value_size
    cdef const uint8_t *key
    cdef const uint8_t *value
    if read_varint(&p, end, &count) == OK:
        for _ in range(count):
            if next_header(&p, end, &key, &key_size, &value, &value_size) != OK:
                break
            put(&table.header_key, table.headers, key, key_size)
            put(&table.header_value, table.headers, value, value_size)
            table.headers += 1
    (<int32_t *>table.header_starts.data)[row + 1] = <int32_t>table.headers


cdef inline int fill(Table *table, Run *run, const BatchHeader *header, const Bounds *bounds) noexcept nogil:
    """Add the visible records of a batch, for all of which there is room.

    At the top of the loop every column has ``row`` records, and ``left`` are to come from
    cursor on. Where a status other than OK stops it, the record at fault is the next one.
    """
    cdef RecordView record
    cdef const uint8_t *cursor = run.cursor
    cdef int32_t left = run.left
    cdef int64_t row = table.rows, first = row
    cdef int status = OK
    # In locals: to the C compiler every byte written could be part of the table.
    cdef Slices key = table.slices[KEY]
    cdef Slices value = table.slices[VALUE]
    cdef int64_t *offsets = <int64_t *>table.numbers[OFFSET].data
    cdef int64_t *timestamps = <int64_t *>table.numbers[TIMESTAMP].data
    cdef bint headers = table.header_starts.data != NULL
    while left:
        status = next_record(&cursor, run.end, header.base_offset, header.base_timestamp, &record)
        if status != OK:
            break
        left -= 1
        if run.append_time:
            record.timestamp = header.max_timestamp
        if record.offset < bounds.start_offset:
            continue
        if record.offset >= bounds.end_offset:
            left = 0
            break
        if record.timestamp < bounds.since_ms or not is_before(record.timestamp, bounds):
            continue
        if headers:
            put_headers(table, row, record.headers, record.end)
        if key.wanted:
            if key.as_views:
                put_view(&key, row, record.key, record.key_size, run.segment, run.base)
            else:
                put(&key, row, record.key, record.key_size)
        if value.wanted:
            if value.as_views:
                put_view(&value, row, record.value, record.value_size, run.segment, run.base)
            else:
                put(&value, row, record.value, record.value_size)
        if offsets != NULL:
            offsets[row] = record.offset
        if timestamps != NULL:
            timestamps[row] = record.timestamp
        row += 1
    run.cursor = cursor
    run.left = left
    table.slices[KEY] = key
    table.slices[VALUE] = value
    table.rows = row
    if table.numbers[TIMESTAMP_TYPE].data != NULL:
        while first < row:
            (<int32_t *>table.numbers[TIMESTAMP_TYPE].data)[first] = run.append_time
            first += 1
    return status


cdef struct Extent:
    int64_t rows
    int64_t bytes


cdef inline void measure(const uint8_t *p, const uint8_t *end, Extent *out) noexcept nogil:
    """Bound how many records, and bytes of them, the next uncompressed batches hold."""
    cdef BatchHeader header
    out.rows = 0
    out.bytes = 0
    while p < end and parse_header(p, end, &header) == OK and header.size <= end - p:
        if not header.attributes & CODEC_MASK:
            out.rows += min(<int64_t>header.record_count, (header.size - HEADER_BYTES) // LEAST_RECORD_BYTES)
            out.bytes += header.size - HEADER_BYTES
        p += header.size


cdef inline void to_micros(int64_t *times, int64_t rows) noexcept nogil:
    """Convert milliseconds to microseconds; a value out of range becomes the nearest in range."""
    cdef int64_t i, most = 9223372036854775
    for i in range(rows):
        times[i] = min(max(times[i], -most), most) * 1000


cdef inline int64_t mark_headerless(const int32_t *starts, uint8_t *valid, int64_t rows) noexcept nogil:
    """Clear the bit of each row without a header, all bits being set; return how many there are."""
    cdef int64_t i, found = 0
    for i in range(rows):
        if starts[i] == starts[i + 1]:
            valid[i >> 3] &= <uint8_t>~(1 << (i & 7))
            found += 1
    return found


cdef inline bint is_null(const Slices *slices, int64_t row) noexcept nogil:
    return slices.nulls and slices.valid.data != NULL and not slices.valid.data[row >> 3] >> (row & 7) & 1


cdef inline const uint8_t *slice_at(const Table *table, const Slices *slices, int64_t row,
                                    int32_t *size) noexcept nogil:
    """Return where the bytes of a row that is not null begin, and how many there are."""
    cdef const int32_t *starts
    cdef const uint8_t *view
    cdef int32_t words[2]
    if not slices.as_views:
        starts = <const int32_t *>slices.starts.data
        size[0] = starts[row + 1] - starts[row]
        return slices.data.data + starts[row]
    view = slices.views.data + row * 16
    memcpy(size, view, 4)
    if size[0] <= 12:
        return view + 4
    memcpy(words, view + 8, 8)
    return table.segments[words[0]].base + words[1]


cdef extern from *:
    """
    #include <stdint.h>
    static inline int64_t logstore_count_up(int64_t *n) { return __atomic_add_fetch(n, 1, __ATOMIC_RELAXED); }
    static inline int64_t logstore_count_down(int64_t *n)
    { return __atomic_sub_fetch(n, 1, __ATOMIC_ACQ_REL); }
    """
    int64_t logstore_count_up(int64_t *n) noexcept nogil
    int64_t logstore_count_down(int64_t *n) noexcept nogil


cdef inline void count_up(Table *table) noexcept nogil:
    """Add one reference; `release_table` releases it."""
    logstore_count_up(&table.references)


cdef void release_table(Table *table) noexcept nogil


# --- shared by a decoder and an owner of tables -----------------------------------------------

cdef int reserve(Region *region, int64_t used, int64_t capacity) except -1
cdef int reserve_bits(Region *region, int64_t rows) except -1
cdef int reserve_slices(Slices *slices, bint views, int64_t rows, int64_t more_rows, int64_t more_bytes) except -1


cdef class Decoder:
    cdef readonly tuple names
    cdef readonly list formats            # of each, in Arrow's words
    cdef int set_up(self, Field *fields) except -1
    cdef int decode(self, Table *table, Batches run) except -1
    cdef int set_field_schema(self, ArrowSchema *out, int field) except -1


cdef int column_of(object name, Decoder decoder) except -1


cdef int width_of(int column) noexcept nogil


cdef class Layout:
    cdef readonly tuple names
    cdef Decoder decoder
    cdef bint views
    cdef bint spark                       # times are in microseconds, and no headers are a null
    cdef int64_t most_bytes
    cdef object topic                     # None: as the runs name it
    cdef object partition


cdef class Filler:
    cdef RunReader _reader
    cdef readonly Layout layout
    cdef Decoder _decoder                 # None: there is nothing to decode
    cdef bytes _topic
    cdef int32_t _partition
    cdef bint _offsets                    # are needed, if only to name a value that cannot be decoded
    cdef object failure                   # why no table follows; told behind the rows before it
    cdef bint pending                     # the reader stands at a batch that is in no table yet
    cdef Table *_table
    cdef int _begin(self) except -1
    cdef int _reserve(self, int64_t more, int64_t more_bytes) except -1
    cdef int _reserve_headers(self, int64_t count, int64_t key_bytes, int64_t value_bytes) except -1
    cdef bint _fits(self, int64_t rows, int64_t more_bytes, const HeaderExtent *headers) noexcept
    cdef int _pin(self, Run *run) except -1
    cdef int _add_batch(self) except -1
    cdef Table *take(self) except NULL
    cdef int _decode(self) except -1
    cdef int _fill_constants(self) except -1
