"""Where many partitions begin: what brokers are asked, and that it is asked for all of them at once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from logstore.client.consumer import Consumer, open_consumer
from logstore.client.partition_position import PositionRules
from logstore.protocol.generated.messages import (
    FetchRequest,
    ListOffsetsRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
)
from logstore.records import TopicPartition
from logstore.remote.backend.backend import RemoteBackend
from logstore.remote.client import Client
from tests.kit.waiting import wait_for
from tests.remote.fake_cluster import FakeCluster

COUNT = 1_000
NAMES = [TopicPartition("flights", number) for number in range(COUNT)]
ASKED = (OffsetFetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(3, long_polls=True) as cluster:
        for number, partition in enumerate(cluster.topic("flights", COUNT, leaders=[1, 2, 3])):
            if number < 6:
                partition.add([b"%d" % n for n in range(5)])
        yield cluster


@pytest.fixture
def consumer(cluster: FakeCluster, request: pytest.FixtureRequest) -> Callable[..., Consumer]:
    def made(**settings: Any) -> Consumer:
        backend = RemoteBackend(Client(cluster.bootstrap, fetch_max_wait_ms=100))
        request.addfinalizer(backend.close)
        return open_consumer(backend, None, {"enable.auto.commit": False}, settings)

    return made


def asked(cluster: FakeCluster) -> Counter[str]:
    return Counter({cls.__name__: count for cls in ASKED if (count := len(cluster.requests(cls)))})


@pytest.mark.parametrize(
    ("reset", "lists", "begin"), [("earliest", 3, 0), ("latest", 3, 5), ("by_duration:PT1H", 6, 0)]
)
def test_each_leader_is_asked_once_where_its_partitions_begin(
    cluster: FakeCluster, consumer: Callable[..., Consumer], reset: str, lists: int, begin: int
) -> None:
    with consumer(auto_offset_reset=reset) as reader:
        reader.assign(NAMES)
        reader.poll()
        assert asked(cluster) == {"ListOffsetsRequest": lists}
        assert {reader.position(name) for name in NAMES[6:]} == {0}
        if reset != "by_duration:PT1H":
            assert reader._subscription.partitions[NAMES[0]].offset == begin
        assert asked(cluster) == {"ListOffsetsRequest": lists}


def test_the_coordinator_is_asked_once_for_the_offsets_of_a_group(
    cluster: FakeCluster, consumer: Callable[..., Consumer]
) -> None:
    for name in NAMES[:500]:
        cluster.offsets["crew"][name] = (0, "", -1)
    for name in NAMES[:6]:
        cluster.offsets["crew"][name] = (3, "", 0)  # as clients commit that name the epoch
    with consumer(group_id="crew", auto_offset_reset="latest") as reader:
        reader.assign(NAMES)
        reader._rules.find(reader._subscription.partitions.values())
        assert asked(cluster) == {
            "OffsetFetchRequest": 1, "OffsetForLeaderEpochRequest": 3, "ListOffsetsRequest": 3,
        }  # fmt: skip
        assert {record.offset for record in reader.poll(10)} == {3, 4}
        assert {each.stored for each in reader._subscription.turns} == {-1, 0, 3}
        assert len(reader.committed()) == COUNT
        assert asked(cluster)["OffsetFetchRequest"] == 2


def test_partitions_of_a_subscription_are_asked_for_together(
    cluster: FakeCluster, consumer: Callable[..., Consumer]
) -> None:
    with consumer(group_id="crew", auto_offset_reset="latest") as reader:
        reader.subscribe("flights")
        wait_for(lambda: reader.poll(0.1) or len(reader.assignment) == COUNT, 30)
        reader.poll()
        assert asked(cluster) == {"OffsetFetchRequest": 1, "ListOffsetsRequest": 3}


@pytest.mark.parametrize("where", ["beginning", "end", "time"])
def test_each_leader_is_asked_once_where_to_seek(
    cluster: FakeCluster, consumer: Callable[..., Consumer], where: str
) -> None:
    with consumer(auto_offset_reset="earliest") as reader:
        reader.assign(NAMES)
        reader.poll()
        before = asked(cluster)
        if where == "time":
            reader.seek_to_time(0)
        else:
            getattr(reader, f"seek_to_{where}")()
        assert asked(cluster) - before == {"ListOffsetsRequest": 6 if where == "time" else 3}
        assert reader.position(NAMES[0]) == (5 if where == "end" else 0)


def test_partitions_asked_for_one_by_one_are_found(
    cluster: FakeCluster, consumer: Callable[..., Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: without `PositionRules.find_soon` over all, the requests are counted in hundreds."""
    find = PositionRules.find_soon

    def one_by_one(rules: PositionRules, partitions: Any, among: Any) -> None:
        for one in partitions:
            find(rules, [one], among)

    monkeypatch.setattr(PositionRules, "find_soon", one_by_one)
    with consumer(auto_offset_reset="earliest") as reader:
        reader.assign(NAMES[:200])
        reader.poll()
    assert asked(cluster) == {"ListOffsetsRequest": 200}


