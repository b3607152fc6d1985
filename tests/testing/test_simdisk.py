"""The simulated disk: the same calls give the same answers as on libc, and a power cut keeps what it should."""

from __future__ import annotations

import errno
import gc
import socket
import threading
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logstore import Log
from logstore.errors import DiskFullError, StorageError, StorageFailedError
from logstore.io._files import LIBC, Files, errno_of
from logstore.testing import ManualClock, SimDisk
from logstore.testing.simdisk import POLICIES

# --- the same as libc -------------------------------------------------------------------------

NAMES = ["a", "b", "d", "d/a", "d/e", "d/e/b", "missing/a"]
paths = st.sampled_from(NAMES)
places = st.integers(0, 40)
sizes = st.integers(0, 9_000)
flags = st.fixed_dictionaries({name: st.booleans() for name in ("create", "writable", "exclusive", "truncate")})
STEPS = st.one_of(
    st.tuples(st.just("open"), paths, flags),
    st.tuples(st.just("open"), paths, st.just({"create": True, "writable": True})),
    st.tuples(st.just("write"), places, st.binary(max_size=300), sizes),
    st.tuples(st.just("read"), places, sizes, sizes),
    st.tuples(st.just("truncate"), places, sizes),
    st.tuples(st.just("allocate"), places),
    st.tuples(st.just("sync"), places),
    st.tuples(st.just("size"), places),
    st.tuples(st.just("map"), places),
    st.tuples(st.just("lock"), places),
    st.tuples(st.just("close"), places),
    st.tuples(st.just("rename"), paths, paths),
    st.tuples(st.just("link"), paths, paths),
    st.tuples(st.just("unlink"), paths),
    st.tuples(st.just("mkdir"), paths),
    st.tuples(st.just("rmdir"), paths),
    st.tuples(st.just("listdir"), paths),
    st.tuples(st.just("sync_directory"), paths),
)


class Side:
    """One table, driven through its edges; an answer is a value or an errno."""

    def __init__(self, files: Files, root: str) -> None:
        self.files = files
        self.root = root
        self.opened: list = []
        self.locked: list = []

    def is_directory(self, name: str) -> bool:
        try:
            self.files.listdir(f"{self.root}/{name}")
        except StorageError:
            return False
        return True

    def ask(self, step) -> object:
        try:
            return self.act(*step)
        except StorageError as error:
            return type(error).__name__, errno_of(error)

    def act(self, op, *args):
        if op == "open":
            file = self.files.open(f"{self.root}/{args[0]}", **args[1])
            if self.is_directory(args[0]):
                # What size it has is the file system's own business.
                return file.close()
            self.opened.append(file)
            return file.size()
        if op == "listdir":
            return sorted(self.files.listdir(f"{self.root}/{args[0]}"))
        if op in ("rename", "link", "unlink", "mkdir", "rmdir", "sync_directory"):
            return getattr(self.files, op)(*(f"{self.root}/{name}" for name in args))
        if not self.opened:
            return None
        file = self.opened[args[0] % len(self.opened)]
        if op == "map":
            return file.map() and file.map().size
        if op == "allocate":
            return file.allocated_bytes() >= 0
        if op == "lock":
            # Its descriptor is pinned from now on.
            self.locked.extend([file] if file.lock() == 0 else [])
            return len(self.locked)
        if op == "close":
            return self.close_one(args[0] % len(self.opened))
        return getattr(file, op)(*args[1:])

    def tree(self, path: str = "") -> dict:
        found = {}
        for name in sorted(self.files.listdir(self.root + path)):
            below = f"{path}/{name}"
            try:
                found[below] = self.tree(below)
            except StorageError:
                file = self.files.open(self.root + below)
                found[below] = file.read(0, file.size())
                file.close()
        return found

    def close_one(self, place: int) -> None:
        file = self.opened.pop(place)
        for _ in range(self.locked.count(file)):
            file.unlock()
        file.close()

    def close(self) -> None:
        while self.opened:
            self.close_one(0)


