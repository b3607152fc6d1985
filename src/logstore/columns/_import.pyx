# cython: language_level=3
"""Records from Arrow arrays and fixed-width numpy arrays, passed to an `Encoder` without the GIL.

Every object with the Arrow PyCapsule interface is accepted: arrays and streams, of values only or
of structs with the columns of records. Neither an Arrow library nor numpy is imported, and no
value becomes a Python object.

The C data interface gives the rows of an array, not the size of its buffers. These can be
checked: types, counts of buffers and children, lengths of children, offsets that never fall,
views inside the sizes announced for them. That the last offset is inside the data buffer
cannot be checked: the exporter is trusted. One thread uses an encoder at a time.
"""

cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_STRIDES, PyBuffer_Release, PyObject_GetBuffer
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport INT32_MAX, INT64_MAX, int64_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from logstore.columns._arrow cimport drop_array, drop_schema, drop_stream
from logstore.batch._bytes cimport LOGSTORE_LIKELY, varlong_size, write_varlong, zigzag
from logstore.batch._encode cimport FULL, Encoder, put_varlong, record_body_size

import os
import re

from logstore.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    RecordError,
    RecordTooLargeError,
    RecordTypeError,
    UnexpectedOffsetError,
)

cdef extern from *:
    """
    #define logstore_prefetch(p) __builtin_prefetch((const void *)(p), 0, 0)
    """
    void logstore_prefetch(const uint8_t *p) noexcept nogil

cdef enum:
    PREFETCH_BYTES = 2048             # ahead in a column: 16.0 to 11.5 ns a record where it comes from outside L2

# Arrow's format strings, for the types that a caller may pass by mistake.
_TYPES = {
    "n": "null", "b": "bool", "c": "int8", "C": "uint8", "s": "int16", "S": "uint16", "i": "int32",
    "I": "uint32", "l": "int64", "L": "uint64", "e": "float16", "f": "float32", "g": "float64",
    "z": "binary", "Z": "large_binary", "vz": "binary_view", "u": "utf8", "U": "large_utf8",
    "vu": "utf8_view", "tdD": "date32", "tdm": "date64",
    "+l": "list", "+L": "large_list", "+s": "struct", "+m": "map", "+r": "run_end_encoded",
}
_BYTES = "binary, large_binary, binary_view, fixed_size_binary, utf8, large_utf8 or utf8_view"
_ACCEPTED = (
    f"accepted are {_BYTES} (values alone), or a struct, record batch or table with the column value and, "
    "as you like, key, timestamp and headers")
# The other columns of a read: the log assigns them again, so that rows that were read can be added as they are.
_GIVEN_ANEW = frozenset(("topic", "partition", "offset", "timestampType"))


# --- reading rows -----------------------------------------------------------------------------

cdef inline int time_of(const Rows *rows, int64_t row, int64_t *out) noexcept nogil:
    """Return a row's timestamp in ms; -1, Kafka's "none", stays."""
    cdef int64_t i = rows.times.first + row
    cdef int64_t time
    if rows.times.data == NULL or not is_set(rows.times.valid, i):
        out[0] = rows.default_time
        return OK
    time = load_start64(rows.times.data, i)
    if rows.unit == MILLISECONDS:
        if time < -1:
            return BEFORE_1970
    elif rows.unit == SECONDS:
        if time < 0 or time > INT64_MAX // 1000:
            return BEFORE_1970
        time *= 1000
    elif time < 0:
        if time != (-1000 if rows.unit == MICROSECONDS else -1_000_000):
            return BEFORE_1970
        time = -1
    else:
        time //= 1000 if rows.unit == MICROSECONDS else 1_000_000
    out[0] = time
    return OK


