"""Deletion of the beginning of a log beside other calls of every kind, interrupted, and in a forked child."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from logstore import Log
from logstore.errors import (
    AppendTruncatedError,
    LogClosedError,
    LogstoreError,
    OffsetOutOfRangeError,
    StorageFailedError,
)
from logstore.log.compaction.compaction import _Run
from logstore.log.directory.segments import Detached
from logstore.log.formats import checkpoints
from logstore.testing import FaultyFiles, SimDisk
from tests.crash.interrupts import at_line
from tests.kit.inside import failure_of, is_closed
from tests.kit.waiting import wait_for
from tests.log.cleanup.deleting import COUNT, SETTINGS, delete_all, delete_some, fill, value
from tests.log.logs import open_log, values_of

PATH = "/data/t-0"
PATIENCE_S = 120


class Beside(threading.Thread):
    """A call in another thread, and its error."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.act = act
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.act()
        except BaseException as error:  # noqa: BLE001  raised again in the test's thread
            self.error = error

    def end(self) -> None:
        self.join(PATIENCE_S)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error


@contextmanager
def at_the_unlinks(monkeypatch: pytest.MonkeyPatch, log: Log) -> Iterator[Beside]:
    """Hold a deletion that is about to unlink its files; its end is awaited."""
    whole, reached, goes_on = Detached.unlink, threading.Event(), threading.Event()

    def unlink(detached: Detached) -> None:
        reached.set()
        assert goes_on.wait(PATIENCE_S)
        whole(detached)

    monkeypatch.setattr(Detached, "unlink", unlink)
    deletion = Beside(lambda: delete_some(log))
    try:
        assert reached.wait(PATIENCE_S)
        yield deletion
    finally:
        monkeypatch.undo()
        goes_on.set()
        deletion.end()


@contextmanager
def at_the_note(files: FaultyFiles, log: Log) -> Iterator[Beside]:
    """Hold a deletion in the first sync of its note; its end is awaited."""
    files.hold_syncs(checkpoints.RECOVERY)
    deletion = Beside(lambda: delete_some(log))
    try:
        wait_for(lambda: files.held_syncs() > 0, PATIENCE_S, "the deletion syncs its note")
        yield deletion
    finally:
        files.release_syncs()
        deletion.end()


# -- what goes on, and what waits -----------------------------------------------------------------


def test_while_files_are_unlinked_all_but_another_deletion_and_close_goes_on(tmp_path, background, monkeypatch):
    with open_log(tmp_path, **SETTINGS) as log:
        fill(log)
        with at_the_unlinks(monkeypatch, log):
            for act in (
                lambda: log.append([value(COUNT)], ack="synced"),
                lambda: log.read(17),
                log.metrics,
                log.maintenance.roll,
                lambda: log.replica.truncate_to(COUNT),
                lambda: log.append([value(COUNT)] * 3),
            ):
                Beside(act).end()
            with pytest.raises(OffsetOutOfRangeError):
                log.read(16)
            second = Beside(lambda: log.delete_before(20))
            again = Beside(lambda: log.replica.restart_at(99))
            assert second.is_alive()
            assert again.is_alive()
            assert log.log_start_offset == 17
        second.end()
        again.end()
        assert (log.log_start_offset, log.log_end_offset) in ((99, 99), (20, 99))


def test_a_close_waits_for_the_unlinks_of_a_deletion(tmp_path, background, monkeypatch):
    log = open_log(tmp_path, **SETTINGS)
    fill(log)
    with at_the_unlinks(monkeypatch, log):
        close = Beside(log.close)
        wait_for(lambda: log._state.closing, PATIENCE_S, "the close begins")
        assert close.is_alive()
        assert not is_closed(log)
        with pytest.raises(LogstoreError):
            open_log(tmp_path, **SETTINGS)
    close.end()
    assert not [name for name in os.listdir(tmp_path / "t-0") if name.endswith(".deleted")]
    with open_log(tmp_path, **SETTINGS) as log:
        assert log.maintenance.was_clean
        assert values_of(log) == [value(n) for n in range(17, COUNT)]


