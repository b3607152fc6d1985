"""The published end of a log on a real disk: shared with readers in memory, written where that is not safe."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from logstore import Log
from logstore.errors import CorruptRecordError
from logstore.io._files import Files
from logstore.io._watch import Watch
from logstore.log.formats import checkpoints
from logstore.log.formats._published import PublishedFile, pack
from logstore.log.formats.checkpoints import PUBLISHED, Published
from logstore.log.formats.last_stop import Stop
from logstore.log.read import live_reader
from logstore.testing import SimDisk
from logstore.testing._faults import FaultyFiles
from tests.kit.inside import published_file_of

#: More appends than a log publishes with writes before it shares its published end.
ENOUGH = 10

MARKS = Published(2, 1, 30, 20, 40)


def shared(path: Path, files: Files | None = None) -> PublishedFile:
    """A published file after as many appends as it takes to share it."""
    published = PublishedFile((files or Files()).open(str(path), create=True, writable=True))
    for end in range(ENOUGH):
        published.put(0, 0, end, end, end)
    return published


def decoded(path: Path) -> Published | None:
    return checkpoints.decode_published(path.read_bytes())


def test_an_append_publishes_without_a_system_call(tmp_path):
    files = Files()
    with Log.open(tmp_path / "t-0", files=files) as log, Log.open(tmp_path / "t-0", read_only=True) as reader:
        for n in range(ENOUGH):
            log.append([b"v"])
            assert reader.log_end_offset == n + 1
        before = files.call_counts()
        for n in range(ENOUGH, 200):
            log.append([b"v"])
            assert reader.log_end_offset == n + 1
        after = files.call_counts()
    assert {name: after[name] - before[name] for name in after if after[name] != before[name]} == {"pwrite": 190}


def test_what_is_stored_is_what_is_written(tmp_path):
    written, stored = tmp_path / "written", tmp_path / "stored"
    one, other = shared(written), shared(stored)
    one.write(*MARKS)
    other.put(*MARKS)
    assert other.is_shared
    assert written.read_bytes() == stored.read_bytes() == 2 * pack(*MARKS)
    # The two ways may alternate.
    one.put(*MARKS._replace(log_end_offset=41))
    assert decoded(written) == MARKS._replace(log_end_offset=41)
    one.close()
    other.close()
    assert decoded(stored) == MARKS


def test_one_copy_that_a_kill_has_torn_leaves_the_other(tmp_path):
    """A process is killed between the two, or in the middle of one: its last append was not acknowledged yet."""
    before, after = pack(*MARKS), pack(*MARKS._replace(high_watermark=50, log_end_offset=50))
    for stored in range(len(after) + 1):
        torn = after[:stored] + before[stored:]
        first = checkpoints.decode_published(torn + before)
        assert first == (MARKS if torn != after else MARKS._replace(high_watermark=50, log_end_offset=50))
        assert checkpoints.decode_published(after + torn).log_end_offset == 50


def test_planted_a_single_copy_is_found():
    before, after = pack(*MARKS), pack(*MARKS._replace(high_watermark=50, log_end_offset=50))
    assert checkpoints.decode_published(after[:40] + before[40:]) is None


def test_the_tables_of_tests_get_every_write(tmp_path):
    for files in (FaultyFiles(), SimDisk()):
        folder = str(tmp_path) if isinstance(files, FaultyFiles) else "/data"
        with Log.open(f"{folder}/t-0", files=files) as log:
            for _ in range(2 * ENOUGH):
                log.append([b"v"])
            assert not published_file_of(log).is_shared


def test_a_file_that_is_cut_is_written_again_and_ends_no_process(tmp_path):
    """The kernel sends SIGBUS for a store into a page that the file no longer has."""
    published = shared(tmp_path / PUBLISHED)
    assert published.is_shared
    os.truncate(tmp_path / PUBLISHED, 0)
    published.put(*MARKS)
    assert not published.is_shared
    assert decoded(tmp_path / PUBLISHED) == MARKS
    for _ in range(2 * ENOUGH):
        published.put(*MARKS)
    assert not published.is_shared
    published.close()


def test_a_log_goes_on_when_its_published_end_is_cut(tmp_path):
    with Log.open(tmp_path / "t-0") as log:
        for _ in range(ENOUGH):
            log.append([b"v"])
        os.truncate(tmp_path / "t-0" / PUBLISHED, 0)
        log.append([b"v"])
        with Log.open(tmp_path / "t-0", read_only=True) as reader:
            assert reader.log_end_offset == ENOUGH + 1


def test_a_store_comes_from_any_thread(tmp_path):
    published = shared(tmp_path / PUBLISHED)
    os.truncate(tmp_path / PUBLISHED, 0)
    thread = threading.Thread(target=published.put, args=MARKS)
    thread.start()
    thread.join()
    assert decoded(tmp_path / PUBLISHED) == MARKS
    published.close()


def test_where_sigbus_is_blocked_it_is_written(tmp_path):
    found = []

    def run() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGBUS])
        published = shared(tmp_path / PUBLISHED)
        found.append(published.is_shared)
        published.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [False]


# --- other users of SIGBUS

HANDLED = """
    import faulthandler, mmap, os, signal, sys
    from logstore.io._files import Files
    from logstore.log.formats._published import PublishedFile

    def shared(name):
        published = PublishedFile(Files().open(sys.argv[1] + "/" + name, create=True, writable=True))
        for end in range(10):
            published.put(0, 0, end, end, end)
        return published

    def cut(published, name):
        os.truncate(sys.argv[1] + "/" + name, 0)
        published.put(0, 0, 99, 99, 99)
        print("survived", os.path.getsize(sys.argv[1] + "/" + name))

    def fault_elsewhere():
        with open(sys.argv[1] + "/other", "wb+") as file:
            file.truncate(4096)
            mapped = mmap.mmap(file.fileno(), 4096)
            file.truncate(0)
            sys.stdout.flush()
            mapped[0] = 1
