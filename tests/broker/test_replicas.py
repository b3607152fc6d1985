"""Topics with replicas, served: acks that wait in the loop, leaders that move, what is told of them."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import logstore
from logstore.accumulator.acknowledging import ReplicatedPartition
from logstore.batch._encode import encode
from logstore.broker import Broker, serve
from logstore.broker import produce as produce_module
from logstore.log import Log
from logstore.protocol.frames import encode_request
from logstore.protocol.generated import messages as m
from logstore.records import Acks
from logstore.replication import LocalRegistry, Node
from tests.broker.wire import Wire
from tests.kit.inside import state_of
from tests.kit.waiting import is_readable, wait_for
from tests.replication.node.nodes import Cluster, Direct

BATCH = bytes(encode([b"one", b"two"]))


class Dam:
    """Keeps the calls of followers back: nothing is acknowledged, and within the lag no replica leaves the ISR."""

    def __init__(self, cluster: Cluster) -> None:
        self.open = threading.Event()
        self.open.set()
        self.waiting = 0
        call = cluster.transport.call

        def dammed(to: int, request: bytes, *, timeout_s: float) -> bytes:
            if not self.open.is_set():
                self.waiting += 1
            self.open.wait()
            return call(to, request, timeout_s=timeout_s)

        cluster.transport.call = dammed  # type: ignore[method-assign]

    def close(self) -> None:
        """Hold every call; return once those that were under way have come back."""
        self.open.clear()
        wait_for(lambda: self.waiting)


class Served(Cluster):
    """Nodes in one process, each with a broker on its store."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        self.brokers: dict[int, Broker] = {}

    def start(self, *numbers: int) -> None:
        super().start(*numbers)
        for number in numbers:
            self.brokers[number] = serve(self.stores[number], "127.0.0.1:0")

    def stop(self, number: int) -> None:
        self.brokers.pop(number).close()
        super().stop(number)

    def wire(self, number: int) -> Wire:
        return Wire(self.brokers[number])

    def waits(self, number: int) -> tuple[int, int]:
        """Return how many requests wait in a broker, and how many appends in the replica of its node."""
        produces = self.brokers[number]._requests._produces
        [member] = self.nodes[number]._members()
        return len(produces._begun), len(member.replica._waiting.pending)  # type: ignore[attr-defined]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path, lag_max_ms=60_000, fetch_wait_ms=20)
    yield made
    made.close()


@pytest.fixture
def dam(cluster: Served) -> Iterator[Dam]:
    made = Dam(cluster)
    yield made
    made.open.set()


def request(acks: int, records: bytes = BATCH, timeout_ms: int = 60_000, name: str = "t") -> m.ProduceRequest:
    P = m.ProduceRequest
    data = P.PartitionProduceData(index=0, records=records)
    topic = P.TopicProduceData(name=name, partition_data=[data])
    return P(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])


def answered(response: m.ProduceResponse) -> tuple[int, int]:
    (found,) = response.responses[0].partition_responses
    return found.error_code, found.base_offset


def produce(wire: Wire, acks: int, **more: Any) -> tuple[int, int]:
    return answered(wire.ask(request(acks, **more), 9))


def fetch(wire: Wire, offset: int, version: int = 11, **more: Any) -> Any:
    F = m.FetchRequest
    partition = F.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = F.FetchTopic(topic="t", partitions=[partition])
    asked = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_id": 0, "session_epoch": -1}
    (found,) = wire.ask(F(**{**asked, "topics": [topic], **more}), version).responses[0].partitions
    return found


def move(cluster: Served, leader: int) -> None:
    """Have another node elected, by a state that a controller would store."""
    from logstore.records import TopicPartition
    from logstore.replication import Write, facts

    path = facts.state_path(TopicPartition("t", 0))
    fact = cluster.registry.read(path)
    assert fact is not None
    state = facts.decode_state(fact, (1, 2, 3)[: len(cluster.nodes)])
    wanted = state._replace(leader=leader, leader_epoch=state.leader_epoch + 1, last_leader=leader)
    cluster.registry.commit([Write(path, facts.encode_state(wanted), state.version)])
    wait_for(lambda: cluster.nodes[leader]._replicas.leads("t", 0))
    wait_for(lambda: [each for each, node in cluster.nodes.items() if node._replicas.leads("t", 0)] == [leader])


