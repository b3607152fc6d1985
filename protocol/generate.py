"""Turns `messages.txt` into the codec: `wire/_messages.pyx` and the classes of `wire/messages.py`.

    python -m protocol.generate

Each message and each struct in it becomes one class, one function that reads it and one that writes it, with
a branch where versions differ. tests/wire/test_generated.py finds files that are not what this gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from protocol.table import INTEGERS, Field, Message, Struct, Versions, read

WIRE = Path(__file__).resolve().parent.parent / "src" / "logstore" / "wire"

_PYX_HEAD = '''\
"""Kafka's messages as bytes and back: one function for each struct that reads it and one that writes it.

Written by protocol/generate.py from protocol/messages.txt; change those. `message` and `frames` are what
calls this. `bind` must have given it the classes of `messages` before.
"""

from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint8_t

from logstore.wire._primitives cimport (
    Reader, ReadStruct, WriteStruct, Writer,
    begin_tag, differs, end_tag, enter_tag, leave_tag, malformed, plain_int16, plain_int32, plain_number,
    plain_old_string, plain_old_text, read_bool, read_bytes, read_float64, read_int8, read_int16, read_int32,
    read_int64, read_numbers, read_records, read_string, read_strings, read_struct, read_structs, read_uint16,
    read_uuid, refuse, skip_tags, tag_count, write_bool, write_bytes, write_float64, write_int8, write_int16,
    write_int32, write_int64, write_numbers, write_records, write_string, write_strings, write_struct,
    write_structs, write_uint16, write_uuid,
)

from logstore.errors import UnsupportedVersionError

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject *type, Py_ssize_t items)

cdef struct Known:
    ReadStruct read
    WriteStruct write
    int key
    int first
    int last
    int flexible

cdef enum:
    CLASSES = {classes}
    MESSAGES = {messages}

cdef PyTypeObject *CLASS[CLASSES]
cdef Known KNOWN[MESSAGES]
cdef tuple NAMES = ()


cdef void know(int n, ReadStruct read, WriteStruct write, int key, int first, int last, int flexible) noexcept:
    KNOWN[n].read = read
    KNOWN[n].write = write
    KNOWN[n].key = key
    KNOWN[n].first = first
    KNOWN[n].last = last
    KNOWN[n].flexible = flexible

'''

_PYX_TAIL = '''\

def bind(tuple classes, tuple names):
    """Takes the classes, in the order of the functions above, and the names of the messages. Once."""
    global NAMES
    cdef int n = 0
    if len(classes) != CLASSES or len(names) != MESSAGES:
        raise ValueError(f"expected {<int>CLASSES} classes of {<int>MESSAGES} messages")
    for one in classes:
        Py_INCREF(one)  # for ever: values are made of it
        CLASS[n] = <PyTypeObject *>one
        n += 1
    NAMES = names


cdef Known *known(int message, int version) except NULL:
    if not 0 <= message < len(NAMES):
        raise ValueError(f"no message {message}")
    cdef Known *found = &KNOWN[message]
    if not found.first <= version <= found.last:
        raise UnsupportedVersionError(
            f"{NAMES[message]} has versions {found.first} to {found.last}, not {version}")
    return found


cdef object message_of(Known *one, Reader r):
    value = one.read(r)
    if r.p != r.end:
        malformed(r, "message", f"{r.end - r.p} bytes more than it has")
    return value


def encode(int message, object value, int version):
    cdef Known *one = known(message, version)
    cdef Writer w = Writer(version, version >= one.flexible)
    one.write(w, value)
    return w.taken()


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
    cdef int correlation_id = <int>plain_int32(r, "correlation_id")
    if r.flexible and one.key != API_VERSIONS:
        skip_tags(r)
    return correlation_id, message_of(one, r)


def request_header(object buffer, Py_ssize_t position=0):
    """API key, version and correlation id: what every request begins with, known or not."""
    cdef Reader r = Reader(buffer, position, 0, False)
    cdef int key = <int>plain_int16(r, "request_api_key")
    cdef int version = <int>plain_int16(r, "request_api_version")
    return key, version, <int>plain_int32(r, "correlation_id")


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


def _structs(messages: list[Message]) -> Iterator[tuple[Message, Struct]]:
    for message in messages:
        for struct in message.structs:
            yield message, struct
        yield message, message


def _function(message: Message, struct: Struct) -> str:
    return message.name if struct is message else f"{message.name}_{struct.name}"


def default_of(field: Field) -> str:
    """Python source of the default; a struct's own default is not written so."""
    if field.default == "null":
        return "None"
    if field.is_array:
        return "()"
    if field.default is not None:
        if field.type == "bool":
            return field.default.capitalize()
        return repr(field.default) if field.type == "string" else str(int(field.default, 0))
    return {"bool": "False", "string": '""', "uuid": '""', "bytes": 'b""', "records": "None", "float64": "0.0"}.get(
        field.type, "0"
    )


# --- Cython ------------------------------------------------------------------------------------


