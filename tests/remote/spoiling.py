"""A proxy between clients and the brokers of a `FakeCluster` that spoils answers on their way.

It tells requests apart by their first bytes, and answers by their order, as a client does. A `Spoil` says what
becomes of an answer's frame: which bytes go on, and what becomes of the connection then. The fields of a frame are
those at which the codec finds it cut: so every field of every message is met, without a list of them.
"""

from __future__ import annotations

import socket
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from logstore.errors import MalformedMessageError, ProtocolError
from logstore.protocol.frames import SIZE_BYTES, decode_response, request_head
from tests.remote.fake_cluster import FakeBroker, FakeCluster


class Then(Enum):
    """What becomes of the connection behind a spoiled answer."""

    GOES_ON = "the next answers follow"
    ENDS = "it is closed"
    HANGS = "nothing follows, and it stays open"


class Spoiled(NamedTuple):
    data: bytes
    then: Then


#: What becomes of an answer; None: it goes on, and the next one of its kind is spoiled.
Spoil = Callable[[bytes], Spoiled | None]


def passed(frame: bytes) -> Spoiled:
    """The answer as it is."""
    return Spoiled(frame, Then.GOES_ON)


class Seen(NamedTuple):
    """An answer that has gone through: its kind, and its frame with the size."""

    api_key: int
    version: int
    frame: bytes


_NOTHING = Seen(-1, -1, b"")


# --- what is done to a frame -------------------------------------------------------------------


def cut_at(position: int) -> Spoil:
    """Only the first bytes, and then the end."""
    return lambda frame: Spoiled(frame[:position], Then.ENDS) if position < len(frame) else None


def stopped_at(position: int) -> Spoil:
    """Only the first bytes, and then nothing any more."""
    return lambda frame: Spoiled(frame[:position], Then.HANGS) if position < len(frame) else None


def written_over(position: int, data: bytes) -> Spoil:
    def spoil(frame: bytes) -> Spoiled | None:
        end = position + len(data)
        return Spoiled(frame[:position] + data + frame[end:], Then.GOES_ON) if end <= len(frame) else None

    return spoil


def sized(change: Callable[[int], int]) -> Spoil:
    """Another size of the frame than its bytes have."""

    def spoil(frame: bytes) -> Spoiled:
        size = change(len(frame) - SIZE_BYTES)
        return Spoiled(size.to_bytes(SIZE_BYTES, "big", signed=True) + frame[SIZE_BYTES:], Then.GOES_ON)

    return spoil


def numbered(change: Callable[[int], int]) -> Spoil:
    """The answer to another request, as its number says."""

    def spoil(frame: bytes) -> Spoiled:
        number = change(int.from_bytes(frame[4:8], "big", signed=True))
        return Spoiled(frame[:4] + number.to_bytes(4, "big", signed=True) + frame[8:], Then.GOES_ON)

    return spoil


# --- where its fields are ----------------------------------------------------------------------


def field_starts(seen: Seen) -> list[int]:
    """The position of each field of an answer's frame, its size and its number among them."""
    body = seen.frame[SIZE_BYTES:]
    found = {0, SIZE_BYTES}
    for size in range(len(body)):
        try:
            decode_response(seen.api_key, seen.version, body[:size])
        except MalformedMessageError as error:
            assert error.position is not None
            found.add(SIZE_BYTES + error.position)
    return sorted(found)


