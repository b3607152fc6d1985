"""Topics whose directories a power cut may take, as no log of them was ever opened: they are empty, not lost."""

from __future__ import annotations

import shutil

import pytest

import logstore
from logstore.client.backend.findings import Level
from logstore.errors import LogstoreError, NotALogError
from logstore.log.directory.files import Directory
from logstore.records import NewTopic, TopicPartition
from logstore.store.admin.diagnosis import diagnose
from logstore.store.catalog import layout
from logstore.store.catalog.topic_list import Catalogue
from logstore.store.catalog.topics import Topics
from logstore.testing import ManualClock, SimDisk
from tests.crash.store_workload import ROOT, open_store

pytestmark = [pytest.mark.crash, pytest.mark.row("S20", part="power cuts")]

NAMES = ("a", "b", "c")


def made(disk: SimDisk, *, names=NAMES) -> None:
    with open_store(disk) as store:
        store.create_topics([NewTopic(name, 2) for name in names])


def is_synced(disk: SimDisk) -> dict[str, bool]:
    found = Catalogue.load(Directory(ROOT, disk))
    assert found is not None
    return {name: entry.is_synced for name, entry in found.topics.items()}


@pytest.fixture
def bare():
    """A disk on which a power cut has taken every directory of new topics."""
    disk = SimDisk()
    made(disk)
    cut = disk.crash("none")
    assert not [name for name in Directory(ROOT, cut).names() if name.startswith("a-")]
    assert is_synced(cut) == dict.fromkeys(NAMES, False)
    return cut


def test_topics_are_durable_and_their_directories_follow(bare):
    with open_store(bare) as store:
        assert store.topics() == list(NAMES)
        store["a"].append(b"one", partition=1, ack="synced")
        with open_store(bare.crash("none")) as after:
            assert [record.value for record in after["a"].read(1)] == [b"one"]
            assert after.describe_topic("b").partitions[0].log_end_offset == 0


def test_a_reader_finds_them_empty_and_sees_what_is_written_later(bare):
    with logstore.open(ROOT, files=bare, read_only=True, clock=ManualClock()) as reader:
        assert reader["a"].scan().count() == 0
        assert len(reader.describe_topic("b").partitions) == 2
        log = reader["c"][0]
        assert (log.log_start_offset, log.log_end_offset) == (0, 0)
        with open_store(bare) as store:
            store["c"].append(b"one", partition=0)
            assert [record.value for record in log.scan()] == [b"one"]
            assert reader["a"].scan().count() == 0
        assert reader["c"].scan().count() == 1


def test_doctor_finds_nothing_missing(bare):
    assert not [found for found in diagnose(ROOT, table=bare) if found.level is Level.PROBLEM]


def test_they_grow_change_and_are_deleted(bare):
    with open_store(bare) as store:
        store.add_partitions("a", 4)
        store.alter_topic("b", {"retention.ms": 5})
        store.delete_topic("c")
        assert is_synced(bare)["a"]
        store.alter_topic("a", {"cleanup.policy": "compact"})
    with open_store(bare.crash("none")) as store:
        assert [len(store[name].partitions) for name in store.topics()] == [4, 2]
        assert store["b"].config.retention_ms == 5


def test_settings_that_open_the_logs_keep_what_they_noted():
    disk = SimDisk()
    made(disk)
    with open_store(disk) as store:
        store.alter_topic("a", {"cleanup.policy": "compact"})
    assert is_synced(disk)["a"]


def test_a_snapshot_has_them(bare):
    with open_store(bare) as store:
        store.snapshot("/copy")
    with logstore.open("/copy", files=bare, clock=ManualClock()) as copy:
        assert [len(copy[name].partitions) for name in copy.topics()] == [2, 2, 2]


