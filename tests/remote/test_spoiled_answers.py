"""Every call of a client while a proxy spoils the answers: cut in every field, garbled, of another number, halved.

A connection that is cut is another try, and the caller sees nothing of it; nothing is lost, and nothing is there
twice. An answer that cannot be read is an error, at once, and the next call goes well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import logstore
from logstore.errors import BrokerTimeoutError, LogstoreError, ProtocolError
from logstore.groups.membership import classic
from logstore.protocol.generated import messages as m
from logstore.records import TopicPartition
from logstore.remote.topics.store import RemoteStore
from tests.kit.waiting import wait_for
from tests.remote.fake_cluster import FakeCluster
from tests.remote.spoiling import (
    Seen,
    Spoil,
    SpoilingProxy,
    cut_at,
    garbled_lengths,
    lies,
    numbered,
    passed,
    places_inside,
    sized,
    stopped_at,
)

FLIGHTS = TopicPartition("flights", 0)
QUICK = {
    "retry.backoff.ms": 1,
    "retry.backoff.max.ms": 10,
    "reconnect.backoff.ms": 1,
    "reconnect.backoff.max.ms": 5,
    "metadata.max.age.ms": 60_000,
    "fetch.max.wait.ms": 50,
    "request.timeout.ms": 5_000,
}


class World:
    """A client behind a proxy, and what it has done so far."""

    def __init__(self, *, patience_s: float = 30, **settings: Any) -> None:
        self.patience_s = patience_s  #: how long a call may take at most
        self.cluster = FakeCluster(long_polls=True, session_ms=30_000, interval_ms=20)
        (self.partition,) = self.cluster.topic("flights")
        self.partition.add([b"first"])
        self.proxy = SpoilingProxy(self.cluster)
        self.settings = {**QUICK, **settings}
        self.store = self.connect()
        self._producer: Any = None
        self._consumer: Any = None
        self.sent: list[bytes] = [b"first"]
        self.turn = 0

    def connect(self) -> RemoteStore:
        return logstore.connect(self.cluster.bootstrap, self.settings)

    def begin_again(self) -> None:
        """With another client, on what there is now."""
        self.store.close()
        self.proxy.forget()
        self._producer = self._consumer = None
        self.store = self.connect()
        self.sent = self.partition.values()

    @property
    def producer(self) -> Any:
        if self._producer is None:
            self._producer = self.store.producer(linger_ms=0, retry_backoff_ms=1)
        return self._producer

    @property
    def consumer(self) -> Any:
        if self._consumer is None:
            self._consumer = self.store.consumer(auto_offset_reset="earliest")
            self._consumer.assign([FLIGHTS])
        return self._consumer

    def __enter__(self) -> World:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.store.close()
        self.proxy.__exit__()
        self.cluster.__exit__()


# --- the calls ---------------------------------------------------------------------------------


def _connect(world: World) -> None:
    with world.connect() as again:
        assert again.topics()


def _metadata(world: World) -> None:
    assert "flights" in world.store.topics()


def _create(world: World) -> None:
    assert len(world.store.create_topic(f"made-{world.turn}", partitions=2)) == 2


def _delete(world: World) -> None:
    with world.cluster.lock:
        world.cluster.topic(f"gone-{world.turn}")
    world.store.delete_topic(f"gone-{world.turn}")
    assert f"gone-{world.turn}" not in world.cluster.topics


def _describe(world: World) -> None:
    [partition] = world.store.describe_topic("flights").partitions
    assert partition.high_watermark == world.partition.end
    assert partition.size == sum(map(len, world.partition.batches))


def _alter(world: World) -> None:
    assert world.store.alter_topic("flights", retention_ms=world.turn) == {"retention.ms": str(world.turn)}


def _add_partitions(world: World) -> None:
    with world.cluster.lock:
        world.cluster.topic("wide")
    assert len(world.store.add_partitions("wide", 3)) == 3


def _delete_records(world: World) -> None:
    assert world.store["flights"].delete_records({0: 0}) == {0: 0}


def _end_offset(world: World) -> None:
    assert world.store["flights"][0].end_offset() == world.partition.end


def _append(world: World) -> None:
    value = b"appended %d" % world.turn
    assert world.store["flights"].append(value).offset == world.partition.end - 1
    world.sent.append(value)
    assert world.partition.values() == world.sent


def _send(world: World) -> None:
    value = b"sent %d" % world.turn
    assert world.producer.send("flights", value).result(world.patience_s).offset == world.partition.end - 1
    world.sent.append(value)
    assert world.partition.values() == world.sent


def _first_send(world: World) -> None:
    with world.store.producer(linger_ms=0, retry_backoff_ms=1) as producer:
        value = b"first sent %d" % world.turn
        producer.send("flights", value).result(world.patience_s)
    world.sent.append(value)
    assert world.partition.values() == world.sent


def _poll(world: World) -> None:
    value = b"came %d" % world.turn
    with world.cluster.lock:
        world.partition.add([value])
    world.sent.append(value)
    while (end := world.consumer.position(FLIGHTS)) < world.partition.end:
        records = world.consumer.poll(world.patience_s)
        assert [record.value for record in records] == world.sent[end : end + len(records)]
        assert records


def _scan(world: World) -> None:
    assert [record.value for record in world.store["flights"].scan()] == world.partition.values()


def _committed_at(world: World, group: str) -> int:
    """The offset that the coordinator has of a group; -1 if none."""
    return world.cluster.offsets.get(group, {}).get(FLIGHTS, (-1,))[0]


def _commit(world: World) -> None:
    world.store.commit_offsets("report", {FLIGHTS: world.turn})
    assert _committed_at(world, "report") == world.turn


def _first_commit(world: World) -> None:
    with world.connect() as again:
        again.commit_offsets("report", {FLIGHTS: world.turn})
    assert _committed_at(world, "report") == world.turn


def _committed(world: World) -> None:
    world.cluster.offsets["report"][FLIGHTS] = (world.turn, "", -1)
    found = world.store.committed("report").get(FLIGHTS)
    assert found is not None
    assert found.offset == world.turn


def _groups(world: World) -> None:
    world.cluster.offsets["report"][FLIGHTS] = (1, "", -1)
    assert "report" in world.store.offsets.groups()


def _forget(world: World) -> None:
    world.cluster.offsets["report"][FLIGHTS] = (1, "", -1)
    world.store.offsets.delete("report", [FLIGHTS])
    assert not world.cluster.offsets["report"]


def _join(world: World, **settings: Any) -> None:
    """Join a group of its own, read a record, hold out for two heartbeats, and leave."""
    group = f"group-{world.turn}"
    given = {"heartbeat.interval.ms": 20, "session.timeout.ms": 30_000, "max.poll.interval.ms": 2_000, **settings}
    if "group.protocol" in given:
        given = {"group.protocol": "consumer", "max.poll.interval.ms": 2_000}
    with world.store.consumer({"auto.offset.reset": "earliest", **given}, group=group) as consumer:
        consumer.subscribe(["flights"])
        values: list[bytes] = []

        def took_all() -> bool:
            values.extend(record.value for record in consumer.poll(0.1))
            return len(values) >= world.partition.end

        wait_for(took_all, world.patience_s)
        assert values == world.partition.values()
        kind = m.ConsumerGroupHeartbeatRequest if "group.protocol" in settings else m.HeartbeatRequest

        def beats() -> int:
            return sum(each.group_id == group for each in world.cluster.requests(kind))

        before = beats()
        wait_for(lambda: (consumer.poll(), beats() >= before + 2)[1], world.patience_s)
    assert _committed_at(world, group) == world.partition.end


def _join_modern(world: World) -> None:
    _join(world, **{"group.protocol": "consumer"})


Work = Callable[[World], None]

#: Which call meets the answers to which request.
WORKS: list[tuple[type[Any], Work]] = [
    (m.ApiVersionsRequest, _connect),
    (m.MetadataRequest, _connect),
    (m.MetadataRequest, _metadata),
    (m.CreateTopicsRequest, _create),
    (m.DeleteTopicsRequest, _delete),
    (m.DescribeConfigsRequest, _describe),
    (m.DescribeLogDirsRequest, _describe),
    (m.IncrementalAlterConfigsRequest, _alter),
    (m.CreatePartitionsRequest, _add_partitions),
    (m.DeleteRecordsRequest, _delete_records),
    (m.ListOffsetsRequest, _end_offset),
    (m.InitProducerIdRequest, _first_send),
    (m.ProduceRequest, _send),
    (m.ProduceRequest, _append),
    (m.FetchRequest, _poll),
    (m.FetchRequest, _scan),
    (m.FindCoordinatorRequest, _first_commit),
    (m.OffsetCommitRequest, _commit),
    (m.OffsetFetchRequest, _committed),
    (m.ListGroupsRequest, _groups),
    (m.OffsetDeleteRequest, _forget),
    (m.FindCoordinatorRequest, _join),
    (m.JoinGroupRequest, _join),
    (m.SyncGroupRequest, _join),
    (m.HeartbeatRequest, _join),
    (m.LeaveGroupRequest, _join),
    (m.OffsetFetchRequest, _join),
    (m.OffsetCommitRequest, _join),
    (m.ConsumerGroupHeartbeatRequest, _join_modern),
]
#: Requests whose first answer in a call is another one: a broker tells a new member its id.
SECOND = (m.JoinGroupRequest,)
EACH = pytest.mark.parametrize(
    ("kind", "work"), WORKS, ids=[f"{kind.__name__}{work.__name__}" for kind, work in WORKS]
)


@pytest.fixture
def world() -> Iterator[World]:
    with World() as made:
        yield made


@pytest.fixture
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A join that no broker answers is given up after max.poll.interval.ms, not five seconds later."""
    monkeypatch.setattr(classic, "_JOIN_GRACE_MS", 0)


