# cython: language_level=3
"""Record batch v2: a header view, its checks, and records decoded lazily from whole batches.

Bytes (Kafka protocol guide, "Record Batch"; all numbers big-endian)::

     0  base offset        i64    set by the log; outside the CRC
     8  batch length       i32    bytes after this field
    12  leader epoch       i32    set by the log; outside the CRC
    16  magic              i8     2
    17  CRC-32C            u32    over everything after it
    21  attributes         i16    bits 0-2 codec, 3 log-append time, 4 transactional, 5 control,
                                  6 delete horizon (the base timestamp is then the horizon)
    23  last offset delta  i32
    27  base timestamp     i64    ms; the timestamps of the records count from it
    35  max timestamp      i64    ms; with log-append time, the time of every record
    43  producer id        i64    -1: none
    51  producer epoch     i16
    53  base sequence      i32
    57  record count       i32
    61  records, compressed together if there is a codec:
        length varint | attributes i8 | timestamp delta varlong | offset delta varint
        | key size varint, key | value size varint, value | header count varint
        | (key size varint, key | value size varint, value)*        size -1 means null

Nothing here reads files or knows a log. All classes are immutable after construction and may be
read from any thread.
"""

cimport cython
from cpython.buffer cimport (
    PyBUF_READ, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport INT64_MAX, INT64_MIN
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from logstore.batch._crc32c cimport logstore_crc32c_init

from logstore.batch._codec import decompress
from logstore.errors import (
    CorruptRecordError,
    InvalidRecordError,
    RecordError,
    RecordTypeError,
    UnsupportedCodecError,
    UnsupportedFormatError,
)
from logstore.records import Codec, Marker, TimestampType

logstore_crc32c_init()

cdef object _CREATE_TIME = TimestampType.CREATE_TIME
cdef object _APPEND_TIME = TimestampType.LOG_APPEND_TIME


cdef int raise_batch_status(int status, const uint8_t *p, const uint8_t *end, object path,
                            object position) except -1:
    """Raise the error of a status below OK for the batch at p."""
    cdef BatchHeader header
    if status == OK:
        return 0
    memset(&header, 0, sizeof(header))
    place = {"path": path, "position": position}
    if status == SHORT:
        if parse_header(p, end, &header) == OK:
            raise CorruptRecordError(
                f"batch of {header.size} bytes at base offset {header.base_offset}, "
                f"but {end - p} bytes are there", **place)
        raise CorruptRecordError(
            f"batch header needs {<int>HEADER_BYTES} bytes, found {end - p}", **place)
    if status == BAD_MAGIC:
        raise UnsupportedFormatError(
            f"magic byte {p[AT_MAGIC]}, expected 2 (record batch v2); formats before Kafka 0.11 "
            "have to be converted by Kafka first", **place)
    if status == BAD_LENGTH:
        raise CorruptRecordError(
            f"batch length {load32(p + AT_LENGTH)}, expected at least {HEADER_BYTES - LENGTH_END}", **place)
    if status == BAD_CRC:
        parse_header(p, end, &header)
        raise CorruptRecordError(
            f"CRC-32C of the batch at base offset {header.base_offset} is {batch_crc(p, header.size):#010x}, "
            f"its header says {header.crc:#010x}", **place)
    if status == BAD_COUNT:
        raise CorruptRecordError(
            f"base offset {load64(p)}, last offset delta {load32(p + AT_LAST_OFFSET_DELTA)} and record count "
            f"{load32(p + AT_RECORD_COUNT)} cannot be", **place)
    if status == BAD_OFFSET:
        raise CorruptRecordError(f"base offset {load64(p)} does not rise over the batch before it", **place)
    raise CorruptRecordError("a record's length or varint is wrong", **place)


# --- one record -------------------------------------------------------------------------------

cdef inline bytes _slice(const uint8_t *data, int32_t size):
    return PyBytes_FromStringAndSize(<const char *>data, size)


cdef inline int release(Record record) except -1:
    """Release the bytes once key, value and headers have all become objects."""
    # No method: a class that has one is larger by a pointer, and clearing more than 128 bytes is slow.
    if (record._headers_object is not None and (record._key_size < 0 or record._key_object is not None)
            and (record._value_size < 0 or record._value_object is not None)):
        record._owner = None
    return 0


cdef tuple _headers_of(const uint8_t *p, const uint8_t *end):
    """Return the headers of a record as ((key, value), ...)."""
    cdef int32_t count, key_size, value_size
    cdef const uint8_t *key
    cdef const uint8_t *value
    if read_varint(&p, end, &count) != OK or count < 0 or count > end - p:
        raise CorruptRecordError("a record's header count is wrong")
    if count == 0:
        return ()
    cdef list headers = []
    for _ in range(count):
        if next_header(&p, end, &key, &key_size, &value, &value_size) != OK:
            raise CorruptRecordError("a record's header is wrong")
        try:
            name = _slice(key, key_size).decode()
        except UnicodeDecodeError as error:
            raise CorruptRecordError(f"a record's header key is not UTF-8: {error}") from None
        headers.append((name, None if value_size < 0 else _slice(value, value_size)))
    return tuple(headers)


@cython.final
@cython.no_gc
@cython.freelist(512)
cdef class Record:
    """One record. Key, value and headers become objects at their first use.

    Owns: a reference to the bytes that it was read from. So a kept record keeps the chunk of its read alive
    (``max_bytes`` at most, or its decompressed batch), until key, value and headers have all been used. `copy()`
    returns a record without that reference.

    The garbage collector does not track it: it holds bytes, text and tuples of these, so it is in no cycle.
    Tracking each record would cost a tenth of reading it.
    """

    def __init__(self, topic, partition, offset, timestamp_ms, timestamp_type, key, value, headers=()):
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self._timestamp_type = int(timestamp_type)
        self._key_object = key
        self._value_object = value
        self._headers_object = tuple((name, data) for name, data in headers)

    @property
    def key(self):
        """The key as bytes, or None."""
        if self._owner is not None and self._key_object is None and self._key_size >= 0:
            self._key_object = _slice(self._key, self._key_size)
            release(self)
        return self._key_object

    @property
    def value(self):
        """The value as bytes, or None: a tombstone in a compacted log."""
        if self._owner is not None and self._value_object is None and self._value_size >= 0:
            self._value_object = _slice(self._value, self._value_size)
            release(self)
        return self._value_object

    @property
    def headers(self):
        """((key, value or None), ...) in order; a key may repeat."""
        if self._headers_object is None:
            self._headers_object = _headers_of(self._headers, self._end)
            release(self)
        return self._headers_object

    @property
    def timestamp_type(self):
        """Return the timestamp type: set by the producer or by the log."""
        return _APPEND_TIME if self._timestamp_type else _CREATE_TIME

    def copy(self) -> Record:
        """Return the same record, holding only its own key, value and headers."""
        return Record(self.topic, self.partition, self.offset, self.timestamp_ms, self._timestamp_type,
                      self.key, self.value, self.headers)

    def _fields(self):
        return (self.topic, self.partition, self.offset, self.timestamp_ms, self._timestamp_type,
                self.key, self.value, self.headers)

    def __eq__(self, other):
        if not isinstance(other, Record):
            return NotImplemented
        return self._fields() == (<Record>other)._fields()

    def __hash__(self):
        return hash((self.topic, self.partition, self.offset))

    def __reduce__(self):
        return Record, self._fields()

    def __repr__(self):
        return (f"Record(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
                f"timestamp_ms={self.timestamp_ms}, timestamp_type={self.timestamp_type.name}, "
                f"key={self.key!r}, value={self.value!r}, headers={self.headers!r})")


cdef Record record_of(const RecordView *view, object owner, str topic, int32_t partition, bint append_time):
    """Return a record that was read from the bytes of ``owner``."""
    cdef Record record = Record.__new__(Record)
    record._owner = owner
    record._key = view.key
    record._key_size = view.key_size
    record._value = view.value
    record._value_size = view.value_size
    record._headers = view.headers
    record._end = view.end
    if view.headers[0] == 0:
        record._headers_object = ()
    record.topic = topic
    record.partition = partition
    record.offset = view.offset
    record.timestamp_ms = view.timestamp
    record._timestamp_type = append_time
    return record


# --- one batch --------------------------------------------------------------------------------

cdef object payload_of(const uint8_t *p, const BatchHeader *header, int64_t limit):
    """Return the decompressed records of a compressed batch."""
    cdef int codec = header.attributes & CODEC_MASK
    if codec > 4:
        raise UnsupportedCodecError(
            f"codec {codec} of the batch at base offset {header.base_offset} is unknown; "
            "known are 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd")
    return decompress(codec, PyMemoryView_FromMemory(<char *>p + HEADER_BYTES, header.size - HEADER_BYTES,
                                                     PyBUF_READ), limit)


cdef inline const uint8_t *headers_end(const RecordView *record, bint as_text) noexcept nogil:
    """Return the end of a record's headers; NULL if one is malformed or, with as_text, has a key not in UTF-8."""
    cdef const uint8_t *key
    cdef const uint8_t *value
    cdef const uint8_t *p = record.headers
    cdef int32_t count, key_size, value_size
    if read_varint(&p, record.end, &count) != OK or count < 0:
        return NULL
    for _ in range(count):
        if (next_header(&p, record.end, &key, &key_size, &value, &value_size) != OK
                or (as_text and not is_utf8(key, key_size))):
            return NULL
    return p


cdef int read_through(const uint8_t *p, const uint8_t *end, const BatchHeader *header) noexcept nogil:
    """Walk all records of a payload as a reader of every field would; return OK, or MALFORMED.

    At the top of the loop the records before p can be read, with their headers.
    """
    cdef RecordView record
    for _ in range(header.record_count):
        if (next_record(&p, end, header.base_offset, header.base_timestamp, &record) != OK
                or headers_end(&record, True) == NULL):
            return MALFORMED
    return OK


cdef int survey_records(const uint8_t *p, const uint8_t *end, const BatchHeader *header, bint contiguous,
                        Survey *out) noexcept nogil:
    """Walk all records of a payload: lengths, varints, headers, rising offset deltas.

    A producer's batch (contiguous) must have UTF-8 header keys, as every reader expects. Batches
    stored by another log are accepted with other keys.

    At the top of the loop the records before p are whole and their offsets rise.
    """
    cdef RecordView record
    cdef int32_t i
    cdef int status
    cdef int64_t last = header.base_offset - 1
    out.max_timestamp = INT64_MIN
    out.min_timestamp = INT64_MAX
    out.null_keys = 0
    for i in range(header.record_count):
        out.position_of_fault = i
        status = next_record(&p, end, header.base_offset, header.base_timestamp, &record)
        if status != OK:
            return status
        if record.offset <= last or (contiguous and record.offset != last + 1):
            return BAD_OFFSET
        last = record.offset
        if headers_end(&record, contiguous) != record.end:
            return MALFORMED
        if record.key_size < 0:
            out.null_keys += 1
        if record.timestamp > out.max_timestamp:
            out.max_timestamp = record.timestamp
        if record.timestamp < out.min_timestamp:
            out.min_timestamp = record.timestamp
    out.position_of_fault = header.record_count
    if p != end:
        return MALFORMED
    if last > last_offset_of(header) or (contiguous and last != last_offset_of(header)):
        return BAD_COUNT
    return OK


@cython.final
@cython.freelist(64)
cdef class BatchView:
    """One record batch, read in place.

    Owns: a buffer export on ``source``, not a copy; the bytes live as long as this view.
    Threads: immutable after construction.

    Raises:
        CorruptRecordError: the header is cut or impossible, or the batch ends after its bytes.
        UnsupportedFormatError: the magic byte is not 2.
    """

    cdef Py_buffer _buffer
    cdef bint _held
    cdef BatchHeader _header

    def __cinit__(self, source):
        cdef const uint8_t *p
        cdef const uint8_t *end
        if isinstance(source, str):
            raise RecordTypeError("a batch is bytes, found str")
        try:
            PyObject_GetBuffer(source, &self._buffer, PyBUF_SIMPLE)
        except (TypeError, BufferError, ValueError) as error:
            raise RecordTypeError(
                f"a batch is bytes or another contiguous buffer, found {type(source).__name__}: {error}") from None
        self._held = True
        p = <const uint8_t *>self._buffer.buf
        end = p + self._buffer.len
        raise_batch_status(whole_header(p, end, &self._header), p, end, None, None)

    def __dealloc__(self):
        if self._held:
            PyBuffer_Release(&self._buffer)

    @property
    def base_offset(self):
        return self._header.base_offset

    @property
    def last_offset(self):
        """Offset of the last record that the batch had when it was written."""
        return last_offset_of(&self._header)

    @property
    def next_offset(self):
        return last_offset_of(&self._header) + 1

    @property
    def size(self):
        """Bytes of the whole batch, header included."""
        return self._header.size

    @property
    def leader_epoch(self):
        return self._header.leader_epoch

    @property
    def crc(self):
        return self._header.crc

    @property
    def attributes(self):
        return self._header.attributes

    @property
    def codec(self):
        """The `Codec`; raises UnsupportedCodecError for an unknown number."""
        number = self._header.attributes & CODEC_MASK
        try:
            return Codec(number)
        except ValueError:
            raise UnsupportedCodecError(f"codec {number} is unknown; known are 0 none, 1 gzip, 2 snappy, "
                                        "3 lz4, 4 zstd", offset=self._header.base_offset) from None

    @property
    def timestamp_type(self):
        return _APPEND_TIME if self._header.attributes & APPEND_TIME_FLAG else _CREATE_TIME

    @property
    def is_transactional(self):
        return bool(self._header.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self):
        return bool(self._header.attributes & CONTROL_FLAG)

    @property
    def delete_horizon_ms(self):
        """Time from which a compaction may remove the tombstones and markers in this batch, or None."""
        if self._header.attributes & DELETE_HORIZON_FLAG:
            return self._header.base_timestamp
        return None

    @property
    def base_timestamp_ms(self):
        return self._header.base_timestamp

    @property
    def max_timestamp_ms(self):
        return self._header.max_timestamp

    @property
    def producer_id(self):
        return self._header.producer_id

    @property
    def producer_epoch(self):
        return self._header.producer_epoch

    @property
    def base_sequence(self):
        return self._header.base_sequence

    @property
    def last_sequence(self):
        """Sequence of the last record; sequences wrap from 2^31-1 to 0. -1 without a producer."""
        if self._header.base_sequence < 0:
            return -1
        return sequence_after(self._header.base_sequence, self._header.last_offset_delta)

    @property
    def record_count(self):
        return self._header.record_count

    @property
    def marker(self):
        """(`Marker`, coordinator epoch) of a transaction marker, else None."""
        if not self._header.attributes & CONTROL_FLAG:
            return None
        return marker_of(<const uint8_t *>self._buffer.buf, &self._header)

    def check(self) -> Self:
        """Compare the CRC-32C with the bytes.

        Raises:
            CorruptRecordError: they disagree.
        """
        cdef const uint8_t *p = <const uint8_t *>self._buffer.buf
        cdef BatchHeader header
        cdef int status
        with nogil:
            status = check_batch(p, p + self._header.size, &header)
        raise_batch_status(status, p, p + self._header.size, None, None)
        return self

    def payload(self, int64_t limit: int = DECOMPRESSED_LIMIT) -> bytes:
        """Return the records as bytes, decompressed to at most ``limit`` bytes."""
        if self._header.attributes & CODEC_MASK:
            return payload_of(<const uint8_t *>self._buffer.buf, &self._header, limit)
        return PyBytes_FromStringAndSize(<const char *>self._buffer.buf + HEADER_BYTES,
                                         self._header.size - HEADER_BYTES)

    def validate(
            self, *, bint contiguous: bool = True,
            int64_t limit: int = DECOMPRESSED_LIMIT) -> tuple[int, int, int]:
        """Walk every record; return (least timestamp, greatest timestamp, records without key).

        ``contiguous`` requires offset deltas 0, 1, 2 … as producers write them. Without it they only have to rise,
        as after compaction, and the keys of headers may be any bytes.

        Raises:
            InvalidRecordError: a record's length, varint, offset delta or header, or the count, is wrong, or a
                header's key is not UTF-8. Nothing may be appended.
            RecordTooLargeError, UnsupportedCodecError, CorruptRecordError: from the codec.
        """
        cdef const uint8_t *p = <const uint8_t *>self._buffer.buf + HEADER_BYTES
        cdef const uint8_t *end = <const uint8_t *>self._buffer.buf + self._header.size
        cdef bytes payload
        cdef Survey survey
        cdef int status
        if contiguous and self._header.record_count != <int64_t>self._header.last_offset_delta + 1:
            raise InvalidRecordError(
                f"record count {self._header.record_count} does not fit last offset delta "
                f"{self._header.last_offset_delta}")
        if self._header.attributes & CODEC_MASK:
            payload = payload_of(p - HEADER_BYTES, &self._header, limit)
            p = <const uint8_t *>PyBytes_AS_STRING(payload)
            end = p + PyBytes_GET_SIZE(payload)
        with nogil:
            status = survey_records(p, end, &self._header, contiguous, &survey)
        if status == BAD_OFFSET:
            raise InvalidRecordError(f"offset delta of record {survey.position_of_fault} is not the next one")
        if status != OK:
            raise InvalidRecordError(
                f"record {survey.position_of_fault} of {self._header.record_count}: "
                + ("a length, varint or header is wrong"
                   if survey.position_of_fault < self._header.record_count
                   else "bytes behind the last record, or a wrong count"))
        return survey.min_timestamp, survey.max_timestamp, survey.null_keys

    def __iter__(self):
        return iter(Batches(bytes(self), check=False))

    def __len__(self):
        return self._header.record_count

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self._buffer.buf, <Py_ssize_t>self._header.size, 1, flags)

    def __repr__(self):
        return (f"<BatchView offsets {self.base_offset}..{self.last_offset}, "
                f"{self._header.record_count} records, {self._header.size} bytes>")


