from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.errors import (
    CoordinatorFencedError,
    DuplicateSequenceError,
    InvalidRecordError,
    InvalidTransactionError,
    OutOfOrderSequenceError,
    ProducerFencedError,
)
from logstore.log._producers import CompletedTransaction, Producers
from logstore.records import AppendResult, Marker, Origin
from tests.log.produced import attempts, batch_of, checked, marker_of, run

SEQUENCES = 2**31
CLIENT, COORDINATOR, REPLICATION = Origin


def producers_after(*batches, **settings) -> Producers:
    producers = Producers(**settings)
    for batch in batches:
        producers.apply(batch)
    return producers


@pytest.mark.row("P13", part="one process")
@pytest.mark.row("T5", part="one process")
@given(attempts(), st.data())
def test_producers_agree_with_the_model(steps, data):
    producers = Producers()
    high_watermark = 0
    for model, batch, origin in run(steps):
        before = copy.deepcopy(list(producers))
        answer = model.check(batch, origin)
        assert checked(producers, batch, origin) == answer
        assert list(producers) == before
        if answer is None:
            opened, completed = model.transactions()
            done = producers.apply(batch)
            model.batches.append(batch)
            opened, now_completed = model.transactions()
            model.batches.pop()
            assert done == (now_completed[-1] if len(now_completed) > len(completed) else None)
            if done is not None:
                assert producers.last_stable_offset_after(done) == min(
                    opened.values(), default=done.last_offset + 1
                )
        else:
            opened, now_completed = model.transactions()
        assert dict(producers.open_transactions) == opened
        high_watermark = data.draw(st.integers(high_watermark, max(high_watermark, batch.base_offset)))
        unstable = [t.first_offset for t in now_completed if t.last_offset >= high_watermark]
        expected = min([*opened.values(), *unstable], default=None)
        assert producers.first_unstable_offset(high_watermark) == expected


# --- idempotence


@pytest.mark.row("P13", part="one process")
def test_the_last_five_batches_are_answered_with_their_first_offsets():
    batches = [batch_of(10 * n, sequence=3 * n, count=3) for n in range(7)]
    producers = producers_after(*batches)
    for batch in batches[2:]:
        assert producers.check(batch._replace(base_offset=99, last_offset=101), CLIENT) == AppendResult(
            batch.base_offset, batch.last_offset, batch.timestamp_ms, duplicate=True
        )
    for batch in batches[:2]:
        with pytest.raises(DuplicateSequenceError):
            producers.check(batch, CLIENT)


@pytest.mark.row("P13", part="one process")
def test_a_gap_is_refused_and_named():
    producers = producers_after(batch_of(0, sequence=0, count=7))
    with pytest.raises(OutOfOrderSequenceError, match="expected sequence 7, found 9"):
        producers.check(batch_of(7, sequence=9), CLIENT)


@pytest.mark.row("P13", part="one process")
def test_a_batch_that_overlaps_written_ones_without_matching_is_out_of_order():
    producers = producers_after(batch_of(0, sequence=0, count=4), batch_of(4, sequence=4, count=4))
    for sequence, count in [(0, 3), (0, 8), (2, 4), (6, 4), (4, 5)]:
        with pytest.raises(OutOfOrderSequenceError):
            producers.check(batch_of(8, sequence=sequence, count=count), CLIENT)


@pytest.mark.row("P13", part="one process")
def test_a_sequence_that_was_never_written_here_is_not_called_a_duplicate():
    """A client takes a duplicate for an acknowledgement. Here 5 was lost on its way, and 6 was
    accepted because nothing was known of the producer."""
    producers = producers_after(batch_of(0, sequence=6))
    with pytest.raises(OutOfOrderSequenceError):
        producers.check(batch_of(1, sequence=5), CLIENT)


@pytest.mark.row("P13", part="one process")
def test_a_batch_that_repeats_remembered_sequences_behind_a_gap_is_out_of_order():
    """Found by the model: what is remembered may be older than the chain of what follows it."""
    producers = producers_after(batch_of(0, sequence=2, count=2), *(batch_of(2 + n, sequence=n) for n in range(3)))
    with pytest.raises(OutOfOrderSequenceError):
        producers.check(batch_of(5, sequence=0, count=2), CLIENT)