def test_a_rename_into_what_is_no_directory_is_refused_as_by_libc(tmp_path):
    """Found by the test below: the directories of both names are looked at before the file."""
    create = {"create": True, "writable": True, "exclusive": False, "truncate": False}
    real, simulated = Side(Files(), str(tmp_path)), Side(SimDisk(), "/r")
    simulated.files.mkdir("/r")
    for step in [("open", "d", create), ("rename", "a", "d/a"), ("rename", "d/a", "b"), ("rename", "b", "c/a")]:
        assert simulated.ask(step) == real.ask(step), step
    for side in (real, simulated):
        side.close()


@settings(max_examples=300)
@given(steps=st.lists(STEPS, max_size=40))
def test_the_same_calls_have_the_same_answers_as_on_libc(tmp_path_factory, steps):
    real, simulated = Side(Files(), str(tmp_path_factory.mktemp("real"))), Side(SimDisk(), "/r")
    simulated.files.mkdir("/r")
    for step in [("mkdir", "d"), *steps]:
        assert simulated.ask(step) == real.ask(step), step
    assert simulated.tree() == real.tree()
    whole = simulated.files.kill()
    assert whole.image() == simulated.files.image()
    assert simulated.files.crash("all").image() == simulated.files.image()
    for side in (real, simulated):
        side.close()
    assert simulated.files.open_descriptors == 0


def test_sendfile_reaches_a_real_socket():
    log = Log.open("/r/t-0", files=SimDisk())
    log.append([b"v" * 1000] * 500)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sent = bytearray()
        reader = threading.Thread(target=lambda: sent.extend(iter_all(theirs)))
        reader.start()
        piece = log.replica.locate(0)
        assert piece.send_to(ours.fileno()) == piece.size
        ours.close()
        reader.join()
        assert bytes(sent) == piece.read()
    log.close()


def iter_all(connection):
    while data := connection.recv(1 << 16):
        yield from data


def test_two_disks_are_two_worlds():
    one, other = SimDisk(), SimDisk()
    with Log.open("/r/t-0", files=one) as first, Log.open("/r/t-0", files=other) as second:
        first.append([b"a"])
        assert (first.log_end_offset, second.log_end_offset) == (1, 0)