cdef int encode_headers(const Rows *rows, int64_t row, uint8_t *scratch, int64_t capacity,
                        int64_t *size) noexcept nogil:
    """Write the header part of a record: count, then key and value of each; size 0 means none.

    On SCRATCH_FULL size is the required capacity.
    """
    cdef int64_t i = rows.lists_first + row
    cdef int64_t start, end, at, key_size, value_size, needed
    cdef const uint8_t *key = NULL
    cdef const uint8_t *value = NULL
    cdef uint8_t *p = scratch
    cdef int status
    size[0] = 0
    if not is_set(rows.lists_valid, i):
        return OK
    load_range(rows.lists, rows.list_starts, i, &start, &end)
    if start < 0 or end < start or end > rows.header_count:
        return FALLING
    if start == end:
        return OK
    needed = varlong_size(end - start)
    for at in range(start, end):
        if not is_set(rows.headers_valid, rows.headers_first + at):
            return NULL_HEADER
        status = cell(&rows.header_key, at, &key, &key_size)
        if status == OK:
            status = cell(&rows.header_value, at, &value, &value_size)
        if status != OK:
            return status
        if key_size < 0:
            return NULL_HEADER
        needed += varlong_size(key_size) + key_size + varlong_size(value_size) + max(value_size, 0)
    size[0] = needed
    if needed > capacity:
        return SCRATCH_FULL
    p = write_varlong(p, end - start)
    for at in range(start, end):
        cell(&rows.header_key, at, &key, &key_size)
        cell(&rows.header_value, at, &value, &value_size)
        p = write_varlong(p, key_size)
        if key_size > 0:
            memcpy(p, key, <size_t>key_size)
            p += key_size
        p = write_varlong(p, value_size)
        if value_size > 0:
            memcpy(p, value, <size_t>value_size)
            p += value_size
    return OK


cdef int add_rows(Encoder encoder, const Rows *rows, int64_t *row, uint8_t *scratch, int64_t capacity,
                  Fields *fields) noexcept nogil:
    """Add records from row *row on; where a status other than OK stops it, that row is the next.

    At the top of the loop the records of the rows before ``at`` are in the open batch, which ends
    at p and holds ``count``. On FULL fields and scratch hold the record that found no room.

    This is `Encoder.try_add` for many records. The state of the open batch stays in registers, and nearly no size
    is computed before it is written (15.3 to 11.0 ns for each of 1,000 x 100 B).
    """
    cdef int64_t at = row[0], delta, body, content
    cdef int status = OK
    cdef int64_t timestamp = rows.default_time, key_size = -1, value_size = -1, headers_size = 0
    cdef int64_t needed = 0
    cdef const uint8_t *key = NULL
    cdef const uint8_t *value = NULL
    cdef bint keyed = rows.key.kind != ABSENT, headed = rows.lists != ABSENT, timed = rows.times.data != NULL
    cdef bint placed = encoder._keeps_offsets
    cdef int64_t offset = -1, base_offset = encoder._base_offset, last_offset = encoder._last_offset, place
    cdef Cells keys = rows.key, values = rows.value
    cdef int64_t total = rows.count, first = rows.first, of
    cdef const int32_t *picks = rows.picks
    cdef const uint8_t *valid = rows.valid
    cdef uint8_t *p = encoder.data + encoder.size
    cdef uint8_t *end = encoder.data + encoder.capacity
    cdef int32_t count = encoder._batch_records
    cdef int64_t base_timestamp = encoder._base_timestamp
    cdef int64_t greatest = encoder._batch_max_timestamp, least = encoder.min_timestamp_ms
    cdef int64_t null_keys = encoder.null_keys
    cdef uint8_t *batch_start = NULL
    cdef int64_t most = encoder._max_batch_bytes
    cdef bint is_open = encoder._batch_start >= 0
    cdef uint8_t *limit = p
    cdef uint8_t *record
    cdef int length_bytes
    if is_open:                       # 32: a length of five bytes, and the fields around the content
        batch_start = encoder.data + encoder._batch_start
        limit = min(end, batch_start + most) - 32
    while at < total:
        of = at if picks == NULL else picks[at]
        if not is_set(valid, first + of):
            status = NULL_ROW
            break
        status = cell(&values, of, &value, &value_size)
        if status != OK:
            break
        if keyed:
            status = cell(&keys, of, &key, &key_size)
            if status != OK:
                break
        if timed:
            status = time_of(rows, of, &timestamp)
            if status != OK:
                break
        if headed:
            status = encode_headers(rows, of, scratch, capacity, &needed)
            headers_size = needed
            if status != OK:
                break
        place = count
        if placed:
            if not is_set(rows.offsets.valid, rows.offsets.first + of):
                status = NO_OFFSET
                break
            offset = load_start64(rows.offsets.data, rows.offsets.first + of)
            if offset < 0 or offset > INT64_MAX - 1 - INT32_MAX:     # no batch may begin there
                status = NO_OFFSET
                break
            place = offset - base_offset
            if offset <= last_offset or not is_open or place > INT32_MAX:
                status = FULL             # the encoder starts a batch for it, or refuses it
                break
        delta = <int64_t>(<uint64_t>timestamp - <uint64_t>base_timestamp)
        content = max(key_size, 0) + max(value_size, 0) + headers_size
        # Attributes, deltas, two sizes and a header count take 5 to 27 bytes. If there is room in any case and the
        # length field's size is certain, the length is set when the record is written.
        if LOGSTORE_LIKELY(content < limit - p and 59 <= content <= 8164):
            length_bytes = 2
        elif LOGSTORE_LIKELY(content < limit - p and content <= 36):
            length_bytes = 1
        else:
            body = record_body_size(delta, <int32_t>place, key_size, value_size, headers_size)
            if not is_open or body + 5 > end - p or (count and body + 5 > most - (p - batch_start)):
                status = FULL
                break
            length_bytes = varlong_size(body)
        record = p
        p += length_bytes
        p[0] = 0
        p = put_varlong(p + 1, delta)
        p = put_varlong(p, place)
        p = put_varlong(p, key_size)
        if key_size > 0:
            memcpy(p, key, <size_t>key_size)
            p += key_size
        elif key_size < 0:
            null_keys += 1
        p = put_varlong(p, value_size)
        if value_size > 0:
            logstore_prefetch(value + PREFETCH_BYTES)
            memcpy(p, value, <size_t>value_size)
            p += value_size
        if headers_size:
            memcpy(p, scratch, <size_t>headers_size)
            p += headers_size
        else:
            p[0] = 0
            p += 1
        body = zigzag(p - record - length_bytes)
        if length_bytes == 1:
            record[0] = <uint8_t>body
        elif length_bytes == 2:
            record[0] = <uint8_t>(body | 0x80)
            record[1] = <uint8_t>(body >> 7)
        else:
            write_varlong(record, p - record - length_bytes)
        count += 1
        greatest = max(greatest, timestamp)
        least = min(least, timestamp)
        last_offset = offset
        at += 1
    encoder.size = p - encoder.data
    encoder._batch_records = count
    encoder._batch_max_timestamp = greatest
    encoder.min_timestamp_ms = least
    encoder.null_keys = null_keys
    encoder._last_offset = last_offset
    row[0] = at
    fields[0] = Fields(timestamp, key, key_size, value, value_size, headers_size, offset)
    return status


