"""Files say what failed and where, and hold no more descriptors than they may."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore._segment import Segment
from logstore.batch._encode import encode
from logstore.errors import (
    DiskFullError,
    LogstoreError,
    ReadOnlyError,
    StorageError,
    StorageFailedError,
    TooManyFilesError,
)
from logstore.io._files import LIBC, File, Files, Mapping, errno_of, fork_generation
from logstore.io._watch import Watch
from logstore.testing import FaultyFiles, SimDisk
from tests.kit.waiting import wait_for


@pytest.fixture
def files() -> Files:
    return Files(descriptor_limit=8)


def descriptors_in(directory: Path) -> list[str]:
    """Files of a directory that this process has open, by the kernel's own list."""
    found = []
    for entry in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{entry}")
        except FileNotFoundError:  # the one that listed the directory
            continue
        if target.startswith(f"{directory}/"):
            found.append(os.path.basename(target))
    return sorted(found)


def created(files: Files, path: Path, data: bytes = b"") -> File:
    file = files.open(str(path), create=True, writable=True)
    if data:
        file.write(data, 0)
    return file


# --- reading and writing -----------------------------------------------------------------------


def test_bytes_come_back_from_where_they_were_written(files: Files, tmp_path: Path) -> None:
    file = created(files, tmp_path / "f")
    file.write(b"world", 6)
    file.write(bytearray(b"hello "), 0)
    assert file.read(0, 100) == b"hello world"
    assert file.read(6, 3) == b"wor"
    assert file.read(11, 10) == file.read(500, 10) == file.read(0, 0) == b""
    assert file.size() == 11
    file.truncate(5)
    assert file.read(0, 100) == b"hello"
    file.truncate(8)
    assert file.read(0, 100) == b"hello\0\0\0"
    assert file.path == str(tmp_path / "f")
    assert file.files is files
    assert repr(file) == f"<File {file.path!r}>"


def test_a_file_tells_its_size_on_disk_and_its_time(files: Files, tmp_path: Path) -> None:
    file = created(files, tmp_path / "f")
    file.truncate(10 << 20)
    assert file.size() == 10 << 20
    assert file.allocated_bytes() < 1 << 20
    os.utime(file.path, ns=(0, 1_234_567_890_123_456_789))
    assert file.modified_ms() == 1_234_567_890_123


def test_only_the_first_open_creates_and_empties(tmp_path: Path) -> None:
    files = Files(descriptor_limit=1)
    (tmp_path / "f").write_bytes(b"old")
    file = files.open(str(tmp_path / "f"), create=True, writable=True, truncate=True)
    file.write(b"new", 0)
    created(files, tmp_path / "other")
    assert file.read(0, 9) == b"new"
    fresh = files.open(str(tmp_path / "g"), create=True, writable=True, exclusive=True)
    created(files, tmp_path / "other")
    fresh.write(b"x", 0)
    with pytest.raises(StorageError) as caught:
        files.open(str(tmp_path / "g"), create=True, writable=True, exclusive=True)
    assert errno_of(caught.value) == errno.EEXIST


def test_a_lazy_file_is_opened_when_it_is_used(files: Files, tmp_path: Path) -> None:
    file = files.lazy(str(tmp_path / "later"), writable=True)
    assert files.open_descriptors == 0
    with pytest.raises(StorageError, match="the attempt to open") as caught:
        file.read(0, 1)
    assert errno_of(caught.value) == errno.ENOENT
    (tmp_path / "later").write_bytes(b"now")
    assert file.read(0, 9) == b"now"
    file.write(b"N", 0)
    assert (tmp_path / "later").read_bytes() == b"Now"


def test_a_map_shows_the_file_and_outlives_it(files: Files, tmp_path: Path) -> None:
    assert created(files, tmp_path / "empty").map() is None
    file = created(files, tmp_path / "f", b"mapped")
    mapping = file.map()
    assert isinstance(mapping, Mapping)
    file.close()
    assert mapping.size == 6
    assert files.call_counts()["mmap_ro"] == 1


# --- names -------------------------------------------------------------------------------------