def poll_and_interrupt_the_reset(reader: Consumer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes once a position was reset, before any broker is asked where to read on."""

    def interrupted(_: PositionRules, partitions: Any, among: Any) -> None:
        assert {one.position for one in partitions} == {-1}
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(PositionRules, "find_soon", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reader.poll()


def test_records_are_read_again_after_an_interrupt_in_the_poll_that_has_reset_their_position(
    cluster: FakeCluster, consumer: Callable[..., Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records from 2 on are taken, 5 is out of range, and Ctrl-C comes while the latest end is asked for."""
    with consumer(auto_offset_reset="latest") as reader:
        reader.assign(NAMES[:1])
        reader.seek(NAMES[0], 0)
        assert [record.offset for record in reader.poll(10, max_records=2)] == [0, 1]
        partition = reader._subscription.partitions[NAMES[0]]
        cluster.brokers[1].plan(FetchRequest, 1)
        wait_for(lambda: partition.cursor.error is not None)  # type: ignore[attr-defined]

        poll_and_interrupt_the_reset(reader, monkeypatch)
        assert [record.offset for record in reader.poll(10)] == [2, 3, 4]


def test_a_partition_that_was_reset_has_its_turn_although_the_fetch_at_its_old_place_has_failed_again(
    cluster: FakeCluster, consumer: Callable[..., Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    with consumer(auto_offset_reset="earliest") as reader:
        reader.assign(NAMES[:1])
        assert len(reader.poll(10)) == 5
        assert reader.poll() == []
        partition = reader._subscription.partitions[NAMES[0]]
        assert partition.end is not None
        cluster.brokers[1].plan(FetchRequest, 1, 1)
        for _ in range(2):
            wait_for(lambda: partition.cursor.error is not None)  # type: ignore[attr-defined]
            if partition.offset >= 0:
                poll_and_interrupt_the_reset(reader, monkeypatch)
        assert [record.offset for record in reader.poll(10)] == [0, 1, 2, 3, 4]


def test_a_reset_does_not_go_by_the_committed_offset_that_an_earlier_round_finds(
    cluster: FakeCluster, consumer: Callable[..., Consumer], monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up, may_end = PositionRules._look_up, threading.Event()

    def slow(rules: PositionRules, *args: Any) -> None:
        look_up(rules, *args)
        assert may_end.wait(60)

    monkeypatch.setattr(PositionRules, "_look_up", slow)
    cluster.offsets["crew"][NAMES[0]] = (3, "", -1)
    with consumer(group_id="crew", auto_offset_reset="earliest") as reader:
        reader.assign(NAMES[:2])
        reader.seek(NAMES[1], 0)  # there is something to read meanwhile
        assert len(reader.poll(10)) == 5
        reader.seek(NAMES[0], 1000)
        partition = reader._subscription.partitions[NAMES[0]]
        wait_for(lambda: reader.poll(0.05) or partition.reset_from == 1000)
        may_end.set()
        assert [record.offset for record in reader.poll(10)] == [0, 1, 2, 3, 4]
        assert partition.stored == -1


def test_partitions_that_were_paused_before_they_had_a_position_are_asked_for_together(
    cluster: FakeCluster, consumer: Callable[..., Consumer]
) -> None:
    with consumer(auto_offset_reset="earliest") as reader:
        reader.assign(NAMES)
        reader.pause()
        assert reader.poll() == []
        assert asked(cluster) == {}
        reader.resume()
        assert reader.poll(10)
        assert asked(cluster) == {"ListOffsetsRequest": 3}
