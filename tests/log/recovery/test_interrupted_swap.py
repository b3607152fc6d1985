"""A compaction that was cut off at its swap is finished by the next open, whatever was done of it."""

from __future__ import annotations

import os
import shutil

import pytest

from logstore import Log
from logstore.errors import DamagedLogError, NotALogError, StorageError
from logstore.log import Marker, ProducerStamp
from logstore.testing._faults import FaultyFiles
from tests.log.logs import log_files, open_log, tree, values_of

pytestmark = [pytest.mark.crash, pytest.mark.row("S20", part="recovery, step by step")]

SETTINGS = {"segment_bytes": 600, "index_interval_bytes": 100, "cleanup_policy": "compact"}
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")


class Compaction:
    """A closed log, and the new form of its first two segments: their bytes without the batch at offset 1."""

    def __init__(self, root):
        self.path = root / "t-0"
        with open_log(root, **SETTINGS) as log:
            log.append([(b"k", b"first")])
            log.append([(b"k", b"compacted away")])
            log.append([(b"a", b"aborted")], producer=ProducerStamp(5, 0, 0, True))
            log.replica.append_control(Marker.ABORT, producer_id=5, producer_epoch=0)
            for n in range(12):
                log.append([(b"k%d" % n, b"v" * 60)])
            self.old = values_of(log)
            self.new = [value for value in self.old if value != b"compacted away"]
            files = log_files(log)
        self.bases = list(files)[:2]
        self.next_base = list(files)[2]
        assert len(files) > 3
        parts = [files[base].read_bytes() for base in self.bases]
        first, second = batch_sizes(parts[0])[:2]
        self.merged = parts[0][:first] + parts[0][first + second :] + parts[1]
        self.aborted = (self.path / f"{0:020d}.txnindex").read_bytes()

    def write(self, suffix: str, base: int = 0, data: bytes | None = None) -> None:
        """The new form, under a suffix. Its indexes are empty: hints, which the next open rebuilds."""
        contents = {".log": self.merged if data is None else data, ".txnindex": self.aborted}
        for kind in SUFFIXES:
            (self.path / f"{base:020d}{kind}{suffix}").write_bytes(contents.get(kind, b""))

    def remove(self, *bases: int) -> None:
        for base in bases:
            for kind in SUFFIXES:
                (self.path / f"{base:020d}{kind}").unlink(missing_ok=True)

    def rename(self, *kinds: str) -> None:
        for kind in kinds:
            name = self.path / f"{0:020d}{kind}"
            name.with_name(name.name + ".swap").rename(name)

    def is_settled(self) -> bool:
        return not [name for name in os.listdir(self.path) if name.endswith((".swap", ".cleaned"))]


def batch_sizes(data: bytes) -> list[int]:
    sizes = []
    while sum(sizes) < len(data):
        sizes.append(int.from_bytes(data[sum(sizes) + 8 : sum(sizes) + 12], "big") + 12)
    return sizes


def cleaned(c: Compaction) -> None:
    c.write(".cleaned")


def swap(c: Compaction) -> None:
    c.write(".swap")


def one_gone(c: Compaction) -> None:
    c.write(".swap")
    c.remove(c.bases[1])


def all_gone(c: Compaction) -> None:
    c.write(".swap")
    c.remove(*c.bases)


def log_renamed(c: Compaction) -> None:
    all_gone(c)
    c.rename(".log")


def one_left(c: Compaction) -> None:
    all_gone(c)
    c.rename(".log", ".index", ".timeindex")


def half_a_split(c: Compaction) -> None:
    """One segment became two, of which one is whole: the old one is all there."""
    c.write(".cleaned")
    c.write(".swap", c.bases[1], b"")


OLD, NEW = (cleaned, half_a_split), (swap, one_gone, all_gone, log_renamed, one_left)