def test_names_are_made_moved_listed_and_removed(files: Files, tmp_path: Path) -> None:
    base = str(tmp_path)
    files.mkdir(f"{base}/d")
    created(files, tmp_path / "d" / "a", b"a").close()
    files.rename(f"{base}/d/a", f"{base}/d/b")
    files.link(f"{base}/d/b", f"{base}/d/c")
    odd = os.fsdecode(b"not utf-8 \xff")
    created(files, tmp_path / "d" / odd).close()
    assert sorted(files.listdir(f"{base}/d")) == sorted(["b", "c", odd])
    files.sync_directory(f"{base}/d")
    for name in ("b", "c", odd):
        files.unlink(f"{base}/d/{name}")
    assert files.listdir(f"{base}/d") == []
    files.rmdir(f"{base}/d")
    assert not (tmp_path / "d").exists()
    counts = files.call_counts()
    names = ("mkdir", "rename", "link", "listdir", "fsync_dir", "unlink", "rmdir")
    assert [counts[name] for name in names] == [1, 1, 1, 2, 1, 3, 1]
    total, free = files.space(base)
    assert 0 < free <= total


@pytest.mark.parametrize(
    ("call", "number", "says"),
    [
        (lambda files, base: files.open(f"{base}/none"), errno.ENOENT, "the attempt to open"),
        (lambda files, base: files.open(f"{base}/file/below"), errno.ENOTDIR, "the attempt to open"),
        (lambda files, base: files.open(base, writable=True), errno.EISDIR, "the attempt to open"),
        (lambda files, base: files.open(f"{base}/{'x' * 300}"), errno.ENAMETOOLONG, "the attempt to open"),
        (lambda files, base: files.open(base).read(0, 1), errno.EISDIR, "the attempt to read"),
        (lambda files, base: files.open(f"{base}/file").truncate(0), errno.EINVAL, "the attempt to cut to 0 bytes"),
        (lambda files, base: files.open(f"{base}/file").write(b"x", 0), errno.EBADF, "the attempt to write"),
        (lambda files, base: files.rename(f"{base}/none", f"{base}/x"), errno.ENOENT, "the attempt to rename"),
        (lambda files, base: files.unlink(f"{base}/none"), errno.ENOENT, "the attempt to remove"),
        (lambda files, base: files.link(f"{base}/none", f"{base}/x"), errno.ENOENT, "the attempt to link"),
        (lambda files, base: files.link(f"{base}/file", f"{base}/file"), errno.EEXIST, "the attempt to link"),
        (lambda files, base: files.mkdir(f"{base}/file"), errno.EEXIST, "the attempt to make directory"),
        (lambda files, base: files.rmdir(f"{base}/full"), errno.ENOTEMPTY, "the attempt to remove directory"),
        (lambda files, base: files.listdir(f"{base}/none"), errno.ENOENT, "the attempt to list directory"),
        (lambda files, base: files.listdir(f"{base}/file"), errno.ENOTDIR, "the attempt to list directory"),
        (lambda files, base: files.sync_directory(f"{base}/none"), errno.ENOENT, "the attempt to sync directory"),
        (lambda files, base: files.space(f"{base}/none"), errno.ENOENT, "the attempt to read the free space"),
    ],
)
def test_what_the_system_refuses_is_a_storage_error(
    files: Files, tmp_path: Path, call: object, number: int, says: str
) -> None:
    (tmp_path / "file").write_bytes(b"data")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(StorageError, match=says) as caught:
        call(files, str(tmp_path))  # type: ignore[operator]
    error = caught.value
    assert type(error) is StorageError
    assert isinstance(error, LogstoreError)
    assert isinstance(error, OSError)
    assert isinstance(error.__cause__, OSError)
    assert errno_of(error) == error.__cause__.errno == number
    assert error.path is not None
    assert error.path.startswith(str(tmp_path))
    assert error.path in str(error)
    assert (tmp_path / "file").read_bytes() == b"data"


def test_errno_of_other_errors_is_0() -> None:
    assert errno_of(StorageError("ours")) == 0
    assert errno_of(ValueError()) == 0


def in_a_child(script: str, *arguments: str) -> list[str]:
    """What a process of its own prints: for limits and users that this one cannot take back."""
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    ).stdout.splitlines()


