"""``rollup``: a topic of metrics into sums by time window, in levels.

Services write the metrics: a record's key names the series, its value is JSON with the time in milliseconds,
``{"time": 1700000000000, "value": 1.5}``. Each level adds up the values of a series in windows of its length, by
default 10 s, one minute and one hour. It reads the rows of the level before. A level is a topic,
``<topic>-<level>``, and a directory of Parquet, from which the sums are read:

    key    series
    value  {"series": "web1.cpu", "start": 1700000000000, "seconds": 10, "count": 3, "sum": 4.5,
            "min": 1.0, "max": 2.0, "late": false}

Event time. A window is closed when its end is more than ``delay_s`` before the newest time seen in earlier
micro-batches (the watermark). One row with ``"late": false`` is then written. Later values are not lost: they make
rows with ``"late": true`` for the same window. The next level adds them, in time there if its longer window is
still open. So at every level, counts and sums of all written rows and of the windows still open are exactly those
of the input. A reader gets the final value of a window by adding up its rows. Sums are exact, too: values are kept
with ``digits`` digits after the point as integers of 64 bits. With 6 digits the sum of a window has to stay below
9 * 10^12.

Some records are left out and counted as ``refused``. They have no key, a value that is not such JSON, or a time
before 1970 or more than ``ahead_s`` after the record's timestamp. One wrong clock would make all others late.

Exactly once from topic to topic and from topic to Parquet, through restarts and kills, by the checkpoint.

Scale: each task adds up records before the shuffle, so that shuffle and state hold series x open windows, not
records. ``partitions`` is the partition count of topics, ``max_offsets`` bounds a micro-batch.
``--shuffle-partitions`` spreads the state over more tasks, and ``--rocksdb`` lets it exceed memory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from logstore.config.quantities import duration_ms
from logstore.errors import InvalidSettingError
from logstore.spark import functions as F
from logstore.spark.pipelines import Parameters, Report, parameter, pipeline
from logstore.spark.pipelines.input.values import fields_of, is_text, json_record
from logstore.spark.pipelines.running.queries import finish_in_turn, start_into_parquet, start_into_topic
from logstore.spark.pipelines.topics import ensure_topics, read_stream

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.state import GroupState

_PARTIAL = "series STRING, start LONG, count LONG, sum LONG, min LONG, max LONG"
_ROW = "series STRING, start LONG, seconds INT, count LONG, sum {number}, min {number}, max {number}, late BOOLEAN"


@dataclass(frozen=True, kw_only=True)
class RollupParameters(Parameters):
    """Parameters of ``rollup``: metrics topic, levels, and handling of late values."""

    topic: str = parameter(help="Topic of the metrics; created if missing.")
    output: str = parameter(help="Directory of Parquet, with a directory in it for each level.")
    levels: tuple[str, ...] = parameter(
        ("10s", "1m", "1h"), "Lengths of the windows, each a multiple of the one before."
    )
    delay_s: float = parameter(60.0, "How long after its end a window waits for values that come late.", least=0)
    ahead_s: float = parameter(3600.0, "How far a time may lie ahead of when its record was written.", least=0)
    digits: int = parameter(6, "Digits behind the point of a value that are kept.", least=0, most=12)

    def check(self) -> None:
        self.require("output", bool(self.output), "a directory")
        lengths = [seconds_of(level) for level in self.levels]
        self.require("levels", bool(lengths), "at least one")
        holds = all(longer > shorter and longer % shorter == 0 for shorter, longer in pairwise(lengths))
        self.require("levels", holds, "each a multiple of the one before")

    def topic_of(self, level: str) -> str:
        return f"{self.topic}-{level}"


def seconds_of(level: str, name: str = "levels") -> int:
    """Convert a length such as 10s, 1m, 1h or 1d to seconds; ``name`` is the parameter that has it.

    Raises:
        InvalidSettingError: it is not a length.

    >>> seconds_of("1m")
    60
    """
    if re.fullmatch(r"[1-9][0-9]{0,5}[smhd]", level) is None:  # one spelling, since it is a part of a topic's name
        raise InvalidSettingError({name: f"expected a number with s, m, h or d, such as 10s, found {level!r}"})
    return duration_ms(level) // 1_000


# -- values as they come in


def metrics(records: DataFrame, digits: int, ahead_s: float) -> DataFrame:
    """Convert records of the metrics topic to (series, start, count, sum, ...), one row per value at its time."""
    value, is_json = fields_of(F.col("value").cast("string"), "time LONG, value DOUBLE")
    is_read = (is_json & is_text("key") & is_text("value")).alias("is_read")
    read = records.select(F.col("key").cast("string").alias("series"), value.alias("v"), "timestamp", is_read)
    units = F.round(F.col("v.value") * F.lit(float(10**digits))).cast("long")
    fits = F.abs(F.col("v.value")) < F.lit(2.0**62 / 10**digits)
    good = F.col("is_read") & F.col("series").isNotNull() & plausible("v.time", ahead_s) & fits
    observed = read.observe("metrics", F.count_if(~F.coalesce(good, F.lit(False))).alias("refused"))
    kept = observed.where(good).select("series", F.col("v.time").alias("start"), units.alias("units"))
    one = F.lit(1).cast("long").alias("count")
    return kept.select("series", "start", one, *(F.col("units").alias(name) for name in ("sum", "min", "max")))


def plausible(time: str, ahead_s: float) -> Column:
    """Test whether a time in milliseconds is plausible for a record: one far ahead would make all others late."""
    latest = F.unix_millis("timestamp") + F.lit(round(ahead_s * 1000))
    return F.col(time).between(F.lit(0), latest)


def rows_of_level(records: DataFrame, digits: int) -> DataFrame:
    """Convert records of a level's topic to (series, start, count, sum, ...)."""
    parsed = from_json(records, digits)
    numbers = [(F.col(name) * F.lit(10**digits)).cast("long").alias(name) for name in ("sum", "min", "max")]
    return parsed.select("series", "start", "count", *numbers)


