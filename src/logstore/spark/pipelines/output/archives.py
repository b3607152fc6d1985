"""Archive of topics: three tables in a directory, written by `archive`, read by `restore`.

- ``records``: every visible record with ``key``, ``value``, ``headers``, ``timestamp``, ``timestampType`` and
  ``offset``, in folders by ``topic`` and ``partition``. Spark's file sink writes it. The files that its log in
  ``_spark_metadata`` names hold every record once; other files that a killed run has left there are ignored;
- ``ranges``: the offsets of each partition that a run has archived (``start``, and ``end``, exclusive), and the
  number of ``records`` in them: fewer where compaction or the markers of transactions leave gaps;
- ``topics``: the number of partitions and the own settings of each topic.

``records`` is Parquet. The other two are JSON lines, one small file for each addition::

    {"topic": "orders", "topic_id": "fvW5...", "partition": 0, "start": 0, "end": 100, "records": 55}
    {"topic": "orders", "topic_id": "fvW5...", "partitions": 2, "settings": {"cleanup.policy": "compact"}}

All are reached through Spark's Hadoop layer, and can be read with ``spark.read``. One run at a time may write an
archive: of two that add a file of the same number, one fails. Driver only, any thread.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from logstore.records import TopicPartition
from logstore.spark import functions as F
from logstore.spark.pipelines import hadoop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = (
    "key binary, value binary, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>, topic string, partition int"
)


class Archived(NamedTuple):
    """Archived range of one partition: all visible records between two offsets."""

    topic_id: str
    start: int
    end: int
    records: int

    def joined(self, later: Archived) -> Archived:
        """Return the range that holds both."""
        start, end = min(self.start, later.start), max(self.end, later.end)
        return Archived(later.topic_id, start, end, self.records + later.records)


class Described(NamedTuple):
    """Properties of a topic that are needed to create it again."""

    topic_id: str
    partitions: int
    settings: Mapping[str, str]


def read_records(spark: SparkSession, archive: str) -> DataFrame:
    """Read the table ``records``. Guessing its columns would make a topic called 2024 a number."""
    return spark.read.schema(RECORDS).parquet(f"{archive}/records")


def read_ranges(spark: SparkSession, archive: str) -> dict[TopicPartition, Archived]:
    """Read the table ``ranges``: one range for each partition, all runs together."""
    found: dict[TopicPartition, Archived] = {}
    for row in _rows(spark, f"{archive}/ranges"):
        tp = TopicPartition(row["topic"], row["partition"])
        new = Archived(row["topic_id"], row["start"], row["end"], row["records"])
        found[tp] = found[tp].joined(new) if tp in found else new
    return found


def add_ranges(spark: SparkSession, archive: str, ranges: Mapping[TopicPartition, Archived]) -> None:
    """Add rows to the table ``ranges``."""
    rows = [{**tp._asdict(), **each._asdict()} for tp, each in sorted(ranges.items())]
    _add(spark, f"{archive}/ranges", rows)


def read_topics(spark: SparkSession, archive: str) -> dict[str, Described]:
    """Read the table ``topics``: for each topic the row with most partitions, since these are only added."""
    rows = sorted(_rows(spark, f"{archive}/topics"), key=lambda row: row["partitions"])
    return {row["topic"]: Described(row["topic_id"], row["partitions"], row["settings"]) for row in rows}


def add_topics(spark: SparkSession, archive: str, topics: Mapping[str, Described]) -> None:
    """Add rows to the table ``topics``."""
    rows = [{"topic": name, **each._asdict(), "settings": dict(each.settings)} for name, each in topics.items()]
    _add(spark, f"{archive}/topics", rows)


def count_records(
    spark: SparkSession, archive: str, ranges: Mapping[TopicPartition, Archived]
) -> dict[TopicPartition, int]:
    """Count the archive's records within each of the ranges; reads the offsets only."""
    if not ranges or not hadoop.exists(spark, f"{archive}/records/_spark_metadata"):
        return dict.fromkeys(ranges, 0)
    rows = ", ".join(f"('{tp.topic}', {tp.partition}, {each.start}L, {each.end}L)" for tp, each in ranges.items())
    wanted = spark.sql(f"select * from values {rows} as wanted(topic, partition, start, end)")
    inside = (
        read_records(spark, archive)
        .select("topic", "partition", "offset")
        .join(F.broadcast(wanted), ["topic", "partition"])
    )
    counts = inside.where("offset >= start and offset < end").groupBy("topic", "partition").count()
    found = {TopicPartition(row["topic"], row["partition"]): row["count"] for row in counts.collect()}
    return {tp: found.get(tp, 0) for tp in ranges}


def _rows(spark: SparkSession, table: str) -> list[dict[str, Any]]:
    files = [name for name in hadoop.names(spark, table) if name.endswith(".json")]
    return [json.loads(line) for name in files for line in hadoop.read_text(spark, f"{table}/{name}").splitlines()]


def _add(spark: SparkSession, table: str, rows: Iterable[Mapping[str, object]]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if text:
        number = len([name for name in hadoop.names(spark, table) if name.endswith(".json")])
        hadoop.write_text(spark, f"{table}/{number:08d}.json", text)
