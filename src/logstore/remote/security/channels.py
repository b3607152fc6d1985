"""Bytes to and from one broker, over a plain socket or over TLS.

A `Channel` moves bytes and knows no messages. Its errors are those of the socket: `TimeoutError` after the given
time, and other `OSError`; `logstore.remote.connection` gives them their meaning. One thread uses a channel at a
time.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


class Channel(ABC):
    """A connected socket. Owns: the socket."""

    @abstractmethod
    def send(self, data: bytes, timeout_ms: int) -> None:
        """Send all bytes; TimeoutError if the peer takes none for so long."""

    @abstractmethod
    def receive(self, size: int, timeout_ms: int) -> bytes | memoryview:
        """Return at least one and at most ``size`` bytes, or none at the end of the stream.

        Raises:
            TimeoutError: none have arrived in time.
        """

    @abstractmethod
    def has_arrived(self) -> bool:
        """Return whether bytes can be received, or the connection is lost. Does not wait."""

    @abstractmethod
    def fileno(self) -> int:
        """Return the socket's descriptor, -1 once it is closed."""

    @abstractmethod
    def close(self) -> None:
        """Close the socket."""


class PlainChannel(Channel):
    """A plain socket, whose time-outs are the system's.

    With a timeout of Python's the socket would not block: each packet of a frame would be a system call.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._waits_ms = -1
        connected.settimeout(None)

    def send(self, data: bytes, timeout_ms: int) -> None:
        self._let_wait(timeout_ms)
        try:
            self._socket.sendall(data)
        except BlockingIOError as error:
            raise TimeoutError from error

    def receive(self, size: int, timeout_ms: int) -> bytes:
        self._let_wait(timeout_ms)
        try:
            return self._socket.recv(size, socket.MSG_WAITALL)
        except BlockingIOError as error:
            raise TimeoutError from error

    def has_arrived(self) -> bool:
        try:
            self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def _let_wait(self, wait_ms: int) -> None:
        """Limit how long a system call on the socket may take from now on.

        The previous limit is kept if it is up to a ninth longer: that saves system calls.
        """
        if self._waits_ms * 0.9 <= wait_ms <= self._waits_ms:
            return
        self._waits_ms = wait_ms
        seconds, rest = divmod(max(wait_ms, 1), 1000)
        value = struct.pack("@ll", seconds, rest * 1000)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)


class TlsChannel(Channel):
    """A socket with TLS, after its handshake.

    Bytes that `has_arrived` had to decrypt are returned by the next `receive`.
    """

    def __init__(self, connected: ssl.SSLSocket) -> None:
        self._socket = connected
        self._waits_ms = -1
        self._ahead = b""
        self._poll = select.poll()
        self._poll.register(connected, select.POLLIN)

    def send(self, data: bytes, timeout_ms: int) -> None:
        self._let_wait(timeout_ms)
        try:
            self._socket.sendall(data)
        except TimeoutError:
            raise
        except OSError:
            # A broker that refuses this client's certificate has sent an alert, and closed: the alert says why.
            self._socket.recv(1)
            raise

    def receive(self, size: int, timeout_ms: int) -> bytes | memoryview:
        if self._ahead:
            found, self._ahead = self._ahead[:size], self._ahead[size:]
            return found
        self._let_wait(timeout_ms)
        if size <= _RECORD_BYTES:
            return self._socket.recv(size)
        # One buffer for the frame: each read returns one record of TLS, which has at most 16 KiB. The buffer itself
        # is returned: a copy of it as bytes would cost an eighth of the client's time.
        deadline = time.monotonic() + timeout_ms / 1000
        buffer = bytearray(size)
        filled = 0
        view = memoryview(buffer)
        while filled < size:
            read = self._socket.recv_into(view[filled:])
            filled += read
            if not read or time.monotonic() >= deadline:
                break
        return view[:filled].toreadonly()

    def has_arrived(self) -> bool:
        if self._ahead or self._socket.pending():
            return True
        if not self._poll.poll(0):
            return False
        # What has arrived may be a message of TLS itself, such as a session ticket: only a read can tell.
        self._waits_ms = -1
        try:
            self._socket.settimeout(0)
            self._ahead = self._socket.recv(_RECORD_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            return not _waits(error)
        return True

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def _let_wait(self, wait_ms: int) -> None:
        """As that of `PlainChannel`: the time-out of each call."""
        if not self._waits_ms * 0.9 <= wait_ms <= self._waits_ms:
            self._waits_ms = wait_ms
            self._socket.settimeout(max(wait_ms, 1) / 1000)


#: The largest record of TLS.
_RECORD_BYTES = 1 << 14


def _waits(error: OSError) -> bool:
    import ssl

    return isinstance(error, ssl.SSLWantReadError)
