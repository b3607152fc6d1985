"""What `make demo` shows, on made-up rows: killed half way, recovered, completed, read back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from examples import flights
from logstore import Log


def some_rows(count: int) -> list[flights.Row]:
    rows = []
    for n in range(count):
        flight = {"flight": n, "dep_delay": None if n % 10 == 0 else n % 7, "note": "." * (n % 200)}
        hour = 1_357_034_400_000 + n // 60 * 3_600_000
        rows.append(([b"UA", b"AA", b"B6"][n % 3], json.dumps(flight).encode(), hour))
    return rows


def silent(_done: int) -> None:
    pass


@pytest.mark.crash
def test_a_killed_load_is_completed_without_gap_or_duplicate(tmp_path: Path) -> None:
    rows = some_rows(20_000)
    path = flights.empty_place(tmp_path / "data")
    last_acknowledged, _seconds = flights.kill_half_way(path, rows, silent)
    with Log.open(path) as log:
        assert not log.was_clean
        kept = log.log_end_offset
        assert len(rows) // 2 <= kept <= len(rows) * 3 // 4
        assert last_acknowledged < kept <= last_acknowledged + 1 + flights.BATCH_RECORDS
        flights.check_same(log, rows)
        flights.load(log, rows, silent)
        assert log.log_end_offset == len(rows)
        flights.check_same(log, rows)
        assert flights.read_at(log, 12_345).value == rows[12_345][1]
        in_range = [row for row in rows if rows[3_000][2] <= row[2] < rows[9_000][2]]
        assert flights.measure(rows, rows[3_000][2], rows[9_000][2])[0] == len(in_range)
        assert log.scan(since=rows[3_000][2], until=rows[9_000][2]).count() == len(in_range)


def test_the_mean_delays_leave_out_flights_that_did_not_depart(tmp_path: Path) -> None:
    rows = some_rows(3_000)
    with Log.open(flights.empty_place(tmp_path)) as log:
        flights.load(log, rows, silent)
        found = flights.mean_delays(log)
    for airline, mean in found.items():
        delays = [json.loads(value)["dep_delay"] for key, value, _ in rows if key == airline.encode()]
        departed = [delay for delay in delays if delay is not None]
        assert mean == sum(departed) / len(departed)
    assert sorted(found) == ["AA", "B6", "UA"]


def test_a_wrong_record_is_noticed(tmp_path: Path) -> None:
    rows = some_rows(1_000)
    with Log.open(flights.empty_place(tmp_path)) as log:
        flights.load(log, rows, silent)
        rows[777] = (b"UA", b"{}", 0)
        with pytest.raises(flights.DemoError, match="offset 777"):
            flights.check_same(log, rows)
        with pytest.raises(flights.DemoError, match="1,000 records, there are 900"):
            flights.check_same(log, some_rows(900))


def test_each_run_begins_anew_and_removes_only_its_own(tmp_path: Path) -> None:
    rows = some_rows(500)
    for _ in range(2):
        path = flights.empty_place(tmp_path / "data")
        assert not path.exists()
        with Log.open(path) as log:
            flights.load(log, rows, silent)
            assert log.log_end_offset == 500
    (tmp_path / "data" / flights.MARK).unlink()
    with pytest.raises(flights.DemoError, match="not made by this demo"):
        flights.empty_place(tmp_path / "data")
    assert path.exists()