def test_a_directory_that_is_emptied_in_part_is_made_whole():
    disk = SimDisk()
    made(disk)
    Directory(f"{ROOT}/a-0", disk).remove("logstore.recovery")
    Directory(f"{ROOT}/a-0", disk).replace("partition.metadata", b"", durable=True)
    with open_store(disk) as store:
        store["a"].append(b"one", partition=0)
    told = layout.read_partition_metadata(Directory(f"{ROOT}/a-0", disk))
    assert told == store._host.table.entry("a").id


def test_new_topics_are_made_durable_together_and_few_at_a_time():
    disk = SimDisk()
    names = [f"t{number:03d}" for number in range(100)]
    made(disk, names=names)
    with open_store(disk) as store:
        store["t050"].append(b"one", partition=0)
        synced = [name for name, is_done in is_synced(disk).items() if is_done]
        assert "t050" in synced
        assert 16 <= len(synced) <= 40
        # Another of them costs no sync of its own.
        assert is_synced(disk)[synced[1]]
        disk.fail("mkdir", 1, times=-1, errno=28, path_contains="t09")
        shown = disk.crash("none")
    assert [name for name, is_done in is_synced(shown).items() if is_done] == synced


def test_where_others_fail_the_one_that_is_used_is_made():
    disk = SimDisk()
    made(disk)
    with open_store(disk) as store:
        disk.fail("fsync_dir", 1, times=-1, errno=5, path_contains="/b-")
        store["c"].append(b"one", partition=0, ack="synced")
        disk.heal()
    assert is_synced(disk) == {"a": False, "b": False, "c": True}


def lost(disk: SimDisk) -> bool:
    """Append to a topic, lose its directory; whether the store says so."""
    made(disk)
    with open_store(disk) as store:
        store["a"].append(b"one", partition=0)
    Directory(f"{ROOT}/a-0", disk).remove_tree()
    for read_only in (True, False):
        with logstore.open(ROOT, files=disk, read_only=read_only, clock=ManualClock()) as store:
            try:
                assert store["a"].scan().count() == 0
            except NotALogError:
                continue
        return False
    return True


def test_a_partition_that_was_used_and_is_gone_is_lost():
    assert lost(SimDisk())


def test_planted_a_used_topic_that_is_taken_for_a_new_one_is_found(monkeypatch):
    monkeypatch.setattr(Topics, "make", lambda self, name: None)
    assert not lost(SimDisk())


def first_use() -> list[str]:
    """Cut the power after every operation of the first use of a topic; what is not whole then."""
    disk = SimDisk()
    made(disk)
    broken = []
    with open_store(disk) as store:
        disk.keep_moments()
        store["a"].append(b"one", partition=0, ack="synced")
        disk_after = disk.moment_count
        store["b"].append(b"two", partition=1, ack="synced")
        for at, moment in enumerate(disk.moments()):
            for policy in ("none", "all", "lost", "reordered"):
                after = moment.crash(policy, seed=at, page_bytes=512)
                try:
                    with open_store(after) as found:
                        counts = {name: found[name].scan().count() for name in NAMES}
                        assert counts["a"] == 1 or at < disk_after - 1
                        assert counts["c"] == 0
                except (AssertionError, LogstoreError) as error:
                    broken.append(str(error))
    return broken


def test_a_power_cut_in_the_first_use_loses_nothing():
    assert first_use() == []


def test_planted_topics_that_are_noted_before_their_directories_are_durable_are_found(monkeypatch):
    monkeypatch.setattr(layout, "make_partitions", layout.begin_partitions)
    assert any("its directory " in each for each in first_use())


def test_a_partition_of_an_earlier_store_has_no_mark_and_is_lost_when_it_is_gone(tmp_path):
    with logstore.open(tmp_path / "s") as store:
        store.create_topic("t", 2).append(b"one", partition=1)
    shutil.rmtree(tmp_path / "s" / "t-0")
    with logstore.open(tmp_path / "s") as store, pytest.raises(NotALogError, match="its directory is gone"):
        store._host.partitions.get(TopicPartition("t", 0))
