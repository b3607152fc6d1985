"""Deletion of the beginning of a log: which calls it makes under the lock, every power cut and failure in it."""

from __future__ import annotations

import errno
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest

from logstore import Log
from logstore.errors import (
    DamagedLogError,
    DiskFullError,
    LogstoreError,
    OffsetOutOfRangeError,
    StorageError,
    StorageFailedError,
    TooManyFilesError,
)
from logstore.log import durability as module
from logstore.log.cleanup import truncation
from logstore.log.directory.files import Directory
from logstore.log.directory.segments import Detached
from logstore.log.durability import Durability
from logstore.log.formats import checkpoints
from logstore.log.formats.checkpoints import RecoveryPoint
from logstore.log.formats.recovery_point import RecoveryPointFile
from logstore.log.read.segment_holds import Hold, Holds
from logstore.log.recovery.recovery import read_point
from logstore.log.state import State
from logstore.testing import FaultyFiles, SimDisk
from logstore.testing.simdisk import POLICIES
from tests.log.cleanup.deleting import (
    COUNT,
    SETTINGS,
    Watched,
    delete_all,
    delete_epochs,
    delete_some,
    fill,
    retain,
    value,
)
from tests.log.logs import open_log, values_of

PATH = "/data/t-0"


# -- the lock ------------------------------------------------------------------------------------


#: What each deletion may write while it holds the lock, by one `pwrite`: the published end, as each append does.
#: The active segment is rolled to be deleted: when that roll is finished, the recovery point rises as by a flush.
WRITTEN = {
    delete_some: (checkpoints.PUBLISHED,),
    retain: (checkpoints.PUBLISHED,),
    delete_all: (checkpoints.PUBLISHED, checkpoints.RECOVERY),
    delete_epochs: (checkpoints.PUBLISHED, checkpoints.RECOVERY),
}


def calls_under_lock(log: Log, files: FaultyFiles, delete: Callable[[Log], object]) -> dict[str, int]:
    """Return how many file operations a deletion makes under the log's lock, besides those of `WRITTEN`."""
    found: Counter[str] = Counter()
    before: dict[str, int] = {}

    def step(what: str) -> None:
        if what == "acquired":
            before.update(files.counts())
            files.record()
        elif what == "releases":
            found.update({op: count - before[op] for op, count in files.counts().items()})
            found["pwrite"] -= sum(
                op == "pwrite" and path.endswith(WRITTEN[delete]) for op, path, *_ in files.recorded()
            )

    with Watched(log._state.lock, step).everywhere():
        delete(log)
    return {op: count for op, count in found.items() if count}


@pytest.mark.parametrize("delete", WRITTEN)
def test_no_file_call_is_made_under_the_lock_by_a_deletion(tmp_path, background, delete):
    files = FaultyFiles()
    with open_log(tmp_path, files=files, **SETTINGS) as log:
        fill(log)
        background.run()
        if delete is retain:
            log.maintenance.reconfigure(retention_bytes=800)
        elif delete is delete_epochs:
            # The deletion forgets an epoch, too.
            log.replica.begin_epoch(5)
            log.append([value(COUNT)])
        before = len(log.maintenance.segments)
        assert calls_under_lock(log, files, delete) == {}
        assert len(log.maintenance.segments) < before


def scan_behind_the_keeping(log: Log, monkeypatch: pytest.MonkeyPatch) -> list:
    """Begin a scan once a deletion has kept the segments of all scans that it found; return a list of that scan."""
    whole, scans = Holds.keep_leaving, []

    def keep_leaving(holds: Holds, *arguments: object) -> None:
        whole(holds, *arguments)
        scans.append(log.scan(max_bytes=1))

    monkeypatch.setattr(Holds, "keep_leaving", keep_leaving)
    return scans


def test_a_scan_that_begins_in_a_deletion_reads_what_it_has_fixed_without_a_call_under_the_lock(
    tmp_path, background, monkeypatch
):
    files = FaultyFiles()
    with open_log(tmp_path, files=files, **SETTINGS) as log:
        fill(log)
        background.run()
        scans = scan_behind_the_keeping(log, monkeypatch)
        assert calls_under_lock(log, files, delete_some) == {}
        assert [record.value for record in scans[0]] == [value(n) for n in range(COUNT)]


