"""The embedded consumer: where it begins, what it hands out, what it remembers."""

from __future__ import annotations

import datetime
import functools
import itertools
import sys
import threading

import pytest

import logstore
from logstore.batch import _batch
from logstore.client.partition_position import PositionRules
from logstore.errors import (
    ConcurrentUseError,
    ConsumerClosedError,
    InvalidGroupError,
    InvalidOffsetError,
    InvalidTimestampError,
    LogstoreError,
    NoOffsetError,
    NotAssignedError,
    OffsetOutOfRangeError,
    StoreClosedError,
    UnknownPartitionError,
    UnknownSettingError,
    UnknownTopicError,
    UnsupportedOperationError,
    WakeupError,
)
from logstore.groups.offsets import OffsetAndMetadata
from logstore.log import ProducerStamp
from logstore.records import Codec, Marker, TopicPartition
from logstore.testing import ManualClock
from logstore.topic_names import CONSUMER_OFFSETS
from tests.kit.striking import Lines, at_line

A, B = TopicPartition("flights", 0), TopicPartition("flights", 1)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def store(tmp_path, clock):
    with logstore.open(tmp_path, clock=clock) as store:
        store.create_topic("flights", 2)
        yield store


def fill(store, count, partition=0, topic="flights", **options):
    values = [b"%d-%d" % (partition, n) for n in range(count)]
    return store.topic(topic).append_many(values, partition=partition, **options)[partition]


def earliest(store, group=None, partitions=("flights",), **settings):
    consumer = store.consumer(group=group, auto_offset_reset="earliest", **settings)
    if all(isinstance(each, str) for each in partitions):
        consumer.assign_topics(partitions)
    else:
        consumer.assign(partitions)
    return consumer


def values(records):
    return [record.value for record in records]


# --- where it begins ---------------------------------------------------------------------------


@pytest.mark.row("C3")
@pytest.mark.row("C14", part="one process")
@pytest.mark.parametrize(("rule", "expected"), [("earliest", [b"0-0", b"0-1", b"new"]), ("latest", [b"new"])])
def test_without_an_offset_it_begins_where_the_rule_says(store, rule, expected):
    fill(store, 2)
    consumer = store.consumer(auto_offset_reset=rule)
    consumer.assign([A])
    assert consumer.position(A) == (0 if rule == "earliest" else 2)
    store.topic("flights").append(b"new", partition=0)
    assert values(consumer.poll()) == expected
    # No group, nothing kept anywhere.
    assert CONSUMER_OFFSETS not in store


def test_a_rule_may_be_a_time_ago(store, clock):
    for _ in range(3):
        store.topic("flights").append(b"%d" % clock.now_ms(), partition=0)
        clock.advance(3_600_000)
    consumer = store.consumer(auto_offset_reset="by_duration:PT2H30M")
    consumer.assign_topics(["flights"])
    assert (consumer.position(A), consumer.position(B)) == (1, 0)


def test_without_a_rule_a_missing_offset_is_an_error(store):
    consumer = store.consumer(group="crew", auto_offset_reset="none")
    consumer.assign([A])
    for _ in range(2):
        with pytest.raises(NoOffsetError, match="flights-0"):
            consumer.poll()
    consumer.seek(A, 0)
    assert consumer.poll() == []


@pytest.mark.row("C3")
def test_any_offset_can_be_sought(store):
    fill(store, 1000)
    consumer = earliest(store)
    for offset in (999, 0, 500, 501, 17):
        consumer.seek(A, offset)
        assert consumer.position(A) == offset
        (record,) = consumer.poll(max_records=1)
        assert (record.offset, record.value) == (offset, b"0-%d" % offset)
        assert consumer.position(A) == offset + 1
    consumer.seek_to_end()
    assert consumer.poll() == []
    fill(store, 1)
    assert [record.offset for record in consumer.poll()] == [1000]
    consumer.seek_to_beginning(A)
    assert consumer.poll(max_records=1)[0].offset == 0


@pytest.mark.row("C3")
def test_a_time_can_be_sought(store, clock):
    began = clock.now_ms()
    for n in range(10):
        store.topic("flights").append(b"%d" % n, partition=n % 2)
        clock.advance(1000)
    consumer = earliest(store)
    consumer.seek_to_time(began + 4_001)
    assert {record.value for record in consumer.poll()} == {b"5", b"6", b"7", b"8", b"9"}
    consumer.seek_to_time(datetime.datetime.fromtimestamp((began + 9_000) / 1000, datetime.UTC), B)
    assert values(consumer.poll()) == [b"9"]
    consumer.seek_to_time(clock.now_ms())
    assert (consumer.position(A), consumer.position(B)) == (5, 5)
    found = consumer.offsets_for_times({A: began + 1, B: clock.now_ms()})
    assert (found[A].offset, found[B]) == (1, None)
    with pytest.raises((InvalidTimestampError, LogstoreError)):
        consumer.seek_to_time(datetime.datetime(2026, 1, 1))