def from_json(records: DataFrame, digits: int) -> DataFrame:
    """Parse the rows in a level's topic, as they are written to Parquet."""
    schema = _ROW.format(number=f"DECIMAL(20, {digits})")
    return records.select(F.from_json(F.col("value").cast("string"), schema).alias("row")).select("row.*")


# -- one level


def roll_up(values: DataFrame, seconds: int, delay_s: float) -> DataFrame:
    """Add up (series, start, count, sum, min, max) in windows: one row per closed window, and late rows.

    Spark drops rows behind the watermark before a stateful function sees them, and counts them only roughly. Here
    none may be dropped: the values carry no event time, so they pass that check. One more row for each batch of
    Arrow data, the clock, moves the watermark.
    """
    from pyspark.sql.streaming.state import GroupStateTimeout

    combined = values.mapInArrow(_combine(seconds), f"clock TIMESTAMP, {_PARTIAL}")
    watched = combined.withWatermark("clock", f"{round(delay_s * 1000)} milliseconds")
    rows = watched.groupBy("series", "start").applyInPandasWithState(
        _close(seconds),
        outputStructType=f"{_PARTIAL}, late BOOLEAN",
        stateStructType="count LONG, sum LONG, min LONG, max LONG",
        outputMode="append",
        timeoutConf=GroupStateTimeout.EventTimeTimeout,
    )
    weight = {late: F.sum(F.when(F.col("late") == late, F.col("count"))) for late in (False, True)}
    return rows.observe("windows", weight[False].alias("in_time"), weight[True].alias("late"))


