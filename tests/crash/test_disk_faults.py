"""Every call that changes the simulated disk fails in turn, and then the power fails, or the caches go.

What `test_faults` asks of libc is asked here of a disk that loses what a failed sync has lost: nothing that
was acknowledged as synced may be missing, and a log that is opened again trusts no page on the kernel's word.
"""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from logstore import Log
from logstore.errors import DamagedLogError, DiskFullError, LogstoreError, StorageError
from logstore.log import durability
from logstore.log.durability import Durability
from logstore.testing import SimDisk
from logstore.testing.simdisk import POLICIES
from tests.crash.histories import PARTITION, History, Sent
from tests.crash.scripted import FAULTS, SETTINGS, ScriptedWorkload
from tests.crash.workload import Workload, check_content, check_promise, expect_from, open_log

pytestmark = [pytest.mark.crash, pytest.mark.row("S20", part="failing disk")]

ROOT = Path("/r")
PATH = str(ROOT / PARTITION)


def check(disk: SimDisk, workload: ScriptedWorkload, least: int, *, claims: bool = True) -> None:
    """Open what is left, hold it against what the workload was told, write on, and lose the power."""
    sent = [*workload.sent, *([] if workload.history.attempted is None else [workload.history.attempted])]
    if workload.cutting is not None:
        least = min(least, workload.cutting)
    log = Log.open(PATH, files=disk, **SETTINGS)
    try:
        end, start = log.log_end_offset, log.log_start_offset
        assert end >= least, f"acknowledged up to {least}, but the log ends at {end}"
        assert workload.least_start <= start <= max(workload.start, workload.least_start)
        kept = [batch for batch in sent if batch.last < end]
        assert end == max(kept[-1].last + 1 if kept else 0, start)
        expect_from(log, kept, start, thorough=False)
        History(log, random.Random(1), kept).append(2, ack="synced")
        expect_from(log, kept, start, thorough=False)
        after = disk.crash("none")
    finally:
        log.close()
    if claims:
        with Log.open(PATH, files=after, **SETTINGS) as log:
            expect_from(log, kept, log.log_start_offset, thorough=False)


@pytest.mark.parametrize("fault", FAULTS)
def test_every_change_fails_in_turn_and_then_the_power(fault):
    op, plan = FAULTS[fault]
    whole = SimDisk()
    assert ScriptedWorkload(ROOT, whole).run() == "done"
    count = whole.changes if op == "change" else whole.counts()[op]
    assert count > 80
    outcomes = dict.fromkeys(("done", "full", "failed", "not open"), 0)
    for nth in range(1, count + 1):
        disk = SimDisk(nth)
        disk.fail(op, nth, **plan)
        workload = ScriptedWorkload(ROOT, disk)
        try:
            outcomes[workload.run()] += 1
            # A mark that could not be written warns no reader, and nothing restores lost names above the log.
            above = {path for _, path, _ in disk.fired()} & {"/", str(ROOT)}
            fail_further(disk, workload, nth, claims="for good" not in fault and not above)
        except (AssertionError, LogstoreError) as error:
            pytest.fail(f"{fault} at {op} {nth}, {disk.fired()}: {error!r}")
        finally:
            disk.heal()
            workload.abandon()
    print(f"{fault}: {count} calls, {outcomes}")


def fail_further(disk: SimDisk, workload: ScriptedWorkload, nth: int, *, claims: bool) -> None:
    """After a fault: power cuts, a new process with the old page cache, and one that has to read again."""
    policy = POLICIES[nth % len(POLICIES)]
    for after in (disk.crash("none"), disk.crash(policy)):
        check(after, workload, workload.synced)
    acknowledged = workload.sent[-1].last + 1 if workload.sent else 0
    check(disk.kill(), workload, acknowledged, claims=claims)
    reread = disk.kill()
    reread.drop_caches()
    check(reread, workload, workload.synced, claims=claims)


@pytest.mark.parametrize("rereads", [False, True])
@pytest.mark.parametrize("where", [".log", "logstore.recovery", ".txnindex", PARTITION])
def test_a_log_that_is_opened_again_after_a_failed_sync_trusts_no_clean_page(where, rereads):
    """The process goes on with the same kernel; what it acknowledges from then on survives."""
    reopened_after_failed_syncs(where, rereads=rereads)


def reopened_after_failed_syncs(where: str, *, rereads: bool) -> None:
    op = "fsync_dir" if where == PARTITION else "fdatasync"
    fired = 0
    for nth in range(1, 40):
        disk = SimDisk(nth)
        disk.rereads = rereads
        disk.fail(op, nth, path_contains=where)
        workload = ScriptedWorkload(ROOT, disk)
        ended = workload.run()
        if not disk.fired():
            break
        fired += 1
        disk.heal()
        workload.abandon()
        # No kill: the same disk, opened again by the same process.
        acknowledged = workload.sent[-1].last + 1 if workload.sent and not rereads else workload.synced
        try:
            check(disk, workload, acknowledged)
        except (AssertionError, LogstoreError) as error:
            raise AssertionError(f"{op} {nth} of {where}, {ended}: {error!r}") from error
    assert fired


def reopened_after_a_disk_that_takes_nothing(*, rereads: bool) -> int:
    """From one change on, each fails: a sync loses pages, and no mark tells of it. Return how often."""
    untold = 0
    for nth in range(1, 400):
        disk = SimDisk(nth)
        disk.rereads = rereads
        disk.fail("change", nth, errno.EIO, times=-1, path_contains=PARTITION)
        workload = ScriptedWorkload(ROOT, disk)
        ended = workload.run()
        if not disk.fired():
            return untold
        disk.heal()
        workload.abandon()
        untold += bool(disk.untold)
        acknowledged = workload.sent[-1].last + 1 if workload.sent and not rereads else workload.synced
        try:
            check(disk, workload, acknowledged)
        except (AssertionError, LogstoreError) as error:
            raise AssertionError(f"change {nth}, {ended}: {error!r}") from error
        assert not disk.untold
    raise AssertionError("the workload has more changes than were tried")