def places_inside(seen: Seen) -> list[int]:
    """A position in the middle of each field, and each between two fields."""
    starts = field_starts(seen)
    ends = [*starts[1:], len(seen.frame)]
    return sorted({*starts, *((start + end) // 2 for start, end in zip(starts, ends, strict=True))})


def garbled_lengths(seen: Seen) -> list[Spoil]:
    """Each change of a byte at the beginning of a field after which the answer cannot be read."""
    found = []
    for position in field_starts(seen)[2:]:
        for byte in (b"\xff", b"\x7f", b"\x00"):
            changed = seen.frame[:position] + byte + seen.frame[position + 1 :]
            try:
                decode_response(seen.api_key, seen.version, changed[SIZE_BYTES:])
            except ProtocolError:
                found.append(written_over(position, byte))
                break
    return found


def lies(seen: Seen) -> list[Spoil]:
    """Each change of a byte at the beginning of a field by which the answer says another thing."""
    found = []
    there = decode_response(seen.api_key, seen.version, seen.frame[SIZE_BYTES:]).message
    for position in field_starts(seen)[2:]:
        for byte in (b"\xff", b"\x7f", b"\x02", b"\x01", b"\x00"):
            changed = seen.frame[:position] + byte + seen.frame[position + 1 :]
            try:
                if decode_response(seen.api_key, seen.version, changed[SIZE_BYTES:]).message != there:
                    found.append(written_over(position, byte))
            except ProtocolError:
                pass
    return found


# --- the proxy ---------------------------------------------------------------------------------


class SpoilingProxy:
    """A port before each broker of a cluster, which the brokers advertise from then on.

    Owns: its ports and connections, which end with the ``with`` block.
    """

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.seen: dict[int, Seen] = {}  #: API key -> the longest answer that was not spoiled, of those the newest
        self._plans: dict[int, deque[Spoil]] = defaultdict(deque)
        self._open: set[socket.socket] = set()
        self._listening: list[socket.socket] = []
        for broker in cluster.brokers.values():
            made = socket.create_server(("127.0.0.1", 0))
            broker.advertised = made.getsockname()[1]
            self._listening.append(made)
            threading.Thread(target=self._accept, args=(made, broker), daemon=True).start()

    def plan(self, kind: type[Any], *spoils: Spoil) -> None:
        """What becomes of the next answers to a kind of request, one each."""
        self._plans[kind.API_KEY].extend(spoils)

    def forget(self) -> None:
        """Spoil nothing that was planned."""
        self._plans.clear()

    def planned(self, kind: type[Any]) -> int:
        """How many answers are still to be spoiled."""
        return len(self._plans[kind.API_KEY])

    def __enter__(self) -> SpoilingProxy:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for each in [*self._listening, *self._open]:
            _end(each)

    def _accept(self, listening: socket.socket, broker: FakeBroker) -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            try:
                behind = socket.create_connection(("127.0.0.1", broker.port))
            except OSError:
                _end(client)
                continue
            for each in (client, behind):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open |= {client, behind}
            asked: deque[tuple[int, int]] = deque()
            for work in (self._pass_requests, self._pass_answers):
                threading.Thread(target=self._run, args=(work, client, behind, asked), daemon=True).start()

    def _run(self, work: Callable[..., None], client: socket.socket, behind: socket.socket, asked: Any) -> None:
        try:
            work(client, behind, asked)
        except OSError:
            pass
        finally:
            for each in (client, behind):
                _end(each)
                self._open.discard(each)

    def _pass_requests(self, client: socket.socket, behind: socket.socket, asked: deque[tuple[int, int]]) -> None:
        while True:
            frame = _read_frame(client)
            head = request_head(frame, SIZE_BYTES)
            asked.append((head.api_key, head.version))
            behind.sendall(frame)

    def _pass_answers(self, client: socket.socket, behind: socket.socket, asked: deque[tuple[int, int]]) -> None:
        while True:
            frame = _read_frame(behind)
            api_key, version = asked.popleft()
            plans = self._plans[api_key]
            spoiled = plans[0](frame) if plans else None
            if spoiled is None:
                if len(frame) >= len(self.seen.get(api_key, _NOTHING).frame):
                    self.seen[api_key] = Seen(api_key, version, frame)
                client.sendall(frame)
                continue
            if plans:
                plans.popleft()
            data, then = spoiled
            client.sendall(data)
            if then is Then.ENDS:
                return
            while then is Then.HANGS:
                _read_frame(behind)


def _end(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    connection.close()


def _read_frame(connection: socket.socket) -> bytes:
    size = _read(connection, SIZE_BYTES)
    return size + _read(connection, int.from_bytes(size, "big"))


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError
        data += piece
    return bytes(data)