def _combine(seconds: int) -> Any:
    """Return the first step of a task: add up values of the same window, one batch of Arrow data at a time."""
    length = seconds * 1000

    def combine(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        clock = pa.timestamp("us", "UTC")
        for batch in batches:
            if not batch.num_rows:
                continue
            table = pa.Table.from_batches([batch])
            time = table["start"]
            window = pc.multiply(pc.divide(time, length), length)
            table = table.set_column(table.schema.get_field_index("start"), "start", window)
            summed = table.group_by(["series", "start"]).aggregate(
                [("count", "sum"), ("sum", "sum"), ("min", "min"), ("max", "max")]
            )
            columns = [summed[name] for name in ("series", "start", "count_sum", "sum_sum", "min_min", "max_max")]
            empty = pa.nulls(summed.num_rows, clock)
            names = ["clock", "series", "start", "count", "sum", "min", "max"]
            yield from pa.Table.from_arrays([empty, *columns], names=names).combine_chunks().to_batches()
            now = pa.array([pc.max(time).as_py() * 1000], pa.int64()).cast(clock)
            nothing = [pa.nulls(1, column.type) for column in columns]
            yield pa.RecordBatch.from_arrays([now, *nothing], names=names)

    return combine


def _close(seconds: int) -> Any:
    """Return the step that keeps a window open in a micro-batch, closes it, or writes a late row for it."""
    length = seconds * 1000

    def close(
        key: tuple[Any, ...], frames: Iterable[pandas.DataFrame], state: GroupState
    ) -> Iterator[pandas.DataFrame]:
        import pandas as pd

        series, begin = key
        if series is None:
            return  # the clock
        start = int(begin)
        held = [Sums(*map(int, state.get))] if state.exists else []
        new = [] if state.hasTimedOut else [_sums_of(frames)]
        rows: list[tuple[Any, ...]] = []
        # Spark times out a window when its end is below the watermark. But if the window has new values, Spark
        # passes these first, and does not time it out then: without this check it would stay open.
        if state.hasTimedOut or start + length < state.getCurrentWatermarkMs():
            rows += [(series, start, *sums, False) for sums in held]
            rows += [(series, start, *sums, True) for sums in new]
            if held:
                state.remove()
        else:
            state.update(tuple(_together(held + new)))
            state.setTimeoutTimestamp(start + length)
        if rows:
            yield pd.DataFrame(rows, columns=["series", "start", "count", "sum", "min", "max", "late"])

    return close


class Sums(NamedTuple):
    """Aggregate of values, in units of the last digit."""

    values: int
    sum: int
    min: int
    max: int


def _sums_of(frames: Iterable[pandas.DataFrame]) -> Sums:
    return _together(
        Sums(int(each["count"].sum()), int(each["sum"].sum()), int(each["min"].min()), int(each["max"].max()))
        for each in frames
    )


def _together(parts: Iterable[Sums]) -> Sums:
    counts, sums, least, most = zip(*parts, strict=True)
    return Sums(sum(counts), sum(sums), min(least), max(most))


def to_records(rows: DataFrame, seconds: int, digits: int) -> DataFrame:
    """Convert rows of a level to records of its topic."""
    numbers = [
        (F.col(name).cast("decimal(20, 0)") / F.lit(10**digits)).cast(f"decimal(38, {digits})").alias(name)
        for name in ("sum", "min", "max")
    ]
    length = F.lit(seconds).alias("seconds")
    return rows.select(*json_record("series", F.struct("series", "start", length, "count", *numbers, "late")))


# -- the whole


@pipeline("rollup", "Metrics into sums by 10 s, minute and hour, each level a topic and Parquet.", RollupParameters)
def run(spark: SparkSession, parameters: RollupParameters) -> Report:
    """Bring all levels up to date, one after the other; with ``continuous`` keep them so, concurrently."""
    topics = [parameters.topic, *(parameters.topic_of(level) for level in parameters.levels)]
    ensure_topics(parameters, *topics)
    begins: list[Callable[[], StreamingQuery]] = []
    for source, level in zip(topics, parameters.levels, strict=False):
        begins += [
            partial(_start_sum, spark, parameters, source, level),
            partial(_start_load, spark, parameters, level),
        ]
    counts = finish_in_turn(parameters, *begins)
    found = {"records": counts[0].total(), "refused": counts[0].total("refused")}
    for level, summed in zip(parameters.levels, counts[::2], strict=True):
        found |= {f"{level} in time": summed.total("in_time"), f"{level} late": summed.total("late")}
    return Report("rollup", found)


def _start_sum(spark: SparkSession, parameters: RollupParameters, source: str, level: str) -> StreamingQuery:
    """Start the query from the topic before to the topic of a level."""
    records = read_stream(spark, parameters, source)
    if source == parameters.topic:
        values = metrics(records, parameters.digits, parameters.ahead_s)
    else:
        values = rows_of_level(records, parameters.digits)
    rows = roll_up(values, seconds_of(level), parameters.delay_s)
    written = to_records(rows, seconds_of(level), parameters.digits)
    return start_into_topic(spark, written, parameters, f"sum-{level}", parameters.topic_of(level))


def _start_load(spark: SparkSession, parameters: RollupParameters, level: str) -> StreamingQuery:
    """Start the query from the topic of a level to its Parquet."""
    rows = from_json(read_stream(spark, parameters, parameters.topic_of(level)), parameters.digits)
    return start_into_parquet(spark, rows, parameters, f"load-{level}", os.path.join(parameters.output, level))
