"""A scan holds what it has fixed: retention and compaction beside it change nothing that it gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from logstore import Isolation, Log
from logstore.errors import LogClosedError, OffsetOutOfRangeError
from logstore.log import Marker, ProducerStamp
from logstore.log.read import segment_holds
from logstore.log.read.range import Scan
from tests.log.logs import open_log

#: Records of a segment, and segments before anything is taken away.
EACH, SEGMENTS = 10, 6


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with open_log(tmp_path, **{"cleanup.policy": "compact,delete", "segment.bytes": 100_000}) as log:
        for segment in range(SEGMENTS):
            log.append([(b"k%d" % (n % 3), b"%d" % (segment * EACH + n), 1_000 + segment) for n in range(EACH)])
            log.maintenance.roll()
        yield log


def delete(log: Log) -> None:
    log.delete_before(EACH * (SEGMENTS - 1) + 5)


def compact(log: Log) -> None:
    log.maintenance.compact()


def compact_and_delete(log: Log) -> None:
    log.maintenance.compact()
    log.append([(b"k0", b"new")])
    log.maintenance.roll()
    log.maintenance.compact()
    log.delete_before(log.high_watermark)


CHANGES: dict[str, Callable[[Log], None]] = {each.__name__: each for each in (delete, compact, compact_and_delete)}
ALL = [b"%d" % n for n in range(SEGMENTS * EACH)]


def values(scan: Scan) -> list[bytes | None]:
    return [record.value for record in scan]


@pytest.mark.parametrize("change", CHANGES)
def test_a_scan_gives_what_it_has_fixed_whatever_is_taken_away(log: Log, change: str) -> None:
    scan, part = log.scan(max_bytes=1), log.scan(7, 33)
    under_way = iter(scan)
    first = [next(under_way).value for _ in range(3)]
    CHANGES[change](log)
    assert first + [record.value for record in under_way] == ALL
    assert values(scan) == ALL
    assert scan.count() == len(ALL)
    assert (values(part), part.count()) == (ALL[7:33], 26)
    assert [value for chunk in part.values() for value in chunk] == ALL[7:33]
    # What is fixed now is what the log says now.
    assert values(log.scan()) != ALL


@pytest.mark.parametrize("change", CHANGES)
def test_the_times_of_a_scan_choose_from_what_it_has_fixed(log: Log, change: str) -> None:
    scan = log.scan(since=1_002, until=1_004)
    CHANGES[change](log)
    assert values(scan) == ALL[2 * EACH : 4 * EACH]
    assert scan.count() == 2 * EACH


@pytest.mark.parametrize("change", CHANGES)
def test_aborted_records_stay_hidden_in_what_a_scan_holds(tmp_path: Path, change: str) -> None:
    with open_log(tmp_path, **{"cleanup.policy": "compact,delete"}) as log:
        for n in range(SEGMENTS):
            stamp = ProducerStamp(7, 0, n, transactional=True)
            log.append([(b"k", b"%d" % n)], producer=stamp)
            log.append([(b"k", b"plain %d" % n)])
            marker = Marker.ABORT if n % 2 else Marker.COMMIT
            log.replica.append_control(marker, producer_id=7, producer_epoch=0)
            log.maintenance.roll()
        scan = log.scan(isolation=Isolation.READ_COMMITTED, max_bytes=1)
        expected = values(scan)
        assert b"0" in expected
        assert b"1" not in expected
        if change == "delete":
            log.delete_before(log.high_watermark - 1)
        else:
            CHANGES[change](log)
        assert values(scan) == expected
        assert scan.count() == len(expected)


def open_deleted(path: str) -> int:
    """How many files below a path this process has open that have no name any more."""
    found = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        found += name.startswith(path) and name.endswith("(deleted)")
    return found


def test_the_space_comes_back_when_the_scan_and_what_iterates_it_are_dropped(log: Log) -> None:
    scan = log.scan(max_bytes=1)
    under_way = iter(scan)
    next(under_way)
    assert open_deleted(log.path) == 0
    delete(log)
    assert not [name for name in os.listdir(log.path) if "deleted" in name]
    assert open_deleted(log.path) == SEGMENTS - 1
    del scan
    next(under_way)
    assert open_deleted(log.path) == SEGMENTS - 1
    under_way.close()
    del under_way
    assert open_deleted(log.path) == 0


def test_a_scan_that_needs_too_many_descriptors_says_what_is_gone(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_holds, "MAX_KEPT", 2)
    scan, short = log.scan(), log.scan(0, 2 * EACH)
    delete(log)
    with pytest.raises(OffsetOutOfRangeError, match="the log holds 55 to 59"):
        list(scan)
    assert values(short) == ALL[: 2 * EACH]


def test_nothing_is_held_against_a_truncation(log: Log) -> None:
    scan = log.scan(max_bytes=1)
    delete(log)
    log.replica.truncate_to(57)
    log.append([(b"k", b"other")] * 10)
    with pytest.raises(OffsetOutOfRangeError):
        list(scan)


def test_a_scan_ends_with_its_log(log: Log) -> None:
    scan = log.scan()
    delete(log)
    log.close()
    with pytest.raises(LogClosedError):
        list(scan)


def test_a_scan_beside_the_writer_says_what_is_gone(log: Log) -> None:
    with Log.open(log.path, read_only=True) as reader:
        scan = reader.scan()
        delete(log)
        with pytest.raises(OffsetOutOfRangeError):
            list(scan)