cdef object marker_of(const uint8_t *p, const BatchHeader *header):
    """Decode (`Marker`, coordinator epoch) from a control batch; None for other control records.

    Key: version i16, type i16 (0 abort, 1 commit); value: version i16, coordinator epoch i32.
    """
    cdef const uint8_t *cursor = p + HEADER_BYTES
    cdef RecordView record
    if header.record_count != 1 or next_record(&cursor, p + header.size, header.base_offset,
                                               header.base_timestamp, &record) != OK:
        return None
    if record.key_size < 4 or record.value_size < 6:
        return None
    kind = load16(record.key + 2)
    if kind not in (0, 1):
        return None
    return Marker(kind), load32(record.value + 2)


# --- a run of batches -------------------------------------------------------------------------

cdef class Batches:
    """Whole record batches as stored in a log, with the range that a reader may see.

    Iterating gives the visible `Record`s: inside the bounds of offset and time, no control
    records and, for a committed reader, none of an aborted transaction. The bytes are one object
    for any number of records.

    Owns: a reference to ``data``. Threads: immutable after construction.
    """

    def __cinit__(self):
        self.data = b""
        self.aborted = ()
        self.bounds.end_offset = INT64_MAX
        self.bounds.since_ms = INT64_MIN
        self.bounds.until_ms = INT64_MAX

    def __init__(self, bytes data not None, *, int64_t start_offset=0, int64_t end_offset=INT64_MAX,
                 since_ms=None, until_ms=None, str topic="", int32_t partition=-1, str path=None,
                 int64_t position=0, aborted=(), bint committed_only=False, int64_t limit=DECOMPRESSED_LIMIT,
                 bint check=True, int64_t next_offset=-1):
        cdef const uint8_t *p = <const uint8_t *>PyBytes_AS_STRING(data)
        cdef const uint8_t *end = p + PyBytes_GET_SIZE(data)
        cdef const uint8_t *start = p
        cdef BatchHeader header
        cdef int status = OK
        cdef int64_t seen = -1
        if self.topic is not None:
            # A second __init__ would free bytes that iterators point into.
            raise TypeError("a run of batches cannot be changed")
        if check:
            with nogil:
                while p < end:
                    status = check_batch(p, end, &header)
                    if status == OK and header.base_offset <= seen:
                        status = BAD_OFFSET
                    if status != OK:
                        break
                    seen = last_offset_of(&header)
                    p += header.size
            raise_batch_status(status, p, end, path, position + (p - start))
            if next_offset < 0 and p != start:
                next_offset = seen + 1
        self._take(data, start_offset, end_offset, since_ms, until_ms, topic, partition, path, position,
                   tuple(aborted), committed_only, limit, next_offset if next_offset >= 0 else start_offset)
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1

    cdef int _take(self, bytes data, int64_t start_offset, int64_t end_offset, object since_ms, object until_ms,
                   str topic, int32_t partition, str path, int64_t position, tuple aborted,
                   bint committed_only, int64_t limit, int64_t next_offset) except -1:
        cdef Py_ssize_t i, count = len(aborted)
        cdef AbortedRange *ranges = NULL
        if committed_only and count:
            ranges = <AbortedRange *>malloc(count * sizeof(AbortedRange))
            if ranges == NULL:
                raise MemoryError
            try:
                for i in range(count):
                    ranges[i].producer_id, ranges[i].first_offset, ranges[i].last_offset = aborted[i][:3]
            except BaseException:
                free(ranges)
                raise
        free(self._ranges)
        self._ranges = ranges
        self._range_count = count if ranges != NULL else 0
        self.data = data
        self.bounds.start_offset = start_offset
        self.bounds.end_offset = end_offset
        self.bounds.since_ms = INT64_MIN if since_ms is None else since_ms
        self.bounds.until_ms = INT64_MAX if until_ms is None else until_ms
        self.topic = topic
        self.partition = partition
        self.path = path
        self.position = position
        self.aborted = aborted
        self.committed_only = committed_only
        self.limit = limit
        self.next_offset = next_offset
        return 0

    def __dealloc__(self):
        free(self._ranges)

    cdef bint is_aborted(self, const BatchHeader *header) noexcept nogil:
        cdef Py_ssize_t i
        if not header.attributes & TRANSACTIONAL_FLAG:
            return False
        for i in range(self._range_count):
            if (self._ranges[i].producer_id == header.producer_id
                    and self._ranges[i].first_offset <= header.base_offset <= self._ranges[i].last_offset):
                return True
        return False

    @property
    def size(self):
        """Bytes of all batches."""
        return PyBytes_GET_SIZE(self.data)

    @property
    def start_offset(self):
        return self.bounds.start_offset

    @property
    def end_offset(self):
        return self.bounds.end_offset

    def __bool__(self):
        return PyBytes_GET_SIZE(self.data) > 0

    def batches(self) -> list[BatchView]:
        """Return every batch, control and aborted ones included, as `BatchView`s."""
        cdef Py_ssize_t position = 0
        cdef list views = []
        whole = memoryview(self.data)
        while position < len(whole):
            view = BatchView(whole[position:])
            views.append(view)
            position += view.size
        return views

    def __iter__(self):
        return RecordIterator(self)

    def damage(self) -> tuple[RecordError, int, int] | None:
        """Find the first batch that cannot be read: return (error, position, size) in ``data``, or None.

        Every batch is decompressed and every record is read.
        """
        cdef RunReader reader = RunReader(self)
        cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(self.data)
        cdef int status
        while reader.next_header():
            try:
                reader.open_batch()
                with nogil:
                    status = read_through(reader.cursor, reader.records_end, &reader.header)
                if status != OK:
                    reader.left = 0
                    raise reader.placed(CorruptRecordError(
                        f"a record of the batch at base offset {reader.header.base_offset} is wrong"))
            except CorruptRecordError as error:
                return error, reader._next - start - reader.header.size, reader.header.size
        return None

    def between(self, Py_ssize_t start: int, Py_ssize_t stop: int, int64_t next_offset: int) -> Batches:
        """Return the batches from one position in ``data`` to another, with the same bounds."""
        cdef Batches part = Batches.__new__(Batches)
        part._take(self.data[start:stop], self.bounds.start_offset, self.bounds.end_offset, self.bounds.since_ms,
                   self.bounds.until_ms, self.topic, self.partition, self.path, self.position + start,
                   self.aborted, self.committed_only, self.limit, next_offset)
        part.log_start_offset = self.log_start_offset
        part.high_watermark = self.high_watermark
        part.last_stable_offset = self.last_stable_offset
        return part

    def within(self, since_ms: int | None, until_ms: int | None) -> Batches:
        """Return the run with only the records between two times, on the same bytes; ``until_ms`` is exclusive."""
        cdef Batches part = Batches.__new__(Batches)
        part._take(self.data, self.bounds.start_offset, self.bounds.end_offset, since_ms, until_ms, self.topic,
                   self.partition, self.path, self.position, self.aborted, self.committed_only, self.limit,
                   self.next_offset)
        return part

    def first(self, int64_t count: int) -> Batches:
        """Return the run up to its ``count``-th visible record, or all of it: its bytes are not copied.

        Raises:
            CorruptRecordError: a batch before that record is damaged.
        """
        cdef RunReader reader = RunReader(self)
        cdef RecordView record
        cdef Batches part
        cdef int64_t end = self.bounds.start_offset
        while count > 0:
            if not reader.next_visible(&record):
                return self
            end = record.offset + 1
            count -= 1
        part = self.between(0, PyBytes_GET_SIZE(self.data), end)
        part.bounds.end_offset = min(end, self.bounds.end_offset)
        return part

    def records(self) -> list[Record]:
        """Return every visible record, in a list."""
        return list(RecordIterator(self))

    def values(self) -> list[bytes | None]:
        """Return the values of the visible records, in a list: the fastest way to Python objects."""
        cdef list out = []
        cdef RunReader reader = RunReader(self)
        cdef RecordView record
        while reader.next_visible(&record):
            out.append(None if record.value_size < 0 else _slice(record.value, record.value_size))
        return out

    def tuples(self) -> list[tuple[int, int, bytes | None, bytes | None]]:
        """Return (offset, timestamp_ms, key, value) of the visible records, in a list."""
        cdef list out = []
        cdef RunReader reader = RunReader(self)
        cdef RecordView record
        while reader.next_visible(&record):
            out.append((record.offset, record.timestamp,
                        None if record.key_size < 0 else _slice(record.key, record.key_size),
                        None if record.value_size < 0 else _slice(record.value, record.value_size)))
        return out

    def count(self) -> int:
        """Count the visible records. Whole batches inside the bounds are not decoded."""
        cdef RunReader reader = RunReader(self)
        cdef RecordView record
        cdef int64_t total = 0
        while reader.next_header():
            # The header bounds the newest record of a batch, but not its oldest.
            if (reader.header.base_offset >= self.bounds.start_offset
                    and last_offset_of(&reader.header) < self.bounds.end_offset
                    and is_before(reader.header.max_timestamp, &self.bounds)
                    and (self.bounds.since_ms == INT64_MIN or reader.append_time)):
                total += reader.header.record_count
                continue
            reader.open_batch()
            while reader.next_in_batch(&record):
                total += 1
        return total

    def first_at_or_after(self, int64_t timestamp_ms: int) -> tuple[int, int] | None:
        """Return (timestamp, offset) of the first visible record with at least that timestamp, or None."""
        cdef RunReader reader = RunReader(self)
        cdef RecordView record
        while reader.next_visible(&record):
            if record.timestamp >= timestamp_ms:
                return record.timestamp, record.offset
        return None

    def __repr__(self):
        return f"<Batches {self.topic}-{self.partition} from offset {self.start_offset}, {self.size} bytes>"


