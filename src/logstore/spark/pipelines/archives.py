"""What an archive of topics consists of: three tables in a directory, written by `archive`, read by `restore`.

- ``records``: every visible record with ``key``, ``value``, ``headers``, ``timestamp``, ``timestampType`` and
  ``offset``, in folders by ``topic`` and ``partition``. Spark's file sink writes it: the files that its log in
  ``_spark_metadata`` names hold every record once; what else a killed run has left there counts for nothing;
- ``ranges``: which offsets of which partition a run has archived (``start``, and ``end``, exclusive), and how many
  ``records`` lie between: fewer where compaction or the markers of transactions leave gaps;
- ``topics``: the number of partitions and the own settings of each topic.

All three are Parquet, reached through Spark's Hadoop layer. Driver only, any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from logstore.records import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = (
    "key binary, value binary, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>, topic string, partition int"
)
RANGES = "topic string, topic_id string, partition int, start bigint, end bigint, records bigint"
TOPICS = "topic string, topic_id string, partitions int, settings map<string, string>"


class Archived(NamedTuple):
    """What is archived of one partition: all visible records between two offsets."""

    topic_id: str
    start: int
    end: int
    records: int


class Described(NamedTuple):
    """What has to be known of a topic to make it again."""

    topic_id: str
    partitions: int
    settings: Mapping[str, str]


def exists(spark: SparkSession, path: str) -> bool:
    """Whether there is such a file or directory, on whatever file system."""
    found = spark._jvm.org.apache.hadoop.fs.Path(path)
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    return bool(found.getFileSystem(configuration).exists(found))


def read_records(spark: SparkSession, archive: str) -> DataFrame:
    """The table ``records``. Its columns are said, not guessed: a topic may be called 2024."""
    return spark.read.schema(RECORDS).parquet(f"{archive}/records")


def read_ranges(spark: SparkSession, archive: str) -> dict[TopicPartition, Archived]:
    """What the table ``ranges`` says of each partition, all runs together."""
    found: dict[TopicPartition, Archived] = {}
    for row in _rows(spark, f"{archive}/ranges", RANGES):
        tp = TopicPartition(row["topic"], row["partition"])
        new = Archived(row["topic_id"], row["start"], row["end"], row["records"])
        old = found.get(tp, new._replace(records=0))
        found[tp] = Archived(
            new.topic_id, min(old.start, new.start), max(old.end, new.end), old.records + new.records
        )
    return found


def add_ranges(spark: SparkSession, archive: str, ranges: Mapping[TopicPartition, Archived]) -> None:
    """Add rows to the table ``ranges``."""
    rows = [(tp.topic, each.topic_id, tp.partition, *each[1:]) for tp, each in sorted(ranges.items())]
    _add(spark, f"{archive}/ranges", RANGES, rows)


def read_topics(spark: SparkSession, archive: str) -> dict[str, Described]:
    """The table ``topics``; of each topic the row with most partitions, as they are only ever added."""
    rows = sorted(_rows(spark, f"{archive}/topics", TOPICS), key=lambda row: row["partitions"])
    return {row["topic"]: Described(row["topic_id"], row["partitions"], row["settings"]) for row in rows}


def add_topics(spark: SparkSession, archive: str, topics: Mapping[str, Described]) -> None:
    """Add rows to the table ``topics``."""
    rows = [(name, each.topic_id, each.partitions, dict(each.settings)) for name, each in topics.items()]
    _add(spark, f"{archive}/topics", TOPICS, rows)


def count_records(
    spark: SparkSession, archive: str, ranges: Mapping[TopicPartition, Archived]
) -> dict[TopicPartition, int]:
    """How many records lie in the archive within each of the ranges; reads the offsets only."""
    from pyspark.sql import functions as F

    if not ranges or not exists(spark, f"{archive}/records"):
        return dict.fromkeys(ranges, 0)
    rows = [(tp.topic, tp.partition, each.start, each.end) for tp, each in ranges.items()]
    wanted = spark.createDataFrame(rows, "topic string, partition int, start bigint, end bigint")
    inside = (
        read_records(spark, archive)
        .select("topic", "partition", "offset")
        .join(F.broadcast(wanted), ["topic", "partition"])
    )
    counts = inside.where("offset >= start and offset < end").groupBy("topic", "partition").count()
    found = {TopicPartition(row["topic"], row["partition"]): row["count"] for row in counts.collect()}
    return {tp: found.get(tp, 0) for tp in ranges}


def _rows(spark: SparkSession, table: str, schema: str) -> list[Any]:
    return list(spark.read.schema(schema).parquet(table).collect()) if exists(spark, table) else []


def _add(spark: SparkSession, table: str, schema: str, rows: Iterable[tuple[object, ...]]) -> None:
    found = list(rows)
    if found:  # one file: it is there as a whole, or not
        spark.createDataFrame(found, schema).coalesce(1).write.mode("append").parquet(table)
