"""File operations of appends that need a new file: none is made while the log's lock is held."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from logstore import Log
from logstore.batch._batch import stamp, stamp_producer
from logstore.batch._encode import encode, encode_marker
from logstore.log import Marker, ProducerStamp
from logstore.log.directory.files import Directory
from logstore.log.marks._watermark import LogLock
from logstore.log.rolling.rolls import Rolls
from logstore.log.state import State
from logstore.testing import ManualClock
from tests.crash.planted import must_break
from tests.kit.inside import producers_of, state_of

DAY_MS = 86_400_000
SETTINGS = {"segment_ms": 1_000, "retention_ms": -1}


def next_sequence(log: Log) -> int:
    known = producers_of(log).get(7)
    return 0 if known is None else known.next_sequence


def batch(log: Log, timestamp_ms: int, sequence: int = -1) -> bytes:
    """A batch as a leader stores it at the log end; of a transaction if it has a sequence."""
    data = bytearray(encode([b"value"], timestamp_ms=timestamp_ms))
    if sequence >= 0:
        stamp_producer(data, 7, 0, sequence, transactional=True)
    stamp(data, log.log_end_offset, log.replica.leader_epoch)
    return bytes(data)


def abort_of_leader(log: Log, timestamp_ms: int) -> bytes:
    marker = bytearray(encode_marker(0, 0, 7, 0, timestamp_ms))
    stamp(marker, log.log_end_offset + 1, log.replica.leader_epoch)
    return batch(log, timestamp_ms, next_sequence(log)) + bytes(marker)


def abort(log: Log, timestamp_ms: int) -> None:
    log.append([b"value"], timestamp=timestamp_ms, producer=ProducerStamp(7, 0, next_sequence(log), True))
    log.replica.append_control(Marker.ABORT, producer_id=7, producer_epoch=0)


WAYS: dict[str, Callable[[Log, int], object]] = {
    "run": lambda log, time: log.replica.append_run(
        bytearray(encode([b"value"], timestamp_ms=time)), max_timestamp_ms=time
    ),
    "replicated": lambda log, time: log.replica.append_replicated(batch(log, time)),
    "aborted": abort,
    "replicated, aborted": lambda log, time: log.replica.append_replicated(abort_of_leader(log, time)),
}


def watched(name: str, honest: Callable, lock: LogLock, asked: list[str]) -> Callable:
    """A call of a directory that is refused under a lock."""

    def call(directory, *arguments, **options):
        assert not lock.locked(), f"{name} under the lock"
        asked.append(name)
        return honest(directory, *arguments, **options)

    return call


def roll_by_time(way: str, tmp_path, monkeypatch) -> None:
    """Append a batch a day, in a log of which each segment is soon too old, and far from half full."""
    clock = ManualClock()
    log = Log.open(tmp_path / "t-0", clock=clock, **SETTINGS)
    lock, asked = state_of(log).lock, []
    with log, monkeypatch.context() as patch:
        WAYS[way](log, clock.now_ms())
        for name in ("open", "sync", "rename", "remove", "replace"):
            patch.setattr(Directory, name, watched(name, getattr(Directory, name), lock, asked))
        for _ in range(5):
            clock.advance(DAY_MS)
            WAYS[way](log, clock.now_ms())
        patch.undo()
        assert log.metrics().counters["rolls"] == 5
        assert asked.count("open") >= 5


@pytest.mark.parametrize("way", WAYS)
def test_a_roll_by_time_makes_no_call_under_the_lock(way, tmp_path, monkeypatch):
    roll_by_time(way, tmp_path, monkeypatch)


@pytest.mark.parametrize("way", ["run", "replicated"])
def test_planted_a_roll_that_is_not_prepared_is_found(way, tmp_path, monkeypatch):
    monkeypatch.setattr(State, "must_wait_locked", lambda *_: False)
    monkeypatch.setattr(State, "is_ready_locked", lambda *_: True)
    honest = Rolls.may_switch_locked

    def believed(rolls: Rolls) -> bool:
        """Says so to the run of a leader, and the truth to the roll."""
        return sys._getframe(1).f_code.co_name == "_write_locked" or honest(rolls)

    monkeypatch.setattr(Rolls, "may_switch_locked", believed)
    must_break("under the lock", lambda: roll_by_time(way, tmp_path, monkeypatch))
