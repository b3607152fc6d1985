"""Kafka's records as bytes and back: one function for each struct that reads it and one that writes it."""

from typing import Any

from typing_extensions import Buffer

def bind(classes: tuple[type, ...], names: tuple[str, ...]) -> None:
    """Takes the classes, in the order of the functions above, and the names of the records. Once."""

def encode(message: int, value: object, version: int) -> bytes: ...
def decode(message: int, buffer: Buffer, version: int, position: int = 0) -> Any:
    """Bytes behind the fields are skipped: a later version may have more of them."""

def frame_of(buffer: Buffer) -> tuple[int, int, int, int]:
    """The version of a metadata record's frame, the record's type and version, and where its fields begin."""
