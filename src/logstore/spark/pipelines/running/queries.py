"""Streaming queries of a pipeline: started with its trigger and checkpoint, watched, and counted.

Only this module decides how a query of a pipeline begins and ends. Driver only; one thread for each pipeline.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from logstore.spark.pipelines.output.outputs import Checkpoint, DirectoryOutput, Output, TopicOutput
from logstore.spark.pipelines.parameters import Parameters
from logstore.spark.pipelines.topics import write_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

#: Seconds between two looks at a query's progress; by default it keeps that of 100 micro-batches.
_LOOK_S = 1.0


class QueryCounts:
    """Counters of a query since it was started: input records, late rows and observed metrics, added up.

    "late" is Spark's metric of its stateful operators: rows that the watermark dropped before them, counted after
    partial aggregation.

    A micro-batch counts once, even if it was begun again.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self.query = query
        self._seen: dict[int, dict[str, int]] = {}

    def look(self) -> None:
        """Read the progress that the query has reported since the last look."""
        for progress in self.query.recentProgress:
            observed = {
                name: int(value or 0)
                for row in progress.observedMetrics.values()
                for name, value in row.asDict().items()
            }
            rows = {"in": int(progress.numInputRows)}
            rows["late"] = sum(state.numRowsDroppedByWatermark for state in progress.stateOperators)
            # A micro-batch without data reports under the next one's number: the last report with counts is kept.
            if any(observed.values()) or any(rows.values()) or progress.batchId not in self._seen:
                self._seen[progress.batchId] = rows | observed

    def total(self, name: str = "in") -> int:
        return sum(counts.get(name, 0) for counts in self._seen.values())


def start(
    spark: SparkSession, writer: DataStreamWriter, parameters: Parameters, stage: str, fills: Output
) -> StreamingQuery:
    """Start a query under the name of its stage, with its own checkpoint in the pipeline's.

    Raises:
        CheckpointMismatchError: the output it ``fills`` belongs to another checkpoint, or to another state of it.
    """
    trigger: dict[str, Any] = (
        {"processingTime": f"{round(parameters.interval_s * 1000)} milliseconds"}
        if parameters.continuous
        else {"availableNow": True}
    )
    checkpoint = parameters.checkpoint_of(stage)
    found = Checkpoint.read(spark, checkpoint)
    fills.check(spark, found)
    fills.prepare(spark, found)
    query = writer.queryName(stage).option("checkpointLocation", checkpoint).trigger(**trigger).start()
    try:
        fills.claim(spark, checkpoint, query.id)
    except BaseException:
        query.stop()
        raise
    return query


def start_into_topic(
    spark: SparkSession,
    records: DataFrame,
    parameters: Parameters,
    stage: str,
    topic: str,
    *,
    mode: str = "append",
    again: bool = False,
) -> StreamingQuery:
    """Start a query that writes records to a topic; ``again`` is that of `TopicOutput`.

    Raises:
        CheckpointMismatchError: as `start`.
    """
    writer = write_stream(records, parameters, topic).outputMode(mode)
    return start(spark, writer, parameters, stage, TopicOutput(parameters, topic, again=again))


def start_into_parquet(
    spark: SparkSession, rows: DataFrame, parameters: Parameters, stage: str, path: str, folders: Sequence[str] = ()
) -> StreamingQuery:
    """Start a query that writes rows to a directory of Parquet, in ``folders`` by columns.

    Raises:
        CheckpointMismatchError: as `start`.
    """
    writer = rows.writeStream.format("parquet").option("path", path)
    if folders:
        writer = writer.partitionBy(*folders)
    return start(spark, writer, parameters, stage, DirectoryOutput(path))


def finish(*queries: StreamingQuery) -> Sequence[QueryCounts]:
    """Wait until all the queries have ended, and return their counts.

    When one fails, or the wait is interrupted, the others are stopped.

    Raises:
        StreamingQueryException: a query has failed.
    """
    counts = [QueryCounts(query) for query in queries]
    try:
        waiting = list(counts)
        while waiting:
            for each in list(waiting):
                if each.query.awaitTermination(_LOOK_S / len(waiting)):
                    waiting.remove(each)
                each.look()
    finally:
        _stop(queries)
    return counts


def finish_in_turn(parameters: Parameters, *begins: Callable[[], StreamingQuery]) -> Sequence[QueryCounts]:
    """Start queries that feed one another and wait for them: one after the other, or with ``continuous``
    concurrently.

    Raises:
        StreamingQueryException: a query has failed; those after it were not started, or are stopped.
    """
    if not parameters.continuous:
        return [counts for begin in begins for counts in finish(begin())]
    started: list[StreamingQuery] = []
    try:
        for begin in begins:
            started.append(begin())  # queries already started must be stopped if the next one fails
        return finish(*started)
    finally:
        _stop(started)


def _stop(queries: Iterable[StreamingQuery]) -> None:
    for query in queries:
        if query.isActive:
            query.stop()


@contextlib.contextmanager
def setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """Change a setting of Spark inside ``with``."""
    before = spark.conf.get(key, None)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)
