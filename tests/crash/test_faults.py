"""Every call that changes anything fails in turn: once, with a part written, and for good.

One workload of a log (create, append, roll, flush, delete, truncate, close, reopen) is run again and
again, each time with another call failing. Whatever happens, either the operation raised an error of
ours and the log goes on, or the log is failed and acknowledges nothing more; and a healthy process
finds everything that was acknowledged and no part of anything else. Three planted bugs show that
these checks can fail.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import subprocess
import sys

import pytest

from logstore import Log
from logstore.errors import (
    DamagedLogError,
    DiskFullError,
    LogstoreError,
    StorageError,
    StorageFailedError,
)
from logstore.log.append import append as appending
from logstore.log.formats.checkpoints import RECOVERY
from logstore.log.recovery import recovery
from logstore.testing._faults import FaultyFiles
from tests.crash.compiled_plant import needs_compiler, package_with, run_with
from tests.crash.histories import (
    PARTITION,
    History,
    expect,
    image_of,
    partition_of,
    places,
    quick_files,
    restore,
)
from tests.crash.late_rolls import patch_late_tasks
from tests.crash.planted import must_break
from tests.crash.scripted import FAULTS, SETTINGS, ScriptedWorkload, promise_before_the_sync, retry_syncs
from tests.kit.inside import segments_of

pytestmark = [pytest.mark.crash, pytest.mark.row("S20", part="failing disk")]


def calls_of_a_workload(root, op: str) -> int:
    """How many calls there are to fail."""
    files = FaultyFiles()
    workload = ScriptedWorkload(root, files)
    assert workload.run() == "done"
    workload.examine()
    return files.changes if op == "change" else files.counts()[op]


@pytest.mark.parametrize("fault", FAULTS)
def test_every_change_fails_in_turn_and_nothing_acknowledged_is_lost(ram_path, fault):
    """With a fault for good this is a kill at every system call, too: nothing reaches the disk any more."""
    op, plan = FAULTS[fault]
    count = calls_of_a_workload(ram_path / "whole", op)
    assert count > 80
    outcomes = dict.fromkeys(("done", "full", "failed", "not open"), 0)
    for nth in range(1, count + 1):
        files = FaultyFiles()
        files.fail(op, nth, **plan)
        workload = ScriptedWorkload(ram_path / f"r{nth}", files)
        try:
            ended = workload.run()
            workload.abandon()
            workload.examine()
        except (AssertionError, LogstoreError) as error:
            pytest.fail(f"{fault} at {op} {nth}, {files.fired()}: {error!r}")
        outcomes[ended] += 1
    print(f"{fault}: {count} calls, {outcomes}")
    assert outcomes["failed" if "EIO" in fault else "full" if "good" in fault else "done"] > count / 5


@pytest.mark.parametrize("op", ["preadv", "fstat", "listdir", "open", "mmap_ro"])
@pytest.mark.parametrize("state", ["killed", "torn", "closed"])
def test_a_read_error_in_recovery_is_no_end_of_file(ram_path, op, state):
    """It raises and cuts nothing, or it hit a hint and cost nothing."""
    history = History(Log.open(ram_path / "w" / PARTITION, files=quick_files(), **SETTINGS), random.Random(3))
    history.mixed(1)
    history.log.flush()
    history.mixed(1)
    image, sent = image_of(ram_path / "w"), list(history.sent)
    history.log.close()
    if state == "closed":
        image = image_of(ram_path / "w")
    if state == "torn":
        name = max(name for name in image if name.endswith(".log"))
        image[name] = image[name][:-1]
        sent.pop()
    refused, nth = 0, 0
    while True:
        nth += 1
        files = FaultyFiles()
        files.fail(op, nth)
        path = restore(image, ram_path / "r")
        try:
            with Log.open(path, files=files, **SETTINGS) as log:
                opened = bool(files.fired())
                files.heal()
                expect(log, sent, thorough=False)
        except StorageError:
            refused += 1
            kept = partition_of(image_of(ram_path / "r"))
            for name in (name for name in image if name.endswith(".log")):
                whole = [p.position + p.size for p in places(image) if p.name == name]
                # A tail that is torn may have been cut off before the error; whole batches never.
                least = max((end for end in whole if end <= len(image[name])), default=0)
                assert image[name].startswith(kept[name])
                assert len(kept[name]) >= (least if state == "torn" else len(image[name]))
            with Log.open(path, files=quick_files(), **SETTINGS) as log:
                expect(log, sent, thorough=False)
        else:
            if not opened:
                break
    assert nth > 1 or op == "mmap_ro"
    assert refused or op == "mmap_ro"


# --- a full disk ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "where", [".log", RECOVERY, ".index", ".snapshot", "logstore.published", "leader-epoch", ""]
)
def test_a_full_disk_is_no_poison_and_leaves_no_half_batch(ram_path, where):
    files = FaultyFiles()
    log = Log.open(ram_path / PARTITION, files=files, **SETTINGS)
    history = History(log, random.Random(2))
    history.mixed(1)
    for short in (-1, 0, 1, 30, 61, 100):
        files.fail("pwrite", 1, errno.ENOSPC, times=-1, path_contains=where, short=short)
        refused = 0
        for _ in range(12):
            try:
                history.append(3, producer_id=7)
            except DiskFullError as error:
                refused += 1
                assert error.retriable
                history.attempted = None
            expect(log, history.sent, thorough=False)
        # The first append to a segment may be written before its file has the name of a segment.
        assert refused >= {"": 12, ".log": 11}.get(where, 0)
        files.heal()
        history.append(3, producer_id=7)
        history.append(2, ack="synced")
        expect(log, history.sent, thorough=False)
    image = image_of(ram_path)
    log.close()
    with Log.open(restore(image, ram_path / "killed"), files=quick_files(), **SETTINGS) as log:
        expect(log, history.sent)


def refused_appends_move_nothing(path) -> None:
    files = FaultyFiles()
    with Log.open(path / PARTITION, files=files, segment_bytes=2_000) as log:
        values = []
        for number in range(8):  # so many fill segments: the append that rolls is another path
            files.fail("pwrite", 1, errno.ENOSPC, path_contains=".log")
            with contextlib.suppress(DiskFullError):
                log.append([b"refused" * 80])
                values.append(b"refused" * 80)
            files.heal()
            assert log.log_end_offset == len(values), "the end has moved without its bytes"
            values.append(b"%d" % number * 400)
            log.append([values[-1]])
            assert [record.value for record in log.scan()] == values


@pytest.mark.parametrize("is_late", [False, True])
def test_planted_an_end_that_moves_before_the_bytes_is_found(ram_path, monkeypatch, is_late):
    """Where rolls are finished right after their append, and where they are finished late."""
    if is_late:
        patch_late_tasks(monkeypatch, 1)

    def early(state, data, first, span, *rest):
        state.raise_end(data, first, first + span)
        return honest(state, data, first, span, *rest)

    honest = appending._put_locked
    refused_appends_move_nothing(ram_path / "honest")
    monkeypatch.setattr(appending, "_put_locked", early)
    must_break("the end has moved without its bytes", lambda: refused_appends_move_nothing(ram_path / "planted"))


APPEND = "log/_partition_log"
#: The line before the bytes are written, in `PartitionLog._append`.
BEFORE_THE_BYTES = "        if not runs.in_place:\n            # The headers are stamped in a copy.\n"


@needs_compiler(APPEND)
def test_planted_a_compiled_append_whose_end_moves_before_the_bytes_is_found(tmp_path, ram_path):
    moves = "        self.end.advance(offset + records)\n"
    planted = package_with(tmp_path, APPEND, BEFORE_THE_BYTES, moves + BEFORE_THE_BYTES)
    refused_appends_move_nothing(ram_path / "honest")
    must_break(
        "the end has moved without its bytes",
        lambda: run_with(planted, refused_appends_move_nothing, str(ram_path / "planted")),
    )


@needs_compiler(APPEND)
def test_a_copy_of_the_package_without_a_plant_keeps_every_promise(tmp_path, ram_path):
    honest = package_with(tmp_path, APPEND, BEFORE_THE_BYTES, "        assert records > 0\n" + BEFORE_THE_BYTES)
    run_with(honest, refused_appends_move_nothing, str(ram_path))


def test_a_short_write_is_continued(ram_path):
    files = FaultyFiles()
    files.fail("pwrite", 1, 0, times=-1, short=50)
    with Log.open(ram_path / PARTITION, files=files, **SETTINGS) as log:
        history = History(log, random.Random(2))
        history.mixed(1)
        expect(log, history.sent)
    with Log.open(ram_path / PARTITION, **SETTINGS) as log:
        expect(log, history.sent)


def test_a_cut_back_that_fails_poisons(ram_path):
    files = FaultyFiles()
    log = Log.open(ram_path / PARTITION, files=files)
    log.append([b"first"])
    files.fail("pwrite", 1, errno.ENOSPC, short=20, path_contains=".log")
    files.fail("ftruncate", 1, errno.EIO, path_contains=".log")
    with pytest.raises(StorageFailedError, match="could not be truncated"):
        log.append([b"second"])
    with pytest.raises(StorageFailedError):
        log.append([b"third"])
    log.close()
    with Log.open(ram_path / PARTITION) as log:
        assert [record.value for record in log.scan()] == [b"first"]
        assert log.append([b"second"]).first_offset == 1


CHILD = """
import json, os, resource, signal, sys
import logstore
from logstore.errors import DiskFullError
assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN
log = logstore.Log.open(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
acked, refused = [], 0
while refused < 3:
    try:
        acked.append(log.append([os.urandom(997)] * 3).first_offset)
    except DiskFullError as error:
        refused += 1
        assert error.__cause__.errno == 27
        data, at = open(error.path, "rb").read(), 0
        while at < len(data):
            at += int.from_bytes(data[at + 8 : at + 12], "big") + 12
        assert at == len(data) > 90_000, "not cut back to the last whole batch"
full = log.log_end_offset
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
acked.append(log.append([b"room"], ack="synced").first_offset)
print(json.dumps([acked, full]), flush=True)  # os._exit flushes nothing, and a pipe is buffered
os._exit(0)
"""


def test_a_file_size_limit_is_a_full_disk(ram_path):
    """RLIMIT_FSIZE: the kernel's own short write and EFBIG, then room again, then a kill."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(ram_path / PARTITION)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    acked, full = json.loads(done.stdout)
    assert acked == list(range(0, full + 1, 3))
    with Log.open(ram_path / PARTITION) as log:
        values = [record.value for record in log.scan()]
        assert len(values) == full + 1
        assert values[-1] == b"room"


# --- a failed sync ----------------------------------------------------------------------------


def fail_a_sync(root, where: str) -> None:
    """The checker: a sync fails, what it should have written is lost, a healthy process opens the log."""
    files = FaultyFiles()
    log = Log.open(root / PARTITION, files=files)
    history = History(log, random.Random(4))
    history.append(3, ack="synced")
    history.append(3, ack="synced")
    promised, safe = list(history.sent), os.path.getsize(root / PARTITION / f"{0:020d}.log")
    files.fail("fdatasync", 1, path_contains=where)
    files.record()
    try:
        history.append(3, ack="synced")
    except StorageFailedError:
        pass
    else:
        raise AssertionError("acknowledged as synced, and the sync had failed")
    for _ in range(3):
        try:
            log.append([b"more"], ack="synced")
        except StorageFailedError:
            continue
        raise AssertionError("acknowledged after a failed sync")
    log.close()
    calls = [(op, path, status) for op, path, _, _, status in files.recorded()]
    failed_at = calls.index(next(call for call in calls if call[0] == "fdatasync" and call[2] < 0))
    assert not [call for call in calls[failed_at + 1 :] if call[0] == "fdatasync"], "a failed sync was tried again"
    # The kernel has dropped what it could not write: the pages behind the last good sync.
    os.truncate(root / PARTITION / f"{0:020d}.log", safe)
    try:
        log = Log.open(root / PARTITION, files=files)
    except DamagedLogError as error:
        raise AssertionError(f"the recovery point was raised before the sync: {error}") from error
    with log:
        expect(log, promised)
        assert log.synced_end == log.log_end_offset


@pytest.mark.parametrize("where", [".log", ""])
def test_a_failed_sync_poisons_and_is_never_tried_again(ram_path, where):
    fail_a_sync(ram_path, where)


def test_what_a_failed_sync_may_have_lost_is_rewritten_before_it_is_promised(ram_path):
    """The page cache says that the pages are clean; only new pages in a new file can be trusted."""
    files = FaultyFiles()
    log = Log.open(ram_path / PARTITION, files=files, **SETTINGS)
    history = History(log, random.Random(4))
    history.mixed(1)
    log.flush()
    history.mixed(1)
    synced = log.synced_end
    files.fail("fdatasync", 1, path_contains=".log")
    with pytest.raises(StorageFailedError):
        log.flush()
    image = image_of(ram_path)
    unsynced = [s.path for s in segments_of(log) if s.next_offset > synced]
    inodes = {path: os.stat(path).st_ino for path in unsynced}
    log.close()
    assert len(inodes) >= 1
    files.record()
    with Log.open(ram_path / PARTITION, files=files, **SETTINGS) as log:
        calls = files.recorded()
        assert log.synced_end == log.log_end_offset
        expect(log, history.sent)
        for path, inode in inodes.items():
            assert os.stat(path).st_ino != inode, path
            steps = [
                next(n for n, call in enumerate(calls) if call[:2] == wanted)
                for wanted in (("pwrite", path + ".cleaned"), ("fdatasync", path + ".cleaned"), ("rename", path))
            ]
            steps.append(next(n for n, c in enumerate(calls) if c[0] == "fsync_dir" and n > steps[-1]))
            assert steps == sorted(steps)
        # The mark that asks for it goes last.
        last = max(n for n, call in enumerate(calls) if call[0] == "pwrite" and call[1].endswith(RECOVERY))
        assert last > max(n for n, call in enumerate(calls) if call[0] == "rename" and call[1].endswith(".log"))
    # A process that was killed instead of closed has left the same mark.
    with Log.open(restore(image, ram_path / "killed"), **SETTINGS) as log:
        expect(log, history.sent)
        assert log.synced_end == log.log_end_offset


def test_a_rewrite_that_fails_half_way_is_done_again(ram_path):
    files = FaultyFiles()
    log = Log.open(ram_path / "w" / PARTITION, files=files, **SETTINGS)
    history = History(log, random.Random(4))
    history.mixed(2)
    files.fail("fdatasync", 1, path_contains=".log")
    with pytest.raises(StorageFailedError):
        log.flush()
    log.close()
    image = image_of(ram_path / "w")
    nth = 0
    while True:
        nth += 1
        files = FaultyFiles()
        files.fail("change", nth, times=-1)
        path = restore(image, ram_path / "r")
        try:
            Log.open(path, files=files, **SETTINGS).close()
        except StorageError:
            pass
        if not files.fired():
            break
        with Log.open(path, files=quick_files(), **SETTINGS) as log:
            expect(log, history.sent, thorough=False)
            assert log.synced_end == log.log_end_offset
    assert nth > 10


def test_a_sync_that_fails_when_a_descriptor_is_evicted_is_not_forgotten(ram_path):
    """A failed write-back is reported to open descriptors only, so the error sticks to the file."""
    files = FaultyFiles(descriptor_limit=2)
    first = Log.open(ram_path / "a-0", files=files)
    files.fail("fdatasync", 1, path_contains="a-0/0000")
    first.append([b"v"])
    others = [Log.open(ram_path / f"b-{n}", files=files) for n in range(3)]
    for other in others:
        other.append([b"v"])
    assert files.fired()
    with pytest.raises(StorageFailedError):
        first.flush()
    for log in (first, *others):
        log.close()


# --- planted bugs -----------------------------------------------------------------------------


def test_planted_a_recovery_that_trusts_the_tail_is_found(ram_path, monkeypatch):
    history = History(Log.open(ram_path / "w" / PARTITION, files=quick_files()), random.Random(6))
    for _ in range(4):
        history.append(3)
    image = image_of(ram_path / "w")
    history.log.close()
    name = next(name for name in image if name.endswith(".log"))
    data = bytearray(image[name])
    data[-1] ^= 1

    def check():
        with Log.open(restore({**image, name: bytes(data)}, ram_path / "r"), files=quick_files()) as log:
            expect(log, history.sent[:-1])

    check()

    def trusting(segments, point, config, kind):
        extent = segments.active.scan(adopt=True, check=False)
        return 0, 0, [(segments.active, extent)]

    monkeypatch.setattr(recovery, "_check_tail", trusting)
    must_break("sent up to .*, but the log ends at", check)


def test_planted_a_sync_that_is_tried_again_is_found(ram_path, monkeypatch):
    retry_syncs(monkeypatch)
    with pytest.raises(AssertionError, match="the sync had failed"):
        fail_a_sync(ram_path, ".log")


def test_planted_a_recovery_point_before_its_sync_is_found(ram_path, monkeypatch):
    promise_before_the_sync(monkeypatch)
    with pytest.raises(AssertionError, match="before the sync"):
        fail_a_sync(ram_path, ".log")
