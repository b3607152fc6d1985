# cython: language_level=3
"""Decoders of values to Arrow columns: JSON objects by the names of their fields, and structs of fixed size.

A decoder gets its fields once. It then makes their columns for each table of `_builder`, without an object for any
record. Type words of a field, and their Arrow types::

    bool b    int8 c   int16 s  int32 i  int64 l   uint8 C  uint16 S  uint32 I  uint64 L
    float16 e  float32 f  float64 g    string u   binary z   json u    bytes of a fixed size w:N
    date tdD   timestamp_ms tsm:UTC   timestamp tsu:UTC   datetime64 of a struct ts?:UTC

A null value (a tombstone), and a field that is missing or null, give null. A value that is no JSON object or
not of the struct's size is malformed, and so is a field of another type. It raises, with topic,
partition and offset; with ``null_bad`` it becomes null, the field only if the rest can be read.

Both may be used from several threads at once.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from logstore.columns._arrow cimport ARROW_FLAG_NULLABLE, ArrowSchema
from logstore.batch._batch cimport Batches
from logstore.columns._export cimport set_schema
from logstore.columns._json cimport (
    JSON_BEHIND,
    JSON_DEEP,
    JSON_NO_OBJECT,
    JSON_NO_TEXT,
    JSON_OK,
    JSON_RANGE,
    JSON_SHORT,
    JSON_SURROGATE,
    JSON_TIME,
    JSON_UNEXPECTED,
    JSON_WRONG_TYPE,
    MOST_DEPTH,
    T_ESCAPED,
    T_FALSE,
    T_INTEGER,
    T_MISSING,
    T_NULL,
    T_NUMBER,
    T_STRING,
    T_TRUE,
    Node,
    Token,
    scan_json,
)
from logstore.columns._json_values cimport (
    copy_text,
    to_days,
    to_double,
    to_int64,
    to_microseconds,
    undo_base64,
)
from logstore.columns._builder cimport (
    OFFSET,
    VALUE,
    Decoder,
    Field,
    Slices,
    Table,
    is_null,
    put_null,
    reserve,
    reserve_bits,
    reserve_slices,
    slice_at,
)

from logstore.errors import PayloadError

cdef extern from "Python.h":
    double PyOS_string_to_double(const char *text, char **end, void *overflow) except? -1

# Kinds of columns for a field. Numbers, then bits, then slices.
cdef enum:
    K_INT32
    K_INT64
    K_FLOAT64
    K_TIMESTAMP_MS
    K_TIMESTAMP
    K_DATE
    K_BOOL
    K_STRING
    K_BINARY
    K_JSON
    K_COPIED                      # of a struct: the bytes as they are, or reversed

# A status in addition to those of `_json`.
cdef enum:
    NEEDS_SPACE = -100
    WRONG_SIZE = -101
    NO_MEMORY = -102

#: Type word -> (kind, Arrow format, bytes in a column; 0: of various sizes).
_WORDS = {
    "int32": (K_INT32, b"i", 4),
    "int64": (K_INT64, b"l", 8),
    "float64": (K_FLOAT64, b"g", 8),
    "bool": (K_BOOL, b"b", 0),
    "string": (K_STRING, b"u", 0),
    "binary": (K_BINARY, b"z", 0),
    "json": (K_JSON, b"u", 0),
    "timestamp_ms": (K_TIMESTAMP_MS, b"tsm:UTC", 8),
    "timestamp": (K_TIMESTAMP, b"tsu:UTC", 8),
    "date": (K_DATE, b"tdD", 4),
}

WORDS = tuple(_WORDS)

_EXPECTED = {
    "int32": "a whole number that fits 32 bits",
    "int64": "a whole number that fits 64 bits",
    "float64": "a number",
    "bool": "true or false",
    "string": "a string",
    "binary": "a string in base64",
    "timestamp_ms": "a whole number of milliseconds",
    "timestamp": "a time with its offset from UTC, such as 2013-01-01T05:00:00Z",
    "date": "a date such as 2013-01-01",
}

_WRONG = {
    JSON_SHORT: "it ends early",
    JSON_UNEXPECTED: "an unexpected byte",
    JSON_DEEP: f"nested more than {<int>MOST_DEPTH} deep",
    JSON_NO_TEXT: "it is not UTF-8",
    JSON_BEHIND: "something stands behind it",
    JSON_NO_OBJECT: "it is another kind of JSON",
}


cdef struct Fault:                # where and why a leaf has stopped
    int64_t row
    int field                     # -1: the whole value
    int status
    int64_t position              # in the value
    int64_t need                  # bytes of room


cdef struct Plan:
    int kind
    int32_t token                 # of JSON
    int32_t offset                # of a struct
    int32_t width
    int32_t unit                  # bytes that are reversed; 1: none


# --- shared by both decoders ------------------------------------------------------------------

cdef inline bint needs_slices(int kind) noexcept nogil:
    return kind == K_STRING or kind == K_BINARY or kind == K_JSON


cdef inline void put_nothing(Field *field, int64_t row, int32_t width) noexcept nogil:
    """Put a null, over defined bytes."""
    put_null(&field.slices, row)
    if field.is_slices:
        (<int32_t *>field.slices.starts.data)[row + 1] = <int32_t>field.slices.size
    elif field.kind == K_BOOL:
        put_bit(field, row, False)
    else:
        memset(field.slices.data.data + row * width, 0, <size_t>width)


cdef inline void put_bit(Field *field, int64_t row, bint bit) noexcept nogil:
    cdef uint8_t *byte = field.slices.data.data + (row >> 3)
    if row & 7 == 0:
        byte[0] = 0
    byte[0] |= <uint8_t>(bit << (row & 7))


cdef int long_double(const Token *token, double *out) noexcept with gil:
    """Return the nearest double to a number of many digits; infinite where there is none."""
    try:
        text = PyBytes_FromStringAndSize(<const char *>token.start, token.end - token.start)
        out[0] = PyOS_string_to_double(PyBytes_AS_STRING(text), NULL, NULL)
    except BaseException:             # the grammar was checked: only memory can be missing
        return NO_MEMORY
    return JSON_OK


cdef class _FieldDecoder(Decoder):
    """The fields of a decoder as its leaves need them.

    Owns: the plans. Threads: immutable after construction.
    """

    cdef Plan *_plans
    cdef int _count
    cdef list _types              # in the words of messages
    cdef bint _null_bad

    def __dealloc__(self):
        free(self._plans)

    cdef int _take(self, names, bint null_bad) except -1:
        self.names = tuple(names)
        self._count = <int>len(self.names)
        self._null_bad = null_bad
        self.formats = []
        self._types = []
        self._plans = <Plan *>calloc(<size_t>self._count + 1, sizeof(Plan))
        if self._plans == NULL:
            raise MemoryError
        return 0

    cdef int set_up(self, Field *fields) except -1:
        cdef int i
        for i in range(self._count):
            fields[i].kind = self._plans[i].kind
            fields[i].is_slices = needs_slices(self._plans[i].kind)
        return 0

    cdef int set_field_schema(self, ArrowSchema *out, int field) except -1:
        name = self.names[field].encode()
        return set_schema(out, PyBytes_AS_STRING(name), PyBytes_AS_STRING(self.formats[field]),
                          ARROW_FLAG_NULLABLE, 0)

    cdef int _reserve(self, Table *table) except -1:
        """Reserve a field of every row; texts of various sizes take more as they come."""
        cdef int64_t rows = table.rows
        cdef int i
        cdef Slices *slices
        for i in range(self._count):
            slices = &table.fields[i].slices
            if table.fields[i].is_slices:
                reserve_slices(slices, False, 0, rows, min(table.payload_bytes, rows * 8))
            else:
                reserve(&slices.data, 0, (rows + 8) * max(self._plans[i].width, 1))
                reserve_bits(&slices.valid, rows)
        return 0

    cdef int _raise(self, Table *table, Batches run, const Fault *fault, str what) except -1:
        cdef int64_t offset = (<int64_t *>table.numbers[OFFSET].data)[fault.row]
        raise PayloadError(f"{run.topic}-{run.partition}: {what}; on_error='null' gives null instead",
                           offset=offset)


# --- JSON -------------------------------------------------------------------------------------

cdef inline int convert(const Token *token, Field *field, int64_t row) noexcept nogil:
    """Put the value of a token, which is neither missing nor null, into a row for which there is room."""
    cdef Slices *slices = &field.slices
    cdef int64_t whole = 0, size = 0
    cdef int32_t days
    cdef double real = 0
    cdef int status
    if field.kind == K_JSON:
        # The raw text: the quotes of a string belong to it.
        size = token.end - token.start
        if token.kind == T_STRING or token.kind == T_ESCAPED:
            size += 2
        memcpy(slices.data.data + slices.size, token.start - (size > token.end - token.start), <size_t>size)
        slices.size += size
        (<int32_t *>slices.starts.data)[row + 1] = <int32_t>slices.size
        return JSON_OK
    if field.kind == K_BOOL:
        if token.kind != T_TRUE and token.kind != T_FALSE:
            return JSON_WRONG_TYPE
        put_bit(field, row, token.kind == T_TRUE)
        return JSON_OK
    if field.kind == K_FLOAT64:
        if token.kind != T_INTEGER and token.kind != T_NUMBER:
            return JSON_WRONG_TYPE
        if not to_double(token, &real) and long_double(token, &real) != JSON_OK:
            return NO_MEMORY
        (<double *>slices.data.data)[row] = real
        return JSON_OK
    if field.kind == K_INT64 or field.kind == K_INT32 or field.kind == K_TIMESTAMP_MS:
        if token.kind == T_NUMBER:
            # 2.0 is a whole number too, and many writers emit it.
            if not to_double(token, &real) and long_double(token, &real) != JSON_OK:
                return NO_MEMORY
            if not -9007199254740992.0 <= real <= 9007199254740992.0:
                return JSON_RANGE
            whole = <int64_t>real
            if <double>whole != real:
                return JSON_WRONG_TYPE
        elif token.kind == T_INTEGER:
            status = to_int64(token, &whole)
            if status != JSON_OK:
                return status
        else:
            return JSON_WRONG_TYPE
        if field.kind == K_INT32:
            if not INT32_MIN <= whole <= INT32_MAX:
                return JSON_RANGE
            (<int32_t *>slices.data.data)[row] = <int32_t>whole
        else:
            (<int64_t *>slices.data.data)[row] = whole
        return JSON_OK
    if token.kind != T_STRING and token.kind != T_ESCAPED:
        return JSON_WRONG_TYPE
    if field.kind == K_DATE:
        if token.end - token.start != 10 or to_days(token.start, token.end, &days) != JSON_OK:
            return JSON_TIME
        (<int32_t *>slices.data.data)[row] = days
        return JSON_OK
    if field.kind == K_TIMESTAMP:
        status = to_microseconds(token.start, token.end, &whole)
        if status == JSON_OK:
            (<int64_t *>slices.data.data)[row] = whole
        return status
    status = copy_text(token, slices.data.data + slices.size, &size)
    if status == JSON_OK and field.kind == K_BINARY:
        status = undo_base64(slices.data.data + slices.size, &size)
    if status == JSON_OK:
        slices.size += size
        (<int32_t *>slices.starts.data)[row + 1] = <int32_t>slices.size
    return status


cdef inline int decode_json(const Plan *plans, const Node *nodes, Token *tokens, int32_t token_count,
                            Table *table, bint null_bad, Fault *fault) noexcept nogil:
    """Decode the values from row ``fault.row`` on; stop at one for which there is no room, or that is bad.

    At the top of the loop every field has ``row`` rows.
    """
    cdef int64_t row = fault.row
    cdef int i, status, count = table.field_count
    cdef int32_t size
    cdef const uint8_t *value
    cdef const uint8_t *at = NULL
    cdef Token *token
    cdef Field *field
    while row < table.rows:
        fault.row = row
        status = JSON_OK
        if is_null(&table.slices[VALUE], row):
            for i in range(token_count):
                tokens[i].kind = T_MISSING
        else:
            value = slice_at(table, &table.slices[VALUE], row, &size)
            status = scan_json(nodes, tokens, token_count, value, value + size, &at)
            if status != JSON_OK:
                fault.field = -1
                fault.position = at - value
                if not null_bad:
                    return status
                for i in range(token_count):
                    tokens[i].kind = T_MISSING
        # Checked before anything of the row is put: it will be decoded again when there is room.
        for i in range(count):
            field = &table.fields[i]
            token = &tokens[plans[i].token]
            if (field.is_slices and token.kind >= T_FALSE
                    and field.slices.data.capacity - field.slices.size < token.end - token.start + 2):
                fault.field = i
                fault.need = token.end - token.start + 2
                return NEEDS_SPACE
        for i in range(count):
            field = &table.fields[i]
            token = &tokens[plans[i].token]
            if token.kind <= T_NULL:
                put_nothing(field, row, plans[i].width)
                continue
            status = convert(token, field, row)
            if status != JSON_OK:
                if not null_bad or status == NO_MEMORY:
                    fault.field = i
                    return status
                put_nothing(field, row, plans[i].width)
        row += 1
    fault.row = row
    return JSON_OK


@cython.final
cdef class JsonDecoder(_FieldDecoder):
    """A decoder of JSON objects: their fields as columns.

    ``fields`` are (name, type word, path): the keys that lead to the value through objects. The words are
    `WORDS`. With ``null_bad`` a value that cannot be decoded is null, else it raises.

    Owns: the tree of keys. Threads: immutable after construction.
    """

    cdef Node *_nodes
    cdef list _keys               # the bytes that nodes point at
    cdef int32_t _token_count

    def __cinit__(self, fields, *, bint null_bad=False):
        cdef int i = 0
        fields = list(fields)
        self._take([name for name, _, _ in fields], null_bad)
        self._keys = []
        places = self._grow([tuple(path) for _, _, path in fields])
        for _, word, path in fields:
            kind, format, width = _WORDS[word]
            self._plans[i].kind = kind
            self._plans[i].width = width
            self._plans[i].token = places[tuple(path)]
            self.formats.append(format)
            self._types.append(word)
            i += 1

    def __dealloc__(self):
        free(self._nodes)

    cdef dict _grow(self, list paths):
        """Build the tree, children side by side; return the number of each path's token."""
        cdef int32_t number, child
        tree = {}
        for path in paths:
            branch = tree
            for key in path:
                branch = branch.setdefault(key, {})
        wanted = set(paths)
        # Tokens are numbered by depth, so that those below a node follow each other.
        places = {}
        ranges = {}

        def number_below(branch, above):
            begin = len(places)
            for key, below in branch.items():
                path = (*above, key)
                if path in wanted:
                    places[path] = len(places)
                number_below(below, path)
            ranges[above] = (begin, len(places))

        number_below(tree, ())
        order = [((), tree)]
        for path, branch in order:
            order.extend([((*path, key), below) for key, below in branch.items()])
        self._token_count = <int32_t>len(places)
        self._nodes = <Node *>calloc(len(order), sizeof(Node))
        if self._nodes == NULL:
            raise MemoryError
        child = 1
        for number, (path, branch) in enumerate(order):
            key = path[len(path) - 1].encode() if path else b""
            self._keys.append(key)
            self._nodes[number].key = <const uint8_t *>PyBytes_AS_STRING(key)
            self._nodes[number].key_size = <int32_t>PyBytes_GET_SIZE(key)
            self._nodes[number].token = places.get(path, -1)
            self._nodes[number].first_child = child
            self._nodes[number].child_count = <int32_t>len(branch)
            self._nodes[number].below, self._nodes[number].below_end = ranges[path]
            child += <int32_t>len(branch)
        return places

    cdef int decode(self, Table *table, Batches run) except -1:
        cdef Fault fault
        cdef int status
        cdef Slices *slices
        cdef Token *tokens = <Token *>calloc(<size_t>self._token_count + 1, sizeof(Token))
        if tokens == NULL:
            raise MemoryError
        memset(&fault, 0, sizeof(fault))
        try:
            self._reserve(table)
            while fault.row < table.rows:
                with nogil:
                    status = decode_json(self._plans, self._nodes, tokens, self._token_count, table,
                                         self._null_bad, &fault)
                if status == NEEDS_SPACE:
                    slices = &table.fields[fault.field].slices
                    reserve(&slices.data, slices.size, slices.size + fault.need)
                elif status == NO_MEMORY:
                    raise MemoryError
                elif status != JSON_OK:
                    self._raise_json(table, run, &fault, status, tokens)
        finally:
            free(tokens)
        return 0

    cdef int _raise_json(self, Table *table, Batches run, const Fault *fault, int status, Token *tokens) except -1:
        cdef int32_t size
        cdef const uint8_t *value = slice_at(table, &table.slices[VALUE], fault.row, &size)
        cdef Token *token
        if fault.field < 0:
            found = PyBytes_FromStringAndSize(<const char *>value, min(size, 40))
            return self._raise(
                table, run, fault,
                f"the value is no JSON object, {_WRONG[status]} at byte {fault.position}: {found!r}"
                f"{'...' if size > 40 else ''}")
        token = &tokens[self._plans[fault.field].token]
        found = PyBytes_FromStringAndSize(<const char *>token.start, min(token.end - token.start, 40))
        if token.kind == T_STRING or token.kind == T_ESCAPED:
            found = b'"' + found + b'"'
        detail = ", half a surrogate pair" if status == JSON_SURROGATE else ""
        return self._raise(
            table, run, fault,
            f"field {self.names[fault.field]!r}: expected {_EXPECTED[self._types[fault.field]]}, "
            f"found {found.decode('utf-8', 'replace')}{detail}")

    def __repr__(self):
        return f"<JsonDecoder {', '.join(self.names)}>"


