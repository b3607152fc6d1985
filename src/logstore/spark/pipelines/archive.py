"""``archive``: topics to Parquet with every part of each record, so that ``restore`` can write them again.

Each run archives the records since the last one, then ends. The archive is a directory on any file system that
Spark's Hadoop layer knows. The table ``records`` holds every visible record once, in folders by topic and
partition, each file sorted by offset. The table ``ranges`` lists exactly which offsets each run has archived, and
``topics`` the partition counts and settings of the topics.

Event time plays no part: the order is that of the offsets. Records of open or aborted transactions are not visible,
and not archived. The checkpoint holds where the last run ended and the next begins, so archive and checkpoint
belong together. If retention has deleted the next offsets, the run fails and names them: run it more often than
records expire. The next run repeats what a killed run left unfinished, and no record is in the archive twice.

Scale: ``records_per_task`` splits a partition into tasks, each of which writes a file, or several by
``records_per_file``; ``max_offsets`` bounds a micro-batch. A task needs the memory of one Parquet row group.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logstore.errors import CheckpointMismatchError
from logstore.records import TopicPartition
from logstore.spark import functions as F
from logstore.spark.pipelines import Parameters, Report, hadoop, parameter, pipeline
from logstore.spark.pipelines.output import archives
from logstore.spark.pipelines.output.archives import Archived, Described
from logstore.spark.pipelines.output.outputs import Checkpoint, DirectoryOutput
from logstore.spark.pipelines.running.queries import finish, setting, start
from logstore.spark.pipelines.topics import backend, read_batch, read_stream
from logstore.spark.reading.offsets import StreamOffsets, offsets_json
from logstore.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STAGE = "archive"
FOLDERS = ("topic", "partition")


@dataclass(frozen=True, kw_only=True)
class ArchiveParameters(Parameters):
    """Parameters of ``archive``: topics, and directory of the archive."""

    topics: tuple[str, ...] = parameter(help="Topics to archive.")
    archive: str = parameter(help="Directory of the archive; any URL that Spark knows.")
    records_per_task: int = parameter(
        1_000_000, "Offsets of a partition for one task and its file.", scale=True, least=1
    )
    records_per_file: int = parameter(
        0, "At most so many records in a file; 0: those of the task.", scale=True, least=0
    )

    def check(self) -> None:
        self.require("topics", bool(self.topics), "names of topics")
        self.require("archive", bool(self.archive), "a directory")


def rows_of(records: DataFrame) -> DataFrame:
    """Convert records to rows of the table ``records``."""
    return records.select("key", "value", "offset", "timestamp", "timestampType", "headers", *FOLDERS)


# --- topics and archived ranges ----------------------------------------------------------------


def topics_of(parameters: ArchiveParameters) -> dict[str, Described]:
    """Return the topics as they are now; their settings are known only where the store is a directory.

    Raises:
        UnknownTopicError: one of them is missing.
    """
    store_facts = backend(parameters, *parameters.topics)
    facts = {name: store_facts.topic(name) for name in parameters.topics}
    settings: dict[str, Mapping[str, str]] = {name: {} for name in facts}
    if parameters.path:
        with open_store(parameters.path, read_only=True) as store:
            settings = {name: store.describe_topic(name).settings for name in facts}
    return {name: Described(each.id, each.partitions, settings[name]) for name, each in facts.items()}


def begin(spark: SparkSession, parameters: ArchiveParameters) -> dict[TopicPartition, Archived]:
    """Return the archived range of each partition. New ones are recorded as archived up to their first offset.

    The first offset is written before anything is read: otherwise a killed run could move the beginning.
    """
    topics = topics_of(parameters)
    known = archives.read_topics(spark, parameters.archive)
    archives.add_topics(
        spark, parameters.archive, {name: each for name, each in topics.items() if known.get(name) != each}
    )
    ranges = archives.read_ranges(spark, parameters.archive)
    places = [TopicPartition(name, n) for name, each in topics.items() for n in range(each.partitions)]
    firsts = backend(parameters, *parameters.topics).earliest([tp for tp in places if tp not in ranges])
    new = {tp: Archived(topics[tp.topic].topic_id, first, first, 0) for tp, first in firsts.items()}
    archives.add_ranges(spark, parameters.archive, new)
    return {tp: each for tp, each in (ranges | new).items() if tp in places}


def note_ranges(
    spark: SparkSession, parameters: ArchiveParameters, ranges: Mapping[TopicPartition, Archived]
) -> dict[TopicPartition, Archived]:
    """Record what the checkpoint has archived beyond ``ranges``; return the added ranges.

    Raises:
        CheckpointMismatchError: the archive has fewer records than the topics in the ranges of the checkpoint.
            Nothing was recorded.
    """
    ends = archived_ends(spark, parameters.checkpoint_of(STAGE))
    added = {
        tp: Archived(each.topic_id, each.end, ends[tp], 0)
        for tp, each in ranges.items()
        if ends.get(tp, each.end) > each.end
    }
    counts = archives.count_records(spark, parameters.archive, added)
    for tp, visible in visible_records(spark, parameters, added).items():
        if counts[tp] < visible:
            raise CheckpointMismatchError(
                f"{parameters.archive} has {counts[tp]:,} records of {tp} at offsets {added[tp].start} to "
                f"{added[tp].end - 1}, and the topic {visible:,}: files of the archive are gone. Archive the topic "
                "again, with a new checkpoint and into a new directory"
            )
    added = {tp: each._replace(records=counts[tp]) for tp, each in added.items()}
    archives.add_ranges(spark, parameters.archive, added)
    return added


def visible_records(
    spark: SparkSession, parameters: ArchiveParameters, ranges: Mapping[TopicPartition, Archived]
) -> dict[TopicPartition, int]:
    """Count the records that the topics have within each of the ranges now, without those deleted since."""
    if not ranges:
        return {}
    topics = {tp.topic for tp in ranges}
    facts = backend(parameters, *topics)
    places = [TopicPartition(name, n) for name in topics for n in range(facts.topic(name).partitions)]
    earliest = facts.earliest(places)
    starts = {tp: max(ranges[tp].start, first) if tp in ranges else first for tp, first in earliest.items()}
    ends = {tp: max(ranges[tp].end, first) if tp in ranges else first for tp, first in earliest.items()}
    records = read_batch(
        spark,
        parameters,
        *sorted(topics),
        startingOffsets=json.dumps(offsets_json(starts)),
        endingOffsets=json.dumps(offsets_json(ends)),
        failOnDataLoss="false",
    )
    counts = records.groupBy("topic", "partition").agg(F.count(F.lit(1)).alias("records")).collect()
    return {TopicPartition(row["topic"], row["partition"]): row["records"] for row in counts}


def archived_ends(spark: SparkSession, checkpoint: str) -> dict[TopicPartition, int]:
    """Return the end offsets of a query's last finished micro-batch, from its checkpoint; empty if it has none."""
    ended = Checkpoint.read(spark, checkpoint).ended
    if ended < 0:
        return {}
    # Spark writes its own lines before that of the source.
    text = hadoop.read_text(spark, f"{checkpoint}/offsets/{ended}")
    return dict(StreamOffsets.of_json(json.loads(text.splitlines()[-1])).offsets)


