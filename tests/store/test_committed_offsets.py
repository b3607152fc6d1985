"""Committed offsets: what is stored comes back, in this process, after a restart and beside the writer."""

from __future__ import annotations

import errno
import itertools

import pytest

import logstore
import logstore.log
from logstore.config.store import StoreConfig
from logstore.errors import (
    CorruptRecordError,
    DiskFullError,
    InvalidGroupError,
    InvalidOffsetError,
    OffsetMetadataTooLargeError,
    ReadOnlyError,
    UnknownPartitionError,
    UnknownTopicError,
)
from logstore.groups.offsets import decode_key, decode_value
from logstore.log.read.replica import ReaderReplica
from logstore.records import Ack, TopicPartition
from logstore.store.committed_offsets import CommittedOffsets, OffsetAndMetadata
from logstore.testing import ManualClock
from logstore.testing._faults import FaultyFiles
from logstore.topic_names import CONSUMER_OFFSETS

A, B = TopicPartition("flights", 0), TopicPartition("flights", 1)
DAY_MS = 86_400_000


@pytest.fixture
def store(tmp_path):
    with logstore.open(tmp_path, clock=ManualClock()) as store:
        store.create_topic("flights", 2)
        yield store


@pytest.fixture
def offsets(store):
    return CommittedOffsets(store._host)


def numbers(found):
    return {partition: commit.offset for partition, commit in found.items()}


@pytest.mark.row("C11", part="one process")
def test_what_is_committed_is_there_and_after_a_restart(tmp_path, store, offsets):
    offsets.commit("crew", {A: 5, B: OffsetAndMetadata(7, "seven", 3)})
    offsets.commit("crew", {A: 6})
    offsets.commit("tower", {A: 1})
    store.close()
    with logstore.open(tmp_path, clock=store._host.clock) as again:
        found = CommittedOffsets(again._host)
        assert numbers(found.committed("crew")) == {A: 6, B: 7}
        assert found.committed("crew", [B])[B][:4] == (7, "seven", 3, again._host.clock.now_ms())
        assert numbers(found.committed("tower", [A, B])) == {A: 1}
        assert found.committed("nobody") == {}
        assert found.groups() == ["crew", "tower"]


def test_nothing_is_made_before_the_first_commit(store, offsets):
    assert offsets.committed("crew") == {}
    assert offsets.delete("crew") == 0
    assert offsets.groups() == []
    assert CONSUMER_OFFSETS not in store


def test_records_are_those_of_kafka(store, offsets):
    offsets.commit("crew", {B: OffsetAndMetadata(3, "three")})
    (record,) = store[CONSUMER_OFFSETS][0].scan()
    assert decode_key(record.key) == ("crew", B)
    assert decode_value(record.value) == (3, "three", -1, store._host.clock.now_ms(), -1, store.topic("flights").id)


def test_a_group_lies_in_the_partition_of_its_hash(store, offsets):
    CommittedOffsets(store._host, StoreConfig(offsets_topic_num_partitions=50)).commit("crew", {A: 3})
    assert numbers(CommittedOffsets(store._host).committed("crew")) == {A: 3}
    assert [n for n in range(50) if store[CONSUMER_OFFSETS][n].log_end_offset] == [13]


def test_deleted_offsets_are_gone_for_good(store, offsets):
    offsets.commit("crew", {A: 5, B: 7})
    assert offsets.delete("crew", [A, TopicPartition("other", 0)]) == 1
    assert numbers(offsets.committed("crew")) == {B: 7}
    assert offsets.delete("crew") == 1
    for found in (offsets, CommittedOffsets(store._host)):
        assert found.committed("crew") == {}
        assert found.groups() == []


def test_a_deleted_topic_takes_its_offsets_along(store, offsets):
    store.create_topic("other")
    other = TopicPartition("other", 0)
    offsets.commit("crew", {A: 5, other: 1})
    offsets.commit("tower", {B: 2})
    assert offsets.forget_topic("flights") == 2
    assert numbers(offsets.committed("crew")) == {other: 1}
    assert CommittedOffsets(store._host).groups() == ["crew"]