def test_ends_can_be_asked_for_without_an_assignment(store):
    fill(store, 5)
    store.topic("flights").delete_records({0: 2})
    consumer = store.consumer()
    assert consumer.beginning_offsets(["flights"]) == {A: 2, B: 0}
    assert consumer.end_offsets([A, ("flights", 1)]) == {A: 5, B: 0}


@pytest.mark.row("R6")
@pytest.mark.parametrize("where", ["below", "behind"])
def test_an_offset_out_of_range_falls_back_to_the_rule(store, where):
    fill(store, 10)
    store.topic("flights").delete_records({0: 4})
    offset = 2 if where == "below" else 50
    with pytest.raises(OffsetOutOfRangeError):
        store.topic("flights").read(0, offset)
    strict = store.consumer(auto_offset_reset="none")
    strict.assign([A])
    strict.seek(A, offset)
    for _ in range(2):
        with pytest.raises(OffsetOutOfRangeError) as caught:
            strict.poll()
        assert caught.value.code == 1
    for rule, expected in (("earliest", list(range(4, 10))), ("latest", [])):
        consumer = store.consumer(auto_offset_reset=rule)
        consumer.assign([A])
        consumer.seek(A, offset)
        assert [record.offset for record in consumer.poll()] == expected
        assert consumer.position(A) == 10


@pytest.mark.row("R6")
def test_records_that_go_while_they_are_read_are_skipped_by_the_rule(store):
    fill(store, 10)
    consumer = earliest(store, partitions=[A])
    assert len(consumer.poll(max_records=2)) == 2
    store.topic("flights").delete_records({0: 7})
    # What had been read already is still handed out; what comes next is what is kept.
    consumer.seek(A, 2)
    assert [record.offset for record in consumer.poll()] == [7, 8, 9]


# --- what it hands out --------------------------------------------------------------------------


def test_a_poll_gives_at_most_what_it_is_asked_for(store):
    fill(store, 1200)
    consumer = earliest(store)
    assert [len(consumer.poll()) for _ in range(4)] == [500, 500, 200, 0]
    consumer.seek_to_beginning()
    assert len(consumer.poll(max_records=7)) == 7
    small = earliest(store, max_poll_records=3)
    assert len(small.poll()) == 3
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(InvalidOffsetError):
            consumer.poll(max_records=wrong)


def test_partitions_take_turns_and_keep_their_order(store):
    fill(store, 2000, 0)
    fill(store, 300, 1)
    consumer = earliest(store)
    polls = [consumer.poll(max_records=100) for _ in range(6)]
    assert [{record.partition for record in poll} for poll in polls] == [{0}, {1}] * 3
    rest = [record for _ in range(30) for record in consumer.poll()]
    everything = [record for poll in polls for record in poll] + rest
    for partition, count in ((0, 2000), (1, 300)):
        assert [r.offset for r in everything if r.partition == partition] == list(range(count))


def test_partitions_take_turns_in_a_loop_too(store):
    fill(store, 1500, 0)
    fill(store, 1500, 1)
    for consumer, turn in ((earliest(store, "crew"), 500), (earliest(store, max_partition_fetch_bytes=1), 1500)):
        seen = [record.partition for record in consumer.records(timeout_s=0)]
        assert len(seen) == 3000
        assert seen[: 2 * turn] == [0] * turn + [1] * turn


@pytest.mark.row("R5")
def test_reading_takes_nothing_away(store, clock):
    fill(store, 100)
    for group in ("early", "late"):
        with earliest(store, group) as consumer:
            assert len(consumer.poll()) == 100
        clock.advance(86_400_000)
    assert store["flights"][0].log_start_offset == 0


@pytest.mark.row("C6")
def test_each_of_three_groups_sees_every_record(store):
    """Each reads at its own pace, and commits where it is: no group moves another."""
    sent = [b"0-%d" % n for n in range(90)]
    fill(store, 90)
    seen = {"fast": [], "slow": [], "late": []}
    with earliest(store, "fast") as fast, earliest(store, "slow") as slow:
        for _ in range(3):
            seen["fast"] += values(fast.poll(max_records=30))
            seen["slow"] += values(slow.poll(max_records=10))
            fast.commit()
            slow.commit()
    assert [store.committed(group)[A].offset for group in ("fast", "slow")] == [90, 30]
    assert A not in store.committed("late")
    for group, found in seen.items():
        with earliest(store, group) as consumer:
            found += values(consumer.poll(max_records=100))
    assert list(seen.values()) == [sent, sent, sent]


