"""Frames as they arrive on one connection.

The memory of a frame is what its size announces up to 2 MiB, and grows beyond that with what has arrived: a peer
that announces a gigabyte and sends nothing costs 2 MiB. Small frames are read together, large ones into their own
buffer, which becomes the frame without a copy. No socket of its own; one thread calls it.
"""

from __future__ import annotations

from collections.abc import Iterator

from logstore.errors import ProtocolError
from logstore.protocol.frames import SIZE_BYTES
from logstore.remote.security.transports import SocketTransport

#: The first answer's limit: the first bytes of another protocol could read as the size of a gigabyte.
FIRST_FRAME_BYTES = 1 << 20
FRAME_BYTES = (1 << 30) - 1

#: Bytes that are read together.
READ_BYTES = 1 << 16
#: Memory that a frame gets at once: enough for the answer to a fetch of one partition. Growing moves bytes.
FIRST_BODY_BYTES = 1 << 21
#: What one connection may read before the others have their turn.
TURN_BYTES = 1 << 22


class EndOfStreamError(Exception):
    """The peer has closed the connection."""

    def __init__(self) -> None:
        super().__init__()


class FramesIn:
    """The frames of one connection. ``limit`` is the largest size that is accepted; it may be changed."""

    def __init__(self, scratch: bytearray | None = None) -> None:
        self.limit = FIRST_FRAME_BYTES
        self.first_bytes = b""  #: of the first frame: they show which protocol is spoken
        #: Shared by the connections of one thread: nothing stays in it between two reads.
        self._scratch = memoryview(bytearray(READ_BYTES) if scratch is None else scratch)
        self._head = b""  #: the beginning of a frame's size
        self._body: bytearray | None = None
        self._filled = 0
        self._size = 0
        self.is_hungry = False  #: whether the last `read` has stopped before the end of what is there

    def read(self, transport: SocketTransport) -> Iterator[bytes | memoryview]:
        """Yield the frames that are there, each without its size.

        Raises:
            EndOfStreamError: after the last frame.
            ProtocolError: a size is out of range; all before it were yielded.
            OSError: the socket has failed.
        """
        left = TURN_BYTES
        self.is_hungry = False
        while left > 0:
            if self._body is None:
                free = self._scratch[len(self._head) :]
                size = len(free)
                read = transport.receive_into(free)
                if read > 0:
                    yield from self._split(read)
            else:
                read, size = self._read_body(transport)
                if self._filled == self._size:
                    frame, self._body = memoryview(self._body).toreadonly(), None
                    yield frame
            if read == 0:
                raise EndOfStreamError
            if read < 0 or (read < size and transport.takes_all):
                return  # without a system call that would say so
            left -= read
        self.is_hungry = True

    def _read_body(self, transport: SocketTransport) -> tuple[int, int]:
        """Return how many bytes were read, and how many were asked for."""
        body = self._body
        assert body is not None
        if self._filled == len(body):
            body += bytes(min(len(body), self._size - len(body)))
        with memoryview(body) as view, view[self._filled :] as free:
            size, read = len(free), transport.receive_into(free)
        self._filled += max(read, 0)
        return read, size

    def _split(self, read: int) -> Iterator[bytes]:
        scratch, end = self._scratch, len(self._head) + read
        scratch[: len(self._head)] = self._head
        self._head = b""
        at = 0
        while end - at >= SIZE_BYTES:
            size = int.from_bytes(scratch[at : at + SIZE_BYTES], "big", signed=True)
            if not self.first_bytes:
                self.first_bytes = bytes(scratch[at : at + SIZE_BYTES])
            if not SIZE_BYTES <= size <= self.limit:
                raise ProtocolError(f"a frame of {size} bytes is announced")
            at += SIZE_BYTES
            there = end - at
            if there >= size:
                # A copy: the scratch is used again before the frame is.
                frame = bytes(scratch[at : at + size])
                at += size
                yield frame
                continue
            self._size, self._filled = size, there
            self._body = bytearray(min(size, FIRST_BODY_BYTES))
            self._body[:there] = scratch[at:end]
            return
        self._head = bytes(scratch[at:end])