def test_an_offset_of_an_earlier_topic_of_that_name_does_not_count(store, offsets):
    old = store.topic("flights").id
    store.delete_topic("flights")
    store.create_topic("flights", 2)
    # As a crash between the deletion and the tombstones leaves it.
    offsets.commit("crew", {A: OffsetAndMetadata(5, topic_id=old)})
    assert offsets.committed("crew") == {}
    offsets.commit("crew", {A: 1})
    assert numbers(offsets.committed("crew")) == {A: 1}


def test_a_read_only_store_follows_and_commits_nothing(tmp_path, store, offsets):
    with logstore.open(tmp_path, read_only=True) as reading:
        beside = CommittedOffsets(reading._host)
        assert beside.committed("crew") == {}
        offsets.commit("crew", {A: 5})
        assert numbers(beside.committed("crew")) == {A: 5}
        offsets.commit("crew", {A: 6, B: 1})
        offsets.delete("crew", [B])
        assert numbers(beside.committed("crew")) == {A: 6}
        with pytest.raises(ReadOnlyError, match="crew"):
            beside.commit("crew", {A: 7})
        assert numbers(offsets.committed("crew")) == {A: 6}


def test_what_the_writer_took_back_is_taken_back_here(tmp_path, store, offsets):
    offsets.commit("crew", {A: 5})
    with logstore.open(tmp_path, read_only=True) as reading:
        beside = CommittedOffsets(reading._host)
        offsets.commit("crew", {A: 9})
        assert numbers(beside.committed("crew")) == {A: 9}
        store[CONSUMER_OFFSETS][0].replica.truncate_to(1)
        # As long as before, so that only the generation tells.
        offsets.commit("tower", {A: 2})
        for found in (beside, offsets):
            assert numbers(found.committed("crew")) == {A: 5}
            assert numbers(found.committed("tower")) == {A: 2}


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({A: -1}, InvalidOffsetError),
        ({A: 1, B: OffsetAndMetadata(1, "m" * 4097)}, OffsetMetadataTooLargeError),
        ({A: 1, TopicPartition("flights", 2): 1}, UnknownPartitionError),
        ({A: 1, TopicPartition("nowhere", 0): 1}, UnknownTopicError),
    ],
)
def test_a_bad_commit_stores_nothing(store, offsets, given, error):
    with pytest.raises(error):
        offsets.commit("crew", given)
    with pytest.raises(InvalidGroupError):
        offsets.commit("", {A: 1})
    assert offsets.groups() == []
    assert CONSUMER_OFFSETS not in store


def test_old_offsets_expire_unless_a_member_reads(store, offsets):
    class Holder:
        pass

    holder = Holder()
    offsets.commit("old", {A: 1, B: 2})
    offsets.commit("own-time", {A: OffsetAndMetadata(1, expire_ms=store._host.clock.now_ms() + DAY_MS)})
    offsets.commit("held", {A: 1})
    offsets.pin("held", holder)
    store._host.clock.advance(6 * DAY_MS)
    offsets.commit("young", {A: 1})
    assert offsets.expire() == 1
    store._host.clock.advance(DAY_MS - 1)
    assert offsets.expire() == 0
    store._host.clock.advance(1)
    assert offsets.expire() == 2
    assert CommittedOffsets(store._host).groups() == ["held", "young"]
    offsets.unpin(holder)
    assert offsets.expire() == 1
    assert offsets.groups() == ["young"]


def test_a_synced_commit_is_on_disk_on_return(store, offsets):
    offsets.commit("crew", {A: 1})
    log = store[CONSUMER_OFFSETS][0]
    assert log.synced_end == 0
    offsets.commit("crew", {A: 2}, ack="synced")
    assert log.synced_end == 2
    offsets.commit("crew", {A: 3}, ack=Ack.WRITTEN)
    assert log.synced_end == 2


