"""``restore``: topics from an archive, record for record as they were: offset, timestamp, key, value, headers.

The topics are created in the store with their old number of partitions and settings. They are written in the sink's
replay mode, which keeps offsets with their gaps; a log begins with its first archived record. A topic is restored
whole or not at all: it must not exist yet, or be empty. A topic that holds as much as the archive counts as
restored and is skipped. So a restore that was killed between two topics can be run again.

Records keep their timestamps, which may be older than the topic's retention. So that the store does not delete
restored records at once, ``retention.ms`` and ``retention.bytes`` are -1 in a restored topic, unless ``keep`` is
turned off. ``name`` restores a topic under another name.

Before anything is written, the archive is checked against its own table ``ranges``: if files are missing, nothing
is restored. Event time is not used.

Scale: one task restores a partition, and sorts it by offset, on disk if it does not fit in memory. Topics are
restored one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from logstore.errors import CheckpointMismatchError, InvalidSettingError, TopicExistsError, UnknownTopicError
from logstore.records import TopicPartition
from logstore.spark import functions as F
from logstore.spark.pipelines import Parameters, Report, parameter, pipeline
from logstore.spark.pipelines.output import archives
from logstore.spark.pipelines.output.archives import Archived, Described
from logstore.spark.pipelines.topics import FORMAT, ensure_topics, place_options
from logstore.store import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

_FOR_EVER = {"retention.ms": "-1", "retention.bytes": "-1"}


@dataclass(frozen=True, kw_only=True)
class RestoreParameters(Parameters):
    """Parameters of ``restore``: archive, topics, and the new name of one."""

    stateful: ClassVar[bool] = False

    archive: str = parameter(help="Directory of the archive; any URL that Spark knows.")
    topics: tuple[str, ...] = parameter((), "Topics to restore; by default all in the archive.")
    name: str = parameter("", "With one topic: its name in this store.")
    keep: bool = parameter(True, "Turn off deletion by age and size in restored topics.")
    checkpoint: str = parameter("", "Has no effect: a topic is restored whole or not at all.")

    def check(self) -> None:
        if self.bootstrap:
            raise InvalidSettingError({"bootstrap": "offsets can be kept in a directory only; give path"})
        self.require("archive", bool(self.archive), "a directory")
        self.require("name", not self.name or len(self.topics) == 1, "one topic to go with it")


def check_archive(
    spark: SparkSession, archive: str, topics: tuple[str, ...] = ()
) -> tuple[dict[str, Described], dict[TopicPartition, Archived]]:
    """Return the topics and ranges of an archive, after checking them against its files.

    Raises:
        UnknownTopicError: the archive lacks a topic, or does not exist.
        CheckpointMismatchError: it holds fewer or more records than its table ``ranges`` says.
    """
    described = archives.read_topics(spark, archive)
    missing = [name for name in topics or ("",) if name not in described] if topics or not described else []
    if missing:
        found = f"it has {', '.join(sorted(described))}" if described else "it holds no archive"
        raise UnknownTopicError(
            f"the archive {archive} has nothing to restore: {found}, expected {', '.join(topics) or 'topics'}"
        )
    chosen = {name: described[name] for name in topics or described}
    ranges = {tp: each for tp, each in archives.read_ranges(spark, archive).items() if tp.topic in chosen}
    for tp, count in archives.count_records(spark, archive, ranges).items():
        if count != ranges[tp].records:
            raise CheckpointMismatchError(
                f"{archive} has {count:,} records of {tp}, offsets {ranges[tp].start} to {ranges[tp].end - 1}; "
                f"{ranges[tp].records:,} were archived. Nothing of it was restored"
            )
    return chosen, ranges


def is_restored(parameters: RestoreParameters, name: str, ranges: Mapping[int, Archived]) -> bool:
    """Return whether each partition of the topic already holds as many records as were archived.

    Raises:
        TopicExistsError: the topic is not empty, and a partition holds another number of records.
    """
    with open_store(parameters.path, read_only=True) as store:
        partitions = store.describe_topic(name).partitions
        if not any(each.log_end_offset > each.log_start_offset for each in partitions):
            return not any(each.records for each in ranges.values())
        for number, each in ranges.items():
            count = store[name][number].scan().count()
            if count != each.records:
                raise TopicExistsError(
                    f"topic {name} in {parameters.path} is not empty: partition {number} holds {count:,} records, "
                    f"the archive {each.records:,}; delete it first, or restore under another name"
                )
    return True


def restore_topic(spark: SparkSession, parameters: RestoreParameters, topic: str, name: str) -> None:
    """Write the records of one topic; durable and visible as a whole on return."""
    records = archives.read_records(spark, parameters.archive).where(F.col("topic") == topic)
    ordered = (
        records.withColumn("topic", F.lit(name))
        .repartition("topic", "partition")
        .sortWithinPartitions("topic", "partition", "offset")
    )
    options = place_options(parameters) | {"replay": "true"}
    ordered.write.format(FORMAT).options(**options).mode("append").save()


@pipeline("restore", "Topics out of an archive, with their offsets, timestamps and headers.", RestoreParameters)
def run(spark: SparkSession, parameters: RestoreParameters) -> Report:
    """Restore the topics one after the other."""
    described, ranges = check_archive(spark, parameters.archive, parameters.topics)
    restored = []
    for topic, facts in described.items():
        name = parameters.name or topic
        settings = {**facts.settings, **(_FOR_EVER if parameters.keep else {})}
        ensure_topics(parameters, name, settings=settings, partitions=facts.partitions)
        of_topic = {tp.partition: each for tp, each in ranges.items() if tp.topic == topic}
        if not is_restored(parameters, name, of_topic):
            restore_topic(spark, parameters, topic, name)
            restored += list(of_topic.values())
    return Report("restore", {"topics": len(described), "records": sum(each.records for each in restored)})