def test_planted_a_scan_that_does_not_look_for_a_deletion_is_found(tmp_path, background, monkeypatch):
    with open_log(tmp_path, **SETTINGS) as log:
        fill(log)
        scans = scan_behind_the_keeping(log, monkeypatch)
        honest = Hold.keep
        monkeypatch.setattr(Hold, "keep", lambda hold, doomed, aborted: honest(hold, [], aborted))
        delete_some(log)
        with pytest.raises(OffsetOutOfRangeError):
            list(scans[0])


def test_a_hold_whose_segments_are_removed_before_it_keeps_them_holds_their_successors(tmp_path):
    with open_log(tmp_path, **SETTINGS) as log:
        fill(log)
        segments, holds = [log._state.segments.all], Holds()
        doomed = segments[0][:2]
        holds.keep_leaving(doomed, lambda start, end: [])

        def remove(start: int, end: int) -> list:
            # The hold asks for aborted transactions, and has kept nothing yet.
            segments[0] = segments[0][2:]
            holds.lose(doomed)
            return []

        hold = holds.take(0, COUNT, 0, lambda: segments[0], remove)
        assert hold.segments == segments[0]
        assert not hold.is_lost
        assert not hold.keeps


def test_planted_a_start_that_is_synced_under_the_lock_is_found(tmp_path, background, monkeypatch):
    def promise(part: Durability, log_start: int = 0) -> None:
        with module.held(part._log.lock):
            part.write_durably_locked(log_start_offset=log_start)

    monkeypatch.setattr(Durability, "promise", promise)
    files = FaultyFiles()
    with open_log(tmp_path, files=files, **SETTINGS) as log:
        fill(log)
        background.run()
        assert calls_under_lock(log, files, delete_some) == {"pwrite": 2, "fdatasync": 2}


def test_planted_a_deletion_that_unlinks_under_the_lock_is_found(tmp_path, background, monkeypatch):
    whole = Detached.add

    def add(detached: Detached, doomed: list) -> None:
        whole(detached, doomed)
        detached.put_aside(set(detached._directory.names()))
        detached.unlink()

    monkeypatch.setattr(Detached, "add", add)
    files = FaultyFiles()
    with open_log(tmp_path, files=files, **SETTINGS) as log:
        fill(log)
        found = calls_under_lock(log, files, delete_some)
    assert {"listdir", "rename", "unlink"} <= set(found)


def test_an_append_goes_on_while_the_note_of_a_deletion_is_synced(tmp_path, background):
    files = FaultyFiles()
    with open_log(tmp_path, files=files, **SETTINGS) as log:
        fill(log)
        files.hold_syncs(checkpoints.RECOVERY)
        deletion = threading.Thread(target=log.delete_before, args=(17,))
        deletion.start()
        try:
            while not files.held_syncs():
                assert deletion.is_alive()
            appended = threading.Thread(target=log.append, args=([value(COUNT)],))
            appended.start()
            appended.join(60)
            assert not appended.is_alive()
            # Nothing is deleted before its note is on disk.
            assert log.log_start_offset == 0
            assert values_of(log) == [value(n) for n in range(COUNT + 1)]
        finally:
            files.release_syncs()
            deletion.join(60)
        assert values_of(log) == [value(n) for n in range(17, COUNT + 1)]


# -- appends, flushes and deletions together -----------------------------------------------------


