"""Encoding and decoding of Kafka's messages, by the descriptions of fields in the classes' ``__slots__``."""

from typing import Any, Self, final

from typing_extensions import Buffer

@final
class Schema:
    """The fields of a message and of the structs in it, and the functions that encode and decode it."""

    def __new__(cls, message: type) -> Self: ...
    def encode(self, value: object, version: int) -> bytes: ...
    def decode(self, buffer: Buffer, version: int, position: int = 0) -> Any:
        """Return the message; bytes after the fields of a record are ignored."""

    def encode_request(
        self, value: object, version: int, correlation_id: int, client_id: str | None, sized: bool = True
    ) -> bytes:
        """Return size, request header (version 1, or 2 with tagged fields) and body."""

    def encode_response(self, value: object, version: int, correlation_id: int, sized: bool = True) -> bytes:
        """Return size, response header (version 0, or 1 with tagged fields; ApiVersions always 0) and body."""

    def decode_request(
        self, buffer: Buffer, version: int, position: int = 0, max_items: int = ...
    ) -> tuple[str | None, Any]:
        """Return the client id and the message of a frame without its size; the caller knows key and version."""

    def decode_response(self, buffer: Buffer, version: int, position: int = 0) -> tuple[int, Any]:
        """Return the correlation id and the message of a frame without its size."""

def versions_of(text: str) -> tuple[int, int]:
    """Return the first and the last version of a range such as "3+" or "0-12"."""

def request_header(buffer: Buffer, position: int = 0) -> tuple[int, int, int]:
    """Return API key, version and correlation id, with which every request begins, also an unknown one."""

def record_frame(buffer: Buffer) -> tuple[int, int, int, int]:
    """Return frame version, type and version of a metadata record, and the position of its fields."""
