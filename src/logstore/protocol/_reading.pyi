"""Fields of messages, read from bytes: numbers, strings, arrays, structs and tagged fields."""

from typing import Self, final

from typing_extensions import Buffer

@final
class Reader:
    """Position of one call in the bytes that it reads, and their version."""

    def __new__(cls, source: Buffer, position: int, version: int, flexible: bool) -> Self: ...
