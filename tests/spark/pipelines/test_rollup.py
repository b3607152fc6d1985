"""Sums by level, against plain dictionaries over the same values."""

from __future__ import annotations

import json
import random
import threading
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import functions as F

import logstore
from logstore.errors import InvalidSettingError
from logstore.spark.pipelines import get, rollup
from tests.spark.pipelines.feed import Feed

Windows = dict[tuple[str, int], list[Any]]
DAY_MS = 86_400_000


def reference(values: list[tuple[str, int, Decimal]], seconds: int) -> Windows:
    """Count, sum, least and greatest for each series and window."""
    found: Windows = {}
    for series, time, value in values:
        window = found.setdefault((series, time - time % (seconds * 1000)), [0, Decimal(0), value, value])
        window[0] += 1
        window[1] += value
        window[2] = min(window[2], value)
        window[3] = max(window[3], value)
    return found


def together(rows: list[dict[str, Any]]) -> Windows:
    """Rows of a level, in time or late, added up by series and window."""
    found: Windows = {}
    for row in rows:
        window = found.setdefault((row["series"], row["start"]), [0, Decimal(0), row["min"], row["max"]])
        window[0] += row["count"]
        window[1] += row["sum"]
        window[2] = min(window[2], row["min"])
        window[3] = max(window[3], row["max"])
    return found


def some_values(rng: random.Random, count: int, begin: int, end: int) -> list[tuple[str, int, Decimal]]:
    return [
        (f"web{rng.randrange(4)}.cpu", rng.randrange(begin, end), Decimal(rng.randrange(-5000, 5000)) / 1000)
        for _ in range(count)
    ]


def as_records(values: list[tuple[str, int, Decimal]]) -> list[tuple[str, dict[str, Any]]]:
    return [(series, {"time": time, "value": float(value)}) for series, time, value in values]


def level(feed: Feed, seconds: int = 10, delay_s: float = 30, digits: int = 6) -> list[dict[str, Any]]:
    rows = rollup.roll_up(rollup.metrics(feed.stream(), digits, 3600), seconds, delay_s)
    drained = feed.drain(rollup.to_records(rows, seconds, digits))
    assert all(key == value["series"] and value["seconds"] == seconds for key, value in drained)
    return [value | {name: Decimal(str(value[name])) for name in ("sum", "min", "max")} for _, value in drained]


def test_windows_closed_in_time_and_late_rows_together_are_all_that_came_in(feed: Feed) -> None:
    rng = random.Random(1)
    first, second = some_values(rng, 500, 0, 100_000), some_values(rng, 500, 90_000, 200_000)
    late = some_values(rng, 40, 0, 50_000)
    third = some_values(rng, 500, 200_000, 300_000)
    for batch in (first, second, late, third, [("web0.cpu", DAY_MS, Decimal(1))]):
        feed.add(as_records(batch))
    rows = level(feed)
    assert together(rows) == reference(first + second + late + third, 10)
    assert sum(row["count"] for row in rows if row["late"]) == len(late)
    in_time = [(row["series"], row["start"]) for row in rows if not row["late"]]
    assert len(in_time) == len(set(in_time))


def test_a_late_value_neither_reopens_nor_holds_up_its_window(feed: Feed) -> None:
    """Its window runs out in the same micro-batch that brings the value."""
    feed.add(as_records([("a", 1_000, Decimal(1))]))
    feed.add(as_records([("b", 60_000, Decimal(1))]))
    feed.add(as_records([("a", 2_000, Decimal(5)), ("b", 61_000, Decimal(1))]))
    feed.add(as_records([("a", 3_000, Decimal(7)), ("c", DAY_MS, Decimal(1))]))
    rows = [row for row in level(feed) if row["series"] == "a"]
    assert [(row["late"], row["sum"]) for row in rows if not row["late"]] == [(False, 1)]
    assert sorted(row["sum"] for row in rows if row["late"]) == [5, 7]


@pytest.mark.parametrize("digits", [0, 6, 12])
def test_sums_are_exact_to_the_last_digit(feed: Feed, digits: int) -> None:
    values = [("a", n, Decimal(n % 1000) * Decimal(10) ** -min(digits, 6)) for n in range(2000)]
    feed.add(as_records(values))
    feed.add(as_records([("a", DAY_MS, Decimal(1))]))
    rows = level(feed, digits=digits)
    assert together(rows) == reference(values, 10)


