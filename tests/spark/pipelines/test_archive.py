"""Archive and restore: what comes back is what was there, record by record, gaps included."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
import pytest

import logstore
from logstore.errors import CheckpointMismatchError, InvalidSettingError, TopicExistsError, UnknownTopicError
from logstore.records import TopicPartition
from logstore.spark.pipelines import archive, restore
from logstore.spark.pipelines.archive import ArchiveParameters
from logstore.spark.pipelines.output import archives
from logstore.spark.pipelines.output.archives import Archived
from logstore.spark.pipelines.restore import RestoreParameters
from tests.spark.pipelines.topic_contents import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)  # on a busy machine

TOPIC = "orders"
T0 = 1_700_000_000_000


def fill(path: Path, count: int, first: int = 0) -> None:
    """Records with and without key, value and headers, of which compaction leaves gaps; partition 1 begins late."""
    with logstore.open(path, environ={}) as store:
        topic = store.create_topic(
            TOPIC, 2, {"cleanup.policy": "compact,delete", "retention.ms": "-1"}, if_not_exists=True
        )
        for number in (0, 1):
            for n in range(first, first + count):
                headers = [("h", b"%d" % n), ("h", None), ("", b"")] if n % 3 == 0 else []
                value = None if n % 7 == 0 else b"value %d" % n
                key = b"key %d" % (n % 5 if n < count // 2 else n)
                topic.append(value, key=key, partition=number, headers=headers, timestamp=T0 + n * 10)


def compact(path: Path) -> None:
    with logstore.open(path, environ={}) as store:
        for log in store[TOPIC].partitions:
            log.maintenance.roll()
            log.maintenance.compact()
        store[TOPIC][1].delete_before(30)


def places(tmp_path: Path, **given: Any) -> ArchiveParameters:
    words = {"topics": (TOPIC,), "archive": str(tmp_path / "archive"), "checkpoint": str(tmp_path / "checkpoint")}
    return ArchiveParameters(path=str(tmp_path / "store"), **(words | given))


def mount(spark: SparkSession, directory: Path) -> str:
    """A URL of a directory that only Hadoop's own layer of file systems can follow."""
    directory.mkdir()
    name = directory.parent.name.replace("_", "-")
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    settings.set(f"fs.viewfs.mounttable.{name}.link./warehouse", directory.as_uri())
    return f"viewfs://{name}/warehouse"


@pytest.mark.row("U13")
@pytest.mark.row("X2")
def test_what_was_archived_is_restored_record_by_record(spark: SparkSession, tmp_path: Path) -> None:
    url = mount(spark, tmp_path / "archive")
    parameters = places(tmp_path, archive=f"{url}/topics", records_per_task=40)
    fill(tmp_path / "store", 100)
    compact(tmp_path / "store")
    first = archive.run(spark, parameters).counts
    fill(tmp_path / "store", 20, first=100)
    second = archive.run(spark, parameters).counts
    expected = rows_of(tmp_path / "store", TOPIC)
    assert first["records"] + second["records"] == len(expected) == second["records in all"]
    assert second["records"] == 40
    ranges = archives.read_ranges(spark, parameters.archive)
    assert [(each.start, each.end) for _, each in sorted(ranges.items())] == [(0, 120), (30, 120)]
    assert {record[1] for record in expected if record[0] == 0} != set(range(120)), "compaction has left no gap"
    files = list((tmp_path / "archive/topics/records").rglob("*.parquet"))
    assert len(files) >= 5
    for file in files:
        offsets = pyarrow.parquet.read_table(file, columns=["offset"])["offset"].to_pylist()
        assert offsets == sorted(offsets)

    back = RestoreParameters(path=str(tmp_path / "restored"), archive=parameters.archive)
    assert restore.run(spark, back).counts == {"topics": 1, "records": len(expected)}
    assert rows_of(tmp_path / "restored", TOPIC) == expected
    with logstore.open(tmp_path / "restored", environ={}) as store:
        firsts = [min(record[1] for record in expected if record[0] == number) for number in (0, 1)]
        assert [log.log_start_offset for log in store[TOPIC].partitions] == firsts
        assert store[TOPIC].config.cleanup_policy == "compact,delete"
        assert store[TOPIC].append(b"next", key=b"k", partition=0).offset == 120
    with pytest.raises(TopicExistsError, match="partition 0 holds"):
        restore.run(spark, back)


def test_a_run_that_was_killed_before_it_could_say_so_is_noted_by_the_next(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The records are in, the ranges not: as after a kill between the two."""
    parameters = places(tmp_path)
    fill(tmp_path / "store", 20)
    ranges = archive.begin(spark, parameters)
    archive.start_archive(spark, parameters, ranges).awaitTermination()
    assert not any(each.records for each in archives.read_ranges(spark, parameters.archive).values())
    counts = archive.run(spark, parameters).counts
    assert (counts["records"], counts["records in all"]) == (0, 40)
    noted = archives.read_ranges(spark, parameters.archive)
    assert {(each.start, each.end, each.records) for each in noted.values()} == {(0, 20, 20)}

    # A file that Spark's log names is gone: nothing is restored.
    lost = next(iter((tmp_path / "archive/records").rglob("*.parquet")))
    lost.rename(tmp_path / "lost.parquet")
    back = RestoreParameters(path=str(tmp_path / "restored"), archive=parameters.archive)
    with pytest.raises(Exception, match=lost.name):
        restore.run(spark, back)
    assert not (tmp_path / "restored").exists()


def test_an_archive_with_other_records_than_were_noted_is_not_restored(spark: SparkSession, tmp_path: Path) -> None:
    parameters = places(tmp_path)
    fill(tmp_path / "store", 5)
    archives.add_topics(spark, parameters.archive, archive.topics_of(parameters))
    archives.add_ranges(spark, parameters.archive, {TopicPartition(TOPIC, 0): Archived("id", 0, 5, 5)})
    back = RestoreParameters(path=str(tmp_path / "restored"), archive=parameters.archive)
    said = r"has 0 records of orders-0, offsets 0 to 4; 5 were archived"
    with pytest.raises(CheckpointMismatchError, match=said):
        restore.run(spark, back)
    with pytest.raises(UnknownTopicError, match="it has orders, expected payments"):
        restore.run(spark, RestoreParameters(path=back.path, archive=back.archive, topics=("payments",)))
    with pytest.raises(UnknownTopicError, match="it holds no archive"):
        restore.run(spark, RestoreParameters(path=back.path, archive=f"{back.archive}/none"))


def test_what_cannot_be_restored_is_refused_by_name() -> None:
    with pytest.raises(InvalidSettingError, match="bootstrap: offsets can be kept in a directory only"):
        RestoreParameters(bootstrap="host:1", archive="a")
    with pytest.raises(InvalidSettingError, match="name: expected one topic to go with it"):
        RestoreParameters(path="p", archive="a", topics=("x", "y"), name="z")