def test_appends_flushes_and_deletions_side_by_side_keep_every_record_above_the_start(tmp_path):
    failed: list[BaseException] = []
    done = threading.Event()

    def guarded(act: Callable[[], object]) -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001  whatever it is, the test has to see it
            failed.append(error)
        finally:
            done.set()

    def append() -> None:
        for n in range(400):
            log.append([value(n)], ack="synced" if n % 50 == 0 else "written")

    def delete() -> None:
        while not done.is_set():
            start = log.delete_before(max(log.log_start_offset, log.high_watermark - 20))
            assert start <= log.log_start_offset

    def retain() -> None:
        while not done.is_set():
            log.maintenance.retain()

    def read() -> None:
        while not done.is_set():
            try:
                for record in log.scan(log.log_start_offset):
                    assert record.value == value(record.offset)
            except OffsetOutOfRangeError:
                pass  # deleted meanwhile

    with open_log(tmp_path, **SETTINGS, retention_bytes=4_000) as log:
        threads = [threading.Thread(target=guarded, args=(act,)) for act in (append, delete, delete, retain, read)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert not failed, failed
        start, end = log.log_start_offset, log.log_end_offset
        assert (end, [record.value for record in log]) == (400, [value(n) for n in range(start, end)])
        log.delete_before(end)
        assert not [path for path in (tmp_path / "t-0").iterdir() if path.name.endswith(".deleted")]
    with open_log(tmp_path, **SETTINGS) as log:
        assert (log.log_start_offset, log.log_end_offset) == (400, 400)


# -- power cuts ----------------------------------------------------------------------------------


def deletion_beside_flushes(disk: SimDisk, every: int) -> list[tuple[int, int, int, int]]:
    """Delete twice, and flush an append each ``every`` times that the lock is free; return what was promised when.

    Each promise is (operation, log start offset, synced end, recovery point as written).
    """
    promised: list[tuple[int, int, int, int]] = []
    is_beside, releases = False, 0
    log = Log.open(PATH, files=disk, **SETTINGS)
    fill(log)

    def promise() -> None:
        written = log._state.recovery.point.recovery_point
        promised.append((disk.operations, log.log_start_offset, log.synced_end, written))

    def step(what: str) -> None:
        nonlocal is_beside, releases
        if what != "released" or is_beside:
            return
        promise()
        releases += 1
        if releases % every == 0:
            is_beside = True
            log.append([value(log.log_end_offset)], ack="synced")
            promise()
            is_beside = False

    promise()
    with Watched(log._state.lock, step).everywhere():
        for start in (11, 24):
            log.delete_before(start)
            promise()
    log.close()
    promise()
    return promised


def cut_everywhere(every: int = 1) -> int:
    """Cut the power after each operation of such deletions, and look what is left; how many states there were."""
    disk, states = SimDisk(), 0
    disk.keep_moments()
    promised = deletion_beside_flushes(disk, every)
    began = disk.operations - disk.moment_count
    for number, moment in enumerate(disk.moments(), began + 1):
        known = [each for each in promised if each[0] <= number]
        if not known:
            continue
        _, start, end, written = known[-1]
        for policy in POLICIES:
            after = moment.crash(policy, seed=number, page_bytes=64)
            if policy == "all":
                point = read_point(Directory(PATH, after))
                assert point is not None
                assert point.recovery_point >= written, f"operation {number}: the recovery point falls back"
            with Log.open(PATH, files=after, **SETTINGS) as log:
                assert log.log_start_offset >= start, f"operation {number}, {policy}: the start falls back"
                assert log.log_end_offset >= end, f"operation {number}, {policy}: records are lost"
                found = [(record.offset, record.value) for record in log]
                wanted = [(n, value(n)) for n in range(log.log_start_offset, log.log_end_offset)]
                assert found == wanted, f"operation {number}, {policy}: other records"
                log.maintenance.retain()
                left = [each.base_offset for each in log.maintenance.segments][1:2]
                assert not left or left[0] > log.log_start_offset, f"operation {number}, {policy}: left below"
            assert not [name for name in after.listdir(PATH) if name.endswith(".deleted")]
            states += 1
    return states


@pytest.mark.crash
@pytest.mark.parametrize("every", [1, 2, 3, 99])
def test_every_power_cut_in_a_deletion_beside_flushes_leaves_the_start_and_the_records_promised(background, every):
    assert cut_everywhere(every) > 200


@pytest.mark.crash
def test_planted_a_flush_that_takes_the_noted_start_back_is_found(background, monkeypatch):
    monkeypatch.setattr(RecoveryPointFile, "announce_start", lambda file, offset: None)
    with pytest.raises((AssertionError, LogstoreError), match=r"start falls back|first segment|are missing"):
        cut_everywhere()


@pytest.mark.crash
def test_planted_files_that_are_removed_before_the_note_are_found(background, monkeypatch):
    monkeypatch.setattr(Durability, "promise", lambda part, log_start=0: None)
    with pytest.raises((AssertionError, LogstoreError), match=r"start falls back|first segment|are missing"):
        cut_everywhere()


@pytest.mark.crash
def test_planted_a_point_written_though_a_newer_one_is_there_is_found(background, monkeypatch):
    def write_next(file: RecoveryPointFile, point: RecoveryPoint) -> bool:
        file._write_slot(point)
        return True

    monkeypatch.setattr(RecoveryPointFile, "write_next", write_next)
    with pytest.raises((AssertionError, LogstoreError), match="the recovery point falls back"):
        cut_everywhere()


@pytest.mark.parametrize("position", [0, checkpoints.SLOT_SPACING_BYTES])
def test_a_slot_that_decays_leaves_the_start_in_the_other(background, position):
    disk = SimDisk()
    log = Log.open(PATH, files=disk, **SETTINGS)
    fill(log)
    delete_some(log)
    after = disk.crash("none")
    with Directory(PATH, after).open(checkpoints.RECOVERY, writable=True) as file:
        file.write(b"\0" * checkpoints.SLOT_BYTES, position)
    Directory(PATH, after).remove(checkpoints.START)
    with Log.open(PATH, files=after, **SETTINGS) as again:
        assert again.log_start_offset == 17
        assert values_of(again) == [value(n) for n in range(17, COUNT)]
    log.close()


def decay_each_slot(background) -> None:
    for position in (0, checkpoints.SLOT_SPACING_BYTES):
        test_a_slot_that_decays_leaves_the_start_in_the_other(background, position)


def test_planted_a_start_in_one_slot_only_is_found(background, monkeypatch):
    monkeypatch.setattr(Durability, "promise", Durability._write_synced)
    with pytest.raises((AssertionError, DamagedLogError)):
        decay_each_slot(background)


def test_a_point_made_before_a_newer_one_is_not_written(tmp_path):
    with open_log(tmp_path, **SETTINGS) as log:
        fill(log)
        recovery = log._state.recovery
        made = recovery.point
        log.append([value(COUNT)], ack="synced")
        newer = recovery.point
        assert newer.recovery_point > made.recovery_point
        assert not recovery.write_next(made)
        assert recovery.point == newer
        assert recovery.write_next(newer)


# -- failures ------------------------------------------------------------------------------------

FAULTS = [
    ("change", errno.EIO),
    ("change", errno.ENOSPC),
    ("open", errno.EMFILE),
    ("listdir", errno.EMFILE),
    ("preadv", errno.EIO),
]


@pytest.mark.crash
@pytest.mark.parametrize(("op", "error"), FAULTS)
@pytest.mark.parametrize("delete", [delete_some, delete_all])
def test_each_call_of_a_deletion_fails_in_turn_and_no_record_above_the_start_is_lost(background, delete, op, error):
    nth, is_through = 0, False
    while not is_through:
        nth += 1
        disk = SimDisk()
        log = Log.open(PATH, files=disk, **SETTINGS)
        fill(log)
        background.run()
        reader = log.scan()
        disk.fail(op, nth, error)
        raised = None
        try:
            delete(log)
        except (StorageError, LogstoreError) as failure:
            raised = failure
        is_through = not disk.fired()
        disk.heal()
        start = log.log_start_offset
        assert start in (0, 17, COUNT), nth
        check_cuts(disk, start, nth)
        if raised is not None and not isinstance(raised, StorageFailedError):
            # Out of space or of descriptors: the log is as it was, or has the new start.
            assert isinstance(raised, (DiskFullError, TooManyFilesError)), nth
            log.append([value(COUNT)], ack="synced")
            assert values_of(log)[-1] == value(COUNT)
        if not isinstance(raised, StorageFailedError):
            # A later call finishes what this one has left.
            delete_some(log) if delete is delete_some else log.delete_before(COUNT)
            log.maintenance.retain()
            start = log.log_start_offset
            assert start == (17 if delete is delete_some else COUNT), nth
            assert values_of(log) == [value(n) for n in range(start, log.log_end_offset)], nth
            assert not [name for name in disk.listdir(PATH) if name.endswith(".deleted")], nth
            assert [record.value for record in reader] == [value(n) for n in range(COUNT)], nth
        log.close()
        check_cuts(disk, start, nth)
    assert nth > (10 if op == "change" else 1)


def check_cuts(disk: SimDisk, start: int, nth: int) -> None:
    """Check what a power cut leaves now of a log of `COUNT` synced records, deleted up to a start or further."""
    for policy in POLICIES:
        with Log.open(PATH, files=disk.crash(policy, seed=nth, page_bytes=64), **SETTINGS) as log:
            assert log.log_start_offset >= start, f"{nth}, {policy}"
            assert log.log_end_offset >= COUNT, f"{nth}, {policy}"
            found = [(record.offset, record.value) for record in log]
            wanted = [(n, value(n)) for n in range(log.log_start_offset, log.log_end_offset)]
            assert found == wanted, f"{nth}, {policy}"


@pytest.mark.crash
def test_a_start_that_only_a_flush_has_written_is_not_taken_for_durable(background):
    disk = SimDisk()
    log = Log.open(PATH, files=disk, **SETTINGS)
    fill(log)
    is_beside = False

    def step(what: str) -> None:
        nonlocal is_beside
        if what == "released" and log._state.recovery.least_start and not is_beside:
            # A flush writes the announced start, unsynced; then the deletion finds no space to write it.
            is_beside = True
            log.append([value(COUNT)], ack="synced")
            disk.fail("pwrite", errno=errno.ENOSPC, path_contains=checkpoints.RECOVERY)

    with Watched(log._state.lock, step).everywhere(), pytest.raises(DiskFullError):
        delete_some(log)
    assert is_beside
    assert disk.fired()
    assert log.log_start_offset == 0
    assert values_of(log) == [value(n) for n in range(COUNT + 1)]
    check_cuts(disk, 0, 1)
    # What the flush has written is taken back: a truncation below it keeps what is appended after it.
    log.replica.truncate_to(5)
    for n in range(5, COUNT):
        log.append([value(n)], ack="synced")
    with Log.open(PATH, files=disk.crash("all"), **SETTINGS) as again:
        assert values_of(again) == [value(n) for n in range(COUNT)]
    delete_some(log)
    log.close()


@pytest.mark.crash
def test_planted_a_deletion_that_takes_what_a_flush_wrote_for_durable_is_found(background, monkeypatch):
    def promise_start(state: State, offset: int) -> None:
        with suppress(DiskFullError):
            state.durability.promise(offset)
        assert state.recovery.point.log_start_offset == offset

    monkeypatch.setattr(truncation, "_promise_start", promise_start)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_a_start_that_only_a_flush_has_written_is_not_taken_for_durable(background)


def test_a_log_that_begins_again_lower_first_removes_what_a_deletion_has_left(tmp_path, background, monkeypatch):
    with open_log(tmp_path, **SETTINGS) as log:
        fill(log)
        with monkeypatch.context() as patches:

            def refuse(detached: Detached, names: set[str]) -> None:
                raise DiskFullError("no space for a longer name", path=log.path)

            patches.setattr(Detached, "put_aside", refuse)
            with pytest.raises(DiskFullError):
                log.delete_before(COUNT)
        assert len(log.maintenance.segments) == 1
        left = {path.name for path in (tmp_path / "t-0").iterdir() if path.suffix == ".log"}
        assert len(left) > 3
        log.replica.restart_at(0)
        # Else the new log could reach the offset where an old file begins, which recovery would take for its next.
        assert [path.name for path in (tmp_path / "t-0").iterdir() if path.suffix == ".log"] == [min(left)]
        log.replica.accept_stop()
        log.append([b"new"], ack="synced")
        log.maintenance.retain()
        assert values_of(log) == [b"new"]
    with open_log(tmp_path, **SETTINGS) as log:
        assert values_of(log) == [b"new"]