def run_of(bytes data not None, int64_t start_offset, int64_t end_offset, since_ms, until_ms, str topic not None,
           int32_t partition, str path, int64_t position, aborted, bint committed_only, int64_t limit,
           int64_t next_offset, tuple marks not None):
    """Return `Batches` of bytes that a segment has read and checked; for a log's reader, once for every read.

    ``marks`` are log start offset, high watermark and last stable offset.
    """
    cdef Batches run = Batches.__new__(Batches)
    run._take(data, start_offset, end_offset, since_ms, until_ms, topic, partition, path, position,
              tuple(aborted), committed_only, limit, next_offset)
    run.log_start_offset, run.high_watermark, run.last_stable_offset = marks
    return run


@cython.final
cdef class RunReader:
    """A cursor over the visible records of a run. One user at a time."""

    def __cinit__(self, Batches run not None):
        self.run = run
        self._next = <const uint8_t *>PyBytes_AS_STRING(run.data)
        self._end = self._next + PyBytes_GET_SIZE(run.data)

    cdef int next_batch(self) except -1:
        """Open the next batch that may hold a visible record; return 0 when there is none."""
        return self.open_batch() if self.next_header() else 0

    cdef int next_header(self) except -1:
        """Find the header of the next batch that may hold a visible record; return 0 when there is none."""
        cdef const uint8_t *p
        cdef int status
        cdef Batches run = self.run
        self.left = 0
        while self._next < self._end:
            p = self._next
            status = whole_header(p, self._end, &self.header)
            if status != OK:
                raise_batch_status(status, p, self._end, run.path,
                                   run.position + (p - <const uint8_t *>PyBytes_AS_STRING(run.data)))
            if self.header.base_offset >= run.bounds.end_offset:
                self._next = self._end
                return 0
            self._next = p + self.header.size
            if (last_offset_of(&self.header) < run.bounds.start_offset
                    or self.header.record_count == 0
                    or self.header.attributes & CONTROL_FLAG
                    or self.header.max_timestamp < run.bounds.since_ms
                    or (run._range_count and run.is_aborted(&self.header))):
                continue
            self.append_time = (self.header.attributes & APPEND_TIME_FLAG) != 0
            if self.append_time and not is_before(self.header.max_timestamp, &run.bounds):
                continue
            return 1
        return 0

    cdef int open_batch(self) except -1:
        """Decompress the batch whose header was found, and move before its first record; return 1."""
        cdef const uint8_t *p = self._next - self.header.size
        if self.header.attributes & CODEC_MASK:
            try:
                self.payload = payload_of(p, &self.header, self.run.limit)
            except RecordError as error:
                raise self.placed(error)
            self.cursor = <const uint8_t *>PyBytes_AS_STRING(self.payload)
            self.records_end = self.cursor + PyBytes_GET_SIZE(self.payload)
        else:
            self.payload = self.run.data
            self.cursor = p + HEADER_BYTES
            self.records_end = self._next
        self.left = self.header.record_count
        return 1

    cdef int next_in_batch(self, RecordView *out) except -1:
        """Read the next visible record of the current batch; return 0 when there is none."""
        cdef int status
        cdef const Bounds *bounds = &self.run.bounds
        while self.left:
            self.left -= 1
            status = next_record(&self.cursor, self.records_end, self.header.base_offset,
                                 self.header.base_timestamp, out)
            if status != OK:
                self.raise_record(status)
            if self.append_time:
                out.timestamp = self.header.max_timestamp
            if out.offset < bounds.start_offset:
                continue
            if out.offset >= bounds.end_offset:
                self.left = 0
                return 0
            if bounds.since_ms <= out.timestamp and is_before(out.timestamp, bounds):
                return 1
        return 0

    cdef int next_visible(self, RecordView *out) except -1:
        """Read the next visible record; return 0 when there is none."""
        while not self.next_in_batch(out):
            if not self.next_batch():
                return 0
        return 1

    cdef object placed(self, object error):
        """Add file, position and offsets of the current batch to an error; the CRC guards the offsets."""
        cdef int64_t position = self.run.position + (
            self._next - <const uint8_t *>PyBytes_AS_STRING(self.run.data)) - self.header.size
        error = type(error)(str(error), path=self.run.path, position=position)
        error.bound(self.header.base_offset, last_offset_of(&self.header) + 1)
        return error

    cdef int raise_record(self, int status) except -1:
        raise self.placed(CorruptRecordError(
            f"record {self.header.record_count - self.left - 1} of the batch at base offset "
            f"{self.header.base_offset}: a length or varint is wrong"))


