"""Frames, however their bytes are cut into pieces, and what they cost before they have come."""

from __future__ import annotations

import select
import socket
import threading
import tracemalloc
from collections import deque
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import ProtocolError
from logstore.remote.network.frames_in import (
    FIRST_BODY_BYTES,
    FRAME_BYTES,
    READ_BYTES,
    TURN_BYTES,
    EndOfStreamError,
    FramesIn,
)
from logstore.remote.security.transports import PlainTransport, SocketTransport

WAIT_S = 30.0


class Pieces(SocketTransport):
    """Bytes that come in given pieces; then the end, or nothing."""

    def __init__(self, data: bytes, sizes: Sequence[int] = (), *, ends: bool = True) -> None:
        self._data = memoryview(data)
        self._sizes = list(sizes)
        self._ends = ends

    def shake(self) -> bool:
        return True

    def receive_into(self, buffer: memoryview) -> int:
        size = self._sizes.pop(0) if self._sizes else max(len(self._data), 1)
        if size == 0:
            return -1
        found, self._data = self._data[: min(size, len(buffer))], self._data[min(size, len(buffer)) :]
        buffer[: len(found)] = found
        return len(found) or (0 if self._ends else -1)

    def send(self, pieces: deque[memoryview]) -> int:
        raise AssertionError

    def pending(self) -> bool:
        return False

    def close(self) -> None:
        pass


def framed(*frames: bytes) -> bytes:
    return b"".join(len(each).to_bytes(4, "big") + each for each in frames)


def read_all(frames_in: FramesIn, transport: SocketTransport) -> list[bytes]:
    found: list[bytes] = []
    for _ in range(10_000):
        try:
            for each in frames_in.read(transport):
                found.append(bytes(each))
        except EndOfStreamError:
            return found
    raise AssertionError("no end")


@given(
    st.lists(
        st.integers(4, 200) | st.integers(READ_BYTES - 8, READ_BYTES + 8) | st.just(5 * READ_BYTES), max_size=8
    ),
    st.lists(st.integers(0, 90_000) | st.integers(1, 9), max_size=60),
)
def test_frames_come_whole_and_in_order(sizes: list[int], pieces: list[int]) -> None:
    frames = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    frames_in = FramesIn()
    assert read_all(frames_in, Pieces(framed(*frames), pieces)) == frames
    assert frames_in.first_bytes == (len(frames[0]).to_bytes(4, "big") if frames else b"")


def test_the_memory_of_a_large_frame_grows_until_it_is_whole() -> None:
    frame = bytes(range(251)) * (5 * FIRST_BODY_BYTES // 251)
    frames_in = FramesIn()
    frames_in.limit = FRAME_BYTES
    assert read_all(frames_in, Pieces(framed(frame, b"next"), [9, FIRST_BODY_BYTES - 5, 1, 7])) == [frame, b"next"]


def test_frames_of_two_connections_share_a_buffer() -> None:
    scratch = bytearray(READ_BYTES)
    one, two = FramesIn(scratch), FramesIn(scratch)
    first = Pieces(framed(b"a" * 10, b"b" * 10), [3, 0, 6, 0, 15, 0])
    second = Pieces(framed(b"c" * 10, b"d" * 10), [2, 0, 9, 0, 3, 0])
    found: list[bytes] = []
    for _ in range(3):
        found += [bytes(each) for each in one.read(first)]
        found += [bytes(each) for each in two.read(second)]
    found += read_all(one, first) + read_all(two, second)
    assert sorted(found) == [each * 10 for each in (b"a", b"b", b"c", b"d")]


def test_a_size_that_is_only_announced_costs_two_mebibytes() -> None:
    frames_in = FramesIn()
    frames_in.limit = FRAME_BYTES
    tracemalloc.start()
    try:
        assert list(frames_in.read(Pieces(FRAME_BYTES.to_bytes(4, "big") + b"x" * 100, ends=False))) == []
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < FIRST_BODY_BYTES + 2 * READ_BYTES


@pytest.mark.parametrize("size", [-1, 0, 3, (1 << 20) + 1])
def test_a_size_out_of_range_is_refused_behind_the_frames_before_it(size: int) -> None:
    data = framed(b"good") + size.to_bytes(4, "big", signed=True)
    reading = FramesIn().read(Pieces(data))
    assert next(reading) == b"good"
    with pytest.raises(ProtocolError, match=f"a frame of {size} bytes is announced"):
        next(reading)


def test_one_connection_reads_only_so_much_before_the_others_have_their_turn() -> None:
    frame = bytes(READ_BYTES)
    frames_in = FramesIn()
    transport = Pieces(framed(*[frame] * 200), ends=False)
    first = sum(len(each) for each in frames_in.read(transport))
    assert TURN_BYTES - 2 * READ_BYTES <= first <= TURN_BYTES + READ_BYTES
    assert frames_in.is_hungry
    while frames_in.is_hungry:
        first += sum(len(each) for each in frames_in.read(transport))
    assert first == 200 * len(frame)


@pytest.mark.parametrize("size", [8, 100, READ_BYTES, 3 * READ_BYTES, FIRST_BODY_BYTES + 10])
def test_a_plain_socket_is_not_asked_what_a_short_read_has_told(size: int) -> None:
    """A read that left a part of its buffer free took all; the selector tells of more, and of the end."""
    ours, peer = socket.socketpair()
    with ours, peer:
        ours.setblocking(False)
        transport = Counting(ours)
        frames_in = FramesIn()
        frames_in.limit = FRAME_BYTES
        frames: list[bytes] = []
        sender = threading.Thread(target=peer.sendall, args=(framed(bytes(size)),))
        sender.start()
        while not frames:
            select.select([ours], [], [], WAIT_S)
            frames += [bytes(each) for each in frames_in.read(transport)]
        sender.join()
        assert frames == [bytes(size)]
        assert size >= READ_BYTES or transport.vain == 0
        peer.close()
        with pytest.raises(EndOfStreamError):
            list(frames_in.read(transport))


class Counting(PlainTransport):
    """Counts the reads that found nothing."""

    vain = 0

    def receive_into(self, buffer: memoryview) -> int:
        read = super().receive_into(buffer)
        self.vain += read < 0
        return read