"""


def run(tmp_path: Path, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(HANDLED) + textwrap.dedent(script), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.parametrize("how", ["fault_elsewhere()", "os.kill(os.getpid(), signal.SIGBUS)"])
def test_a_fault_elsewhere_ends_the_process_as_before(tmp_path, how):
    done = run(tmp_path, f"p = shared('p'); cut(p, 'p'); sys.stdout.flush(); {how}; print('went on')")
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "survived 128\n")


def test_the_handler_that_was_there_before_gets_what_is_not_ours(tmp_path):
    done = run(
        tmp_path,
        """
        signal.signal(signal.SIGBUS, lambda number, frame: print("its own"))
        p = shared("p")
        os.kill(os.getpid(), signal.SIGBUS)
        cut(p, "p")
        """,
    )
    assert (done.returncode, done.stdout) == (0, "its own\nsurvived 128\n"), done.stderr


def test_a_signal_that_was_ignored_before_is_ignored(tmp_path):
    done = run(
        tmp_path,
        """
        signal.signal(signal.SIGBUS, signal.SIG_IGN)
        p = shared("p")
        os.kill(os.getpid(), signal.SIGBUS)
        cut(p, "p")
        fault_elsewhere()
        """,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "survived 128\n")


@pytest.mark.parametrize("when", ["before", "after"])
def test_faulthandler_reports_the_faults_of_others(tmp_path, when):
    enable = "faulthandler.enable()"
    done = run(
        tmp_path,
        f"""
        {enable if when == "before" else ""}
        p = shared("p")
        {enable if when == "after" else ""}
        cut(p, "p")
        fault_elsewhere()
        """,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "survived 128\n")
    assert when == "after" or "Bus error" in done.stderr


def test_a_disk_that_takes_neither_store_nor_write_is_reported_by_the_write(tmp_path):
    done = run(
        tmp_path,
        """
        import resource
        from logstore.errors import StorageError
        p = shared("p")
        os.truncate(sys.argv[1] + "/p", 0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        try:
            p.put(0, 0, 99, 99, 99)
        except StorageError as error:
            print(type(error).__name__, p.is_shared)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        p.put(0, 0, 99, 99, 99)
        print("survived", os.path.getsize(sys.argv[1] + "/p"))
        """,
    )
    assert (done.returncode, done.stdout) == (0, "DiskFullError False\nsurvived 128\n"), done.stderr


def test_beside_a_handler_that_has_come_later_it_is_written(tmp_path):
    """That handler may not call ours, and may be called by it."""
    done = run(
        tmp_path,
        """
        first = shared("p")
        signal.signal(signal.SIGBUS, lambda number, frame: None)
        second = shared("q")
        print(first.is_shared, second.is_shared)
        """,
    )
    assert (done.returncode, done.stdout) == (0, "True False\n"), done.stderr


# --- readers in other processes


def test_an_append_wakes_readers_that_watch_the_directory(tmp_path):
    with Log.open(tmp_path / "t-0") as log:
        for _ in range(ENOUGH):
            log.append([b"v"])
        watch = Watch(log.path)
        beside = Watch(os.path.join(log.path, PUBLISHED))
        log.append([b"v"])
        assert watch.wait(60_000)
        # Planted: a reader that watches the published end alone is not woken.
        assert not beside.wait(0)
        # Changes that write no record wake both.
        log.replica.truncate_to(3)
        assert beside.wait(60_000)


def test_a_waiting_reader_is_woken_by_inotify(tmp_path, monkeypatch):
    monkeypatch.setattr(live_reader, "POLL_S", 300.0)
    with Log.open(tmp_path / "t-0") as log, Log.open(tmp_path / "t-0", read_only=True) as reader:
        for _ in range(ENOUGH):
            log.append([b"v"])
        for n in range(20):
            found: list[int] = []
            thread = threading.Thread(
                target=lambda n=n, found=found: found.append(reader.read(ENOUGH + n, timeout_s=300).count())
            )
            thread.start()
            log.append([b"v"])
            thread.join(200)
            assert found == [1]


def looks_for_late_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Count the looks of a reader that a write has woken before the writer has moved its marks."""
    with Log.open(tmp_path / "t-0") as log, Log.open(tmp_path / "t-0", read_only=True) as reader:
        log.append([b"v"])
        assert reader.log_end_offset == 1
        reader._wait_for_writer(0.001)  # makes the watch
        looks: list[int] = []
        honest = type(reader._published_file).read

        def read(file, *, attempts=100):
            looks.append(attempts)
            if len(looks) == 3:
                log.append([b"w"])
            return honest(file, attempts=attempts)

        (tmp_path / "t-0" / "other").write_bytes(b"of the writer")
        monkeypatch.setattr(type(reader._published_file), "read", read)
        reader._wait_for_writer(60.0)
        return len(looks)


def test_a_reader_that_was_woken_early_looks_again(tmp_path, monkeypatch):
    assert looks_for_late_marks(tmp_path, monkeypatch) == 3


def test_planted_a_reader_that_looks_once_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(live_reader, "SOON_MS", (1,))
    assert looks_for_late_marks(tmp_path, monkeypatch) != 3


# --- after a kill

KILLED = """
    import os, signal, sys
    from logstore import Log
    from logstore.log import FixedPolicy, Moves

    log = Log.open(sys.argv[1] + "/t-0", policy=FixedPolicy(Moves.WITH_END))
    for n in range(int(sys.argv[2])):
        log.append([b"%d" % n])
        if sys.argv[3] == "moved" and n == 50:
            path = log.path + "/logstore.published"
            data = open(path, "rb").read()
            os.remove(path)
            open(path, "wb").write(data)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def kill(root: Path, count: int, plant: str = "") -> Path:
    """Have a writer killed after some appends, none of which was synced."""
    root.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(root), str(count), plant],
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == -signal.SIGKILL
    return root / "t-0"


def names_the_loss(path: Path) -> bool:
    """Cut the end of the log, as after a loss behind the last sync; tell whether reader and writer notice."""
    log = path / f"{0:020d}.log"
    os.truncate(log, log.stat().st_size - 100)
    with Log.open(path, read_only=True) as reader:
        try:
            reader.read(0, max_bytes=1 << 20)
            list(reader.scan())
            is_told = False
        except CorruptRecordError:
            is_told = True
    with Log.open(path) as again:
        return is_told and again.replica.last_stop.reason.endswith("but was written up to 100")


def test_a_killed_writer_leaves_its_end(tmp_path):
    path = kill(tmp_path / "whole", 100)
    assert decoded(path / PUBLISHED).log_end_offset == 100
    with Log.open(path, read_only=True) as reader:
        assert reader.log_end_offset == 100
    with Log.open(path) as again:
        assert again.replica.last_stop.stop is Stop.PROCESS_DIED
        assert again.log_end_offset == 100
    assert names_the_loss(kill(tmp_path / "cut", 100))


def test_planted_stores_that_do_not_reach_the_file_are_found(tmp_path):
    path = kill(tmp_path / "cut", 100, "moved")
    assert decoded(path / PUBLISHED).log_end_offset == 51
    assert not names_the_loss(path)