def test_a_file_that_reaches_its_limit_is_a_full_disk(tmp_path: Path) -> None:
    script = """
import resource, sys
from logstore.batch._encode import encode
from logstore.io._files import Files, errno_of
from logstore._segment import Segment
from logstore.errors import DiskFullError
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
file = Files().open(sys.argv[1], create=True, writable=True)
for attempt in (lambda: file.write(bytes(20_000), 0), lambda: file.truncate(20_000)):
    try:
        attempt()
    except DiskFullError as error:
        print(errno_of(error), error.retriable, isinstance(error.__cause__, OSError), error)
file.truncate(0)
segment = Segment(file, 0, next_offset=0)
end = segment.append(bytearray(encode([bytes(4_000)])), 0, 0)
try:
    segment.append(bytearray(encode([bytes(8_000)])), end, 0)
except DiskFullError as error:
    print(segment.size == file.size() == segment.scan().valid_bytes, segment.next_offset)
print(segment.append(bytearray(encode([bytes(4_000)])), end, 0), segment.scan().is_whole)
"""
    written, cut, *appends = in_a_child(script, str(tmp_path / "f"))
    for line in (written, cut):
        assert line.startswith(f"{errno.EFBIG} True True the disk has no space to ")
        assert "free some space and try again" in line
    assert "position 0" in written
    assert appends == ["True 1", "2 True"]


def test_what_permissions_forbid_is_a_read_only_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"data")
    (tmp_path / "file").chmod(0o444)
    tmp_path.chmod(0o555)
    script = """
import os, sys
from logstore.io._files import Files, errno_of
from logstore.errors import ReadOnlyError
base = sys.argv[1]
files = Files()
if os.geteuid() == 0:
    os.seteuid(65534)  # root may write everywhere
for attempt in (
    lambda: files.open(base + "/new", create=True, writable=True),
    lambda: files.open(base + "/file", writable=True),
    lambda: files.rename(base + "/file", base + "/other"),
    lambda: files.unlink(base + "/file"),
    lambda: files.mkdir(base + "/dir"),
):
    try:
        attempt()
    except ReadOnlyError as error:
        print(errno_of(error), isinstance(error, PermissionError), error)
"""
    parents = [tmp_path.parent, tmp_path.parent.parent]
    modes = [parent.stat().st_mode for parent in parents]
    for parent in parents:
        parent.chmod(0o755)  # pytest's own directories let no other user through
    try:
        lines = in_a_child(script, str(tmp_path))
    finally:
        tmp_path.chmod(0o755)
        for parent, mode in zip(parents, modes, strict=True):
            parent.chmod(mode)
    assert len(lines) == 5
    for line in lines:
        assert line.startswith(f"{errno.EACCES} True the process may not ")
        assert "check the owner and mode of the directory" in line


def test_too_many_open_files_tells_which_limit_to_raise(tmp_path: Path) -> None:
    script = """
import os, resource, sys
from logstore.io._files import Files, errno_of
from logstore.errors import TooManyFilesError
files = Files(descriptor_limit=1000)
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
others = []
try:
    while True:
        others.append(os.dup(0))
except OSError:
    pass
for ask in (
    lambda: files.open(f"{sys.argv[1]}/a", create=True, writable=True),
    lambda: files.sync_directory(sys.argv[1]),
    lambda: files.listdir(sys.argv[1]),
):
    try:
        ask()
    except TooManyFilesError as error:
        print(errno_of(error), error.retriable, error)
"""
    lines = in_a_child(script, str(tmp_path))
    assert len(lines) == 3
    for line in lines:
        assert line.startswith(f"{errno.EMFILE} True the process has no file descriptor left to ")
        assert "ulimit -n" in line


def test_the_cache_gives_descriptors_back_when_none_is_left(tmp_path: Path) -> None:
    """Before, a process whose sockets had taken the rest could not open, list or sync anything any more."""
    script = """
import resource, sys
from logstore.io._files import Files
files = Files(descriptor_limit=1000)
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
kept = []
for n in range(100):
    kept.append(files.open(f"{sys.argv[1]}/{n}", create=True, writable=True))
    kept[-1].write(b"%d" % n, 0)
    files.sync_directory(sys.argv[1])
print(len(files.listdir(sys.argv[1])), [file.read(0, 2) for file in kept] == [b"%d" % n for n in range(100)])
"""
    assert in_a_child(script, str(tmp_path)) == ["100 True"]


