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
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

#: So many pieces are written by one system call, and the system takes no more than 1,024.
_MOST_PIECES = 64
#: Small pieces are joined up to so many bytes: each write over TLS makes one record.
_RECORD_BYTES = 1 << 14
#: Records that are read together.
_READ_BYTES = 1 << 16


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
    """A socket with TLS.

    OpenSSL works on memory, and not on the socket: by itself it makes two system calls for each record of 16 KiB.
    """

    def __init__(self, context: ssl.SSLContext, connected: socket.socket, host: str) -> None:
        import ssl

        self._wants_read = ssl.SSLWantReadError
        self._cut_off = ssl.SSLEOFError
        self.file = connected
        self._arrived, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._arrived, self._to_send, server_hostname=host)
        self._scratch = memoryview(bytearray(_READ_BYTES))
        self._sealed = memoryview(b"")  #: records of which the socket has not taken all
        self._taken = 0  #: bytes of the caller's that are in `_sealed`
        self._unsent = b""  #: what OpenSSL was given and has not taken: it wants the same bytes again
        self._has_ended = False
        self._failed: OSError | None = None  #: what came behind the bytes received last

    def shake(self) -> bool:
        while True:
            try:
                self._tls.do_handshake()
                is_done = True
            except self._wants_read:
                is_done = False
            except OSError:
                self._tell()  # an alert says why
                raise
            if not self._drain():
                self.write_event = selectors.EVENT_WRITE
                return False
            if is_done:
                self.write_event = selectors.EVENT_WRITE
                return True
            if not self._fill():
                self.write_event = selectors.EVENT_READ
                return False

    def receive_into(self, buffer: memoryview) -> int:
        if self._failed is not None:
            raise self._failed
        read: Callable[[int, memoryview], int] = self._tls.read  # type: ignore[assignment]  # by its buffer
        filled, size = 0, len(buffer)
        try:
            # OpenSSL gives one record at a time, of 16 KiB at most: a turn of the thread for each would cost more
            # than its decryption.
            while filled < size and not self._has_ended:
                try:
                    found = read(size - filled, buffer[filled:])
                except self._wants_read:
                    if not self._fill():
                        break
                    continue
                except self._cut_off:
                    found = 0  # without a word, as plain sockets end
                filled += found
                self._has_ended = not found
        except OSError as error:
            self._tell()
            if not filled:
                raise
            self._failed = error  # the bytes before it come first, as an answer that says why
            return filled
        self._tell()  # such as a new key, which the other side has asked for
        return filled or (0 if self._has_ended else -1)

    def send(self, pieces: deque[memoryview]) -> int:
        self.write_event = selectors.EVENT_WRITE
        if not self._taken:
            if not self._unsent:
                self._unsent = _joined(pieces)
            try:
                self._taken = self._tls.write(self._unsent)
            except self._wants_read:
                self.write_event = selectors.EVENT_READ
                self._drain()
                return 0
            self._unsent = b""
        # Not before its records have gone: the caller asks for another turn only while something is left.
        if not self._drain():
            return 0
        taken, self._taken = self._taken, 0
        return taken

    def _fill(self) -> bool:
        """Read records from the socket, or its end; return False if none are there now."""
        try:
            read = self.file.recv_into(self._scratch)
        except BlockingIOError:
            return False
        if read:
            self._arrived.write(self._scratch[:read])
        else:
            self._arrived.write_eof()
        return True

    def _drain(self) -> bool:
        """Write the records that OpenSSL has made; return whether the socket has taken all."""
        while True:
            if not self._sealed:
                if not self._to_send.pending:
                    return True
                self._sealed = memoryview(self._to_send.read())
            try:
                self._sealed = self._sealed[self.file.send(self._sealed) :]
            except BlockingIOError:
                return False

    def _tell(self) -> None:
        """Write what OpenSSL itself has to say, now or with the next `send`."""
        if self._to_send.pending:
            try:
                self._drain()
            except OSError:
                pass  # reads tell the end of a socket

    def pending(self) -> bool:
        return self._tls.pending() > 0 or self._arrived.pending > 0

    def close(self) -> None:
        self.file.close()


def _joined(pieces: deque[memoryview]) -> bytes:
    """Return the first pieces together, up to the size of one record."""
    data = bytearray(pieces[0][:_RECORD_BYTES])
    for each in itertools.islice(pieces, 1, None):
        if len(data) + len(each) > _RECORD_BYTES:
            break
        data += each
    return bytes(data)
