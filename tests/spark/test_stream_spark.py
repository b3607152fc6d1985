"""Streams in a real session: checkpoints, limits, lag, and what the user is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import logstore
from logstore import Store

#: A session starts, and Python processes with it, on a machine that may be busy.
pytestmark = pytest.mark.timeout(600)

IDS = "@logstore"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with logstore.open(tmp_path / "data", environ={}, retention_ms=-1) as opened:
        opened.create_topic("flights", partitions=2)
        yield opened


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def append(store: Store, count: int, topic: str = "flights") -> None:
    """The same number into both partitions."""
    for partition in range(2):
        store[topic].append_many([b"%d" % n for n in range(count)], partition=partition)


def run(spark: Any, store: Store, checkpoint: Path, **options: str) -> list[Any]:
    """All that is there now; the progress of every batch."""
    table = (
        spark.readStream.format("logstore").options(path=store.path, **({"subscribe": "flights"} | options)).load()
    )
    query = (
        table.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
        return [progress for progress in query.recentProgress if progress["numInputRows"]]
    finally:
        query.stop()


def offsets(text: Any) -> dict[str, dict[str, int]]:
    found = json.loads(text) if isinstance(text, str) else dict(text)
    return {name: each for name, each in found.items() if not name.startswith("@")}


def planned(checkpoint: Path) -> list[str]:
    """The batches that the checkpoint knows of."""
    return sorted(path.name for path in (checkpoint / "offsets").glob("[0-9]*"))


@pytest.mark.row("M7", "M9")
def test_available_now_reads_what_is_there_in_limited_batches_and_goes_on_from_its_checkpoint(
    spark: Any, store: Store, checkpoint: Path
) -> None:
    append(store, 50)
    first = run(spark, store, checkpoint, startingOffsets="earliest", maxOffsetsPerTrigger="40")
    assert [progress["numInputRows"] for progress in first] == [40, 40, 20]
    source = first[0]["sources"][0]
    assert offsets(source["endOffset"]) == {"flights": {"0": 20, "1": 20}}
    assert json.loads(source["endOffset"])[IDS]["flights"]["id"] == store["flights"].id
    # The lag is in the progress: what there was, beside what was read.
    assert json.loads(source["latestOffset"]) == {"flights": {"0": 50, "1": 50}}
    assert run(spark, store, checkpoint, maxOffsetsPerTrigger="40") == []
    append(store, 5)
    store.add_partitions("flights", 3)
    store["flights"].append_many([b"new"] * 7, partition=2)
    (more,) = run(spark, store, checkpoint)
    assert more["numInputRows"] == 17
    assert offsets(more["sources"][0]["endOffset"]) == {"flights": {"0": 55, "1": 55, "2": 7}}


def test_a_first_batch_that_is_done_again_is_the_same(spark: Any, store: Store, checkpoint: Path) -> None:
    """Killed before Spark's commit of it; in the meantime earliest and latest have moved."""
    append(store, 50)
    run(spark, store, checkpoint, startingOffsets="earliest")
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink()
    append(store, 5)
    first, second = run(spark, store, checkpoint, startingOffsets="latest")
    assert (first["numInputRows"], second["numInputRows"]) == (100, 10)
    for number in range(2):
        for name in (f"{number}", f".{number}.crc"):
            (checkpoint / "commits" / name).unlink()
    for name in ("1", ".1.crc"):
        (checkpoint / "offsets" / name).unlink()
    store["flights"].delete_records({0: 20})
    with pytest.raises(Exception, match="flights-0: offsets 0 to 19 are deleted, the log begins at 20") as raised:
        run(spark, store, checkpoint, startingOffsets="earliest")
    assert "Traceback" not in str(raised.value)
    first, second = run(spark, store, checkpoint, startingOffsets="earliest", failOnDataLoss="false")
    assert (first["numInputRows"], second["numInputRows"]) == (80, 10)


def test_where_a_stream_ends_is_no_option(spark: Any, store: Store, checkpoint: Path) -> None:
    for option, value in (("endingOffsets", "latest"), ("endingTimestamp", "1")):
        with pytest.raises(Exception, match=rf"{option}: is for batch queries: .* the trigger availableNow"):
            run(spark, store, checkpoint, **{option: value})
    with pytest.raises(Exception, match="minOffsetsPerTrigger: 9, but maxOffsetsPerTrigger is 5"):
        run(spark, store, checkpoint, minOffsetsPerTrigger="9", maxOffsetsPerTrigger="5")