def test_two_threads_that_sync_a_file_first_do_it_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock was made when it was first needed: two threads had one each, and one returned before the sync."""
    files = FaultyFiles()
    file = files.open(str(tmp_path / "a"), create=True, writable=True)
    file.write(b"x", 0)
    both = threading.Barrier(2)
    really = threading.Lock

    def slow() -> object:
        if threading.current_thread().name == "syncing":
            both.wait(300)
        return really()

    monkeypatch.setattr(threading, "Lock", slow)
    files.hold_syncs()
    done = [threading.Event(), threading.Event()]

    def sync(mark: threading.Event) -> None:
        file.sync()
        mark.set()

    threads = [threading.Thread(target=sync, args=(mark,), name="syncing") for mark in done]
    try:
        for thread in threads:
            thread.start()
        wait_for(lambda: files.held_syncs() == 1, 300)
        assert not any(mark.wait(0.2) for mark in done)
    finally:
        files.release_syncs()
        for thread in threads:
            thread.join()
    assert all(mark.is_set() for mark in done)


# --- locks -------------------------------------------------------------------------------------


def test_a_lock_is_held_against_other_processes_which_learn_the_holder(tmp_path: Path) -> None:
    files = Files(descriptor_limit=2)
    lock = created(files, tmp_path / ".lock")
    assert lock.lock() == 0
    for name in "abcdef":  # closing any descriptor of the file would drop the lock
        created(files, tmp_path / name, b"x")
    script = """
