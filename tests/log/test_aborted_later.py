"""The list of aborted transactions is written behind the marker: what other calls do meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logstore import Log
from logstore.log import Marker, ProducerStamp
from logstore.log.formats import aborted_files
from logstore.log.rolling import worker
from logstore.log.transactions import Transactions
from tests.crash.planted import must_break
from tests.kit.inside import state_of
from tests.kit.rolling import HeldTasks
from tests.kit.waiting import wait_for


def values(log) -> list[bytes | None]:
    return [record.value for record in log.scan(isolation="read_committed")]


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> HeldTasks:
    held = HeldTasks()
    monkeypatch.setattr(worker, "worker_of", lambda files: held)
    return held


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> worker.Threads:
    """Threads, as on the machine's table of file operations."""
    monkeypatch.setattr(worker, "worker_of", lambda files: worker.THREADS)
    return worker.THREADS


def abort(log: Log, sequence: int, producer_id: int = 5) -> None:
    log.append([b"aborted"], producer=ProducerStamp(producer_id, 0, sequence, True))
    log.replica.append_control(Marker.ABORT, producer_id=producer_id, producer_epoch=0)


def names(log: Log) -> set[str]:
    return {path.name for path in Path(log.path).iterdir()}


def test_readers_in_other_processes_wait_for_the_list_and_those_in_this_one_do_not(tmp_path, tasks):
    with Log.open(tmp_path / "r" / "t-0") as log, Log.open(log.path, read_only=True) as other:
        log.append([b"first"])
        abort(log, 0)
        log.append([b"last"])
        assert values(log) == [b"first", b"last"]
        assert "logstore.aborted" not in names(log)
        assert values(other) == [b"first"]
        tasks.run()
        assert "logstore.aborted" in names(log)
        assert values(other) == [b"first", b"last"]
        # From now on the append lists its transaction by itself.
        abort(log, 1)
        log.append([b"more"])
        assert not tasks.tasks
        assert values(other) == [b"first", b"last", b"more"]


@pytest.mark.parametrize("act", ["flush", "roll", "close", "truncate"])
def test_what_needs_the_list_writes_it(tmp_path, tasks, act):
    log = Log.open(tmp_path / "r" / "t-0")
    log.append([b"first"])
    abort(log, 0)
    log.append([b"last"])
    log.append([b"cut"])
    if act == "flush":
        log.flush()
        assert log.metrics().recovery_point == 5
    elif act == "roll":
        log.maintenance.roll()
        tasks.run()
        assert log.metrics().recovery_point == 5
    elif act == "truncate":
        log.replica.truncate_to(4)
    else:
        log.close()
    with Log.open(log.path, read_only=True) as other:
        assert values(other) == [b"first", b"last", b"cut"][: 2 if act == "truncate" else 3]
    log.close()
    tasks.run()
    with Log.open(log.path) as again:
        assert values(again) == [b"first", b"last", b"cut"][: 2 if act == "truncate" else 3]


def held_write() -> tuple[threading.Event, threading.Event, Callable[..., Any]]:
    """Return what is set once the list is being written, what lets that go on, and the write that does so."""
    began, goes_on = threading.Event(), threading.Event()
    honest = aborted_files.write

    def slow(where, wanted):
        began.set()
        assert goes_on.wait(30)
        return honest(where, wanted)

    return began, goes_on, slow


def cut_while_it_is_written(directory: Path, monkeypatch: pytest.MonkeyPatch) -> list[bytes | None]:
    """Truncate a marker off while its index is being written; return what is committed in the end."""
    began, goes_on, slow = held_write()
    with Log.open(directory / "t-0", retention_ms=-1) as log:
        log.append([b"first"])
        log.append([b"undecided"], producer=ProducerStamp(5, 0, 0, True))
        with monkeypatch.context() as patch:
            patch.setattr(aborted_files, "write", slow)
            log.replica.append_control(Marker.ABORT, producer_id=5, producer_epoch=0)
            assert began.wait(30)
            cutting = threading.Thread(target=log.replica.truncate_to, args=(2,))
            cutting.start()
            # It waits for the file, or, with the bug, has ended.
            wait_for(lambda: not cutting.is_alive() or state_of(log).transactions._version > 0)
            goes_on.set()
            cutting.join()
        wait_for(lambda: not worker.THREADS.is_busy)
        # The transaction is open again, and is committed now.
        log.replica.append_control(Marker.COMMIT, producer_id=5, producer_epoch=0)
        with Log.open(log.path, read_only=True) as other:
            return values(other)


@pytest.mark.usefixtures("threads")
def test_a_truncation_waits_for_the_list_and_makes_it_void(tmp_path, monkeypatch):
    assert cut_while_it_is_written(tmp_path, monkeypatch) == [b"first", b"undecided"]


@pytest.mark.usefixtures("threads")
def test_planted_a_truncation_that_does_not_wait_for_the_list_is_found(tmp_path, monkeypatch):
    def search() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Transactions, "halt", lambda self: None)
            assert cut_while_it_is_written(tmp_path, patch) == [b"first", b"undecided"]

    must_break("undecided", search)


@pytest.mark.usefixtures("threads")
def test_entries_that_come_while_the_list_is_written_are_in_it(tmp_path, monkeypatch):
    began, goes_on, slow = held_write()
    with Log.open(tmp_path / "r" / "t-0", retention_ms=-1) as log:
        monkeypatch.setattr(aborted_files, "write", slow)
        abort(log, 0)
        assert began.wait(30)
        # No append waits for it, whatever it is: another marker, a roll.
        abort(log, 0, 6)
        log.append([b"last"])
        goes_on.set()
        wait_for(lambda: not worker.THREADS.is_busy and not state_of(log).transactions.must_save)
        with Log.open(log.path, read_only=True) as other:
            assert values(other) == [b"last"]
            assert [entry.producer_id for entry in other._aborted_in(other._view(), 0, 5)] == [5, 6]


@pytest.mark.parametrize("starts_at_log_start", [False, True])
def test_a_truncation_into_an_older_segment_has_a_list_for_the_new_active_one(tmp_path, starts_at_log_start):
    with Log.open(tmp_path / "r" / "t-0", retention_ms=-1) as log:
        log.append([b"0", b"1"])
        log.maintenance.roll()
        log.append([b"2", b"3"])
        log.maintenance.roll()
        log.append([b"4"])
    with Log.open(log.path, retention_ms=-1) as log:
        if starts_at_log_start:
            log.delete_before(3)
        log.replica.truncate_to(3)
        abort(log, 0)
        log.append([b"last"])
        assert values(log)[-1:] == [b"last"]
        assert b"aborted" not in values(log)
    with Log.open(log.path, retention_ms=-1) as log:
        assert b"aborted" not in values(log)