def test_transactions_are_seen_as_the_isolation_says(store):
    log = store["flights"][0]
    log.append([b"aborted"], producer=ProducerStamp(1, 0, 0, transactional=True))
    log.replica.append_control(Marker.ABORT, producer_id=1, producer_epoch=0)
    log.append([b"committed"], producer=ProducerStamp(1, 0, 1, transactional=True))
    log.replica.append_control(Marker.COMMIT, producer_id=1, producer_epoch=0)
    log.append([b"open"], producer=ProducerStamp(1, 0, 2, transactional=True))
    everything = earliest(store)
    assert values(everything.poll()) == [b"aborted", b"committed", b"open"]
    consumer = earliest(store, isolation_level="read_committed")
    assert values(consumer.poll()) == [b"committed"]
    assert consumer.end_offsets([A]) == {A: 4}
    assert consumer.position(A) == 4
    log.replica.append_control(Marker.ABORT, producer_id=1, producer_epoch=0)
    assert values(consumer.poll()) == []
    assert consumer.position(A) == 6


def test_a_paused_partition_gives_nothing_until_it_is_resumed(store):
    fill(store, 10, 0)
    fill(store, 10, 1)
    consumer = earliest(store)
    assert len(consumer.poll(max_records=2)) == 2
    consumer.pause(A)
    assert consumer.paused == {A}
    assert {record.partition for record in consumer.poll()} == {1}
    assert consumer.poll() == []
    assert consumer.position(A) == 2
    consumer.resume()
    assert [record.offset for record in consumer.poll()] == list(range(2, 10))
    consumer.pause()
    assert consumer.paused == {A, B}
    assert consumer.poll(timeout_s=5) == []


def test_a_loop_obeys_seek_and_pause_in_the_middle(store):
    fill(store, 10, 0)
    fill(store, 10, 1)
    consumer = earliest(store)
    seen = []
    for record in consumer.records(timeout_s=0):
        seen.append((record.partition, record.offset))
        if seen[-1] == (0, 2):
            consumer.seek(A, 8)
        if seen[-1] == (1, 4):
            consumer.pause(B)
    assert seen == [(0, 0), (0, 1), (0, 2), *((1, n) for n in range(5)), (0, 8), (0, 9)]
    assert consumer.position(B) == 5


def test_a_loop_ends_when_the_consumer_is_closed_in_it(store):
    fill(store, 10)
    consumer = earliest(store)
    seen = []
    for record in consumer:
        seen.append(record.offset)
        if record.offset == 3:
            consumer.close()
    assert seen == [0, 1, 2, 3]


def test_a_record_is_known_by_its_place(store):
    at = store.topic("flights").append(b"AA 1141", key=b"AA", headers=[("gate", b"B2")], partition=1)
    (record,) = earliest(store).poll()
    assert (record.topic, record.partition, record.offset) == (at.topic, at.partition, at.offset)
    assert (record.key, record.value, record.headers) == (b"AA", b"AA 1141", (("gate", b"B2"),))
    assert record.timestamp_ms == at.timestamp_ms


@pytest.mark.row("C2")
def test_a_read_names_its_start_and_its_limit_in_bytes(store):
    for _ in range(20):
        fill(store, 10)
    offset, seen = 0, []
    while batches := store.topic("flights").read(0, offset, max_bytes=700):
        assert batches.size <= 700
        seen += [record.offset for record in batches]
        offset = batches.next_offset
    assert seen == list(range(200))
    # The first batch is given whole, else no consumer would come past it.
    assert len(store.topic("flights").read(0, 0, max_bytes=1).records()) == 10


def test_chunks_are_bounded_by_the_settings(store):
    for _ in range(50):
        fill(store, 100)
    consumer = earliest(store, fetch_max_bytes=20_000, max_partition_fetch_bytes=10_000)
    consumer.poll(max_records=1)
    (place,) = [place for place in consumer._subscription.partitions.values() if place.run is not None]
    # The whole run is one read; asking for its end tells how large it was.
    assert sum(1 for _ in place.run.allow(10_000)) < 1000
    one_batch = earliest(store, max_partition_fetch_bytes=1)
    assert len(one_batch.poll()) == 500


# --- waiting -------------------------------------------------------------------------------------


def test_a_poll_of_nothing_takes_the_time_it_was_given(store, clock):
    consumer = earliest(store)
    assert consumer.poll(timeout_s=2.5) == []
    assert clock.monotonic_s() == 2.5
    assert list(consumer.records(timeout_s=1.5)) == []
    assert clock.monotonic_s() == 4.0


@pytest.mark.parametrize("partition", [0, 1])
@pytest.mark.parametrize("paused", [False, True])
def test_a_waiting_poll_is_woken_by_any_of_its_partitions(tmp_path, partition, paused):
    with logstore.open(tmp_path) as store:
        store.create_topic("flights", 3)
        consumer = earliest(store)
        if paused:
            consumer.pause(("flights", 2))
        got = []
        waiting = threading.Thread(target=lambda: got.extend(consumer.poll(timeout_s=60)))
        waiting.start()
        store.topic("flights").append(b"new", partition=partition)
        waiting.join(300)
        assert values(got) == [b"new"]


