"""What `make demo` ends with, on the first flights of the year."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas
import pytest

import logstore
from examples import flights_spark
from examples.flights_source import read_table
from examples.show import DemoError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)  # on a busy machine


@pytest.mark.row("D5")
@pytest.mark.row("U13")
def test_flights_and_weather_go_through_topics_to_the_figures_of_pandas(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flights_spark, "FILES", 2)
    monkeypatch.setattr(flights_spark, "BATCHES", 2)
    steps = flights_spark.run(spark, tmp_path / "demo", rows=2000)
    shown = capsys.readouterr().out
    assert [step.rows for step in steps[:1]] == [2000]
    assert "rain or snow" in shown
    assert "is what pandas computes from the source" in shown
    with logstore.open(tmp_path / "demo/store", read_only=True, environ={}) as store:
        assert store["flights"].scan().count() == 2000
        assert store["delays"].scan().count() == steps[-1].rows


def test_the_figures_of_pandas_are_those_of_a_loop() -> None:
    flights, weather = read_table("flights").head(3000), read_table("weather")
    hours = {(row.origin, row.time_hour): row for row in weather.itertuples()}
    found: dict[str, int] = {}
    for row in flights.itertuples():
        hour = hours.get((row.origin, row.time_hour))
        if hour is not None and not pandas.isna(row.dep_delay) and hour.wind_speed < 10:
            found[row.origin] = found.get(row.origin, 0) + int(row.dep_delay)
    figures = flights_spark.figures_of_pandas(flights, weather)
    assert {place: figures["wind below 10 mph", place][1] for place in found} == found


def test_another_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(DemoError, match="was not made by this demo"):
        flights_spark.empty_place(tmp_path)
    assert (tmp_path / "mine").exists()
