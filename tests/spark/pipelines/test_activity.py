"""Website activity: sessions against an independent computation, and three counts that agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.parquet
import pytest

import logstore
from logstore.errors import InvalidSettingError
from logstore.spark.pipelines import activity
from logstore.spark.pipelines.activity import ActivityParameters
from logstore.spark.pipelines.parameters import interval_of
from tests.spark.pipelines import visitors
from tests.spark.pipelines.visitors import Event, Session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(600)  # on a busy machine


def frame_of(spark: SparkSession, events: Iterable[Event], anonymous: Iterable[Event] = ()) -> DataFrame:
    """Events as records; those of ``anonymous`` without a key."""
    rows = [(e.topic, e.user.encode(), e.at_ms * 1000) for e in events]
    rows += [(e.topic, None, e.at_ms * 1000) for e in anonymous]
    topics, keys, times = zip(*rows, strict=True)
    at = pyarrow.array(times, pyarrow.timestamp("us", "UTC"))
    return spark.createDataFrame(pyarrow.table({"topic": topics, "key": keys, "timestamp": at}))


def sessions_in(frame: DataFrame) -> list[Session]:
    """Rows of `activity.sessions_of`, by visitor and time."""
    rows = frame.selectExpr("user", "unix_millis(start)", "unix_millis(end)", "events", "did").collect()
    return sorted(Session(*row[:4], did=tuple(row[4])) for row in rows)


def test_the_sessions_are_those_of_plain_python(spark: SparkSession) -> None:
    events = visitors.visits(seed=1, visitors=40)
    assert sessions_in(activity.sessions_of(frame_of(spark, events))) == visitors.sessions_of(events)


def test_records_without_a_visitor_and_from_the_future_are_in_no_session(spark: SparkSession) -> None:
    events = [Event("searches", "a", visitors.START_MS), Event("searches", "a", 4_000_000_000_000)]
    frame = frame_of(spark, events, anonymous=[Event("searches", "", visitors.START_MS)])
    assert sessions_in(activity.sessions_of(frame)) == visitors.sessions_of(events[:1])


@pytest.mark.parametrize("length", ["30 minutes", "30m", "1800s", "0.5 hours"])
def test_a_gap_is_what_its_words_say(tmp_path: Path, length: str) -> None:
    parameters = places(tmp_path, gap=length)
    assert interval_of(parameters.gap) == "1800000 milliseconds"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"gap": "30 minuets"}, "gap: expected a time such as .*, found '30 minuets'; perhaps 30 minutes"),
        ({"gap": "30"}, "gap: expected a unit with the number"),
        ({"gap": "0m"}, "gap: expected more than 0, found '0m'"),
        ({"lateness": "soon"}, "lateness: expected a time such as"),
        ({"sessions": "searches"}, "sessions: searches is named by activities already"),
        ({"activities": ("a", "a")}, "activities: a is named by itself already"),
        ({"activities": ()}, "activities: expected names of topics"),
    ],
)
def test_wrong_parameters_are_named(tmp_path: Path, wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSettingError, match=said):
        places(tmp_path, **wrong)


def test_what_is_no_text_is_in_no_table_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    """Parquet with other bytes in a column of text is a file that pandas and DuckDB do not read."""
    parameters = places(tmp_path, activities=("views",))
    with logstore.open(parameters.path, environ={}) as store:
        topic = store.create_topic("views", 1)
        for key, value in ((b"a", b"ok"), (b"\xff\x00", b"ok"), (b"a", b"\xfe\xfe"), (None, None)):
            topic.append(value, key=key)
    counts = activity.run(spark, parameters).counts
    assert (counts["records counted"], counts["records in the warehouse"], counts["refused"]) == (4, 2, 2)
    (file,) = (each for each in (tmp_path / "warehouse" / "records").rglob("*.parquet"))
    table = pyarrow.parquet.read_table(file)
    table.validate(full=True)
    assert sorted(table["offset"].to_pylist()) == [0, 3]


# --- the whole, with topics and files ----------------------------------------------------------


def arrive(path: Path, events: Iterable[Event]) -> None:
    """Write the events to their topics, in this order."""
    with logstore.open(path, environ={}) as store:
        for name in activity.ACTIVITIES:
            topic = store.create_topic(name, 1, if_not_exists=True)
            topic.append_many([(e.user.encode(), b"{}", e.at_ms) for e in events if e.topic == name])


def places(tmp_path: Path, **given: object) -> ActivityParameters:
    return ActivityParameters(
        path=str(tmp_path / "store"),
        checkpoint=str(tmp_path / "checkpoint"),
        warehouse=(tmp_path / "warehouse").as_uri(),
        partitions=1,
        **given,
    )


@pytest.mark.row("U5")
@pytest.mark.row("X2")
def test_a_run_in_two_parts_gives_the_sessions_of_a_batch_and_three_counts_agree(
    spark: SparkSession, tmp_path: Path
) -> None:
    events, late = visitors.visits(seed=2, visitors=30), visitors.late(seed=3, count=25)
    parameters = places(tmp_path)
    # The first part ends within sessions; the late ones come when its watermark is known.
    half = len(events) // 2
    arrive(tmp_path / "store", events[:half])
    activity.prepare(parameters)
    activity.start_sessions(spark, parameters).awaitTermination()
    arrive(tmp_path / "store", [*events[half:], *late])
    counts = activity.run(spark, parameters).counts
    assert counts["records counted"] == counts["records in the warehouse"] == len(events) + len(late)
    assert (counts["sessions"], counts["late records"]) == (check(spark, parameters, events, late), len(late))


def check(
    spark: SparkSession, parameters: ActivityParameters, events: Sequence[Event], late: Sequence[Event]
) -> int:
    """Sessions and counts of a run over these events; returns how many sessions are closed."""
    closed = max(event.at_ms for event in events) - visitors.LATENESS_MS - visitors.GAP_MS
    sessions = visitors.sessions_of(events)
    expected = [each for each in sessions if each.end_ms <= closed]
    everything = [*events, *late]
    assert sessions_in(spark.read.parquet(f"{parameters.warehouse}/sessions")) == expected
    counted = {name: sum(event.topic == name for event in everything) for name in activity.ACTIVITIES}
    totals = activity.totals(spark, parameters)
    assert totals.topics == totals.counter == totals.warehouse == counted
    assert totals.in_sessions == sum(each.events for each in expected)
    assert totals.in_open_sessions == sum(each.events for each in sessions if each.end_ms > closed)
    assert totals.late == len(late)
    warehouse = spark.read.parquet(f"{parameters.warehouse}/records")
    places_and_days = warehouse.select("topic", "partition", "offset", "day").distinct().collect()
    assert len(places_and_days) == len(everything)
    days = {datetime.fromtimestamp(event.at_ms / 1000, UTC).date() for event in everything}
    assert {row["day"] for row in places_and_days} == days
    return len(expected)