@cython.final
cdef class RecordIterator:
    """The visible records of a run, one by one. It has a position, and can be stopped on the way.

    Owns: the run.
    """

    cdef RunReader _reader
    cdef int64_t _allowed               # how many more records it may hand out before it stops
    cdef readonly int64_t position
    cdef readonly bint exhausted
    cdef readonly bint failed
    cdef bint _held_up                  # stopped in the middle of a step

    def __cinit__(self, Batches run):
        self._reader = RunReader(run)
        self._allowed = INT64_MAX
        self.position = run.bounds.start_offset

    def __iter__(self):
        return self

    def allow(self, int64_t count):
        """Hand out ``count`` more records at most, then stop until the next call of this. Returns the iterator.

        A call by another thread while a batch is decompressed ends the iterator there. It returns no further
        record, and the rest is read again.
        """
        # A damaged batch is not skipped: the next read finds it again, and raises again.
        self._held_up = self.failed
        self._allowed = 0 if self.failed else max(count, 0)
        return self

    def __next__(self):
        cdef Record record = self.take()
        if record is None:
            raise StopIteration
        return record

    cdef Record take(self):
        """Return the next record, or None where the iterator stops."""
        cdef RecordView view
        cdef bint found
        cdef int64_t allowed
        cdef RunReader reader = self._reader
        if self._allowed <= 0:
            return None
        # Set until the step is done: an error leaves both fields like this.
        self.failed = True
        allowed = self._allowed
        self._allowed = 0
        found = reader.next_visible(&view)
        if self._held_up:
            # Another thread called `allow` while the GIL was released: its limit must not be overwritten here.
            return None
        self.failed = False
        if not found:
            self.exhausted = True
            self.position = max(self.position, reader.run.next_offset)
            return None
        self._allowed = allowed - 1
        self.position = view.offset + 1
        return record_of(&view, reader.payload, reader.run.topic, reader.run.partition, reader.append_time)


