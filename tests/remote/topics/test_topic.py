"""A scan of a cluster's topic: partitions in parallel, in an order and within a bound that are told."""

from __future__ import annotations

import multiprocessing
import pickle
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

import logstore
from logstore.client.scan.topic_scan import TopicScan
from logstore.errors import OffsetOutOfRangeError, UnknownPartitionError, UnknownTopicError
from logstore.protocol.generated.messages import FetchRequest, ListOffsetsRequest, OffsetFetchRequest
from logstore.records import TopicPartition
from tests.kit.waiting import wait_for
from tests.remote.fake_cluster import FakeBroker, FakeCluster

PARTITIONS = 12
READ = 10_000  #: bytes of one read: one batch


@pytest.fixture
def brokers() -> Iterator[FakeCluster]:
    """Three brokers that lead a topic's twelve partitions in turn, each with twenty batches of some 10 kB."""
    with FakeCluster(3, long_polls=True) as cluster:
        for number, partition in enumerate(cluster.topic("flights", PARTITIONS, leaders=[1, 2, 3])):
            for batch in range(20):
                values = [b'{"partition": %d, "batch": %d, "pad": "%s"}' % (number, batch, b"x" * 950)] * 10
                partition.add(values, timestamp_ms=1_000 * batch)
        yield cluster


def connect(brokers: FakeCluster, **settings: Any) -> Any:
    return logstore.connect(brokers.bootstrap, retry_backoff_ms=5, **settings)


def places(scan: TopicScan) -> list[tuple[int, int]]:
    return [(record.partition, record.offset) for record in scan]


def fetches(brokers: FakeCluster) -> list[tuple[int, int]]:
    """(partition, offset) of each fetch that any broker got."""
    return [
        (part.partition, part.fetch_offset)
        for request in brokers.requests(FetchRequest)
        for topic in request.topics
        for part in topic.partitions
    ]


def hold_all(brokers: FakeCluster, act: Any) -> None:
    for broker in brokers.brokers.values():
        broker.plan(FetchRequest, *[act] * 400)


def threads() -> int:
    return sum(each.name == "logstore-scan" for each in threading.enumerate())


# --- parallel ----------------------------------------------------------------------------------


def test_partitions_of_all_brokers_are_fetched_at_once(brokers: FakeCluster) -> None:
    """No answer is sent before eight fetches are out: one partition after the other would wait for ever."""
    met = threading.Barrier(8)

    def hold(_broker: FakeBroker, _connection: socket.socket, _frame: bytes) -> bool:
        if len(fetches(brokers)) <= 8:
            met.wait(60)
        return False

    hold_all(brokers, hold)
    with connect(brokers) as store:
        chunks = store["flights"].scan(max_bytes=READ).chunks()
        next(chunks)
        out = fetches(brokers)
        assert sorted(number for number, offset in out if offset == 0) == list(range(8))
        assert all(
            any(isinstance(each, FetchRequest) for each in broker.got) for broker in brokers.brokers.values()
        )
        chunks.close()  # type: ignore[attr-defined]  # a generator
        wait_for(lambda: not threads())


