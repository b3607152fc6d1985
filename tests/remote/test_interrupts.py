"""Ctrl-C in each call of a client whose brokers do not answer: it comes out at once, and the client can be closed.

Every time-out is an hour: a call that only ends with one, or a `close` that waits for one, hangs the test.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import logstore
from logstore.errors import DeliveryTimeoutError
from logstore.protocol.generated import messages as m
from logstore.records import TopicPartition
from logstore.remote.topics.store import RemoteStore
from tests.kit.waiting import wait_for
from tests.remote.fake_cluster import FakeCluster, silence

PACKAGE = str(Path(logstore.__file__).parent)
HOUR_MS = 3_600_000
FLIGHTS = TopicPartition("flights", 0)
PATIENT = {
    "request.timeout.ms": HOUR_MS,
    "default.api.timeout.ms": HOUR_MS,
    "socket.connection.setup.timeout.ms": HOUR_MS,
    "socket.connection.setup.timeout.max.ms": HOUR_MS,
    "fetch.max.wait.ms": 100,
    "retry.backoff.ms": 5,
    "reconnect.backoff.ms": 5,
}
#: What a call waits for: the requests to which no answer comes.
Call = Callable[[RemoteStore, "Scene"], object]


class Scene:
    """A cluster of one broker, a store of it, and the moment from which a kind of request is not answered."""

    def __init__(self, kind: type[Any]) -> None:
        self.kind = kind
        self.cluster = FakeCluster(long_polls=True, session_ms=60_000, interval_ms=50)
        (self.partition,) = self.cluster.topic("flights")
        self.partition.add([b"first"])
        self.store = logstore.connect(self.cluster.bootstrap, PATIENT)
        self._striker: threading.Thread | None = None
        self._is_expected = threading.Event()

    def strike(self) -> None:
        """From now on there is no answer, and Ctrl-C is pressed once a request waits for one: see `interrupted`."""
        before = len(self.cluster.requests(self.kind))
        self.cluster.brokers[1].plan(self.kind, *[silence] * 10)

        def press() -> None:
            wait_for(lambda: len(self.cluster.requests(self.kind)) > before, 60)
            self.press()

        self._striker = threading.Thread(target=press, daemon=True)
        self._striker.start()

    def press(self) -> None:
        """Press Ctrl-C once the main thread is in a call of the package, in `interrupted`."""
        self._is_expected.wait(60)
        wait_for(_is_in_a_call, 60)
        os.kill(os.getpid(), signal.SIGINT)

    @contextlib.contextmanager
    def interrupted(self) -> Iterator[None]:
        """Expect Ctrl-C in the block: none comes before it, however slow the machine is."""
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012  the block is the caller's
            self._is_expected.set()
            yield

    def answer_again(self) -> None:
        broker = self.cluster.brokers[1]
        broker._faults.clear()
        broker.stop()
        broker.restart()

    def end(self) -> None:
        if self._striker is not None:
            self._striker.join(60)
        self.store.close()
        self.cluster.__exit__()


def _is_in_a_call() -> bool:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            return True
        frame = frame.f_back
    return False


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("logstore-")]


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = len(threads())
    yield
    wait_for(lambda: len(threads()) <= before, 60, threads)


# --- calls that leave nothing to do ------------------------------------------------------------------


def _connect(store: RemoteStore, scene: Scene) -> None:
    logstore.connect(scene.cluster.bootstrap, PATIENT)


def _consume(store: RemoteStore, scene: Scene) -> None:
    consumer = store.consumer(auto_offset_reset="earliest")
    consumer.assign([FLIGHTS])
    consumer.poll(HOUR_MS / 1000)


def _commit(store: RemoteStore, scene: Scene) -> None:
    consumer = store.consumer(group="report", auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.assign([FLIGHTS])
    assert consumer.poll(60)
    consumer.commit()


def _subscribe(store: RemoteStore, scene: Scene) -> None:
    consumer = store.consumer(group="report", enable_auto_commit=False)
    consumer.subscribe(["flights"])
    consumer.poll(HOUR_MS / 1000)


def _subscribe_modern(store: RemoteStore, scene: Scene) -> None:
    consumer = store.consumer({"group.protocol": "consumer"}, group="report", enable_auto_commit=False)
    consumer.subscribe(["flights"])
    consumer.poll(HOUR_MS / 1000)


CALLS: dict[str, tuple[type[Any], Call]] = {
    "connect": (m.ApiVersionsRequest, _connect),
    "topics": (m.MetadataRequest, lambda store, _: store.topics()),
    "topic": (m.MetadataRequest, lambda store, _: store.topic("flights")),
    "create": (m.CreateTopicsRequest, lambda store, _: store.create_topic("made")),
    "delete": (m.DeleteTopicsRequest, lambda store, _: store.delete_topic("flights")),
    "describe": (m.DescribeConfigsRequest, lambda store, _: store.describe_topic("flights")),
    "sizes": (m.DescribeLogDirsRequest, lambda store, _: store.describe_topic("flights")),
    "alter": (m.IncrementalAlterConfigsRequest, lambda store, _: store.alter_topic("flights", retention_ms=1)),
    "grow": (m.CreatePartitionsRequest, lambda store, _: store.add_partitions("flights", 3)),
    "trim": (m.DeleteRecordsRequest, lambda store, _: store["flights"].delete_records({0: 0})),
    "end": (m.ListOffsetsRequest, lambda store, _: store["flights"][0].end_offset()),
    "read": (m.FetchRequest, lambda store, _: list(store["flights"].read(0))),
    "scan": (m.FetchRequest, lambda store, _: list(store["flights"].scan())),
    "count": (m.FetchRequest, lambda store, _: store["flights"].scan().count()),
    "table": (m.FetchRequest, lambda store, _: store["flights"].scan().to_arrow()),
    "commit offsets": (m.OffsetCommitRequest, lambda store, _: store.commit_offsets("report", {FLIGHTS: 1})),
    "committed": (m.OffsetFetchRequest, lambda store, _: store.committed("report")),
    "lag": (m.OffsetFetchRequest, lambda store, _: store.lag("report")),
    "groups": (m.ListGroupsRequest, lambda store, _: store.offsets.groups()),
    "coordinator": (m.FindCoordinatorRequest, lambda store, _: store.committed("report")),
    "append": (m.ProduceRequest, lambda store, _: store["flights"].append(b"v")),
    "append many": (m.ProduceRequest, lambda store, _: store["flights"].append_many([b"v", b"w"])),
    "poll": (m.FetchRequest, _consume),
    "commit": (m.OffsetCommitRequest, _commit),
    "join": (m.JoinGroupRequest, _subscribe),
    "sync": (m.SyncGroupRequest, _subscribe),
    "join by KIP-848": (m.ConsumerGroupHeartbeatRequest, _subscribe_modern),
}


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_ends_a_call_and_the_store_can_be_closed(call: str) -> None:
    kind, work = CALLS[call]
    scene = Scene(kind)
    scene.strike()
    with scene.interrupted():
        work(scene.store, scene)
    scene.end()


# --- producers: what was sent is still sent ----------------------------------------------------------


SENDS: dict[str, Callable[[Any], object]] = {
    "flush": lambda producer: producer.flush(),
    "result": lambda producer: producer.send("flights", b"other").result(),
    "full": lambda producer: [producer.send("flights", bytes(1_000)) for _ in range(100)],
}


@pytest.mark.parametrize("call", SENDS)
def test_ctrl_c_ends_a_call_of_a_producer_and_nothing_sent_is_lost(call: str) -> None:
    scene = Scene(m.ProduceRequest)
    settings = {"delivery.timeout.ms": HOUR_MS, "max.block.ms": HOUR_MS, "buffer.memory": 20_000, "linger.ms": 0}
    producer = scene.store.producer(settings, batch_size=1_000)
    scene.strike()
    future = producer.send("flights", b"sent")
    with scene.interrupted():
        SENDS[call](producer)
    scene.answer_again()
    assert future.result(60).offset == 1
    scene.end()
    assert scene.partition.values()[1] == b"sent"


def test_ctrl_c_ends_the_close_of_a_producer_and_each_future_is_told() -> None:
    scene = Scene(m.ProduceRequest)
    producer = scene.store.producer({"delivery.timeout.ms": HOUR_MS, "linger.ms": 0})
    scene.strike()
    future = producer.send("flights", b"sent")
    with scene.interrupted():
        producer.close()
    with pytest.raises(DeliveryTimeoutError, match=r"close\(\) was interrupted"):
        future.result(0)
    scene.end()


def test_ctrl_c_ends_the_first_send_to_a_topic() -> None:
    scene = Scene(m.MetadataRequest)
    producer = scene.store.producer(max_block_ms=HOUR_MS)
    scene.strike()
    with scene.interrupted():
        producer.send("flights", b"not sent")
    scene.end()
    assert scene.partition.values() == [b"first"]


def test_ctrl_c_ends_a_close_that_sends_and_a_second_one_ends_the_store() -> None:
    scene = Scene(m.ProduceRequest)
    producer = scene.store.producer({"delivery.timeout.ms": HOUR_MS, "linger.ms": 0})
    scene.strike()
    producer.send("flights", b"sent")
    with scene.interrupted():
        scene.store.close()
    scene.answer_again()
    scene.end()
    assert scene.partition.values() in ([b"first"], [b"first", b"sent"])


# --- members -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [m.OffsetCommitRequest, m.LeaveGroupRequest])
def test_ctrl_c_ends_the_close_of_a_member(kind: type[Any]) -> None:
    scene = Scene(kind)
    settings = {"auto.commit.interval.ms": HOUR_MS, "auto.offset.reset": "earliest"}
    consumer = scene.store.consumer(settings, group="report")
    consumer.subscribe(["flights"])
    wait_for(lambda: consumer.poll(1), 60)
    scene.strike()
    with scene.interrupted():
        consumer.close()
    scene.end()


def test_ctrl_c_ends_the_close_of_a_consumer_with_a_commit_that_is_not_waited_for() -> None:
    scene = Scene(m.OffsetCommitRequest)
    consumer = scene.store.consumer(group="report", enable_auto_commit=False, auto_offset_reset="earliest")
    consumer.assign([FLIGHTS])
    wait_for(lambda: consumer.poll(1), 60)
    scene.strike()
    consumer.commit(wait=False)
    with scene.interrupted():
        consumer.close()
    scene.end()


def test_ctrl_c_ends_the_close_of_a_consumer_whose_coordinator_is_gone() -> None:
    """Each try fails at once, and the next one comes after a pause."""
    scene = Scene(m.OffsetCommitRequest)
    consumer = scene.store.consumer(
        {"auto.commit.interval.ms": HOUR_MS, "auto.offset.reset": "earliest"}, group="report"
    )
    consumer.assign([FLIGHTS])
    wait_for(lambda: consumer.poll(1), 60)
    scene.cluster.brokers[1].plan(m.OffsetCommitRequest, *[15] * 1_000_000)
    before = len(scene.cluster.requests(m.OffsetCommitRequest))

    def press() -> None:
        wait_for(lambda: len(scene.cluster.requests(m.OffsetCommitRequest)) > before + 1, 60)
        scene.press()

    striker = threading.Thread(target=press, daemon=True)
    striker.start()
    with scene.interrupted():
        consumer.close()
    striker.join(60)
    scene.end()
