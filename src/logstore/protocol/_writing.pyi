"""Fields of messages, written as bytes: numbers, strings, arrays, structs and tagged fields."""

from typing import Self, final

@final
class Writer:
    """The bytes of one call so far, and the version they are written for."""

    def __new__(cls, version: int, flexible: bool) -> Self: ...
