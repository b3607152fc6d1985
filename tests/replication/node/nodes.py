"""Nodes of one process for tests: a registry in memory, a transport that calls the other node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import logstore
from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.errors import (
    DeliveryTimeoutError,
    LogClosedError,
    NotLeaderError,
    PeerUnreachableError,
    StorageFailedError,
)
from logstore.io._files import LIBC, Files
from logstore.replication import LocalRegistry, Node, Registry, ReplicaMetrics, Transport
from tests.kit.waiting import wait_for

#: What a test makes of an answer: the request, the answer; what arrives.
Alter = Callable[[bytes, bytes], Any]


class Direct(Transport):
    """Calls the other node in the same thread; a node that is not listed is unreachable."""

    def __init__(self, nodes: dict[int, Node]) -> None:
        self.nodes = nodes
        self.cut: set[int] = set()
        self.garble = 0
        self.alter: Alter = lambda request, answer: answer

    def call(self, to: int, request: bytes, *, timeout_s: float) -> bytes:
        node = self.nodes.get(to)
        if node is None or to in self.cut:
            raise PeerUnreachableError(f"node {to} is not there")
        answer = node.answer(request)
        if self.garble:
            self.garble -= 1
            half = len(answer) // 2
            return answer[:half] + bytes([answer[half] ^ 0x10]) + answer[half + 1 :]
        return self.alter(request, answer)


class Cluster:
    """Nodes with stores below one directory."""

    def __init__(self, path, **options) -> None:
        self.path, self.options = path, options
        self.registry = LocalRegistry()
        self.nodes: dict[int, Node] = {}
        self.stores: dict[int, logstore.Store] = {}
        self.transport = Direct(self.nodes)
        self.files: dict[int, Files] = {}  #: of a node, else the machine's
        self.clocks: dict[int, Clock] = {}
        self.connects: dict[int, Callable[[], Registry]] = {}

    def start(self, *numbers: int) -> None:
        for number in numbers:
            self.stores[number] = logstore.open(
                self.path / str(number),
                files=self.files.get(number, LIBC),
                clock=self.clocks.get(number, SYSTEM_CLOCK),
            )
            connect = self.connects.get(number, self.registry.connect)
            self.nodes[number] = Node(self.stores[number], number, connect, self.transport, **self.options)

    def stop(self, number: int) -> None:
        self.nodes[number].close()
        del self.nodes[number]
        self.stores.pop(number).close()

    def kill(self, number: int) -> None:
        """Stop a node that has no time to hand anything over: it stays in the sets that it is in."""
        self.nodes[number]._registry_loop.resign = lambda: None
        self.stop(number)

    def close(self) -> None:
        for number in list(self.nodes):
            self.stop(number)

    def leader(self, topic: str = "t") -> int:
        return next(iter(self.nodes.values())).leader_of(topic)

    def create(self, *numbers: int, minimum: int = 1) -> logstore.Topic:
        """Create the topic on these nodes, the first one as leader; return it once all of them take part."""
        topic = self.nodes[numbers[0]].create_topic(
            "t", replicas=numbers, settings={"min.insync.replicas": minimum}
        )
        wait_for(lambda: self.in_sync(*numbers))
        return topic

    def in_sync(self, *numbers: int) -> bool:
        """Whether these are in sync, and each of them knows the newest epoch."""
        seen = [self.nodes[number].metrics() for number in numbers]
        known = {(each[0].leader_epoch, frozenset(each[0].isr)) for each in seen if each}
        return all(seen) and len(known) == 1 and known.pop()[1] == set(numbers)

    def append(self, asked: int, value: bytes) -> bool:
        """Append where a node says that the leader is; False if a new epoch begins meanwhile, or its disk fails."""
        try:
            self.stores[self.nodes[asked].leader_of("t")]["t"].append(value, acks="all", timeout_s=5)
        except (KeyError, NotLeaderError, DeliveryTimeoutError, StorageFailedError, LogClosedError):
            return False
        return True

    def metrics(self, number: int) -> ReplicaMetrics:
        [found] = self.nodes[number].metrics()
        return found

    def values(self, number: int) -> list[bytes]:
        return [record.value for record in self.stores[number]["t"][0]]
