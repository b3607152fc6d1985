"""Reads the tables: Kafka's messages, records and embedded values as data, for the generator and for tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).with_name("messages.txt")
RECORDS_TABLE = TABLE.with_name("records.txt")
EMBEDDED_TABLE = TABLE.with_name("embedded.txt")

INTEGERS = {"int8": (1, True), "int16": (2, True), "uint16": (2, False), "int32": (4, True), "int64": (8, True)}
SCALARS = {*INTEGERS, "bool", "float64", "string", "uuid", "bytes", "records"}


class Versions(NamedTuple):
    """``first`` to ``last``, both included; none at all if ``first > last``."""

    first: int
    last: int

    @classmethod
    def of(cls, text: str) -> Versions:
        if text.endswith("+"):
            return cls(int(text[:-1]), 32767)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def within(self, other: Versions) -> Versions:
        return Versions(max(self.first, other.first), min(self.last, other.last))

    def __bool__(self) -> bool:
        return self.first <= self.last


NEVER = Versions(1, 0)


@dataclass
class Field:
    """One field of a message or struct."""

    name: str
    type: str  #: a name of SCALARS or of a struct; of the items if it is an array
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    default: str | None  #: as Kafka writes it; None: Kafka's default of the type
    ignorable: bool  #: may be left out silently by a version without it

    @property
    def is_struct(self) -> bool:
        return self.type not in SCALARS

    @property
    def is_alone(self) -> bool:
        """One struct, not an array of them, which is there by default."""
        return self.is_struct and not self.is_array and self.default != "null"

    @property
    def python_name(self) -> str:
        words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", self.name)
        return re.sub(r"([A-Z])([A-Z][a-z])", r"\1_\2", words).lower()


@dataclass
class Struct:
    name: str
    fields: list[Field] = field(default_factory=list)


@dataclass
class Message(Struct):
    key: int = 0
    kind: str = "request"
    versions: Versions = NEVER
    flexible: Versions = NEVER
    stable_last: int = 0  #: the newest version that Kafka announces
    structs: list[Struct] = field(default_factory=list)  #: those inside, each once, inner ones first

    @property
    def is_request(self) -> bool:
        return self.kind == "request"

    @property
    def is_record(self) -> bool:
        return self.kind not in ("request", "response")

    def struct(self, name: str) -> Struct:
        return next(struct for struct in self.structs if struct.name == name)


def read(path: Path = TABLE) -> list[Message]:
    """Every message of the table, in its order."""
    text = path.read_text(encoding="utf-8").splitlines()
    lines = [(len(line) - len(line.lstrip()), line.split()) for line in text if line and line[0] not in "#k"]
    lines.reverse()  # the next line is the last
    messages = []
    while lines:
        message = _message(lines.pop()[1])
        while lines and lines[-1][0] == 2 and lines[-1][1][0] == "struct":
            _, name = lines.pop()[1]
            message.structs.append(Struct(name, _fields(lines, 4, message)))
        message.fields = _fields(lines, 2, message)
        messages.append(message)
    return messages


def _fields(lines: list[tuple[int, list[str]]], indent: int, message: Message) -> list[Field]:
    """The fields at this indent; a struct that stands below a field of it goes to the message."""
    fields = []
    while lines and lines[-1][0] == indent:
        one = _field(lines.pop()[1], message.versions)
        if one is not None:
            fields.append(one)
        inner = _fields(lines, indent + 2, message)
        if inner and one is not None:
            message.structs.append(Struct(one.type, inner))
    return fields


def _message(words: list[str]) -> Message:
    key, kind, name, versions, *rest = words
    options = dict(zip(rest[::2], rest[1::2], strict=True))
    valid = Versions.of(versions)
    flexible = Versions.of(options["flexible"]).within(valid) if "flexible" in options else NEVER
    stable = valid.last - 1 if "unstable" in options else valid.last
    return Message(name, [], int(key), kind, valid, flexible, stable)


def _field(words: list[str], valid: Versions) -> Field | None:
    """The field, or None if no version that is still valid has it."""
    name, kind, versions, *rest = words
    options: dict[str, list[str]] = {}
    takes = {"null": 1, "tag": 2, "default": 1, "ignorable": 0}
    while rest:
        count = takes[rest[0]]
        options[rest[0]] = rest[1 : 1 + count]
        rest = rest[1 + count :]
    found = Versions.of(versions).within(valid)
    nullable = Versions.of(options["null"][0]).within(found) if "null" in options else NEVER
    tagged = Versions.of(options["tag"][1]).within(found) if "tag" in options else NEVER
    if not found:
        return None
    return Field(
        name,
        kind.removeprefix("[]"),
        kind.startswith("[]"),
        found,
        nullable,
        int(options["tag"][0]) if "tag" in options else None,
        tagged,
        options["default"][0] if "default" in options else None,
        "ignorable" in options,
    )


def kafka_version(path: Path = TABLE) -> str:
    """The version of Kafka whose facts these are."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next(line.removeprefix("kafka ") for line in lines if line.startswith("kafka "))


def all_structs(messages: list[Message]) -> Iterator[tuple[Message, Struct]]:
    """Every struct with its message, inner ones first; the message itself is the last of its structs."""
    for message in messages:
        for struct in message.structs:
            yield message, struct
        yield message, message


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
