"""Scans of a topic into columns, counts by headers, and JSON decoded to columns beside who else does it."""

from __future__ import annotations

import importlib.util
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import records
from interleave import Bar, Runner, race
from runners import COPY_AND_SUM, Ours, filled, same

from logstore.client.scan.topic_scan import TopicScan

SIZE, PER_BATCH, BATCHES = 100, 100, 5_000
TOTAL = PER_BATCH * BATCHES
FIELDS = {"id": "int64", "v": "float64"}


def scan_of(logs: Any, **choices: Any) -> TopicScan:
    return TopicScan("race", {0: logs["ours"].log}, **choices)


def drawn(scan: TopicScan) -> int:
    """Rows of a stream that an Arrow library has drawn, batch by batch."""
    pyarrow = pytest.importorskip("pyarrow")
    return sum(batch.num_rows for batch in pyarrow.RecordBatchReader.from_stream(scan))


@pytest.mark.row("M9", "S14")
@pytest.mark.parametrize(
    ("columns", "views"),
    [(["offset", "value"], False), (["offset", "value"], True), (["offset", "timestamp"], False), (None, False)],
    ids=["two", "two-views", "numbers", "all"],
)
def test_scan_to_arrow(benchmark: Any, places: Any, columns: list[str] | None, views: bool) -> None:
    """From the page cache into pyarrow, beside aiokafka's decoder of the same records, which takes each value."""
    batches = records.groups(SIZE, PER_BATCH, BATCHES)
    with filled(("aiokafka + file",), places, batches) as logs:
        ours = Runner(lambda _: drawn(scan_of(logs, columns=columns, views=views)), same(TOTAL), parts=COPY_AND_SUM)
        peers = {
            name: Runner(lambda _, log=log: log.scan(), same(TOTAL)) for name, log in logs.items() if name != "ours"
        }
        race(
            benchmark,
            ours,
            peers,
            workload=f"scan {SIZE} B to Arrow: {', '.join(columns or ['all columns'])}{', views' if views else ''}",
            records=TOTAL,
            size=TOTAL * SIZE,
            bars={"aiokafka + file": Bar(4, 6)} if columns == ["offset", "value"] else {},
            codec="none",
            output_bytes=logs["ours"].log.maintenance.size,
        )


