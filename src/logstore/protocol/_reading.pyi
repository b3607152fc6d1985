"""Decoding of message fields from bytes: numbers, strings, arrays, structs and tagged fields."""

from typing import Self, final

from typing_extensions import Buffer

@final
class Reader:
    """State of one decoding: the bytes, the position in them, and the version."""

    def __new__(cls, source: Buffer, position: int, version: int, flexible: bool) -> Self: ...