def test_planted_a_close_that_waits_for_no_unlink_is_found(tmp_path, background, monkeypatch):
    log = open_log(tmp_path, **SETTINGS)
    fill(log)
    with at_the_unlinks(monkeypatch, log):
        log._state.deleting.release()
        Beside(log.close).end()
        assert [name for name in os.listdir(tmp_path / "t-0") if name.endswith(".deleted")]
        log._state.deleting.acquire()


def test_while_a_start_is_noted_appends_and_reads_go_on_and_truncations_wait(tmp_path, background):
    files = FaultyFiles()
    with open_log(tmp_path, files=files, **SETTINGS) as log:
        fill(log)
        with at_the_note(files, log) as deletion:
            for act in (
                lambda: log.append([value(COUNT)], ack="synced"),
                lambda: log.append([value(COUNT + 1)]),
                log.flush,
                lambda: log.read(0),
                log.metrics,
            ):
                Beside(act).end()
            assert log.log_start_offset == 0
            cut = Beside(lambda: log.replica.truncate_to(COUNT))
            second = Beside(lambda: log.delete_before(20))
            assert deletion.is_alive()
            assert cut.is_alive()
            assert second.is_alive()
        cut.end()
        second.end()
        assert values_of(log) == [value(n) for n in range(20, COUNT)]
    with open_log(tmp_path, **SETTINGS) as log:
        assert values_of(log) == [value(n) for n in range(20, COUNT)]


def fail_beside_a_note(files: FaultyFiles, log: Log) -> None:
    with at_the_note(files, log):
        files.fail("pwrite", path_contains=".log")
        with pytest.raises(StorageFailedError):
            log.append([value(COUNT)])
        assert failure_of(log) is not None
    # The deletion has raised in its thread, and at the end of the block here.


def test_a_log_that_fails_while_a_start_is_noted_deletes_nothing(tmp_path, background):
    files = FaultyFiles()
    log = open_log(tmp_path, files=files, **SETTINGS)
    fill(log)
    with pytest.raises(StorageFailedError):
        fail_beside_a_note(files, log)
    assert log.log_start_offset == 0
    files.heal()
    log.close()
    with open_log(tmp_path, **SETTINGS) as log:
        start = log.log_start_offset
        assert start in (0, 17)  # as durable as the note was
        assert values_of(log) == [value(n) for n in range(start, COUNT)]


@pytest.mark.parametrize("delete", [delete_some, delete_all])
def test_a_compaction_whose_segments_are_deleted_after_its_plan_comes_to_its_end(tmp_path, monkeypatch, delete):
    """It looked for a larger map, as for a batch that does not fit, for ever."""
    log = open_log(tmp_path, **SETTINGS, cleanup_policy="compact,delete")
    for n in range(COUNT):
        log.append([(b"k%d" % (n % 3), value(n))])
    log.maintenance.roll()
    check = _Run._check_joined

    def then_deleted(run: _Run, end_offset: int) -> None:
        check(run, end_offset)
        monkeypatch.undo()
        delete(log)

    monkeypatch.setattr(_Run, "_check_joined", then_deleted)
    compaction = Beside(log.maintenance.compact)
    compaction.join(PATIENCE_S)
    assert not compaction.is_alive()
    start = log.log_start_offset
    assert start == (COUNT if delete is delete_all else 17)
    assert values_of(log) == [value(n) for n in range(start, COUNT)][-3:]
    log.append([(b"k0", value(COUNT))])
    log.maintenance.roll()
    assert log.maintenance.compact().is_complete
    assert values_of(log)[-1] == value(COUNT)
    log.close()


# -- side by side ---------------------------------------------------------------------------------


