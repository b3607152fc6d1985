"""Bytes over TLS: several records in one call, and the end or an error behind them."""

from __future__ import annotations

import selectors
import socket
import ssl
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from logstore.remote.security.transports import TlsTransport
from tests.kit.waiting import wait_for
from tests.remote.fake_security import Authority

#: Of one record of TLS at most.
RECORD_BYTES = 1 << 14


class Pair:
    """A transport over TLS, and the other end."""

    def __init__(self, folder: Path) -> None:
        authority = Authority()
        theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        theirs.load_cert_chain(str(authority.issue("localhost").write(folder / "server.pem")))
        ours = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        ours.load_verify_locations(cadata=authority.pem)
        one, self.plain = socket.socketpair()
        one.setblocking(False)
        self.transport = TlsTransport(ours, one, "localhost")
        self.other = theirs.wrap_socket(self.plain, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=self.other.do_handshake)
        thread.start()
        wait_for(self.transport.shake)
        thread.join()

    def receive(self, size: int) -> bytes:
        """What one call gives, once the socket is readable."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.transport.file, selectors.EVENT_READ)
            assert selector.select(30)
        buffer = bytearray(size)
        found = self.transport.receive_into(memoryview(buffer))
        return bytes(buffer[: max(found, 0)])


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    made.transport.receive_into(memoryview(bytearray(1)))  # the tickets of the handshake
    yield made
    made.transport.close()
    made.other.close()


def test_one_call_takes_all_records_that_are_there_and_fit(pair: Pair) -> None:
    sent = bytes(range(256)) * (3 * RECORD_BYTES // 256)
    pair.other.sendall(sent)
    assert pair.receive(2 * RECORD_BYTES + 5) == sent[: 2 * RECORD_BYTES + 5]
    assert pair.transport.pending()
    buffer = bytearray(RECORD_BYTES)
    assert pair.transport.receive_into(memoryview(buffer)) == RECORD_BYTES - 5
    assert bytes(buffer[: RECORD_BYTES - 5]) == sent[2 * RECORD_BYTES + 5 :]
    assert pair.transport.receive_into(memoryview(buffer)) == -1


@pytest.mark.parametrize("tells", [True, False])
def test_the_end_comes_after_the_bytes_before_it_and_stays(pair: Pair, tells: bool) -> None:
    pair.other.sendall(b"last words")
    if tells:
        pair.other.setblocking(False)
        with pytest.raises(ssl.SSLWantReadError):
            pair.other.unwrap()  # its close_notify is sent; ours is not waited for
    pair.other.close()
    assert pair.receive(100) == b"last words"
    for _ in range(3):
        assert pair.transport.receive_into(memoryview(bytearray(100))) == 0


def test_an_error_comes_after_the_bytes_before_it_and_stays(pair: Pair) -> None:
    pair.other.sendall(b"last words")
    # A record of application data that is not encrypted.
    with socket.socket(fileno=pair.other.detach()) as plain:
        plain.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        assert pair.receive(100) == b"last words"
        for _ in range(3):
            with pytest.raises(ssl.SSLError):
                pair.transport.receive_into(memoryview(bytearray(100)))


class CountedSocket:
    """A socket whose calls are counted."""

    def __init__(self, file: socket.socket) -> None:
        self._file = file
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> object:
        self.calls.append(name)
        return getattr(self._file, name)


def test_records_are_read_from_the_socket_together(pair: Pair) -> None:
    sent = b"v" * (3 * RECORD_BYTES)
    pair.other.sendall(sent)
    counted = CountedSocket(pair.transport.file)
    pair.transport.file = counted  # type: ignore[assignment]  # as far as a transport uses it
    buffer = memoryview(bytearray(4 * RECORD_BYTES))
    assert pair.transport.receive_into(buffer) == len(sent)
    # One for all three, and one that finds nothing more; OpenSSL alone makes two for each.
    assert counted.calls == ["recv_into", "recv_into"]


def test_a_piece_is_taken_once_all_its_records_have_gone(pair: Pair) -> None:
    sent = bytes(range(256)) * 8_192
    pieces = deque([memoryview(sent)])
    got = bytearray()
    waited = 0
    while pieces:
        taken = pair.transport.send(pieces)
        if not taken:
            # The socket is full: nothing is sent by itself, so the caller must be asked again.
            assert pair.transport.write_event == selectors.EVENT_WRITE
            waited += 1
            got += pair.other.recv(1 << 20)
        while taken and pieces:
            first = pieces.popleft()
            if taken < len(first):
                pieces.appendleft(first[taken:])
            taken -= min(taken, len(first))
    pair.transport.file.shutdown(socket.SHUT_WR)
    while more := pair.other.recv(1 << 20):
        got += more
    assert waited
    assert bytes(got) == sent


def test_a_refused_certificate_is_told_to_the_other_side(tmp_path: Path) -> None:
    authority = Authority()
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(str(authority.issue("localhost").write(tmp_path / "server.pem")))
    one, two = socket.socketpair()
    one.setblocking(False)
    two.settimeout(10)
    told: list[str | None] = []
    with theirs.wrap_socket(two, server_side=True, do_handshake_on_connect=False) as other:
        transport = TlsTransport(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), one, "localhost")

        def shake() -> None:
            try:
                other.do_handshake()
            except OSError as error:
                told.append(getattr(error, "reason", None))

        thread = threading.Thread(target=shake)
        thread.start()
        with pytest.raises(ssl.SSLCertVerificationError):
            wait_for(transport.shake)
        thread.join()
        transport.close()
    assert told == ["TLSV1_ALERT_UNKNOWN_CA"]
