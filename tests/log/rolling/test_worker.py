"""Threads of background work: which tasks wait for which others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from logstore import Log
from logstore.accumulator.task_threads import Task
from logstore.log.rolling import worker
from logstore.log.rolling.worker import Threads
from logstore.testing import FaultyFiles
from tests.kit.waiting import wait_for

SEGMENT = 4096
VALUE = b"v" * 200


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Threads]:
    threads = Threads()
    monkeypatch.setattr(worker, "worker_of", lambda files: threads)
    yield threads
    wait_for(lambda: not threads.is_busy, 300)


def fill(log: Log, share: float) -> None:
    while log._state.segments.active.size < share * SEGMENT:
        log.append([VALUE])


def roll(log: Log) -> None:
    """Append until the log has rolled to a segment that was prepared."""
    fill(log, 0.6)
    wait_for(lambda: log._state.rolls.next_file is not None, 300)
    before = log._state.counters.rolls
    while log._state.counters.rolls == before:
        log.append([VALUE])


def a_log_gets_its_next_segment_beside_syncs_of_others(tmp_path: Path, timeout_s: float = 300) -> None:
    files = FaultyFiles()
    with ExitStack() as stack:
        stack.callback(files.release_syncs)
        paths = [tmp_path / f"t-{n}" for n in range(worker._THREADS)]
        rolled = [stack.enter_context(Log.open(path, files=files, segment_bytes=SEGMENT)) for path in paths]
        other = stack.enter_context(Log.open(tmp_path / "other-0", files=files, segment_bytes=SEGMENT))
        stack.callback(files.release_syncs)  # before the logs are closed
        files.hold_syncs(".log")
        for log in rolled:
            roll(log)
        wait_for(lambda: files.held_syncs() == worker._THREADS, 300)
        fill(other, 0.6)
        wait_for(lambda: other._state.rolls.next_file is not None, timeout_s)
        assert files.held_syncs() == worker._THREADS


def test_a_log_gets_its_next_segment_while_each_thread_syncs_another_log(ram_path, threads):
    a_log_gets_its_next_segment_beside_syncs_of_others(ram_path)


def test_planted_one_queue_for_all_tasks_is_found(ram_path, threads, monkeypatch):
    def submit(self: Threads, task: Task, *, syncs: bool = False) -> None:
        self._others.submit(task)

    monkeypatch.setattr(Threads, "submit", submit)
    with pytest.raises(AssertionError):
        a_log_gets_its_next_segment_beside_syncs_of_others(ram_path, timeout_s=1)


def test_tasks_that_sync_run_while_all_threads_of_others_are_taken():
    threads, goes_on, ran = Threads(), threading.Event(), threading.Event()
    try:
        for _ in range(10):
            threads.submit(lambda: goes_on.wait(300) and None)
        threads.submit(ran.set, syncs=True)
        assert ran.wait(300)
    finally:
        goes_on.set()
    wait_for(lambda: not threads.is_busy, 300)
