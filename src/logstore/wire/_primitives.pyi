"""What every message is made of: numbers, strings, arrays, structs and tagged fields as bytes."""

from typing import Self, final

from typing_extensions import Buffer

@final
class Reader:
    """Where one call is in the bytes it reads, and which version it takes them for."""

    def __new__(cls, source: Buffer, position: int, version: int, flexible: bool) -> Self: ...

@final
class Writer:
    """The bytes of one call so far, and the version they are written for."""

    def __new__(cls, version: int, flexible: bool) -> Self: ...
