"""Rounds of one log: what is acknowledged when, and what becomes of the threads that wait."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from logstore import Log
from logstore.errors import AppendTruncatedError, ForkedError, LogClosedError, StorageFailedError
from logstore.log.append._group_commit import GroupCommit, Rounds
from logstore.log.append.flush import Flusher
from logstore.testing import FaultyFiles, ManualClock
from tests.crash.planted import must_break
from tests.kit.rolling import HeldTasks
from tests.kit.striking import Struck
from tests.kit.waiting import wait_for
from tests.log.logs import values_of


class Appender(threading.Thread):
    """A thread that appends one record and waits for the disk; `error` is what it got."""

    def __init__(self, log: Log, value: bytes = b"x") -> None:
        super().__init__(daemon=True)
        self.log, self.value = log, value
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.log.append([self.value], ack="synced")
        except BaseException as error:  # noqa: BLE001  looked at by the test
            self.error = error

    def ends(self) -> Appender:
        self.join(300)
        assert not self.is_alive(), "a thread waits for ever"
        return self


def commit_of(log: Log) -> GroupCommit:
    return log._flusher.commit


def waits(log: Log, count: int) -> None:
    wait_for(lambda: commit_of(log).waiting == count, 300)


@contextlib.contextmanager
def held_syncs(files: FaultyFiles) -> Iterator[None]:
    files.hold_syncs(".log")
    try:
        yield
    finally:
        files.release_syncs()


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture
def log(ram_path: Path, files: FaultyFiles) -> Iterator[Log]:
    """A log whose next rounds sync the active segment alone."""
    with Log.open(ram_path / "t-0", files=files) as log:
        log.append([b"first"], ack="synced")
        assert log._flusher.has_one_file_locked()
        yield log


def leader_in_its_sync(log: Log, files: FaultyFiles) -> Appender:
    before = files.held_syncs()
    leader = Appender(log, b"leader")
    wait_for(lambda: files.held_syncs() > before, 300)
    return leader


def late_records_wait_for_the_next_sync(log: Log, files: FaultyFiles) -> None:
    """Append while a sync is under way: that sync may not acknowledge what came after its beginning."""
    with held_syncs(files):
        leader = leader_in_its_sync(log, files)
        late = [Appender(log, b"late") for _ in range(3)]
        waits(log, 3)
        files.fail("fdatasync", 2, errno.EIO, path_contains=".log")
        before = log.synced_end
    leader.ends()
    for thread in late:
        thread.ends()
    # The second sync has failed: only what the first one covers is on disk.
    assert log.synced_end == before + 1, "acknowledged before the sync that covers it"
    assert leader.error is None
    assert [type(thread.error) for thread in late] == [StorageFailedError] * 3, "acknowledged after a failed sync"


def test_a_record_is_acknowledged_by_a_sync_that_began_after_it_was_written(log, files):
    late_records_wait_for_the_next_sync(log, files)


def test_planted_a_target_taken_after_the_sync_is_found(log, files):
    """What was written during the sync counts as synced."""

    class Hasty(Rounds):
        def is_done(self, offset: int) -> bool:
            return log._state.synced.value >= offset

        def sync(self, commit: GroupCommit) -> None:
            log._state.segments.active.file.sync()
            log._state.synced.advance(log._state.end.value)

    log._writer.commit = log._flusher.commit = GroupCommit(Hasty())
    must_break("acknowledged before the sync", lambda: late_records_wait_for_the_next_sync(log, files))


def every_waiter_hears_of_a_failed_sync(log: Log, files: FaultyFiles) -> None:
    before = log.synced_end
    with held_syncs(files):
        leader = leader_in_its_sync(log, files)
        others = [Appender(log) for _ in range(4)]
        waits(log, 4)
        files.fail("fdatasync", 1, errno.EIO, path_contains=".log")
        syncs = files.counts()["fdatasync"]
    for thread in (leader, *others):
        thread.ends()
        assert isinstance(thread.error, StorageFailedError), "a failed sync was trusted"
    assert log.synced_end == before
    # Only that of the mark in the recovery file may have come.
    assert files.counts()["fdatasync"] <= syncs + 1, "a failed sync was tried again"


def test_a_failed_sync_is_told_to_every_waiter_and_not_tried_again(log, files):
    every_waiter_hears_of_a_failed_sync(log, files)
    with pytest.raises(StorageFailedError):
        log.append([b"later"])


def test_planted_a_sync_that_trusts_the_first_ones_failure_is_found(log, files, monkeypatch):
    def again(self, segment, error):
        with segment.file.files.open(segment.path, writable=True) as file:
            file.mark_dirty()
            file.sync()

    monkeypatch.setattr(Flusher, "sync_failed", again)
    must_break("a failed sync was trusted", lambda: every_waiter_hears_of_a_failed_sync(log, files))


def test_a_failed_sync_loses_nothing_that_was_acknowledged(ram_path, files):
    with Log.open(ram_path / "t-0", files=files) as log:
        log.append([b"kept"], ack="synced")
        every_waiter_hears_of_a_failed_sync(log, files)
    with Log.open(ram_path / "t-0") as log:
        assert values_of(log)[0] == b"kept"


def test_a_log_that_is_closed_while_threads_wait_serves_them_all(log, files):
    with held_syncs(files):
        leader = leader_in_its_sync(log, files)
        others = [Appender(log, b"other %d" % n) for n in range(3)]
        waits(log, 3)
        closing = threading.Thread(target=log.close, daemon=True)
        closing.start()
        waits(log, 4)
    for thread in (leader, *others):
        assert thread.ends().error is None
    closing.join(300)
    assert not closing.is_alive()
    with pytest.raises(LogClosedError):
        log.append([b"later"], ack="synced")
    with Log.open(log.path) as again:
        assert len(values_of(again)) == 5


def test_a_truncation_during_a_sync_ends_the_wait_for_what_it_removed(log, files):
    with held_syncs(files):
        leader = leader_in_its_sync(log, files)
        other = Appender(log)
        waits(log, 1)
        # It holds the log's lock, and waits for the sync of the file that it cuts.
        truncating = threading.Thread(target=log.replica.truncate_to, args=(1,), daemon=True)
        truncating.start()
        wait_for(log._state.lock.locked, 300)
    truncating.join(300)
    assert [type(thread.ends().error) for thread in (leader, other)] == [AppendTruncatedError] * 2
    assert "are not in the log" in str(other.error)
    assert log.synced_end <= 1
    log.append([b"again"], ack="synced")
    assert log.synced_end == 2


def test_threads_share_syncs_on_a_clock_that_stands_still(ram_path):
    with Log.open(ram_path / "t-0", clock=ManualClock()) as log:

        def work() -> None:
            for _ in range(50):
                log.append([b"x"], ack="synced")

        threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
            assert not thread.is_alive()
        assert log.synced_end == log.log_end_offset == 200


def test_an_interrupt_ends_the_wait_and_the_record_is_in_the_log(log, files, strike):
    with held_syncs(files):
        leader = leader_in_its_sync(log, files)

        def strike_later() -> None:
            waits(log, 1)
            strike()

        striking = threading.Thread(target=strike_later)
        striking.start()
        with pytest.raises(Struck):
            log.append([b"mine"], ack="synced")
        assert leader.is_alive()
        striking.join()
    assert leader.ends().error is None
    log.append([b"later"], ack="synced")
    assert values_of(log) == [b"first", b"leader", b"mine", b"later"]


def test_a_leader_interrupted_in_its_sync_leaves_no_thread_waiting(log, files, strike):
    """The handler runs once the sync has ended; before that no bytecode runs."""
    others: list[Appender] = []

    def strike_in_the_sync() -> None:
        wait_for(files.held_syncs, 300)
        others.extend(Appender(log) for _ in range(3))
        waits(log, 3)
        strike()
        files.release_syncs()

    files.hold_syncs(".log")
    striking = threading.Thread(target=strike_in_the_sync)
    striking.start()
    with pytest.raises(Struck):
        log.append([b"mine"], ack="synced")
    with contextlib.suppress(Struck):
        striking.join()
    for thread in others:
        assert thread.ends().error is None
    assert log.synced_end == log.log_end_offset == 5
    assert not commit_of(log).is_led


def test_a_child_forked_by_a_handler_of_a_waiting_thread_is_refused(log, files):
    """It has no leader that would wake it."""
    child = []

    def fork(number, frame):
        child.append(os.fork())

    before = signal.signal(signal.SIGUSR1, fork)
    try:
        with held_syncs(files):
            leader = leader_in_its_sync(log, files)

            def signal_later() -> None:
                waits(log, 1)
                os.kill(os.getpid(), signal.SIGUSR1)
                wait_for(lambda: child, 300)
                files.release_syncs()

            signalling = threading.Thread(target=signal_later)
            signalling.start()
            try:
                log.append([b"mine"], ack="synced")
            except ForkedError:
                os._exit(7 if child == [0] else 1)
            finally:
                if child == [0]:
                    os._exit(2)
            signalling.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert leader.ends().error is None
    assert os.waitstatus_to_exitcode(os.waitpid(child[0], 0)[1]) == 7


def test_a_round_of_one_file_raises_the_recovery_point(log, files):
    for n in range(3):
        before = files.counts()
        log.append([b"x"], ack="synced")
        assert files.counts()["fdatasync"] == before["fdatasync"] + 1
        assert files.counts()["fsync_dir"] == before["fsync_dir"]
        assert log.metrics().recovery_point == log.synced_end == n + 2


@pytest.mark.parametrize("what", ["sealed segment", "new name", "epochs"])
def test_a_round_with_more_to_sync_is_not_taken_for_one_of_one_file(log, what, monkeypatch):
    state = log._state
    if what == "sealed segment":
        monkeypatch.setattr(state.rolls, "_worker", HeldTasks())
        log.maintenance.roll()
        log.append([b"second"])
    elif what == "new name":
        state.unsynced.names_changed()
    else:
        state.epochs.is_saved = False
    with state.lock:
        assert not log._flusher.has_one_file_locked()
    log.append([b"x"], ack="synced")
    with state.lock:
        assert log._flusher.has_one_file_locked()
