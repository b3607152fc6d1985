"""The example's transport on Unix sockets passes the suite of transports."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from examples.replicated.socket_transport import SocketTransport, serve
from logstore.replication import NodeId, Transport
from logstore.testing.conformance import TransportConformance


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