def _condition(versions: Versions, message: Message, name: str) -> str:
    """Source that is true in those of the message's versions; empty where it is always true."""
    parts = []
    if versions.first > message.versions.first:
        parts.append(f"{name}.version >= {versions.first}")
    if versions.last < message.versions.last:
        parts.append(f"{name}.version <= {versions.last}")
    return " and ".join(parts)


def _nullable(field: Field, message: Message, name: str) -> str:
    if not field.nullable:
        return "False"
    return _condition(field.nullable, message, name) or "True"


def _call(verb: str, field: Field, message: Message) -> str:
    name = verb[0]
    first = f'{name}, v, "{field.python_name}"'
    null = _nullable(field, message, name)
    inner = f"{verb}_{message.name}_{field.type}"
    if field.is_array:
        if field.is_struct:
            return f"{verb}_structs({first}, {null}, {inner})"
        if field.type == "string":
            return f"{verb}_strings({first}, {null})"
        size, signed = INTEGERS[field.type]
        if size not in (1, 4, 8) or not signed:
            raise NotImplementedError(f"{message.name}.{field.name}: array of {field.type}")
        return f"{verb}_numbers({first}, {null}, {size})"
    if field.is_struct:
        return f"{verb}_struct({first}, {null}, {inner})"
    if field.type in ("string", "bytes", "records"):
        return f"{verb}_{field.type}({first}, {null})"
    return f"{verb}_{field.type}({first})"


def _reader(message: Message, struct: Struct, numbers: dict[str, int]) -> Iterator[str]:
    function = _function(message, struct)
    yield f"cdef object read_{function}(Reader r):"
    yield f"    v = PyType_GenericAlloc(CLASS[{numbers[function]}], 0)"
    for field in struct.fields:
        condition = _condition(field.versions, message, "r")
        if field.tag is not None:
            yield f"    v.{field.python_name} = {_fresh(field, message, numbers)}"
        elif condition:
            yield f"    if {condition}:"
            yield f"        {_call('read', field, message)}"
            yield "    else:"
            yield f"        v.{field.python_name} = {_fresh(field, message, numbers)}"
        else:
            yield f"    {_call('read', field, message)}"
    tagged = [field for field in struct.fields if field.tag is not None]
    if message.flexible and tagged:
        yield "    cdef int64_t count, tag"
        yield "    cdef const uint8_t *outer"
        yield "    if r.flexible:"
        yield "        count = tag_count(r)"
        yield "        while count > 0:"
        yield "            tag = enter_tag(r, &outer)"
        for n, field in enumerate(tagged):
            condition = _condition(field.versions, message, "r")
            yield f"            {'elif' if n else 'if'} tag == {field.tag}{' and ' + condition if condition else ''}:"
            yield f"                {_call('read', field, message)}"
        yield "            else:"
        yield "                r.p = r.end"
        yield "            leave_tag(r, outer)"
        yield "            count -= 1"
    elif message.flexible:
        yield "    if r.flexible:"
        yield "        skip_tags(r)"
    yield "    return v"


def _fresh(field: Field, message: Message, numbers: dict[str, int]) -> str:
    """Source of a default that no other value shares."""
    if field.is_struct and not field.is_array and default_of(field) != "None":
        return f"(<object>CLASS[{numbers[f'{message.name}_{field.type}']}])()"
    return "[]" if field.is_array and default_of(field) == "()" else default_of(field)


def _writer(message: Message, struct: Struct, numbers: dict[str, int]) -> Iterator[str]:
    function = _function(message, struct)
    yield f"cdef int write_{function}(Writer w, object v) except -1:"
    plain = [field for field in struct.fields if field.tag is None]
    tagged = [field for field in struct.fields if field.tag is not None]
    for field in plain:
        condition = _condition(field.versions, message, "w")
        if condition:
            yield f"    if {condition}:"
            yield f"        {_call('write', field, message)}"
            if not field.ignorable:
                yield "    else:"
                yield f'        refuse(w, v, "{field.python_name}", {_compared(field, message, numbers)})'
        else:
            yield f"    {_call('write', field, message)}"
    for field in tagged:
        condition = _condition(field.versions, message, "w")
        if condition and not field.ignorable:
            yield f"    if not ({condition}):"
            yield f'        refuse(w, v, "{field.python_name}", {_compared(field, message, numbers)})'
    if message.flexible and tagged:
        yield "    cdef Py_ssize_t place, count_place"
        yield "    cdef int count = 0"
        yield "    if w.flexible:"
        yield "        count_place = w.size"
        yield "        plain_number(w, 0, 1)"
        for field in tagged:
            condition = _condition(field.versions, message, "w")
            given = f'differs(v, "{field.python_name}", {_compared(field, message, numbers)})'
            yield f"        if {condition + ' and ' if condition else ''}{given}:"
            yield f"            place = begin_tag(w, {field.tag})"
            yield f"            {_call('write', field, message)}"
            yield "            end_tag(w, place)"
            yield "            count += 1"
        yield "        w.data[count_place] = <uint8_t>count"
    elif message.flexible:
        yield "    if w.flexible:"
        yield "        plain_number(w, 0, 1)"
    yield "    return 0"


