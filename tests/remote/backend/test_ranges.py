"""Planned reads over the protocol, as an object: what a planner asks of it, and what a reader gets."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore.client.backend.ranges import Range, RangeTopic
from logstore.errors import (
    BrokerTimeoutError,
    DataLossError,
    InvalidSettingError,
    OffsetOutOfRangeError,
    UnknownSettingError,
    UnknownTopicError,
)
from logstore.protocol import codes
from logstore.protocol.generated.messages import (
    DescribeLogDirsRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
)
from logstore.records import Isolation, TopicPartition
from logstore.remote.backend import ranges
from logstore.remote.backend.ranges import ClusterRanges
from tests.remote import fake_cluster
from tests.remote.fake_cluster import FakeCluster, FakePartition

ORDERS = TopicPartition("orders", 0)

QUICK = {
    "retry.backoff.ms": 2,
    "request.timeout.ms": 400,
    "default.api.timeout.ms": 500,
    "fetch.max.wait.ms": 10,
}


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=2) as made:
        yield made
    while _opened:
        _opened.pop().close()


_opened: list[ClusterRanges] = []


def open_backend(cluster: FakeCluster, **how: Any) -> ClusterRanges:
    """A back end that neither pauses nor waits for long; closed behind the test."""
    made = ClusterRanges(cluster.bootstrap, settings=QUICK | how.pop("settings", {}), **how)
    _opened.append(made)
    return made


def scan(backend: ClusterRanges, range: Range, max_bytes: int = 1 << 20) -> list[tuple[int, bytes | None]]:
    """(offset, value) of the visible records, as a reader goes about it."""
    found: list[tuple[int, bytes | None]] = []
    while range.start < range.end:
        run = backend.fetch(range, max_bytes)
        found += [(offset, value) for offset, _, _, value in run.tuples()]
        assert run.next_offset > range.start, "a fetch that gets nowhere would never end"
        range = range._replace(start=run.next_offset)
    return found


def all_of(cluster: FakeCluster, backend: ClusterRanges, end: int | None = None) -> Range:
    facts = backend.topic("orders")
    return Range("orders", 0, 0, backend.latest([ORDERS])[ORDERS] if end is None else end, facts.id)


# --- planning ----------------------------------------------------------------------------------------


def test_what_there_is(cluster: FakeCluster) -> None:
    cluster.topic("orders", 2, leaders=(1, 2))
    cluster.topic("__consumer_offsets")
    backend = open_backend(cluster)
    facts = RangeTopic("orders", cluster.topics["orders"].id, 2)
    assert backend.topics() == {"orders": facts}
    assert backend.topic("orders") == facts
    with pytest.raises(UnknownTopicError):
        backend.topic("nothing")
    cluster.topics["orders"].partitions.append(FakePartition())
    assert backend.topic("orders").partitions == 3, "a plan asks for what is there now"
    backend.close()
    backend.close()


def test_where_a_partition_begins_and_ends_by_isolation(cluster: FakeCluster) -> None:
    left, right = cluster.topic("orders", 2, leaders=(1, 2))
    left.add([b"x"] * 10)
    left.start, left.stable = 3, 7
    right.add([b"y"] * 5, timestamp_ms=50)
    both = [ORDERS, TopicPartition("orders", 1)]
    committed = open_backend(cluster)
    all_records = open_backend(cluster, isolation=Isolation.READ_UNCOMMITTED)
    assert committed.earliest(both) == dict(zip(both, [3, 0], strict=True))
    assert committed.latest(both) == dict(zip(both, [7, 5], strict=True))
    assert all_records.latest(both) == dict(zip(both, [10, 5], strict=True))
    assert committed.offsets_for_time(dict.fromkeys(both, 20)) == {both[0]: None, both[1]: 0}
    assert committed.offsets_for_time(dict.fromkeys(both, -5)) == {both[0]: 0, both[1]: 0}


def test_epochs_tell_a_log_that_was_cut(cluster: FakeCluster) -> None:
    (partition,) = cluster.topic("orders")
    partition.add([b"x"] * 10)
    backend = open_backend(cluster)
    assert backend.epoch_at(ORDERS) == 0
    assert backend.end_of_epoch(ORDERS, 0) == 10
    assert backend.end_of_epoch(ORDERS, 5) is None
    cluster.lead(ORDERS, 2)
    backend.latest([ORDERS])
    asked = len(cluster.requests(ListOffsetsRequest))
    assert backend.epoch_at(ORDERS) == 1
    assert len(cluster.requests(ListOffsetsRequest)) == asked, "it came with the end of the partition"


@pytest.mark.parametrize("allowed", [True, False])
def test_a_range_of_so_many_bytes(cluster: FakeCluster, allowed: bool) -> None:
    (partition,) = cluster.topic("orders")
    for _ in range(10):
        partition.add([b"x" * 93] * 100)  # about 100 bytes each
    if not allowed:
        cluster.brokers[1].plan(DescribeLogDirsRequest, *[codes.CLUSTER_AUTHORIZATION_FAILED] * 5)
    backend = open_backend(cluster)
    assert 95 <= backend.offset_after_bytes(ORDERS, 0, 1000, 10_000) <= 105
    assert backend.offset_after_bytes(ORDERS, 0, 1000, 1) == 1, "a range is never empty"
    assert backend.offset_after_bytes(ORDERS, 990, 1000, 10_000) == 1000
    assert backend.offset_after_bytes(ORDERS, 5, 6, 1) == 6


@given(start=st.integers(0, 1000), count=st.integers(0, 1000), parts=st.integers(1, 50))
def test_splits_are_the_range(start: int, count: int, parts: int) -> None:
    backend = ClusterRanges("localhost:1")
    whole = Range("orders", 0, start, start + count, "id", 3)
    found = backend.split(whole, parts)
    assert 1 <= len(found) <= parts
    assert found[0].start == start
    assert found[-1].end == start + count
    assert all(left.end == right.start for left, right in itertools.pairwise(found))
    assert {(each.topic_id, each.leader_epoch) for each in found} == {("id", 3)}
    if count:
        assert all(each.start < each.end for each in found)
    assert pickle.loads(pickle.dumps(found)) == found


def test_only_the_beginning_is_pruned_by_time(cluster: FakeCluster) -> None:
    """Times need not rise with offsets, so nothing is known of the end."""
    (partition,) = cluster.topic("orders")
    for time_ms in (10, 30, 20, 40):
        partition.add([b"x"], timestamp_ms=time_ms)
    backend = open_backend(cluster)
    whole = Range("orders", 0, 0, 4)
    assert backend.prune_by_time(whole, 20, 25) == whole._replace(start=1)
    assert backend.prune_by_time(whole, None, 25) == whole
    assert backend.prune_by_time(whole, 41, None) == whole._replace(start=4)
    assert backend.prune_by_time(whole._replace(start=2), 20, None) == whole._replace(start=2)
    assert backend.prune_by_time(whole._replace(end=1), 40, None) == Range("orders", 0, 1, 1)


# --- reading -----------------------------------------------------------------------------------------


def test_a_range_that_begins_and_ends_inside_batches(cluster: FakeCluster) -> None:
    (partition,) = cluster.topic("orders")
    for number in range(10):
        partition.add([b"%d" % (number * 10 + each) for each in range(10)], codec=number % 5)
    backend = open_backend(cluster)
    whole = all_of(cluster, backend)
    for start, end in [(0, 100), (3, 97), (15, 16), (19, 21), (50, 50), (99, 100)]:
        wanted = [(offset, b"%d" % offset) for offset in range(start, end)]
        assert scan(backend, whole._replace(start=start, end=end)) == wanted
        assert scan(backend, whole._replace(start=start, end=end), max_bytes=1) == wanted


def test_a_small_range_does_not_fetch_what_lies_behind_it(cluster: FakeCluster) -> None:
    (partition,) = cluster.topic("orders")
    for _ in range(200):
        partition.add([b"x" * 993] * 10)  # 2 MB
    backend = open_backend(cluster)
    whole = all_of(cluster, backend)
    scan(backend, whole._replace(end=1000), 4 << 20)
    scan(backend, whole._replace(start=1000, end=1010), 4 << 20)
    last = cluster.requests(FetchRequest)[-1].topics[0].partitions[0]
    assert last.partition_max_bytes < 100_000


def test_a_setting_of_kafkas_bounds_a_fetch(cluster: FakeCluster) -> None:
    cluster.topic("orders")[0].add([b"x"])
    backend = open_backend(cluster, settings={"max.partition.fetch.bytes": 12_345})
    scan(backend, all_of(cluster, backend))
    assert cluster.requests(FetchRequest)[0].topics[0].partitions[0].partition_max_bytes == 12_345


@pytest.mark.parametrize("isolation", list(Isolation))
def test_gaps_are_passed(cluster: FakeCluster, isolation: Isolation) -> None:
    """Of compaction between and inside batches, and of transaction markers."""
    (partition,) = cluster.topic("orders")
    partition.add([b"a"])
    partition.end = 20
    partition.add([b"b"])
    first = partition.add([b"aborted"], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    partition.mark(5, commit=False, first=first)
    partition.add([b"c"], producer_id=5, producer_epoch=0, base_sequence=1, transactional=True)
    partition.mark(5, commit=True)
    partition.end = 60
    partition.add([b"d"])
    backend = open_backend(cluster, isolation=isolation)
    whole = all_of(cluster, backend)
    assert whole.end == 61
    wanted = [(0, b"a"), (20, b"b"), (21, b"aborted"), (23, b"c"), (60, b"d")]
    if isolation is Isolation.READ_COMMITTED:
        del wanted[2]
    for size in (1, 1 << 20):
        assert scan(backend, whole, size) == wanted
    assert scan(backend, whole._replace(start=1, end=20)) == []
    assert scan(backend, whole._replace(start=24, end=60)) == []
    assert scan(backend, whole._replace(start=30, end=40)) == []


def test_a_gap_up_to_an_open_transaction_is_passed(cluster: FakeCluster) -> None:
    """A committed reader gets no batch that shows it; the first one of the transaction does."""
    (partition,) = cluster.topic("orders")
    partition.add([b"a"])
    partition.end = 20
    partition.stable = partition.add([b"t"], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    backend = open_backend(cluster)
    assert all_of(cluster, backend).end == 20
    assert scan(backend, all_of(cluster, backend)) == [(0, b"a")]
    assert scan(backend, all_of(cluster, backend)._replace(start=5)) == []


@pytest.mark.parametrize("isolation", list(Isolation))
def test_records_that_do_not_come_are_not_passed_over(
    cluster: FakeCluster, isolation: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    (partition,) = cluster.topic("orders")
    partition.add([b"a"])
    read, answers = partition.read, [b""] * 5
    monkeypatch.setattr(partition, "read", lambda *how: answers.pop() if answers else read(*how))
    backend = open_backend(cluster, isolation=isolation)
    assert scan(backend, all_of(cluster, backend)) == [(0, b"a")]
    assert not answers
    monkeypatch.setattr(ranges, "STALLED_MS", 200)
    monkeypatch.setattr(partition, "read", lambda *how: b"")
    with pytest.raises(DataLossError, match=r"orders-0 has records up to offset 1, but nothing comes"):
        scan(backend, all_of(cluster, backend))


def test_a_topic_that_a_broker_does_not_know_yet_is_no_deleted_one(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.topic("orders")[0].add([b"a"])
    backend = open_backend(cluster)
    whole = all_of(cluster, backend)
    cluster.brokers[1].plan(FetchRequest, 6)
    for broker in cluster.brokers.values():
        broker.plan(MetadataRequest, 3, 3, 3, 3)
    assert scan(backend, whole) == [(0, b"a")]
    monkeypatch.setattr(ranges, "UNKNOWN_MS", 200)
    del cluster.topics["orders"]
    with pytest.raises(UnknownTopicError, match="no topic 'orders'"):
        scan(backend, whole)


def test_faults_on_the_way_are_not_seen(cluster: FakeCluster) -> None:
    (partition,) = cluster.topic("orders")
    for number in range(20):
        partition.add([b"%d" % number])
    faults = [fake_cluster.cut, 6, fake_cluster.disconnect, {"responses": []}, fake_cluster.dribble, 78, 75]
    cluster.brokers[1].plan(FetchRequest, None, *faults)
    backend = open_backend(cluster)
    assert scan(backend, all_of(cluster, backend), max_bytes=1) == [
        (number, b"%d" % number) for number in range(20)
    ]


def test_deleted_offsets_are_named(cluster: FakeCluster) -> None:
    (partition,) = cluster.topic("orders")
    partition.add([b"x"] * 10)
    partition.start = 5
    backend = open_backend(cluster)
    with pytest.raises(OffsetOutOfRangeError, match=r"offset 0 of partition orders-0 was deleted: .* 5 to bef"):
        scan(backend, all_of(cluster, backend))


def test_a_log_that_was_cut_below_the_range_is_no_quiet_end(cluster: FakeCluster) -> None:
    cluster.topic("orders")[0].add([b"x"] * 10)
    backend = open_backend(cluster)
    with pytest.raises(OffsetOutOfRangeError, match=r"orders-0 ends at offset 10: nothing .* of offsets 10 to 19"):
        scan(backend, all_of(cluster, backend, end=20))


def test_a_broker_that_gives_nothing_of_what_it_has_is_no_quiet_end(cluster: FakeCluster) -> None:
    cluster.topic("orders")[0].add([b"x"] * 10)
    cluster.brokers[1].plan(FetchRequest, *[{"responses": []}] * 1000)
    backend = open_backend(cluster)
    with pytest.raises(BrokerTimeoutError, match="orders-0 has records up to offset 10, but nothing comes"):
        scan(backend, all_of(cluster, backend))


def test_a_topic_that_was_made_again_is_a_loss(cluster: FakeCluster) -> None:
    cluster.topic("orders")[0].add([b"old"])
    backend = open_backend(cluster)
    planned = all_of(cluster, backend)
    cluster.topic("orders")[0].add([b"new"])
    with pytest.raises(DataLossError, match="created again since the query was planned: offsets 0 to 0"):
        scan(backend, planned)
    assert scan(backend, all_of(cluster, backend)) == [(0, b"new")]


def test_settings_are_looked_at_before_anything_is_connected() -> None:
    with pytest.raises(InvalidSettingError, match=r"sasl\.mechanism: missing"):
        ClusterRanges("localhost:1", settings={"security.protocol": "SASL_SSL"})
    with pytest.raises(UnknownSettingError, match=r"the nearest name is fetch\.max\.wait\.ms"):
        ClusterRanges("localhost:1", settings={"fetch.max.waitms": 1})
    with pytest.raises(InvalidSettingError, match="'localhost:99999' is no host with a port"):
        ClusterRanges("localhost:99999")


# --- any log ------------------------------------------------------------------------------------------

_STEP = st.one_of(
    st.tuples(st.just("plain"), st.integers(1, 4)),
    st.tuples(st.just("write"), st.integers(1, 3)),
    st.tuples(st.just("commit"), st.integers(1, 3)),
    st.tuples(st.just("abort"), st.integers(1, 3)),
    st.tuples(st.just("gap"), st.integers(1, 9)),
)


def _build(partition: FakePartition, steps: list[tuple[str, int]]) -> tuple[list[int], list[int]]:
    """The visible offsets, of a committed reader and of any, of a log that the steps have written."""
    begun: dict[int, list[int]] = {}
    aborted: set[int] = set()
    all_: list[int] = []
    for what, number in steps:
        if what == "plain":
            first = partition.add([b"p"] * number)
            all_ += range(first, first + number)
        elif what == "write":
            first = partition.add(
                [b"t"] * 2, producer_id=number, producer_epoch=0, base_sequence=0, transactional=True
            )
            begun.setdefault(number, []).extend([first, first + 1])
            all_ += [first, first + 1]
        elif what == "gap":
            partition.end += number
        elif number in begun:
            offsets = begun.pop(number)
            if what == "abort":
                aborted |= set(offsets)
            partition.mark(number, commit=what == "commit", first=offsets[0])
    # The last batch of a log stays, whatever compaction takes.
    all_.append(partition.add([b"last"]))
    stable = min((offsets[0] for offsets in begun.values()), default=partition.end)
    partition.stable = stable
    return [offset for offset in all_ if offset not in aborted and offset < stable], all_


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(_STEP, max_size=40), size=st.sampled_from([1, 200, 1000, 1 << 20]), cuts=st.integers(1, 5))
def test_every_reader_sees_what_it_should_of_any_log(steps: list[Any], size: int, cuts: int) -> None:
    with FakeCluster() as cluster:
        (partition,) = cluster.topic("orders")
        committed, all_ = _build(partition, steps)
        for isolation, wanted in ((Isolation.READ_COMMITTED, committed), (Isolation.READ_UNCOMMITTED, all_)):
            backend = open_backend(cluster, isolation=isolation)
            whole = all_of(cluster, backend)
            pieces = backend.split(whole, cuts)
            found = [offset for piece in pieces for offset, _ in scan(backend, piece, size)]
            assert found == wanted
            backend.close()
