"""Names in a log's directory, and the lock of its root."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap

import pytest

from logstore import Log
from logstore.clock import SYSTEM_CLOCK
from logstore.errors import DirectoryLockedError, ForkedError, NotALogError, StorageError
from logstore.log import files
from logstore.log.files import Directory, RootLock
from tests.log.logs import open_log, tree


def test_names_of_segments_sort_as_their_offsets():
    offsets = [0, 9, 10, 2_600, 2**31, 2**63 - 1]
    names = [files.segment_file(offset, files.LOG) for offset in offsets]
    assert names == sorted(names)
    assert {len(name) for name in names} == {24}
    random.Random(1).shuffle(names)
    assert files.base_offsets(names) == offsets


def test_base_offsets_are_those_of_whole_names_only():
    names = [
        "00000000000000000007.log",
        "00000000000000000008.log.deleted",
        "0000000000000000009.log",
        "x00000000000000000010.log",
        "00000000000000000011.index",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠١.log",
    ]
    assert files.base_offsets(names) == [7]
    assert files.base_offsets(names, files.OFFSET_INDEX) == [11]


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000000.log",
        "00000000000000000000.txnindex",
        "00000000000000000000.snapshot.deleted",
        "00000000000000000000.log.cleaned",
        "00000000000000000000.index.swap",
        "leader-epoch-checkpoint",
        "leader-epoch-checkpoint.tmp",
        "partition.metadata",
        "logstore.recovery",
        "logstore.anything",
        ".staging",
    ],
)
def test_names_of_kafka_and_of_ours_are_not_foreign(name):
    assert files.foreign_names([name]) == []


@pytest.mark.parametrize(
    "name",
    ["notes.txt", "0.log", "00000000000000000000.txt", "00000000000000000000.log.bak", ".hidden", "log", "t-1"],
)
def test_other_names_are_foreign(name):
    assert files.foreign_names(["logstore.recovery", name]) == [name]


@pytest.mark.parametrize("name", ["a-0", "a-b-12", "A.b_c-0", "x" * 249 + "-0", "t-2147483647", "--0"])
def test_names_of_partitions(name):
    topic, _, partition = name.rpartition("-")
    assert files.parse_partition(f"/root/{name}") == (topic, int(partition))


@pytest.mark.parametrize(
    "name",
    ["a", "a-", "-1", "a-b", "a-1.5", "a-01x", "x" * 250 + "-0", "t-2147483648", "ü-0", ".-0", "..-0", "a-٣"],
)
def test_other_names_are_no_partitions(name):
    with pytest.raises(NotALogError):
        files.parse_partition(f"/root/{name}")


def test_replacing_a_file_leaves_no_temporary_and_the_old_bytes_to_who_has_them_open(tmp_path):
    directory = Directory(tmp_path)
    directory.replace("logstore.x", b"old", durable=True)
    held = directory.open("logstore.x")
    directory.replace("logstore.x", b"new", durable=False)
    assert directory.names() == ["logstore.x"]
    assert directory.read("logstore.x") == b"new"
    assert held.read(0, 10) == b"old"
    held.close()
    assert directory.read("logstore.y") is None
    assert directory.remove("logstore.x")
    assert not directory.remove("logstore.x")
    assert not Directory(tmp_path / "none").exists()


def test_what_a_crash_leaves_half_made_is_removed_at_the_next_open(tmp_path):
    with open_log(tmp_path) as log:
        log.append([b"a"])
    whole = set(tree(tmp_path / "t-0"))
    for name in (
        "00000000000000000009.log.deleted",
        "00000000000000000000.log.cleaned",
        "leader-epoch-checkpoint.tmp",
        "logstore.producers.tmp",
    ):
        (tmp_path / "t-0" / name).write_bytes(b"half")
    with open_log(tmp_path) as log:
        assert [record.value for record in log] == [b"a"]
    assert set(tree(tmp_path / "t-0")) == whole


# --- the lock ---------------------------------------------------------------------------------------


def test_logs_of_one_root_share_its_lock(tmp_path):
    root = Directory(tmp_path)
    first = RootLock.acquire(root, "a-0", SYSTEM_CLOCK)
    second = RootLock.acquire(root, "b-0", SYSTEM_CLOCK)
    assert first is second
    with pytest.raises(DirectoryLockedError):
        RootLock.acquire(root, "a-0", SYSTEM_CLOCK)
    assert not first.release("a-0")
    RootLock.acquire(root, "a-0", SYSTEM_CLOCK)
    assert not second.release("b-0")
    assert first.release("a-0")
    assert RootLock.acquire(root, "a-0", SYSTEM_CLOCK).release("a-0")


def test_the_lock_file_says_who_holds_it(tmp_path):
    with open_log(tmp_path):
        text = (tmp_path / ".lock").read_text()
        assert text.startswith(f"pid={os.getpid()} host=")
        assert "started_ms=" in text


CHILD = """
    import sys
    from logstore import Log
    from logstore.errors import DirectoryLockedError
    try:
        Log.open(sys.argv[1]).close()
    except DirectoryLockedError as error:
        print(error)
    else:
        print("opened")
