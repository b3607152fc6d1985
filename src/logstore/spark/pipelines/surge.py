"""Surge pricing: requests and drivers by cell of the map, in sliding windows, to a price within seconds.

``requests`` holds one record for each ride requested, ``drivers`` one for each report of a free driver. The value
of both is JSON with ``cell``, that of a driver also ``driver``. Windows are a minute long and begin every five
seconds. For each cell and window, *demand* is the number of requests, *supply* the number of different drivers.
*Ratio* is demand / max(supply, 1), and the price min(max(ratio, 1), cap), to the hundredth. Prices are written to a
compacted topic, whose newest record of a cell is its current price.

Event time is the record's timestamp. The query runs in update mode. It does not wait until a window is over: a
micro-batch writes every window that its records have changed. Of the windows that hold a moment, only the one that
ends first after it covers the last minute (the others have hardly begun). So a window is priced when it has an
event in its last five seconds, and later windows are priced later. One micro-batch writes the prices of a cell in
the order of the windows.

A late record counts if it is in a window that is still priced. With ``lateness`` 0 seconds (the default), a window
is closed as soon as an earlier micro-batch has read a record at or after its end. So the price of a cell never
returns to an older window; a record a minute late or more is in no price, and counted. With a longer ``lateness``
prices of past windows are corrected, and a correction may be the newest record of its cell. Use that for replays
that need only the windows that a batch computes. Records more than ten seconds ahead of the clock when they are
read are left out. One of them would close the windows of all cells.

A micro-batch that was killed is run again before any later one. If the store is a directory, its prices are in the
topic once. Through a broker a price may be there twice in a row, and the newest record of a cell is the same.

A cell without events keeps its price until the next event: free drivers have to report at least once in a window.

Scale: cells are spread over ``spark.sql.shuffle.partitions`` tasks (``--shuffle-partitions``); state is a count
and the names of the drivers for each cell and each open window. ``max_bytes`` bounds a micro-batch, and so the time
to the next price when the query has to catch up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from logstore.spark import functions as F
from logstore.spark.pipelines import Parameters, Report, parameter, pipeline
from logstore.spark.pipelines.input.values import fields_of, is_text, json_record
from logstore.spark.pipelines.output.outputs import TopicOutput, query_of
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
    """Parameters of ``surge``: topics of demand, supply and price, and lengths of the windows."""

    requests: str = parameter(REQUESTS, "Topic of requests: JSON with `cell`; created if missing.")
    drivers: str = parameter(DRIVERS, "Topic of free drivers: JSON with `cell` and `driver`; created if missing.")
    prices: str = parameter(PRICES, "Compacted topic of prices, key = cell; created if missing.")
    window_s: int = parameter(60, "Length of a window in seconds: how far a price looks back.")
    slide_s: int = parameter(5, "Seconds between the beginnings of two windows; divides the length.", least=1)
    cap: float = parameter(5.0, "The highest price, as a multiple of the usual one.", least=1)
    lateness: str = parameter("0 seconds", "How long a window is still corrected; longer than 0 only for replays.")
    max_bytes: int = parameter(
        0, "Bytes of log taken in one micro-batch; 0 takes all that exist.", scale=True, least=0
    )

    def check(self) -> None:
        self.require("window_s", self.window_s >= self.slide_s, "at least slide_s")
        self.require_duration("lateness")
        self.require_different("requests", "drivers", "prices")
        self.require("window_s", not self.window_s % self.slide_s, f"a multiple of slide_s ({self.slide_s})")


def events_of(records: DataFrame, parameters: SurgeParameters) -> DataFrame:
    """Convert records of both topics to events: ``timestamp``, ``cell``, ``driver`` (null for a request).

    Those whose value is not such JSON, or which are from the future, are left out and counted as ``refused``.
    """
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
    """Compute prices from events of `events_of`: one row for each cell and priced window.

    ``cell``, ``start`` and ``end`` (exclusive) of the window, ``demand``, ``supply``, ``ratio``, ``price``, and
    ``newest``, the time of the newest event in it. The function works for a batch and for a stream in update mode:
    the last row that a stream gives for a window is the row of the batch, if no record was late.
    """
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
    """Convert prices of a batch to records: key = cell, timestamp = newest event, value = JSON with times in ms.

    The windows of a cell are in order.
    """
    start, end = (F.unix_millis(name).alias(name) for name in ("start", "end"))
    record = json_record("cell", F.struct("cell", "price", "demand", "supply", "ratio", start, end))
    records = prices.select(*record, F.col("newest").alias("timestamp"), "end")
    # The windows of a cell come out of different tasks; its newest price must come last in the topic.
    return records.repartition("key").sortWithinPartitions("end").drop("end")


def start_prices(spark: SparkSession, parameters: SurgeParameters) -> StreamingQuery:
    """Start the query from both topics to the topic of prices."""
    limit = {"maxBytesPerTrigger": str(parameters.max_bytes)} if parameters.max_bytes else {}
    records = read_stream(spark, parameters, parameters.requests, parameters.drivers, **limit)
    prices = prices_of(events_of(records, parameters), parameters)
    checkpoint = parameters.checkpoint_of(STAGE)

    # Spark refuses update mode for a sink in Python, but allows each micro-batch to be written as a batch.
    def write(changed: DataFrame, number: int) -> None:
        query = query_of(changed.sparkSession, checkpoint)
        write_batch(price_records(changed), parameters, parameters.prices, query, number)

    writer = prices.writeStream.outputMode("update").foreachBatch(write)
    return start(spark, writer, parameters, STAGE, TopicOutput(parameters, parameters.prices, again=True))


def prepare(parameters: SurgeParameters) -> None:
    """Create the topics that are missing."""
    ensure_topics(parameters, parameters.requests, parameters.drivers)
    ensure_topics(parameters, parameters.prices, settings={"cleanup.policy": "compact"})


@pipeline("surge", "Ride requests and free drivers into prices by cell, within seconds.", SurgeParameters)
def run(spark: SparkSession, parameters: SurgeParameters) -> Report:
    """Price the available records, or continue until stopped if ``continuous``."""
    prepare(parameters)
    (counts,) = finish(start_prices(spark, parameters))
    return Report(
        "surge",
        {"records": counts.total(), "refused": counts.total("refused"), "late windows": counts.total("late")},
    )
