"""What tools see in a partition's files without opening its log: batches, entries, and what is wrong."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from logstore import Log
from logstore.errors import CorruptRecordError, NotALogError
from logstore.log import ProducerStamp
from logstore.log.formats.checkpoints import LogKind
from logstore.log.tools import verify
from logstore.log.tools.verify import Kind
from tests.log.logs import open_log, tree

VALUES = [f"value {n:04}".encode() for n in range(400)]
FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures"


@pytest.fixture
def partition(tmp_path) -> Path:
    """A closed log of several segments, each with index entries."""
    with open_log(tmp_path, segment_bytes=3_000, index_interval_bytes=200) as log:
        for start in range(0, len(VALUES), 4):
            log.append(VALUES[start : start + 4], timestamp=1_000_000 + start, ack="synced")
        assert len(list(tmp_path.glob("t-0/*.log"))) > 4
    return tmp_path / "t-0"


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def logs(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.log"))


def problems(partition: Path, **options) -> list[verify.Problem]:
    return list(verify.verify(verify.find(partition), **options))


def test_a_whole_log_has_no_problem_and_nothing_is_touched(partition):
    before = tree(partition.parent)
    assert problems(partition) == []
    assert problems(partition, deep=True) == []
    assert tree(partition.parent) == before


def test_what_a_memory_tail_holds_is_in_no_snapshot_of_a_segment(tmp_path):
    with open_log(tmp_path, tail="memory") as log:
        for sequence in range(2):
            log.append([b"value"], producer=ProducerStamp(7, 0, sequence, False))
            if sequence == 0:
                log.flush()
        # Seals the segment, which ends before the second append.
        assert log.delete_before(1) == 1
        assert problems(tmp_path / "t-0") == []


def test_every_batch_is_found_with_its_place(partition):
    for path in logs(partition):
        end = 0
        for found in verify.batches(str(path)):
            assert found.position == end
            end += found.batch.size
            values = [record.value for record in verify.records(found, str(path))]
            assert values == VALUES[found.batch.base_offset : found.batch.next_offset]
        assert end == path.stat().st_size


def test_a_file_stands_for_its_segment(partition):
    path = logs(partition)[1]
    for name in (path, path.with_suffix(".index"), path.with_suffix(".timeindex")):
        assert verify.find(name).bases == (int(path.stem),)
    (facts,) = verify.segments(verify.find(path))
    assert (facts.path, facts.size) == (str(path), path.stat().st_size)
    assert facts.index_size == path.with_suffix(".index").stat().st_size


@pytest.mark.parametrize(
    "name", ["missing", "missing/00000000000000000000.log", "t-0/readme.log", "t-0/logstore.recovery"]
)
def test_what_is_no_log_is_refused_with_its_path(partition, name):
    with pytest.raises(NotALogError, match=name):
        verify.find(partition.parent / name)


def test_a_directory_without_segments_is_refused(tmp_path):
    with pytest.raises(NotALogError, match="no segments"):
        verify.find(tmp_path)


@pytest.mark.row("S8")
def test_a_flipped_bit_is_damage_with_file_position_and_offset(partition):
    path = logs(partition)[1]
    found = list(verify.batches(str(path)))[2]
    flip(path, found.position + 70)
    (problem,) = problems(partition)
    assert problem[:4] == (Kind.DAMAGE, str(path), found.position, found.batch.base_offset)
    assert f"damage: {path}, position {found.position}, offset {found.batch.base_offset}: " in str(problem)
    with pytest.raises(CorruptRecordError) as caught:
        list(verify.batches(str(path)))
    assert (caught.value.path, caught.value.position) == (str(path), found.position)
    assert caught.value.offset == found.batch.base_offset


def test_damage_of_promised_bytes_is_told_from_a_torn_tail(partition):
    path = logs(partition)[-1]
    whole = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"\1" * 10)
    (problem,) = problems(partition)
    assert problem[:4] == (Kind.TAIL, str(path), whole, len(VALUES))
    os.truncate(path, whole - 1)
    damage = problems(partition)
    assert {problem.kind for problem in damage if problem.path == str(path)} == {Kind.DAMAGE}


def test_space_that_was_taken_ahead_is_no_problem_but_a_lost_end_is(partition):
    path = logs(partition)[-1]
    whole = path.stat().st_size
    os.truncate(path, whole + 5_000)
    assert problems(partition) == []
    os.truncate(path, 0)
    os.truncate(path, whole)
    assert f"synced up to {len(VALUES)}" in str(problems(partition)[-1])


def test_what_a_live_owner_is_writing_is_not_judged(partition):
    path = logs(partition)[-1]
    with path.open("ab") as file:
        file.write(b"\1" * 10)
    assert problems(partition, is_live=True) == []
    flip(path, 70)
    assert [problem.kind for problem in problems(partition, is_live=True)] == [Kind.DAMAGE]


def test_a_missing_segment_is_damage_unless_gaps_are_meant(partition):
    gone = logs(partition)[2]
    before = logs(partition)[1]
    for suffix in (".log", ".index", ".timeindex"):
        gone.with_suffix(suffix).unlink()
    (problem,) = problems(partition)
    assert problem[:4] == (Kind.DAMAGE, str(before), before.stat().st_size, int(gone.stem))
    assert problems(partition, is_compacted=True) == [problem], "a compaction of ours leaves no gap"
    assert problems(partition, kind=LogKind.GAPPED) == []
    (partition / "logstore.recovery").unlink()
    (partition / "logstore.start").unlink()
    assert [each.what for each in problems(partition)] == [problem.what]
    assert problems(partition, is_compacted=True) == []


def test_a_missing_last_segment_is_damage(partition):
    for suffix in (".log", ".index", ".timeindex"):
        logs(partition)[-1].with_suffix(suffix).unlink(missing_ok=True) if suffix != ".log" else None
    gone = logs(partition)[-1]
    gone.unlink()
    (problem,) = problems(partition)
    assert problem.kind == Kind.DAMAGE
    assert f"synced up to {len(VALUES)}" in problem.what


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_every_flipped_bit_of_an_index_that_matters_is_found(partition, suffix):
    path = logs(partition)[1].with_suffix(suffix)
    whole = path.read_bytes()
    assert len(whole) >= 24
    for position in range(len(whole)):
        flip(path, position)
        found = problems(partition)
        assert found, position
        assert {problem.kind for problem in found} == {Kind.INDEX}
        assert {problem.path for problem in found} == {str(path)}
        path.write_bytes(whole)


def test_an_index_that_is_missing_or_padded_with_zeros_is_no_problem(partition):
    first, second = (path.with_suffix(".index") for path in logs(partition)[:2])
    entries = verify.index_entries(verify.find(partition).directory, 0)
    assert len(entries) > 3
    with first.open("ab") as file:
        file.write(b"\0" * 800)
    second.unlink()
    assert verify.index_entries(verify.find(partition).directory, 0) == entries
    assert problems(partition) == []


@pytest.mark.parametrize("name", ["logstore.recovery", "leader-epoch-checkpoint"])
def test_a_damaged_file_beside_the_segments_is_named(partition, name):
    (partition / name).write_bytes(b"rubbish")
    assert [(problem.kind, problem.path) for problem in problems(partition)] == [
        (Kind.STATE, str(partition / name))
    ]


def test_records_that_contradict_their_batch_are_found_by_looking_deep(partition, monkeypatch):
    path = logs(partition)[0]
    data = bytearray(path.read_bytes())
    size = 12 + int.from_bytes(data[8:12], "big")
    data[57:61] = (3).to_bytes(4, "big")  # one record less than there are
    from logstore.batch._crc32c import crc32c

    data[17:21] = crc32c(bytes(data[21:size])).to_bytes(4, "big")
    path.write_bytes(data)
    found = [problem for problem in problems(partition, deep=True) if problem.kind is Kind.DAMAGE]
    assert [(problem.path, problem.position, problem.offset) for problem in found][:1] == [(str(path), 0, 0)]


def test_what_kafka_wrote_is_inspected_without_a_mark_of_ours(tmp_path):
    copy = tmp_path / "kafka"
    sources = [path for path in sorted(FIXTURES.rglob("*")) if path.is_dir() and list(path.glob("*.log"))]
    assert sources
    for number, source in enumerate(sources):
        target = shutil.copytree(source, copy / str(number) / source.name)
        before = tree(copy)
        assert problems(target, deep=True, is_compacted=True) == []
        assert tree(copy) == before


def test_a_log_is_inspected_beside_its_open_owner(tmp_path):
    with open_log(tmp_path) as log:
        log.append([b"one"])
        assert problems(tmp_path / "t-0", is_live=True) == []
        log.append([b"two"])
        with Log.open(tmp_path / "t-0", read_only=True) as reader:
            assert reader.log_end_offset == 2


def test_an_owner_that_rolls_and_deletes_meanwhile_makes_no_problem(tmp_path):
    seen = 0
    with open_log(tmp_path, segment_bytes=1_000, index_interval_bytes=100) as log:
        log.append(VALUES[:4])
        done = threading.Event()

        def work() -> None:
            while not done.is_set():
                for start in range(0, 40, 4):
                    log.append(VALUES[start : start + 4])
                log.delete_before(max(log.log_end_offset - 60, 0))

        owner = threading.Thread(target=work)
        owner.start()
        try:
            while log.log_start_offset < 100:
                assert problems(tmp_path / "t-0", deep=True, is_live=True) == []
                seen += 1
        finally:
            done.set()
            owner.join()
    assert seen > 1
