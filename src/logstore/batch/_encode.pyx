# cython: language_level=3
"""Encoder of record batches v2, with a buffer that is kept from one append to the next.

An `Encoder` takes lists of values, lists of (key, value, timestamp, headers), single records, and through
`columns._import` whole Arrow arrays. It writes every record once, directly to its position, and starts another
batch when the open one would pass the limit. The log then sets base offset and leader epoch in the same bytes and
writes them. So a record is copied once before the page cache. The format is drawn in `_batch.pyx`. One thread uses
an encoder at a time.
"""

cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_CheckExact
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.buffer cimport PyBUF_READ
from libc.stdint cimport INT32_MAX, INT64_MAX, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from logstore.batch._batch cimport (
    APPEND_TIME_FLAG,
    AT_ATTRIBUTES,
    AT_BASE_OFFSET,
    AT_BASE_SEQUENCE,
    AT_BASE_TIMESTAMP,
    AT_LAST_OFFSET_DELTA,
    AT_MAGIC,
    AT_MAX_TIMESTAMP,
    AT_PRODUCER_EPOCH,
    AT_PRODUCER_ID,
    AT_RECORD_COUNT,
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_BYTES,
    Record,
    TRANSACTIONAL_FLAG,
    seal_batch,
    sequence_after,
)
from logstore.batch._bytes cimport store16, store32, store64
from logstore.batch._crc32c cimport logstore_crc32c_init

import datetime
import re

from logstore.batch._codec import compress
from logstore.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    RecordError,
    RecordTooLargeError,
    RecordTypeError,
    UnexpectedOffsetError,
    UnsupportedCodecError,
)

logstore_crc32c_init()


cdef extern from "Python.h":
    # Of borrowed references.
    PyObject *Py_None
    PyObject *PyList_GET_ITEM(PyObject *items, Py_ssize_t index)
    Py_ssize_t PyList_GET_SIZE(PyObject *items)
    PyObject *PyTuple_GET_ITEM(PyObject *items, Py_ssize_t index)
    Py_ssize_t PyTuple_GET_SIZE(PyObject *items)
    bint is_tuple "PyTuple_CheckExact"(PyObject *item)
    bint is_list "PyList_CheckExact"(PyObject *item)
    bint is_bytes "PyBytes_CheckExact"(PyObject *item)
    bint is_int "PyLong_CheckExact"(PyObject *item)
    const uint8_t *bytes_data "(const uint8_t *)PyBytes_AS_STRING"(PyObject *item)
    Py_ssize_t bytes_size "PyBytes_GET_SIZE"(PyObject *item)
    int64_t as_int64 "PyLong_AsLongLongAndOverflow"(PyObject *item, int *overflow)

cdef enum:
    NUMBERS_BYTES = 36      # of a record at most: length, attributes, deltas, two sizes, header count
    NUMBERS_SLACK = 29      # of these, the bytes that a record with short numbers does not need
    HELD_BYTES = 65_536     # of a batch whose CRC is computed with the GIL, in 3 us


cdef object _wrong_type(str what, object found):
    advice = "; encode it first: text.encode()" if isinstance(found, str) else ""
    return RecordTypeError(f"{what} must be bytes or another buffer, found {type(found).__name__}{advice}")


cdef int _get_buffer(str what, object value, Py_buffer *out) except -1:
    if isinstance(value, str):
        raise _wrong_type(what, value)
    try:
        # The format is requested, since without it an array of objects gives the bytes of its pointers.
        PyObject_GetBuffer(value, out, PyBUF_ND | PyBUF_FORMAT)
    except TypeError:
        raise _wrong_type(what, value) from None
    except (BufferError, ValueError) as error:
        # numpy raises ValueError where others raise BufferError.
        raise RecordTypeError(
            f"{what} must be a contiguous buffer, found {type(value).__name__}: {error}; give its bytes, such as "
            "value.tobytes()") from None
    # A single letter for plain bytes, as in nearly every buffer.
    if out.format != NULL and not (out.format[0] in b"Bbc" and out.format[1] == 0):
        try:
            _check_format(what, value, out.format.decode("utf-8", "replace"))
        except BaseException:
            PyBuffer_Release(out)
            raise
    return 0