# -- one node


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[tuple[logstore.Store, Node, Broker]]:
    with logstore.open(tmp_path / "alone") as store:
        with Node(store, 7, LocalRegistry().connect, Direct({})) as node:
            node.create_topic("t", 2)
            with serve(store, "127.0.0.1:0") as broker:
                yield store, node, broker


def test_an_unchanged_client_writes_and_reads_with_any_acks(alone: tuple[logstore.Store, Node, Broker]) -> None:
    store, _, broker = alone
    values = []
    failed: list[object] = []

    def note(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    for acks in ("0", "1", "all"):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": broker.bootstrap, "acks": acks, "enable.idempotence": acks == "all"}
        )
        for number in range(20):
            values.append(b"%s %d" % (acks.encode(), number))
            producer.produce("t", values[-1], partition=1, on_delivery=note)
        assert producer.flush(30) == 0
    assert failed == []
    log = store["t"].log(1)
    wait_for(lambda: log.high_watermark == len(values))
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition("t", 1, 0)])
    found: list[bytes | None] = []
    while len(found) < len(values):
        found += [each.value() for each in consumer.consume(len(values) - len(found), 20)]
    assert found == values
    consumer.close()
    topic = producer.list_topics("t", 10).topics["t"]
    assert [(each.leader, each.replicas, each.isrs, each.error) for each in topic.partitions.values()] == [
        (7, [7], [7], None)
    ] * 2


def test_a_store_without_a_node_refuses_its_topics_with_replicas_and_opens_no_log_of_them(tmp_path: Path) -> None:
    with logstore.open(tmp_path / "alone") as store:
        with Node(store, 7, LocalRegistry().connect, Direct({})) as node:
            node.create_topic("t")
    with logstore.open(tmp_path / "alone") as store, serve(store, "127.0.0.1:0") as broker, Wire(broker) as wire:
        assert produce(wire, 1) == (6, -1)
        assert fetch(wire, 0).error_code == 6
        assert store._host.partitions.found(("t", 0)) is None
        (topic,) = wire.ask(m.MetadataRequest(topics=None), 9).topics
        (partition,) = topic.partitions
        assert (partition.error_code, partition.leader_id) == (5, -1)


def test_the_node_closed_first_answers_what_waits_and_the_broker_closes(cluster: Served, dam: Dam) -> None:
    cluster.start(1, 2)
    cluster.create(1, 2)
    dam.close()
    with cluster.wire(1) as wire:
        wire.send(request(-1), 9)
        wait_for(lambda: cluster.waits(1) == (1, 1))
        produces, node = cluster.brokers[1]._requests._produces, cluster.nodes[1]
        node.close()
        assert answered(wire.receive(m.ProduceRequest, 9)) == (6, 0)
        assert produce(wire, 1) == (6, -1)
        assert fetch(wire, 0).error_code == 6
        (broker,) = wire.ask(m.MetadataRequest(topics=[]), 9).brokers
        assert broker.node_id == 1
        assert not produces._begun
    assert not state_of(cluster.stores[1]["t"].log(0)).leads


def test_the_broker_closed_first_leaves_nothing_behind(cluster: Served, dam: Dam) -> None:
    cluster.start(1, 2)
    cluster.create(1, 2)
    dam.close()
    with cluster.wire(1) as wire:
        wire.send(request(-1), 9)
        wait_for(lambda: cluster.waits(1) == (1, 1))
        cluster.brokers[1].close()
        assert wire.frame() == b""
    wait_for(lambda: cluster.waits(1) == (0, 0))  # the answer comes first
    assert not cluster.brokers[1]._requests._produces._parked


# -- acks


def test_acks_all_waits_for_the_follower_in_no_thread_and_answers_keep_their_order(
    cluster: Served, dam: Dam
) -> None:
    cluster.start(1, 2)
    cluster.create(1, 2)
    dam.close()
    with cluster.wire(1) as wire, cluster.wire(1) as other:
        for number in range(12):  # more than the pool has threads
            wire.send(request(-1), 9, correlation_id=number)
        wait_for(lambda: cluster.waits(1) == (12, 12))
        wire.send(request(1), 9, correlation_id=12)
        assert produce(other, 1)[0] == 0
        assert not is_readable(wire.socket)
        assert fetch(other, 0).high_watermark == 0
        dam.open.set()
        found = [answered(wire.receive(m.ProduceRequest, 9, number)) for number in range(13)]
        assert [code for code, _ in found] == [0] * 13
        assert [offset for _, offset in found[:12]] == list(range(0, 24, 2))
    wait_for(lambda: cluster.waits(1) == (0, 0))  # the answer comes first
    assert cluster.metrics(2).log_end_offset >= 24
    wait_for(lambda: len(cluster.values(2)) >= 24)
    assert cluster.values(2)[:24] == [b"one", b"two"] * 12