@pytest.mark.row("P13", part="one process")
def test_an_unknown_producer_may_begin_at_any_sequence():
    assert Producers().check(batch_of(0, producer_id=2**62, sequence=17), CLIENT) is None


@pytest.mark.row("P13", part="one process")
def test_sequences_wrap_to_zero():
    producers = producers_after(batch_of(0, sequence=SEQUENCES - 2, count=2))
    assert producers.check(batch_of(2, sequence=0), CLIENT) is None
    wrapping = batch_of(2, sequence=SEQUENCES - 2, count=4)
    producers = producers_after(wrapping)
    assert producers.get(1).next_sequence == 2
    assert producers.check(wrapping, CLIENT).duplicate
    assert producers.check(batch_of(6, sequence=2), CLIENT) is None
    with pytest.raises(OutOfOrderSequenceError):
        producers.check(batch_of(6, sequence=SEQUENCES - 1), CLIENT)


@pytest.mark.row("P13", part="one process")
def test_a_batch_from_before_the_wrap_is_a_duplicate():
    batches = [batch_of(n, sequence=(SEQUENCES - 4 + n) % SEQUENCES) for n in range(10)]
    producers = producers_after(*batches)
    with pytest.raises(DuplicateSequenceError):
        producers.check(batches[1], CLIENT)


@pytest.mark.row("P13", part="one process")
def test_an_older_epoch_is_fenced_and_a_newer_one_begins_at_zero():
    producers = producers_after(batch_of(0, epoch=3, sequence=0))
    with pytest.raises(ProducerFencedError, match="producer 1 epoch 2"):
        producers.check(batch_of(1, epoch=2, sequence=1), CLIENT)
    with pytest.raises(OutOfOrderSequenceError):
        producers.check(batch_of(1, epoch=4, sequence=1), CLIENT)
    assert producers.check(batch_of(1, epoch=4, sequence=0), CLIENT) is None


@pytest.mark.row("P13", part="one process")
def test_batches_of_an_older_epoch_are_forgotten_with_it():
    producers = producers_after(batch_of(0, sequence=0), batch_of(1, epoch=1, sequence=0))
    assert producers.check(batch_of(2, epoch=1, sequence=0), CLIENT).first_offset == 1


@pytest.mark.row("P13", part="one process")
def test_after_a_marker_with_a_newer_epoch_sequences_begin_at_zero():
    producers = producers_after(batch_of(0, sequence=0, transactional=True), marker_of(1, epoch=1))
    with pytest.raises(OutOfOrderSequenceError, match="expected sequence 0, found 1"):
        producers.check(batch_of(2, epoch=1, sequence=1), CLIENT)
    assert producers.check(batch_of(2, epoch=1, sequence=0), CLIENT) is None


def test_a_client_with_a_producer_id_needs_a_sequence_and_a_coordinator_does_not():
    batch = batch_of(0)._replace(base_sequence=-1, last_sequence=-1)
    with pytest.raises(InvalidRecordError):
        Producers().check(batch, CLIENT)
    producers = producers_after(batch, batch._replace(base_offset=1, last_offset=1))
    assert producers.check(batch, COORDINATOR) is None
    assert producers.check(batch_of(2, sequence=0), CLIENT) is None


def test_replicated_batches_are_not_checked_and_are_remembered():
    producers = producers_after(batch_of(0, epoch=3, sequence=0))
    batch = batch_of(1, epoch=3, sequence=9)
    assert producers.check(batch, REPLICATION) is None
    producers.apply(batch)
    assert producers.check(batch, CLIENT).duplicate
    assert producers.check(batch_of(2, epoch=1), REPLICATION) is None


# --- transactions


@pytest.mark.row("T5", part="one process")
def test_a_transaction_is_unstable_from_its_first_record_to_its_marker():
    producers = producers_after(batch_of(0), batch_of(1, producer_id=2, transactional=True))
    producers.apply(batch_of(2, producer_id=2, sequence=1, transactional=True))
    assert producers.first_unstable_offset(3) == 1
    done = producers.apply(marker_of(3, producer_id=2, marker=Marker.ABORT))
    assert done == CompletedTransaction(2, 1, 3, is_aborted=True)
    assert producers.last_stable_offset_after(done) == 4
    assert producers.first_unstable_offset(4) is None