def test_a_waiting_reader_beside_the_writer_is_woken_too(tmp_path):
    with logstore.open(tmp_path) as store:
        store.create_topic("flights", 2)
        with logstore.open(tmp_path, read_only=True) as reading:
            for group in (None, "crew"):
                consumer = earliest(reading, group, enable_auto_commit=False)
                seen = len(consumer.poll())
                got = []
                waiting = threading.Thread(target=lambda c=consumer, to=got: to.extend(c.poll(timeout_s=60)))
                waiting.start()
                store.topic("flights").append(b"new", partition=seen % 2)
                waiting.join(300)
                assert values(got) == [b"new"]


def test_a_wakeup_interrupts_a_wait_and_loses_nothing(tmp_path):
    with logstore.open(tmp_path) as store:
        store.create_topic("flights", 2)
        consumer = earliest(store)
        errors = []

        def wait():
            try:
                consumer.poll(timeout_s=60)
            except WakeupError as error:
                errors.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        consumer.wakeup()
        waiting.join(300)
        assert len(errors) == 1
        fill(store, 3)
        assert len(consumer.poll()) == 3


def test_a_wakeup_ends_a_loop_at_the_next_record(store):
    fill(store, 400)
    consumer = earliest(store)
    seen = []

    def loop():
        for record in consumer:
            seen.append(record.offset)
            if record.offset == 9:
                consumer.wakeup()

    with pytest.raises(WakeupError):
        loop()
    seen += [record.offset for record in consumer.records(timeout_s=0)]
    assert seen == list(range(400))


class Decompressing:
    """Lets another thread do something in the midst of the next decompression, as it may: that holds no lock."""

    def __init__(self, monkeypatch):
        self.work = None
        self._decompress = _batch.decompress
        monkeypatch.setattr(_batch, "decompress", self)

    def __call__(self, *arguments):
        work, self.work = self.work, None
        if work is not None:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        return self._decompress(*arguments)


@pytest.fixture
def decompressing(monkeypatch):
    return Decompressing(monkeypatch)


def test_a_wakeup_while_a_batch_is_decompressed_ends_the_loop_there(store, decompressing):
    fill(store, 400, codec=Codec.GZIP)
    consumer = earliest(store)
    decompressing.work = consumer.wakeup
    seen = []
    with pytest.raises(WakeupError):
        seen += consumer
    assert seen == []
    assert [record.offset for record in consumer.records(timeout_s=0)] == list(range(400))


def test_a_wakeup_before_the_first_record_of_a_run_ends_the_loop_there(store, monkeypatch):
    fill(store, 400)
    consumer = earliest(store)
    run_of = consumer._rules.run_of

    def woken(*arguments):
        monkeypatch.undo()
        consumer.wakeup()
        return run_of(*arguments)

    monkeypatch.setattr(consumer._rules, "run_of", woken)
    loop = consumer.records()
    with pytest.raises(WakeupError):
        next(loop)
    assert [record.offset for record in consumer.records(timeout_s=0)] == list(range(400))


def test_what_another_thread_does_while_a_batch_is_decompressed_counts_from_there(store, decompressing):
    fill(store, 400, codec=Codec.GZIP)
    for name, arguments, rest in [
        ("pause", (), range(400)),
        ("seek", (A, 390), range(390, 400)),
        ("seek_to_end", (), range(0)),
        ("assign", ([A],), range(400)),
    ]:
        consumer = earliest(store, partitions=[A])
        decompressing.work = functools.partial(getattr(consumer, name), *arguments)
        seen = [record.offset for record in consumer.records(timeout_s=0)]
        consumer.resume()
        seen += [record.offset for record in consumer.records(timeout_s=0)]
        assert seen == list(rest)


def test_what_another_thread_has_polled_is_not_handed_out_by_a_loop_as_well(store, decompressing):
    fill(store, 400, codec=Codec.GZIP)
    consumer = earliest(store, partitions=[A])
    polled = []
    decompressing.work = lambda: polled.extend(consumer.poll(max_records=300))
    looped = list(consumer.records(timeout_s=0))
    assert [record.offset for record in polled + looped] == list(range(400))


def test_close_while_a_batch_is_decompressed_commits_what_was_handed_out_and_no_more(store, decompressing):
    fill(store, 400, codec=Codec.GZIP)
    fill(store, 400, codec=Codec.GZIP)
    consumer = earliest(store, "crew", partitions=[A])
    seen = []
    for record in consumer:
        seen.append(record.offset)
        if record.offset == 399:
            decompressing.work = consumer.close
    assert seen == list(range(400))
    assert store.committed("crew")[A].offset == 400


