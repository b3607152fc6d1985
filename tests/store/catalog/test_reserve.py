"""On a full disk a store still takes what empties it: commits, producers, the end of a topic."""

from __future__ import annotations

import errno

import pytest

import logstore
from logstore.errors import DiskFullError
from logstore.records import TopicPartition
from logstore.store.catalog.reserve import RESERVE, RESERVE_BYTES
from logstore.testing import FaultyFiles, ManualClock, SimDisk

pytestmark = pytest.mark.row("S19")

SETTINGS = {"segment.bytes": 64 << 10, "logstore.write.strategy": "extend"}
KEPT = TopicPartition("kept", 0)


@pytest.fixture
def clock():
    return ManualClock()


def fill(topic):
    """Append until nothing more goes in, not even a small record."""

    def append(size):
        for _ in range(1_000):
            topic.append(b"x" * size)

    for size in (4_000, 100, 1):
        with pytest.raises(DiskFullError):
            append(size)


@pytest.fixture
def disk():
    return SimDisk(seed=1, capacity=600 << 10)


@pytest.fixture
def store(disk, clock):
    with logstore.open("/data", SETTINGS, clock=clock, files=disk) as store:
        fill(store.create_topic("kept", 2))
        yield store


def reserve_of(disk) -> int:
    return len(disk.image("/data")[f"/data/{RESERVE}"])


def test_the_first_commit_of_a_store_is_taken_on_a_disk_that_has_run_full(store):
    store.commit_offsets("auditors", {KEPT: 7})
    assert store.committed("auditors", [KEPT])[KEPT].offset == 7
    with pytest.raises(DiskFullError):
        store["kept"].append(b"x" * 60_000)


def test_commits_go_on_and_are_there_after_a_restart_on_the_full_disk(store, disk, clock):
    for offset in range(200):
        store.commit_offsets("auditors", {KEPT: offset})
        if offset == 100:
            fill(store["kept"])
    store.close()
    with logstore.open("/data", SETTINGS, clock=clock, files=disk) as again:
        fill(again["kept"])
        assert again.committed("auditors", [KEPT])[KEPT].offset == 199
        again.commit_offsets("later", {KEPT: 3})
        assert again.committed("later", [KEPT])[KEPT].offset == 3


def test_an_idempotent_producer_is_made_on_a_disk_that_has_run_full(store):
    first = store._host.next_producer_id()
    with store.producer() as producer:
        assert producer is not None
        assert store._host.next_producer_id() == first + 2


def test_a_topic_is_deleted_on_a_disk_that_has_run_full_and_the_reserve_is_there_again(store, disk):
    store.commit_offsets("auditors", {KEPT: 7})
    fill(store["kept"])
    store.delete_topic("kept")
    assert reserve_of(disk) < RESERVE_BYTES
    store.housekeep()
    assert reserve_of(disk) >= RESERVE_BYTES
    store.create_topic("next").append(b"x" * 10_000)


def test_within_a_budget_too(disk, clock):
    settings = {**SETTINGS, "logstore.disk.budget": 10 << 20}
    with logstore.open("/data", settings, clock=clock, files=disk) as store:
        fill(store.create_topic("kept", retention_ms=-1))
        store.commit_offsets("auditors", {KEPT: 7})
        store._host.next_producer_id()
        assert store.committed("auditors", [KEPT])[KEPT].offset == 7


def test_a_topic_of_many_is_deleted_too_whose_catalogue_is_larger_than_the_reserve(clock):
    disk = SimDisk(seed=1, capacity=4 << 20)
    with logstore.open("/data", SETTINGS, clock=clock, files=disk) as store:
        for number in range(600):
            store.create_topic(f"topic-with-a-name-{number}")
        store.housekeep()
        fill(store.create_topic("kept", 1))
        store.delete_topic("kept")


def test_a_reader_commits_on_a_full_disk_that_no_process_writes(store, disk, clock):
    store.commit_offsets("auditors", {KEPT: 1})
    fill(store["kept"])
    store.close()
    with logstore.open("/data", SETTINGS, read_only=True, clock=clock, files=disk) as reader:
        reader.commit_offsets("auditors", {KEPT: 7})
        assert reader.committed("auditors", [KEPT])[KEPT].offset == 7


def test_a_users_topic_takes_nothing_of_the_reserve(store, disk):
    with pytest.raises(DiskFullError):
        store.create_topic("another", 1_000)
    with pytest.raises(DiskFullError):
        store["kept"].append(b"x" * 60_000)
    assert reserve_of(disk) >= RESERVE_BYTES


def test_without_a_reserve_a_full_disk_stores_nothing_and_says_so(store, disk):
    store._host.topics_table.reserve.release(10 * RESERVE_BYTES)
    fill(store["kept"])
    with pytest.raises(DiskFullError):
        store.commit_offsets("auditors", {KEPT: 7})
    assert store.committed("auditors", [KEPT]) == {}
    store["kept"].delete_records({0: -1})
    store.commit_offsets("auditors", {KEPT: 8})
    assert store.committed("auditors", [KEPT])[KEPT].offset == 8


def test_commits_that_cannot_be_reached_on_a_full_disk_are_not_taken_for_none(tmp_path):
    with logstore.open(tmp_path / "data") as store:
        store.create_topic("kept")
        store.commit_offsets("auditors", {KEPT: 7})
    files = FaultyFiles()
    with logstore.open(tmp_path / "data", files=files) as store:
        store._host.topics_table.reserve.release(10 * RESERVE_BYTES)
        files.fail("open", errno=errno.ENOSPC, times=-1, path_contains="__consumer_offsets-0/logstore.published")
        with pytest.raises(DiskFullError):
            store.committed("auditors", [KEPT])
        files.heal()
        assert store.committed("auditors", [KEPT])[KEPT].offset == 7


def test_a_store_opens_without_space_for_its_reserve(tmp_path):
    files = FaultyFiles()
    files.fail("pwrite", errno=errno.ENOSPC, times=-1, path_contains=RESERVE)
    with logstore.open(tmp_path / "data", files=files) as store:
        store.create_topic("kept")
        store.commit_offsets("auditors", {KEPT: 0})
        files.heal()
        store.housekeep()
        assert (tmp_path / "data" / RESERVE).stat().st_size >= RESERVE_BYTES


def test_the_reserve_is_written_once_and_kept_from_one_open_to_the_next(tmp_path):
    for _ in range(2):
        with logstore.open(tmp_path / "data"):
            pass
    stat = (tmp_path / "data" / RESERVE).stat()
    assert stat.st_size >= RESERVE_BYTES
    with logstore.open(tmp_path / "data"):
        pass
    assert (tmp_path / "data" / RESERVE).stat().st_mtime_ns == stat.st_mtime_ns


def test_a_reserve_that_was_deleted_by_hand_is_made_again(store, disk):
    disk.unlink(f"/data/{RESERVE}")
    fill(store["kept"])
    with pytest.raises(DiskFullError):
        store.commit_offsets("auditors", {KEPT: 7})
    store["kept"].delete_records({0: -1})
    store.housekeep()
    assert reserve_of(disk) >= RESERVE_BYTES
