"""The Python classes of the codec: one for each message, with one inside it for each struct that it nests."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.table import Field, Message, Struct, Versions, default_of

_HEAD = '''\
"""Kafka {version}'s {what}.

Written by codegen/generate.py from codegen/{table}; change those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import {typing}

from logstore.protocol._schema import Schema
from logstore.protocol.message import {bases}{buffer}
'''
_BUFFER = """

if TYPE_CHECKING:
    from typing_extensions import Buffer
"""


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


def _versions(versions: Versions, message: Message) -> str:
    if versions.last == message.versions.last:
        return f"{versions.first}+"
    return f"{versions.first}-{versions.last}"


def _line(field: Field, message: Message) -> str:
    """What `_schema` needs of the field's line in the table; its default stands in `__init__`."""
    kind = f"[]{field.type}" if field.is_array else field.type
    words = [kind, _versions(field.versions, message)]
    if field.nullable:
        if field.nullable.last != field.versions.last:
            raise ValueError(f"{message.name}.{field.name}: a later version refuses null again")
        words += ["null", f"{field.nullable.first}+"]
    if field.is_struct and not field.is_array and field.is_alone == bool(field.nullable):
        raise ValueError(f"{message.name}.{field.name}: a struct that may be null must be null by default")
    if field.tag is not None:
        words += ["tag", str(field.tag)]
    return " ".join([*words, *(["ignorable"] if field.ignorable else [])])


def _class(message: Message, struct: Struct, indent: str) -> Iterator[str]:
    base = "Struct" if struct is not message else "KafkaRecord" if message.is_record else "Message"
    yield f"{indent}class {struct.name}({base}):"
    inside = indent + "    "
    if not struct.fields:
        yield f"{inside}__slots__ = {{}}"
    else:
        yield f"{inside}__slots__ = {{"
        yield from (f'{inside}    "{field.python_name}": "{_line(field, message)}",' for field in struct.fields)
        yield f"{inside}}}"
    if struct is message:
        if message.kind == "data":
            pass
        elif message.is_record:
            yield f"{inside}TYPE = {message.key}"
        else:
            yield f"{inside}API_KEY = {message.key}"
            yield f"{inside}IS_REQUEST = {message.is_request}"
        yield f"{inside}MIN_VERSION = {message.versions.first}"
        yield f"{inside}MAX_VERSION = {message.stable_last}"
        flexible = message.flexible.first if message.flexible else None
        yield f"{inside}FLEXIBLE_SINCE: ClassVar[int | None] = {flexible}"
        if message.versions.last != message.stable_last:
            yield f"{inside}UNSTABLE_VERSION = {message.versions.last}"
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
        if field.is_alone:
            kind, default = f"{kind} | None", "None"
        yield f"{inside}    {field.python_name}: {kind} = {default},"
    yield f"{inside}) -> None:"
    for field in struct.fields:
        value = field.python_name
        if field.is_alone:
            value = f"{value} or {message.name}.{field.type}()"
        yield f"{inside}    self.{field.python_name} = {value}"


def python(messages: list[Message], version: str) -> str:
    """The source of `messages.py`, `records.py` or `embedded.py`."""
    are_records, are_embedded = messages[0].is_record, messages[0].kind == "data"
    module, base = ("records", "KafkaRecord") if are_records else ("messages", "Message")
    what = "messages as classes, one for each request and response, with what they nest inside them"
    facts = {
        "version": version,
        "what": "records in its internal topics as classes" if are_records else what,
        "table": f"{module}.txt",
        "bases": "KafkaRecord" if are_records else "Message, Struct",
        "typing": "TYPE_CHECKING, ClassVar",
        "buffer": _BUFFER,
    }
    if are_embedded:
        facts |= {
            "what": "values inside messages of groups as classes; brokers pass them on unread",
            "table": "embedded.txt",
            "bases": "KafkaRecord, Struct",
            "typing": "ClassVar",
            "buffer": "",
        }
    head = _HEAD
    for name, fact in facts.items():
        head = head.replace(f"{{{name}}}", fact)
    out = [head]
    for message in messages:
        out += ["", *_class(message, message, ""), ""]
    out += [f"_CLASSES: tuple[type[{base}], ...] = ("]
    out += [f"    {message.name}," for message in messages]
    out += [")", "for _class in _CLASSES:", "    _class.SCHEMA = Schema(_class)"]
    if are_embedded:
        pass
    elif are_records:
        metadata = [message for message in messages if message.kind == "metadata"]
        out += _classes_by_key("METADATA", "record type -> its class, of the log of metadata", base, metadata)
    else:
        requests = [message for message in messages if message.is_request]
        responses = [message for message in messages if not message.is_request]
        out += _classes_by_key("REQUESTS", "API key -> the class of its request", base, requests)
        out += _classes_by_key("RESPONSES", "API key -> the class of its response", base, responses)
    return "\n".join([*out, ""])


def _classes_by_key(name: str, meaning: str, base: str, messages: list[Message]) -> Iterator[str]:
    yield from ("", f"#: {meaning}.", f"{name}: dict[int, type[{base}]] = {{")
    yield from (f"    {message.key}: {message.name}," for message in messages)
    yield "}"