def test_without_a_group_a_turn_is_all_that_was_read(store):
    # One batch of more records than a read has bytes.
    count = 300_000
    topic = store.create_topic("wide", 2, max_message_bytes=8 << 20)
    topic.append_many([b""] * count, partition=0, codec=Codec.GZIP)
    fill(store, 1, 1, "wide")
    consumer = earliest(store, partitions=["wide"])
    places = [record.partition for record in consumer.records(timeout_s=0)]
    assert places in ([0] * count + [1], [1] + [0] * count)


def test_two_threads_at_once_are_found_out(tmp_path):
    with logstore.open(tmp_path) as store:
        store.create_topic("flights")
        consumer = earliest(store)
        outcome = []

        def wait():
            try:
                consumer.poll(timeout_s=60)
            except WakeupError:
                outcome.append("woken")

        waiting = threading.Thread(target=wait)
        waiting.start()
        while not consumer._in_use.locked():
            pass
        for use in (consumer.poll, consumer.close, consumer.commit, lambda: consumer.seek(A, 0)):
            with pytest.raises(ConcurrentUseError, match="wakeup"):
                use()
        consumer.wakeup()
        waiting.join(300)
        assert outcome == ["woken"]
        assert consumer.poll() == []


# --- what it remembers ---------------------------------------------------------------------------


@pytest.mark.row("C15")
def test_a_commit_is_where_the_group_goes_on(store):
    fill(store, 10)
    consumer = earliest(store, "crew", enable_auto_commit=False)
    assert len(consumer.poll(max_records=4)) == 4
    assert consumer.committed() == {A: None, B: None}
    # The other partition's turn has not come: its commit says that nothing of it has been read.
    assert consumer.commit() == {A: OffsetAndMetadata(4), B: OffsetAndMetadata(0)}
    consumer.poll(max_records=3)
    consumer.close()
    again = earliest(store, "crew", enable_auto_commit=False)
    assert again.committed()[A].offset == 4
    assert [record.offset for record in again.poll()] == list(range(4, 10))
    again.commit({A: OffsetAndMetadata(6, "here"), B: 0}, ack="synced")
    assert again.committed([A])[A][:2] == (6, "here")
    assert store.committed("crew")[A].offset == 6
    assert store[CONSUMER_OFFSETS][0].synced_end == 4


@pytest.mark.parametrize("end", ["store", "error"])
def test_the_end_takes_no_commit_of_the_user_back(tmp_path, end):
    with logstore.open(tmp_path) as store:
        store.create_topic("flights", 1)
        fill(store, 4)
        consumer = earliest(store, "crew")
        consumer.poll(max_records=1)
        consumer.poll(max_records=2)
        # Of the last two records nothing is known but that their user says so.
        assert consumer.commit() == {A: OffsetAndMetadata(3)}
        if end == "error":
            with pytest.raises(ZeroDivisionError), consumer:
                1 / 0  # noqa: B018
    with logstore.open(tmp_path) as store:
        assert store.committed("crew")[A].offset == 3


def test_an_offset_that_was_sought_after_a_commit_is_committed_by_the_end(store):
    fill(store, 4)
    with earliest(store, "crew") as consumer:
        consumer.poll()
        consumer.commit()
        consumer.seek(A, 1)
    assert store.committed("crew")[A].offset == 1


@pytest.mark.row("V7", "C15")
def test_by_default_a_record_is_read_again_unless_the_next_ones_were_asked_for(store, clock):
    fill(store, 6)
    consumer = earliest(store, "crew")
    consumer.poll(max_records=2)
    clock.advance(4_999)
    consumer.poll(max_records=2)
    assert store.committed("crew") == {}
    clock.advance(1)
    consumer.poll(max_records=2)
    assert store.committed("crew")[A].offset == 4
    del consumer  # as if the process had died: the last two were not known to be processed
    assert [record.offset for record in earliest(store, "crew").poll()] == [4, 5]


@pytest.mark.row("V7")
def test_closing_commits_what_was_handed_out(store):
    fill(store, 6)
    with earliest(store, "crew") as consumer:
        consumer.poll(max_records=5)
    assert store.committed("crew")[A].offset == 5
    consumer.close()


@pytest.mark.row("V7")
@pytest.mark.parametrize("how", ["poll", "loop"])
def test_an_error_while_processing_commits_only_what_was_done_before(store, how):
    fill(store, 6)

    def process():
        with earliest(store, "crew") as consumer:
            if how == "poll":
                consumer.poll(max_records=2)
                consumer.poll(max_records=2)
                raise ZeroDivisionError
            for record in consumer:
                if record.offset == 3:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        process()
    # A loop knows the record in hand; of a list the consumer does not know how far its user came.
    assert store.committed("crew")[A].offset == (2 if how == "poll" else 3)