import sys
from logstore.io._files import Files
print(Files().open(sys.argv[1], writable=True).lock())
"""
    assert in_a_child(script, str(tmp_path / ".lock")) == [str(os.getpid())]
    lock.unlock()
    assert lock.closed
    assert in_a_child(script, str(tmp_path / ".lock")) == ["0"]


# --- the descriptor cache ----------------------------------------------------------------------


@given(accesses=st.lists(st.integers(0, 11), max_size=60), limit=st.integers(1, 6))
def test_never_more_descriptors_than_the_limit(
    tmp_path_factory: pytest.TempPathFactory, accesses: list[int], limit: int
) -> None:
    directory = tmp_path_factory.mktemp("cache")
    files = Files(descriptor_limit=limit)
    opened = [created(files, directory / str(n)) for n in range(12)]
    held = list(range(12))[-limit:]  # the model: those that are open, the one used last at the end
    dirty: set[int] = set()
    written: dict[int, bytes] = {}
    for turn, n in enumerate(accesses):
        if n not in held and len(held) == limit:
            victim = next((m for m in held if m not in dirty), held[0])
            held.remove(victim)
            dirty.discard(victim)  # it was synced
        held = [*(m for m in held if m != n), n]
        if turn % 3:
            assert opened[n].read(0, 99) == written.get(n, b"")
        else:
            written[n] = b"%03d" % turn
            opened[n].write(written[n], 0)
            dirty.add(n)
        assert descriptors_in(directory) == sorted(str(m) for m in held)
        assert files.open_descriptors == len(held)
        assert {m for m in range(12) if opened[m].dirty} == dirty
    for file in opened:
        file.close()
    assert descriptors_in(directory) == []
    assert files.open_descriptors == 0


def test_a_clean_file_goes_before_an_unsynced_one(tmp_path: Path) -> None:
    files = Files(descriptor_limit=2)
    dirty = created(files, tmp_path / "dirty", b"x")
    created(files, tmp_path / "clean")
    created(files, tmp_path / "third", b"x")
    assert descriptors_in(tmp_path) == ["dirty", "third"]
    assert dirty.dirty
    assert files.call_counts()["fdatasync"] == 0


def test_an_unsynced_file_is_synced_before_its_descriptor_goes(tmp_path: Path) -> None:
    files = Files(descriptor_limit=2)
    first = created(files, tmp_path / "first", b"x")
    second = created(files, tmp_path / "second", b"x")
    assert first.dirty
    created(files, tmp_path / "third")
    assert descriptors_in(tmp_path) == ["second", "third"]
    assert files.call_counts()["fdatasync"] == 1
    assert (first.dirty, second.dirty) == (False, True)
    first.sync()  # nothing is left to do
    assert files.call_counts()["fdatasync"] == 1
    assert descriptors_in(tmp_path) == ["second", "third"]


DOUBTFUL = bytes(range(256)) * 2_500  # three pieces of 256 KiB, and a part


def doubted(path: Path, **options: bool) -> tuple[SimDisk, File]:
    """A file whose sync has lost bytes in a process of which nothing is left, in the next process."""
    disk = SimDisk()
    file = disk.open(str(path), create=True, writable=True)
    file.write(DOUBTFUL, 0)
    disk.fail("fdatasync", 1, errno.EIO)
    with pytest.raises(StorageFailedError):
        file.sync()
    after = disk.kill()
    again = after.open(str(path), **options)
    again.doubt(1_000, len(DOUBTFUL))
    return after, again


def on_disk(disk: SimDisk, path: Path) -> bytes:
    return disk.crash("none").image().get(str(path), b"")


@pytest.mark.parametrize("options", [{}, {"writable": True}])
def test_doubtful_bytes_are_written_again_by_the_next_sync_and_by_no_other(options: dict[str, bool]) -> None:
    path = Path("/f")
    disk, file = doubted(path, **options)
    disk.sync_directory("/")
    file.mark_dirty()
    file.sync()
    left = on_disk(disk, path)
    assert left[1_000:] == DOUBTFUL[1_000:]
    assert left[:1_000] == bytes(1_000)  # what was not doubted stays lost
    written = disk.counts()["pwrite"]
    file.mark_dirty()
    file.sync()
    assert disk.counts()["pwrite"] == written


def test_doubtful_bytes_that_are_cut_do_not_come_back() -> None:
    path = Path("/f")
    disk, file = doubted(path, writable=True)
    disk.sync_directory("/")
    file.truncate(5_000)
    file.sync()
    assert on_disk(disk, path)[1_000:] == DOUBTFUL[1_000:5_000]
    file.truncate(500)
    file.sync()
    assert file.size() == 500


def test_doubtful_bytes_that_cannot_be_written_again_fail_the_sync_for_good() -> None:
    disk, file = doubted(Path("/f"), writable=True)
    disk.fail("pwrite", 2, errno.EIO)
    for _ in range(2):
        with pytest.raises(StorageFailedError):
            file.sync()


def test_doubtful_bytes_of_a_read_only_file_wait_for_a_descriptor() -> None:
    path = Path("/f")
    disk, file = doubted(path)
    disk.sync_directory("/")
    disk.fail("open", 1, errno.EMFILE, times=-1)
    with pytest.raises(TooManyFilesError):
        file.sync()
    disk.heal()
    file.sync()
    assert on_disk(disk, path)[1_000:] == DOUBTFUL[1_000:]


def test_a_clean_file_is_not_synced_again(files: Files, tmp_path: Path) -> None:
    file = created(files, tmp_path / "f", b"x")
    for _ in range(3):
        file.sync()
    assert files.call_counts()["fdatasync"] == 1
    file.mark_dirty()
    file.sync()
    file.truncate(0)
    file.sync()
    assert files.call_counts()["fdatasync"] == 3
    assert not file.sync_failed


def test_a_descriptor_that_is_in_use_is_not_taken(tmp_path: Path) -> None:
    files = Files(descriptor_limit=1)
    batch = bytearray(encode([b"x"]))
    segment = Segment(created(files, tmp_path / "00.log"), 0, next_offset=0)
    segment.append(batch, 0, 0)
    part = segment.locate(0, 1_000, 1)
    assert part is not None
    others = [created(files, tmp_path / str(n), b"x") for n in range(3)]
    assert "00.log" in descriptors_in(tmp_path)
    assert len(descriptors_in(tmp_path)) == files.open_descriptors == 2  # work is not refused
    segment.close()
    os.unlink(segment.path)
    assert part.read() == bytes(batch)
    part.close()
    assert len(descriptors_in(tmp_path)) == files.open_descriptors == 1
    for other in others:
        other.close()
    assert files.open_descriptors == 0


def test_a_file_comes_back_after_its_eviction(tmp_path: Path) -> None:
    files = Files(descriptor_limit=1)
    first = created(files, tmp_path / "first", b"one")
    second = created(files, tmp_path / "second", b"two")
    for _ in range(3):
        assert first.read(0, 9) == b"one"
        assert second.read(0, 9) == b"two"
        first.write(b"o", 0)
        second.truncate(3)
    assert descriptors_in(tmp_path) == ["second"]
    counts = files.call_counts()
    assert counts["open"] - counts["close"] == 1


def test_a_closed_file_is_never_opened_again(files: Files, tmp_path: Path) -> None:
    file = created(files, tmp_path / "f", b"x")
    file.close()
    file.close()
    assert file.closed
    for use in (lambda: file.read(0, 1), lambda: file.write(b"", 0), file.size, lambda: file.truncate(0), file.map):
        with pytest.raises(StorageError, match="the file is closed"):
            use()
    with pytest.raises(StorageError, match="the file is closed"):
        file.sync()  # what was written was not synced, and never will be through this file
    assert files.call_counts()["open"] == 1
    assert repr(file).endswith(" closed>")
    lazy = files.lazy(str(tmp_path / "f"))
    lazy.close()
    with pytest.raises(StorageError, match="the file is closed"):
        lazy.read(0, 1)


def test_a_file_that_is_closed_while_it_is_opened_reads_nothing(tmp_path: Path) -> None:
    """Its owner closes it before another file takes its path: what was opened may be that one."""
    files = Files()
    os.mkfifo(tmp_path / "f")  # its open for reading waits for one for writing
    file = files.lazy(str(tmp_path / "f"))
    said: list[str] = []

    def read() -> None:
        try:
            file.size()
        except StorageError as error:
            said.append(str(error))

    thread = threading.Thread(target=read)
    thread.start()
    wait_for(lambda: files.call_counts()["open"] == 1, timeout_s=60)
    file.close()
    os.close(os.open(tmp_path / "f", os.O_WRONLY))
    thread.join(60)
    assert len(said) == 1
    assert said[0].startswith("the file is closed")
    assert descriptors_in(tmp_path) == []


def test_threads_share_the_cache(tmp_path: Path) -> None:
    files = Files(descriptor_limit=3)
    opened = [created(files, tmp_path / str(n), b"%04d" % n) for n in range(10)]
    wrong: list[object] = []

    def use(step: int) -> None:
        try:
            for turn in range(300):
                n = turn * step % 10
                if opened[n].read(0, 4) != b"%04d" % n:
                    wrong.append(n)
                opened[n].write(b"%04d" % n, 0)
        except BaseException as error:  # noqa: BLE001
            wrong.append(error)

    threads = [threading.Thread(target=use, args=(step,)) for step in (1, 3, 7, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    opened[0].read(0, 1)
    assert len(descriptors_in(tmp_path)) == files.open_descriptors <= 3
    for file in opened:
        file.close()
    assert descriptors_in(tmp_path) == []


def test_a_table_without_references_gives_its_descriptors_back(tmp_path: Path) -> None:
    files = Files(descriptor_limit=8)
    kept = [created(files, tmp_path / str(n)) for n in range(3)]
    assert len(descriptors_in(tmp_path)) == 3
    del kept, files
    gc.collect()
    assert descriptors_in(tmp_path) == []


@pytest.mark.parametrize("what", ["map", "slice"])
def test_what_stands_on_a_table_may_die_with_it_in_a_cycle(what: str, tmp_path: Path) -> None:
    """The collector took the table away first; giving the mapping or the pin back was a segfault."""
    script = """
