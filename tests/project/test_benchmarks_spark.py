"""The benchmark of Spark puts the same records everywhere, and its bars say what was found."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import logstore
from benchmarks.spark import bars, contenders, data, operations, sinks
from benchmarks.spark.__main__ import OPERATIONS, report

RECORDS = 1_003


def test_files_store_and_parquet_have_the_same_records(tmp_path: Path) -> None:
    data.write_files(tmp_path, RECORDS)
    parquet = pq.read_table(tmp_path / "events.parquet").sort_by(
        [("partition", "ascending"), ("offset", "ascending")]
    )
    arrow = pa.concat_tables(
        [pa.ipc.open_file(str(path)).read_all() for path in sorted((tmp_path / "events.arrow").iterdir())]
    )
    assert parquet.equals(arrow)
    assert parquet.num_rows == RECORDS
    with logstore.open(tmp_path / "store", read_only=True, environ={}) as store:
        found = [
            (record.key, record.value, record.partition, record.offset, record.timestamp_ms)
            for record in sorted(store[data.PLAIN].scan(), key=lambda record: (record.partition, record.offset))
        ]
    columns = [parquet[name].to_pylist() for name in ("key", "value", "partition", "offset")]
    times = [int(time.timestamp() * 1_000) for time in parquet["timestamp"].to_pylist()]
    assert found == list(zip(*columns, times, strict=True))


def test_a_record_has_about_a_hundred_bytes() -> None:
    sizes = {len(data.key_of(n)) + len(data.value_of(n)) for n in range(0, 4_000_000, 7_919)}
    assert 95 <= min(sizes) <= max(sizes) <= 105


def test_a_bar_is_a_ratio_of_medians_or_a_difference() -> None:
    medians = {
        "scan": {contenders.PATH: 1.0, contenders.KAFKA: 3.5, contenders.PARQUET: 0.4},
        "sink": {sinks.EXACTLY: 3.0, sinks.AT_LEAST: 1.5, sinks.KAFKA: 9.0},
    }
    small = {
        contenders.KAFKA: {"triggerExecution": 170, "latestOffset": 7},
        contenders.PATH: {"triggerExecution": 260, "latestOffset": 3},
    }
    memory = {contenders.PATH: {"quarter": 90.0, "half": 100.0, "all": 110.0}}
    found = {bar.what: (bar.value, bar.is_met) for bar in bars.bars(medians, small, memory)}
    assert found == {
        "scan: path / kafka": (3.5, True),
        "scan: path / parquet": (0.4, False),
        "sink: path, exactly once / kafka": (3.0, True),
        "sink: cost of exactly once": (2.0, False),
        "small batch: path above kafka": (90, False),
        "small batch: path, latestOffset": (3, True),
        "memory: path, all above half": (10.0, True),
    }


@pytest.mark.parametrize("operation", sorted({operation for operation, *_ in bars.QUICKER}))
def test_a_bar_is_of_an_operation_that_there_is(operation: str) -> None:
    assert operation in OPERATIONS
    assert set(operations.QUERIES) < set(OPERATIONS)


def test_the_report_names_what_failed_and_what_is_missed() -> None:
    wanted = [bars.Bar("scan: path / kafka", 2.0, 3.0), bars.Bar("latestOffset", 4, 5, "ms", at_most=True)]
    result = {
        "records": 100,
        "passes": 1,
        "machine": {"spark": "4.2"},
        "medians": {"scan": {"path": 2.0, "kafka": 4.0}},
        "small_ms": {},
        "memory_mib": {},
        "left_out": {"bootstrap": "cannot be read: no broker"},
        "failed": {"copy: path": "why"},
    }
    lines = list(report(result, wanted))
    assert [line.split()[-1] for line in lines if line.strip().startswith(("scan: path", "latestOffset"))] == [
        "NO",
        "yes",
    ]
    assert lines[-2:] == ["left out: bootstrap cannot be read: no broker", "failed: copy: path: why"]


def test_a_contender_that_is_unknown_is_refused_by_name() -> None:
    entrants = contenders.contenders(Path(), None, 0)
    assert contenders.chosen(entrants, "") == entrants
    assert list(contenders.chosen(entrants, f"{contenders.PARQUET}; {contenders.PATH}")) == [
        contenders.PARQUET,
        contenders.PATH,
    ]
    with pytest.raises(ValueError, match="--contenders: Kafak unknown; there are: "):
        contenders.chosen(entrants, f"Kafak; {contenders.PATH}")
