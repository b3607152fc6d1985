"""Surge pricing: requests and drivers by cell of the map, in sliding windows, to a price within seconds.

``requests`` holds one record for each ride asked for, ``drivers`` one for each sign of life of a free driver; the
value of both is JSON with ``cell``, that of a driver also ``driver``. For each cell and each window (a minute
long, beginning every five seconds) *demand* is the number of requests, *supply* the number of different drivers,
*ratio* demand / max(supply, 1), and the price min(max(ratio, 1), cap), to the hundredth. Prices go to a compacted
topic, whose newest record of a cell is the price there now.

Event time is the record's timestamp. The query runs in update mode: it does not wait until a window is over, a
micro-batch writes every window that its records have changed. Of the windows that hold a moment, only the one
that ends first after it says what the last minute was like (the others have hardly begun); so a window is priced
when something has happened in its last five seconds, and the later windows have their turn. One micro-batch
writes the prices of a cell in the order of the windows.

A record may come late by as much as it still lies in a window that is priced: with ``lateness`` 0 seconds (the
default) a window is closed as soon as a record at or after its end was read by an earlier micro-batch. So the
price of a cell never goes back to an older window; a record a minute late or more is in no price, and counted.
With a longer ``lateness`` prices of past windows are corrected, and a correction may be the newest record of its
cell: for replays, where all that is wanted is the same windows as a batch computes. Records more than ten seconds
ahead of the clock when they are read are left out: one of them would close the windows of everybody.

A micro-batch that was killed is run again before any later one. Its prices are in the topic once where the store is
a directory; through a broker a price may be there twice in a row, and the newest record of a cell is the same.

A cell in which nothing happens keeps its price until something does: free drivers have to report at least once in
a window.

Scale: cells are spread over ``spark.sql.shuffle.partitions`` tasks (``--shuffle-partitions``); state is a count
and the names of the drivers for each cell and each of the windows that are open. ``max_bytes`` bounds a
micro-batch, and so the time to the next price when there is much to catch up with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from logstore.errors import InvalidSettingError
from logstore.spark.pipelines import Parameters, Report, parameter, pipeline
from logstore.spark.pipelines.input.values import fields_of, is_text
from logstore.spark.pipelines.output.outputs import Topic, query_of
from logstore.spark.pipelines.parameters import interval_of
from logstore.spark.pipelines.running.queries import finish, start
from logstore.spark.pipelines.topics import ensure_topics, read_stream, write_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STAGE = "prices"
REQUESTS = "ride-requests"
DRIVERS = "driver-positions"
PRICES = "prices"

#: How far ahead of the clock a record may be.
AHEAD = "10 seconds"


@dataclass(frozen=True, kw_only=True)
class SurgeParameters(Parameters):
    """Which topics hold demand, supply and price, and how long a look back is."""

    requests: str = parameter(REQUESTS, "Topic of requests: JSON with `cell`; created if missing.")
    drivers: str = parameter(DRIVERS, "Topic of free drivers: JSON with `cell` and `driver`; created if missing.")
    prices: str = parameter(PRICES, "Compacted topic of prices, key = cell; created if missing.")
    window_s: int = parameter(60, "Length of a window in seconds: how far a price looks back.")
    slide_s: int = parameter(5, "Seconds between the beginnings of two windows; divides the length.")
    cap: float = parameter(5.0, "The highest price, as a multiple of the usual one.")
    lateness: str = parameter("0 seconds", "How long a window is still corrected; longer than 0 only for replays.")
    max_bytes: int = parameter(0, "Bytes of log taken in one micro-batch; 0 takes what there is.", scale=True)

    def __post_init__(self) -> None:
        Parameters.__post_init__(self)
        self.require("slide_s", self.slide_s >= 1, "1 or more")
        self.require("window_s", self.window_s >= self.slide_s, "at least slide_s")
        self.require_duration("lateness")
        self.require_different("requests", "drivers", "prices")
        self.require("cap", self.cap >= 1, "1 or more")
        self.require("max_bytes", self.max_bytes >= 0, "0 or more")
        if self.window_s % self.slide_s:
            raise InvalidSettingError(
                {"window_s": f"expected a multiple of slide_s ({self.slide_s}), found {self.window_s}"}
            )


def events_of(records: DataFrame, parameters: SurgeParameters) -> DataFrame:
    """Records of both topics as events: ``timestamp``, ``cell``, ``driver`` (null for a request).

    Those whose value is no such JSON, or which are from the future, are left out and counted as ``refused``.
    """
    from pyspark.sql import functions as F

    value, fits = fields_of(F.col("value").cast("string"), "cell string, driver string")
    is_driver = F.col("topic") == parameters.drivers
    read = records.select(
        "timestamp",
        value["cell"].alias("cell"),
        F.when(is_driver, value["driver"]).alias("driver"),
        is_driver.alias("is_driver"),
        (fits & is_text("value")).alias("fits"),
    )
    good = F.expr(
        "fits and cell is not null and (not is_driver or driver is not null) "
        f"and timestamp <= current_timestamp() + interval '{AHEAD}'"
    )
    counted = read.observe("events", F.count_if(~F.coalesce(good, F.lit(False))).alias("refused"))
    return counted.where(good).drop("fits")


def prices_of(events: DataFrame, parameters: SurgeParameters) -> DataFrame:
    """Events of `events_of` as one row for each cell and priced window.

    ``cell``, ``start`` and ``end`` (exclusive) of the window, ``demand``, ``supply``, ``ratio``, ``price``, and
    ``newest``, the time of the newest event in it. The same function does for a batch and for a stream in update
    mode: the last row that a stream gives for a window is the row of the batch, if nothing came late.
    """
    from pyspark.sql import functions as F

    window = F.window("timestamp", f"{parameters.window_s} seconds", f"{parameters.slide_s} seconds")
    ratio = F.col("demand") / F.greatest("supply", F.lit(1))
    return (
        events.withWatermark("timestamp", interval_of(parameters.lateness))
        .groupBy(window.alias("window"), "cell")
        .agg(
            F.count_if(~F.col("is_driver")).alias("demand"),
            F.size(F.collect_set("driver")).alias("supply"),
            F.max("timestamp").alias("newest"),
        )
        .select("cell", "window.start", "window.end", "demand", "supply", "newest")
        .where(f"newest >= end - interval {parameters.slide_s} seconds")
        .withColumn("ratio", ratio)
        .withColumn("price", F.round(F.least(F.greatest("ratio", F.lit(1.0)), F.lit(parameters.cap)), 2))
    )


def price_records(prices: DataFrame) -> DataFrame:
    """Prices of a batch as records: key = cell, timestamp = newest event, value = JSON with times in ms.

    The windows of a cell are in order.
    """
    from pyspark.sql import functions as F

    value = F.to_json(
        F.struct(
            "cell",
            "price",
            "demand",
            "supply",
            "ratio",
            F.unix_millis("start").alias("start"),
            F.unix_millis("end").alias("end"),
        )
    )
    records = prices.select(
        F.col("cell").cast("binary").alias("key"),
        value.cast("binary").alias("value"),
        F.col("newest").alias("timestamp"),
        F.col("end"),
    )
    # The windows of a cell come out of different tasks; its newest price must come last in the topic.
    return records.repartition("key").sortWithinPartitions("end").drop("end")


def start_prices(spark: SparkSession, parameters: SurgeParameters) -> StreamingQuery:
    """Both topics to the topic of prices."""
    limit = {"maxBytesPerTrigger": str(parameters.max_bytes)} if parameters.max_bytes else {}
    records = read_stream(spark, parameters, parameters.requests, parameters.drivers, **limit)
    prices = prices_of(events_of(records, parameters), parameters)
    checkpoint = parameters.checkpoint_of(STAGE)

    # Spark lets no sink written in Python have update mode, but each micro-batch of it be written as a batch.
    def write(changed: DataFrame, number: int) -> None:
        query = query_of(changed.sparkSession, checkpoint)
        write_batch(price_records(changed), parameters, parameters.prices, query, number)

    writer = prices.writeStream.outputMode("update").foreachBatch(write)
    return start(spark, writer, parameters, STAGE, Topic(parameters, parameters.prices, again=True))


def prepare(parameters: SurgeParameters) -> None:
    """Make the topics that are missing."""
    ensure_topics(parameters, parameters.requests, parameters.drivers)
    ensure_topics(parameters, parameters.prices, settings={"cleanup.policy": "compact"})


@pipeline("surge", "Ride requests and free drivers into prices by cell, within seconds.", SurgeParameters)
def run(spark: SparkSession, parameters: SurgeParameters) -> Report:
    """Price what there is, or go on pricing if ``continuous``."""
    prepare(parameters)
    (counts,) = finish(start_prices(spark, parameters))
    return Report(
        "surge",
        {"records": counts.total(), "refused": counts.total("refused"), "late windows": counts.total("late")},
    )
