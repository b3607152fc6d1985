"""Surge pricing: the prices of a batch and of a stream are those of plain Python, and follow a jump in time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow
import pytest

from logstore.errors import InvalidSettingError
from logstore.spark.pipelines import surge
from logstore.spark.pipelines.surge import SurgeParameters
from tests.spark.pipelines import city
from tests.spark.pipelines.city import Sign

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "topic string, key binary, value binary, timestamp timestamp"


def parameters_in(tmp_path: Path, **given: object) -> SurgeParameters:
    return SurgeParameters(path=str(tmp_path / "store"), checkpoint=str(tmp_path / "checkpoint"), **given)


def frame_of(spark: SparkSession, signs: Iterable[Sign]) -> DataFrame:
    rows = [(s.topic, s.key, s.value, datetime.fromtimestamp(s.at_ms / 1000, UTC)) for s in signs]
    return spark.createDataFrame(rows, COLUMNS)


def prices_in(frame: DataFrame) -> dict[tuple[str, int], city.Price]:
    rows = frame.selectExpr("cell", "unix_millis(end)", "demand", "supply", "price").collect()
    return {(row[0], row[1]): city.Price(*row[2:]) for row in rows}


def test_the_prices_of_a_batch_are_those_of_plain_python(spark: SparkSession, tmp_path: Path) -> None:
    signs = city.signs(seed=3, seconds=200)
    parameters = parameters_in(tmp_path)
    found = prices_in(surge.prices_of(surge.events_of(frame_of(spark, signs), parameters), parameters))
    expected = city.prices(signs, parameters.window_s, parameters.slide_s, parameters.cap)
    assert found == expected
    assert len({price.price for price in expected.values()}) > 5


def test_what_is_no_request_and_no_driver_is_left_out(spark: SparkSession, tmp_path: Path) -> None:
    parameters = parameters_in(tmp_path)
    now = datetime(2024, 1, 1, tzinfo=UTC)
    rows = [
        (surge.REQUESTS, None, b'{"cell": "a"}', now),
        (surge.REQUESTS, None, b"not JSON", now),
        (surge.REQUESTS, None, None, now),
        (surge.REQUESTS, None, b'{"cell": "a"}', datetime(2124, 1, 1, tzinfo=UTC)),
        (surge.DRIVERS, None, b'{"cell": "a"}', now),
        (surge.DRIVERS, None, b'{"cell": "a", "driver": "d"}', now),
    ]
    events = surge.events_of(spark.createDataFrame(rows, COLUMNS), parameters)
    assert sorted((row["cell"], row["driver"]) for row in events.fillna("-").collect()) == [("a", "-"), ("a", "d")]


def test_the_windows_of_a_cell_are_written_in_order() -> None:
    batches = [
        pyarrow.record_batch({"key": [b"a", b"b"], "end": [3, 1]}),
        pyarrow.record_batch({"key": [b"a"], "end": [2]}),
    ]
    rows = [row for batch in surge.in_order(iter(batches)) for row in batch.to_pylist()]
    assert [row["end"] for row in rows] == [1, 2, 3]
    assert list(surge.in_order(iter([]))) == []


def test_a_window_is_a_multiple_of_its_slide(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettingError, match=r"window_s: expected a multiple of slide_s \(7\), found 60"):
        parameters_in(tmp_path, slide_s=7)