# --- from C structs to rows -------------------------------------------------------------------

cdef str type_name(const ArrowSchema *schema):
    format = schema.format.decode("utf-8", "replace")
    if schema.dictionary != NULL:
        return f"dictionary<{type_name(schema.dictionary)}>"
    if format.startswith("ts"):
        return "timestamp"
    if format.startswith("w:"):
        return f"fixed_size_binary[{format[2:]}]"
    return _TYPES.get(format, f"Arrow format {format!r}")


cdef str column_name(const ArrowSchema *schema):
    return "" if schema.name == NULL else schema.name.decode("utf-8", "replace")


cdef object malformed(str what, str why):
    return RecordTypeError(f"{what}: {why}; this is no Arrow array")


cdef int check(str what, const ArrowArray *array, int64_t rows, int64_t buffers, int64_t children) except -1:
    if array.length < max(rows, 0) or array.offset < 0 or array.length > INT64_MAX - 1 - array.offset:
        raise malformed(what, f"{array.length} rows from slot {array.offset} on, where {rows} are needed")
    if array.n_buffers < buffers or array.n_children != children:
        raise malformed(
            what, f"{array.n_buffers} buffers and {array.n_children} children, where {buffers} and "
            f"{children} are needed")
    return 0


cdef const uint8_t *validity(const ArrowArray *array) noexcept:
    if array.null_count == 0 or array.n_buffers < 1:
        return NULL
    return <const uint8_t *>array.buffers[0]


cdef Kind kind_of(const ArrowSchema *schema) except *:
    """Return how a type stores byte strings; ABSENT if it holds none."""
    cdef bytes format = schema.format
    if schema.dictionary != NULL:
        return ABSENT
    if format in (b"z", b"u"):
        return STARTS32
    if format in (b"Z", b"U"):
        return STARTS64
    if format in (b"vz", b"vu"):
        return VIEW
    return FIXED if format.startswith(b"w:") else ABSENT


