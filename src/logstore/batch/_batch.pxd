# cython: language_level=3
"""Record batch v2 as bytes: positions of the header fields, checks, iteration over records.

Leaves shared by all compiled modules that read a batch. `_batch.pyx` draws the format.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

from libc.string cimport memset

from logstore.batch._bytes cimport (
    OK,
    SHORT,
    MALFORMED,
    load16,
    load32,
    load64,
    read_varint,
    read_varlong,
    store16,
    store32,
    store64,
    logstore_put32,
)
from logstore.batch._crc32c cimport logstore_crc32c

cdef enum:
    HEADER_BYTES = 61
    LENGTH_END = 12               # the length field counts the bytes after it
    CHECKED_FROM = 21             # the CRC covers from the attributes on
    AT_BASE_OFFSET = 0
    AT_LENGTH = 8
    AT_LEADER_EPOCH = 12
    AT_MAGIC = 16
    AT_CRC = 17
    AT_ATTRIBUTES = 21
    AT_LAST_OFFSET_DELTA = 23
    AT_BASE_TIMESTAMP = 27
    AT_MAX_TIMESTAMP = 35
    AT_PRODUCER_ID = 43
    AT_PRODUCER_EPOCH = 51
    AT_BASE_SEQUENCE = 53
    AT_RECORD_COUNT = 57

cdef enum:
    CODEC_MASK = 0x07
    APPEND_TIME_FLAG = 0x08
    TRANSACTIONAL_FLAG = 0x10
    CONTROL_FLAG = 0x20
    DELETE_HORIZON_FLAG = 0x40

cdef enum:
    DECOMPRESSED_LIMIT = 64 << 20  # of one batch, unless a setting says otherwise

# Statuses after SHORT and MALFORMED.
cdef enum:
    BAD_MAGIC = -3
    BAD_LENGTH = -4
    BAD_CRC = -5
    BAD_COUNT = -6
    BAD_OFFSET = -7

cdef struct BatchHeader:
    int64_t base_offset
    int64_t size                  # of the whole batch, header included
    int32_t leader_epoch
    uint32_t crc
    int16_t attributes
    int32_t last_offset_delta
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int16_t producer_epoch
    int32_t base_sequence
    int32_t record_count

cdef struct RecordView:
    int64_t offset
    int64_t timestamp
    const uint8_t *key
    const uint8_t *value
    const uint8_t *headers        # the count of headers and what follows
    const uint8_t *end            # of the record
    int32_t key_size              # -1: null
    int32_t value_size            # -1: null


cdef inline int refuse_header(BatchHeader *out, int status) noexcept nogil:
    # A failed header is zeroed, so that no caller uses its numbers.
    memset(out, 0, sizeof(BatchHeader))
    return status


cdef inline int parse_header(const uint8_t *p, const uint8_t *end, BatchHeader *out) noexcept nogil:
    """Read a batch header; the batch itself may end after `end` (compare size with end - p)."""
    cdef int32_t length
    if end - p < HEADER_BYTES:
        # The bytes present may already show that this is no batch.
        if end - p > AT_MAGIC and p[AT_MAGIC] != 2:
            return refuse_header(out, BAD_MAGIC)
        return refuse_header(out, SHORT)
    if p[AT_MAGIC] != 2:
        return refuse_header(out, BAD_MAGIC)
    length = load32(p + AT_LENGTH)
    if length < HEADER_BYTES - LENGTH_END:
        return refuse_header(out, BAD_LENGTH)
    out.base_offset = load64(p)
    out.size = <int64_t>length + LENGTH_END
    out.leader_epoch = load32(p + AT_LEADER_EPOCH)
    out.crc = <uint32_t>load32(p + AT_CRC)
    out.attributes = load16(p + AT_ATTRIBUTES)
    out.last_offset_delta = load32(p + AT_LAST_OFFSET_DELTA)
    out.base_timestamp = load64(p + AT_BASE_TIMESTAMP)
    out.max_timestamp = load64(p + AT_MAX_TIMESTAMP)
    out.producer_id = load64(p + AT_PRODUCER_ID)
    out.producer_epoch = load16(p + AT_PRODUCER_EPOCH)
    out.base_sequence = load32(p + AT_BASE_SEQUENCE)
    out.record_count = load32(p + AT_RECORD_COUNT)
    if out.base_offset < 0 or out.last_offset_delta < 0 or out.record_count < 0:
        return refuse_header(out, BAD_COUNT)
    # Without this bound a record's delta could lead past the last offset.
    if out.base_offset > INT64_MAX - 1 - INT32_MAX:
        return refuse_header(out, BAD_COUNT)
    # Compaction removes records and keeps the last delta, so there may be fewer than the span.
    if <int64_t>out.record_count > <int64_t>out.last_offset_delta + 1:
        return refuse_header(out, BAD_COUNT)
    return OK


cdef inline int whole_header(const uint8_t *p, const uint8_t *end, BatchHeader *out) noexcept nogil:
    """Read the header of a batch that must end before `end`."""
    cdef int status = parse_header(p, end, out)
    return SHORT if status == OK and out.size > end - p else status


cdef inline uint32_t batch_crc(const uint8_t *p, int64_t size) noexcept nogil:
    return logstore_crc32c(0, p + CHECKED_FROM, <size_t>(size - CHECKED_FROM))


cdef inline int check_batch(const uint8_t *p, const uint8_t *end, BatchHeader *out) noexcept nogil:
    """Check that a whole batch with a good CRC is at p; return OK, or the status of the failure."""
    cdef int status = whole_header(p, end, out)
    return BAD_CRC if status == OK and batch_crc(p, out.size) != out.crc else status


cdef inline int64_t last_offset_of(const BatchHeader *header) noexcept nogil:
    return header.base_offset + header.last_offset_delta


cdef inline int32_t sequence_after(int32_t sequence, int64_t count) noexcept nogil:
    """Return the sequence ``count`` records later: after 2^31-1 comes 0."""
    return <int32_t>((sequence + count) & INT32_MAX)


cdef inline void seal_batch(uint8_t *p, int64_t size) noexcept nogil:
    """Set length and CRC of a batch whose other fields are set."""
    store32(p + AT_LENGTH, <int32_t>(size - LENGTH_END))
    logstore_put32(p + AT_CRC, batch_crc(p, size))


cdef inline int next_record(const uint8_t **cursor, const uint8_t *end, int64_t base_offset,
                            int64_t base_timestamp, RecordView *out) noexcept nogil:
    """Read one record at *cursor and step over it.

    On a status below OK *cursor is left as it was. The headers are not checked.
    """
    cdef const uint8_t *p = cursor[0]
    cdef const uint8_t *stop
    cdef int32_t number
    cdef int64_t delta
    cdef int status = read_varint(&p, end, &number)
    if status != OK:
        return status
    if number < 0:
        return MALFORMED
    if number > end - p:
        return SHORT
    stop = p + number
    if p >= stop:
        return MALFORMED
    p += 1                        # the record's attributes: none are defined
    status = read_varlong(&p, stop, &delta)
    if status != OK:
        return MALFORMED
    out.timestamp = <int64_t>(<unsigned long long>base_timestamp + <unsigned long long>delta)
    status = read_varint(&p, stop, &number)
    if status != OK or number < 0:
        return MALFORMED
    out.offset = base_offset + number
    status = read_varint(&p, stop, &number)
    if status != OK or number < -1 or number > stop - p:
        return MALFORMED
    out.key = p
    out.key_size = number
    if number > 0:
        p += number
    status = read_varint(&p, stop, &number)
    if status != OK or number < -1 or number > stop - p:
        return MALFORMED
    out.value = p
    out.value_size = number
    if number > 0:
        p += number
    if p >= stop:
        return MALFORMED
    out.headers = p
    out.end = stop
    cursor[0] = stop
    return OK


cdef inline int next_header(const uint8_t **cursor, const uint8_t *end, const uint8_t **key,
                            int32_t *key_size, const uint8_t **value, int32_t *value_size) noexcept nogil:
    """Read one header of a record and step over it; null values have size -1."""
    cdef const uint8_t *p = cursor[0]
    if read_varint(&p, end, key_size) != OK or key_size[0] < 0 or key_size[0] > end - p:
        return MALFORMED
    key[0] = p
    p += key_size[0]
    if read_varint(&p, end, value_size) != OK or value_size[0] < -1 or value_size[0] > end - p:
        return MALFORMED
    value[0] = p
    if value_size[0] > 0:
        p += value_size[0]
    cursor[0] = p
    return OK


cdef inline bint is_utf8(const uint8_t *p, int32_t size) noexcept nogil:
    """Tell whether bytes are UTF-8 (RFC 3629), as the keys of headers are."""
    cdef const uint8_t *end = p + size
    cdef uint32_t first
    cdef int more
    while p < end:
        first = p[0]
        p += 1
        if first < 0x80:
            continue
        if 0xC2 <= first <= 0xDF:
            more = 1
        elif 0xE0 <= first <= 0xEF:
            more = 2
        elif 0xF0 <= first <= 0xF4:
            more = 3
        else:
            return False
        if more > end - p:
            return False
        # Overlong forms, surrogates and code points above U+10FFFF are invalid.
        if ((first == 0xE0 and p[0] < 0xA0) or (first == 0xED and p[0] > 0x9F)
                or (first == 0xF0 and p[0] < 0x90) or (first == 0xF4 and p[0] > 0x8F)):
            return False
        while more:
            if p[0] & 0xC0 != 0x80:
                return False
            p += 1
            more -= 1
    return True


cdef struct Bounds:
    int64_t start_offset          # inclusive
    int64_t end_offset            # exclusive
    int64_t since_ms              # inclusive
    int64_t until_ms              # exclusive; INT64_MAX: no end

cdef inline bint is_before(int64_t timestamp, const Bounds *bounds) noexcept nogil:
    """Tell whether a time is before the end of the bounds; without an end, every time is."""
    return timestamp < bounds.until_ms or bounds.until_ms == INT64_MAX


cdef struct AbortedRange:
    int64_t producer_id
    int64_t first_offset
    int64_t last_offset

cdef struct Survey:
    int64_t max_timestamp
    int64_t min_timestamp
    int32_t null_keys
    int32_t position_of_fault     # which record, when a status is below OK


cdef int survey_records(const uint8_t *p, const uint8_t *end, const BatchHeader *header, bint contiguous,
                        Survey *out) noexcept nogil
cdef object payload_of(const uint8_t *p, const BatchHeader *header, int64_t limit)
cdef object marker_of(const uint8_t *p, const BatchHeader *header)
cdef int raise_batch_status(int status, const uint8_t *p, const uint8_t *end, object path,
                            object position) except -1


cdef class Batches:
    cdef readonly bytes data
    cdef Bounds bounds
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef readonly int64_t limit         # of a decompressed batch
    cdef readonly str path
    cdef readonly int64_t position
    cdef readonly tuple aborted
    cdef readonly bint committed_only
    cdef AbortedRange *_ranges
    cdef Py_ssize_t _range_count
    cdef readonly int64_t next_offset
    cdef readonly int64_t high_watermark
    cdef readonly int64_t last_stable_offset
    cdef readonly int64_t log_start_offset
    cdef int _take(self, bytes data, int64_t start_offset, int64_t end_offset, object since_ms, object until_ms,
                   str topic, int32_t partition, str path, int64_t position, tuple aborted,
                   bint committed_only, int64_t limit, int64_t next_offset) except -1
    cdef bint is_aborted(self, const BatchHeader *header) noexcept nogil


cdef class RunReader:
    cdef Batches run
    cdef const uint8_t *_next           # the next batch
    cdef const uint8_t *_end
    cdef bytes payload                  # the owner of the current records' bytes
    cdef const uint8_t *cursor          # the next record
    cdef const uint8_t *records_end
    cdef BatchHeader header
    cdef int32_t left
    cdef bint append_time
    cdef int next_batch(self) except -1
    cdef int next_header(self) except -1
    cdef int open_batch(self) except -1
    cdef int next_in_batch(self, RecordView *out) except -1
    cdef int next_visible(self, RecordView *out) except -1
    cdef object placed(self, object error)
    cdef int raise_record(self, int status) except -1


cdef class Record:    # final, freelist: see _batch.pyx
    cdef object _owner                  # keeps the bytes alive, None once all is decoded
    cdef const uint8_t *_key
    cdef const uint8_t *_value
    cdef const uint8_t *_headers
    cdef const uint8_t *_end
    cdef int32_t _key_size
    cdef int32_t _value_size
    cdef object _key_object
    cdef object _value_object
    cdef object _headers_object
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp_ms
    cdef int _timestamp_type


cdef Record record_of(const RecordView *view, object owner, str topic, int32_t partition, bint append_time)
