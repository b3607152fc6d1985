"""The contenders: each a way to the same records, as a table and, where it can, as a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.spark import data

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

#: Those that need a broker, and what reads from it what.
KAFKA, KAFKA_FULL = "kafka", "kafka, full"
PATH, PATH_COLUMNS, PATH_FIELDS = "path", "path, columns", "path, valueSchema"
PATH_SMALL, PATH_LARGE = "path, 256 KiB fetches", "path, 16 MiB fetches"
BOOTSTRAP, BOOTSTRAP_FULL = "bootstrap", "bootstrap, full"
PARQUET, ARROW, MAP = "parquet", "arrow files", "mapInArrow"


@dataclass(frozen=True)
class Contender:
    """A format with its options; ``load`` where it is none."""

    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    topic: str = data.PLAIN
    load: Callable[[SparkSession], DataFrame] | None = None
    streams: bool = False  #: whether it is asked to stream
    columns: tuple[str, ...] | None = None  #: all it has, if not all there are

    def table(self, spark: SparkSession, **options: str) -> DataFrame:
        if self.load is not None:
            return self.load(spark)
        return spark.read.format(self.format).options(**{**self.options, **options}).load()

    def stream(self, spark: SparkSession, **options: str) -> DataFrame:
        options = {**self.options, "startingOffsets": "earliest", **options}
        return spark.readStream.format(self.format).options(**options).load()


def contenders(work: Path, bootstrap: str | None, records: int) -> dict[str, Contender]:
    """All by name; ours and Kafka's by a broker only if there is one."""
    store = {"path": str(work / "store"), "subscribe": data.PLAIN}
    found = {
        PATH: Contender("logstore", store, streams=True),
        PATH_COLUMNS: Contender("logstore", {**store, "columns": "value,offset"}, columns=("value", "offset")),
        PATH_FIELDS: Contender(
            "logstore", {**store, "valueSchema": '{"amount": "float64"}', "columns": "amount"}, columns=("amount",)
        ),
        PATH_SMALL: Contender("logstore", {**store, "fetchBytes": str(256 << 10)}),
        PATH_LARGE: Contender("logstore", {**store, "fetchBytes": str(16 << 20)}),
        MAP: Contender("mapInArrow", load=lambda spark: map_in_arrow(spark, store, records)),
        PARQUET: Contender("parquet", {"path": str(work / "events.parquet")}),
        ARROW: Contender("ready-arrow", {"path": str(work / "events.arrow")}),
    }
    if bootstrap is None:
        return found
    for name, topic, more in (
        ("", data.PLAIN, {}),
        (", full", data.FULL, {"includeHeaders": "true", "kafka.isolation.level": "read_committed"}),
    ):
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, **more}
        found[KAFKA + name] = Contender("kafka", options, topic, streams=True)
        found[BOOTSTRAP + name] = Contender("logstore", options, topic, streams=True)
    return found


def chosen(entrants: dict[str, Contender], names: str) -> dict[str, Contender]:
    """Return the contenders named, with semicolons between; all if none is.

    Raises:
        ValueError: a name is unknown, or that of a contender that needs a broker, and there is none.
    """
    wanted = [name.strip() for name in names.split(";") if name.strip()]
    unknown = [name for name in wanted if name not in entrants]
    if unknown:
        raise ValueError(f"--contenders: {'; '.join(unknown)} unknown; there are: {'; '.join(entrants)}")
    return {name: entrants[name] for name in wanted} or entrants


def map_in_arrow(spark: SparkSession, store: Mapping[str, str], records: int) -> DataFrame:
    """The source's own reader without Spark's way of planning: a range for each partition, read in `mapInArrow`."""
    from logstore.spark.reading.options import ReadOptions
    from logstore.spark.reading.schema import QueryColumns

    options = ReadOptions.of(dict(store))
    table = QueryColumns(options)

    def read_all(batches: Iterator[Any]) -> Iterator[Any]:
        from logstore.client.backend.ranges import Range
        from logstore.spark.reading.fetches import read

        for batch in batches:
            for partition in batch.column(0).to_pylist():
                end = len(range(partition, records, data.PARTITIONS))
                yield from read(Range(data.PLAIN, partition, 0, end), options, table)

    numbers = spark.range(0, data.PARTITIONS, 1, data.PARTITIONS)
    return numbers.mapInArrow(read_all, table.spark())


def register(spark: SparkSession) -> None:
    """Ours and the ceiling."""
    import logstore.spark
    from benchmarks.spark.arrow_source import ReadyArrow

    spark.dataSource.register(ReadyArrow)
    if hasattr(logstore.spark, "register"):
        logstore.spark.register(spark)
