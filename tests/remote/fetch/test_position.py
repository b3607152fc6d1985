"""The reader of one partition: leaders and near replicas, the check of its offset, and what answers mean."""

from __future__ import annotations

from typing import Any

import pytest

from logstore.batch._batch import stamp_run
from logstore.batch._encode import encode, encode_marker
from logstore.protocol.generated.messages import FetchResponse as R
from logstore.records import TopicPartition
from logstore.remote.fetch.position import FetchedPart, FetchPosition, Outcome

BROKERS = (1, 2, 3)


def position(offset: int = 10, offset_epoch: int = -1) -> FetchPosition:
    made = FetchPosition(TopicPartition("orders", 0), offset, offset_epoch)
    made.led(1, 5)
    return made


def batches(*values: bytes, offset: int = 10, epoch: int = 5, **given: Any) -> bytes:
    data = bytearray(encode(list(values), **given))
    stamp_run(data, offset, epoch)
    return bytes(data)


def took(
    at: FetchPosition,
    *,
    node: int = 1,
    now_s: float = 0.0,
    generation: int = 0,
    is_committed: bool = False,
    **part: Any,
) -> FetchedPart:
    return at.took(
        R.PartitionData(**part),
        node=node,
        generation=generation or at.generation,
        now_s=now_s,
        near_s=300,
        is_committed=is_committed,
    )


def test_batches_move_the_position_and_its_epoch() -> None:
    at = position()
    found = took(at, records=batches(b"a", b"b", epoch=4) + batches(b"c", offset=12), high_watermark=13)
    assert (found.outcome, found.offset) == (Outcome.RECORDS, 13)
    assert (at.offset, at.offset_epoch, at.high_watermark) == (13, 5, 13)
    assert took(at, records=b"").outcome is Outcome.NOTHING
    assert at.offset == 13


def test_a_batch_that_is_cut_is_told_with_its_size() -> None:
    at, data = position(), batches(b"a" * 1_000)
    found = took(at, records=data[:500])
    assert (found.outcome, found.batch_bytes, at.offset) == (Outcome.TOO_LARGE, len(data), 10)


def test_a_committed_reader_gets_the_ranges_of_aborted_records() -> None:
    marker = bytearray(encode_marker(0, 0, 7, 0, 1))
    stamp_run(marker, 12, 5)
    data = batches(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True) + bytes(marker)
    told = [R.AbortedTransaction(producer_id=7, first_offset=10)]
    found = took(position(), is_committed=True, records=data, aborted_transactions=told)
    assert [each[:2] for each in found.aborted] == [(7, 10)]
    assert took(position(), records=data, aborted_transactions=told).aborted == ()


def test_an_answer_from_before_a_seek_is_dropped() -> None:
    at = position()
    former = at.generation
    at.seek(50)
    assert took(at, records=batches(b"a"), generation=former).outcome is Outcome.DROPPED
    assert took(at, error_code=1, generation=former).outcome is Outcome.DROPPED
    assert (at.offset, at.node(0, BROKERS)) == (50, 1)


def test_a_paused_partition_is_not_asked_and_keeps_its_place() -> None:
    at = position()
    at.is_paused = True
    assert at.node(0, BROKERS) is None
    assert took(at, records=batches(b"a")).outcome is Outcome.RECORDS, "what was asked before the pause is kept"
    at.is_paused = False
    assert (at.node(0, BROKERS), at.offset) == (1, 11)


def test_a_leader_of_a_lower_epoch_is_not_taken() -> None:
    at = position()
    at.led(2, 4)
    assert at.node(0, BROKERS) == 1
    at.led(-1, 5)
    assert at.node(0, BROKERS) is None
    at.led(2, 6)
    assert at.node(0, BROKERS) == 2
    assert at.node(0, (1, 3)) is None, "its address is not known"


