"""Names in a log's directory."""

from __future__ import annotations

import random

import pytest

from logstore.errors import NotALogError, StorageError
from logstore.log.directory import files
from logstore.log.directory.files import Directory
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


def test_replacing_a_file_leaves_no_temporary_and_the_old_bytes_to_their_open_readers(tmp_path):
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


def test_a_missing_directory_is_a_storage_error_that_names_it(tmp_path):
    with pytest.raises(StorageError, match="No such file") as caught:
        Directory(tmp_path / "none").names()
    assert isinstance(caught.value.__cause__, FileNotFoundError)
