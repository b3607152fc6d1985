"""The header around a message, and the size before both: what stands on a connection.

Kafka protocol guide, "Protocol": every frame is its size in four bytes, a header and a body. The header
has tagged fields where the version of the message is flexible, but for the response to ApiVersions, which a
client must be able to read before it knows what the broker speaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from logstore.errors import MalformedMessageError, UnsupportedVersionError
from logstore.protocol.generated import _messages
from logstore.protocol.generated.messages import REQUESTS, RESPONSES, ApiVersionsResponse
from logstore.protocol.message import Message

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: Kafka's default of socket.request.max.bytes, which bounds what is taken of an unknown peer.
MAX_FRAME_BYTES = 100 * 1024 * 1024

SIZE_BYTES = 4


class Request(NamedTuple):
    """A request as a broker gets it."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    message: Message


class RequestHead(NamedTuple):
    """The first eight bytes of every request, also of one that we do not know."""

    api_key: int
    version: int
    correlation_id: int


class Response(NamedTuple):
    """A response as a client gets it."""

    correlation_id: int
    message: Message


def frame_size(buffer: Buffer, position: int = 0, max_bytes: int = MAX_FRAME_BYTES) -> int:
    """How many bytes follow the four of the size at ``position``.

    Raises:
        MalformedMessageError: the size is below zero or above ``max_bytes``, or is not there.
    """
    four = bytes(memoryview(buffer)[position : position + SIZE_BYTES])
    if len(four) < SIZE_BYTES:
        raise MalformedMessageError(f"the size of a frame needs 4 bytes, found {len(four)}", position=position)
    size = int.from_bytes(four, "big", signed=True)
    if not 0 <= size <= max_bytes:
        raise MalformedMessageError(f"a frame of {size} bytes: expected 0 to {max_bytes}", position=position)
    return size


def encode_request(message: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The whole frame of a request: size, header, body.

    Raises:
        UnsupportedVersionError, ProtocolError: as of `Message.encode`.
    """
    if not message.IS_REQUEST:
        raise TypeError(f"{type(message).__name__} is no request")
    return _messages.encode_request(message.NUMBER, message, version, correlation_id, client_id)


def encode_response(message: Message, version: int, correlation_id: int) -> bytes:
    """The whole frame of a response: size, header, body.

    Raises:
        UnsupportedVersionError, ProtocolError: as of `Message.encode`.
    """
    if message.IS_REQUEST:
        raise TypeError(f"{type(message).__name__} is no response")
    return _messages.encode_response(message.NUMBER, message, version, correlation_id)


def request_head(frame: Buffer, position: int = 0) -> RequestHead:
    """Which request a frame (without its size) is, before anything else of it is believed.

    A broker answers an unknown version of ApiVersions with version 0 of the response and error 35.
    """
    return RequestHead(*_messages.request_header(frame, position))


def decode_request(frame: Buffer, position: int = 0) -> Request:
    """The request in a frame without its size; records are views of ``frame``.

    Raises:
        UnsupportedVersionError: no such API key, or no such version of it (`request_head` tells which).
        MalformedMessageError: the bytes are no such request.
    """
    head = request_head(frame, position)
    kind = REQUESTS.get(head.api_key)
    if kind is None:
        raise UnsupportedVersionError(f"unknown API key {head.api_key}")
    client_id, message = _messages.decode_request(kind.NUMBER, frame, head.version, position)
    return Request(*head, client_id, message)


def decode_response(api_key: int, version: int, frame: Buffer, position: int = 0) -> Response:
    """The response in a frame without its size, to a request of that key and version.

    A broker that does not know the version of an ApiVersions request answers in version 0, with error 35
    (UNSUPPORTED_VERSION): such an answer is read so.

    Raises:
        MalformedMessageError, UnsupportedVersionError: as of `Message.decode`.
    """
    kind = RESPONSES.get(api_key)
    if kind is None:
        raise UnsupportedVersionError(f"unknown API key {api_key}")
    if kind is ApiVersionsResponse and version > 0:
        error = memoryview(frame)[position + 4 : position + 6]
        if int.from_bytes(error, "big") == UnsupportedVersionError.code:
            version = 0
    return Response(*_messages.decode_response(kind.NUMBER, frame, version, position))


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