# PEP 3118 and ctypes: object, function, char * and wchar_t * (Zf, Zd and Zg are complex numbers), any pointer.
_REFERENCES = re.compile(r"[OXP&z]|Z(?![fdg])")
_FIELD_NAMES = re.compile(r":[^:]*:")
_TEXT = re.compile(r"\W?\d*[uw]")


def _check_format(what, value, format):
    found = f"{type(value).__name__} {getattr(value, 'dtype', '')}".strip()
    if _REFERENCES.search(_FIELD_NAMES.sub("", format)):
        raise RecordTypeError(
            f"{what} must be bytes or another buffer, found {found}, which holds references and no bytes (format "
            f"{format}); encode its items first")
    if _TEXT.fullmatch(format):
        raise RecordTypeError(
            f"{what} must be bytes or another buffer, found {found}, which is text (format {format}); encode it "
            "first, such as numpy.char.encode(value)")


cdef bytes _varlong(int64_t value):
    cdef uint8_t buffer[10]
    return PyBytes_FromStringAndSize(<char *>buffer, write_varlong(buffer, value) - buffer)


cdef bytes _encoded_headers(object headers):
    """Encode the header part of a record: count, then key and value of each."""
    cdef list parts = []
    cdef Py_buffer view
    try:
        pairs = [(key, value) for key, value in headers]
    except (TypeError, ValueError):
        raise RecordTypeError(
            f"headers must be pairs of (str, bytes or None), found {headers!r:.80}") from None
    parts.append(_varlong(len(pairs)))
    for key, value in pairs:
        if not isinstance(key, str):
            raise RecordTypeError(f"a header key must be str, found {type(key).__name__}")
        try:
            encoded = key.encode()
        except UnicodeEncodeError as error:
            raise InvalidRecordError(f"a header key has to have a form in UTF-8: {error}") from None
        parts.append(_varlong(len(encoded)))
        parts.append(encoded)
        if value is None:
            parts.append(_varlong(-1))
        else:
            if not PyBytes_CheckExact(value):
                _get_buffer("a header value", value, &view)
                try:
                    value = PyBytes_FromStringAndSize(<char *>view.buf, view.len)
                finally:
                    PyBuffer_Release(&view)
            parts.append(_varlong(len(value)))
            parts.append(value)
    return b"".join(parts)


def timestamp_of(value: Timestamp) -> int:
    """Convert an int or an aware datetime to milliseconds since 1970.

    Raises:
        RecordTypeError: the value is neither, or a datetime without a zone.
        InvalidTimestampError: before 1970, except -1 for none, or over 64 bits.
    """
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            raise RecordTypeError(f"timestamp {value!r} has no time zone; use datetime.now(timezone.utc)")
        if value < _EPOCH:
            raise InvalidTimestampError(f"timestamp {value} is before 1970")
        return (value - _EPOCH) // _MILLISECOND
    if isinstance(value, int) and not isinstance(value, bool):
        if value < -1 or value > INT64_MAX:
            raise InvalidTimestampError(f"timestamp {value} ms is before 1970 or too large")
        return value
    raise RecordTypeError(
        f"a timestamp must be int milliseconds or an aware datetime, found {type(value).__name__}")


cdef tuple _NO_HEADERS = ()

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MILLISECOND = datetime.timedelta(milliseconds=1)


