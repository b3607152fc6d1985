"""The source over Kafka's protocol: the same planner and reader, with fetches one ahead; brokers are played."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logstore.batch._batch import Batches
from logstore.errors import CorruptRecordError
from logstore.protocol.generated.messages import OffsetCommitRequest
from logstore.spark.reading.fetches import ahead
from logstore.spark.reading.options import ReadOptions
from logstore.spark.reading.partition import read_ranges
from logstore.spark.source import BatchReader
from tests.remote.fake_cluster import FakeCluster

#: A session starts, and Python processes with it, on a machine that may be busy.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=2) as made:
        for number, partition in enumerate(made.topic("orders", 2, leaders=[1, 2])):
            for n in range(20):
                partition.add([b"%d-%d" % (number, n * 10 + m) for m in range(10)], timestamp_ms=n)
        yield made


def options(cluster: FakeCluster, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": "orders"} | more


def rows(cluster: FakeCluster, **more: str) -> list[tuple[int, int, bytes]]:
    reader = BatchReader(ReadOptions.of(options(cluster, **more)).for_batch())
    return [
        (row["partition"], row["offset"], row["value"])
        for part in reader.partitions()
        for batch in read_ranges(part, reader.options)
        for row in batch.to_pylist()
    ]


def test_a_topic_of_brokers_is_a_table(cluster: FakeCluster) -> None:
    everything = [(number, n, b"%d-%d" % (number, n)) for number in range(2) for n in range(200)]
    assert rows(cluster) == everything
    assert rows(cluster, fetchBytes="1k", minPartitions="5") == everything
    assert rows(cluster, startingOffsets='{"orders": {"0": 195, "1": -2}}',
                endingOffsets='{"orders": {"0": -1, "1": 3}}') == everything[195:203]  # fmt: skip


def runs(count: int, seen: list[int], fail_at: int = -1) -> Iterator[Batches]:
    for number in range(count):
        seen.append(number)
        if number == fail_at:
            raise CorruptRecordError("damaged")
        yield Batches(b"", start_offset=number)


def test_one_fetch_is_under_way_while_one_is_used_and_no_more() -> None:
    seen: list[int] = []
    found = ahead(runs(5, seen))
    for number in range(5):
        assert next(found).start_offset == number
        assert len(seen) <= number + 2
    assert next(found, None) is None
    assert threading.active_count() < 50


def test_what_a_fetch_raises_is_raised_in_its_turn_and_a_reader_may_end_early() -> None:
    found = ahead(runs(5, [], fail_at=2))
    assert [next(found).start_offset, next(found).start_offset] == [0, 1]
    with pytest.raises(CorruptRecordError, match="damaged"):
        next(found)
    early = ahead(runs(5, []))
    next(early)
    early.close()
    for thread in threading.enumerate():
        if thread.name.startswith("logstore-fetch"):
            # A reader does not wait for its thread, which ends by itself.
            thread.join(300)
            assert not thread.is_alive()


def test_a_session_reads_brokers_by_batch_and_by_stream(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    table = spark.read.format("logstore").options(**options(cluster)).load()
    assert table.count() == 400
    assert table.where("partition = 1 and offset >= 190").count() == 10
    stream = spark.readStream.format("logstore").options(**options(cluster, startingOffsets="earliest")).load()
    query = (
        stream.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sum(progress["numInputRows"] for progress in query.recentProgress) == 400


@pytest.mark.parametrize(
    "more, said",
    [
        ({"subscribe": "nowhere"}, "UnknownTopicError: topic 'nowhere' does not exist; there are orders"),
        ({"kafka.bootstrap.servers": "localhost:1"}, "localhost:1: Connection refused"),
        ({"kafka.fetch.max.byte": "1"}, "kafka.fetch.max.byte: unknown; the nearest name is kafka.fetch.max.bytes"),
    ],
)
def test_bad_input_is_one_sentence(spark: Any, cluster: FakeCluster, more: dict[str, str], said: str) -> None:
    given = options(cluster, **{"kafka.default.api.timeout.ms": "2000"}) | more
    with pytest.raises(Exception) as raised:
        spark.read.format("logstore").options(**given).load().collect()
    assert said in str(raised.value)
    assert "Traceback" not in str(raised.value)


def test_a_stream_tells_a_group_of_the_cluster_how_far_it_is(
    spark: Any, cluster: FakeCluster, tmp_path: Path
) -> None:
    stream = spark.readStream.format("logstore").options(
        **options(cluster, startingOffsets="earliest", commitGroup="dashboard", maxOffsetsPerTrigger="150")
    )
    query = (
        stream.load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    with cluster.lock:
        committed = {name.partition: offset for name, (offset, _, _) in cluster.offsets["dashboard"].items()}
    assert committed == {0: 200, 1: 200}
    batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
    told = [
        {part.partition_index: part.committed_offset for topic in each.topics for part in topic.partitions}
        for each in cluster.requests(OffsetCommitRequest)
    ]
    assert len(told) == len(batches) == 3  # each batch once, the last one too
    assert told == sorted(told, key=lambda offsets: sum(offsets.values()))