def _compared(field: Field, message: Message, numbers: dict[str, int]) -> str:
    return "()" if field.is_array and default_of(field) == "()" else _fresh(field, message, numbers)


def pyx(messages: list[Message]) -> str:
    names = [_function(message, struct) for message, struct in _structs(messages)]
    numbers = {name: n for n, name in enumerate(names)}
    out = [_PYX_HEAD.replace("{classes}", str(len(names))).replace("{messages}", str(len(messages)))]
    for message, struct in _structs(messages):
        out += ["", *_reader(message, struct, numbers), "", ""]
        out += [*_writer(message, struct, numbers), ""]
    out += ["", "cdef enum:", "    API_VERSIONS = 18", ""]
    for n, message in enumerate(messages):
        flexible = message.flexible.first if message.flexible else 32767
        facts = f"{message.key}, {message.versions.first}, {message.versions.last}, {flexible}"
        out.append(f"know({n}, read_{message.name}, write_{message.name}, {facts})")
    return "\n".join(out) + "\n" + _PYX_TAIL


# --- Python ------------------------------------------------------------------------------------

_PY_HEAD = '''\
"""Kafka {version}'s messages as classes, one for each request and response, with what they nest inside them.

Written by protocol/generate.py from protocol/messages.txt; change those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from logstore.wire import _messages
from logstore.wire.message import Message, Struct

if TYPE_CHECKING:
    from typing_extensions import Buffer

'''


def _python_type(field: Field, message: Message) -> str:
    scalar = {
        "bool": "bool",
        "string": "str",
        "uuid": "str",
        "bytes": "bytes",
        "records": "Buffer",
        "float64": "float",
    }
    name = f"{message.name}.{field.type}" if field.is_struct else scalar.get(field.type, "int")
    if field.is_array:
        name = f"Sequence[{name}]"
    return f"{name} | None" if field.nullable or default_of(field) == "None" else name


def _class(message: Message, struct: Struct, indent: str) -> Iterator[str]:
    base = "Message" if struct is message else "Struct"
    yield f"{indent}class {struct.name}({base}):"
    inside = indent + "    "
    slots = ", ".join(f'"{field.python_name}"' for field in struct.fields)
    yield f"{inside}__slots__ = ({slots}{',' if len(struct.fields) == 1 else ''})"
    if struct is message:
        yield f"{inside}API_KEY = {message.key}"
        yield f"{inside}IS_REQUEST = {message.is_request}"
        yield f"{inside}MIN_VERSION = {message.versions.first}"
        yield f"{inside}MAX_VERSION = {message.stable_last}"
        flexible = message.flexible.first if message.flexible else None
        yield f"{inside}FLEXIBLE_SINCE: ClassVar[int | None] = {flexible}"
        yield f"{inside}NUMBER = %NUMBER%"
        for inner in message.structs:
            yield ""
            yield from _class(message, inner, inside)
    if not struct.fields:
        return
    yield ""
    yield f"{inside}def __init__("
    yield f"{inside}    self,"
    yield f"{inside}    *,"
    for field in struct.fields:
        kind, default = _python_type(field, message), default_of(field)
        if field.is_struct and not field.is_array and default != "None":
            kind, default = f"{kind} | None", "None"
        yield f"{inside}    {field.python_name}: {kind} = {default},"
    yield f"{inside}) -> None:"
    for field in struct.fields:
        value = field.python_name
        if field.is_struct and not field.is_array and default_of(field) != "None":
            value = f"{message.name}.{field.type}() if {value} is None else {value}"
        yield f"{inside}    self.{field.python_name}: {_python_type(field, message)} = {value}"


def python(messages: list[Message], version: str) -> str:
    out = [_PY_HEAD.replace("{version}", version)]
    for n, message in enumerate(messages):
        out += ["", *(line.replace("%NUMBER%", str(n)) for line in _class(message, message, "")), ""]
    out += ["", "_messages.bind(", "    ("]
    for message, struct in _structs(messages):
        name = message.name if struct is message else f"{message.name}.{struct.name}"
        out.append(f"        {name},")
    out += ["    ),", "    ("]
    out += [f'        "{message.name}",' for message in messages]
    out += ["    ),", ")", ""]
    out += ["#: API key -> the class of its request.", "REQUESTS: dict[int, type[Message]] = {"]
    out += [f"    {message.key}: {message.name}," for message in messages if message.is_request]
    out += ["}", "", "#: API key -> the class of its response.", "RESPONSES: dict[int, type[Message]] = {"]
    out += [f"    {message.key}: {message.name}," for message in messages if not message.is_request]
    return "\n".join([*out, "}", ""])


def generated() -> dict[Path, str]:
    """Every file that the table gives, and what stands in it."""
    messages = read()
    from protocol.table import TABLE

    version = next(line.split()[1] for line in TABLE.read_text().splitlines() if line.startswith("kafka "))
    return {WIRE / "_messages.pyx": pyx(messages), WIRE / "messages.py": python(messages, version)}


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
