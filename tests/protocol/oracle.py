"""kio as a second opinion: its classes, written by other people from the same definitions of Kafka."""

from __future__ import annotations

import dataclasses
import datetime
import io
import uuid
from enum import Enum
from functools import cache
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from logstore.protocol.message import Message, Struct
from tests.protocol import made


@cache
def _class(key: int, is_request: bool, version: int) -> Any:
    return (load_request_schema if is_request else load_response_schema)(key, version)


def decode(key: int, is_request: bool, version: int, data: bytes) -> Any:
    """What kio takes the bytes for, all of them."""
    value, size = entity_reader(_class(key, is_request, version))(data, 0)
    assert size == len(data)
    return value


def encode(value: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(value))(out, value)
    return out.getvalue()


def differences(ours: Struct | Message, theirs: Any, where: str = "") -> list[str]:
    """Paths of fields that kio reads and that are not the same in ours."""
    found = []
    for field in dataclasses.fields(theirs):
        # It leaves the unit of times out of their names.
        name = field.name if field.name in ours.__slots__ else f"{field.name}_ms"
        mine, other = getattr(ours, name), getattr(theirs, field.name)
        found += _compared(mine, other, f"{where}.{field.name}")
    return found


def _compared(mine: Any, other: Any, where: str) -> list[str]:
    if isinstance(other, tuple):
        if mine is None or len(mine) != len(other):
            return [f"{where}: {mine!r}, kio {other!r}"]
        return [text for n in range(len(other)) for text in _compared(mine[n], other[n], f"{where}[{n}]")]
    if dataclasses.is_dataclass(other):
        return differences(mine, other, where)
    return (
        []
        if mine == _plain(other) or (other is None and mine in ("", -1))
        else [f"{where}: {mine!r}, kio {other!r}"]
    )


def _plain(value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return made.uuid(value.bytes)
    if isinstance(value, datetime.timedelta):
        return round(value / datetime.timedelta(milliseconds=1))
    if isinstance(value, datetime.datetime):
        return round(
            (value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) / datetime.timedelta(milliseconds=1)
        )
    return value.value if isinstance(value, Enum) else value