def test_other_records_of_the_topic_are_stepped_over(store, offsets):
    offsets.commit("crew", {A: 1})
    store[CONSUMER_OFFSETS][0].append([(b"\0\x02\0\x04crew", b"members"), (b"\0\x0ccrew", None)])
    offsets.commit("crew", {A: 2})
    for found in (offsets, CommittedOffsets(store._host)):
        assert numbers(found.committed("crew")) == {A: 2}


def test_a_record_that_cannot_be_read_is_named(store, offsets):
    offsets.commit("crew", {A: 1})
    store[CONSUMER_OFFSETS][0].append([(b"\0\x01\0\x40crew", b"")])
    with pytest.raises(CorruptRecordError, match="__consumer_offsets") as caught:
        offsets.committed("crew")
    assert caught.value.offset == 1
    assert caught.value.path.endswith("__consumer_offsets-0")


def test_offsets_of_an_aborted_transaction_do_not_count(store, offsets):
    from logstore.groups.offsets import OffsetKey, encode_key, encode_value
    from logstore.log import ProducerStamp
    from logstore.records import Marker

    offsets.commit("crew", {A: 1})
    log = store[CONSUMER_OFFSETS][0]
    for number, marker in enumerate((Marker.ABORT, Marker.COMMIT)):
        record = (encode_key(OffsetKey("crew", A)), encode_value(OffsetAndMetadata(50 + number, commit_ms=0)))
        log.append([record], producer=ProducerStamp(7, 0, number, transactional=True))
        assert offsets.committed("crew")[A].offset == 1
        log.replica.append_control(marker, producer_id=7, producer_epoch=0)
        assert offsets.committed("crew")[A].offset == (51 if marker is Marker.COMMIT else 1)


def test_a_full_disk_stores_nothing_and_heals(tmp_path):
    files = FaultyFiles()
    with logstore.open(tmp_path, files=files) as store:
        store.create_topic("flights", 2)
        offsets = CommittedOffsets(store._host)
        offsets.commit("crew", {A: 1})
        files.fail("pwrite", errno=errno.ENOSPC, times=-1, path_contains=CONSUMER_OFFSETS)
        with pytest.raises(DiskFullError):
            offsets.commit("crew", {A: 2, B: 2})
        assert numbers(offsets.committed("crew")) == {A: 1}
        files.heal()
        offsets.commit("crew", {A: 3})
        for found in (offsets, CommittedOffsets(store._host)):
            assert numbers(found.committed("crew")) == {A: 3}


def test_an_offset_that_is_committed_again_while_the_old_one_expires_stays(store, offsets, monkeypatch):
    store.topic("flights").append_many([b"x"] * 9, partition=0)
    offsets.commit("crew", {A: 3})
    forget = offsets._forget

    def commit_first(doomed):
        offsets.commit("crew", {A: 7})
        return forget(doomed)

    monkeypatch.setattr(offsets, "_forget", commit_first)
    offsets.expire(store._host.clock.now_ms() + 8 * DAY_MS)
    assert numbers(offsets.committed("crew")) == {A: 7}
    assert numbers(CommittedOffsets(store._host).committed("crew")) == {A: 7}


def test_a_deleted_topic_takes_no_offset_of_the_next_one_along(store, offsets):
    offsets.commit("crew", {A: 3})
    old = store.topic("flights").id
    store._host.topics_table.delete(["flights"])
    store.create_topic("flights", 2)
    offsets.commit("crew", {A: 1})
    offsets.commit("tower", {A: OffsetAndMetadata(2, topic_id=old)})
    assert offsets.forget_topic("flights", old) == 1
    assert numbers(offsets.committed("crew")) == {A: 1}


def test_files_that_keep_being_swapped_hide_no_offset(store, offsets, monkeypatch):
    """Else a group would begin where auto.offset.reset says."""
    offsets.commit("crew", {A: 5})
    looks = itertools.count(1_000)
    monkeypatch.setattr(ReaderReplica, "generation", property(lambda self: next(looks)))
    assert numbers(offsets.committed("crew")) == {A: 5}
    assert numbers(CommittedOffsets(store._host).committed("crew")) == {A: 5}