def test_many_threads_write_one_disk():
    disk = SimDisk()

    def fill(number):
        with Log.open(f"/r/t-{number}", files=disk, segment_bytes=2_000) as log:
            for n in range(100):
                log.append([b"%d" % n], ack="synced" if n % 10 == 0 else "written")

    threads = [threading.Thread(target=fill, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        with Log.open(f"/r/t-{number}", files=disk) as log:
            assert [record.value for record in log.scan()] == [b"%d" % n for n in range(100)]


# --- what is synced ---------------------------------------------------------------------------


def new_file(disk: SimDisk, name: str = "/a", data: bytes = b"", *, durable: bool = False):
    file = disk.open(name, create=True, writable=True)
    if data:
        file.write(data, 0)
    if durable:
        file.sync()
        disk.sync_directory("/")
    return file


def test_a_sync_of_a_file_takes_its_bytes_and_not_its_name():
    disk = SimDisk()
    file = new_file(disk, data=b"abc")
    file.sync()
    assert disk.crash().image() == {}
    disk.sync_directory("/")
    assert disk.crash().image() == {"/a": b"abc"}
    file.write(b"def", 3)
    assert disk.crash().image() == {"/a": b"abc"}
    assert disk.pending == 1


def test_a_sync_of_a_directory_takes_its_names_and_not_the_bytes():
    disk = SimDisk()
    new_file(disk, data=b"abc")
    disk.mkdir("/d")
    new_file(disk, "/d/b")
    disk.sync_directory("/")
    assert disk.crash().image() == {"/a": b""}
    disk.sync_directory("/d")
    assert disk.crash().image() == {"/a": b"", "/d/b": b""}


def test_a_removed_name_comes_back_with_its_bytes_until_it_is_synced():
    disk = SimDisk()
    new_file(disk, data=b"abc", durable=True).close()
    disk.rename("/a", "/b")
    disk.unlink("/b")
    assert disk.image() == {}
    assert disk.crash("none").image() == {"/a": b"abc"}
    assert disk.crash("prefix", keep=1).image() == {"/b": b"abc"}
    assert disk.crash("prefix", keep=2).image() == {}
    disk.sync_directory("/")
    assert disk.crash("none").image() == {}


def test_a_rename_over_a_file_is_kept_whole_or_not_at_all():
    disk = SimDisk()
    new_file(disk, "/a", b"old", durable=True).close()
    new_file(disk, "/b", b"new", durable=True).close()
    disk.rename("/b", "/a")
    seen = {tuple(disk.crash(policy, seed=n).image().items()) for policy in POLICIES for n in range(20)}
    assert seen == {(("/a", b"old"), ("/b", b"new")), (("/a", b"new"),)}


def states(disk, policy, **options):
    return {disk.crash(policy, seed=n, **options).image()["/a"] for n in range(400)}


def test_each_policy_keeps_what_it_says():
    disk = SimDisk()
    file = new_file(disk, data=b"s" * 100, durable=True)
    file.write(b"A" * 1000, 100)
    file.write(b"B" * 1000, 1100)
    synced, first, both = b"s" * 100, b"s" * 100 + b"A" * 1000, b"s" * 100 + b"A" * 1000 + b"B" * 1000
    assert states(disk, "none") == {synced}
    assert states(disk, "all") == {both}
    assert states(disk, "prefix") == {synced, first, both}
    torn = states(disk, "torn")
    assert all(both.startswith(state) for state in torn)
    assert {512, 1024, 1536, 2048} <= {len(state) for state in torn}
    assert len(torn) > 100
    hole = synced + bytes(1000) + b"B" * 1000
    assert states(disk, "lost") == {synced, first, both, hole}
    assert states(disk, "zeroed") == {
        both,
        hole,
        first + bytes(1000),
        synced + bytes(2000),
    }
    pages = states(disk, "reordered", page_bytes=512)
    assert len(pages) > 30
    assert all(len(state) <= 2100 and set(state) <= set(b"sAB\0") for state in pages)
    assert states(disk, "reordered") == states(disk, "lost")


def test_a_seed_repeats_a_power_cut_and_without_one_each_is_another():
    def cut():
        disk = SimDisk(seed=7)
        file = new_file(disk, durable=True)
        for n in range(50):
            file.write(b"%d" % n * 20, n * 40)
        return [disk.crash("lost").state_hash() for _ in range(5)], disk.crash("torn", seed=3).state_hash()

    assert cut() == cut()
    assert len(set(cut()[0])) == 5


def test_moments_are_the_disk_after_each_operation():
    disk = SimDisk()
    disk.keep_moments()
    file = new_file(disk, data=b"abc")
    file.sync()
    disk.sync_directory("/")
    disk.unlink("/a")
    assert [moment.image() for moment in disk.moments()] == [{"/a": b""}, *[{"/a": b"abc"}] * 3, {}]
    assert [moment.crash().image() for moment in disk.moments()] == [{}, {}, {}, *[{"/a": b"abc"}] * 2]
    assert len({moment.state_hash() for moment in disk.moments()}) == 3
    assert disk.operations == disk.moment_count == 5


# --- what fails -------------------------------------------------------------------------------


def test_a_failed_sync_loses_what_later_syncs_do_not_bring_back():
    disk = SimDisk()
    file = new_file(disk, data=b"abc", durable=True)
    file.write(b"def", 3)
    disk.fail("fdatasync", 1, errno.EIO)
    with pytest.raises(StorageFailedError):
        file.sync()
    file.write(b"ghi", 6)
    again = disk.open("/a", writable=True)
    again.mark_dirty()
    again.sync()
    assert again.read(0, 9) == b"abcdefghi"
    assert disk.crash("all").image() == {"/a": b"abc\0\0\0ghi"}
    assert disk.kill().crash("all").image() == {"/a": b"abc\0\0\0ghi"}
    reread = disk.kill()
    reread.drop_caches()
    assert reread.image() == {"/a": b"abc\0\0\0ghi"}


def test_with_rereads_the_old_bytes_are_back_when_the_file_is_opened_again():
    disk = SimDisk()
    disk.rereads = True
    file = new_file(disk, data=b"abc", durable=True)
    file.write(b"xyz", 0)
    disk.fail("fdatasync", 1, errno.EIO)
    with pytest.raises(StorageFailedError):
        file.sync()
    assert disk.image() == {"/a": b"xyz"}
    file.close()
    assert disk.image() == {"/a": b"abc"}


def test_a_failed_sync_of_a_directory_loses_its_names():
    disk = SimDisk()
    new_file(disk, data=b"abc").sync()
    disk.fail("fsync_dir", 1, errno.EIO)
    with pytest.raises(StorageFailedError):
        disk.sync_directory("/")
    disk.sync_directory("/")
    assert disk.image() == {"/a": b"abc"}
    assert disk.crash("all").image() == {}


def test_a_sync_that_is_skipped_claims_success_and_keeps_nothing():
    disk = SimDisk()
    disk.fail("fdatasync", errno=0, times=-1)
    disk.fail("fsync_dir", errno=0, times=-1)
    new_file(disk, data=b"abc", durable=True)
    assert disk.crash("none").image() == {}
    assert disk.crash("all").image() == {"/a": b"abc"}


def test_a_disk_runs_full_with_a_short_write_and_goes_on_when_there_is_space():
    disk = SimDisk(capacity=10)
    one = new_file(disk, "/a", b"abcd")
    other = new_file(disk, "/b")
    with pytest.raises(DiskFullError):
        other.write(b"0123456789", 0)
    assert disk.image() == {"/a": b"abcd", "/b": b"012345"}
    assert disk.space("/") == (10, 0)
    one.write(b"ABCD", 0)
    disk.unlink("/a")
    assert disk.space("/") == (10, 0), "a file that is open keeps its bytes"
    one.close()
    assert disk.space("/") == (10, 4)
    other.write(b"6789", 6)
    disk.capacity = 20
    other.write(b"!", 10)
    assert disk.used_bytes == 11
    with pytest.raises(DiskFullError):
        disk.open("/b", writable=True).truncate(100)


def test_a_flipped_bit_is_flipped_on_the_disk_too():
    disk = SimDisk()
    new_file(disk, data=b"abc", durable=True)
    disk.flip("/a", 9)
    assert disk.image() == disk.crash().image() == {"/a": b"a`c"}
    with pytest.raises(IndexError, match="3 bytes"):
        disk.flip("/a", 24)
    with pytest.raises(FileNotFoundError):
        disk.flip("/b", 0)


def test_a_wrong_order_is_refused():
    disk = SimDisk()
    with pytest.raises(ValueError, match="none, all, prefix"):
        disk.crash("sudden")
    with pytest.raises(ValueError, match="page_bytes"):
        disk.crash("reordered", page_bytes=0)


def test_time_does_not_pass_by_itself_so_a_life_is_repeated_byte_for_byte():
    def live():
        disk = SimDisk()
        with Log.open("/r/t-0", files=disk, clock=ManualClock(), segment_bytes=500) as log:
            for n in range(30):
                log.append([b"%d" % n])
        return disk.state_hash()

    assert live() == live()


def test_the_machine_is_left_alone(tmp_path):
    descriptors = LIBC.open_descriptors
    with Log.open(tmp_path / "r" / "t-0", files=SimDisk()) as log:
        log.append([b"v"], ack="synced")
        assert not (tmp_path / "r").exists()
    assert LIBC.open_descriptors == descriptors


def test_a_mapping_that_dies_in_a_cycle_with_its_disk_is_released():
    """The garbage collector clears objects of a cycle in any order; the mapping's last call needs the disk."""

    def die():
        disk = SimDisk()
        cycle = [disk, new_file(disk, data=b"abc"), disk.open("/a").map()]
        cycle.append(cycle)
        return weakref.ref(disk)

    died = [die() for _ in range(20)]
    gc.collect()
    assert [disk() for disk in died] == [None] * 20