@pytest.mark.parametrize("rereads", [False, True])
def test_a_log_that_could_not_mark_its_failure_is_not_trusted_by_its_process(rereads):
    assert reopened_after_a_disk_that_takes_nothing(rereads=rereads) > 20


def test_planted_a_failure_that_no_mark_tells_of_is_forgotten(monkeypatch):
    class Forgetful(set):
        def add(self, each):
            pass

    monkeypatch.setattr(SimDisk, "untold", Forgetful(), raising=False)
    with pytest.raises(AssertionError, match="change"):
        reopened_after_a_disk_that_takes_nothing(rereads=False)


def killed_before_the_mark(monkeypatch) -> int:
    """A sync fails, and the process is killed before it can tell: the next one writes what may be lost again."""
    monkeypatch.setattr(Durability, "suspect_locked", lambda durability: None)
    fired = 0
    for nth in range(1, 40):
        disk = SimDisk(nth)
        disk.fail("fdatasync", nth, path_contains=".log")
        workload = ScriptedWorkload(ROOT, disk)
        ended = workload.run()
        if not disk.fired():
            break
        fired += 1
        after = disk.kill()
        disk.heal()
        workload.abandon()
        acknowledged = workload.sent[-1].last + 1 if workload.sent else 0
        try:
            check(after, workload, acknowledged)
        except (AssertionError, LogstoreError) as error:
            raise AssertionError(f"fdatasync {nth}, {ended}: {error!r}") from error
    return fired


def test_a_process_that_is_killed_before_the_mark_of_a_failed_sync_loses_nothing_by_the_next_power_cut(monkeypatch):
    assert killed_before_the_mark(monkeypatch) > 5


def test_planted_bytes_of_an_earlier_process_are_taken_for_written(monkeypatch):
    monkeypatch.setattr(durability, "_may_have_lost", lambda found, boot: False)
    with pytest.raises(AssertionError, match="fdatasync"):
        killed_before_the_mark(monkeypatch)


# --- a full disk ------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(4))
def test_a_disk_that_runs_full_goes_on_when_there_is_space(first):
    """Whatever write it is that finds no room: nothing is lost, the log stays open, nothing is cut."""
    refused = 0
    for capacity in range(300 + first * 97, 13_000, 4 * 97):
        disk = SimDisk(capacity=capacity)
        log = opened_with_space(disk)
        sent: list[Sent] = []
        history = History(log, random.Random(capacity), sent)
        for n in range(45):
            for _ in range(60):
                try:
                    act_once(log, history, n)
                    break
                except DiskFullError as error:
                    refused += 1
                    history.attempted = None
                    assert error.retriable
                    synced = log.synced_end
                    expect_from(log, sent, log.log_start_offset, thorough=False)
                    check_cut(disk.crash("none"), sent, synced)
                    disk.capacity += 60
            else:
                pytest.fail(f"capacity {capacity}: no room was enough for call {n}")
        log.flush()
        check_cut(disk.crash("none"), sent, log.log_end_offset)
        disk.capacity = None
        log.close()
    assert refused > 50


def opened_with_space(disk: SimDisk) -> Log:
    for _ in range(200):
        try:
            return Log.open(PATH, files=disk, **SETTINGS)
        except DiskFullError:
            disk.capacity += 60
    pytest.fail("no room was enough to open a log")


def act_once(log: Log, history: History, n: int) -> None:
    if n % 15 == 8:
        log.flush()
    elif n % 15 == 11:
        log.maintenance.roll()
    elif n % 15 == 14:
        log.delete_before(log.log_start_offset + 1)
    else:
        history.append(2, producer_id=7 if n % 3 else -1, ack="synced" if n % 4 == 0 else "written")


def check_cut(disk: SimDisk, sent: list[Sent], synced: int) -> None:
    with Log.open(PATH, files=disk, **SETTINGS) as log:
        end = log.log_end_offset
        assert end >= synced
        expect_from(log, [batch for batch in sent if batch.last < end], log.log_start_offset, thorough=False)


# --- read errors ------------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["preadv", "fstat", "open", "listdir"])
def test_a_read_error_after_a_power_cut_is_no_end_of_file_and_no_damage(op):
    """The call raises, and the same disk, once it can be read, gives what it would have given before."""
    workload = Workload(0).run()
    longest = max(workload.chapters, key=lambda chapter: chapter.disk.moment_count)
    refused = 0
    try:
        for number, (moment, promise, _what) in enumerate(longest.moments()):
            if number % 7:
                continue
            torn = moment.crash(("torn", "zeroed", "reordered")[number % 3], seed=number)
            nth = 0
            while True:
                nth += 1
                disk = torn.kill()
                disk.fail(op, nth)
                try:
                    open_log(workload, disk).close()
                except StorageError as error:
                    assert not isinstance(error, DamagedLogError), f"moment {number}, {op} {nth}: {error}"
                    refused += 1
                if not disk.fired():
                    break
                disk.heal()
                with open_log(workload, disk) as log:
                    kept = check_promise(log, promise._replace(clean=False))
                    check_content(log, kept, thorough=False)
    finally:
        workload.forget()
    assert refused > 30