@cython.final
cdef class RecordChain:
    """The records of many runs in order, from an iterator of `RecordIterator`s.

    Like ``itertools.chain.from_iterable``, without a call through Python's iteration for every record.
    """

    cdef object _runs
    cdef RecordIterator _run

    def __cinit__(self, runs):
        self._runs = iter(runs)

    def __iter__(self):
        return self

    def __next__(self):
        cdef Record record
        while True:
            if self._run is not None:
                record = self._run.take()
                if record is not None:
                    return record
                self._run = None
            # Its StopIteration ends this iterator too.
            self._run = next(self._runs)


# --- changing a batch in place ----------------------------------------------------------------

def stamp(batch, int64_t base_offset, int32_t leader_epoch):
    """Set base offset and leader epoch in a writable batch; the CRC does not cover them."""
    cdef Py_buffer view
    PyObject_GetBuffer(batch, &view, PyBUF_WRITABLE)
    try:
        if view.len < HEADER_BYTES:
            raise CorruptRecordError(f"batch header needs {<int>HEADER_BYTES} bytes, found {view.len}")
        store64(<uint8_t *>view.buf, base_offset)
        store32(<uint8_t *>view.buf + AT_LEADER_EPOCH, leader_epoch)
    finally:
        PyBuffer_Release(&view)