# --- structs ----------------------------------------------------------------------------------

cdef inline void copy_turned(uint8_t *out, const uint8_t *data, int32_t width, int32_t unit) noexcept nogil:
    cdef int32_t i
    if unit == 1:
        memcpy(out, data, <size_t>width)
        return
    for i in range(unit):
        out[i] = data[unit - 1 - i]


cdef inline int decode_struct(const Plan *plans, int64_t size_wanted, Table *table, bint null_bad,
                              Fault *fault) noexcept nogil:
    """Decode all values, each of one size. At the top of the loop every field has ``row`` rows."""
    cdef int64_t row
    cdef int i, count = table.field_count
    cdef int32_t size
    cdef const uint8_t *value
    cdef Field *field
    for row in range(table.rows):
        value = NULL
        if not is_null(&table.slices[VALUE], row):
            value = slice_at(table, &table.slices[VALUE], row, &size)
            if size != size_wanted:
                if not null_bad:
                    fault.row = row
                    fault.field = -1
                    fault.position = size
                    return WRONG_SIZE
                value = NULL
        for i in range(count):
            field = &table.fields[i]
            if value == NULL:
                put_nothing(field, row, plans[i].width)
            elif field.kind == K_BOOL:
                put_bit(field, row, value[plans[i].offset] != 0)
            else:
                copy_turned(field.slices.data.data + row * plans[i].width, value + plans[i].offset,
                            plans[i].width, plans[i].unit)
    return JSON_OK