import gc, sys
from logstore.batch._encode import encode
from logstore.io._files import Files
from logstore._segment import Segment

class Box: pass

def litter():
    file = Files().open(sys.argv[2], create=True, writable=True)
    segment = Segment(file, 0, next_offset=0)
    segment.append(bytearray(encode([b"a"])), 0, 0)
    held = file.map() if sys.argv[1] == "map" else segment.locate(0, 10, 1)
    box = Box()
    box.itself, box.held = box, held

litter()
print(gc.collect() > 0)
"""
    assert in_a_child(script, what, str(tmp_path / "f")) == ["True"]
    assert descriptors_in(tmp_path) == []


def test_a_path_without_an_encoding_closes_no_descriptor_of_others(files: Files) -> None:
    for attempt in (lambda: File(files, "\ud800"), lambda: files.open("\ud800"), lambda: File(None, "x")):
        with pytest.raises((UnicodeEncodeError, TypeError)):
            attempt()
    os.fstat(0)
    assert files.open_descriptors == 0


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_1_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match="descriptor_limit: expected at least 1"):
        Files(descriptor_limit=limit)


def test_the_limit_leaves_space_for_others() -> None:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 16 <= LIBC.descriptor_limit <= 65_536
    assert soft == resource.RLIM_INFINITY or LIBC.descriptor_limit <= max(soft // 2, 16)


# --- waiting, forking --------------------------------------------------------------------------


@pytest.fixture
def appended(tmp_path: Path) -> Path:
    path = tmp_path / "watched"
    path.write_bytes(b"")
    return path


def test_a_watch_returns_at_a_write(appended: Path) -> None:
    watch = Watch(str(appended))
    for _ in range(3):
        with open(appended, "ab") as file:
            file.write(b"x")
        watch.wait(60_000)  # returns now, else the test's own limit ends it
    watch.wait(0)


def test_a_watch_returns_at_a_write_that_comes_later(appended: Path) -> None:
    watch, started = Watch(str(appended)), threading.Event()

    def write() -> None:
        started.wait()
        appended.write_bytes(b"later")

    writer = threading.Thread(target=write)
    writer.start()
    started.set()
    watch.wait(60_000)
    writer.join()
    assert appended.read_bytes() == b"later"


def test_a_watch_on_nothing_only_waits(tmp_path: Path) -> None:
    Watch(str(tmp_path / "none")).wait(1)


def test_a_child_of_a_fork_knows_it() -> None:
    script = """