@pytest.mark.parametrize("state", [*OLD, *NEW])
def test_a_swap_that_was_cut_off_is_finished(tmp_path, state):
    compaction = Compaction(tmp_path)
    state(compaction)
    wanted = compaction.new if state in NEW else compaction.old
    for _ in range(2):
        with Log.open(compaction.path, **SETTINGS) as log:
            assert values_of(log) == wanted
            assert values_of(log, isolation="read_committed") == [v for v in wanted if v != b"aborted"]
            assert log.append([(b"k", b"more")]).first_offset == log.log_end_offset - 1
            wanted = [*wanted, b"more"]
        assert compaction.is_settled()
    assert (compaction.path / f"{compaction.bases[1]:020d}.log").exists() == (state in OLD)


@pytest.mark.parametrize("state", [half_a_split, *NEW])
def test_finishing_a_swap_may_be_cut_off_anywhere_and_is_done_again(tmp_path, state):
    compaction = Compaction(tmp_path / "w")
    state(compaction)
    wanted = compaction.new if state in NEW else compaction.old
    for nth in range(1, 100):
        path = shutil.copytree(tmp_path / "w", tmp_path / str(nth)) / "t-0"
        files = FaultyFiles()
        files.fail("change", nth, times=-1)
        try:
            Log.open(path, files=files, **SETTINGS).close()
        except StorageError:
            pass
        done = not files.fired()
        with Log.open(path, **SETTINGS) as log:
            assert values_of(log) == wanted
            assert values_of(log, isolation="read_committed") == [v for v in wanted if v != b"aborted"]
        if done:
            break
    assert nth > 5


def test_what_is_replaced_is_gone_for_good_before_anything_takes_its_place(tmp_path):
    """Else a power cut that keeps the new name and loses the removal leaves two segments with one offset."""
    compaction = Compaction(tmp_path)
    swap(compaction)
    files = FaultyFiles()
    files.record()
    Log.open(compaction.path, files=files, **SETTINGS).close()
    calls = [(op, os.path.basename(path)) for op, path, *_ in files.recorded()]
    removed = calls.index(("unlink", f"{compaction.bases[1]:020d}.log"))
    renamed = calls.index(("rename", f"{0:020d}.log"))
    kinds = [name for op, name in calls[renamed:] if op == "rename" and name.startswith(f"{0:020d}.")]
    assert ("fsync_dir", "t-0") in calls[removed:renamed]
    assert kinds[0] == f"{0:020d}.log"


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty"])
def test_a_damaged_swap_is_refused_and_nothing_is_changed(tmp_path, damage):
    compaction = Compaction(tmp_path)
    data = bytearray(compaction.merged)
    data[100] ^= 1
    compaction.write(".swap", data={"flipped": bytes(data), "cut": compaction.merged[:-1], "empty": b""}[damage])
    before = tree(compaction.path)
    settings = SETTINGS | ({"cleanup_policy": "delete"} if damage == "empty" else {})
    with pytest.raises(DamagedLogError, match=r"compaction was interrupted.*nothing was changed") as caught:
        Log.open(compaction.path, **settings)
    assert caught.value.path == str(compaction.path / f"{0:020d}.log.swap")
    assert tree(compaction.path) == before


def test_a_reader_is_told_that_a_swap_is_not_finished(tmp_path):
    """The old segments may be gone already: what is left would read as a log with a hole."""
    compaction = Compaction(tmp_path)
    one_gone(compaction)
    with pytest.raises(NotALogError, match=r"segment swap is in progress.*open it once"):
        Log.open(compaction.path, read_only=True)
    Log.open(compaction.path, **SETTINGS).close()
    with Log.open(compaction.path, read_only=True) as reader:
        assert values_of(reader) == compaction.new


def test_other_files_with_the_suffix_of_a_swap_take_nobodys_place(tmp_path):
    """Such a name was taken for that of a segment: it raised ValueError, or the file replaced another one."""
    compaction = Compaction(tmp_path)
    swap(compaction)
    (compaction.path / "partition.metadata.swap").write_bytes(b"old")
    (compaction.path / "logstore.mine.cleaned").write_bytes(b"half")
    with Log.open(compaction.path, **SETTINGS) as log:
        assert values_of(log) == compaction.new
    assert not (compaction.path / "partition.metadata").exists()
