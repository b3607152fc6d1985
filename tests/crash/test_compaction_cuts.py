"""The power is cut after every operation of a compaction and of retention; every call of them fails in turn.

Whatever is left opens, no key is lost, none comes back, and the next compaction goes on. The bugs that the
order of a swap rules out are planted and found.
"""

from __future__ import annotations

import errno
import os
import random

import pytest

from logstore import Log
from logstore.errors import StorageError, StorageFailedError
from logstore.log.compaction import compaction, segment_swap
from logstore.log.formats import checkpoints
from logstore.log.formats.cleaned import Cleaned
from logstore.log.rolling import worker
from logstore.testing import ManualClock, SimDisk
from tests.crash.keyed_workload import KeyedWorkload, Vow, check_vow, cut_all, open_log
from tests.crash.planted import must_break
from tests.crash.power_cuts import Examined
from tests.kit.inside import failure_of
from tests.kit.rolling import LateTasks
from tests.log.keyed import DELETE_RETENTION_MS, SETTINGS, Keyed, check

pytestmark = [pytest.mark.crash, pytest.mark.row("R3"), pytest.mark.row("S20", part="power cuts")]

STATES = int(os.environ.get("LOGSTORE_STATES", "10000")) // 5
STATES_EACH = 500


@pytest.mark.parametrize("seed", range(-(-STATES // STATES_EACH)))
def test_every_power_cut_leaves_every_key_with_its_newest_record(seed, monkeypatch):
    if seed % 2:
        late = LateTasks(seed)
        monkeypatch.setattr(worker, "worker_of", lambda files: late)
    examined, workloads = Examined(), 0
    while len(examined.states) < STATES_EACH:
        workload = KeyedWorkload(seed + 1_000 * workloads).run()
        share = 1.5 * (STATES_EACH - len(examined.states)) / max(workload.disk.moment_count * 4, 1)
        try:
            cut_all(workload, examined, share=share, most=STATES_EACH)
        finally:
            workload.log.close()
        workloads += 1
    print(f"seed {seed}: {len(examined.states)} distinct states, {examined.cuts} power cuts, {workloads} workloads")
    assert len(examined.states) >= STATES_EACH


# --- every call fails in turn -------------------------------------------------------------------

FAULTS = {
    "EIO": ("change", {"errno": errno.EIO}),
    "EIO for good": ("change", {"errno": errno.EIO, "times": -1}),
    "ENOSPC": ("change", {"errno": errno.ENOSPC}),
    "ENOSPC for good": ("change", {"errno": errno.ENOSPC, "times": -1}),
    "short, then ENOSPC": ("pwrite", {"errno": errno.ENOSPC, "short": 7}),
    "a read": ("preadv", {"errno": errno.EIO}),
}


def prepared(seed: int) -> tuple[SimDisk, KeyedWorkload]:
    """A workload up to where it is to be compacted and retained, all of it synced."""
    workload = KeyedWorkload(seed, steps=0)
    for _ in range(40):
        workload.history.step()
    workload.history.settle()
    workload.log.maintenance.roll()
    workload.log.flush()
    return workload.disk, workload


@pytest.mark.parametrize("fault", list(FAULTS))
@pytest.mark.parametrize("seed", [0, 1])
def test_every_call_of_a_compaction_fails_in_turn_and_no_key_is_lost(seed, fault):
    """The log goes on, or has failed and takes no more; reopened, it holds every key."""
    op, how = FAULTS[fault]
    nth, seen = 0, {"done": 0, "went on": 0, "failed": 0}
    while True:
        nth += 1
        disk, workload = prepared(seed)
        history, log = workload.history, workload.log
        history.compact()
        workload.clock.advance(DELETE_RETENTION_MS)
        for _ in range(12):
            history.append(2, ack="synced")
        log.maintenance.roll()
        log.flush()
        disk.fail(op, nth, **how)
        history.runs.append(workload.clock.now_ms())
        try:
            log.maintenance.compact()
            ended = "done"
        except StorageFailedError:
            ended = "failed"
        except StorageError:
            ended = "went on"
        fired = disk.fired()
        disk.heal()
        seen[ended] += 1
        if failure_of(log) is not None:
            with pytest.raises(StorageFailedError):
                log.append([(b"k", b"v")])
            with pytest.raises(StorageFailedError):
                log.maintenance.compact()
        else:
            assert not [name for name in disk.listdir(workload.path) if name.endswith(".swap")]
            history.append(1, ack="synced")
            log.maintenance.roll()
            history.compact()
            check(log, history.parts, history.runs, thorough=False)
            assert not [name for name in disk.listdir(workload.path) if name.endswith((".swap", ".cleaned"))]
        promised = Vow(tuple(history.parts), tuple(history.runs), history.parts[-1].last + 1)
        check_vow(log, promised)
        for left in (disk.kill(), disk.crash("none"), disk.crash("reordered", seed=nth)):
            with open_log(workload, left) as again:
                check_vow(again, promised)
                again.append([(b"k", b"v")], ack="synced")
                again.maintenance.roll()
                again.maintenance.compact()
        log.close()
        if not fired:
            break
    print(fault, nth, seen)
    assert nth > 8
    assert seen["went on"] > 3
    assert seen["done"] < nth


# --- the order of a swap -------------------------------------------------------------------


def operations_of_a_swap() -> list[tuple[str, str]]:
    disk, workload = prepared(2)
    disk.record()
    workload.log.maintenance.compact()
    calls = [(op, os.path.basename(path)) for op, path, *_ in disk.recorded()]
    workload.log.close()
    return calls


def test_what_takes_the_place_is_synced_named_and_durable_before_anything_goes():
    calls = operations_of_a_swap()
    # A rename is recorded by its new name.
    swap = next(n for n, (op, name) in enumerate(calls) if op == "rename" and name.endswith(".log.swap"))
    base = calls[swap][1][:20]
    assert ("fdatasync", f"{base}.log.cleaned") in calls[:swap]
    gone = next(n for n, (op, name) in enumerate(calls) if op == "rename" and name == f"{base}.log.deleted")
    assert ("fsync_dir", "t-0") in calls[swap:gone]
    placed = calls.index(("rename", f"{base}.log"))
    assert ("fsync_dir", "t-0") in calls[gone:placed]
    listed = [name for op, name in calls[:swap] if op == "rename" and not name.startswith("logstore.")]
    assert all(name[:20] == base for name in listed)
    assert not [name for op, name in calls[:gone] if op == "unlink" and name.endswith(".log")]


# --- planted ------------------------------------------------------------------------------------


def find(broken: str, seeds=range(6)) -> None:
    """Cut the power in workloads, one after the other, until a promise is broken: the one that reads ``broken``."""

    def search() -> None:
        for seed in seeds:
            workload = KeyedWorkload(seed).run()
            try:
                cut_all(workload, Examined(), share=0.2)
            finally:
                workload.log.close()

    must_break(broken, search)


def test_without_a_bug_nothing_is_found():
    with pytest.raises(pytest.fail.Exception, match="not found"):
        find("", seeds=range(1))


def test_planted_no_sync_of_the_new_segment_is_found(monkeypatch):
    honest = segment_swap._finish_aside

    def hasty(state, new, listed):
        with monkeypatch.context() as patch:
            patch.setattr(segment_swap, "_sync", lambda file: None)
            honest(state, new, listed)

    monkeypatch.setattr(segment_swap, "_finish_aside", hasty)
    find("DamagedLogError.*offsets .* are missing")


def test_planted_a_removal_of_the_old_before_the_new_counts_is_found(monkeypatch):
    honest = segment_swap._name_swap

    def hasty(state, base):
        gone = [s for s in state.segments.all[:-1] if s.base_offset == base]
        for name in segment_swap._take_away(state, gone):
            state.directory.remove(name)
        state.directory.sync()
        honest(state, base)

    monkeypatch.setattr(segment_swap, "_name_swap", hasty)
    find("DamagedLogError.*but its first segment at")


def test_planted_old_segments_that_stay_are_found(monkeypatch):
    monkeypatch.setattr(segment_swap, "_take_away", lambda state, old: [])
    find("base offset .* does not rise over the batch before it")


def test_planted_a_compaction_of_what_is_not_synced_is_found(monkeypatch):
    """The newer record is lost with the power, the older one was taken for replaced."""

    def hasty(self, sync_to):
        self._generation = self._state.segments.generation

    monkeypatch.setattr(compaction._Run, "_promise", hasty)
    monkeypatch.setattr(worker, "worker_of", lambda files: LateTasks(0))
    find("the newest record of its key is gone|the table of keys differs", seeds=range(8))


def test_planted_a_compaction_below_a_marker_that_is_not_synced_is_found(monkeypatch):
    """The marker is lost with the power: what replaced an older record is undecided, and hidden, again."""
    honest = compaction._Run._promise

    def hasty(self, sync_to):
        sealed = self._state.segments.active.base_offset
        honest(self, lambda offset: sync_to(min(offset, sealed)))

    monkeypatch.setattr(compaction._Run, "_promise", hasty)
    find("the table of keys differs", seeds=[3])


def test_planted_tombstones_that_go_at_once_are_found(monkeypatch):
    honest = compaction.Filter

    def hasty(keys, **options):
        return honest(keys, **{**options, "delete_retention_ms": 0})

    monkeypatch.setattr(compaction, "Filter", hasty)
    find("a tombstone went too early")


def test_planted_a_record_of_what_was_dropped_that_comes_too_late_is_found(monkeypatch):
    honest = compaction._Run._clean

    def late(self, *passed):
        offsets = []
        with monkeypatch.context() as patch:
            patch.setattr(self, "_record_dropped", offsets.append)
            honest(self, *passed)
        for offset in offsets:
            self._record_dropped(offset)

    monkeypatch.setattr(compaction._Run, "_clean", late)
    find("a tombstone went, and only those below", seeds=range(12))


def test_planted_a_record_of_what_was_dropped_that_is_not_synced_is_found(monkeypatch):
    def hasty(self, end):
        self._directory.replace(checkpoints.DROPPED, checkpoints.encode_dropped(end), durable=False)
        self.dropped_end, self._is_dropped_stored = end, True

    def without_the_number(self, names, cleaned, end):
        honest(self, names, None, end)  # else what was compacted takes its place

    honest = Cleaned._find_dropped
    monkeypatch.setattr(Cleaned, "_store_dropped", hasty)
    monkeypatch.setattr(Cleaned, "_find_dropped", without_the_number)
    find("a tombstone went, and only those below", seeds=range(12))


def test_planted_an_offset_that_says_too_much_is_found(monkeypatch):
    """What is not compacted counts as compacted: a tombstone goes, and a value before it is still there."""

    def knows_all(self, first, end):
        keys = compaction.KeyMap(48, bytes(16))
        keys.pass_over(end - 1)
        return keys

    monkeypatch.setattr(compaction._Run, "_map", knows_all)
    find("the table of keys differs")


def test_planted_a_truncation_that_leaves_the_compacted_offset_is_found(monkeypatch):
    disk, clock = SimDisk(3), ManualClock()
    log = Log.open("/cut/t-0", files=disk, clock=clock, **SETTINGS)
    history = Keyed(log, clock, random.Random(1), keys=4)

    def cut_and_compact() -> None:
        for _ in range(30):
            history.append(2)
        log.maintenance.roll()
        history.compact()
        log.replica.truncate_to(20)
        history.parts = [part for part in history.parts if part.last < 20]
        for _ in range(3):
            for _ in range(10):
                history.append(2)
            log.maintenance.roll()
            history.compact()
            clock.advance(DELETE_RETENTION_MS)
            check(log, history.parts, history.runs)

    cut_and_compact()
    monkeypatch.setattr(Cleaned, "note", keep_the_highest)
    must_break("an older record of a key is left", cut_and_compact)
    log.close()


def keep_the_highest(self, offset, *, durable=False):
    self.first_dirty_offset = max(self.first_dirty_offset, offset)