cdef int bind_cells(Cells *cells, str what, const ArrowSchema *schema, const ArrowArray *array, int64_t first,
                    int64_t count, bint text_only) except -1:
    """Bind rows [first, first + count) of a column of byte strings."""
    cdef bytes format = schema.format
    cells.kind = kind_of(schema)
    if (cells.kind == ABSENT and format != b"n") or (text_only and format not in (b"u", b"U", b"vu")):
        accepted = "utf8, large_utf8 or utf8_view" if text_only else _BYTES
        raise RecordTypeError(f"{what} has the type {type_name(schema)}; accepted are {accepted}")
    if cells.kind == FIXED:
        # A width is an int32; eleven digits are too many, and very long ones make `int` fail.
        if not format[2:].isdigit() or len(format) > 12 or int(format[2:]) > INT32_MAX:
            raise malformed(what, f"the format {format[:40]!r}")
        cells.width = cells.stride = int(format[2:])
    if cells.kind == ABSENT:
        check(what, array, first + count, 0, 0)
        return 0
    check(what, array, first + count, 2 if cells.kind == FIXED else 3, 0)
    cells.first = array.offset + first
    cells.valid = validity(array)
    if not count:
        return 0
    if array.buffers[1] == NULL and not (cells.kind == FIXED and cells.width == 0):
        raise malformed(what, "buffer 1 is missing")
    if cells.kind == FIXED:
        cells.data = <const uint8_t *>array.buffers[1]
    elif cells.kind == VIEW:
        cells.data = <const uint8_t *>array.buffers[1]
        cells.buffers = array.buffers + 2
        cells.buffer_count = array.n_buffers - 3
        cells.sizes = array.buffers[array.n_buffers - 1]
        if cells.buffer_count and cells.sizes == NULL:
            raise malformed(what, "the sizes of its buffers are missing")
    else:
        cells.starts = array.buffers[1]
        cells.data = <const uint8_t *>array.buffers[2]
    return 0


cdef int bind_numbers(Numbers *numbers, str what, const ArrowArray *array, int64_t first, int64_t count) except -1:
    check(what, array, first + count, 2, 0)
    numbers.first = array.offset + first
    numbers.valid = validity(array)
    numbers.data = array.buffers[1]
    if numbers.data == NULL and count:
        raise malformed(what, "buffer 1 is missing")
    return 0


cdef int bind_times(Rows *rows, const ArrowSchema *schema, const ArrowArray *array, int64_t first) except -1:
    cdef bytes format = schema.format
    if schema.dictionary == NULL and format == b"l":
        rows.unit = MILLISECONDS
    elif schema.dictionary == NULL and format[:2] == b"ts" and format[2:3] in (b"s", b"m", b"u", b"n"):
        rows.unit = <Unit>b"smun".index(format[2:3])
    else:
        raise RecordTypeError(
            f"the column timestamp has the type {type_name(schema)}; accepted are timestamp of any unit, "
            "and int64 milliseconds")
    return bind_numbers(&rows.times, "the column timestamp", array, first, rows.count)


cdef int bind_offsets(Rows *rows, const ArrowSchema *schema, const ArrowArray *array, int64_t first) except -1:
    """Bind the offsets; another type is ignored, since only an encoder that keeps offsets needs them."""
    if schema.dictionary != NULL or schema.format != b"l":
        return 0
    return bind_numbers(&rows.offsets, "the column offset", array, first, rows.count)