def stamp_run(batches, int64_t base_offset, int32_t leader_epoch):
    """Run `stamp` on every batch of a run, offsets rising from base_offset; -1 keeps them.

    Returns the next offset.
    """
    cdef Py_buffer view
    cdef uint8_t *p
    cdef uint8_t *end
    cdef BatchHeader header
    PyObject_GetBuffer(batches, &view, PyBUF_WRITABLE)
    try:
        p = <uint8_t *>view.buf
        end = p + view.len
        while p < end:
            raise_batch_status(whole_header(p, end, &header), p, end, None, None)
            if base_offset >= 0:
                store64(p, base_offset)
                store32(p + AT_LEADER_EPOCH, leader_epoch)
                base_offset += <int64_t>header.last_offset_delta + 1
            p += header.size
    finally:
        PyBuffer_Release(&view)
    return base_offset


def restamp_time(batch, int64_t max_timestamp_ms, bint append_time):
    """Set the greatest timestamp, whether the log gave it, and the new CRC, in a writable batch."""
    cdef Py_buffer view
    cdef uint8_t *p
    cdef int16_t attributes
    PyObject_GetBuffer(batch, &view, PyBUF_WRITABLE)
    try:
        if view.len < HEADER_BYTES:
            raise CorruptRecordError(f"batch header needs {<int>HEADER_BYTES} bytes, found {view.len}")
        p = <uint8_t *>view.buf
        attributes = load16(p + AT_ATTRIBUTES) & ~APPEND_TIME_FLAG
        if append_time:
            attributes |= APPEND_TIME_FLAG
        store16(p + AT_ATTRIBUTES, attributes)
        store64(p + AT_MAX_TIMESTAMP, max_timestamp_ms)
        seal_batch(p, view.len)
    finally:
        PyBuffer_Release(&view)