# --- the query ---------------------------------------------------------------------------------


def start_archive(
    spark: SparkSession, parameters: ArchiveParameters, ranges: Mapping[TopicPartition, Archived]
) -> StreamingQuery:
    """Start the query that writes records to the table ``records``."""
    records = read_stream(
        spark,
        parameters,
        *parameters.topics,
        startingOffsets=json.dumps(offsets_json({tp: each.end for tp, each in ranges.items()})),
        includeHeaders="true",
        maxRecordsPerPartition=str(parameters.records_per_task),
    )
    writer = rows_of(records).writeStream.format("parquet").partitionBy(*FOLDERS)
    if parameters.records_per_file:
        writer = writer.option("maxRecordsPerFile", parameters.records_per_file)
    # A task reads one range of one partition in order. Without this setting Spark would sort the rows by folder
    # before writing, which may lose the order by offset. It needs one open file per folder: a task has one.
    with setting(spark, "spark.sql.maxConcurrentOutputFileWriters", "1"):
        fills = _records(parameters)
        return start(spark, writer.option("path", fills.path), parameters, STAGE, fills)


def _records(parameters: ArchiveParameters) -> DirectoryOutput:
    return DirectoryOutput(f"{parameters.archive}/records")


@pipeline("archive", "Topics to Parquet with offsets, timestamps, headers; can be restored.", ArchiveParameters)
def run(spark: SparkSession, parameters: ArchiveParameters) -> Report:
    """Archive the records since the last run."""
    # First: with a wrong checkpoint, `begin` would already have written to the archive.
    _records(parameters).check(spark, Checkpoint.read(spark, parameters.checkpoint_of(STAGE)))
    ranges = begin(spark, parameters)
    ranges = _beyond(ranges, note_ranges(spark, parameters, ranges))  # missing if a run was killed before it
    try:
        finish(start_archive(spark, parameters, ranges))
    finally:
        added = note_ranges(spark, parameters, ranges)
    return Report(
        "archive",
        {
            "records": sum(each.records for each in added.values()),
            "partitions": len(added),
            "records in all": sum(each.records for each in _beyond(ranges, added).values()),
        },
    )


def _beyond(
    ranges: Mapping[TopicPartition, Archived], added: Mapping[TopicPartition, Archived]
) -> dict[TopicPartition, Archived]:
    return {tp: each.joined(added[tp]) if tp in added else each for tp, each in ranges.items()}
