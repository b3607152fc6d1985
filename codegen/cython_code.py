"""The Cython of the codec: for each struct a function that reads it and one that writes it.

What depends on the version is a branch, what a field needs is one call into `_reading` or `_writing`: so the C
stays small enough to be compiled in seconds (docs/decisions/0009-protocol-table.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from codegen.table import INTEGERS, Field, Message, Struct, Versions, all_structs, default_of

_HEAD = '''\
"""Kafka's messages as bytes and back: one function for each struct that reads it and one that writes it.

Written by codegen/generate.py from codegen/{table}; change those. `message` and `frames` are what
calls this. `bind` must have given it the classes of `{module}` before.

A field is read and set where it lies in the object: `bind` has looked up the places of the slots of each class, and
an object's class is compared before. By way of attributes the same work takes two to three times as long.
"""

from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_TYPE
from libc.stdint cimport int64_t, uint8_t

from logstore.protocol._reading cimport (
    ReadStruct,
    Reader,
    enter_tag,
    integer,
    leave_tag,
    malformed,
    plain_old_string,
    put,
    read_bool,
    read_bytes,
    read_float64,
    read_number,
    read_numbers,
    read_records,
    read_string,
    read_strings,
    read_struct,
    read_structs,
    read_uuid,
    skip_tags,
    tag_count,
    unsigned_varint,
    uuid_of,
)
from logstore.protocol._writing cimport (
    WriteStruct,
    Writer,
    begin_tag,
    differs,
    end_tag,
    got,
    misplaced,
    plain_number,
    plain_old_text,
    refuse,
    uuid_out,
    write_bool,
    write_bytes,
    write_float64,
    write_number,
    write_numbers,
    write_string,
    write_strings,
    write_struct,
    write_structs,
    write_uuid,
)

from logstore.errors import UnsupportedVersionError

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject *type, Py_ssize_t items)
    bint PyType_IsSubtype(PyTypeObject *a, PyTypeObject *b)

cdef struct Known:
    ReadStruct read
    WriteStruct write
    int key
    int first
    int last
    int flexible

cdef enum:
    CLASSES = {classes}
    FIELDS = {fields}
    MESSAGES = {messages}

cdef PyTypeObject *CLASS[CLASSES]
cdef Py_ssize_t OFFSET[FIELDS]
cdef Known KNOWN[MESSAGES]
cdef tuple NAMES = ()


cdef inline PyObject **at(object v, int field) noexcept:
    """Where a field of an object of its class is."""
    return <PyObject **>(<char *>(<PyObject *>v) + OFFSET[field])


cdef inline bint is_a(object v, int number) noexcept:
    return Py_TYPE(v) == CLASS[number] or PyType_IsSubtype(Py_TYPE(v), CLASS[number])


cdef void know(int n, ReadStruct read, WriteStruct write, int key, int first, int last, int flexible) noexcept:
    KNOWN[n].read = read
    KNOWN[n].write = write
    KNOWN[n].key = key
    KNOWN[n].first = first
    KNOWN[n].last = last
    KNOWN[n].flexible = flexible
'''

_TAIL = '''\


def bind(tuple classes, tuple names):
    """Takes the classes, in the order of the functions above, and the names of the messages. Once."""
    global NAMES
    cdef int n = 0, field = 0
    if len(classes) != CLASSES or len(names) != MESSAGES:
        raise ValueError(f"expected {<int>CLASSES} classes of {<int>MESSAGES} messages")
    for one in classes:
        Py_INCREF(one)  # for ever: values are made of it
        CLASS[n] = <PyTypeObject *>one
        n += 1
        for name in one.__slots__:
            if field == FIELDS:
                raise ValueError(f"a message has more than {<int>FIELDS} fields")
            OFFSET[field] = place_of(one, name)
            field += 1
    if field != FIELDS:
        raise ValueError(f"{field} fields, expected {<int>FIELDS}")
    NAMES = names


cdef Py_ssize_t place_of(type one, str name) except -1:
    """How far into an object of the class the slot is: where a value turns up that is put there by its name."""
    cdef object v = PyType_GenericAlloc(<PyTypeObject *>one, 0)
    cdef Py_ssize_t offset
    mark = object()
    setattr(v, name, mark)
    for offset in range(sizeof(PyObject), one.__basicsize__, sizeof(PyObject *)):
        if (<PyObject **>(<char *>(<PyObject *>v) + offset))[0] == <PyObject *>mark:
            return offset
    raise SystemError(f"{one.__qualname__}.{name} is not in the object")


cdef Known *known(int message, int version) except NULL:
    if not 0 <= message < len(NAMES):
        raise ValueError(f"the message {message} is unknown")
    cdef Known *found = &KNOWN[message]
    if not found.first <= version <= found.last:
        raise UnsupportedVersionError(
            f"{NAMES[message]} has versions {found.first} to {found.last}, not {version}")
    return found


def encode(int message, object value, int version):
    cdef Known *one = known(message, version)
    cdef Writer w = Writer(version, version >= one.flexible)
    one.write(w, value)
    return w.taken()
'''

_RECORDS_TAIL = '''\


def decode(int message, object buffer, int version, Py_ssize_t position=0):
    """Bytes behind the fields are skipped: a later version may have more of them."""
    cdef Known *one = known(message, version)
    return one.read(Reader(buffer, position, version, version >= one.flexible))


def frame_of(object buffer):
    """The version of a metadata record's frame, the record's type and version, and where its fields begin."""
    cdef Reader r = Reader(buffer, 0, 0, True)
    cdef int64_t frame = unsigned_varint(r, "frame version")
    cdef int64_t kind = unsigned_varint(r, "record type")
    cdef int64_t version = unsigned_varint(r, "record version")
    return frame, kind, version, r.p - r.start
'''

_FRAMES_TAIL = '''\


cdef object message_of(Known *one, Reader r):
    value = one.read(r)
    if r.p != r.end:
        malformed(r, "message", f"{r.end - r.p} bytes more than it has")
    return value


def decode(int message, object buffer, int version, Py_ssize_t position=0):
    cdef Known *one = known(message, version)
    return message_of(one, Reader(buffer, position, version, version >= one.flexible))


def encode_request(int message, object value, int version, int correlation_id, object client_id):
    """Size, request header (version 1, or 2 with tagged fields) and body."""
    cdef Known *one = known(message, version)
    cdef Writer w = Writer(version, version >= one.flexible)
    plain_number(w, 0, 4)
    plain_number(w, one.key, 2)
    plain_number(w, version, 2)
    plain_number(w, correlation_id, 4)
    plain_old_text(w, client_id, "client_id")
    if w.flexible:
        plain_number(w, 0, 1)
    one.write(w, value)
    return framed(w)


def encode_response(int message, object value, int version, int correlation_id):
    """Size, response header (version 0, or 1 with tagged fields; ApiVersions always 0) and body."""
    cdef Known *one = known(message, version)
    cdef Writer w = Writer(version, version >= one.flexible)
    plain_number(w, 0, 4)
    plain_number(w, correlation_id, 4)
    if w.flexible and one.key != API_VERSIONS:
        plain_number(w, 0, 1)
    one.write(w, value)
    return framed(w)


cdef object framed(Writer w):
    cdef Py_ssize_t size = w.size
    if size - 4 > 0x7FFFFFFF:
        raise ValueError(f"a frame of {size - 4} bytes: 2 GiB is the most")
    w.size = 0
    plain_number(w, size - 4, 4)
    w.size = size
    return w.taken()


def decode_response(int message, object buffer, int version, Py_ssize_t position=0):
    """The correlation id and the message of a frame without its size."""
    cdef Known *one = known(message, version)
    cdef Reader r = Reader(buffer, position, version, version >= one.flexible)
    cdef int correlation_id = <int>integer(r, "correlation_id", 4)
    if r.flexible and one.key != API_VERSIONS:
        skip_tags(r)
    return correlation_id, message_of(one, r)


def request_header(object buffer, Py_ssize_t position=0):
    """API key, version and correlation id: what every request begins with, known or not."""
    cdef Reader r = Reader(buffer, position, 0, False)
    cdef int key = <int>integer(r, "request_api_key", 2)
    cdef int version = <int>integer(r, "request_api_version", 2)
    return key, version, <int>integer(r, "correlation_id", 4)


def decode_request(int message, object buffer, int version, Py_ssize_t position=0):
    """The client id and the message of a frame without its size, whose header `request_header` has read."""
    cdef Known *one = known(message, version)
    cdef Reader r = Reader(buffer, position, version, version >= one.flexible)
    request_header(buffer, position)
    r.p += 8
    client_id = plain_old_string(r, "client_id")
    if r.flexible:
        skip_tags(r)
    return client_id, message_of(one, r)
'''


class _Code:
    """The functions of one message."""

    def __init__(
        self, message: Message, names: dict[tuple[str, str], str], numbers: dict[str, int], places: dict[int, int]
    ) -> None:
        self.message = message
        self._names = names
        self._numbers = numbers
        self._places = places
        fields = [field for struct in [*message.structs, message] for field in struct.fields]
        names_alone = {field.type for field in fields if field.is_alone}
        self._alone = [struct for struct in message.structs if struct.name in names_alone]
        self._differing = {
            field.type for field in fields if field.is_alone and (field.tag is not None or self._may_refuse(field))
        }

    def functions(self) -> Iterator[str]:
        for struct in [*self.message.structs, self.message]:
            if struct.name in self._differing:
                yield from ("", *self._fresh_function(struct), "", "", *self._differ_function(struct), "")
            yield from ("", *self._reader(struct), "", "", *self._writer(struct), "")

    def _name(self, struct: str) -> str:
        return self._names[self.message.name, struct]

    def _may_refuse(self, field: Field) -> bool:
        return field.versions != self.message.versions and not field.ignorable

    def _condition(self, versions: Versions, name: str) -> str:
        """Source that is true in those of the message's versions; empty where it is always true."""
        parts = []
        if versions.first > self.message.versions.first:
            parts.append(f"{name}.version >= {versions.first}")
        if versions.last < self.message.versions.last:
            parts.append(f"{name}.version <= {versions.last}")
        return " and ".join(parts)

    def _call(self, verb: str, field: Field) -> str:
        name = verb[0]
        null = (self._condition(field.nullable, name) or "True") if field.nullable else "False"
        function, arguments = f"{verb}_{field.type}", [name, self._at(field), f'"{field.python_name}"']
        if field.is_struct:
            function = f"{verb}_structs" if field.is_array else f"{verb}_struct"
            arguments += [null, f"{verb}_{self._name(field.type)}"]
        elif field.is_array and field.type == "string":
            function = f"{verb}_strings"
            arguments.append(null)
        elif field.is_array and field.type == "uuid":
            function = f"{verb}_structs"
            arguments += [null, "uuid_of" if verb == "read" else "uuid_out"]
        elif field.is_array:
            size, signed = INTEGERS[field.type]
            if size not in (1, 4, 8) or not signed:
                # No message of Kafka has one; a later version may, and needs a reader and a writer of its own.
                raise ValueError(f"{self.message.name}.{field.name}: array of {field.type}")
            function = f"{verb}_numbers"
            arguments += [null, str(size)]
        elif field.type in INTEGERS:
            size, signed = INTEGERS[field.type]
            function = f"{verb}_number"
            arguments += [str(size), str(signed)]
        elif field.type in ("string", "bytes", "records"):
            arguments.append(null)
            if verb == "write" and field.type == "records":
                function = "write_bytes"
        return f"{function}({', '.join(arguments)})"

    def _at(self, field: Field) -> str:
        return f"at(v, {self._places[id(field)]})"

    def _put_default(self, field: Field) -> str:
        return f"put({self._at(field)}, {self._fresh(field)})"

    def _fresh(self, field: Field) -> str:
        """Source of a default that no other value shares."""
        if field.is_alone:
            return f"fresh_{self._name(field.type)}()"
        return "[]" if default_of(field) == "()" else default_of(field)

    def _differs(self, field: Field) -> str:
        """Source that is true where a field is not at its default."""
        if field.is_alone:
            return f'differ_{self._name(field.type)}(got({self._at(field)}, "{field.python_name}"))'
        return f'differs({self._at(field)}, "{field.python_name}", {default_of(field)})'

    def _number(self, struct: Struct) -> int:
        return self._numbers[self._name(struct.name)]

    def _made(self, struct: Struct) -> str:
        return f"    v = PyType_GenericAlloc(CLASS[{self._number(struct)}], 0)"

    def _fresh_function(self, struct: Struct) -> Iterator[str]:
        yield f"cdef object fresh_{self._name(struct.name)}():"
        yield self._made(struct)
        for field in struct.fields:
            yield f"    {self._put_default(field)}"
        yield "    return v"

    def _differ_function(self, struct: Struct) -> Iterator[str]:
        yield f"cdef bint differ_{self._name(struct.name)}(object v) except -1:"
        yield f"    if not is_a(v, {self._number(struct)}):"
        yield "        return True"
        yield f"    return {' or '.join(self._differs(field) for field in struct.fields)}"

    def _reader(self, struct: Struct) -> Iterator[str]:
        yield f"cdef object read_{self._name(struct.name)}(Reader r):"
        yield self._made(struct)
        for field in struct.fields:
            condition = self._condition(field.versions, "r")
            if field.tag is not None:
                yield f"    {self._put_default(field)}"
            elif condition:
                yield f"    if {condition}:"
                yield f"        {self._call('read', field)}"
                yield "    else:"
                yield f"        {self._put_default(field)}"
            else:
                yield f"    {self._call('read', field)}"
        tagged = [field for field in struct.fields if field.tag is not None]
        if self.message.flexible and tagged:
            yield from self._tags_read(tagged)
        elif self.message.flexible:
            yield "    if r.flexible:"
            yield "        skip_tags(r)"
        yield "    return v"

    def _tags_read(self, tagged: list[Field]) -> Iterator[str]:
        yield "    cdef int64_t count, tag"
        yield "    cdef const uint8_t *outer"
        yield "    if r.flexible:"
        yield "        count = tag_count(r)"
        yield "        while count > 0:"
        yield "            tag = enter_tag(r, &outer)"
        for n, field in enumerate(tagged):
            condition = self._condition(field.versions, "r")
            also = f" and {condition}" if condition else ""
            yield f"            {'elif' if n else 'if'} tag == {field.tag}{also}:"
            yield f"                {self._call('read', field)}"
        yield "            else:"
        yield "                r.p = r.end"
        yield "            leave_tag(r, outer)"
        yield "            count -= 1"

    def _writer(self, struct: Struct) -> Iterator[str]:
        number = self._number(struct)
        yield f"cdef int write_{self._name(struct.name)}(Writer w, object v) except -1:"
        yield f"    if not is_a(v, {number}):"
        yield f"        misplaced(v, <type>CLASS[{number}])"
        for field in struct.fields:
            condition = self._condition(field.versions, "w")
            if field.tag is None and not condition:
                yield f"    {self._call('write', field)}"
            elif field.tag is None:
                yield f"    if {condition}:"
                yield f"        {self._call('write', field)}"
            if condition and not field.ignorable:
                yield f"    elif {self._differs(field)}:" if field.tag is None else f"    if not ({condition}):"
                if field.tag is not None:
                    yield f"        if {self._differs(field)}:"
                    yield f'            refuse(w, v, "{field.python_name}")'
                else:
                    yield f'        refuse(w, v, "{field.python_name}")'
        tagged = [field for field in struct.fields if field.tag is not None]
        if self.message.flexible and tagged:
            yield from self._tags_written(tagged)
        elif self.message.flexible:
            yield "    if w.flexible:"
            yield "        plain_number(w, 0, 1)"
        yield "    return 0"

    def _tags_written(self, tagged: list[Field]) -> Iterator[str]:
        yield "    cdef Py_ssize_t place, count_place"
        yield "    cdef int count = 0"
        yield "    if w.flexible:"
        yield "        count_place = w.size"
        yield "        plain_number(w, 0, 1)"
        for field in tagged:
            condition = self._condition(field.versions, "w")
            yield f"        if {condition + ' and ' if condition else ''}{self._differs(field)}:"
            yield f"            place = begin_tag(w, {field.tag})"
            yield f"            {self._call('write', field)}"
            yield "            end_tag(w, place)"
            yield "            count += 1"
        yield "        w.data[count_place] = <uint8_t>count"


