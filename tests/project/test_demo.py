"""What `make demo` shows, on made-up rows: killed half way, completed, consumed, scanned, served, compacted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import logstore
from examples import flights
from examples.flights_source import Row, aircraft_of
from examples.show import DemoError
from logstore.broker import serve

AIRLINES = [b"UA", b"AA", b"B6", b"WN", b"DL"]


def some_rows(count: int) -> list[Row]:
    rows = []
    for n in range(count):
        airline = AIRLINES[n % len(AIRLINES)]
        flight = {
            "carrier": airline.decode(),
            "flight": n,
            "dep_delay": None if n % 10 == 0 else n % 7,
            "note": "." * (n % 200),
        }
        rows.append((airline, json.dumps(flight).encode(), 1_357_034_400_000 + n // 60 * 3_600_000))
    return rows


def silent(_done: int) -> None:
    pass


@pytest.mark.crash
def test_a_killed_load_is_completed_without_gap_or_duplicate(tmp_path: Path) -> None:
    rows = some_rows(40_000)
    flights.empty_place(tmp_path / "data")
    acknowledged, _seconds = flights.kill_half_way(tmp_path / "data", rows, silent)
    assert len(rows) // 2 <= acknowledged <= len(rows) * 3 // 4
    with logstore.open(tmp_path / "data") as store:
        topic = store["departures"]
        kept = flights.check_kept(topic, rows)
        assert acknowledged <= sum(kept) <= len(rows) * 3 // 4
        for number, share in enumerate(flights.shares(rows[:acknowledged])):
            assert kept[number] >= len(share)
        left = flights.missing(rows, kept)
        assert len(left) == len(rows) - sum(kept)
        flights.load(store, left, silent)
        assert flights.check_kept(topic, rows) == [len(share) for share in flights.shares(rows)]


@pytest.mark.row("M9")
def test_the_group_reads_every_record_once(tmp_path: Path) -> None:
    rows = some_rows(5_000)
    flights.empty_place(tmp_path)
    with logstore.open(tmp_path) as store:
        store.create_topic("departures", flights.PARTITIONS)
        flights.load(store, rows, silent)
        for expected in ([len(share) for share in flights.shares(rows)], [0] * flights.PARTITIONS):
            counts: dict[int, int] = {}
            flights.consume(store, range(flights.PARTITIONS), counts)
            assert [counts.get(number, 0) for number in range(flights.PARTITIONS)] == expected


def test_a_client_of_kafka_reads_every_record(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed: pip install --group demo")
    rows = some_rows(5_000)
    flights.empty_place(tmp_path)
    with logstore.open(tmp_path) as store:
        store.create_topic("departures", flights.PARTITIONS)
        flights.load(store, rows, silent)
        with serve(store, "127.0.0.1:0") as broker:
            assert flights.read_by_a_kafka_client(broker.bootstrap, len(rows)) == flights.shares(rows)


def test_the_mean_delays_leave_out_flights_that_did_not_depart(tmp_path: Path) -> None:
    rows = some_rows(3_000)
    flights.empty_place(tmp_path)
    with logstore.open(tmp_path) as store:
        topic = store.create_topic("departures", flights.PARTITIONS)
        flights.load(store, rows, silent)
        found = flights.mean_delays(topic)
    for airline, mean in found.items():
        delays = [json.loads(value)["dep_delay"] for key, value, _ in rows if key == airline.encode()]
        departed = [delay for delay in delays if delay is not None]
        assert mean == pytest.approx(sum(departed) / len(departed))
    assert sorted(found) == sorted(airline.decode() for airline in AIRLINES)


def test_a_wrong_record_is_noticed(tmp_path: Path) -> None:
    rows = some_rows(1_000)
    flights.empty_place(tmp_path)
    with logstore.open(tmp_path) as store:
        topic = store.create_topic("departures", flights.PARTITIONS)
        flights.load(store, rows, silent)
        rows[777] = (rows[777][0], b"{}", 0)
        with pytest.raises(DemoError, match="does not hold its row"):
            flights.check_kept(topic, rows)
        with pytest.raises(DemoError, match="records of"):
            flights.check_kept(topic, some_rows(900))


def test_aircraft_without_a_tail_number_are_left_out() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: pip install --group demo")
    frame = pandas.DataFrame(
        {
            "carrier": ["AA", "UA", "AA"],
            "tailnum": ["N1", None, "N2"],
            "time_hour": ["2013-01-01T05:00:00Z"] * 3,
        }
    )
    assert [key for key, _, _ in aircraft_of(frame)] == [b"N1", b"N2"]


def test_each_run_begins_again_and_removes_only_its_own(tmp_path: Path) -> None:
    place = tmp_path / "data"
    rows = some_rows(500)
    for _ in range(2):
        flights.empty_place(place)
        with logstore.open(place) as store:
            assert "departures" not in store
            store.create_topic("mine", if_not_exists=True)
            store.create_topic("departures", flights.PARTITIONS)
            flights.load(store, rows, silent)
    (place / flights.MARK).unlink()
    with pytest.raises(DemoError, match="not made by this demo"):
        flights.empty_place(place)
    with logstore.open(place) as store:
        assert store.topics() == ["departures", "mine"]


def test_a_root_in_which_only_a_log_was_opened_is_a_store(tmp_path: Path) -> None:
    """What the engine alone has written before there were stores."""
    with logstore.Log.open(tmp_path / "flights-0") as log:
        log.append([b"a", b"b"])
    (tmp_path / flights.MARK).touch()
    flights.empty_place(tmp_path)
    with logstore.open(tmp_path) as store:
        assert [record.value for record in store["flights"].read()] == [b"a", b"b"]
    with logstore.Log.open(tmp_path / "flights-0") as log:
        assert log.log_end_offset == 2
