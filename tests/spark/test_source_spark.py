"""The source in a real session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import logstore

RECORDS = 1000


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = str(tmp_path / "data")
    with logstore.open(path) as opened:
        opened.create_topic("flights", partitions=2).append_many(
            [(b"k%d" % n, b'{"delay": %d}' % n, 1_700_000_000_000 + n, []) for n in range(RECORDS)]
        )
    return path


def read(spark: Any, path: str, **options: str) -> Any:
    return spark.read.format("logstore").options(path=path, subscribe="flights", **options).load()


@pytest.mark.row("M9")
def test_the_topic_is_a_table_with_the_columns_of_sparks_kafka_source(spark: Any, store: str) -> None:
    table = read(spark, store)
    assert table.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    ends = {row.partition: row.end for row in table.groupBy("partition").agg({"offset": "max"}).toDF(
        "partition", "end").collect()}  # fmt: skip
    assert table.count() == sum(end + 1 for end in ends.values()) == RECORDS