cdef int bind_headers(Rows *rows, const ArrowSchema *schema, const ArrowArray *array,
                      int64_t first) except -1:
    cdef bytes format = schema.format
    cdef const ArrowSchema *items
    cdef const ArrowArray *item_array
    cdef int64_t i
    cdef int key = -1, value = -1
    if format == b"n":
        return 0
    if format in (b"+l", b"+m", b"+L") and schema.n_children == 1:
        items = schema.children[0]
        if items.format == b"+s" and items.n_children == 2:
            for i in range(2):
                if column_name(items.children[i]) == "key":
                    key = i
                elif column_name(items.children[i]) == "value":
                    value = i
            if format == b"+m" and (key < 0 or value < 0):
                key, value = 0, 1     # in a map their positions count, not their names
    if key < 0 or value < 0:
        raise RecordTypeError(
            f"the column headers has the type {type_name(schema)}; accepted are a list of "
            "struct<key: utf8, value: binary>, and a map of utf8 to binary")
    check("the column headers", array, first + rows.count, 2, 1)
    item_array = array.children[0]
    check("the column headers", item_array, 0, 0, 2)
    rows.lists_first = array.offset + first
    rows.lists_valid = validity(array)
    rows.list_starts = array.buffers[1]
    if not rows.count:
        return 0
    if rows.list_starts == NULL:
        raise malformed("the column headers", "buffer 1 is missing")
    rows.lists = STARTS64 if format == b"+L" else STARTS32
    rows.header_count = item_array.length
    rows.headers_first = item_array.offset
    rows.headers_valid = validity(item_array)
    bind_cells(&rows.header_key, "the key of headers", items.children[key], item_array.children[key],
               item_array.offset, item_array.length, True)
    return bind_cells(&rows.header_value, "the value of headers", items.children[value],
                      item_array.children[value], item_array.offset, item_array.length, False)


cdef int bind(Rows *rows, const ArrowSchema *schema, const ArrowArray *array) except -1:
    """Bind one array, or all columns of a struct array, as rows."""
    cdef int64_t i
    cdef set names = set()
    if schema.format != b"+s":
        if kind_of(schema) == ABSENT:
            raise RecordTypeError(f"records cannot be made of {type_name(schema)}; {_ACCEPTED}")
        rows.count = array.length
        return bind_cells(&rows.value, "the array", schema, array, 0, array.length, False)
    for i in range(schema.n_children):
        name = column_name(schema.children[i])
        if name in names:
            raise RecordTypeError(f"the column {name} stands there twice")
        names.add(name)
    unknown = names - _GIVEN_ANEW - {"key", "value", "timestamp", "headers"}
    if unknown or "value" not in names:
        found = f"the unknown column(s) {', '.join(sorted(unknown))}" if unknown else "no column value"
        raise RecordTypeError(
            f"the data has {found}; {_ACCEPTED}; {', '.join(sorted(_GIVEN_ANEW))} are passed over")
    check("the struct", array, 0, 0, schema.n_children)
    rows.count = array.length
    rows.valid = validity(array)
    rows.first = array.offset
    for i in range(schema.n_children):
        name = column_name(schema.children[i])
        if name == "key":
            bind_cells(&rows.key, "the column key", schema.children[i], array.children[i], array.offset,
                       array.length, False)
        elif name == "value":
            bind_cells(&rows.value, "the column value", schema.children[i], array.children[i], array.offset,
                       array.length, False)
        elif name == "timestamp":
            bind_times(rows, schema.children[i], array.children[i], array.offset)
        elif name == "offset":
            bind_offsets(rows, schema.children[i], array.children[i], array.offset)
        elif name == "headers":
            bind_headers(rows, schema.children[i], array.children[i], array.offset)
    return 0


# --- edges ------------------------------------------------------------------------------------

cdef object fault(int status):
    """Return the error of a status below OK."""
    if status == FALLING:
        return InvalidRecordError("an Arrow offset is negative or below the one before it")
    if status == OUTSIDE:
        return InvalidRecordError("an Arrow view points outside its buffer")
    if status == NULL_ROW:
        return RecordTypeError("the row itself is null; a record may have a null key and a null value")
    if status == NULL_HEADER:
        return RecordTypeError("a header or its key is null; a header may have a null value")
    if status == NO_OFFSET:
        return RecordTypeError("the offset is null, negative or too large; it was to be kept")
    return InvalidTimestampError("the timestamp is before 1970 or too large")