@pytest.mark.row("V7")
def test_a_store_that_is_closed_first_commits_what_is_known_to_be_done(tmp_path):
    with logstore.open(tmp_path) as store:
        store.create_topic("flights")
        fill(store, 6)
        consumer = earliest(store, "crew")
        consumer.poll(max_records=2)
        consumer.poll(max_records=2)
    with logstore.open(tmp_path) as store:
        assert store.committed("crew")[A].offset == 2
    with pytest.raises(ConsumerClosedError):
        consumer.poll()


def test_an_error_is_not_hidden_by_a_commit_that_fails_too(store):
    fill(store, 6)
    store.commit_offsets("tower", {A: 1})

    def process():
        with earliest(store, "crew") as consumer:
            consumer.poll(max_records=2)
            consumer.poll(max_records=2)
            store[CONSUMER_OFFSETS][0].close()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        process()


def test_a_store_that_is_closed_under_a_waiting_consumer_tells_it(tmp_path):
    errors = []
    with logstore.open(tmp_path) as store:
        store.create_topic("flights")
        consumer = earliest(store, "crew")

        def wait():
            try:
                consumer.poll(timeout_s=60)
            except (StoreClosedError, WakeupError) as error:
                errors.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        while not consumer._in_use.locked():
            pass
    waiting.join(300)
    assert len(errors) == 1


def test_a_loop_commits_by_itself_between_its_turns(store, clock):
    fill(store, 1200)
    for seen, _ in enumerate(earliest(store, "crew", partitions=[A]), 1):
        if seen == 500:
            assert store.committed("crew") == {}
            clock.advance(5_000)
        if seen == 501:
            assert store.committed("crew")[A].offset == 500
        if seen == 1100:
            break


def test_no_consumer_commits_without_a_group(store):
    fill(store, 3)
    with earliest(store) as consumer:
        consumer.poll()
        for use in (consumer.commit, consumer.committed):
            with pytest.raises(InvalidGroupError) as caught:
                use()
            assert caught.value.code == 24
    assert CONSUMER_OFFSETS not in store


@pytest.mark.row("C4")
def test_a_late_consumer_gets_everything_of_one_topic_or_many(store):
    fill(store, 5)
    early = earliest(store, "early")
    assert len(early.poll()) == 5
    store.create_topic("trains")
    fill(store, 3, topic="trains")
    early.assign_topics(["flights", "trains"])
    assert values(early.poll()) == [b"0-0", b"0-1", b"0-2"]
    late = earliest(store, "late", ["trains", "flights"])
    assert sorted((record.topic, record.value) for record in late.poll()) == sorted(
        [("flights", b"0-%d" % n) for n in range(5)] + [("trains", b"0-%d" % n) for n in range(3)]
    )


def test_a_new_assignment_keeps_the_positions_that_stay(store):
    fill(store, 10, 0)
    fill(store, 10, 1)
    consumer = earliest(store, "crew")
    consumer.poll(max_records=4)
    consumer.assign([B])
    assert store.committed("crew")[A].offset == 4
    assert consumer.assignment == {B}
    consumer.poll(max_records=3)
    consumer.assign([A, B])
    assert (consumer.position(A), consumer.position(B)) == (4, 3)


def test_a_topic_that_was_made_again_begins_again(store):
    fill(store, 10)
    with earliest(store, "crew") as consumer:
        consumer.poll()
    store.delete_topic("flights")
    assert store.committed("crew") == {}
    store.create_topic("flights", 2)
    fill(store, 3)
    assert len(earliest(store, "crew").poll()) == 3


def test_offsets_for_an_earlier_topic_of_that_name_do_not_count(store):
    fill(store, 10)
    old = store.topic("flights").id
    store.delete_topic("flights")
    store.create_topic("flights", 2)
    fill(store, 3)
    store.commit_offsets("crew", {A: OffsetAndMetadata(2, topic_id=old)})
    assert len(earliest(store, "crew").poll()) == 3


def test_a_position_in_a_topic_that_was_made_again_is_committed_for_no_group(store):
    """Committed under the new topic's id it would pass over the first records of that."""
    fill(store, 10)
    closing, asking = earliest(store, "crew"), earliest(store, "tower")
    assert len(closing.poll()) == len(asking.poll()) == 10
    store.delete_topic("flights")
    store.create_topic("flights", 2)
    fill(store, 20)
    with pytest.raises(UnknownTopicError):
        asking.commit()
    closing.close()
    assert store.committed("crew") == store.committed("tower") == {}
    assert earliest(store, "crew").poll(max_records=1)[0].offset == 0


# --- what it refuses --------------------------------------------------------------------------------


def test_a_consumer_without_partitions_says_so(store):
    consumer = store.consumer(group="crew")
    for use in (consumer.poll, lambda: next(iter(consumer)), consumer.commit, consumer.seek_to_end):
        with pytest.raises(NotAssignedError, match="assign"):
            use()
    consumer.assign([A])
    for use in (consumer.position, consumer.pause, lambda place: consumer.seek(place, 0)):
        with pytest.raises(NotAssignedError, match="flights-1"):
            use(B)
    with pytest.raises(NotAssignedError):
        consumer.seek("flights", 0)


