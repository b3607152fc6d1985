"""Bytes in and out of one socket that never blocks, plain or over TLS.

A `SocketTransport` knows no messages. Where no bytes can be moved now it says so by its result, and by `read_event`
and `write_event`: what the socket must be ready for before the next try. Its errors are those of the socket. Only
the thread of the sockets calls it.
"""

from __future__ import annotations

import itertools
import selectors
import socket
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

#: So many pieces are written by one system call, and the system takes no more than 1,024.
_MOST_PIECES = 64
#: Small pieces are joined up to so many bytes: each write over TLS makes one record.
_RECORD_BYTES = 1 << 14


class SocketTransport(ABC):
    """A connected socket. Owns: the socket, which is ``file``."""

    file: socket.socket

    #: Whether a read that leaves a part of its buffer free has taken all that was there.
    takes_all = False
    read_event = selectors.EVENT_READ
    write_event = selectors.EVENT_WRITE

    @abstractmethod
    def shake(self) -> bool:
        """Go on with the handshake; return whether it is done."""

    @abstractmethod
    def receive_into(self, buffer: memoryview) -> int:
        """Return how many bytes were received: 0 at the end of the stream, -1 if none are there now."""

    @abstractmethod
    def send(self, pieces: deque[memoryview]) -> int:
        """Return how many bytes of the pieces, in their order, were taken; 0 if none now."""

    @abstractmethod
    def pending(self) -> bool:
        """Return whether bytes are there that the socket does not show as readable."""

    @abstractmethod
    def close(self) -> None:
        """Close the socket."""


class PlainTransport(SocketTransport):
    """A plain socket."""

    takes_all = True

    def __init__(self, connected: socket.socket) -> None:
        self.file = connected

    def shake(self) -> bool:
        return True

    def receive_into(self, buffer: memoryview) -> int:
        try:
            return self.file.recv_into(buffer)
        except BlockingIOError:
            return -1

    def send(self, pieces: deque[memoryview]) -> int:
        try:
            if len(pieces) == 1:
                return self.file.send(pieces[0])
            return self.file.sendmsg(list(itertools.islice(pieces, _MOST_PIECES)))
        except BlockingIOError:
            return 0

    def pending(self) -> bool:
        return False

    def close(self) -> None:
        self.file.close()


class TlsTransport(SocketTransport):
    """A socket with TLS."""

    def __init__(self, context: ssl.SSLContext, connected: socket.socket, host: str) -> None:
        import ssl

        self._wants_read = ssl.SSLWantReadError
        self._wants_write = ssl.SSLWantWriteError
        self._end = ssl.SSLZeroReturnError
        self.file = self._tls = context.wrap_socket(connected, server_hostname=host, do_handshake_on_connect=False)
        #: What OpenSSL was given and has not taken: it wants the same bytes again.
        self._unsent = b""
        self._failed: OSError | None = None  #: what came behind the bytes received last

    def shake(self) -> bool:
        try:
            self._tls.do_handshake()
        except self._wants_read:
            self.write_event = selectors.EVENT_READ
            return False
        except self._wants_write:
            self.write_event = selectors.EVENT_WRITE
            return False
        self.write_event = selectors.EVENT_WRITE
        return True

    def receive_into(self, buffer: memoryview) -> int:
        if self._failed is not None:
            raise self._failed
        filled, size, receive = 0, len(buffer), self._tls.recv_into
        self.read_event = selectors.EVENT_READ
        try:
            # OpenSSL gives one record at a time, of 16 KiB at most: a turn of the thread for each would cost more
            # than its decryption.
            while filled < size and (found := receive(buffer[filled:])):
                filled += found
        except self._wants_read:
            return filled or -1
        except self._wants_write:
            self.read_event = selectors.EVENT_WRITE
            return filled or -1
        except self._end:
            pass  # told again by the next call
        except OSError as error:
            if not filled:
                raise
            self._failed = error  # the bytes before it come first, as an answer that says why
        return filled

    def send(self, pieces: deque[memoryview]) -> int:
        if not self._unsent:
            data = bytearray(pieces[0][:_RECORD_BYTES])
            for each in itertools.islice(pieces, 1, None):
                if len(data) + len(each) > _RECORD_BYTES:
                    break
                data += each
            self._unsent = bytes(data)
        try:
            taken = self.file.send(self._unsent)
        except self._wants_read:
            self.write_event = selectors.EVENT_READ
            return 0
        except self._wants_write:
            self.write_event = selectors.EVENT_WRITE
            return 0
        self.write_event = selectors.EVENT_WRITE
        self._unsent = b""
        return taken

    def pending(self) -> bool:
        return self._tls.pending() > 0

    def close(self) -> None:
        self.file.close()