def test_a_request_times_out_while_the_follower_does_not_copy(cluster: Served, dam: Dam) -> None:
    cluster.start(1, 2)
    cluster.create(1, 2)
    dam.close()
    with cluster.wire(1) as wire:
        assert produce(wire, -1, timeout_ms=50)[0] == 7
        wait_for(lambda: cluster.waits(1) == (0, 0))
        wire.send(request(-1), 9)
        wait_for(lambda: cluster.waits(1) == (1, 1))
        dam.open.set()
        assert answered(wire.receive(m.ProduceRequest, 9)) == (0, 2)


def test_a_connection_that_closes_leaves_no_wait_and_no_timer(cluster: Served, dam: Dam) -> None:
    cluster.start(1, 2)
    cluster.create(1, 2)
    dam.close()
    produces = cluster.brokers[1]._requests._produces
    with cluster.wire(1) as wire:
        for number in range(3):
            wire.send(request(-1), 9, number)
        # The pool begins the waits, then the loop parks the requests.
        wait_for(lambda: cluster.waits(1) == (3, 3) and len(produces._parked) == 3)
        timers = [each.timer for each in produces._parked.values()]
        # Reset: of a connection that is half closed, what was asked is still answered.
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_for(lambda: cluster.waits(1) == (0, 0))
    assert not produces._parked
    assert not produces._by_connection
    assert [timer[2] for timer in timers] == [None] * 3