@pytest.mark.crash
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_deletions_compactions_truncations_and_a_close_side_by_side_keep_the_log_right(tmp_path, seed):
    log = open_log(tmp_path, **SETTINGS, cleanup_policy="compact,delete", retention_bytes=4_000)
    done = threading.Event()

    def repeat(act: Callable[[random.Random], object], number: int) -> Beside:
        rng = random.Random(seed * 10 + number)

        def run() -> None:
            try:
                while not done.is_set():
                    try:
                        act(rng)
                    except OffsetOutOfRangeError:
                        pass  # deleted or truncated meanwhile
            except LogClosedError:
                pass  # at the end

        return Beside(run)

    def append(rng: random.Random) -> None:
        n = rng.randrange(1_000)
        with contextlib.suppress(AppendTruncatedError):
            log.append([(b"k%d" % (n % 50), value(n))], ack="synced" if n % 20 == 0 else "written")

    def delete(rng: random.Random) -> None:
        log.wait_for(log.log_end_offset + 10, timeout_s=1)
        log.delete_before(max(log.log_start_offset, log.high_watermark - rng.randrange(30)))

    def truncate(rng: random.Random) -> None:
        log.wait_for(log.log_end_offset + 40, timeout_s=1)
        log.replica.truncate_to(max(log.log_start_offset, log.log_end_offset - rng.randrange(10)))

    def read(_: random.Random) -> None:
        offsets = [record.offset for record in log.scan(log.log_start_offset)]
        assert offsets == sorted(set(offsets))

    def clean(_: random.Random) -> None:
        log.wait_for(log.log_end_offset + 20, timeout_s=1)
        log.maintenance.compact()
        log.maintenance.retain()

    others = [
        repeat(act, number)
        for number, act in enumerate(
            (
                append,
                append,
                delete,
                delete,
                truncate,
                read,
                clean,
            )
        )
    ]
    wait_for(lambda: log.log_start_offset > 400 or any(each.error for each in others), PATIENCE_S, "many deletions")
    if seed % 2:
        log.close()  # in the middle of what they do
    done.set()
    for each in others:
        each.end()
    assert failure_of(log) is None
    log.close()
    directory = tmp_path / "t-0"
    with open_log(tmp_path, **SETTINGS) as log:
        assert log.maintenance.was_clean
        assert log.log_start_offset > 400
        start, end = log.log_start_offset, log.log_end_offset
        offsets = [record.offset for record in log]
        assert offsets == sorted(set(offsets))
        assert not offsets or start <= offsets[0] <= offsets[-1] < end
        log.maintenance.retain()
        left = [each.base_offset for each in log.maintenance.segments][1:2]
        assert not left or left[0] > start
        assert not [name for name in os.listdir(directory) if name.endswith((".deleted", ".swap", ".cleaned"))]


# -- a deletion that ends in the middle -----------------------------------------------------------


def struck(nth: int, delete: Callable[[Log], object]) -> bool:
    """Raise an interrupt at the nth line of a deletion that is not shielded; check what it leaves."""
    disk = SimDisk()
    log = Log.open(PATH, files=disk, **SETTINGS)
    fill(log)
    result: list[tuple[bool, str, object]] = []
    # In the main thread the deletion would run in another one, where no interrupt reaches it.
    Beside(lambda: result.append(at_line(nth, lambda: delete(log)))).end()
    was_struck, where, _ = result[0]
    start = 17 if delete is delete_some else COUNT
    locks = (log._state.deleting, log._state.segments_mutex, log._state.compacting, log._state.lock)
    for lock in locks:
        assert lock.acquire(False), where
        lock.release()
    assert log.log_start_offset in (0, start), where
    try:
        log.replica.truncate_to(max(log.log_start_offset, 5))
    except StorageFailedError:
        assert failure_of(log) is not None
    else:
        # It may append and delete later, too.
        for n in range(log.log_end_offset, COUNT):
            log.append([value(n)], ack="synced")
        with Log.open(PATH, files=disk.crash("all"), **SETTINGS) as again:
            assert again.log_start_offset == log.log_start_offset, where
            assert values_of(again) == values_of(log), where
        delete(log)
        log.maintenance.retain()
        assert log.log_start_offset == start, where
        assert not [name for name in disk.listdir(PATH) if name.endswith(".deleted")], where
    with Log.open(PATH, files=disk.crash("none"), **SETTINGS) as again:
        assert again.log_start_offset in (0, start), where
        assert values_of(again) == [value(n) for n in range(again.log_start_offset, COUNT)], where
    log.close()
    with Log.open(PATH, files=disk, **SETTINGS) as again:
        assert again.log_start_offset in (0, start), where
        assert values_of(again) == [value(n) for n in range(again.log_start_offset, COUNT)], where
    return was_struck


@pytest.mark.crash
@pytest.mark.parametrize("delete", [delete_some, delete_all])
def test_a_deletion_abandoned_at_any_line_leaves_a_log_that_is_right_or_says_that_it_failed(background, delete):
    nth = 1
    while struck(nth, delete):
        nth += 1
    assert nth > 100
