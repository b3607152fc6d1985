"""Frames on a connection: a size, a header and a message.

Kafka protocol guide, "Protocol": every frame is its size in four bytes, a header and a body. The header has
tagged fields if the version of the message is flexible. Only the header of an ApiVersions response never has them:
a client must be able to read this response before it knows the broker's versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from logstore.errors import MalformedMessageError, UnsupportedVersionError
from logstore.protocol._schema import request_header
from logstore.protocol.generated.messages import REQUESTS, RESPONSES, ApiVersionsResponse
from logstore.protocol.message import Message
from logstore.records import INT64_MAX

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: Kafka's default of socket.request.max.bytes: the largest frame accepted from an unknown peer.
MAX_FRAME_BYTES = 100 * 1024 * 1024

SIZE_BYTES = 4


class Request(NamedTuple):
    """A request as a broker receives it."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    message: Message


class RequestHead(NamedTuple):
    """The first eight bytes of a request, which are the same for every API key and version."""

    api_key: int
    version: int
    correlation_id: int


class Response(NamedTuple):
    """A response as a client receives it."""

    correlation_id: int
    message: Message


def frame_size(buffer: Buffer, position: int = 0, max_bytes: int = MAX_FRAME_BYTES) -> int:
    """Return the number of bytes after the four-byte size at ``position``.

    Raises:
        MalformedMessageError: the size is below zero, above ``max_bytes``, or missing.
    """
    four = bytes(memoryview(buffer)[position : position + SIZE_BYTES])
    if len(four) < SIZE_BYTES:
        raise MalformedMessageError(f"the size of a frame needs 4 bytes, found {len(four)}", position=position)
    size = int.from_bytes(four, "big", signed=True)
    if not 0 <= size <= max_bytes:
        raise MalformedMessageError(f"a frame of {size} bytes: expected 0 to {max_bytes}", position=position)
    return size


def encode_request(
    message: Message, version: int, correlation_id: int, client_id: str | None, *, sized: bool = True
) -> bytes:
    """Return the whole frame of a request: size, header, body; the size is left out if ``sized`` is False.

    Raises:
        UnsupportedVersionError, ProtocolError: as `Message.encode`.
    """
    if not message.IS_REQUEST:
        raise TypeError(f"{type(message).__name__} is no request")
    return message.SCHEMA.encode_request(message, version, correlation_id, client_id, sized)


def encode_response(message: Message, version: int, correlation_id: int, *, sized: bool = True) -> bytes:
    """Return the whole frame of a response: size, header, body; the size is left out if ``sized`` is False.

    Records may be a `FileRegion`, which is read into the frame.

    Raises:
        UnsupportedVersionError, ProtocolError: as `Message.encode`.
    """
    if message.IS_REQUEST:
        raise TypeError(f"{type(message).__name__} is no response")
    return message.SCHEMA.encode_response(message, version, correlation_id, sized)


def request_head(frame: Buffer, position: int = 0) -> RequestHead:
    """Return the head of a request in a frame without its size, and decode nothing else.

    A broker needs it for an unknown version of ApiVersions, which it answers with version 0 of the response and
    error 35 (UNSUPPORTED_VERSION).
    """
    return RequestHead(*request_header(frame, position))


def decode_request(frame: Buffer, position: int = 0, *, max_items: int = INT64_MAX) -> Request:
    """Decode the request in a frame without its size; records are views of ``frame``.

    Bytes behind the request are ignored, as Kafka's broker does: some clients send a few. ``max_items`` bounds the
    items of all its arrays together, and with them the memory of the message.

    Raises:
        UnsupportedVersionError: the API key or its version is unknown (`request_head` returns both).
        MalformedMessageError: the bytes are not a request of that key and version, or it has more items.
    """
    head = request_head(frame, position)
    kind = REQUESTS.get(head.api_key)
    if kind is None:
        raise UnsupportedVersionError(f"API key {head.api_key} is unknown")
    client_id, message = kind.SCHEMA.decode_request(frame, head.version, position, max_items)
    return Request(*head, client_id, message)


def decode_response(api_key: int, version: int, frame: Buffer, position: int = 0) -> Response:
    """Decode the response to a request of ``api_key`` and ``version``, in a frame without its size.

    A broker that does not know the version of an ApiVersions request answers in version 0, with error 35
    (UNSUPPORTED_VERSION): such an answer is decoded as version 0.

    Raises:
        MalformedMessageError, UnsupportedVersionError: as `Message.decode`.
    """
    kind = RESPONSES.get(api_key)
    if kind is None:
        raise UnsupportedVersionError(f"API key {api_key} is unknown")
    if kind is ApiVersionsResponse and version > 0:
        error = memoryview(frame)[position + 4 : position + 6]
        if int.from_bytes(error, "big") == UnsupportedVersionError.code:
            version = 0
    return Response(*kind.SCHEMA.decode_response(frame, version, position))


__all__ = [
    "MAX_FRAME_BYTES",
    "REQUESTS",
    "RESPONSES",
    "SIZE_BYTES",
    "Request",
    "RequestHead",
    "Response",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
    "frame_size",
    "request_head",
]