@pytest.mark.row("M9")
@pytest.mark.parametrize(("per_batch", "codec"), [(100, "none"), (1_000, "none"), (1_000, "lz4")])
def test_count(benchmark: Any, places: Any, per_batch: int, codec: str) -> None:
    """A count by headers, beside a count that reads and checks every batch, and one that makes every value."""
    batches = records.groups(SIZE, per_batch, TOTAL // per_batch)

    def open_ours(path: Path) -> Ours:
        return Ours(path, compression_type=codec)

    with filled((), places, batches, open_ours) as logs:
        log = logs["ours"].log
        race(
            benchmark,
            Runner(lambda _: scan_of(logs).count(), same(TOTAL)),
            {
                "read and checked": Runner(
                    lambda _: sum(chunk.count() for chunk in log.scan().chunks()), same(TOTAL)
                ),
                "values": Runner(lambda _: sum(map(len, log.scan().values())), same(TOTAL)),
            },
            workload=f"count {SIZE} B x {per_batch}, {codec}",
            records=TOTAL,
            size=TOTAL * SIZE,
            touched=61 * len(batches),
            codec=codec,
            output_bytes=log.maintenance.size,
        )


def summed(rows: Any) -> tuple[int, int]:
    """What is checked: how many rows, and the sum of their numbers."""
    return len(rows), sum(rows)


@pytest.mark.row("M9")
def test_json_to_columns(benchmark: Any, places: Any) -> None:
    """Two fields of four, of every value, as columns; the peers get the values by the same scan."""
    batches = records.groups(SIZE, PER_BATCH, BATCHES // 5)
    total = PER_BATCH * len(batches)
    expected = total, sum(json.loads(value)["id"] for batch in batches for value in batch)
    pyarrow = pytest.importorskip("pyarrow")
    compute = importlib.import_module("pyarrow.compute")

    with filled((), places, batches) as logs:

        def ours(_state: None) -> tuple[int, int]:
            table = pyarrow.table(scan_of(logs, columns=["id", "v"], value_schema=FIELDS))
            return table.num_rows, compute.sum(table["id"]).as_py()

        def python(_state: None) -> tuple[int, int]:
            ids, numbers = [], []
            for values in scan_of(logs).values():
                for value in values:
                    found = json.loads(value)
                    ids.append(found["id"])
                    numbers.append(found["v"])
            return summed(ids)

        race(
            benchmark,
            Runner(ours, same(expected), parts=COPY_AND_SUM),
            {"json.loads": Runner(python, same(expected)), **_libraries(logs, expected)},
            workload=f"JSON of {SIZE} B to two columns",
            records=total,
            size=total * SIZE,
            bars={"json.loads": Bar(4, 8)},
            codec="none",
            output_bytes=logs["ours"].log.maintenance.size,
        )


def _libraries(logs: Any, expected: tuple[int, int]) -> dict[str, Runner]:
    """What data-frame libraries make of the column of values, where they are installed."""
    found: dict[str, Callable[[Any], tuple[int, int]]] = {}
    if importlib.util.find_spec("polars"):
        import polars as pl

        kind = pl.Struct({"id": pl.Int64, "v": pl.Float64})

        def polars(_state: None) -> tuple[int, int]:
            frame = pl.DataFrame(scan_of(logs, columns=["value"]))
            fields = frame.select(pl.col("value").cast(pl.String).str.json_decode(kind)).unnest("value")
            return fields.height, fields["id"].sum()

        found["polars json_decode"] = polars
    if importlib.util.find_spec("duckdb"):
        import duckdb

        def duck(_state: None) -> tuple[int, int]:
            source = scan_of(logs, columns=["value"])  # noqa: F841  named in the query
            connection = duckdb.connect(config={"threads": 1})
            query = (
                "select count(*), sum(id), sum(v) from (select cast(text->>'id' as bigint) id, "
                "cast(text->>'v' as double) v from (select decode(value)::json as text from source))"
            )
            count, total, _ = connection.sql(query).fetchall()[0]
            return count, total

        found["duckdb json"] = duck
    return {name: Runner(work, same(expected)) for name, work in found.items()}


@pytest.mark.row("M9")
def test_structs_to_columns(benchmark: Any, places: Any) -> None:
    """Values of 20 bytes, three numbers each, beside `struct.unpack` of every value."""
    layout = struct.Struct("<qid")
    values = [layout.pack(n, n % 100, n / 2) for n in range(100_000)]
    batches = [values[begin : begin + 1_000] for begin in range(0, len(values), 1_000)]
    pyarrow = pytest.importorskip("pyarrow")
    compute = importlib.import_module("pyarrow.compute")
    expected = len(values), sum(range(len(values)))
    with filled((), places, batches) as logs:
        schema = {"format": layout.format, "names": ["id", "delay", "price"]}

        def ours(_state: None) -> tuple[int, int]:
            table = pyarrow.table(scan_of(logs, columns=["id", "delay", "price"], value_schema=schema))
            return table.num_rows, compute.sum(table["id"]).as_py()

        def python(_state: None) -> tuple[int, int]:
            rows = [layout.unpack(value) for some in scan_of(logs).values() for value in some]
            return len(rows), sum(row[0] for row in rows)

        race(
            benchmark,
            Runner(ours, same(expected), parts=COPY_AND_SUM),
            {"struct.unpack": Runner(python, same(expected))},
            workload="structs of 20 B to three columns",
            records=len(values),
            size=len(values) * layout.size,
            bars={"struct.unpack": Bar(4)},
            codec="none",
            output_bytes=logs["ours"].log.maintenance.size,
        )
