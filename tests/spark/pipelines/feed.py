"""Records for a pipeline's functions without a topic: files of JSON lines as a stream, one micro-batch each."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: What a topic gives.
SCHEMA = "key STRING, value STRING, partition INT, offset LONG, timestamp TIMESTAMP"
NOW = "2026-01-01T00:00:00.000Z"


class Feed:
    """A directory of micro-batches."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark = spark
        self._root = root
        self._source = root / "feed"
        self._source.mkdir(parents=True)
        self._count = 0

    def add(self, records: Iterable[tuple[str | None, Any]]) -> None:
        """One micro-batch of keys and values; a value that is no text is written as JSON."""
        self._count += 1
        path = self._source / f"{self._count:04}.json"
        with path.open("w") as file:
            for offset, (key, value) in enumerate(records):
                text = value if value is None or isinstance(value, str) else json.dumps(value)
                record = {"key": key, "value": text, "partition": 0, "offset": offset, "timestamp": NOW}
                file.write(json.dumps(record) + "\n")
        os.utime(path, (self._count, self._count))

    def stream(self) -> DataFrame:
        """The micro-batches, in Kafka's columns."""
        lines = self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(self._source))
        return lines.select(
            F.col("key").cast("binary"), F.col("value").cast("binary"), "partition", "offset", "timestamp"
        )

    def drain(self, records: DataFrame) -> list[tuple[str, dict[str, Any]]]:
        """Run a stream to its end: the keys and JSON values that come out, with those of earlier calls."""
        out = str(self._root / "drained")
        query = records.writeStream.format("parquet").option("path", out).trigger(availableNow=True)
        query.option("checkpointLocation", str(self._root / "checkpoint")).start().awaitTermination()
        return [
            (bytes(row.key).decode(), json.loads(bytes(row.value)))
            for row in self._spark.read.parquet(out).collect()
        ]
