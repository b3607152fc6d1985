"""The example's transport on Unix sockets passes the suite of transports."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from examples.replicated.socket_transport import SocketTransport, serve
from logstore.replication import NodeId, Transport
from logstore.testing.conformance import TransportConformance


def test_a_server_ends_whenever_it_is_stopped(tmp_path):
    """Its thread may be between two accepts, and end before `stop` has woken it."""
    transport = SocketTransport(tmp_path)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(300):
            stop = serve(tmp_path, SimpleNamespace(node=1, answer=lambda request: request))
            assert transport.call(1, b"a", timeout_s=60.0) == b"a"
            stop()
            assert not list(tmp_path.iterdir())
    finally:
        sys.setswitchinterval(interval)


class TestSocketTransport(TransportConformance):
    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path_factory):
        self.directory = tmp_path_factory.mktemp("s")
        self.stops: list[Callable[[], None]] = []
        yield
        for stop in self.stops:
            stop()

    def make_transport(self) -> Transport:
        return SocketTransport(self.directory)

    def serve(self, node: NodeId, answer: Callable[[bytes], bytes]) -> None:
        stop = serve(self.directory, SimpleNamespace(node=node, answer=answer))
        self.stops.append(stop)
