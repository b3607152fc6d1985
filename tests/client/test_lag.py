"""Lag counts what a reader will really see, and says how old it is."""

from __future__ import annotations

import pytest

import logstore
from logstore import Log
from logstore.client.lag import Lag, lag_of
from logstore.errors import InvalidGroupError
from logstore.log import ProducerStamp
from logstore.records import Isolation, Marker, TopicPartition
from logstore.testing import ManualClock

A, B = TopicPartition("flights", 0), TopicPartition("flights", 1)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def store(tmp_path, clock):
    with logstore.open(tmp_path, clock=clock) as store:
        store.create_topic("flights", 2)
        yield store


def test_lag_is_in_records_and_in_seconds(store, clock):
    for _ in range(10):
        store.topic("flights").append(b"v", partition=0)
        clock.advance(1_000)
    store.commit_offsets("crew", {A: 4, B: 0})
    clock.advance(500)
    assert store.lag("crew") == [Lag(A, 4, 10, 6, 6.5), Lag(B, 0, 0, 0, 0.0)]
    store.commit_offsets("crew", {A: 10})
    assert store.lag("crew", [A]) == [Lag(A, 10, 10, 0, 0.0)]
    assert store.lag("nobody") == []


@pytest.mark.parametrize("enable_auto_commit", [False, True])
@pytest.mark.parametrize("rule", ["earliest", "latest"])
def test_lag_counts_the_partitions_whose_turn_has_not_come(store, rule, enable_auto_commit):
    settings = {"auto.offset.reset": rule, "enable.auto.commit": enable_auto_commit}
    for number in (0, 1):
        store.topic("flights").append_many([b"early"] * 10, partition=number)
    with store.consumer(settings, group="crew") as consumer:
        consumer.assign_topics(["flights"])
        if rule == "latest":
            assert consumer.poll() == []
            for number in (0, 1):
                store.topic("flights").append_many([b"late"] * 10, partition=number)
        assert len(consumer.poll(max_records=3)) == 3
        if not enable_auto_commit:
            consumer.commit()
    assert sum(lag.records for lag in store.lag("crew")) == 17


def test_what_is_deleted_is_lost_and_no_lag(store):
    store.topic("flights").append_many([b"v"] * 10, partition=0)
    store.commit_offsets("crew", {A: 2})
    store.topic("flights").delete_records({0: 7})
    (lag,) = store.lag("crew")
    assert (lag.records, lag.lost, lag.offset, lag.end_offset) == (3, 5, 2, 10)
    store.topic("flights").delete_records({0: 10})
    (lag,) = store.lag("crew")
    assert (lag.records, lag.lost, lag.seconds) == (0, 8, 0.0)


def test_markers_and_aborted_records_are_no_lag(store, clock):
    log = store["flights"][0]
    for sequence, marker in ((0, Marker.ABORT), (3, Marker.COMMIT)):
        log.append([b"v"] * 3, producer=ProducerStamp(1, 0, sequence, transactional=True))
        log.replica.append_control(marker, producer_id=1, producer_epoch=0)
        clock.advance(1_000)
    log.append([b"open"] * 5, producer=ProducerStamp(1, 0, 6, transactional=True))
    store.commit_offsets("crew", {A: 0})
    (all_,) = store.lag("crew")
    (committed,) = store.lag("crew", isolation="read_committed")
    # By offsets it would be 13 and 8.
    assert (all_.records, all_.end_offset, all_.seconds) == (11, 13, 2.0)
    assert (committed.records, committed.end_offset, committed.seconds) == (3, 8, 1.0)


def test_gaps_are_no_lag(tmp_path, clock):
    from logstore.records import Origin
    from tests.kit.logs import at, one_batch

    with Log.open(tmp_path / "flights-0", clock=clock) as log:
        for first in (0, 100, 1_000_000):
            batch = one_batch([b"a", b"b"], timestamp_ms=clock.now_ms())
            log.replica.append_batch(at(batch, first), origin=Origin.REPLICATION)
        clock.advance(250)
        assert lag_of(log, 1, clock.now_ms()) == Lag(A, 1, 1_000_002, 5, 0.25)
        assert lag_of(log, 50, clock.now_ms()).records == 4
        assert lag_of(log, 1_000_001, clock.now_ms()).records == 1


def test_an_offset_beyond_the_end_and_a_time_ahead_of_the_clock_are_no_lag(store, clock):
    ahead = clock.now_ms() + 60_000
    store.topic("flights").append(b"v", partition=0, timestamp=ahead)
    assert lag_of(store["flights"][0], 0, clock.now_ms()) == Lag(A, 0, 1, 1, 0.0)
    assert lag_of(store["flights"][0], 99, clock.now_ms()) == Lag(A, 99, 1, 0, 0.0)


def test_a_topic_that_is_gone_has_no_lag(store):
    store.commit_offsets("crew", {A: 0})
    store.delete_topic("flights")
    assert store.lag("crew") == []
    with pytest.raises(InvalidGroupError):
        store.lag("")


def test_a_reader_beside_the_writer_sees_the_same_lag(tmp_path, store):
    store.topic("flights").append_many([b"v"] * 10, partition=0)
    store.commit_offsets("crew", {A: 2})
    with logstore.open(tmp_path, read_only=True, clock=store._host.clock) as reading:
        assert reading.lag("crew") == store.lag("crew")
        store.topic("flights").append_many([b"v"] * 10, partition=0)
        store.commit_offsets("crew", {A: 5})
        assert [lag.records for lag in reading.lag("crew")] == [15]
        assert lag_of(reading["flights"][0], 0, 0, Isolation.READ_COMMITTED).records == 20