@pytest.mark.parametrize(
    ("method", "wanted", "error"),
    [
        ("assign", [A, ("flights", 2)], UnknownPartitionError),
        ("assign_topics", ["flights", "nowhere"], UnknownTopicError),
    ],
)
def test_a_wrong_assignment_changes_nothing(store, method, wanted, error):
    consumer = earliest(store, partitions=[B])
    with pytest.raises(error):
        getattr(consumer, method)(wanted)
    assert consumer.assignment == {B}


@pytest.mark.parametrize("offset", [-1, 1.5, None, True, "7"])
def test_a_wrong_offset_is_refused(store, offset):
    consumer = earliest(store)
    with pytest.raises(InvalidOffsetError):
        consumer.seek(A, offset)


def test_a_closed_consumer_says_so(store):
    consumer = earliest(store)
    consumer.close()
    for use in (consumer.poll, lambda: consumer.assign([A]), lambda: next(iter(consumer)), consumer.wakeup):
        if use == consumer.wakeup:
            use()
        else:
            with pytest.raises(ConsumerClosedError):
                use()


def test_a_deleted_topic_is_an_error_for_its_readers(store):
    fill(store, 3)
    consumer = earliest(store)
    assert len(consumer.poll()) == 3
    store.delete_topic("flights")
    for _ in range(2):
        with pytest.raises(UnknownTopicError):
            consumer.poll(timeout_s=1)


def test_a_waiting_reader_learns_that_its_topic_is_gone(tmp_path):
    with logstore.open(tmp_path) as store:
        store.create_topic("flights", 2)
        consumer = earliest(store)
        errors = []

        def wait():
            try:
                consumer.poll(timeout_s=60)
            except UnknownTopicError as error:
                errors.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        store.delete_topic("flights")
        waiting.join(300)
        assert len(errors) == 1


def test_a_waiting_reader_beside_the_writer_learns_of_it_too(tmp_path):
    with logstore.open(tmp_path) as store:
        store.create_topic("flights")
        fill(store, 3)
        with logstore.open(tmp_path, read_only=True, clock=ManualClock()) as reading:
            consumer = earliest(reading)
            assert len(consumer.poll()) == 3
            store.delete_topic("flights")
            with pytest.raises(UnknownTopicError):
                consumer.poll(timeout_s=30)
            store.create_topic("flights")
            # Another topic of that name is none of its business.
            with pytest.raises(UnknownTopicError):
                consumer.poll(timeout_s=30)


def test_settings_are_kafkas(store):
    with pytest.raises(UnknownSettingError, match=r"auto\.offset\.reset"):
        store.consumer({"auto.offset.rest": "earliest"}, group="crew")
    assert store.consumer({"group.id": "crew", "max.poll.records": 7})._config.max_poll_records == 7
    for group in ("", "other"):
        with pytest.raises(InvalidGroupError):
            store.consumer({"group.id": "crew"}, group=group)


def test_a_reader_goes_on_where_its_group_was(tmp_path, store):
    fill(store, 3)
    with logstore.open(tmp_path, read_only=True) as reading:
        consumer = earliest(reading, "crew", enable_auto_commit=False)
        assert len(consumer.poll()) == 3
        store.commit_offsets("crew", {A: 1})
        assert consumer.committed([A])[A].offset == 1
        assert len(earliest(reading, "crew", enable_auto_commit=False).poll()) == 2


def test_a_closed_store_says_so(tmp_path):
    with logstore.open(tmp_path) as store:
        store.create_topic("flights")
    with pytest.raises(StoreClosedError):
        store.consumer()


def test_an_empty_poll_of_a_hundred_partitions_makes_few_calls(tmp_path):
    with logstore.open(tmp_path / "many", environ={}) as many:
        many.create_topic("flights", 100)
        with many.consumer(auto_offset_reset="earliest") as consumer:
            consumer.assign_topics(["flights"])
            assert consumer.poll() == []
            calls = 0

            def count(frame, event, argument):
                nonlocal calls
                calls += event == "call"

            sys.setprofile(count)
            try:
                assert consumer.poll() == []
            finally:
                sys.setprofile(None)
            assert calls <= 300
            many.topic("flights").append(b"there")
            assert [record.value for record in consumer.poll()] == [b"there"]


# --- names of the last release ---------------------------------------------------------------------------


def test_a_topic_that_is_assigned_by_its_name_warns_and_is_followed(store):
    consumer = store.consumer(auto_offset_reset="earliest")
    with pytest.warns(DeprecationWarning, match=r"Consumer\.assign_topics"):
        consumer.assign(["flights"])
    assert consumer.assignment == {A, B}
    store.add_partitions("flights", 3)
    consumer.poll()
    assert len(consumer.assignment) == 3


