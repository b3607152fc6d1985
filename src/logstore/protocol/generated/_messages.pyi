"""Kafka's messages as bytes and back: one function for each struct that reads it and one that writes it."""

from typing import Any

from typing_extensions import Buffer

def bind(classes: tuple[type, ...], names: tuple[str, ...]) -> None:
    """Takes the classes, in the order of the functions above, and the names of the messages. Once."""

def encode(message: int, value: object, version: int) -> bytes: ...
def decode(message: int, buffer: Buffer, version: int, position: int = 0) -> Any: ...
def encode_request(message: int, value: object, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Size, request header (version 1, or 2 with tagged fields) and body."""

def encode_response(message: int, value: object, version: int, correlation_id: int) -> bytes:
    """Size, response header (version 0, or 1 with tagged fields; ApiVersions always 0) and body."""

def decode_response(message: int, buffer: Buffer, version: int, position: int = 0) -> tuple[int, Any]:
    """The correlation id and the message of a frame without its size."""

def request_header(buffer: Buffer, position: int = 0) -> tuple[int, int, int]:
    """API key, version and correlation id: what every request begins with, known or not."""

def decode_request(message: int, buffer: Buffer, version: int, position: int = 0) -> tuple[str | None, Any]:
    """The client id and the message of a frame without its size, whose header `request_header` has read."""
