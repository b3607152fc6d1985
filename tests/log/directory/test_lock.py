"""The lock of a root: one process at a time; its holder is named, and a brief holder is waited for."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import threading

import pytest

from logstore import Log
from logstore.clock import SYSTEM_CLOCK
from logstore.errors import DirectoryLockedError, ForkedError
from logstore.log.directory.files import Directory
from logstore.log.directory.lock import BRIEFLY_S, RootLock
from logstore.testing import ManualClock
from tests.log.logs import open_log


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


def test_the_lock_file_names_its_holder(tmp_path):
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
                    lambda: log.append([b"child"]), lambda: log.read(0), log.flush, log.appender,
                    log.maintenance.roll,
                    lambda: log.replica.truncate_to(0), lambda: log.delete_before(1), lambda: list(log),
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
            assert log.maintenance.was_clean
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
        assert not log.maintenance.was_clean


# --- for a moment -----------------------------------------------------------------------------------

HOLDER = """
    import sys
    from logstore.clock import SYSTEM_CLOCK
    from logstore.log.directory.files import Directory
    from logstore.log.directory.lock import RootLock
    lock = RootLock.acquire(Directory(sys.argv[1]), "held-0", SYSTEM_CLOCK, brief=sys.argv[2] == "briefly")
    print("held", flush=True)
    sys.stdin.readline()
    lock.release("held-0")
    print("released", flush=True)
    sys.stdin.readline()
"""


@contextlib.contextmanager
def holder(root, how):
    """A process that has the lock until it reads a line."""
    words = [sys.executable, "-c", textwrap.dedent(HOLDER), str(root), how]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_brief_holder_of_a_root_is_waited_for(tmp_path):
    opened = []
    with holder(tmp_path, "briefly") as process:
        opening = threading.Thread(target=lambda: opened.append(Log.open(tmp_path / "t-0")))
        opening.start()
        opening.join(0.3)
        assert opening.is_alive()
        process.stdin.write("\n")
        process.stdin.flush()
        opening.join(300)
    (log,) = opened
    log.close()


def seconds_until_refused(root, **how):
    clock = ManualClock()
    with pytest.raises(DirectoryLockedError, match="locked by pid"):
        RootLock.acquire(Directory(root), "t-0", clock, **how)
    return clock.monotonic_s()


def test_a_moment_is_ten_seconds_at_most_and_for_no_caller_with_other_work(tmp_path):
    with holder(tmp_path, "briefly"):
        assert BRIEFLY_S <= seconds_until_refused(tmp_path) < BRIEFLY_S + 1
        assert seconds_until_refused(tmp_path, brief=True, patient=False) == 0


def test_anybody_else_is_not_waited_for(tmp_path):
    with holder(tmp_path, "for long"):
        assert seconds_until_refused(tmp_path) == 0


@pytest.mark.parametrize("text", ["", f"pid={os.getpid()} host=here started_ms=1\n"], ids=["first", "later"])
def test_an_owner_that_has_not_yet_written_its_identity_gets_a_moment_to(tmp_path, text):
    # Kafka never writes it: a process that meets Kafka waits in vain.
    with holder(tmp_path, "for long"):
        (tmp_path / ".lock").write_text(text)
        assert 1 <= seconds_until_refused(tmp_path) < 2


def test_the_first_brief_holder_of_a_root_is_waited_for_before_it_has_written_its_identity(tmp_path):
    with holder(tmp_path, "briefly") as process:
        said = (tmp_path / ".lock").read_bytes()
        (tmp_path / ".lock").write_bytes(b"")

        class Said(ManualClock):
            """A clock by whose first wait the holder has written its identity, and by whose tenth it is gone."""

            waits = 0

            def wait(self, condition, seconds):
                self.waits += 1
                if self.waits == 1:
                    (tmp_path / ".lock").write_bytes(said)
                elif self.waits == 10:
                    process.stdin.write("\n")
                    process.stdin.flush()
                    assert process.stdout.readline() == "released\n"
                return super().wait(condition, seconds)

        clock = Said()
        RootLock.acquire(Directory(tmp_path), "t-0", clock).release("t-0")
        assert clock.waits == 10


def test_what_an_owner_says_takes_the_place_of_all_that_another_said(tmp_path):
    (tmp_path / ".lock").write_text("x" * 500)
    lock = RootLock.acquire(Directory(tmp_path), "t-0", SYSTEM_CLOCK, brief=True)
    assert RootLock.told(lock.root).startswith(f"pid={os.getpid()} host=")
    assert RootLock.told(lock.root).endswith(" brief=1")
    lock.release("t-0")
    lock = RootLock.acquire(Directory(tmp_path), "t-0", SYSTEM_CLOCK)
    assert "brief" not in RootLock.told(lock.root)
    lock.release("t-0")
