"""What is done with each contender: queries over the whole table, streams over it, and many small batches."""

from __future__ import annotations

import shutil
import statistics
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from benchmarks.spark.contenders import Contender

#: How many rows a small batch has, and how many of the first batches are not counted.
SMALL_ROWS = 1_000
NOT_COUNTED = 5


def count(table: DataFrame, work: Path) -> None:
    table.count()


def scan(table: DataFrame, work: Path) -> None:
    """Every row and column reaches the JVM, and goes nowhere."""
    table.write.format("noop").mode("overwrite").save()


def value(table: DataFrame, work: Path) -> None:
    """Nothing but the value is asked for."""
    table.selectExpr("sum(length(value))").collect()


def json(table: DataFrame, work: Path) -> None:
    """One field of the values, by Spark's own parser where the source does not give it."""
    field = "amount" if "amount" in table.columns else "from_json(cast(value as string), 'amount double').amount"
    table.selectExpr(f"sum({field})").collect()


def group(table: DataFrame, work: Path) -> None:
    table.groupBy("key").agg({"*": "count", "offset": "max", "value": "max"}).selectExpr("count(*)").collect()


def copy(table: DataFrame, work: Path) -> None:
    """To Parquet, compressed with zstd."""
    folder = work / "copy"
    table.write.mode("overwrite").parquet(str(folder))
    shutil.rmtree(folder)


#: Name -> what is timed.
QUERIES: dict[str, Callable[[DataFrame, Path], None]] = {
    "count": count,
    "scan": scan,
    "value": value,
    "json": json,
    "group": group,
    "copy": copy,
}


def fingerprint(table: DataFrame, columns: Sequence[str] | None = None) -> dict[str, Any]:
    """What tells whether two contenders have the same rows: their number, sums, and a hash that knows no order."""
    chosen = list(columns or table.columns)
    sums = [
        f"sum({name})" if name in ("partition", "offset", "timestampType") else f"sum(length({name}))"
        for name in chosen
        if name not in ("topic", "headers", "timestamp")
    ]
    named = [*sums, f"bit_xor(xxhash64({', '.join(chosen)}))", "count(*)"]
    row = table.selectExpr(*(f"{expression} as `{expression}`" for expression in named)).first()
    assert row is not None
    return row.asDict()


def timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def available_now(spark: SparkSession, contender: Contender, work: Path, records: int) -> dict[str, float]:
    """Everything there is, by a stream; seconds in all, and milliseconds of its batches."""
    checkpoint = work / f"checkpoint-{uuid.uuid4()}"
    started = time.perf_counter()
    writer = contender.stream(spark).writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    seconds = time.perf_counter() - started
    batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
    rows = sum(progress["numInputRows"] for progress in batches)
    shutil.rmtree(checkpoint)
    if rows != records:
        raise AssertionError(f"{contender.format}: a stream of {records} records gave {rows}")
    return {"seconds": seconds, "batch_ms": sum(progress["durationMs"]["addBatch"] for progress in batches)}


def small_batches(spark: SparkSession, contender: Contender, work: Path, batches: int) -> dict[str, float]:
    """One batch of `SMALL_ROWS` after another; the median milliseconds of each part of a trigger."""
    checkpoint = work / f"checkpoint-{uuid.uuid4()}"
    stream = contender.stream(spark, maxOffsetsPerTrigger=str(SMALL_ROWS))
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        _wait_for(query, batches + NOT_COUNTED)
    finally:
        query.stop()
    shutil.rmtree(checkpoint)
    seen = [progress for progress in query.recentProgress if progress["numInputRows"]][NOT_COUNTED:]
    odd = [progress["numInputRows"] for progress in seen if not 0 < progress["numInputRows"] <= 2 * SMALL_ROWS]
    if odd or not seen:
        raise AssertionError(f"{contender.format}: batches of {odd or 'no'} rows where {SMALL_ROWS} were asked for")
    parts = sorted({part for progress in seen for part in progress["durationMs"]})
    return {part: statistics.median(progress["durationMs"].get(part, 0) for progress in seen) for part in parts}


def _wait_for(query: StreamingQuery, batches: int) -> None:
    until = time.monotonic() + 120
    while query.isActive and time.monotonic() < until:
        last = query.lastProgress
        if last is not None and last["batchId"] >= batches:
            return
        time.sleep(0.05)
    raise AssertionError(f"no {batches} batches in two minutes: {query.exception() or query.status}")
