"""A connection to a broker that sends any bytes, and messages in any version."""

from __future__ import annotations

import socket
import struct
from typing import Any

from logstore.broker import Broker
from logstore.protocol.frames import decode_response, encode_request
from logstore.protocol.message import Message


class Wire:
    """One connection, with a deadline for each receive."""

    def __init__(self, broker: Broker) -> None:
        self.socket = socket.create_connection(broker.address, 20)

    def send(self, message: Message, version: int, correlation_id: int = 7) -> None:
        self.socket.sendall(encode_request(message, version, correlation_id, "a test"))

    def receive(self, message: type[Message] | Message, version: int, correlation_id: int = 7) -> Any:
        response = decode_response(message.API_KEY, version, self.frame())
        assert response.correlation_id == correlation_id
        return response.message

    def ask(self, message: Message, version: int) -> Any:
        """Return the answer, a message of the request's key: each caller knows its fields."""
        self.send(message, version)
        return self.receive(message, version)

    def frame(self) -> bytes:
        """Return the next frame without its size; b"" if the broker has closed the connection."""
        head = self._exactly(4)
        return self._exactly(struct.unpack(">i", head)[0]) if head else b""

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            try:
                more = self.socket.recv(size - len(found))
            except ConnectionResetError:
                return b""
            if not more:
                return b""
            found += more
        return found

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


def wire_at(address: tuple[str, int]) -> Wire:
    """Return a connection to a broker in another process."""
    wire = Wire.__new__(Wire)
    wire.socket = socket.create_connection(address, 60)
    return wire
