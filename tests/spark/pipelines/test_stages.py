"""Raw to enriched to sums, against pandas over the same records; and through kills of the whole process."""

from __future__ import annotations

import collections
import json
import os
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import logstore
from logstore.errors import InvalidSettingError
from logstore.spark.pipelines import stages
from tests.spark.pipelines import killing
from tests.spark.pipelines.topic_contents import records_of, values_of

#: How often the process is killed; make soak does it more often.
KILLS = int(os.environ.get("LOGSTORE_PIPELINE_KILLS", "2"))
SCHEMA = "order LONG, item STRING, cents LONG, time LONG"
ITEMS = pd.DataFrame({"item": ["tea", "ink", "nib"], "shelf": ["food", "desk", "desk"], "weight": [1, 2, 3]})
END_MS = 10**9


def given(tmp_path: Path, **more: Any) -> dict[str, Any]:
    tmp_path.mkdir(exist_ok=True)
    ITEMS.to_csv(tmp_path / "items.csv", index=False)
    return {
        "path": str(tmp_path / "store"),
        "checkpoint": str(tmp_path / "checkpoint"),
        "table": str(tmp_path / "items.csv"),
        "raw": "orders",
        "enriched": "orders-enriched",
        "sums": "orders-by-shelf",
        "schema": SCHEMA,
        "on": "item",
        "group": ("shelf",),
        "amount": "cents",
        "partitions": 2,
        "delay_s": 60.0,
        **more,
    }


def fill(path: str, count: int, rng: random.Random) -> pd.DataFrame:
    """Orders whose times run ahead and back by less than the delay, and one that closes all windows but its own."""
    orders = [
        {"order": n, "item": rng.choice(["tea", "ink", "nib", "cat"]), "cents": rng.randrange(10**6), "time": time}
        for n, time in enumerate(sorted(n * 100 + rng.randrange(20_000) for n in range(count)))
    ]
    with logstore.open(path, environ={}) as store:
        topic = store.create_topic("orders", 2, if_not_exists=True)
        for order in orders:
            topic.append(json.dumps(order).encode(), key=b"%d" % order["order"])
        last = {"order": -1, "item": "tea", "cents": 1, "time": END_MS}
        topic.append(json.dumps(last).encode(), key=b"end")
    return pd.DataFrame(orders)


