"""A stream by path on a directory that goes from Kafka to a store and back, each of them killed in turns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import logstore
from tests.interop.broker import Broker, fetch
from tests.interop.killed_store import live
from tests.interop.test_adopted_kills import GROUP, TOPIC, kafkas_turn, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]


def test_a_stream_by_path_reads_each_record_once_while_either_side_is_killed_in_turns(
    spark: SparkSession, tmp_path: Path
) -> None:
    fetch()
    broker = Broker(tmp_path / "broker")
    root, out, at = broker.data, tmp_path / "out", 0

    def follow() -> None:
        """Read what is there now; an end of the query with an error is raised here."""
        table = spark.readStream.format("logstore").options(
            path=str(root), subscribe=TOPIC, startingOffsets="earliest"
        )
        query = (
            table.load()
            .selectExpr("cast(value as string) as value")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(out))
        )
        query.awaitTermination()

    read = kafkas_turn(broker, range(10), kill=False)
    at = 10
    follow()
    for turn in range(2):
        logstore.adopt_kafka_directory(root)
        for _ in range(3):
            read += live(root, TOPIC, GROUP, range(at, at + 10))
            at += 10
            follow()
        logstore.release_to_kafka(root)
        follow()
        read += kafkas_turn(broker, range(at, at + 10), kill=turn == 0)
        at += 10
        follow()
    assert read == values(range(at))
    found = sorted(int(row.value) for row in spark.read.parquet(str(out)).collect())
    assert found == list(range(at))
