"""Requests that are chosen by a seed, and brokers that answer them by bytes and by message objects."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from logstore.broker import Broker
from logstore.broker._loop import Answer
from logstore.broker.fetching.fetches import Fetches
from logstore.broker.requests import RequestHandler
from logstore.broker.served import Served
from logstore.io._notifier import Notifier
from logstore.log import Log
from logstore.protocol.frames import Request, encode_request
from logstore.protocol.generated.messages import FetchRequest
from logstore.records import Isolation
from logstore.store import Store
from tests.broker.wire import Wire
from tests.kit.waiting import wait_for

SEED = 2027
NAMES = ("mixed", "plain", "rolled", "missing")
UNKNOWN_ID = "AAAAAAAAAAAAAAAAAAAAZw"
DELETED, END = 7, 80
REQUESTS = 600


class Decoding(RequestHandler):
    """Answers each fetch by its message object."""

    def __init__(self, served: Served) -> None:
        super().__init__(served)
        self.quick = self.quick[:1]


def answered_from_bytes(broker: Broker) -> int:
    return broker._requests.quick[1].answered


class Choices:
    """Chooses values of fields: of a usual request, or of any."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.is_usual = rng.random() < 0.5

    def of(self, usual: Sequence[Any], others: Sequence[Any]) -> Any:
        return self.rng.choice(usual if self.is_usual or self.rng.random() < 0.7 else others)


def partition_of(choose: Choices, version: int) -> FetchRequest.FetchPartition:
    return FetchRequest.FetchPartition(
        partition=choose.of([0, 1], [2, 5, -1]),
        current_leader_epoch=choose.of([-1, 0], [3]),
        fetch_offset=choose.of(range(DELETED, END), [0, DELETED - 1, END, 1_000, -1]),
        last_fetched_epoch=choose.of([-1], [0, 3]) if version >= 12 else -1,
        partition_max_bytes=choose.of([1, 100, 700, 1 << 20], [0, -1]),
    )


def spoiled(rng: Random, frame: bytes, version: int) -> bytes:
    """Return a frame that is cut, longer, or wrong in a byte behind its times and numbers."""
    kind = rng.randrange(3)
    body = bytearray(frame[4:])
    if kind == 0:
        del body[rng.randrange(8, len(body)) :]
    elif kind == 1:
        body += rng.randbytes(3)
    else:
        begin = 8 + 2 + len("a test") + (version >= 12) + 4 * (version < 15) + 13 + 8 * (version >= 7)
        body[rng.randrange(begin, len(body))] = rng.choice([0, 1, 127, 128, 255])
    return len(body).to_bytes(4, "big") + bytes(body)


def counts_of(broker: Broker) -> dict[str, tuple[int, int, int]]:
    return {
        name: (each.fetches, each.failed_fetches, each.bytes_out) for name, each in broker._served.counts.items()
    }


class EarlyRecord(set[Notifier]):
    """The fetches that wait on a connection: a record comes between the look of each and its registration."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def add(self, notifier: Notifier) -> None:
        self._log.append([b"early"])
        super().add(notifier)


class WaitingTwins:
    """A connection to each of two brokers over one store, with a topic whose records are waited for."""

    def __init__(
        self, store: Store, brokers: tuple[Broker, Broker], stack: contextlib.ExitStack, partitions: int
    ) -> None:
        self.brokers = brokers
        self.topic = store.create_topic("idle", partitions)
        self.wires = [stack.enter_context(Wire(broker)) for broker in brokers]

    def waiters(self, partition: int, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> int:
        return self.topic.log(partition)._end_mark(isolation).waiters

    def both_wait(self, partition: int, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> None:
        wait_for(lambda: self.waiters(partition, isolation) == 2)

    def appends_early(self, monkeypatch: pytest.MonkeyPatch, partition: int) -> None:
        """Have a record come to a partition as an `EarlyRecord`, on each connection that is there."""
        fetch = Fetches.fetch

        def fetching(fetches: Fetches, request: Request, answer: Answer) -> None:
            answer.connection.state = EarlyRecord(self.topic.log(partition))
            fetch(fetches, request, answer)

        with monkeypatch.context() as patch:
            patch.setattr(Fetches, "fetch", fetching)
            beyond = FetchRequest.FetchPartition(partition=partition, fetch_offset=1_000, partition_max_bytes=1)
            topic = FetchRequest.FetchTopic(topic="idle", partitions=[beyond])
            for wire in self.wires:
                wire.socket.sendall(encode_request(FetchRequest(replica_id=-1, topics=[topic]), 12, 7, "a test"))
                wire.frame()

    def reset(self) -> None:
        """Reset both connections: one that is closed in one direction still gets its answer."""
        for wire in self.wires:
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wire.socket.close()
