"""Fields of messages, written as bytes: numbers, strings, arrays, structs and tagged fields."""

from typing import Self, final

@final
class Writer:
    """Bytes written by one call, and their version."""

    def __new__(cls, version: int, flexible: bool) -> Self: ...