def test_records_that_are_no_metrics_are_left_out(spark: Any) -> None:
    now = 1_700_000_000
    bad = ["", "{", "[]", '{"time": 1}', '{"value": 1}', '{"time": 1, "value": "x"}', '{"time": 1, "value": 1e300}']
    bad += ['{"time": -1, "value": 1}', json.dumps({"time": now * 1000 + 60_001, "value": 1})]
    records = [("a", text) for text in bad] + [("a", None), (None, '{"time": 1, "value": 1}')]
    good = [("a", '{"time": 0, "value": 1}'), ("a", json.dumps({"time": now * 1000 + 60_000, "value": 1}))]
    frame = spark.createDataFrame(records + good, "key STRING, value STRING")
    stamped = frame.withColumn("timestamp", F.timestamp_seconds(F.lit(now)))
    assert [row.start for row in rollup.metrics(stamped, 6, 60).collect()] == [0, now * 1000 + 60_000]


def parameters(tmp_path: Path, **more: Any) -> rollup.RollupParameters:
    places = {"path": tmp_path / "store", "checkpoint": tmp_path / "checkpoint", "output": tmp_path / "out"}
    return rollup.RollupParameters(topic="metrics", **{name: str(path) for name, path in places.items()}, **more)


@pytest.mark.row("U1", "D5", "X2")
@pytest.mark.timeout(600)
def test_services_push_metrics_and_pull_aggregates(engine: Any, tmp_path: Path) -> None:
    """Every level, in its topic and in Parquet, equals the reference; also after values that come late."""
    told = parameters(tmp_path, partitions=2, delay_s=5.0)
    rng = random.Random(7)
    values = some_values(rng, 4000, 0, 3 * 3_600_000)
    # A window closes when later ones are seen: of the level before, so that each level needs one more.
    ends = [("clock", day * DAY_MS, Decimal(1)) for day in (10, 20, 30)]

    def push(part: list[tuple[str, int, Decimal]]) -> None:
        for series, record in as_records(part):
            topic.append(json.dumps(record).encode(), key=series.encode())

    with logstore.open(told.path, environ={}) as store:
        topic = store.create_topic("metrics", partitions=2)
        services = [threading.Thread(target=push, args=(values[n::4],)) for n in range(4)]
        for service in services:
            service.start()
        for service in services:
            service.join()
        push(ends)
        topic.append(b"no metric", key=b"web0.cpu")
    report = rollup.run(engine, told)
    assert report.counts["records"] == len(values) + len(ends) + 1
    assert report.counts["refused"] == 1
    check_levels(told, values)

    late = some_values(rng, 50, 0, 3_600_000)
    with logstore.open(told.path, environ={}) as store:
        topic = store["metrics"]
        push(late)
    report = rollup.run(engine, told)
    assert [report.counts[f"{name} late"] for name in told.levels] == [len(late)] * 3
    check_levels(told, values + late)


def check_levels(told: rollup.RollupParameters, values: list[tuple[str, int, Decimal]]) -> None:
    with logstore.open(told.path, read_only=True, environ={}) as store:
        for name in told.levels:
            expected = reference(values, rollup.seconds_of(name))
            pulled = [
                json.loads(record.value, parse_float=Decimal, parse_int=int)
                for record in store[f"metrics-{name}"].scan(isolation="read_committed")
            ]
            rows = [row for row in pulled if row["series"] != "clock"]
            assert together(rows) == expected
            assert sum(row["count"] for row in rows) == len(values)
            table = pd.read_parquet(Path(told.output) / name)
            sums = defaultdict(Decimal)
            for series, start, amount in zip(table["series"], table["start"], table["sum"], strict=True):
                if series != "clock":
                    sums[series, start] += amount
            assert sums == {window: facts[1] for window, facts in expected.items()}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"levels": ("10s", "15s")}, "levels: expected each a multiple"),
        ({"levels": ("1m", "10s")}, "levels: expected each a multiple"),
        ({"levels": ()}, "levels: expected at least one"),
        ({"levels": ("10 s",)}, "such as 10s, found '10 s'"),
        ({"delay_s": -1.0}, "delay_s: expected 0 or more"),
        ({"digits": 13}, "digits: expected 0 to 12"),
    ],
)
def test_wrong_parameters_are_named(tmp_path: Path, wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidSettingError, match=named):
        parameters(tmp_path, **wrong)


def test_it_is_registered() -> None:
    assert get("rollup").parameters is rollup.RollupParameters
