"""A store for one test: in memory, on a clock that stands still, gone at the end."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

import logstore
from logstore.errors import StorageError, StoreClosedError, UnknownSettingError, UnknownTopicError
from logstore.testing import FaultyFiles, ManualClock, SimDisk, after_power_cut, temporary_store
from logstore.testing.clock import START_MS


def test_a_temporary_store_touches_no_disk_and_is_closed_at_the_end(tmp_path: Path) -> None:
    before = set(os.listdir("/"))
    with temporary_store(num_partitions=3) as store:
        topic = store.create_topic("flights")
        assert topic.partition_count == 3
        assert topic.append(b"AA 1141").timestamp_ms == START_MS
        assert isinstance(store._host.files, SimDisk)
        assert isinstance(store._host.clock, ManualClock)
    assert set(os.listdir("/")) == before
    with pytest.raises(StoreClosedError):
        store.topics()


def test_two_temporary_stores_are_two_worlds() -> None:
    with temporary_store() as one, temporary_store() as two:
        one.create_topic("flights")
        assert two.topics() == []


def test_it_may_lie_on_the_machines_disk(tmp_path: Path) -> None:
    with temporary_store(path=tmp_path / "data") as store:
        store.create_topic("flights").append(b"AA 1141")
    with logstore.open(tmp_path / "data") as store:
        assert [record.value for record in store.topic("flights").scan()] == [b"AA 1141"]
    files = FaultyFiles()
    with temporary_store(path=tmp_path / "faulty", files=files) as store:
        files.fail("pwrite", times=-1)
        with pytest.raises(StorageError):
            store.create_topic("flights").append(b"AA 1141")
        files.heal()


def test_a_seed_repeats_what_is_left_to_chance() -> None:
    def drawn(seed: int) -> tuple[str, list[int]]:
        with temporary_store(seed=seed) as store:
            store.create_topic("t", 5)
            with store.producer(partitioner="random") as producer:
                futures = [producer.send("t", b"v") for _ in range(20)]
            assert store._host.rng is not None
            return store._host.cluster_id, [future.result().partition for future in futures]

    assert drawn(1) == drawn(1)
    assert drawn(1)[1] != drawn(2)[1]


def test_settings_of_the_environment_do_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGSTORE_NUM_PARTITIONS", "7")
    with temporary_store() as store:
        assert store.create_topic("t").partition_count == 1
    with pytest.raises(UnknownSettingError), temporary_store(num_partition=1):
        pass


@pytest.mark.row("S20", part="what is missing is told")
def test_a_power_cut_leaves_what_was_synced() -> None:
    with temporary_store() as store:
        flights = store.create_topic("flights", segment_bytes=1 << 16)
        flights.append_many([b"%d" % n for n in range(10)], ack="synced")
        flights.append_many([b"lost"] * 5)
        with after_power_cut(store) as found:
            assert [record.value for record in found.topic("flights").scan()] == [b"%d" % n for n in range(10)]
            assert found.topic("flights").config.segment_bytes == 1 << 16
            found.topic("flights").append(b"later")
        with after_power_cut(store, "all") as found:
            assert found.topic("flights").scan().count() == 15
        assert flights.scan().count() == 15  # this one has not noticed anything
        with after_power_cut(store, "torn", seed=3, clock=ManualClock(5)) as found:
            assert 10 <= found.topic("flights").scan().count() <= 15
            assert found._host.clock.now_ms() == 5


def test_a_topic_that_was_not_acknowledged_is_whole_or_not_there() -> None:
    with temporary_store() as store:
        disk = store._host.files
        assert isinstance(disk, SimDisk)
        disk.keep_moments()
        store.create_topic("flights", 2)
        found = []
        for moment in disk.moments():
            with temporary_store(path=store.path, files=moment.crash("none")) as after:
                try:
                    found.append(after.topic("flights").partition_count)
                except UnknownTopicError:
                    found.append(0)
        assert set(found) == {0, 2}
        assert found[-1] == 2


def test_only_a_simulated_disk_has_power_to_cut(tmp_path: Path) -> None:
    with temporary_store(path=tmp_path / "data") as store:
        with pytest.raises(ValueError, match="only a SimDisk loses power"), after_power_cut(store):
            pass


def test_the_fixtures_are_one_store_on_one_disk_and_one_clock(
    logstore_store: logstore.Store, logstore_disk: SimDisk, logstore_clock: ManualClock
) -> None:
    assert logstore_store._host.files is logstore_disk
    assert logstore_store._host.clock is logstore_clock
    logstore_clock.advance(5)
    assert logstore_store.create_topic("t").append(b"v").timestamp_ms == START_MS + 5
    assert isinstance(logstore_store._host.rng, random.Random)
