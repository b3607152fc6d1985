"""Encoding of message fields as bytes: numbers, strings, arrays, structs and tagged fields."""

from typing import Self, final

@final
class Writer:
    """State of one encoding: the bytes written so far, and the version."""

    def __new__(cls, version: int, flexible: bool) -> Self: ...