import os
from logstore.io._files import fork_generation
before = fork_generation()
child = os.fork()
if child == 0:
    os._exit(fork_generation() - before)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), fork_generation() - before)
"""
    assert in_a_child(script) == ["1 0"]
    assert fork_generation() >= 0


def test_errors_of_a_full_disk_and_of_a_read_only_one_are_storage_errors() -> None:
    assert issubclass(DiskFullError, StorageError)
    assert issubclass(ReadOnlyError, StorageError)
    assert issubclass(ReadOnlyError, PermissionError)


def test_the_oldest_files_are_synced_before_their_descriptors_are_needed(tmp_path):
    asked = []
    files = Files(descriptor_limit=16)
    files.clean_by(lambda: asked.append(files.open_descriptors))
    opened = []
    for n in range(16):
        opened.append(files.open(str(tmp_path / str(n)), create=True, writable=True))
        opened[-1].write(b"x", 0)
    # Once, until the cleaner has come.
    assert asked == [14]
    files.sync_oldest()
    assert [file.dirty for file in opened] == [False] * 5 + [True] * 11
    before = files.call_counts()["fdatasync"]
    for n in range(5):
        opened.append(files.open(str(tmp_path / f"other-{n}"), create=True, writable=True))
    assert files.call_counts()["fdatasync"] == before
    assert [file.is_at_hand() for file in opened[:6]] == [False] * 5 + [True]
    assert asked == [14, 16]
    for file in opened:
        file.close()


def test_a_cleaner_is_asked_again_when_half_of_what_it_has_synced_is_closed(tmp_path):
    files, asked = Files(descriptor_limit=64), []

    def clean():
        asked.append(files.call_counts()["open"])
        files.sync_oldest()

    files.clean_by(clean)
    opened = []
    for n in range(192):
        opened.append(files.open(str(tmp_path / str(n)), create=True, writable=True))
        opened[-1].write(b"x", 0)
    # At seven eighths of 64, and then after each eighth of them that was closed.
    assert asked == [56, *range(72, 193, 8)]
    for file in opened:
        file.close()


def test_a_sync_that_fails_in_the_cleaner_is_raised_by_the_next_sync_of_its_file(tmp_path):
    files = FaultyFiles(descriptor_limit=16)
    file = files.open(str(tmp_path / "a"), create=True, writable=True)
    file.write(b"x", 0)
    files.fail("fdatasync")
    files.sync_oldest()
    assert file.sync_failed
    with pytest.raises(StorageFailedError):
        file.sync()
    file.close()


def test_a_cleaner_that_fails_is_asked_again(tmp_path):
    asked = []

    def failing():
        asked.append(1)
        raise RuntimeError("no thread")

    files = Files(descriptor_limit=8)
    files.clean_by(failing)
    opened = [files.open(str(tmp_path / str(n)), create=True, writable=True) for n in range(6)]
    for n in range(2):
        with pytest.raises(RuntimeError, match="no thread"):
            files.open(str(tmp_path / f"late-{n}"), create=True, writable=True)
    assert len(asked) == 2
    for file in opened:
        file.close()