@pytest.mark.parametrize(
    ("settings", "at_once", "read_bytes"),
    [({}, 8, READ), ({"fetch_max_bytes": 6 * READ}, 3, READ), ({"fetch_max_bytes": READ}, 1, READ // 2)],
    ids=["eight partitions", "as many as fetch.max.bytes allows", "smaller reads"],
)
def test_the_bytes_that_are_held_are_bounded(
    brokers: FakeCluster, settings: dict[str, Any], at_once: int, read_bytes: int
) -> None:
    """Counted where they are sent: what brokers have answered, without what the reader has taken."""
    lock, taken, sent, most = threading.Lock(), 0, 0, 0

    def count(_broker: FakeBroker, _connection: socket.socket, frame: bytes) -> bool:
        nonlocal sent, most
        with lock:
            sent += 1
            most = max(most, sent - taken)
        return False

    hold_all(brokers, count)
    with connect(brokers, **settings) as store:
        scan = store["flights"].scan(max_bytes=READ)
        for chunk in scan.chunks():
            assert chunk.size < 11_000  # one batch
            with lock:
                taken += 1
            if taken in (1, 50):  # a slow reader: the brokers are asked for all that is allowed, and no more
                wait_for(
                    lambda allowed=taken + 2 * at_once: sent == allowed, what="not read as far ahead as allowed"
                )
        assert taken == sent == 20 * PARTITIONS
        assert most <= 2 * at_once + 1  # a chunk that was taken counts until this test has counted it
        asked = brokers.requests(FetchRequest)
        assert {part.partition_max_bytes for each in asked for part in each.topics[0].partitions} == {read_bytes}


def test_each_partition_is_in_order_and_partitions_take_turns(brokers: FakeCluster) -> None:
    with connect(brokers) as store:
        scan = store["flights"].scan(max_bytes=READ)
        found = [(chunk.partition, chunk.start_offset) for chunk in scan.chunks()]
        rounds = [(number, 10 * batch) for batch in range(20) for number in range(8)]
        rest = [(number, 10 * batch) for batch in range(20) for number in range(8, PARTITIONS)]
        assert found == rounds + rest
        assert places(scan) == [(number, offset + place) for number, offset in found for place in range(10)]
        assert scan.count() == 20 * 10 * PARTITIONS


def test_with_a_limit_the_records_are_those_of_a_store_and_nothing_is_read_ahead(brokers: FakeCluster) -> None:
    with connect(brokers) as store:
        scan = store["flights"].scan(limit=205, max_bytes=READ, partitions=[3, 1, 2])
        assert places(scan) == [(3, offset) for offset in range(200)] + [(1, offset) for offset in range(5)]
        assert len(fetches(brokers)) == 21
        assert scan.count() == 205
        assert threads() == 0


def test_a_partition_that_moves_to_another_broker_meanwhile_is_read_on(brokers: FakeCluster) -> None:
    with connect(brokers) as store:
        scan = store["flights"].scan(max_bytes=READ)
        records = iter(scan)
        found = [next(records)]
        for number in range(PARTITIONS):
            brokers.lead(TopicPartition("flights", number), 1 + (number + 1) % 3)
        found += records
        assert len({(record.partition, record.offset) for record in found}) == 20 * 10 * PARTITIONS


def test_a_topic_that_is_deleted_meanwhile_ends_the_scan_with_its_error(brokers: FakeCluster) -> None:
    with connect(brokers, default_api_timeout_ms=2_000) as store:
        chunks = store["flights"].scan(max_bytes=READ).chunks()
        next(chunks)
        with brokers.lock:
            del brokers.topics["flights"]
        with pytest.raises(UnknownTopicError, match="'flights'"):
            list(chunks)
        wait_for(lambda: not threads())


# --- the range ---------------------------------------------------------------------------------


def test_the_lag_of_a_group_asks_each_broker_once_for_all_partitions(brokers: FakeCluster) -> None:
    names = [TopicPartition("flights", number) for number in range(PARTITIONS)]
    with connect(brokers) as store:
        with store.consumer(group="report") as consumer:
            consumer.assign(names)
            consumer.commit(dict.fromkeys(names, 200))
        before = len(brokers.requests(ListOffsetsRequest)), len(brokers.requests(OffsetFetchRequest))
        assert [(each.end_offset, each.records) for each in store.lag("report")] == [(200, 0)] * PARTITIONS
        assert len(brokers.requests(ListOffsetsRequest)) - before[0] == 2 * 3
        assert len(brokers.requests(OffsetFetchRequest)) - before[1] == 1


def test_the_ends_of_all_partitions_are_asked_for_together(brokers: FakeCluster) -> None:
    with connect(brokers) as store:
        topic = store["flights"]
        before = len(brokers.requests(ListOffsetsRequest))
        scan = topic.scan(start={3: -10, 4: 150}, end={5: 7})
        assert len(brokers.requests(ListOffsetsRequest)) - before == 2 * 3
        assert [scan.bounds[number] for number in (0, 3, 4, 5)] == [(0, 200), (190, 200), (150, 200), (0, 7)]


def test_only_partitions_that_are_read_need_a_leader(brokers: FakeCluster) -> None:
    with connect(brokers) as store:
        topic = store["flights"]
        brokers.lead(TopicPartition("flights", 7), -1)
        store["flights"].read(0)
        assert topic.scan(partitions=iter([2, 5])).count() == 400
        assert topic.scan(partitions=3, start=190).count() == 10


def test_what_is_outside_of_the_topic_is_refused(brokers: FakeCluster) -> None:
    with connect(brokers) as store:
        topic = store["flights"]
        for wanted in (PARTITIONS, [0, -1], [True, 99]):
            with pytest.raises(UnknownPartitionError, match="it has 12, numbered from 0"):
                topic.scan(partitions=wanted)
        for bounds in ({"start": 201}, {"end": 201}, {"start": {2: 201}}):
            with pytest.raises(OffsetOutOfRangeError, match="the partition holds 0 to 199"):
                topic.scan(**bounds)


def test_a_range_by_times_is_read_by_all_partitions(brokers: FakeCluster) -> None:
    with connect(brokers) as store:
        scan = store["flights"].scan(since=5_000, until=7_000, max_bytes=READ)
        assert sorted(places(scan)) == [(n, offset) for n in range(PARTITIONS) for offset in range(50, 70)]
        assert scan.count() == 20 * PARTITIONS


# --- tables ------------------------------------------------------------------------------------


def test_duckdb_polars_and_pandas_take_a_scan_in_one_line_each(brokers: FakeCluster) -> None:
    duckdb, pl = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    with connect(brokers) as store:
        flights = store["flights"].scan(value_schema={"batch": "int32"}, columns=["partition", "offset", "batch"])
        total = 10 * sum(range(20)) * PARTITIONS
        assert duckdb.sql("SELECT sum(batch), count(*) FROM flights").fetchall() == [(total, 200 * PARTITIONS)]
        assert pl.DataFrame(flights)["batch"].sum() == total
        assert flights.to_pandas()["batch"].sum() == total
        assert flights.to_arrow().column_names == ["partition", "offset", "batch"]
        first = store["flights"].scan(value_schema={"batch": "int32"}, columns=["batch", "offset"], limit=3)
        assert first.to_pandas()["offset"].tolist() == [0, 1, 2]


# --- other processes ---------------------------------------------------------------------------------


def _work_of_a_child(bootstrap: str) -> tuple[list[bytes | None], int]:
    with logstore.connect(bootstrap) as store:
        values = [record.value for record in store["flights"].scan(partitions=[0], start={0: 190})]
        return values, store["flights"].append(b"of a child", partition=0).offset


def test_processes_that_are_spawned_connect_by_themselves(brokers: FakeCluster) -> None:
    with connect(brokers) as store, ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        expected = [record.value for record in store["flights"].scan(partitions=[0], start={0: 190})]
        values, offset = pool.submit(_work_of_a_child, brokers.bootstrap).result(120)
        assert values == expected
        assert store["flights"].record_at(0, offset).value == b"of a child"
        with pytest.raises(TypeError, match=r"the other process needs its own.*call scan\(start, end\) there"):
            pickle.dumps(store["flights"].scan())