def check(told: dict[str, Any], orders: pd.DataFrame) -> None:
    """Each order is in the enriched topic once, in order; the sums are those of pandas."""
    joined = orders.merge(ITEMS, on="item", how="left")
    found = records_of(told["path"], told["enriched"])
    assert collections.Counter(int(record.key) for record in found if record.key != b"end") == collections.Counter(
        orders["order"]
    )
    for record in found:
        value = json.loads(record.value)
        shelf = {"tea": "food", "ink": "desk", "nib": "desk"}.get(value["item"])
        assert (record.key, value.get("shelf")) == (
            b"%d" % value["order"] if value["order"] >= 0 else b"end",
            shelf,
        )
    for partition in range(told["partitions"]):
        numbers = [int(record.key) for record in found if record.partition == partition and record.key != b"end"]
        assert numbers == sorted(numbers)

    joined["start"] = joined["time"] // 60_000 * 60_000
    wanted = joined.fillna({"shelf": ""}).groupby(["shelf", "start"])["cents"].agg(["count", "sum", "min", "max"])
    rows = [row for row in values_of(told["path"], told["sums"]) if row["start"] < END_MS // 60_000 * 60_000]
    assert not any(row["late"] for row in rows)
    got = {(row["series"], row["start"]): (row["count"], row["sum"], row["min"], row["max"]) for row in rows}
    assert len(got) == len(rows)
    assert got == {
        window: tuple(facts) for window, facts in zip(wanted.index, wanted.to_numpy().tolist(), strict=True)
    }


@pytest.mark.timeout(600)
def test_both_stages_give_what_pandas_gives(engine: Any, tmp_path: Path) -> None:
    told = given(tmp_path)
    orders = fill(told["path"], 800, random.Random(2))
    with logstore.open(told["path"], environ={}) as store:
        store["orders"].append(b"no order", key=b"x")
    report = stages.run(engine, stages.StagesParameters(**told))
    assert report.counts["raw"] == len(orders) + 2
    assert (report.counts["refused"], report.counts["late"]) == (1, 0)
    assert report.counts["enriched"] == len(orders) + 1
    check(told, orders)


def test_values_of_another_type_are_refused_and_counted(engine: Any, tmp_path: Path) -> None:
    told = given(tmp_path)
    good = {"order": 1, "item": "tea", "cents": 5, "time": 100}
    wrong = [
        {**good, "cents": "12"},
        {**good, "cents": 1.5},
        {**good, "time": "100"},
        {**good, "item": 3, "cents": [1]},
        [good],
        None,
    ]
    with logstore.open(told["path"], environ={}) as store:
        topic = store.create_topic("orders", 2)
        for value in (good, *wrong, {**good, "order": 2, "time": END_MS}):
            topic.append(json.dumps(value).encode(), key=b"k")
        for data in (b"", b'{"order": 1', b'{"order": 1, "item": "\xff\xfe", "cents": 1, "time": 1}'):
            topic.append(data, key=b"k")
        topic.append(None, key=b"k")
    counts = stages.run(engine, stages.StagesParameters(**told)).counts
    assert (counts["raw"], counts["refused"], counts["enriched"]) == (12, 10, 2)
    (row,) = values_of(told["path"], told["sums"])
    assert (row["count"], row["sum"]) == (1, 5)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_that_would_multiply_records_is_refused_and_its_keys_are_named(
    engine: Any, tmp_path: Path, kind: str
) -> None:
    told = given(tmp_path, table=str(tmp_path / f"twice.{kind}"))
    table = pd.concat([ITEMS, ITEMS[:1], ITEMS[:1], ITEMS[1:2]])
    table.to_csv(told["table"], index=False) if kind == "csv" else table.to_parquet(told["table"])
    with pytest.raises(InvalidSettingError, match=r"has item 'tea' \(3 rows\), 'ink' \(2 rows\) more than once"):
        stages.run(engine, stages.StagesParameters(**told))
    assert records_of(told["path"], "orders-enriched") == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"table": "/no/such/table.csv"}, "table: cannot read /no/such/table.csv: "),
        ({"group": ("shelf", "rack")}, r"group: no field 'rack' in the values and the table \(cents, item"),
        ({"amount": "euros"}, "amount: no field 'euros' in"),
    ],
)
def test_fields_and_tables_that_are_not_there_are_named(
    engine: Any, tmp_path: Path, wrong: dict[str, Any], said: str
) -> None:
    told = given(tmp_path, **wrong)
    with pytest.raises(InvalidSettingError, match=said):
        stages.run(engine, stages.StagesParameters(**told))


@pytest.mark.row("U3", "D5")
@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.timeout(600 + 400 * KILLS)
def test_killed_again_and_again_each_stage_is_exactly_once(tmp_path: Path) -> None:
    """The driver, Java and the workers get SIGKILL within some micro-batch; the last run goes to the end."""
    seed = killing.seed()
    rng = random.Random(seed)
    told = given(tmp_path, max_offsets=150)
    orders = fill(told["path"], 450 * max(KILLS, 2), rng)
    pipeline = killing.Run(tmp_path, "stages", **told | {"group": "shelf"})
    kills = sum(pipeline.killed(rng, 8) for _ in range(KILLS))
    assert kills, "it has ended before it was killed"
    pipeline.to_the_end()
    print(f"\nstages: {kills} kills, {len(orders)} records (LOGSTORE_SEED={seed})")
    check(told, orders)


def test_late_orders_make_rows_of_their_own(spark: Any, feed: Any, tmp_path: Path) -> None:
    told = stages.StagesParameters(**given(tmp_path, group=("shelf", "item")))
    table = spark.createDataFrame(ITEMS)
    for cents, time in ((5, 1_000), (1, END_MS), (7, 2_000)):
        feed.add([("k", {"order": 1, "item": "ink", "cents": cents, "time": time})])
    enriched = stages.enrich(feed.stream(), table, told)
    rows = feed.drain(stages.sum_up(enriched, table.schema, told))
    assert {key for key, _ in rows} == {"desk,ink"}
    assert sorted((row["late"], row["sum"]) for _, row in rows) == [(False, 5), (True, 7)]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"group": ()}, "group: expected at least one field"),
        ({"window": "1 minute"}, "found '1 minute'"),
        ({"delay_s": -1.0}, "delay_s"),
    ],
)
def test_wrong_parameters_are_named(tmp_path: Path, wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidSettingError, match=named):
        stages.StagesParameters(**given(tmp_path, **wrong))
