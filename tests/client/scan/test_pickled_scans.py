"""A scan that is pickled reads the range that it has fixed, in this process or another."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import logstore
from logstore import Log, Store
from logstore.client.scan.topic_scan import TopicScan
from logstore.errors import LogstoreError, OffsetOutOfRangeError, UnknownTopicError
from logstore.log.read.range import Scan
from logstore.testing import SimDisk


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with logstore.open(tmp_path / "data") as opened:
        opened.create_topic("orders", partitions=2).append_many(
            [(b"k%d" % n, b'{"eur": %d}' % n, 1_000 + n) for n in range(40)]
        )
        yield opened


def again(scan: Any) -> Any:
    return pickle.loads(pickle.dumps(scan))


def eur(scan: TopicScan) -> tuple[list[Any], int]:
    return scan.to_arrow().to_pylist(), scan.count()


def places(scan: TopicScan | Scan) -> list[tuple[int, int]]:
    return [(record.partition, record.offset) for record in scan]


@pytest.mark.row("M9")
def test_a_scan_is_read_in_processes_that_are_spawned_while_this_one_writes(store: Store) -> None:
    orders = store["orders"]
    choices: dict[str, Any] = {"columns": ["offset", "eur"], "value_schema": {"eur": "int64"}}
    scans = [orders.scan(partitions=number, **choices) for number in (0, 1)]
    expected = [eur(scan) for scan in scans]
    orders.append_many([b'{"eur": 99}'] * 10)  # behind what the scans have fixed
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert list(pool.map(eur, scans, timeout=120)) == expected
    assert sum(count for _, count in expected) == 40


def test_all_that_a_scan_was_told_goes_with_it(store: Store) -> None:
    orders = store["orders"]
    for choices in (
        {"partitions": [1, 0], "start": {0: 3}, "end": {1: 7}},
        {"since": 1_010, "until": 1_030},
        {"start": -4},
        {"limit": 11, "max_bytes": 1},
        {"isolation": "read_committed", "on_damage": "skip"},
    ):
        scan = orders.scan(**choices)
        twin = again(again(scan))
        assert (places(twin), twin.count(), twin.bounds) == (places(scan), scan.count(), scan.bounds)
        assert repr(twin) == repr(scan)
    schema = {"eur": "int32"}
    for choices in (
        {"columns": ["value", "offset"], "views": True},
        {"value_schema": schema, "on_error": "null"},
        {"value_schema": schema, "columns": ["eur", "headers"]},
    ):
        scan = orders.scan(**choices)
        assert again(scan).to_arrow().equals(scan.to_arrow())


def test_a_use_that_has_begun_goes_on_and_what_is_pickled_begins_at_the_start(store: Store) -> None:
    scan = store["orders"].scan(max_bytes=1)
    records = iter(scan)
    first = next(records)
    twin = again(scan)
    assert next(iter(twin)) == first
    assert [first, *records] == list(twin)


def test_a_scan_of_one_log_goes_to_another_process_too(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0") as log:
        log.append([b"a", b"b", b"c"])
        scan = log.scan(1, limit=1)
        assert [(each.offset, each.value) for each in again(scan)] == [(1, b"b")]
        with Log.open(tmp_path / "t-0", read_only=True) as reader:
            assert places(again(reader.scan(-2))) == [(0, 1), (0, 2)]
    # Its writer may have ended since.
    assert again(scan).count() == 1


def test_nothing_is_opened_before_the_scan_is_read(store: Store) -> None:
    """An error while an argument is unpickled would end the process of a pool."""
    pickled = pickle.dumps(store["orders"].scan())
    store.delete_topic("orders")
    twin = pickle.loads(pickled)
    assert twin.partitions == (0, 1)
    with pytest.raises(LogstoreError, match="orders-0"):
        list(twin)


def test_a_later_topic_of_the_name_is_not_taken_for_it(store: Store) -> None:
    pickled = pickle.dumps(store["orders"].scan())
    store.delete_topic("orders")
    store.create_topic("orders", partitions=2).append_many([b"another"] * 100)
    with pytest.raises(UnknownTopicError, match=r"orders-0: the topic was deleted and made again"):
        list(pickle.loads(pickled))


def test_records_that_were_deleted_since_are_out_of_range(store: Store) -> None:
    pickled = pickle.dumps(store["orders"].scan(partitions=0))
    store["orders"].delete_records({0: 5})
    with pytest.raises(OffsetOutOfRangeError, match="offset 0"):
        list(pickle.loads(pickled))


def test_a_log_of_a_disk_that_only_this_process_has_is_refused() -> None:
    with Log.open("/data/t-0", files=SimDisk()) as log, pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(log.scan())