def test_former_names_of_methods_warn_and_work(store):
    fill(store, 3)
    consumer = earliest(store, partitions=[A])
    for name, given, found in (
        ("positions", (), {A: 0}),
        ("topic_id", (A,), store["flights"].id),
        ("was_added", (A,), False),
        ("leader_epoch", (A, 2), 0),
        ("seek_to_stored", (A, 2, 0), 2),
        ("seek_to_committed", (A, 1, 0), 1),
    ):
        with pytest.warns(DeprecationWarning, match=rf"Consumer\.{name} is "):
            assert getattr(consumer, name)(*given) == found
    assert consumer.position(A) == 1
    with pytest.raises(AttributeError, match="no attribute 'sek'"):
        consumer.sek()


def test_an_offset_that_was_committed_can_be_sought(store):
    fill(store, 3)
    consumer = earliest(store, "crew", partitions=[A])
    consumer.poll()
    consumer.commit()
    consumer.seek_to_beginning()
    consumer.seek(A, consumer.committed()[A])
    assert consumer.position(A) == 3


def test_a_group_in_the_first_place_is_taken_for_one_release_more(store):
    with pytest.warns(DeprecationWarning, match="group='crew'"), store.consumer("crew") as consumer:
        assert consumer._config.group_id == "crew"
    with pytest.warns(DeprecationWarning, match="group='crew'"):
        consumer = store.consumer("crew", {"max.poll.records": 7})
    assert (consumer._config.group_id, consumer._config.max_poll_records) == ("crew", 7)
    with pytest.warns(DeprecationWarning, match="settings"):
        assert store.consumer(settings={"max.poll.records": 7})._config.max_poll_records == 7
    with pytest.warns(DeprecationWarning, match="settings"), store.producer(settings={"linger.ms": 7}) as producer:
        assert producer._config.linger_ms == 7


def test_a_store_divides_no_partitions(store):
    """Only a cluster does; the error says what to call."""
    with store.consumer(group="report") as consumer:
        with pytest.raises(UnsupportedOperationError, match=r"assign\(\)"):
            consumer.subscribe("flights")
        consumer.assign_topics("flights")


def test_a_poll_that_is_interrupted_at_any_line_loses_no_record_and_hands_out_none_twice(store):
    fill(store, 9)
    fill(store, 9, partition=1)
    for nth in itertools.count(1):
        # All of the first partition, which is then read to its end, and some of the second.
        with earliest(store, f"group-{nth}", max_poll_records=12, auto_commit_interval_ms=3_600_000) as consumer:
            came = consumer.poll(max_records=3)
            struck, where, records = at_line(nth, consumer.poll)
            came += records or []
            while records := consumer.poll():
                came += records
            for number in range(2):
                offsets = [record.offset for record in came if record.partition == number]
                assert offsets == list(range(9)), where
        if not struck:
            return


class LinesAfter(Lines):
    """Raises at the nth line of the package behind a first interrupt."""

    is_armed = False

    def __call__(self, frame, event, arg):
        return super().__call__(frame, event, arg) if self.is_armed else self


@pytest.mark.parametrize("first", [2, 3])
def test_a_second_interrupt_within_the_first_one_s_loses_no_record(store, monkeypatch, first):
    """The first comes once records of one partition, or of both, were taken, the second at each line behind it."""
    fill(store, 9)
    fill(store, 9, partition=1)
    for nth in itertools.count(1):
        lines, calls = LinesAfter(nth), itertools.count(1)
        run_of = PositionRules.run_of

        def run_and_strike(*given):
            run = run_of(*given)  # noqa: B023  used at once
            if next(calls) == first:  # noqa: B023
                lines.is_armed = True  # noqa: B023
                raise KeyboardInterrupt
            return run

        with earliest(store, f"group-{first}-{nth}", auto_commit_interval_ms=3_600_000) as consumer:
            monkeypatch.setattr(PositionRules, "run_of", run_and_strike)
            sys.settrace(lines)
            try:
                consumer.poll()
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
                monkeypatch.setattr(PositionRules, "run_of", run_of)
            assert lines.is_armed
            came = []
            while records := consumer.poll():
                came += records
            for number in range(2):
                offsets = [record.offset for record in came if record.partition == number]
                assert offsets == list(range(9)), lines.where
        if not lines.where:
            return


def test_a_commit_after_an_interrupted_poll_counts_no_record_that_was_never_returned(store):
    fill(store, 9)
    for nth in itertools.count(1):
        with earliest(store, f"group-{nth}", auto_commit_interval_ms=3_600_000) as consumer:
            consumer.poll(max_records=3)
            struck, where, _ = at_line(nth, consumer.poll)
            if not struck:
                return
            assert consumer.commit()[A].offset == 3, where
