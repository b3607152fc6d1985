"""Values of every message, made from the table: what a field may hold in a version, edges more often."""

from __future__ import annotations

import base64
import math
from random import Random
from typing import Any

from codegen import table
from logstore.protocol.generated import messages
from logstore.protocol.message import Message

TABLE = table.read()
NAMES = [message.name for message in TABLE]

#: Every message with every version of it that the codec speaks.
VERSIONS = [
    (message, version) for message in TABLE for version in range(message.versions.first, message.versions.last + 1)
]

#: Error codes that an oracle which knows them as an enumeration takes.
_ERRORS = [-1, 0, 1, 3, 6, 35, 42, 87, 100]
_TEXTS = ["", "a", "orders", "größer", "日本", "x" * 126, "x" * 127, "x" * 128, "\0", "\U0001f600"]


def python_class(message: table.Message, struct: str = "") -> Any:
    outer = getattr(messages, message.name)
    return getattr(outer, struct) if struct and struct != message.name else outer


def value_of(message: table.Message, version: int, rng: Random) -> Message:
    """A message in which every field that the version has is set, others left at their defaults."""
    made: Message = _struct(message, message, version, rng, 0)
    return made


def _struct(message: table.Message, struct: table.Struct, version: int, rng: Random, depth: int) -> Any:
    given = {
        field.python_name: _field(message, field, version, rng, depth)
        for field in struct.fields
        if version in field.versions and rng.random() < 0.9
    }
    return python_class(message, struct.name)(**given)


def _field(message: table.Message, field: table.Field, version: int, rng: Random, depth: int) -> Any:
    if version in field.nullable and rng.random() < 0.25:
        return None
    if field.is_array:
        count = rng.choice([0, 1, 2, 3] if depth < 2 else [0, 1, 2])
        return [_one(message, field, version, rng, depth + 1) for _ in range(count)]
    return _one(message, field, version, rng, depth)


def _one(message: table.Message, field: table.Field, version: int, rng: Random, depth: int) -> Any:
    if field.is_struct:
        return _struct(message, message.struct(field.type), version, rng, depth)
    if field.name.endswith("ErrorCode"):
        return rng.choice(_ERRORS)
    if field.type in table.INTEGERS:
        return _integer(field, rng)
    if field.type == "bool":
        return rng.random() < 0.5
    if field.type == "string":
        return rng.choice(_TEXTS)
    if field.type == "uuid":
        return "" if rng.random() < 0.2 else uuid(rng.randbytes(16))
    if field.type == "float64":
        return rng.choice([0.0, 1.5, -1e300, math.pi, 5e-324])
    return rng.randbytes(rng.choice([0, 1, 20, 126, 127, 200]))


def _integer(field: table.Field, rng: Random) -> int:
    size, signed = table.INTEGERS[field.type]
    if size == 8 and ("Ms" in field.name or "Time" in field.name):
        return rng.randrange(2**41)  # an oracle that knows it as a point in time must be able to
    low, high = (-(1 << 8 * size - 1), (1 << 8 * size - 1) - 1) if signed else (0, (1 << 8 * size) - 1)
    return rng.choice([0, 1, low, high, rng.randint(low, high)])


def uuid(raw: bytes) -> str:
    """As Kafka prints it; the zero uuid is the empty string."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=") if any(raw) else ""
