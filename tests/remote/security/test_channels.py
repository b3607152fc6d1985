"""Bytes over TLS: whole, in parts, and without a second copy of what was decrypted."""

from __future__ import annotations

import os
import socket
import ssl
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from logstore.remote.security.channels import TlsChannel
from tests.remote.fake_security import Authority

SIZE = 4 << 20


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[TlsChannel, ssl.SSLSocket]]:
    """A channel, and the socket of its peer."""
    authority = Authority()
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(authority.issue("127.0.0.1").write(tmp_path / "own.pem"))
    ours = ssl.create_default_context(cadata=authority.pem)
    near, far = socket.socketpair()
    made: list[ssl.SSLSocket] = []
    thread = threading.Thread(target=lambda: made.append(theirs.wrap_socket(far, server_side=True)))
    thread.start()
    channel = TlsChannel(ours.wrap_socket(near, server_hostname="127.0.0.1"))
    thread.join()
    yield channel, made[0]
    channel.close()
    made[0].close()


def test_a_large_frame_arrives_in_one_buffer(ends: tuple[TlsChannel, ssl.SSLSocket]) -> None:
    channel, peer = ends
    sent = os.urandom(SIZE)
    thread = threading.Thread(target=peer.sendall, args=(sent,))
    thread.start()
    tracemalloc.start()
    try:
        found = channel.receive(SIZE, 30_000)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    thread.join()
    assert found == sent
    assert most < SIZE * 1.5
    with pytest.raises(TypeError):
        found[0] = 1  # type: ignore[index]  # refused


def test_a_frame_that_ends_early_is_returned_as_far_as_it_came(ends: tuple[TlsChannel, ssl.SSLSocket]) -> None:
    channel, peer = ends
    peer.sendall(b"x" * 30_000)
    peer.close()
    assert channel.receive(SIZE, 30_000) == b"x" * 30_000
    assert len(channel.receive(SIZE, 30_000)) == 0