@pytest.fixture(autouse=True)
def _nothing_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No error of the thread of the sockets stays unseen."""
    yield
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def _seen(world: World, kind: type[Any], work: Work) -> Seen:
    """What the answer to a request looks like where nothing is spoiled."""
    work(world)
    world.proxy.seen.pop(kind.API_KEY, None)
    world.turn += 1
    work(world)
    return world.proxy.seen[kind.API_KEY]


def _plan(world: World, kind: type[Any], spoil: Spoil) -> None:
    world.turn += 1
    world.proxy.plan(kind, *([passed] * (kind in SECOND)), spoil)


def _refused(world: World, kind: type[Any], work: Work, spoil: Spoil) -> LogstoreError | None:
    """The error of a call whose answer is spoiled, None if it went well; then the next call does."""
    _plan(world, kind, spoil)
    found = None
    try:
        work(world)
    except LogstoreError as error:
        found = error
    assert not world.proxy.planned(kind)
    values = world.partition.values()
    assert values[: len(world.sent)] == world.sent
    assert len(values) == len(set(values)) <= len(world.sent) + 1
    world.sent = values
    world.turn += 1
    work(world)
    return found


# --- cut and silent ----------------------------------------------------------------------------


@EACH
def test_a_call_goes_well_wherever_an_answer_is_cut(world: World, kind: type[Any], work: Work) -> None:
    seen = _seen(world, kind, work)
    for place in places_inside(seen):
        _plan(world, kind, cut_at(place))
        work(world)
        assert not world.proxy.planned(kind)


@EACH
@pytest.mark.usefixtures("_no_grace")
def test_a_call_goes_well_though_a_broker_stops_within_an_answer(kind: type[Any], work: Work) -> None:
    with World(request_timeout_ms=300) as world:
        seen = _seen(world, kind, work)
        _plan(world, kind, stopped_at(len(seen.frame) // 2))
        work(world)
        assert not world.proxy.planned(kind)


def test_a_member_whose_first_answer_is_lost_joins_once_its_id_has_expired(world: World) -> None:
    """A broker waits for the member that it has given an id, as Kafka's does, up to the session's time."""
    world.proxy.plan(m.JoinGroupRequest, cut_at(20))
    _join(world, **{"session.timeout.ms": 500})


# --- what cannot be read -----------------------------------------------------------------------


@EACH
def test_an_answer_with_a_garbled_length_is_an_error_and_the_next_call_goes_well(
    world: World, kind: type[Any], work: Work
) -> None:
    spoils = garbled_lengths(_seen(world, kind, work))
    assert spoils
    errors = [_refused(world, kind, work, spoil) for spoil in spoils]
    # A member that leaves does not look at what it is answered.
    assert any(isinstance(each, ProtocolError) for each in errors) == (kind is not m.LeaveGroupRequest)


@EACH
@pytest.mark.parametrize("spoil", [numbered(lambda number: number + 1), numbered(lambda number: number - 1)])
def test_an_answer_of_another_number_is_an_error_and_the_next_call_goes_well(
    world: World, kind: type[Any], work: Work, spoil: Spoil
) -> None:
    _seen(world, kind, work)
    error = _refused(world, kind, work, spoil)
    assert error is None or isinstance(error, ProtocolError)


@EACH
@pytest.mark.parametrize("size", [-1, 0, 3, 1 << 30, (1 << 31) - 1])
def test_a_size_that_no_answer_has_is_an_error_and_the_next_call_goes_well(
    world: World, kind: type[Any], work: Work, size: int
) -> None:
    _seen(world, kind, work)
    error = _refused(world, kind, work, sized(lambda _: size))
    assert error is None or isinstance(error, ProtocolError)


@EACH
@pytest.mark.usefixtures("_no_grace")
@pytest.mark.parametrize("more", [-1, 1])
def test_a_size_that_is_not_the_answers_ends_the_connection(kind: type[Any], work: Work, more: int) -> None:
    with World(request_timeout_ms=300) as world:
        _seen(world, kind, work)
        error = _refused(world, kind, work, sized(lambda size: size + more))
        assert error is None or isinstance(error, ProtocolError | BrokerTimeoutError)


# --- what is not true --------------------------------------------------------------------------

#: A broker that says so is believed: a client waits for what it names, but not for ever.
SOON = {
    "request.timeout.ms": 200,
    "default.api.timeout.ms": 300,
    "socket.connection.setup.timeout.ms": 200,
    "fetch.max.wait.ms": 20,
}


@EACH
def test_an_answer_that_is_not_true_is_believed_or_an_error_of_ours(kind: type[Any], work: Work) -> None:
    with World(patience_s=0.4, **SOON) as world:
        for spoil in lies(_seen(world, kind, work)):
            _plan(world, kind, spoil)
            try:
                work(world)
            except (LogstoreError, AssertionError):
                world.begin_again()
        _metadata(world)


@pytest.mark.parametrize(
    ("kind", "work", "part"),
    [
        (m.OffsetCommitRequest, _commit, "topics"),
        (m.CreateTopicsRequest, _create, "topics"),
        (m.DeleteTopicsRequest, _delete, "responses"),
        (m.CreatePartitionsRequest, _add_partitions, "results"),
    ],
)
def test_what_an_answer_leaves_out_is_not_taken_for_done(
    world: World, kind: type[Any], work: Work, part: str
) -> None:
    work(world)
    world.turn += 1
    before = len(world.cluster.requests(kind))
    world.cluster.brokers[1].plan(kind, {part: []})
    work(world)
    assert len(world.cluster.requests(kind)) == before + 2


#: Answers, and the part of them that tells of what was asked for.
PARTS: list[tuple[type[Any], Work, str]] = [
    (m.DescribeConfigsRequest, _describe, "results"),
    (m.DescribeLogDirsRequest, _describe, "results"),
    (m.IncrementalAlterConfigsRequest, _alter, "responses"),
    (m.CreateTopicsRequest, _create, "topics"),
    (m.DeleteTopicsRequest, _delete, "responses"),
    (m.CreatePartitionsRequest, _add_partitions, "results"),
    (m.DeleteRecordsRequest, _delete_records, "topics"),
    (m.ListOffsetsRequest, _end_offset, "topics"),
    (m.ProduceRequest, _send, "responses"),
    (m.FetchRequest, _poll, "responses"),
    (m.FindCoordinatorRequest, _first_commit, "coordinators"),
    (m.OffsetCommitRequest, _commit, "topics"),
    (m.OffsetFetchRequest, _committed, "groups"),
    (m.OffsetFetchRequest, _join, "groups"),
    (m.MetadataRequest, _metadata, "topics"),
    (m.MetadataRequest, _metadata, "brokers"),
    (m.ApiVersionsRequest, _connect, "api_keys"),
]


@pytest.mark.parametrize(
    ("kind", "work", "part"), PARTS, ids=[f"{kind.__name__}{work.__name__}-{part}" for kind, work, part in PARTS]
)
def test_an_answer_that_leaves_out_what_was_asked_for_is_another_try_or_an_error_of_ours(
    kind: type[Any], work: Work, part: str
) -> None:
    with World(patience_s=1, **SOON) as world:
        work(world)
        world.turn += 1
        world.cluster.brokers[1].plan(kind, {part: []})
        try:
            work(world)
        except (LogstoreError, AssertionError):
            world.begin_again()
        world.turn += 1
        work(world)
