"""Website activity: one topic for each kind of activity, and three readers that compute the same totals.

``page-views``, ``searches`` and ``log-ins`` hold one record for each action of a visitor. The key is the visitor,
the timestamp is the time of the action, the value may be anything. Four queries read them, each with its own
checkpoint:

- ``sessions``: actions of a visitor without a pause of ``gap``, to the topic `SESSIONS`, each session once;
- ``sessions-table``: that topic to Parquet, so that table and topic cannot disagree;
- ``counter``: how many records each topic has had, to the compacted topic `COUNTS`, in every micro-batch;
- ``warehouse``: every record to Parquet by topic and day.

Event time is the record's timestamp. The watermark is the newest timestamp of the micro-batches before, less
``lateness``. A session is closed and written when the watermark has passed its last record by ``gap``. A record is
late if the watermark has passed it by ``gap`` before it is read. Late records are counted; they are in the counter
and the warehouse, but in no session. `totals` adds everything up. A timestamp from the future would close every
session at once. So records more than ``lateness`` ahead of the clock when they are read are in no session either.

Scale: the state is one row for each open session. Its number of parts is the session's
``spark.sql.shuffle.partitions`` when the checkpoint begins (``--shuffle-partitions``); with ``--rocksdb`` it is
on the executors' disks. ``max_offsets`` bounds a micro-batch, ``partitions`` is the partition count of the two new
topics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from logstore.spark import functions as F
from logstore.spark.pipelines import Parameters, Report, parameter, pipeline
from logstore.spark.pipelines.input.values import is_text, json_record
from logstore.spark.pipelines.parameters import interval_of
from logstore.spark.pipelines.running.queries import finish_in_turn, start_into_parquet, start_into_topic
from logstore.spark.pipelines.topics import ensure_topics, read_batch, read_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ACTIVITIES = ("page-views", "searches", "log-ins")
SESSIONS = "sessions"
COUNTS = "activity-counts"


@dataclass(frozen=True, kw_only=True)
class ActivityParameters(Parameters):
    """Parameters of ``activity``: topics of activity, definition of a session, location of the tables."""

    warehouse: str = parameter(
        help="Directory of the tables `records` and `sessions`; any URL that Spark's Hadoop layer knows."
    )
    activities: tuple[str, ...] = parameter(ACTIVITIES, "Topics of activity: key = visitor, timestamp = when.")
    sessions: str = parameter(SESSIONS, "Topic that the sessions go to; created if missing.")
    counts: str = parameter(COUNTS, "Compacted topic that the live counts go to; created if missing.")
    gap: str = parameter("30 minutes", "A pause longer than this ends a session.")
    lateness: str = parameter("10 minutes", "How far behind the newest record others may come and still count.")

    def check(self) -> None:
        self.require("activities", bool(self.activities), "names of topics")
        self.require_duration("gap", at_least_ms=1)
        self.require_duration("lateness")
        self.require_different("activities", "sessions", "counts")


def sessions_of(
    records: DataFrame,
    *,
    gap: str = "30 minutes",
    lateness: str = "10 minutes",
    activities: Sequence[str] = ACTIVITIES,
) -> DataFrame:
    """Group each visitor's records into sessions without a pause of ``gap``.

    ``records`` has the columns of a topic (`key`, `topic`, `timestamp`). The result has one row for each
    session: ``user``, ``start`` and ``end`` (times of its first and last record), ``events``, and ``did``, a struct
    with the number of records of each activity. Two records exactly ``gap`` apart belong to the same session.
    Records without a key, with a key that is not text, or from the future are left out.

    The function works for a batch, where ``lateness`` has no effect, and for a stream in append mode.
    """
    window = F.session_window("timestamp", gap).alias("window")
    # One count, then sums: the state names fields by function, and a second count would confuse `open_sessions`.
    counts = [F.sum((F.col("topic") == activity).cast("bigint")).alias(activity) for activity in activities]
    return (
        records.where(is_text("key"))
        .where(f"key is not null and timestamp <= current_timestamp() + interval '{lateness}'")
        .select(F.col("key").cast("string").alias("user"), "topic", "timestamp")
        .withWatermark("timestamp", lateness)
        .groupBy(window, "user")
        .agg(F.count("*").alias("events"), F.max("timestamp").alias("end"), *counts)
        .select(
            "user",
            F.col("window.start").alias("start"),
            "end",
            "events",
            F.struct(*[F.col(f"`{activity}`") for activity in activities]).alias("did"),
        )
    )


def session_records(sessions: DataFrame) -> DataFrame:
    """Convert sessions to records: key = visitor, timestamp = its last record, value = JSON with times in ms."""
    start, end = (F.unix_millis(name).alias(name) for name in ("start", "end"))
    record = json_record("user", F.struct("user", start, end, "events", "did"))
    return sessions.select(*record, F.col("end").alias("timestamp"))


def session_rows(records: DataFrame, activities: Sequence[str] = ACTIVITIES) -> DataFrame:
    """Convert the records of `session_records` back to rows, with their partition and offset."""
    did = ", ".join(f"`{activity}` bigint" for activity in activities)
    schema = f"user string, start bigint, end bigint, events bigint, did struct<{did}>"
    value = F.from_json(F.col("value").cast("string"), schema).alias("value")
    return records.select(value, "partition", "offset").select(
        "value.user",
        F.timestamp_millis("value.start").alias("start"),
        F.timestamp_millis("value.end").alias("end"),
        "value.events",
        "value.did",
        "partition",
        "offset",
    )


def counts_of(records: DataFrame) -> DataFrame:
    """Count the records of each topic: ``topic``, ``events``. A stream of it needs complete mode."""
    return records.groupBy("topic").count().withColumnRenamed("count", "events")


def count_records(counts: DataFrame) -> DataFrame:
    """Convert counts to records: key = topic, value = JSON."""
    return counts.select(*json_record("topic", F.struct("topic", "events")))


def warehouse_rows(records: DataFrame) -> DataFrame:
    """Convert records to rows: ``user``, ``at``, ``value``, ``partition``, ``offset``, ``topic``, ``day``.

    (topic, partition, offset) is a key of this table. Records whose key or value is not text (UTF-8) are left out,
    and counted as ``refused``.
    """
    good = is_text("key") & is_text("value")
    counted = records.observe("warehouse", F.count_if(~good).alias("refused"), F.count_if(good).alias("records"))
    return counted.where(good).select(
        F.col("key").cast("string").alias("user"),
        F.col("timestamp").alias("at"),
        F.col("value").cast("string").alias("value"),
        "partition",
        "offset",
        "topic",
        F.to_date("timestamp").alias("day"),
    )


class Totals(NamedTuple):
    """Numbers of records of each activity, counted in three places, and of those in sessions."""

    topics: dict[str, int]
    counter: dict[str, int]
    warehouse: dict[str, int]
    in_sessions: int  #: in sessions that are closed
    in_open_sessions: int

    @property
    def late(self) -> int:
        """Return the number of records in no session: late, from the future, or without a visitor."""
        return sum(self.topics.values()) - self.in_sessions - self.in_open_sessions


# --- the queries -------------------------------------------------------------------------------


def start_sessions(spark: SparkSession, parameters: ActivityParameters) -> StreamingQuery:
    """Start the query from activity to the topic of sessions."""
    records = read_stream(spark, parameters, *parameters.activities)
    sessions = sessions_of(
        records,
        gap=interval_of(parameters.gap),
        lateness=interval_of(parameters.lateness),
        activities=parameters.activities,
    )
    return start_into_topic(spark, session_records(sessions), parameters, "sessions", parameters.sessions)


def start_counter(spark: SparkSession, parameters: ActivityParameters) -> StreamingQuery:
    """Start the query from activity to the topic of counts.

    The newest record of each key is the count as of the newest micro-batch.
    """
    counts = counts_of(read_stream(spark, parameters, *parameters.activities))
    # Spark refuses update mode for a sink in Python; complete is the same here, where all rows change in the end.
    return start_into_topic(
        spark, count_records(counts), parameters, "counter", parameters.counts, mode="complete", again=True
    )


def start_warehouse(spark: SparkSession, parameters: ActivityParameters) -> StreamingQuery:
    """Start the query from activity to the table ``records``."""
    rows = warehouse_rows(read_stream(spark, parameters, *parameters.activities))
    path = f"{parameters.warehouse}/records"
    return start_into_parquet(spark, rows, parameters, "warehouse", path, ("topic", "day"))


def start_sessions_table(spark: SparkSession, parameters: ActivityParameters) -> StreamingQuery:
    """Start the query from the topic of sessions to the table ``sessions``."""
    rows = session_rows(read_stream(spark, parameters, parameters.sessions), parameters.activities)
    return start_into_parquet(spark, rows, parameters, "sessions-table", f"{parameters.warehouse}/sessions")


def prepare(parameters: ActivityParameters) -> None:
    """Create the topics that are missing."""
    ensure_topics(parameters, *parameters.activities, parameters.sessions)
    ensure_topics(parameters, parameters.counts, settings={"cleanup.policy": "compact"}, partitions=1)


@pipeline(
    "activity", "Page views, searches and log-ins into sessions, live counts and a warehouse.", ActivityParameters
)
def run(spark: SparkSession, parameters: ActivityParameters) -> Report:
    """Run the four queries: concurrently if ``continuous``, else one after the other."""
    prepare(parameters)
    begins = (start_sessions, start_sessions_table, start_counter, start_warehouse)
    counts = finish_in_turn(parameters, *(partial(begin, spark, parameters) for begin in begins))
    sessions, table, counter, warehouse = counts
    return Report(
        "activity",
        {
            "records counted": counter.total(),
            "records in the warehouse": warehouse.total("records"),
            "refused": warehouse.total("refused"),
            "sessions": table.total(),
            "late records": sessions.total("late"),
        },
    )


def totals(spark: SparkSession, parameters: ActivityParameters) -> Totals:
    """Count records in all places: in the topics, by the counter, and in the warehouse.

    The counts are equal once the pipeline has read all records, unless retention has deleted some from the topics.
    """
    in_topics = read_batch(spark, parameters, *parameters.activities).groupBy("topic").count()
    counts = (
        read_batch(spark, parameters, parameters.counts)
        .groupBy(F.col("key").cast("string").alias("topic"))
        .agg(F.max_by(F.col("value").cast("string"), "offset").alias("value"))
        .select("topic", F.get_json_object("value", "$.events").cast("bigint").alias("count"))
    )
    warehouse = spark.read.parquet(f"{parameters.warehouse}/records").groupBy("topic").count()
    sessions = spark.read.parquet(f"{parameters.warehouse}/sessions").agg(F.sum("events")).first()
    in_sessions = int((sessions and sessions[0]) or 0)
    return Totals(
        topics=_by_topic(in_topics),
        counter=_by_topic(counts),
        warehouse=_by_topic(warehouse),
        in_sessions=in_sessions,
        in_open_sessions=open_sessions(spark, parameters)[1],
    )


def open_sessions(spark: SparkSession, parameters: ActivityParameters) -> tuple[int, int]:
    """Return how many sessions are open in the query's state, and how many records they have."""
    spark.streams.active  # noqa: B018  # starts Spark's part that reading the state needs
    state = spark.read.format("statestore").load(f"{parameters.checkpoint}/sessions").select("value.count")
    row = state.agg(F.count("*"), F.sum("count")).first()
    return (int(row[0]), int(row[1] or 0)) if row else (0, 0)


def _by_topic(counts: DataFrame) -> dict[str, int]:
    return {row["topic"]: row["count"] for row in counts.collect()}