"""


def open_in_child(path):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD), str(path)], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_another_process_is_told_whose_the_root_is(tmp_path):
    with open_log(tmp_path) as first, Log.open(tmp_path / "u-0") as second:
        assert f"locked by pid {os.getpid()}" in open_in_child(tmp_path / "t-0")
        first.close()
        # The lock is the root's: it stays while any log below is open.
        assert f"locked by pid {os.getpid()}" in open_in_child(tmp_path / "t-0")
        second.close()
        assert open_in_child(tmp_path / "t-0") == "opened\n"


def test_a_reader_takes_no_lock_and_breaks_none(tmp_path):
    with open_log(tmp_path) as log:
        log.append([b"a"])
        # Closing any descriptor of a file gives up a process's fcntl locks on it: readers must not open it.
        with open_log(tmp_path, read_only=True) as reader:
            assert len(list(reader)) == 1
        with pytest.raises(DirectoryLockedError):
            open_log(tmp_path)
        assert "locked by pid" in open_in_child(tmp_path / "t-0")


def test_a_forked_child_is_refused_and_harms_nothing(tmp_path):
    """In a process of its own, since a fork beside threads of other tests is not safe."""
    script = """
        import os, sys
        from logstore import Log
        from logstore.errors import DirectoryLockedError, ForkedError
        log = Log.open(sys.argv[1])
        log.append([b"parent"])
        reader = Log.open(sys.argv[1], read_only=True)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                for use in (
                    lambda: log.append([b"child"]), lambda: log.read(0), log.flush, log.roll, log.appender,
                    lambda: log.truncate_to(0), lambda: log.delete_before(1), lambda: list(log),
                    lambda: reader.read(0), lambda: list(reader),
                ):
                    try:
                        use()
                    except ForkedError as error:
                        assert "child" in str(error), error
                    else:
                        raise AssertionError("a forked log was used")
                log.close()
                reader.close()
                with Log.open(sys.argv[1], read_only=True) as mine:
                    assert [record.value for record in mine] == [b"parent"]
                try:
                    Log.open(sys.argv[1])
                except DirectoryLockedError as error:
                    assert str(os.getppid()) in str(error), error
                else:
                    raise AssertionError("two writers")
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        log.append([b"still here"])
        log.close()
        with Log.open(sys.argv[1]) as log:
            assert log.was_clean
            assert [record.value for record in log] == [b"parent", b"still here"]
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "t-0")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert issubclass(ForkedError, RuntimeError)


def test_a_killed_owner_leaves_no_lock(tmp_path):
    script = """
        import os, signal, sys
        from logstore import Log
        log = Log.open(sys.argv[1])
        log.append([b"a"])
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "t-0")], check=False)
    assert done.returncode == -9
    with open_log(tmp_path) as log:
        assert [record.value for record in log] == [b"a"]
        assert not log.was_clean


def test_a_missing_directory_is_a_storage_error_that_names_it(tmp_path):
    with pytest.raises(StorageError, match="No such file") as caught:
        Directory(tmp_path / "none").names()
    assert isinstance(caught.value.__cause__, FileNotFoundError)