def test_a_nearer_replica_is_used_until_its_time_is_over() -> None:
    at = position()
    assert took(at, preferred_read_replica=3, now_s=100).outcome is Outcome.NEARER
    assert at.node(399.9, BROKERS) == 3
    assert at.node(399.9, (1, 2)) == 1, "it is gone"
    took(at, preferred_read_replica=3, now_s=100)
    assert at.node(400, BROKERS) == 1


@pytest.mark.parametrize("code", [1, 6, 78, 29])
def test_an_error_of_a_near_replica_sends_the_reader_to_the_leader(code: int) -> None:
    at = position()
    took(at, preferred_read_replica=3)
    assert took(at, node=3, error_code=code).outcome is Outcome.RETRY
    assert at.node(0, BROKERS) == 1


def test_a_new_leader_ends_the_use_of_a_near_replica() -> None:
    at = position()
    took(at, preferred_read_replica=3)
    at.led(2, 6)
    assert at.node(0, BROKERS) == 2


def test_an_offset_out_of_the_leaders_range_stops_until_a_seek() -> None:
    at = position()
    assert took(at, error_code=1, log_start_offset=20)[0:3:2] == (Outcome.OUT_OF_RANGE, 20)
    assert at.node(0, BROKERS) is None
    at.seek(20)
    assert at.node(0, BROKERS) == 1


@pytest.mark.parametrize(("code", "outcome"), [(3, Outcome.RETRY), (6, Outcome.RETRY), (29, Outcome.REFUSED)])
def test_errors_are_retried_where_kafka_retries(code: int, outcome: Outcome) -> None:
    at = position()
    assert took(at, error_code=code)[::5] == (outcome, code)
    assert at.node(0, BROKERS) == (1 if outcome is Outcome.RETRY else None)


def test_a_new_leader_is_asked_for_the_end_of_the_epoch_first() -> None:
    at = position()
    assert at.epoch_to_check() is None, "no epoch of the offset is known"
    took(at, records=batches(b"a"))
    former = at.asked()
    at.led(2, 6)
    assert at.epoch_to_check() == 5
    assert at.node(0, BROKERS) is None
    assert at.checked(5, 11, former).outcome is Outcome.DROPPED, "of the former leader"
    assert at.node(0, BROKERS) is None
    assert at.checked(5, 11, at.asked()).outcome is Outcome.NOTHING
    assert at.node(0, BROKERS) == 2


@pytest.mark.parametrize("epoch", [5, 6])
def test_a_position_that_has_moved_since_it_was_asked_about_is_asked_about_again(epoch: int) -> None:
    """A near replica's answer may come between; the end of the log was another one then, or that of its epoch."""
    at = position(11, 5)
    asked = at.asked()
    took(at, records=batches(b"a", b"b", offset=11, epoch=epoch))
    assert at.checked(5, 11, asked).outcome is Outcome.DROPPED
    assert at.epoch_to_check() == epoch
    assert at.checked(epoch, 13, at.asked()).outcome is Outcome.NOTHING
    assert at.node(0, BROKERS) == 1


@pytest.mark.parametrize(("epoch", "end"), [(5, 10), (4, 20), (-1, -1)])
def test_a_log_that_was_cut_below_the_offset_is_told(epoch: int, end: int) -> None:
    at = position(11, 5)
    assert at.checked(epoch, end, at.asked()) == FetchedPart(Outcome.DIVERGED, offset=end, epoch=epoch)
    assert at.epoch_to_check() is at.node(0, BROKERS) is None
    at.seek(9, 4)
    assert at.epoch_to_check() == 4


def test_a_leader_that_tells_of_another_log_in_its_answer_stops_the_reader() -> None:
    at = position()
    diverging = R.EpochEndOffset(epoch=4, end_offset=7)
    assert took(at, diverging_epoch=diverging) == FetchedPart(Outcome.DIVERGED, offset=7, epoch=4)
    assert at.node(0, BROKERS) is None


def test_a_broker_without_epochs_is_fetched_from_without_the_check() -> None:
    at = position(11, 5)
    at.skip_check()
    assert at.node(0, BROKERS) == 1
