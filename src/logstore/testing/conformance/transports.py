"""Conformance suite of `Transport`."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable

import pytest

from logstore.errors import PeerUnreachableError
from logstore.replication.api import NodeId, Transport

#: How long a thread may take to end; only a wrong transport reaches it.
_PATIENCE_S = 30.0

#: A node that is never served.
MISSING: NodeId = 2_000_000_000


class TransportConformance:
    """The suite for `logstore.replication.Transport`, which carries requests to other nodes."""

    @abstractmethod
    def make_transport(self) -> Transport:
        """Return a transport that reaches the nodes of `serve`."""

    @abstractmethod
    def serve(self, node: NodeId, answer: Callable[[bytes], bytes]) -> None:
        """Have requests to a node answered until the test ends, as a server does with `Node.answer`."""

    @pytest.mark.parametrize("size", [1, 1_000, 70_000, 12_000_000])
    def test_requests_and_answers_arrive_whole(self, size: int) -> None:
        self.serve(1, lambda request: request[::-1])
        request = (bytes(range(256)) * (size // 256 + 1))[:size]
        assert bytes(self.make_transport().call(1, request, timeout_s=_PATIENCE_S)) == request[::-1]

    def test_each_node_gets_its_own_requests(self) -> None:
        self.serve(1, lambda request: b"one " + request)
        self.serve(2, lambda request: b"two " + request)
        transport = self.make_transport()
        assert transport.call(2, b"a", timeout_s=_PATIENCE_S) == b"two a"
        assert transport.call(1, b"b", timeout_s=_PATIENCE_S) == b"one b"

    def test_calls_of_many_threads_do_not_meet(self) -> None:
        self.serve(1, lambda request: request * 3)
        transport = self.make_transport()
        wrong: list[object] = []

        def call(number: int) -> None:
            for index in range(20):
                request = b"%d.%d " % (number, index)
                try:
                    answer = transport.call(1, request, timeout_s=_PATIENCE_S)
                except PeerUnreachableError as error:
                    wrong.append(error)
                else:
                    if answer != request * 3:
                        wrong.append((request, answer))

        threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(_PATIENCE_S)
        assert not wrong
        assert not any(thread.is_alive() for thread in threads)

    def test_a_call_that_waits_stops_no_other(self) -> None:
        """A fetch waits at its leader for records, while others are answered."""
        go_on = threading.Event()

        def answer(request: bytes) -> bytes:
            if request == b"wait":
                go_on.wait(_PATIENCE_S)
            return request

        self.serve(1, answer)
        transport = self.make_transport()
        waiting = threading.Thread(target=transport.call, args=(1, b"wait"), kwargs={"timeout_s": _PATIENCE_S})
        waiting.start()
        try:
            assert transport.call(1, b"soon", timeout_s=_PATIENCE_S) == b"soon"
        finally:
            go_on.set()
            waiting.join(_PATIENCE_S)

    def test_a_node_that_is_not_there_is_unreachable(self) -> None:
        with pytest.raises(PeerUnreachableError):
            self.make_transport().call(MISSING, b"a", timeout_s=1.0)

    def test_a_node_that_is_silent_is_unreachable_in_time(self) -> None:
        go_on = threading.Event()

        def answer(request: bytes) -> bytes:
            go_on.wait(_PATIENCE_S)
            return request

        self.serve(1, answer)
        try:
            with pytest.raises(PeerUnreachableError):
                self.make_transport().call(1, b"a", timeout_s=0.1)
        finally:
            go_on.set()

    def test_a_node_that_cannot_answer_is_unreachable(self) -> None:
        """`Node.answer` raises for what is no request, and once it is closed."""

        def answer(request: bytes) -> bytes:
            raise PeerUnreachableError("the node is closed")

        self.serve(1, answer)
        with pytest.raises(PeerUnreachableError):
            self.make_transport().call(1, b"a", timeout_s=5.0)