@cython.final
cdef class Encoder:
    """An encoder of record batches v2, one after the other in one buffer.

    Owns: the buffer, which grows and is kept; it cannot grow while a memoryview of it lives.
    Threads: one at a time.
    """

    def __cinit__(self):
        self._batch_start = -1

    def __dealloc__(self):
        free(self.data)

    def begin(
            self, *, int64_t timestamp_ms: int, int codec: int = 0, int level: int = 0,
            Py_ssize_t max_batch_bytes: int = 1_048_588, tuple limits: tuple[tuple[str, int], ...] = (),
            bint append_time: bool = False, int64_t producer_id: int = -1, int16_t producer_epoch: int = -1,
            int32_t base_sequence: int = -1, bint transactional: bool = False, bint control: bool = False,
            bint keep_offsets: bool = False) -> Self:
        """Discard the contents of the buffer and start from scratch.

        Records without a time get ``timestamp_ms``. A batch is closed before it would pass ``max_batch_bytes``
        before compression, or the least of ``limits``. These are settings with their bytes; the error for a record
        that is too large names them. With ``keep_offsets`` records have their own offsets, as only Arrow data with
        a column ``offset`` can. They rise, may have gaps, and set the base offsets of the batches.
        """
        if codec < 0 or codec > 4:
            raise UnsupportedCodecError(
                f"codec {codec} is unknown; known are 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd")
        if limits:
            max_batch_bytes = INT64_MAX
            for _, limit in limits:
                max_batch_bytes = min(max_batch_bytes, <Py_ssize_t>limit)
        self.begin_plain(timestamp_ms, codec, level, max_batch_bytes, limits, append_time)
        if transactional:
            self._attributes |= TRANSACTIONAL_FLAG
        if control:
            self._attributes |= CONTROL_FLAG
        self._producer_id = producer_id
        self._producer_epoch = producer_epoch
        self._next_sequence = base_sequence
        self._keeps_offsets = keep_offsets
        return self

    cdef int begin_plain(self, int64_t timestamp_ms, int codec, int level, Py_ssize_t max_batch_bytes, tuple limits,
                         bint append_time) except -1:
        """Begin as `begin` does, without a producer id; ``max_batch_bytes`` is the least of ``limits``."""
        self.restart(timestamp_ms)
        self._codec = codec
        self._level = level
        self._attributes = codec
        if append_time:
            self._attributes |= APPEND_TIME_FLAG
        self._producer_id = self._producer_epoch = self._next_sequence = -1
        self._max_batch_bytes = max_batch_bytes
        self._limits = limits
        self._keeps_offsets = False
        self._offset = self._last_offset = -1
        return 0

    def renew(self, int64_t timestamp_ms: int) -> Self:
        """Begin as `begin` does, with the settings of the last one; for records without a producer id.

        Kept offsets continue to rise from those before.
        """
        self.restart(timestamp_ms)
        return self

    cdef int restart(self, int64_t timestamp_ms) except -1:
        if self._exports:
            raise BufferError("the encoder's bytes are still in use")
        self.size = 0
        self._batch_start = -1
        self._default_timestamp = timestamp_ms
        self.record_count = 0
        self.batch_count = 0
        self.max_timestamp_ms = -1
        self.min_timestamp_ms = INT64_MAX
        self.null_keys = 0
        self.appended_at = -1
        return 0

    def number(self, int64_t producer_id: int, int16_t producer_epoch: int, int32_t base_sequence: int) -> Self:
        """Give the batches that are not closed yet a producer id and the sequence of their first record.

        Records can thus be added before their sequence is known.
        """
        self._producer_id = producer_id
        self._producer_epoch = producer_epoch
        self._next_sequence = base_sequence
        return self

    # -- adding ----------------------------------------------------------------------------------

    cdef int try_add(self, int64_t timestamp, const uint8_t *key, int64_t key_size, const uint8_t *value,
                     int64_t value_size, const uint8_t *headers, int64_t headers_size) noexcept nogil:
        """Write one record into the open batch: ADDED, or FULL when make_way has to be called."""
        # Unsigned, so that a far timestamp wraps as its reader unwraps it.
        cdef int64_t delta = <int64_t>(<uint64_t>timestamp - <uint64_t>self._base_timestamp)
        cdef int64_t body, place = self._batch_records
        cdef uint8_t *p
        if self._batch_start < 0:
            return FULL
        if self._keeps_offsets:
            place = self._offset - self._base_offset
            if self._offset <= self._last_offset or place > INT32_MAX:
                return FULL
        body = record_body_size(delta, <int32_t>place, key_size, value_size, headers_size)
        # Five bytes are the longest length field; the few bytes of room lost do not matter.
        if self.size + body + 5 > self.capacity:
            return FULL
        if self.size - self._batch_start + body + 5 > self._max_batch_bytes and self._batch_records:
            return FULL
        p = write_varlong(self.data + self.size, body)
        p[0] = 0
        p = write_varlong(p + 1, delta)
        p = write_varlong(p, place)
        p = write_varlong(p, key_size)
        if key_size > 0:
            memcpy(p, key, <size_t>key_size)
            p += key_size
        elif key_size < 0:
            self.null_keys += 1
        p = write_varlong(p, value_size)
        if value_size > 0:
            memcpy(p, value, <size_t>value_size)
            p += value_size
        if headers_size:
            memcpy(p, headers, <size_t>headers_size)
            p += headers_size
        else:
            p[0] = 0
            p += 1
        self.size = p - self.data
        self._batch_records += 1
        self._last_offset = self._offset
        if timestamp > self._batch_max_timestamp:
            self._batch_max_timestamp = timestamp
        if timestamp < self.min_timestamp_ms:
            self.min_timestamp_ms = timestamp
        return ADDED

    cdef int make_way(self, int64_t timestamp, int64_t record_bytes) except -1:
        """Make room, and open a batch, for a record of at most record_bytes; close the batch before if needed.

        A record that fits only because its numbers are short is accepted: see add_one.
        """
        if self._codec == 0 and HEADER_BYTES + record_bytes - NUMBERS_SLACK > self._max_batch_bytes:
            self._refuse(record_bytes)
        if self._batch_start >= 0 and self._batch_records and (
                self.size - self._batch_start + record_bytes > self._max_batch_bytes
                or (self._keeps_offsets and self._offset - self._base_offset > INT32_MAX)):
            self._close_batch()
        if self._batch_start < 0:
            self._reserve(HEADER_BYTES)
            self._batch_start = self.size
            self.size += HEADER_BYTES
            self._batch_records = 0
            self._base_timestamp = timestamp
            self._batch_max_timestamp = timestamp
            self._base_offset = self._offset
        return self._reserve(record_bytes)

    cdef int _refuse(self, int64_t record_bytes) except -1:
        raise RecordTooLargeError.over(
            "a record", record_bytes, self._limits or (("max.message.bytes", self._max_batch_bytes),),
            ("compress", "split the record"))

    cdef int add_one(self, int64_t timestamp, const uint8_t *key, int64_t key_size, const uint8_t *value,
                     int64_t value_size, const uint8_t *headers, int64_t headers_size) except -1:
        cdef int64_t bound, body
        if self.try_add(timestamp, key, key_size, value, value_size, headers, headers_size) == ADDED:
            return 0
        bound = NUMBERS_BYTES + headers_size
        bound += (key_size if key_size > 0 else 0) + (value_size if value_size > 0 else 0)
        if bound > INT32_MAX - HEADER_BYTES:
            raise RecordTooLargeError(f"a record of {bound} bytes is over 2 GiB")
        # Checked before anything changes, so that the records before this one stay valid.
        if self._keeps_offsets and self._offset <= self._last_offset:
            raise UnexpectedOffsetError(
                f"offset {self._offset} comes after offset {self._last_offset} of the same partition; kept offsets "
                "must rise")
        body = record_body_size(0, 0, key_size, value_size, headers_size)
        if self._codec == 0 and HEADER_BYTES + varlong_size(body) + body > self._max_batch_bytes:
            self._refuse(varlong_size(body) + body)
        self.make_way(timestamp, bound)
        if self.try_add(timestamp, key, key_size, value, value_size, headers, headers_size) != ADDED:
            # Within a few bytes of the limit the bound was too high for the open batch.
            self._close_batch()
            self.make_way(timestamp, bound)
            self.try_add(timestamp, key, key_size, value, value_size, headers, headers_size)
        return 0

    cdef bint _add_plain(self, PyObject *item) except -1:
        """Add a record of plain bytes and numbers that fits the open batch; return False if nothing was done.

        Takes no reference: counting references writes to every object of every record, which
        was a fifth of the time.
        """
        cdef PyObject *part
        cdef const uint8_t *key = NULL
        cdef const uint8_t *value = NULL
        cdef int64_t key_size = -1, value_size = -1, timestamp = self._default_timestamp
        cdef Py_ssize_t width
        cdef int overflow = 0
        if is_bytes(item):
            return self.try_add(timestamp, NULL, -1, bytes_data(item), bytes_size(item), NULL, 0) == ADDED
        if not is_tuple(item):
            return False
        width = PyTuple_GET_SIZE(item)
        if width < 2 or width > 4:
            return False
        if width == 4:
            part = PyTuple_GET_ITEM(item, 3)
            if part != Py_None and part != <PyObject *>_NO_HEADERS and not (
                    is_list(part) and PyList_GET_SIZE(part) == 0):
                return False
        if width > 2:
            part = PyTuple_GET_ITEM(item, 2)
            if part != Py_None:
                if not is_int(part):
                    return False
                timestamp = as_int64(part, &overflow)
                if overflow or timestamp < -1:
                    return False
        part = PyTuple_GET_ITEM(item, 0)
        if part != Py_None:
            if not is_bytes(part):
                return False
            key = bytes_data(part)
            key_size = bytes_size(part)
        part = PyTuple_GET_ITEM(item, 1)
        if part != Py_None:
            if not is_bytes(part):
                return False
            value = bytes_data(part)
            value_size = bytes_size(part)
        return self.try_add(timestamp, key, key_size, value, value_size, NULL, 0) == ADDED

    cdef int _add_object(self, object item) except -1:
        cdef Record record
        cdef Py_ssize_t width
        if isinstance(item, tuple):
            width = len(<tuple>item)
            if width < 2 or width > 4:
                raise RecordTypeError(
                    f"a record is (key, value), (key, value, timestamp) or (key, value, timestamp, headers), "
                    f"found a tuple of {width}")
            return self._add_fields((<tuple>item)[0], (<tuple>item)[1],
                                    (<tuple>item)[2] if width > 2 else None,
                                    (<tuple>item)[3] if width > 3 else None)
        if isinstance(item, Record):
            record = item
            return self._add_fields(record.key, record.value, record.timestamp_ms, record.headers)
        return self._add_fields(None, item, None, None)

    cdef int _add_fields(self, object key, object value, object timestamp, object headers) except -1:
        cdef const uint8_t *header_data = NULL
        cdef int64_t header_size = 0, ms = self._default_timestamp
        cdef Py_buffer key_buffer, value_buffer
        cdef bytes encoded
        # As they are for None, and without an owner, so that releasing them does nothing.
        memset(&key_buffer, 0, sizeof(Py_buffer))
        memset(&value_buffer, 0, sizeof(Py_buffer))
        key_buffer.len = value_buffer.len = -1
        if timestamp is not None:
            ms = timestamp_of(timestamp)
        if headers is not None and headers is not _NO_HEADERS and not (
                PyList_CheckExact(headers) and len(<list>headers) == 0):
            encoded = _encoded_headers(headers)
            header_data = <const uint8_t *>PyBytes_AS_STRING(encoded)
            header_size = PyBytes_GET_SIZE(encoded)
        try:
            if key is not None:
                _get_buffer("a key", key, &key_buffer)
            if value is not None:
                _get_buffer("a value", value, &value_buffer)
            return self.add_one(ms, <const uint8_t *>key_buffer.buf, key_buffer.len,
                                <const uint8_t *>value_buffer.buf, value_buffer.len, header_data, header_size)
        finally:
            PyBuffer_Release(&key_buffer)
            PyBuffer_Release(&value_buffer)

    def add(
            self, value: Buffer | None, key: Buffer | None = None, timestamp_ms: Timestamp | None = None,
            headers: Headers | None = None) -> None:
        """Add one record."""
        if key is None and timestamp_ms is None and headers is None and PyBytes_CheckExact(value):
            self.add_one(self._default_timestamp, NULL, -1, <const uint8_t *>PyBytes_AS_STRING(value),
                         PyBytes_GET_SIZE(value), NULL, 0)
        else:
            self._add_fields(key, value, timestamp_ms, headers)

    def add_all(self, records: Iterable[RecordLike]) -> None:
        """Add every record of an iterable: values, (key, value, timestamp, headers) or `Record`s.

        Raises:
            RecordTypeError: an item is no record; names the item and its index.
            RecordTooLargeError: one record alone passes the limit of a batch.
            InvalidTimestampError, InvalidRecordError: a timestamp or a header key is invalid.
        """
        cdef Py_ssize_t index = 0
        if type(records) is list:
            self.add_list(<list>records)
            return
        if isinstance(records, (str, bytes, bytearray, memoryview)):
            raise RecordTypeError(
                f"records must be a list of records, found one {type(records).__name__}; write [value]")
        try:
            for record in records:
                if not self._add_plain(<PyObject *>record):
                    self._add_object(record)
                index += 1
        except RecordError as error:
            error.add_note(f"in record {index} of this append")
            raise

    cdef int add_list(self, list records) except -1:
        """Add every record of a list, as `add_all`."""
        cdef Py_ssize_t index = 0
        cdef PyObject *items = <PyObject *>records
        cdef PyObject *item
        cdef object _held
        try:
            # The size is read again each time: an object that exports a buffer may change the list.
            while index < PyList_GET_SIZE(items):
                item = PyList_GET_ITEM(items, index)
                if is_bytes(item):
                    # Held: a batch that is closed first may let another thread change the list.
                    _held = <object>item
                    self.add_one(self._default_timestamp, NULL, -1, bytes_data(item), bytes_size(item), NULL, 0)
                    index = self._add_values(items, index + 1)
                    continue
                if not self._add_plain(item):
                    self._add_object(<object>item)
                index += 1
        except RecordError as error:
            error.add_note(f"in record {index} of this append")
            raise
        return 0

    cdef Py_ssize_t _add_values(self, PyObject *items, Py_ssize_t index) noexcept:
        """Add plain bytes of a list, from an index on, while the open batch has room; return the next index.

        This is `try_add` for many values without keys: the state of the batch stays in registers. No Python code
        runs meanwhile, so nothing can change the list.
        """
        cdef Py_ssize_t count = PyList_GET_SIZE(items)
        cdef PyObject *item
        cdef int64_t timestamp = self._default_timestamp, delta, size, body, fixed
        cdef int32_t place = self._batch_records, begun = place
        cdef uint8_t *p = self.data + self.size
        cdef const uint8_t *end
        if self._batch_start < 0 or self._keeps_offsets:
            return index
        delta = <int64_t>(<uint64_t>timestamp - <uint64_t>self._base_timestamp)
        # Attributes, no key and no headers take one byte each.
        fixed = 3 + varlong_size(delta)
        end = self.data + min(self.capacity, self._batch_start + self._max_batch_bytes)
        while index < count:
            item = PyList_GET_ITEM(items, index)
            if not is_bytes(item):
                break
            size = bytes_size(item)
            body = fixed + varlong_size(place) + varlong_size(size) + size
            # As in `try_add`: five bytes are the longest length field.
            if body + 5 > end - p:
                break
            p = put_varlong(p, body)
            p[0] = 0
            p = put_varlong(p + 1, delta)
            p = put_varlong(p, place)
            p[0] = 1
            p = put_varlong(p + 1, size)
            memcpy(p, bytes_data(item), <size_t>size)
            p += size
            p[0] = 0
            p += 1
            place += 1
            index += 1
        if place > begun:
            self.size = p - self.data
            self._batch_records = place
            self.null_keys += place - begun
            self._batch_max_timestamp = max(self._batch_max_timestamp, timestamp)
            self.min_timestamp_ms = min(self.min_timestamp_ms, timestamp)
        return index

    # -- finishing -------------------------------------------------------------------------------

    def finish(self) -> Self:
        """Close the open batch; the buffer now holds `batch_count` whole batches with base offset 0.

        Raises:
            RecordTooLargeError: a compressed batch passes the limit.
        """
        if self._batch_start >= 0:
            self._close_batch()
        return self

    cdef int _close_batch(self) except -1:
        cdef uint8_t *p = self.data + self._batch_start
        cdef Py_ssize_t payload = self.size - self._batch_start - HEADER_BYTES
        cdef bytes packed
        cdef Py_ssize_t size
        cdef int16_t attributes = self._attributes
        cdef int64_t last_delta = self._batch_records - 1
        if self._codec:
            records = PyMemoryView_FromMemory(<char *>p + HEADER_BYTES, payload, PyBUF_READ)
            packed = compress(self._codec, records, self._level)
            if HEADER_BYTES + payload <= self._max_batch_bytes < HEADER_BYTES + len(packed):
                # Incompressible records grow a little; uncompressed, the batch is within the limit.
                attributes &= ~CODEC_MASK
            else:
                payload = len(packed)
                self.size = self._batch_start + HEADER_BYTES
                self._reserve(payload)
                p = self.data + self._batch_start
                memcpy(p + HEADER_BYTES, PyBytes_AS_STRING(packed), payload)
                self.size += payload
        size = self.size - self._batch_start
        if size > self._max_batch_bytes:
            raise RecordTooLargeError.over(
                "a batch", size, self._limits or (("max.message.bytes", self._max_batch_bytes),),
                ("split the record",))
        if self._attributes & APPEND_TIME_FLAG:
            # The log's time is every record's; it is stored in the header only.
            self._batch_max_timestamp = self._default_timestamp
        memset(p, 0, AT_MAGIC)
        p[AT_MAGIC] = 2
        store16(p + AT_ATTRIBUTES, attributes)
        if self._keeps_offsets:
            store64(p + AT_BASE_OFFSET, self._base_offset)
            last_delta = self._last_offset - self._base_offset
        store32(p + AT_LAST_OFFSET_DELTA, <int32_t>last_delta)
        store64(p + AT_BASE_TIMESTAMP, self._base_timestamp)
        store64(p + AT_MAX_TIMESTAMP, self._batch_max_timestamp)
        store64(p + AT_PRODUCER_ID, self._producer_id)
        store16(p + AT_PRODUCER_EPOCH, self._producer_epoch)
        store32(p + AT_BASE_SEQUENCE, self._next_sequence)
        store32(p + AT_RECORD_COUNT, self._batch_records)
        if size <= HELD_BYTES:
            # Releasing the GIL takes longer if other threads want it: they are woken, and this one has to wait.
            seal_batch(p, size)
        else:
            with nogil:
                seal_batch(p, size)
        if self._next_sequence >= 0:
            self._next_sequence = sequence_after(self._next_sequence, self._batch_records)
        if self._batch_max_timestamp > self.max_timestamp_ms:
            self.max_timestamp_ms = self._batch_max_timestamp
        self.record_count += self._batch_records
        self.batch_count += 1
        self._batch_start = -1
        return 0

    cdef int _reserve(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t capacity = self.capacity
        cdef uint8_t *data
        if self.size + more <= capacity:
            return 0
        if self._exports:
            raise BufferError("the encoder's bytes are still in use")
        capacity = max(self.size + more, capacity * 2, 16_384)
        data = <uint8_t *>realloc(self.data, <size_t>capacity)
        if data == NULL:
            raise MemoryError
        self.data = data
        self.capacity = capacity
        return 0

    @property
    def pending_bytes(self):
        """Bytes in the buffer, the open batch included."""
        return self.size

    @property
    def pending_records(self):
        """Records in the buffer, the open batch included."""
        return self.record_count + (self._batch_records if self._batch_start >= 0 else 0)

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        if self._batch_start >= 0:
            raise BufferError("a batch is still open; call finish() first")
        PyBuffer_FillInfo(buffer, self, self.data, self.size, 0, flags)
        self._exports += 1

    def __releasebuffer__(self, Py_buffer *buffer):
        self._exports -= 1

    def __repr__(self):
        return f"<Encoder {self.batch_count} batches, {self.size} bytes>"


def encode(
        records: Iterable[RecordLike], *, timestamp_ms: int = 0, codec: int = 0, level: int = 0,
        max_batch_bytes: int = INT32_MAX, append_time: bool = False, producer_id: int = -1,
        producer_epoch: int = -1, base_sequence: int = -1, transactional: bool = False,
        control: bool = False) -> bytes:
    """Encode records as record batches with base offset 0; one batch unless it would be too large.

    >>> len(encode([b"a", (b"key", b"b")], timestamp_ms=1))
    80
    """
    encoder = Encoder().begin(
        timestamp_ms=timestamp_ms, codec=codec, level=level, max_batch_bytes=max_batch_bytes,
        append_time=append_time, producer_id=producer_id, producer_epoch=producer_epoch,
        base_sequence=base_sequence, transactional=transactional, control=control)
    encoder.add_all(records)
    return bytes(encoder.finish())


def encode_marker(
        int marker: int, int32_t coordinator_epoch: int, int64_t producer_id: int, int16_t producer_epoch: int,
        int64_t timestamp_ms: int) -> bytes:
    """Encode a control batch that ends a transaction (0 abort, 1 commit).

    Key: version i16 = 0, type i16; value: version i16 = 0, coordinator epoch i32.
    """
    key = (0).to_bytes(2, "big") + marker.to_bytes(2, "big")
    value = (0).to_bytes(2, "big") + coordinator_epoch.to_bytes(4, "big", signed=True)
    return encode([(key, value, timestamp_ms)], timestamp_ms=timestamp_ms, producer_id=producer_id,
                  producer_epoch=producer_epoch, transactional=True, control=True)