def test_bytes_limit_a_batch(spark: Any, store: Store, checkpoint: Path) -> None:
    for _ in range(10):
        append(store, 10)
    size = store["flights"].partitions[0].maintenance.size
    found = run(spark, store, checkpoint, startingOffsets="earliest", maxBytesPerTrigger=str(size))
    assert [progress["numInputRows"] for progress in found] == [100, 100]


def test_a_topic_made_again_ends_the_query_with_one_sentence_and_leaves_the_checkpoint(
    spark: Any, store: Store, checkpoint: Path
) -> None:
    append(store, 5)
    run(spark, store, checkpoint, startingOffsets="earliest")
    before = planned(checkpoint)
    store.delete_topic("flights")
    store.create_topic("flights", partitions=2)
    append(store, 9)
    with pytest.raises(Exception, match="STREAM_FAILED") as raised:
        run(spark, store, checkpoint)
    text = str(raised.value)
    assert "DataLossError: topic 'flights' was deleted and created again since the checkpoint was written" in text
    assert "Traceback" not in text
    assert planned(checkpoint) == before
    (all_of_it,) = run(spark, store, checkpoint, failOnDataLoss="false")
    assert all_of_it["numInputRows"] == 18


def test_deleted_records_end_the_query_with_one_sentence(spark: Any, store: Store, checkpoint: Path) -> None:
    append(store, 5)
    run(spark, store, checkpoint, startingOffsets="earliest")
    append(store, 20)
    store["flights"].delete_records({0: 15})
    with pytest.raises(Exception, match="flights-0: offsets 5 to 14 are deleted, the log begins at 15") as raised:
        run(spark, store, checkpoint)
    assert "Traceback" not in str(raised.value)
    (rest,) = run(spark, store, checkpoint, failOnDataLoss="false")
    assert rest["numInputRows"] == 10 + 20


def test_a_checkpoint_of_sparks_kafka_source_goes_on(spark: Any, store: Store, checkpoint: Path) -> None:
    append(store, 30)
    run(spark, store, checkpoint, startingOffsets="earliest")
    # As format("kafka") would have left it.
    written = checkpoint / "offsets" / "0"
    head = written.read_text().splitlines()[:-1]
    written.write_text("\n".join([*head, '{"flights":{"0":30,"1":20}}']))
    (checkpoint / "offsets" / ".0.crc").unlink(missing_ok=True)
    (more,) = run(spark, store, checkpoint)
    assert more["numInputRows"] == 10


def test_a_pattern_follows_topics_that_come_later(spark: Any, store: Store, checkpoint: Path) -> None:
    append(store, 3)
    options = {"subscribePattern": "fl.*", "startingOffsets": "earliest"}
    table = spark.readStream.format("logstore").options(path=store.path, **options).load()
    query = table.writeStream.format("memory").queryName("followed").start()
    try:
        query.processAllAvailable()
        store.create_topic("flying", partitions=2)
        append(store, 4, "flying")
        store.create_topic("other", partitions=2)
        append(store, 4, "other")
        query.processAllAvailable()
        found = spark.sql("select topic, count(*) as n from followed group by topic order by topic").collect()
        assert [tuple(row) for row in found] == [("flights", 6), ("flying", 8)]
        assert query.lastProgress["sources"][0]["numInputRows"] >= 0
    finally:
        query.stop()


def test_a_stream_without_a_checkpoint_begins_at_the_end(spark: Any, store: Store) -> None:
    append(store, 3)
    table = (
        spark.readStream.format("logstore").options(path=store.path, subscribe="flights", columns="value").load()
    )
    assert table.columns == ["value"]
    query = table.writeStream.format("memory").queryName("late").start()
    try:
        query.processAllAvailable()
        append(store, 2)
        query.processAllAvailable()
        assert sorted(row.value for row in spark.table("late").collect()) == [b"0", b"0", b"1", b"1"]
        assert query.lastProgress["durationMs"].get("latestOffset", 0) < 1000
    finally:
        query.stop()


@pytest.mark.parametrize(
    "options, said",
    [
        ({"subscribe": "nowhere"}, "UnknownTopicError: topic 'nowhere' does not exist; there are flights"),
        ({"startingOffsets": '{"flights": {"0": 1}}'}, "startingOffsets: every partition must be named"),
        ({"maxOffsetPerTrigger": "5"}, "maxoffsetpertrigger: unknown; the nearest name is maxOffsetsPerTrigger"),
    ],
)
def test_each_bad_option_is_one_sentence(
    spark: Any, store: Store, checkpoint: Path, options: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception) as raised:
        run(spark, store, checkpoint, **options)
    assert said in str(raised.value)
    assert "Traceback" not in str(raised.value)
    assert planned(checkpoint) == []