@pytest.mark.row("T5", part="one process")
def test_a_completed_transaction_stays_unstable_until_its_marker_is_replicated():
    producers = producers_after(batch_of(0, transactional=True), marker_of(1))
    assert producers.first_unstable_offset(1) == 0
    assert producers.first_unstable_offset(2) is None


@pytest.mark.row("T5", part="one process")
def test_the_last_stable_offset_after_a_transaction_is_where_the_oldest_other_one_began():
    producers = producers_after(
        batch_of(0, producer_id=1, transactional=True),
        batch_of(1, producer_id=2, transactional=True),
        batch_of(2, producer_id=3, transactional=True),
    )
    assert producers.last_stable_offset_after(producers.apply(marker_of(3, producer_id=2))) == 0
    assert producers.last_stable_offset_after(producers.apply(marker_of(4, producer_id=1))) == 2


@pytest.mark.row("T5", part="one process")
def test_a_non_transactional_batch_inside_a_transaction_is_refused():
    producers = producers_after(batch_of(0, transactional=True))
    with pytest.raises(InvalidTransactionError):
        producers.check(batch_of(1, sequence=1), CLIENT)


@pytest.mark.row("T5", part="one process")
def test_markers_of_older_coordinators_and_older_epochs_are_fenced():
    producers = producers_after(
        batch_of(0, epoch=2, transactional=True), marker_of(1, epoch=2, coordinator_epoch=5)
    )
    with pytest.raises(CoordinatorFencedError):
        producers.check(marker_of(2, epoch=2, coordinator_epoch=4), COORDINATOR)
    with pytest.raises(ProducerFencedError):
        producers.check(marker_of(2, epoch=1, coordinator_epoch=6), COORDINATOR)
    assert producers.check(marker_of(2, epoch=1, coordinator_epoch=4), REPLICATION) is None
    assert producers.check(marker_of(2, epoch=2, coordinator_epoch=5), COORDINATOR) is None


@pytest.mark.row("T5", part="one process")
def test_a_marker_without_a_transaction_completes_nothing():
    producers = producers_after(marker_of(0))
    assert producers.first_unstable_offset(0) is None
    assert producers.apply(marker_of(1)) is None


@pytest.mark.row("T5", part="one process")
def test_an_emptied_control_batch_says_nothing():
    producers = producers_after(batch_of(0, transactional=True))
    assert producers.apply(marker_of(1)._replace(marker=None)) is None
    assert producers.open_transactions == ((1, 0),)


# --- expiry


@pytest.mark.row("P13", part="one process")
def test_an_idle_producer_is_forgotten_after_the_configured_time():
    producers = producers_after(batch_of(0, timestamp_ms=1_000), expiration_ms=100)
    assert producers.expire(1_099) == []
    assert producers.expire(1_100) == [1]
    assert len(producers) == 0


@pytest.mark.row("T5", part="one process")
def test_a_producer_with_an_open_transaction_is_never_forgotten():
    producers = producers_after(batch_of(0, transactional=True), expiration_ms=100)
    assert producers.expire(10**15) == []
    producers.apply(marker_of(1))
    assert producers.expire(10**15) == [1]


@pytest.mark.row("P13", part="one process")
def test_kafka_9144_a_marker_keeps_its_producer_from_expiring():
    producers = producers_after(batch_of(0, transactional=True, timestamp_ms=0), marker_of(1), expiration_ms=100)
    assert producers.get(1).written_ms == 1_001
    assert producers.expire(1_100) == []


@pytest.mark.row("P13", part="one process")
def test_old_timestamps_of_records_do_not_expire_a_producer_that_writes_now():
    producers = Producers(expiration_ms=100)
    producers.apply(batch_of(0, timestamp_ms=5), now_ms=10_000)
    producers.apply(batch_of(1, sequence=1, timestamp_ms=-1), now_ms=9_000)
    assert producers.expire(10_099) == []
    assert producers.get(1).timestamp_ms == -1
    assert producers.expire(10_100) == [1]