@pytest.mark.parametrize("when", ["acknowledged", "timed out"])
def test_an_answer_that_fails_leaves_no_wait_and_no_request(
    cluster: Served, dam: Dam, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    cluster.start(1, 2)
    cluster.create(1, 2)
    dam.close()
    with cluster.wire(1) as wire:
        monkeypatch.setattr(produce_module, "encode_response", _fail)
        wire.send(request(-1, timeout_ms=60_000 if when == "acknowledged" else 50), 9)
        if when == "acknowledged":
            wait_for(lambda: cluster.waits(1) == (1, 1))
            dam.open.set()
        assert wire.frame() == b""
    wait_for(lambda: cluster.waits(1) == (0, 0))


def test_requests_behind_an_answer_that_fails_wait_no_more(
    cluster: Served, dam: Dam, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They came to the pool together, and their connection is closed."""
    cluster.start(1, 2)
    cluster.create(1, 2)
    dam.close()
    monkeypatch.setattr(produce_module, "encode_response", _fail)
    with cluster.wire(1) as wire:
        wire.socket.sendall(encode_request(request(1), 9, 1, None) + encode_request(request(-1), 9, 2, None) * 3)
        assert wire.frame() == b""
    wait_for(lambda: cluster.waits(1) == (0, 0))


def _fail(*_: object) -> bytes:
    raise MemoryError


def test_a_repeated_batch_waits_for_the_high_watermark_too(cluster: Served, dam: Dam) -> None:
    cluster.start(1, 2)
    cluster.create(1, 2)
    stamped = bytes(encode([b"once"], producer_id=41, producer_epoch=0, base_sequence=0))
    dam.close()
    with cluster.wire(1) as wire, cluster.wire(1) as again:
        wire.send(request(-1, stamped), 9)
        wait_for(lambda: cluster.waits(1)[0] == 1)
        again.send(request(-1, stamped), 9)
        wait_for(lambda: cluster.waits(1)[0] == 2)
        assert not is_readable(again.socket)
        dam.open.set()
        assert answered(wire.receive(m.ProduceRequest, 9)) == (0, 0)
        assert answered(again.receive(m.ProduceRequest, 9)) == (0, 0)
    assert cluster.stores[1]["t"].log(0).log_end_offset == 1


def test_below_the_minimum_acks_all_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    cluster = Served(tmp_path, lag_max_ms=300, fetch_wait_ms=20)
    try:
        cluster.start(1, 2)
        cluster.create(1, 2, minimum=2)
        with cluster.wire(1) as wire:
            assert produce(wire, -1) == (0, 0)
            cluster.transport.cut.add(1)
            wire.send(request(-1), 9)
            assert answered(wire.receive(m.ProduceRequest, 9)) == (20, 2)  # the ISR has shrunk while it waited
            assert produce(wire, -1) == (19, -1)
            assert cluster.stores[1]["t"].log(0).log_end_offset == 4
            assert produce(wire, 1) == (0, 4)
    finally:
        cluster.close()


def test_an_append_of_one_epoch_is_not_acknowledged_in_the_next(
    cluster: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.start(1, 2)
    cluster.create(1, 2)
    began, go = threading.Event(), threading.Event()
    calls = type(cluster.stores[1]["t"].log(0).replica)
    append = calls.append_batch

    def slow(self: Any, batch: Any, **more: Any) -> Any:
        result = append(self, batch, **more)
        if not began.is_set():
            began.set()
            assert go.wait(30)
        return result

    with cluster.wire(1) as wire:
        monkeypatch.setattr(calls, "append_batch", slow)
        for acks in (-1, 1):
            began.clear()
            go.clear()
            wire.send(request(acks), 9)
            assert began.wait(30)
            move(cluster, 2)
            move(cluster, 1)  # the same node leads again, in an epoch of which the append is none
            go.set()
            assert answered(wire.receive(m.ProduceRequest, 9))[0] == 6


# -- leaders that move


def test_the_leader_moves_the_old_broker_says_so_and_nothing_acknowledged_is_lost(
    cluster: Served, dam: Dam
) -> None:
    cluster.start(1, 2, 3)
    cluster.create(1, 2, 3, minimum=2)
    with cluster.wire(1) as old, cluster.wire(2) as new:
        assert produce(old, -1) == (0, 0)
        dam.close()
        old.send(request(-1, bytes(encode([b"waits"]))), 10)
        wait_for(lambda: cluster.waits(1) == (1, 1))
        move(cluster, 2)
        response = old.receive(m.ProduceRequest, 10)
        assert answered(response)[0] == 6
        told = response.responses[0].partition_responses[0].current_leader
        epoch = cluster.nodes[2]._replicas.partition("t", 0).leader_epoch  # type: ignore[union-attr]
        assert (told.leader_id, told.leader_epoch) == (2, epoch)
        dam.open.set()
        assert produce(old, -1) == (6, -1)
        assert fetch(old, 0).error_code == 6
        by_message = fetch(old, 0, 12, session_epoch=0)
        assert by_message.error_code == 6
        assert produce(new, -1)[0] == 0
        wait_for(lambda: fetch(new, 0).high_watermark == cluster.stores[2]["t"].log(0).log_end_offset)
    assert cluster.values(2)[:2] == [b"one", b"two"]
    wait_for(lambda: cluster.values(1) == cluster.values(2) == cluster.values(3))


def test_each_fetch_asks_for_the_leader_in_sessions_and_outside_of_them(cluster: Served) -> None:
    """None of these is answered from its bytes: what was found once says nothing of a leader that has moved."""
    cluster.start(1, 2)
    cluster.create(1, 2)
    F = m.FetchRequest

    def step(wire: Wire, session: int, epoch: int, offset: int, max_wait_ms: int = 0) -> Any:
        partition = F.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [F.FetchTopic(topic="t", partitions=[partition])]
        wire.send(
            F(max_wait_ms=max_wait_ms, min_bytes=1, session_id=session, session_epoch=epoch, topics=topics), 11
        )
        return wire.receive(F, 11) if max_wait_ms == 0 else None

    with cluster.wire(1) as wire, cluster.wire(1) as other:
        assert produce(wire, -1) == (0, 0)
        begun = step(wire, 0, 0, 0)
        session = begun.session_id
        for epoch in (1, 2):
            (found,) = step(wire, session, epoch, 0).responses[0].partitions
            assert found.records
            assert fetch(other, 0).records
        step(wire, session, 3, 2, max_wait_ms=600_000)
        wait_for(lambda: cluster.brokers[1]._requests._fetches._parked)
        move(cluster, 2)
        (found,) = wire.receive(F, 11).responses[0].partitions
        assert (found.error_code, found.records) == (6, b"")
        (found,) = step(wire, session, 4, 0).responses[0].partitions
        assert (found.error_code, found.high_watermark, found.records) == (6, -1, b"")
        found = fetch(other, 0)
        assert (found.error_code, found.high_watermark, found.records) == (6, -1, b"")
        move(cluster, 1)
        (found,) = step(wire, session, 5, 0).responses[0].partitions
        assert found.records
        assert fetch(other, 0).records


def test_a_consumer_is_woken_by_the_high_watermark_and_sees_nothing_beyond_it(cluster: Served, dam: Dam) -> None:
    cluster.start(1, 2)
    cluster.create(1, 2)
    dam.close()
    with cluster.wire(1) as writer, cluster.wire(1) as reader:
        assert produce(writer, 1) == (0, 0)
        for version in (4, 12):
            found = fetch(reader, 0, version)
            assert (found.error_code, found.high_watermark, found.records) == (0, 0, b"")
        F = m.FetchRequest
        partition = F.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topic = F.FetchTopic(topic="t", partitions=[partition])
        reader.send(F(max_wait_ms=600_000, min_bytes=1, session_epoch=-1, topics=[topic]), 11)
        parked = cluster.brokers[1]._requests._fetches._parked
        wait_for(lambda: parked)
        dam.open.set()
        (found,) = reader.receive(F, 11).responses[0].partitions
        assert (found.high_watermark, bool(found.records)) == (2, True)


@pytest.mark.parametrize("how", ["moved", "closed"])
def test_a_fetch_that_waits_is_told_at_once_that_the_leader_has_moved(cluster: Served, how: str) -> None:
    cluster.start(1, 2)
    cluster.create(1, 2)
    F = m.FetchRequest
    with cluster.wire(1) as reader:
        assert fetch(reader, 0).error_code == 0  # opens the way of the compiled fetch
        topic = F.FetchTopic(topic="t", partitions=[F.FetchPartition(partition=0, partition_max_bytes=1 << 20)])
        reader.send(F(max_wait_ms=2**31 - 1, min_bytes=1, session_epoch=-1, topics=[topic]), 11)
        parked = cluster.brokers[1]._requests._fetches._parked
        wait_for(lambda: parked)
        if how == "moved":
            move(cluster, 2)
        else:
            cluster.nodes[1].close()
        (found,) = reader.receive(F, 11).responses[0].partitions
        assert found.error_code == 6
        assert not parked
    watchers = cluster.nodes[1]._replicas._watchers
    assert len(watchers) == 1
    cluster.brokers[1].close()
    assert not cluster.nodes[1]._replicas._watchers


def test_a_fetch_that_fails_when_its_leader_has_moved_keeps_no_other_from_being_told(
    cluster: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.start(1, 2)
    cluster.create(1, 2)
    F = m.FetchRequest
    fetches = cluster.brokers[1]._requests._fetches
    with cluster.wire(1) as failing, cluster.wire(1) as reader:
        topic = F.FetchTopic(topic="t", partitions=[F.FetchPartition(partition=0, partition_max_bytes=1 << 20)])
        for wire, count in ((failing, 1), (reader, 2)):
            wire.send(F(max_wait_ms=2**31 - 1, min_bytes=1, session_epoch=-1, topics=[topic]), 11)
            wait_for(lambda count=count: len(fetches._parked) == count)  # type: ignore[misc]
        first = next(iter(fetches._parked.values()))
        find = fetches._find
        monkeypatch.setattr(fetches, "_find", lambda asked: _fail() if asked is first else find(asked))
        move(cluster, 2)
        (found,) = reader.receive(F, 11).responses[0].partitions
        assert found.error_code == 6
        assert failing.frame() == b""
        assert not fetches._parked


def test_a_fetch_of_a_kafka_follower_is_refused_and_moves_no_mark(cluster: Served, dam: Dam) -> None:
    cluster.start(1, 2)
    cluster.create(1, 2)
    dam.close()
    with cluster.wire(1) as wire:
        assert produce(wire, 1) == (0, 0)
        for offset in (0, 2):
            assert fetch(wire, offset, 11, replica_id=2).error_code == 6
            state = m.FetchRequest.ReplicaState(replica_id=2, replica_epoch=1)
            topic_id = cluster.stores[1]["t"].id
            F = m.FetchRequest
            partition = F.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
            topic = F.FetchTopic(topic_id=topic_id, partitions=[partition])
            asked = F(session_epoch=-1, replica_state=state, topics=[topic])
            (found,) = wire.ask(asked, 16).responses[0].partitions
            assert (found.error_code, found.current_leader.leader_id) == (6, -1)
        assert cluster.stores[1]["t"].log(0).high_watermark == 0


def test_offsets_records_and_producers_are_told_by_the_leader_alone(cluster: Served, dam: Dam) -> None:
    cluster.start(1, 2)
    cluster.create(1, 2)
    with cluster.wire(1) as leader, cluster.wire(2) as follower:
        assert produce(leader, -1) == (0, 0)
        dam.close()
        assert produce(leader, 1) == (0, 2)
        wait_for(lambda: cluster.stores[2]["t"].log(0).high_watermark == 2 or dam.waiting)
        for wire, code in ((leader, 0), (follower, 6)):
            L, E, D, P = (
                m.ListOffsetsRequest,
                m.OffsetForLeaderEpochRequest,
                m.DeleteRecordsRequest,
                m.DescribeProducersRequest,
            )
            topic = L.ListOffsetsTopic(name="t", partitions=[L.ListOffsetsPartition(timestamp=-1)])
            (found,) = wire.ask(L(topics=[topic]), 5).topics[0].partitions
            assert (found.error_code, found.offset) == (code, -1 if code else 2)
            ask_epoch = E.OffsetForLeaderTopic(topic="t", partitions=[E.OffsetForLeaderPartition(leader_epoch=1)])
            (found,) = wire.ask(E(topics=[ask_epoch]), 3).topics[0].partitions
            assert (found.error_code, found.end_offset) == (code, -1 if code else 4)
            ask_producers = P.TopicRequest(name="t", partition_indexes=[0])
            (found,) = wire.ask(P(topics=[ask_producers]), 0).topics[0].partitions
            assert found.error_code == code
            before = D.DeleteRecordsTopic(name="t", partitions=[D.DeleteRecordsPartition(offset=1)])
            (found,) = wire.ask(D(topics=[before]), 2).topics[0].partitions
            assert (found.error_code, found.low_watermark) == (code, -1 if code else 1)


# -- what is told of them


def test_metadata_tells_leader_epoch_replicas_and_what_cannot_be_reached(cluster: Served) -> None:
    cluster.start(1, 2)
    cluster.create(1, 2)
    cluster.stores[2].create_topic("plain")
    epoch = cluster.metrics(1).leader_epoch
    for number, leader, code in ((1, 1, 0), (2, -1, 5)):
        with cluster.wire(number) as wire:
            found = wire.ask(m.MetadataRequest(topics=None), 9)
            topics = {each.name: each for each in found.topics}
            assert [each.node_id for each in found.brokers] == [number]
            (told,) = topics["t"].partitions
            assert (told.error_code, told.leader_id, told.leader_epoch) == (code, leader, epoch)
            assert (told.replica_nodes, told.isr_nodes, told.offline_replicas) == ([1, 2], [1, 2], [3 - number])
            old = {each.name: each for each in wire.ask(m.MetadataRequest(topics=[]), 0).topics}["t"].partitions[0]
            assert (old.error_code, old.replica_nodes) == (9 if number == 1 else 5, [number])
            D = m.DescribeTopicPartitionsRequest
            asked = D(topics=[D.TopicRequest(name="t")])
            (described,) = wire.ask(asked, 0).topics[0].partitions
            assert (described.leader_id, described.leader_epoch) == (leader, epoch)
            assert (described.replica_nodes, described.offline_replicas) == ([1, 2], [3 - number])
            cluster_told = wire.ask(m.DescribeClusterRequest(), 0)
            assert [each.broker_id for each in cluster_told.brokers] == [number] == [cluster_told.controller_id]
    with cluster.wire(2) as wire:
        (told,) = topics["plain"].partitions
        assert (told.error_code, told.leader_id, told.replica_nodes) == (0, 2, [2])
        (config,) = wire.ask(_configs_of("2"), 1).results
        assert {each.name: each.value for each in config.configs}["node.id"] == "2"
        (config,) = wire.ask(_configs_of("1"), 1).results
        assert config.error_code == 42


def _configs_of(node: str) -> m.DescribeConfigsRequest:
    D = m.DescribeConfigsRequest
    return D(resources=[D.DescribeConfigsResource(resource_type=4, resource_name=node, configuration_keys=None)])


def test_partitions_that_another_node_has_get_no_log_here(cluster: Served) -> None:
    cluster.start(1, 2)
    topic = cluster.nodes[1].create_topic("t", 2, replication_factor=1)
    assert len(topic) == 2
    mine = [each.partition for each in cluster.nodes[1].metrics()]
    (other,) = {0, 1} - set(mine)
    with cluster.wire(1) as wire:
        P, L = m.ProduceRequest, m.DescribeLogDirsRequest
        data = P.PartitionProduceData(index=other, records=BATCH)
        asked = P(acks=1, timeout_ms=1, topic_data=[P.TopicProduceData(name="t", partition_data=[data])])
        assert answered(wire.ask(asked, 9)) == (6, -1)
        (directory,) = wire.ask(L(topics=None), 1).results
        assert [each.partition_index for each in directory.topics[0].partitions] == mine
        (told,) = wire.ask(m.MetadataRequest(topics=None), 9).topics
        (partition,) = [each for each in told.partitions if each.partition_index == other]
        assert (partition.error_code, partition.leader_id, partition.replica_nodes) == (5, -1, [2])
    assert cluster.stores[1]._host.partitions.found(("t", other)) is None


def test_what_only_a_node_may_do_is_refused_with_what_to_call(cluster: Served) -> None:
    cluster.start(1, 2)
    cluster.create(1, 2)
    with cluster.wire(1) as wire:
        C, G = m.CreateTopicsRequest, m.CreatePartitionsRequest
        factor = C.CreatableTopic(name="a", num_partitions=1, replication_factor=2)
        replicated = C.CreatableTopic(
            name="b",
            num_partitions=1,
            replication_factor=1,
            configs=[C.CreatableTopicConfig(name="logstore.replicated", value="true")],
        )
        placed = C.CreatableTopic(
            name="c",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[C.CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])],
        )
        found = wire.ask(C(topics=[factor, replicated, placed]), 5).topics
        assert [each.error_code for each in found] == [38, 40, 39]
        assert all("Node.create_topic" in each.error_message for each in found)
        here = C.CreatableTopic(
            name="plain",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[C.CreatableReplicaAssignment(partition_index=0, broker_ids=[1])],
        )
        (made,) = wire.ask(C(topics=[here]), 5).topics
        assert made.error_code == 0
        (grown,) = wire.ask(G(topics=[G.CreatePartitionsTopic(name="t", count=3)]), 1).results
        assert (grown.error_code, "Node.create_topic" in grown.error_message) == (37, True)
        (deleted,) = wire.ask(m.DeleteTopicsRequest(topic_names=["t"]), 5).responses
        assert (deleted.error_code, "Node.delete_topic" in deleted.error_message) == (44, True)
        assert cluster.stores[1].topics() == ["plain", "t"]
        assert len(cluster.stores[1]["t"]) == 1
        assert produce(wire, -1) == (0, 0)


def test_no_client_makes_a_topic_with_replicas_a_plain_one(cluster: Served) -> None:
    cluster.start(1, 2)
    cluster.create(1, 2)
    with cluster.wire(1) as wire:
        A, I = m.AlterConfigsRequest, m.IncrementalAlterConfigsRequest  # noqa: E741
        settings = [A.AlterableConfig(name="max.message.bytes", value="5000")]
        resource = A.AlterConfigsResource(resource_type=2, resource_name="t", configs=settings)
        (found,) = wire.ask(A(resources=[resource]), 0).responses
        assert found.error_code == 0
        assert cluster.stores[1]["t"].config.replicated
        assert cluster.stores[1]["t"].config.max_message_bytes == 5000
        for operation, value in ((0, "false"), (1, None)):
            change = I.AlterableConfig(name="logstore.replicated", config_operation=operation, value=value)
            one = I.AlterConfigsResource(resource_type=2, resource_name="t", configs=[change])
            (refused,) = wire.ask(I(resources=[one]), 0).responses
            assert (refused.error_code, "Node.create_topic" in refused.error_message) == (40, True)
        assert produce(wire, -1) == (0, 0)
    assert cluster.stores[1]["t"].config.replicated


def test_elections_and_moves_are_told_as_they_are(cluster: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.start(1, 2)
    cluster.create(1, 2)
    E = m.ElectLeadersRequest
    partitions = [E.TopicPartitions(topic="t", partitions=[0])]

    def elected(election_type: int) -> int:
        with cluster.wire(1) as wire:
            found = wire.ask(E(election_type=election_type, topic_partitions=partitions), 1)
            return int(found.replica_election_results[0].partition_result[0].error_code)

    assert [elected(0), elected(1)] == [84, 84]
    move(cluster, 2)
    assert [elected(0), elected(1)] == [80, 84]
    L = m.ListPartitionReassignmentsRequest
    with cluster.wire(1) as wire:
        assert not wire.ask(L(topics=None), 0).topics
        moving = ReplicatedPartition(True, 1, 3, (1, 2, 3), (1, 2), adding=(3,), removing=(2,))
        monkeypatch.setattr(cluster.nodes[1]._replicas, "partition", lambda *_: moving)
        for topics in (None, [L.ListPartitionReassignmentsTopics(name="t", partition_indexes=[0])]):
            (told,) = wire.ask(L(topics=topics), 0).topics[0].partitions
            assert (told.replicas, told.adding_replicas, told.removing_replicas) == ([1, 2, 3], [3], [2])


def test_the_page_of_metrics_has_the_state_of_replicas(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    from logstore.broker.exporter import MetricsPage

    cluster = Served(tmp_path, lag_max_ms=300, fetch_wait_ms=20)
    try:
        cluster.start(1, 2)
        cluster.create(1, 2, minimum=2)
        cluster.stores[1].create_topic("plain")

        def page(number: int) -> dict[str, float]:
            broker = cluster.brokers[number]
            text = MetricsPage(broker._served, broker._loop, broker.bootstrap).text().decode()
            lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
            return {name: float(value) for name, value in lines}

        of_t = '{partition="0",topic="t"}'
        leading, following = page(1), page(2)
        assert leading["kafka_server_replicamanager_leadercount"] == 2
        assert following["kafka_server_replicamanager_leadercount"] == 0
        assert following["kafka_server_replicamanager_partitioncount"] == 1
        for found in (leading, following):
            assert found["kafka_topic_partition_replicas" + of_t] == 2
            assert found["kafka_topic_partition_leader" + of_t] == 1
        assert leading["kafka_cluster_partition_atminisr" + of_t] == 1
        assert leading["kafka_server_replicamanager_underreplicatedpartitions"] == 0
        cluster.transport.cut.add(1)
        wait_for(lambda: cluster.metrics(1).isr == (1,))
        leading = page(1)
        assert leading["kafka_server_replicamanager_underreplicatedpartitions"] == 1
        assert leading["kafka_cluster_partition_underminisr" + of_t] == 1
        assert leading["kafka_topic_partition_in_sync_replica" + of_t] == 1
        assert leading["kafka_topic_partition_under_replicated_partition" + of_t] == 1
    finally:
        cluster.close()


def test_a_wait_that_is_forgotten_stays_no_longer_than_the_others(cluster: Served, dam: Dam) -> None:
    cluster.start(1, 2)
    cluster.create(1, 2)
    dam.close()
    replicas = cluster.nodes[1]._replicas
    log = cluster.stores[1]["t"].log(0)
    assert isinstance(log, Log)
    waits = []
    for _ in range(10):
        epoch = replicas.check_append(log.name, Acks.ALL)
        waits.append(
            replicas.wait_for_acks(log.name, log.replica.append_batch(BATCH), epoch, Acks.ALL, lambda: None)
        )
    pending = cluster.nodes[1]._members()[0].replica._waiting  # type: ignore[attr-defined]
    for wait in waits[1:9]:
        replicas.forget(log.name, wait)
        assert len(pending.pending) <= 2 * sum(not each.is_settled for each in waits)
    dam.open.set()
    wait_for(lambda: waits[0].is_settled and waits[9].is_settled)
    assert [wait.error is None for wait in waits] == [True, *[False] * 8, True]