@cython.final
cdef class StructDecoder(_FieldDecoder):
    """A decoder of structs of ``size`` bytes: their fields as columns.

    ``fields`` are (name, Arrow format, offset, width, reverse): with ``reverse`` the bytes of the number
    are in the other order than this machine's. The format b"b" takes a byte and is true unless it is 0.

    Owns: its plans. Threads: immutable after construction.
    """

    cdef int64_t _size

    def __cinit__(self, fields, int64_t size, *, bint null_bad=False):
        cdef int i = 0
        fields = list(fields)
        self._take([name for name, *_ in fields], null_bad)
        self._size = size
        for _, format, offset, width, reverse in fields:
            if not 0 <= offset <= size - width or not 0 < width:
                raise ValueError(f"bytes {offset} to {offset + width - 1} are not in a struct of {size} bytes")
            self._plans[i].kind = K_BOOL if format == b"b" else K_COPIED
            self._plans[i].offset = offset
            self._plans[i].width = width
            self._plans[i].unit = width if reverse else 1
            self.formats.append(format)
            i += 1

    cdef int decode(self, Table *table, Batches run) except -1:
        cdef Fault fault
        cdef int status
        memset(&fault, 0, sizeof(fault))
        self._reserve(table)
        with nogil:
            status = decode_struct(self._plans, self._size, table, self._null_bad, &fault)
        if status != JSON_OK:
            self._raise(table, run, &fault,
                        f"the value has {fault.position} bytes, the struct of value_schema {self._size}")
        return 0

    def __repr__(self):
        return f"<StructDecoder of {self._size} bytes: {', '.join(self.names)}>"