def stamp_producer(batches, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence, *,
                   bint transactional=False, int64_t append_time_ms=-1):
    """Set the producer of every batch of a run, sequences rising from base_sequence; CRCs are set again.

    ``append_time_ms`` becomes the time of every record, as given by the log. Producer id -1 leaves
    the batches without a producer. Returns the next sequence.

    Raises:
        CorruptRecordError, UnsupportedFormatError: a batch is not whole, or its CRC disagrees. The batches
            before it are changed.
    """
    cdef Py_buffer view
    cdef uint8_t *p
    cdef uint8_t *end
    cdef BatchHeader header
    cdef int status = OK
    cdef int16_t attributes
    cdef bint numbered = producer_id >= 0
    PyObject_GetBuffer(batches, &view, PyBUF_WRITABLE)
    try:
        p = <uint8_t *>view.buf
        end = p + view.len
        with nogil:
            while p < end:
                # The CRC is checked first: the new CRC would otherwise vouch for damaged bytes.
                status = check_batch(p, end, &header)
                if status != OK:
                    break
                attributes = header.attributes
                if numbered:
                    store64(p + AT_PRODUCER_ID, producer_id)
                    store16(p + AT_PRODUCER_EPOCH, producer_epoch)
                    store32(p + AT_BASE_SEQUENCE, base_sequence)
                    base_sequence = sequence_after(base_sequence, <int64_t>header.last_offset_delta + 1)
                    if transactional:
                        attributes |= TRANSACTIONAL_FLAG
                if append_time_ms >= 0:
                    attributes |= APPEND_TIME_FLAG
                    store64(p + AT_MAX_TIMESTAMP, append_time_ms)
                store16(p + AT_ATTRIBUTES, attributes)
                seal_batch(p, header.size)
                p += header.size
        raise_batch_status(status, p, end, None, None)
    finally:
        PyBuffer_Release(&view)
    return base_sequence


def with_codec(BatchView view not None, int codec, bytes payload not None):
    """Return a copy of a batch whose records are ``payload``, already compressed with ``codec``."""
    cdef bytearray out = bytearray(HEADER_BYTES + len(payload))
    cdef uint8_t *p = <uint8_t *>out
    memcpy(p, view._buffer.buf, HEADER_BYTES)
    memcpy(p + HEADER_BYTES, PyBytes_AS_STRING(payload), len(payload))
    store16(p + AT_ATTRIBUTES, (view._header.attributes & ~CODEC_MASK) | codec)
    seal_batch(p, len(out))
    return out