@cython.final
cdef class _Intake:
    """The source that is being read, and room for the headers of one record.

    Owns: the C structs taken out of their capsules, each released exactly once, and the scratch bytes.
    """

    def __dealloc__(self):
        free(self.scratch)
        with nogil:
            drop_array(&self.array)
            drop_schema(&self.schema)
            drop_stream(&self.stream)

    cdef int take(self, object data) except -1:
        """Take an array, or a stream of them."""
        if hasattr(data, "__arrow_c_array__"):
            return self.take_array(data)
        if not hasattr(data, "__arrow_c_stream__"):
            raise RecordTypeError(
                f"the data is a {type(data).__name__}, which has neither __arrow_c_array__ nor __arrow_c_stream__; "
                + _ACCEPTED)
        self.is_stream = True
        return self.take_stream(data)

    cdef bint next_rows(self, Rows *rows) except -1:
        """Read the rows of the array, or of the next non-empty one of the stream; return False at the end.

        Without rows the columns are not checked: an empty data frame often has none, or none of their types.
        """
        while True:
            if self.is_stream:
                if not self.next_array():
                    return False
            elif self.is_through:
                return False
            self.is_through = True
            if self.array.length != 0:
                break
        memset(rows, 0, sizeof(rows[0]))
        bind(rows, &self.schema, &self.array)
        return True

    cdef int take_array(self, object data) except -1:
        cdef ArrowSchema *schema
        cdef ArrowArray *array
        schema_capsule, array_capsule = data.__arrow_c_array__()
        schema = <ArrowSchema *>PyCapsule_GetPointer(schema_capsule, "arrow_schema")
        array = <ArrowArray *>PyCapsule_GetPointer(array_capsule, "arrow_array")
        if schema.release == NULL or array.release == NULL:
            raise RecordTypeError(f"the Arrow array of {type(data).__name__} was released before")
        self.schema = schema[0]
        schema.release = NULL
        self.array = array[0]
        array.release = NULL
        return 0

    cdef int take_stream(self, object data) except -1:
        cdef ArrowArrayStream *stream
        cdef int number
        capsule = data.__arrow_c_stream__()
        stream = <ArrowArrayStream *>PyCapsule_GetPointer(capsule, "arrow_array_stream")
        if stream.release == NULL:
            raise RecordTypeError(f"the Arrow stream of {type(data).__name__} was released before")
        self.stream = stream[0]
        stream.release = NULL
        with nogil:
            number = self.stream.get_schema(&self.stream, &self.schema)
        if number:
            self.schema.release = NULL
            self.raise_stream(number)
        return 0

    cdef bint next_array(self) except -1:
        """Replace the array by the next one of the stream; return False at the end."""
        cdef int number
        with nogil:
            drop_array(&self.array)
            number = self.stream.get_next(&self.stream, &self.array)
        if number:
            self.array.release = NULL
            self.raise_stream(number)
        return self.array.release != NULL

    cdef int raise_stream(self, int number) except -1:
        cdef const char *text
        with nogil:
            text = self.stream.get_last_error(&self.stream)
        said = os.strerror(number) if text == NULL else text.decode("utf-8", "replace")
        raise RecordError(f"the Arrow stream that is read failed: {said}") from OSError(number, said)

    cdef int grow_scratch(self, int64_t needed) except -1:
        cdef uint8_t *scratch
        if needed > INT32_MAX:
            raise RecordTooLargeError(f"the headers of a record take {needed} bytes, over 2 GiB")
        scratch = <uint8_t *>realloc(self.scratch, <size_t>(2 * needed))
        if scratch == NULL:
            raise MemoryError
        self.scratch = scratch
        self.capacity = 2 * needed
        return 0

    cdef int add(self, Encoder encoder, Rows *rows, int64_t before) except -1:
        """Add all rows; the GIL is taken where the encoder needs room."""
        cdef int64_t row = 0
        cdef int status
        cdef Fields fields
        self.check_offsets(encoder, rows)
        rows.default_time = encoder._default_timestamp
        while True:
            with nogil:
                status = add_rows(encoder, rows, &row, self.scratch, self.capacity, &fields)
            if status == OK:
                return 0
            self.go_on(encoder, rows, &row, status, &fields, before)

    cdef int check_offsets(self, Encoder encoder, const Rows *rows) except -1:
        if encoder._keeps_offsets and rows.offsets.data == NULL and rows.count:
            raise RecordTypeError("the column offset of type int64 is missing, and offsets are to be kept")
        return 0

    cdef int go_on(self, Encoder encoder, const Rows *rows, int64_t *row, int status, const Fields *fields,
                   int64_t before) except -1:
        """Make the room that `add_rows` has stopped for, or raise the error of its row."""
        try:
            if status == SCRATCH_FULL:
                self.grow_scratch(fields.headers_size)
            elif status == FULL:
                encoder._offset = fields.offset
                encoder.add_one(
                    fields.timestamp, fields.key, fields.key_size, fields.value, fields.value_size,
                    self.scratch if fields.headers_size else NULL, fields.headers_size)
                row[0] += 1
            else:
                raise fault(status)
        except (RecordError, UnexpectedOffsetError) as error:
            error.add_note(
                f"in record {before + (row[0] if rows.picks == NULL else rows.picks[row[0]])} of this append")
            raise
        return 0


