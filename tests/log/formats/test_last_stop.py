"""How a log was stopped is named, and a loss is never called a stop without one."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys

import pytest

from logstore import Log
from logstore.errors import DiskFullError, LogClosedError, StorageError
from logstore.io._files import LIBC
from logstore.log import FixedPolicy, Moves, Stop
from logstore.log.directory.files import Directory
from logstore.log.formats import checkpoints, last_stop
from logstore.log.formats.last_stop import RUN_BYTES, Run, decode_run, file_system, mounted_at
from logstore.testing import FaultyFiles, ManualClock, SimDisk
from logstore.testing.simdisk import POLICIES
from tests.log.logs import NOW_MS, crashed_copy, open_log

PATH = "/data/t-0"


def open_on(disk: SimDisk, **settings) -> Log:
    return Log.open(PATH, files=disk, clock=ManualClock(NOW_MS), **settings)


def replica_on(disk: SimDisk, **settings) -> Log:
    return open_on(disk, policy=FixedPolicy(Moves.WITH_END), **settings)


def stop_of(log: Log) -> Stop:
    return log.replica.last_stop.stop


def written(disk: SimDisk, **settings) -> Log:
    log = replica_on(disk, **settings)
    log.append([b"a", b"b"])
    return log


def test_a_new_log_has_no_stop_and_a_closed_one_is_clean(tmp_path):
    with open_log(tmp_path) as log:
        assert stop_of(log) is Stop.NEW
        log.append([b"a"])
    with open_log(tmp_path) as log:
        assert log.replica.last_stop == (Stop.CLEAN, "the log was closed")
        log.append([b"b"])


def test_a_killed_process_on_a_machine_that_stays_up(tmp_path):
    if last_stop.file_system(str(tmp_path)) not in last_stop._LOCAL:
        pytest.skip(f"the test directory is on a {file_system(str(tmp_path))}; give --basetemp= on a local disk")
    code = (
        "import os, signal, sys\n"
        "from logstore import Log\n"
        "log = Log.open(sys.argv[1])\n"
        "log.append([b'x'])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = str(tmp_path / "t-0")
    for count in range(1, 3):
        assert subprocess.run([sys.executable, "-c", code, path], check=False).returncode == -signal.SIGKILL
        with Log.open(path) as log:
            assert log.replica.last_stop == (Stop.PROCESS_DIED, "the process died, the machine stayed up")
            assert log.log_end_offset == count


def test_the_same_on_a_simulated_machine():
    disk = SimDisk()
    log = written(disk)
    killed = disk.kill()
    again = replica_on(killed)
    assert (stop_of(again), again.log_end_offset) == (Stop.PROCESS_DIED, 2)
    # Once more before a write, and after one.
    assert stop_of(replica_on(killed.kill())) is Stop.PROCESS_DIED
    again.append([b"c"])
    assert stop_of(replica_on(killed.kill())) is Stop.PROCESS_DIED
    for one in (again, log):
        one.close()


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_no_power_cut_is_taken_for_a_death_of_the_process(policy):
    disk = SimDisk(7)
    disk.keep_moments()
    log = replica_on(disk, segment_bytes=200)
    for number in range(6):
        log.append([b"%d" % number])
        if number == 3:
            log.flush()
    end = log.log_end_offset
    log.close()
    replica_on(disk).close()
    seen = set()
    for moment in disk.moments():
        after = moment.crash(policy)
        again = replica_on(after)
        first, before = stop_of(again), again.log_end_offset
        seen.add(first)
        assert first is not Stop.PROCESS_DIED
        assert before == end or first is not Stop.CLEAN
        # It dies, or is closed, before it has told anyone: an unclean stop is still one.
        killed = after.kill()
        again.close()
        for later in (killed, after):
            with replica_on(later) as once_more:
                assert once_more.log_end_offset == before
                assert (stop_of(once_more) is Stop.UNCLEAN) == (first is Stop.UNCLEAN)
    assert seen >= {Stop.NEW, Stop.UNCLEAN}


def test_an_unclean_stop_is_reported_until_it_is_accepted():
    disk = SimDisk()
    written(disk)
    after = disk.crash("all")
    log = replica_on(after)
    assert log.replica.last_stop == (Stop.UNCLEAN, "the machine has restarted since")
    log.close()
    log = replica_on(after)
    assert stop_of(log) is Stop.UNCLEAN
    assert "was not accepted (LogReplica.accept_stop)" in log.replica.last_stop.reason
    # Also over a power cut, since the close has synced it.
    log.close()
    later = after.crash("none")
    log = replica_on(later)
    assert "was not accepted" in log.replica.last_stop.reason
    log.append([b"what was missing"])
    log.flush()
    log.replica.accept_stop()
    assert stop_of(replica_on(later.kill())) is Stop.PROCESS_DIED
    log.close()
    assert stop_of(replica_on(later)) is Stop.CLEAN
    with pytest.raises(LogClosedError):
        log.replica.accept_stop()


def test_a_log_without_a_layer_above_accepts_by_itself():
    disk = SimDisk()
    written(disk)
    after = disk.crash("all")
    log = open_on(after)
    assert stop_of(log) is Stop.UNCLEAN
    log.append([b"x"])
    assert stop_of(open_on(after.kill())) is Stop.PROCESS_DIED
    log.close()
    assert stop_of(open_on(after)) is Stop.CLEAN


def test_a_memory_tail_dies_with_its_process():
    disk = SimDisk()
    written(disk, tail="memory", segment_bytes=1000).flush()
    killed = disk.kill()
    # What counts is the setting of the process that died.
    with replica_on(killed) as log:
        assert stop_of(log) is Stop.UNCLEAN
        assert "logstore.tail=memory" in log.replica.last_stop.reason


def test_a_failed_sync_is_an_unclean_stop():
    disk = SimDisk()
    log = written(disk)
    disk.fail("fdatasync", path_contains=".log")
    with pytest.raises(StorageError):
        log.flush()
    found = replica_on(disk.kill()).replica.last_stop
    assert found == (Stop.UNCLEAN, "a write or a sync had failed")


def test_a_copy_is_not_the_log(tmp_path):
    log = open_log(tmp_path / "0")
    log.append([b"a"])
    copy = crashed_copy(log, tmp_path / "1")
    with open_log(copy) as other:
        assert other.replica.last_stop == (Stop.UNCLEAN, "the directory is a copy")
    # A copy in its place, whose file may get the inode of the one that is gone.
    log.append([b"b"])
    root = crashed_copy(log, tmp_path / "2")
    log.close()
    shutil.rmtree(tmp_path / "0")
    shutil.copytree(root, tmp_path / "0")
    with open_log(tmp_path / "0") as other:
        assert stop_of(other) is Stop.UNCLEAN


def test_a_file_from_yesterday_is_an_unclean_stop(tmp_path):
    log = open_log(tmp_path)
    log.append([b"a"])
    segment = tmp_path / "t-0" / f"{0:020}.log"
    yesterday = segment.read_bytes()
    log.append([b"b"])
    root = tmp_path / "killed"
    shutil.copytree(tmp_path / "t-0", root / "t-0")
    # As if the bytes of each file had been written over: then only their end tells.
    with LIBC.open(str(root / "t-0" / checkpoints.RECOVERY), writable=True) as record:
        inode, born_ns = record.identity()
        run = decode_run(record.read(0, checkpoints.RECOVERY_BYTES))
        record.write(run._replace(inode=inode, born_ns=born_ns).encode(), checkpoints.RUN_POSITION)
    (root / "t-0" / segment.name).write_bytes(yesterday)
    log.close()
    with open_log(root) as other:
        found = other.replica.last_stop
    assert found == (Stop.UNCLEAN, "the log ends at offset 1, but was written up to 2")


@pytest.mark.parametrize("damage", ["flipped", "zeroed", "emptied"])
def test_a_damaged_record_is_an_unclean_stop(damage):
    for bit in range(8 * RUN_BYTES) if damage == "flipped" else [0]:
        disk = SimDisk()
        written(disk)
        killed = disk.kill()
        path = f"{PATH}/{checkpoints.RECOVERY}"
        if damage == "flipped":
            killed.flip(path, 8 * checkpoints.RUN_POSITION + bit)
        else:
            with killed.open(path, writable=True) as file:
                if damage == "zeroed":
                    file.write(bytes(RUN_BYTES), checkpoints.RUN_POSITION)
                else:
                    file.truncate(0)
        with replica_on(killed) as log:
            assert stop_of(log) is Stop.UNCLEAN
            assert "nothing says in which run" in log.replica.last_stop.reason


def test_without_a_boot_id_nothing_is_known(monkeypatch):
    class Unknown(SimDisk):
        def boot(self) -> bytes:
            return b""

    disk = Unknown()
    log = written(disk)
    log.close()
    with replica_on(disk) as log:
        assert stop_of(log) is Stop.CLEAN
    found = last_stop.judge(
        last_stop.StopEvidence(False, False, False, 1, Run(b"", 1, 1, False)),
        Run(b"", 1, 1, False),
        Directory(PATH, disk),
    )
    assert found.stop is Stop.UNCLEAN
    assert "no id of its run" in found.reason


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EMFILE], ids=errno.errorcode.get)
def test_each_call_that_fails_hides_no_loss(error):
    disk = SimDisk()
    written(disk)
    after = disk.crash("all")
    counted = after.kill()
    before = counted.operations
    replica_on(counted).close()
    for number in range(1, counted.operations - before + 1):
        faulty = after.kill()
        faulty.fail("change", number, error)
        try:
            replica_on(faulty).close()
        except (StorageError, DiskFullError):
            pass
        faulty.heal()
        with replica_on(faulty.kill()) as log:
            assert stop_of(log) is Stop.UNCLEAN, number


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=errno.errorcode.get)
def test_a_stop_that_cannot_be_accepted_is_still_reported(tmp_path, error):
    files = FaultyFiles()
    with Log.open(tmp_path / "0" / "t-0", policy=FixedPolicy(Moves.WITH_END)) as log:
        log.append([b"a"])
        copy = crashed_copy(log, tmp_path / "1")
    log = Log.open(copy / "t-0", policy=FixedPolicy(Moves.WITH_END), files=files)
    assert stop_of(log) is Stop.UNCLEAN
    files.fail("pwrite", errno=error, path_contains=checkpoints.RECOVERY)
    with pytest.raises(StorageError):
        log.replica.accept_stop()
    files.heal()
    log.close()
    with Log.open(copy / "t-0", policy=FixedPolicy(Moves.WITH_END)) as log:
        assert stop_of(log) is Stop.UNCLEAN


def test_the_record_is_read_as_it_was_written():
    run = Run(os.urandom(16), 2**63 + 5, 3, True, True)
    data = bytes(checkpoints.RUN_POSITION) + run.encode()
    assert decode_run(data + b"more") == run
    assert decode_run(data[:-1]) is None
    assert decode_run(b"") is None
    assert len(run.encode()) == RUN_BYTES


MOUNTS = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:26 / /srv rw shared:2 - tmpfs tmpfs rw
31 30 0:40 / /srv/far\040away rw - nfs4 host:/export rw
32 30 8:2 / /srv rw - xfs /dev/sdb1 rw
33 22 0:41 / /srvother rw master:3 propagate_from:2 - fuse.sshfs host: rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/home/x", "ext4"),
        ("/srv", "xfs"),
        ("/srv/logs", "xfs"),
        ("/srv/far away/logs", "nfs4"),
        ("/srvother/logs", "fuse.sshfs"),
    ],
)
def test_the_mount_table_names_the_file_system(path, kind):
    assert mounted_at(path, MOUNTS.splitlines(keepends=True)) == kind


def test_another_machines_file_system_is_not_trusted(tmp_path, monkeypatch):
    with open_log(tmp_path) as log:
        directory = log._state.directory
        run = log._state.durability._run_now()
    found = last_stop.StopEvidence(False, False, False, 1, run)
    monkeypatch.setattr(last_stop, "file_system", lambda path: "nfs4")
    assert last_stop.judge(found, run, directory) == (
        Stop.UNCLEAN,
        "other machines may write to the file system (nfs4)",
    )
    monkeypatch.setattr(last_stop, "file_system", lambda path: "")
    assert "(unknown)" in last_stop.judge(found, run, directory).reason
