"""Repair of a partition: indexes rebuilt, damage cut off and kept, at every point of a power cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from logstore import Log, LogConfig
from logstore.errors import CorruptRecordError, DamagedLogError, DirectoryLockedError, DiskFullError, NotALogError
from logstore.log.directory.files import Directory
from logstore.log.formats import checkpoints
from logstore.log.tools import repair, verify
from logstore.records import TopicPartition
from logstore.testing import SimDisk
from tests.log.logs import open_log, tree, values_of
from tests.log.tools.test_verify import VALUES, flip, logs, partition, problems

__all__ = ["partition"]

SETTINGS = {"segment_bytes": 400, "index_interval_bytes": 150}


def cut(path: Path) -> repair.Cut | None:
    return repair.cut_damage(Directory(path))


def test_indexes_are_made_again_as_they_were(partition):
    whole = {path.name: path.read_bytes() for path in partition.glob("*index")}
    for path in partition.glob("*index"):
        path.write_bytes(b"rubbish!" * 3)
    assert problems(partition)
    made = repair.rebuild_indexes(verify.find(partition), LogConfig(index_interval_bytes=200))
    assert sorted(Path(path).name for path in made) == sorted(whole)
    assert {path.name: path.read_bytes() for path in partition.glob("*index")} == whole
    assert problems(partition) == []


def test_the_index_of_one_segment_is_made_again_and_no_other(partition):
    first, second = (path.with_suffix(".index") for path in logs(partition)[:2])
    first.unlink()
    second.unlink()
    repair.rebuild_indexes(verify.find(logs(partition)[0]))
    assert first.exists()
    assert not second.exists()


def test_damage_is_cut_off_and_kept_and_the_log_opens_again(partition):
    whole = {path.name: path.read_bytes() for path in logs(partition)}
    path = logs(partition)[1]
    found = list(verify.batches(str(path)))[2]
    offset, position = found.batch.base_offset, found.position
    flip(path, position + 70)
    damaged = path.read_bytes()
    with open_log(partition.parent, read_only=True) as reader, pytest.raises(CorruptRecordError):
        values_of(reader)
    done = cut(partition)
    assert done is not None
    assert (done.offset, done.path, done.position) == (offset, str(path), position)
    kept = {file.name: file.read_bytes() for file in (partition / ".repaired" / "1").iterdir()}
    behind = {name: data for name, data in whole.items() if name > path.name}
    assert kept == {f"{path.name}.from-{position}": damaged[position:], **behind}
    assert done.size == sum(len(data) for data in kept.values())
    assert problems(partition, deep=True) == []
    with open_log(partition.parent, segment_bytes=3_000) as log:
        assert log.log_end_offset == offset
        assert values_of(log) == VALUES[:offset]
        assert log.append([b"goes on"], ack="synced").first_offset == offset
    with open_log(partition.parent, read_only=True) as reader:
        assert values_of(reader) == [*VALUES[:offset], b"goes on"]
    assert cut(partition) is None


def test_what_is_appended_behind_a_repair_is_not_taken_for_compacted(partition):
    compacted = partition / checkpoints.COMPACTED
    compacted.write_bytes(checkpoints.encode_compacted(len(VALUES)))
    kafkas = partition.parent / checkpoints.CLEANER_OFFSETS
    name = TopicPartition("t", 0)
    kafkas.write_bytes(checkpoints.write_offsets({name: len(VALUES), TopicPartition("other", 0): 9_999}))
    flip(logs(partition)[1], 70)
    done = cut(partition)
    assert done is not None
    assert checkpoints.decode_compacted(compacted.read_bytes()) == done.offset
    assert checkpoints.read_offsets(kafkas.read_bytes(), "") == {
        name: done.offset,
        TopicPartition("other", 0): 9_999,
    }


def test_a_second_repair_keeps_its_own_beside_the_first(partition):
    for number in (2, 1):
        flip(logs(partition)[number], 70)
        done = cut(partition)
        assert done is not None
        assert Path(done.kept).name == str(3 - number)
    assert sorted(path.name for path in (partition / ".repaired").iterdir()) == ["1", "2"]


def test_a_whole_log_is_left_as_it_is(partition):
    before = tree(partition)
    assert cut(partition) is None
    assert tree(partition) == before


def test_damage_in_the_very_first_batch_leaves_an_empty_log(partition):
    flip(logs(partition)[0], 70)
    done = cut(partition)
    assert done is not None
    assert (done.offset, done.position) == (0, 0)
    with open_log(partition.parent) as log:
        assert (log.log_start_offset, log.log_end_offset) == (0, 0)


def test_missing_offsets_between_whole_segments_cannot_be_cut_away(partition):
    logs(partition)[2].unlink()
    before = tree(partition)
    with pytest.raises(CorruptRecordError, match="restore the segment between"):
        cut(partition)
    assert tree(partition) == before


def test_nothing_is_repaired_under_a_live_owner(tmp_path):
    with open_log(tmp_path) as log:
        log.append(VALUES, ack="synced")
        before = tree(tmp_path)
        for fix in (cut, lambda path: repair.rebuild_indexes(verify.find(path))):
            with pytest.raises(DirectoryLockedError):
                fix(tmp_path / "t-0")
        assert tree(tmp_path) == before


def test_where_there_is_no_log_nothing_is_made(tmp_path):
    (tmp_path / "t-0").mkdir()
    with pytest.raises(NotALogError):
        cut(tmp_path / "t-0")
    assert [path.name for path in tmp_path.rglob("*")] == ["t-0"]


# --- power cuts --------------------------------------------------------------------------------

PATH = "/data/t-0"


def damaged_disk(seed: int) -> tuple[SimDisk, int]:
    """A disk with a closed log of several segments, one bit of it wrong; and the offset of that batch."""
    disk = SimDisk(seed)
    with Log.open(PATH, files=disk, **SETTINGS) as log:
        for start in range(0, 40, 4):
            log.append(VALUES[start : start + 4], timestamp=1_000 + start, ack="synced")
    bases = verify.find(PATH, disk).bases
    assert len(bases) > 3
    path = verify.segments(verify.find(PATH, disk))[1].path
    found = list(verify.batches(path, disk))[1]
    disk.flip(path, (found.position + 70) * 8)
    return disk, found.batch.base_offset


def check_after_power_cut(disk: SimDisk, offset: int) -> bool:
    """The log is damaged as before, or cut, and nothing is lost; whether it is cut.

    Either way it opens, and a second repair brings it to its end.
    """
    with Log.open(PATH, files=disk, **SETTINGS) as log:
        is_cut = log.log_end_offset == offset
        assert is_cut or log.log_end_offset == 40
        if not is_cut:
            assert log.record_at(offset - 1).value == VALUES[offset - 1]
            with pytest.raises(CorruptRecordError):
                log.read(offset)
    again = repair.cut_damage(Directory(PATH, disk))
    assert (again is None) == is_cut
    with Log.open(PATH, files=disk, **SETTINGS) as log:
        assert values_of(log) == VALUES[:offset]
    kept = b"".join(data for path, data in disk.image("/data").items() if "/.repaired/" in path)
    for value in VALUES[offset:40]:
        assert value in kept or offset <= VALUES.index(value) < offset + 4, value
    return is_cut


@pytest.mark.crash
@pytest.mark.row("S20", part="recovery, step by step")
@pytest.mark.parametrize("policy", ["none", "all", "torn", "lost", "reordered"])
def test_a_power_cut_at_any_point_of_a_repair_leaves_the_old_log_or_the_cut_one(policy):
    disk, offset = damaged_disk(1)
    disk.keep_moments()
    assert repair.cut_damage(Directory(PATH, disk)) is not None
    outcomes = {check_after_power_cut(moment.crash(policy, seed=7), offset) for moment in disk.moments()}
    assert outcomes == {False, True}


@pytest.mark.crash
@pytest.mark.row("S20", part="recovery, step by step")
def test_planted_a_repair_that_keeps_nothing_first_is_found(monkeypatch):
    """What is taken away is linked only after it has gone, or never."""
    honest = repair._keep

    def careless(directory, segments, place, position):
        return honest(Directory("/elsewhere/t-0", directory.files), segments, place, position)

    monkeypatch.setattr(repair, "_keep", careless)
    disk, offset = damaged_disk(1)
    Directory("/elsewhere/t-0", disk).create_durably()
    assert repair.cut_damage(Directory(PATH, disk)) is not None
    with pytest.raises(AssertionError, match="value"):
        check_after_power_cut(disk.crash("all"), offset)


@pytest.mark.crash
def test_planted_promises_lowered_last_are_found(monkeypatch):
    """The cut comes first: a power cut behind it finds a promise of what is gone, and no repair has an end."""
    monkeypatch.setattr(repair, "_lower_promises", lambda *args: None)
    disk, offset = damaged_disk(1)
    assert repair.cut_damage(Directory(PATH, disk)) is not None
    with pytest.raises(DamagedLogError):
        check_after_power_cut(disk.crash("all"), offset)


@pytest.mark.crash
def test_without_space_to_keep_it_nothing_is_cut():
    disk, _offset = damaged_disk(1)
    disk.capacity = disk.used_bytes + 10
    before = {path: data for path, data in disk.image("/data").items() if path.startswith(PATH)}
    with pytest.raises(DiskFullError):
        repair.cut_damage(Directory(PATH, disk))
    after = disk.image("/data")
    assert {path: after[path] for path in before} == before