def add_arrow(Encoder encoder not None, data):
    """Add a record for each row of Arrow data; return how many.

    ``data`` has ``__arrow_c_array__`` or ``__arrow_c_stream__``: an array, a record batch, a table, a series or a
    data frame of any Arrow library. An array of binary, large_binary, binary_view, fixed_size_binary, utf8,
    large_utf8 or utf8_view gives values without keys. A struct gives the columns ``value`` and, if present,
    ``key`` (types as above), ``timestamp`` (of any unit, cut to ms; without a zone it is UTC; or int64 ms; null
    means the encoder's time) and ``headers`` (a list of struct<key, value>, or a map). The other columns of a read
    (topic, partition, offset, timestampType) are ignored. An encoder that keeps offsets takes them from the column
    ``offset`` (int64). Nulls stay null.

    After an error the records before the one at fault are in the encoder: begin it again.

    Raises:
        RecordTypeError: there is no Arrow data, or of a type that cannot be records.
        InvalidRecordError: an offset falls, or a view points outside its buffer.
        InvalidTimestampError: a timestamp is before 1970.
        RecordTooLargeError: one record alone passes the limit of a batch.
        UnexpectedOffsetError: offsets are kept, and one does not rise.
        RecordError: a stream failed; its text is kept.
    """
    cdef _Intake intake = _Intake()
    cdef Rows rows
    cdef int64_t total = 0
    intake.take(data)
    while intake.next_rows(&rows):
        intake.add(encoder, &rows, total)
        total += rows.count
    return total


_FIXED_FORMAT = re.compile(r"\d*[sx]")
_ACCEPTED_ARRAYS = (
    "accepted are a 1-D array of fixed-size bytes (dtype 'S' or 'V') and a 2-D array of uint8, "
    "one record a row")


def add_numpy(Encoder encoder not None, array):
    """Add a value for each item of a fixed-width array; return how many.

    ``array`` is a 1-D numpy array of dtype 'S' or 'V', or a 2-D one of uint8 with one record in each row. Another
    object with the same buffer works too. Every value has the full width. numpy hides the NULs at the end of an
    'S' item and cannot tell them from data, so they are kept.

    Raises:
        RecordTypeError: any other array; an array of objects, for one, holds no bytes itself.
        RecordTooLargeError: one record alone passes the limit of a batch.
    """
    cdef Py_buffer view
    cdef Rows rows
    cdef _Intake intake = _Intake()
    cdef str format
    memset(&rows, 0, sizeof(rows))
    found = f"{type(array).__name__} {getattr(array, 'dtype', '')}".strip()
    if getattr(array, "shape", (1,))[:1] == (0,):
        return 0                      # of any type: there is nothing to convert
    try:
        PyObject_GetBuffer(array, &view, PyBUF_FORMAT | PyBUF_STRIDES)
    except (TypeError, ValueError, BufferError) as error:
        raise RecordTypeError(
            f"the array is a {found}, which offers no such buffer ({error}); {_ACCEPTED_ARRAYS}") from None
    try:
        format = "B" if view.format == NULL else view.format.decode()
        if view.ndim == 1 and _FIXED_FORMAT.fullmatch(format):
            rows.value.width = view.itemsize
        elif view.ndim == 2 and format == "B":
            if view.shape[1] > 1 and view.strides[1] != 1:
                raise RecordTypeError(
                    "the bytes of a row must be side by side; use numpy.ascontiguousarray()")
            rows.value.width = view.shape[1]
        else:
            advice = {"O": "; as a list its items may be bytes: add_all(array.tolist())"}.get(format, "")
            raise RecordTypeError(f"the array is a {found} of {view.ndim} dimension(s){advice}; {_ACCEPTED_ARRAYS}")
        rows.count = view.shape[0]
        rows.value.kind = FIXED
        rows.value.data = <const uint8_t *>view.buf
        rows.value.stride = view.strides[0]
        intake.add(encoder, &rows, 0)
    finally:
        PyBuffer_Release(&view)
    return rows.count
