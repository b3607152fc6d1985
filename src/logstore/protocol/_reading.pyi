"""Fields of messages, read from bytes: numbers, strings, arrays, structs and tagged fields."""

from typing import Self, final

from typing_extensions import Buffer

@final
class Reader:
    """Where one call is in the bytes it reads, and which version it takes them for."""

    def __new__(cls, source: Buffer, position: int, version: int, flexible: bool) -> Self: ...
