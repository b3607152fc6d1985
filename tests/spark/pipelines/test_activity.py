"""Website activity: sessions against an independent computation, and three counts that agree."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from logstore.spark.pipelines import activity
from tests.spark.pipelines import visitors
from tests.spark.pipelines.visitors import Event, Session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "topic string, key binary, timestamp timestamp"


def frame_of(spark: SparkSession, events: Iterable[Event]) -> DataFrame:
    rows = [(each.topic, each.user.encode(), datetime.fromtimestamp(each.at_ms / 1000, UTC)) for each in events]
    return spark.createDataFrame(rows, COLUMNS)


def sessions_in(frame: DataFrame) -> list[Session]:
    """Rows of `activity.sessions_of`, by visitor and time."""
    rows = frame.selectExpr("user", "unix_millis(start)", "unix_millis(end)", "events", "did").collect()
    return sorted(Session(*row[:4], did=tuple(row[4])) for row in rows)


def test_the_sessions_are_those_of_plain_python(spark: SparkSession) -> None:
    events = visitors.visits(seed=1, visitors=40)
    assert sessions_in(activity.sessions_of(frame_of(spark, events))) == visitors.sessions_of(events)


def test_records_of_nobody_and_from_the_future_are_in_no_session(spark: SparkSession) -> None:
    events = [Event("searches", "a", visitors.START_MS), Event("searches", "a", 4_000_000_000_000)]
    frame = frame_of(spark, events).unionByName(
        spark.createDataFrame([("searches", None, datetime(2024, 1, 1, tzinfo=UTC))], COLUMNS)
    )
    assert sessions_in(activity.sessions_of(frame)) == visitors.sessions_of(events[:1])