def _wrapped(line: str) -> list[str]:
    """The line, or what a call too long for one line becomes."""
    if len(line) <= 116:
        return [line]
    call, _, arguments = line.partition("(")
    indent = len(line) - len(line.lstrip())
    return [f"{call}(", f"{' ' * (indent + 4)}{arguments}"]


def cython(messages: list[Message]) -> str:
    """The source of `_messages.pyx`, or of `_records.pyx`."""
    structs = list(all_structs(messages))
    every = [struct.name for _, struct in structs]
    names = {
        (message.name, struct.name): struct.name
        if every.count(struct.name) == 1
        else f"{message.name}_{struct.name}"
        for message, struct in structs
    }
    numbers = {name: n for n, name in enumerate(names.values())}
    fields = [field for _, struct in structs for field in struct.fields]
    places = {id(field): n for n, field in enumerate(fields)}
    are_records = messages[0].is_record
    module = "records" if are_records else "messages"
    head = _HEAD.replace("{classes}", str(len(names))).replace("{fields}", str(len(fields)))
    head = head.replace("{messages}", str(len(messages)))
    out = [head.replace("{table}", f"{module}.txt").replace("{module}", module)]
    for message in messages:
        out += _Code(message, names, numbers, places).functions()
    out += [""] if are_records else ["", "cdef enum:", "    API_VERSIONS = 18", "", ""]
    for n, message in enumerate(messages):
        flexible = message.flexible.first if message.flexible else 32767
        facts = f"{message.key}, {message.versions.first}, {message.versions.last}, {flexible}"
        out.append(f"know({n}, read_{message.name}, write_{message.name}, {facts})")
    lines = (short for line in "\n".join(out).split("\n") for short in _wrapped(line))
    source = "\n".join(lines) + "\n" + _TAIL + (_RECORDS_TAIL if are_records else _FRAMES_TAIL)
    return _without_unused(source)


def _without_unused(source: str) -> str:
    """The source without those names of the blocks of `cimport` that it does not use."""
    start = source.index("from logstore.protocol._reading")
    end = source.index("from logstore.errors")
    code = source[end:]
    used = set(re.findall(r"\w+", code))
    lines = source[start:end].splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith("    ") or line.strip(" ,\n") in used]
    return source[:start] + "".join(kept) + code
