"""Batches that wait for acks, on a log that a test truncates and lets lead or follow; each answer is the test's."""

from __future__ import annotations

import random

import pytest

import logstore
from logstore.errors import (
    DeliveryTimeoutError,
    InvalidTimestampError,
    LogstoreError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderError,
    RecordTooLargeError,
)
from logstore.log import FixedPolicy, Moves
from logstore.log.marks.policies import FOLLOWS
from logstore.records import Acks
from logstore.replication.api import Pending
from logstore.testing import ManualClock
from tests.kit.inside import interrupt_behind_an_append

LEADS = FixedPolicy(Moves.FROM_OUTSIDE)


class Replicas:
    """An `AckSource` whose answers a test gives."""

    def __init__(self) -> None:
        self.refusal: LogstoreError | None = None
        self.waits: list[Pending] = []
        self.asked: list[Acks] = []

    def check_append(self, place, acks):
        self.asked.append(acks)
        if self.refusal is not None:
            raise self.refusal
        return 1

    def wait_for_acks(self, place, result, epoch, acks, notify):
        self.waits.append(Pending(result, epoch, notify))
        return self.waits[-1]

    def fail(self, error: LogstoreError) -> None:
        for wait in self.waits:
            wait.settle(error)
        self.waits.clear()

    def acknowledge(self, count: int) -> None:
        for wait in self.waits[:count]:
            wait.settle()
        del self.waits[:count]


class Setup:
    def __init__(self, store: logstore.Store, clock: ManualClock) -> None:
        self.store, self.clock = store, clock
        self.topic = store.create_topic("t", settings={"logstore.replicated": "true"})
        self.log = self.topic.log(0)
        self.log.replica.set_policy(LEADS)
        self.replicas = Replicas()
        store._host.replicas = self.replicas

    def values(self) -> list[bytes]:
        self.log.replica.advance_high_watermark(self.log.log_end_offset)
        return [record.value for record in self.log.scan()]

    def settle(self, producer: logstore.Producer, ms: int = 101) -> None:
        """Let the producer take its answers, and append what waits for ``retry.backoff.ms``."""
        self.clock.advance(ms)
        producer.tick()


@pytest.fixture
def setup(tmp_path):
    clock = ManualClock()
    with logstore.open(tmp_path, clock=clock, rng=random.Random(3)) as store:
        made = Setup(store, clock)
        yield made
        store._host.replicas = None


def sent(producer: logstore.Producer, *values: bytes):
    """Send each value in a batch of its own, if none waits for acks or a batch takes one record."""
    futures = []
    for value in values:
        futures.append(producer.send("t", value))
        producer.tick()
    return futures


def in_flight(setup: Setup, producer: logstore.Producer, *values: bytes):
    """Send each value in a batch of its own, and let them wait together, behind a record of an earlier flight."""
    _, *futures = sent(producer, b"0", *values)
    setup.replicas.acknowledge(1)
    setup.settle(producer)
    assert setup.log.log_end_offset == 1 + len(values)
    return futures


def test_batches_that_are_ready_together_wait_together(setup):
    with setup.store.producer(linger_ms=0, batch_size=1) as producer:
        futures = sent(producer, b"a", b"b", b"c")
        assert setup.log.log_end_offset == 1
        setup.replicas.acknowledge(1)
        assert not any(future.done() for future in futures)
        setup.settle(producer)
        assert [future.done() for future in futures] == [True, False, False]
        assert [wait.result.last_offset for wait in setup.replicas.waits] == [2]
        setup.replicas.acknowledge(1)
        setup.settle(producer)
        assert [future.result(0).offset for future in futures] == [0, 1, 2]
        assert setup.replicas.asked == [Acks.ALL] * 2
        assert producer.metrics().batches == 3
        assert producer.metrics().buffered_bytes == 0
    assert setup.values() == [b"a", b"b", b"c"]


def test_a_flight_is_what_a_follower_fetches_at_a_time(setup):
    """1 MiB: five batches of 200 kB, and one batch that is larger than that."""
    sizes = [1] + [200_000] * 8 + [1_100_000, 1]
    with setup.store.producer(linger_ms=0, batch_size=1, max_request_size=2 << 20) as producer:
        setup.store.alter_topic("t", {"max.message.bytes": 2 << 20})
        sent(producer, *(bytes([number]) * size for number, size in enumerate(sizes)))
        ends = []
        for _ in range(6):
            ends.append(setup.log.log_end_offset)
            setup.replicas.acknowledge(1)
            setup.settle(producer)
        assert ends == [1, 6, 9, 10, 11, 11]
    assert setup.values() == [bytes([number]) * size for number, size in enumerate(sizes)]


@pytest.mark.parametrize("linger_ms", [0, 5])
def test_what_comes_while_a_batch_waits_is_one_batch(setup, linger_ms):
    with setup.store.producer(linger_ms=linger_ms) as producer:
        for number in range(20):
            producer.send("t", b"%d" % number)
            setup.settle(producer, 6)
        assert setup.log.log_end_offset == 1
        setup.replicas.acknowledge(1)
        setup.settle(producer)
        assert (setup.log.log_end_offset, len(setup.replicas.waits)) == (20, 1)
        setup.replicas.acknowledge(1)
        producer.flush()
        assert producer.metrics().batches == 2
    assert setup.values() == [b"%d" % number for number in range(20)]


def test_a_batch_that_the_log_refuses_ends_the_flight_before_it(setup):
    """The second of three has a timestamp that the topic refuses by the time it is appended."""
    settings = {"message.timestamp.before.max.ms": 1_000}
    with setup.store.producer(linger_ms=0, batch_size=1) as producer:
        sent(producer, b"0")
        old = producer.send("t", b"old", timestamp=setup.clock.now_ms())
        setup.clock.advance(800)
        after = [producer.send("t", value) for value in (b"a", b"b")]
        setup.store.alter_topic("t", settings)
        setup.replicas.acknowledge(1)
        setup.settle(producer, 300)
        assert isinstance(old.exception(0), InvalidTimestampError)
        setup.settle(producer)
        setup.replicas.acknowledge(9)
        producer.flush()
        assert [future.result(0).offset for future in after] == [1, 2]
    assert setup.values() == [b"0", b"a", b"b"]


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_batches_are_appended_again_in_order_and_stored_once(setup, kept):
    """A new leader has the first ``kept`` of three batches; then this node leads again."""
    with setup.store.producer(linger_ms=0, batch_size=1) as producer:
        futures = in_flight(setup, producer, b"a", b"b", b"c")
        setup.log.replica.set_policy(FOLLOWS)
        setup.log.replica.truncate_to(1 + kept)
        setup.replicas.refusal = NotLeaderError("t-0: node 2 does")
        setup.replicas.fail(NotLeaderError("t-0: leader epoch 2 has begun"))
        setup.settle(producer)
        setup.settle(producer)
        assert not any(future.done() for future in futures)
        setup.replicas.refusal = None
        setup.log.replica.set_policy(LEADS)
        setup.settle(producer)
        setup.replicas.acknowledge(3)
        setup.settle(producer)
        assert [future.result(0).offset for future in futures] == [1, 2, 3]
        assert producer.metrics().retries > 0
    assert setup.values() == [b"0", b"a", b"b", b"c"]


def lose_and_lead_again(setup: Setup, producer: logstore.Producer, end: int) -> None:
    """Cut the log, as a follower does, and let this node lead again; what was in flight is appended again."""
    setup.log.replica.set_policy(FOLLOWS)
    setup.log.replica.truncate_to(end)
    setup.replicas.fail(NotLeaderError("t-0: leader epoch 2 has begun"))
    setup.log.replica.set_policy(LEADS)
    setup.settle(producer)
    setup.settle(producer)


@pytest.mark.parametrize("kept", [0, 3, 7, 12])
def test_a_long_flight_is_stored_once_though_the_log_remembers_five_batches(setup, kept):
    values = [b"%d" % number for number in range(12)]
    with setup.store.producer(linger_ms=0, batch_size=1) as producer:
        futures = in_flight(setup, producer, *values)
        lose_and_lead_again(setup, producer, 1 + kept)
        setup.replicas.acknowledge(9)
        setup.settle(producer)
        assert [future.result(0).offset for future in futures] == list(range(1, 13))
    assert setup.values() == [b"0", *values]


def test_a_batch_that_comes_back_after_it_was_appended_again_is_answered_where_it_is(setup):
    """An unclean election can bring back the first append of a batch, when a second one was elsewhere."""
    values = [b"%d" % number for number in range(8)]
    with setup.store.producer(linger_ms=0, batch_size=1) as producer:
        futures = in_flight(setup, producer, *values)
        first = bytes(setup.log.replica.fetch_region(1, to_log_end=True).region.read())
        # Of another producer, whose log was elected: ours are appended again, behind its record.
        setup.log.replica.set_policy(FOLLOWS)
        setup.log.replica.truncate_to(1)
        setup.log.replica.set_policy(LEADS)
        setup.log.append([b"another"])
        lose_and_lead_again(setup, producer, 2)
        assert setup.log.log_end_offset == 10
        # And now a log that has the first append is.
        setup.log.replica.set_policy(FOLLOWS)
        setup.log.replica.truncate_to(1)
        setup.log.replica.append_replicated(first, leader_epoch=0)
        lose_and_lead_again(setup, producer, 9)
        setup.replicas.acknowledge(9)
        setup.settle(producer)
        assert [future.result(0).offset for future in futures] == list(range(1, 9))
    assert setup.values() == [b"0", *values]


def given_up_and_waiting(setup: Setup, producer: logstore.Producer):
    """Let two batches wait together, until the first one is late."""
    sent(producer, b"0")
    first = producer.send("t", b"a")
    setup.clock.advance(500)
    second = producer.send("t", b"b")
    setup.replicas.acknowledge(1)
    setup.settle(producer)
    assert setup.log.log_end_offset == 3
    setup.clock.advance(400)
    producer.tick()
    return first, second


def test_a_batch_behind_one_that_was_given_up_and_lost_gets_another_producer_id(setup):
    with setup.store.producer(linger_ms=0, batch_size=1, delivery_timeout_ms=1_000) as producer:
        first, second = given_up_and_waiting(setup, producer)
        with pytest.raises(DeliveryTimeoutError, match="records at offset 1 may be acknowledged later"):
            first.result(0)
        setup.log.replica.truncate_to(1)
        setup.replicas.fail(NotEnoughReplicasAfterAppendError("t-0: one"))
        setup.settle(producer)
        setup.settle(producer)
        [third] = sent(producer, b"c")
        for _ in range(2):
            setup.replicas.acknowledge(9)
            setup.settle(producer)
        assert [second.result(0).offset, third.result(0).offset] == [1, 2]
    assert setup.values() == [b"0", b"b", b"c"]
    ids = [view.producer_id for chunk in setup.log.scan().chunks() for view in chunk.batches()]
    assert ids[0] != ids[1] == ids[2]


def test_a_batch_behind_one_that_was_given_up_and_kept_is_stored_once(setup):
    with setup.store.producer(linger_ms=0, batch_size=1, delivery_timeout_ms=1_000) as producer:
        first, second = given_up_and_waiting(setup, producer)
        assert isinstance(first.exception(0), DeliveryTimeoutError)
        setup.replicas.fail(NotEnoughReplicasAfterAppendError("t-0: one"))
        setup.settle(producer)
        setup.settle(producer)
        [third] = sent(producer, b"c")
        for _ in range(2):
            setup.replicas.acknowledge(9)
            setup.settle(producer)
        assert [second.result(0).offset, third.result(0).offset] == [2, 3]
    assert setup.values() == [b"0", b"a", b"b", b"c"]


def test_an_error_lasts_until_the_delivery_timeout_and_is_the_futures_then(setup):
    with setup.store.producer(linger_ms=0, delivery_timeout_ms=1_000) as producer:
        setup.replicas.refusal = NotEnoughReplicasError("t-0: 1 replicas are in sync")
        [future] = sent(producer, b"a")
        for _ in range(9):
            setup.settle(producer)
        assert not future.done()
        setup.settle(producer)
        with pytest.raises(NotEnoughReplicasError):
            future.result(0)
        assert setup.log.log_end_offset == 0
        # Its sequence was not used: the next batch has it.
        setup.replicas.refusal = None
        [after] = sent(producer, b"b")
        setup.settle(producer)
        setup.replicas.acknowledge(1)
        setup.settle(producer)
        assert after.result(0).offset == 0


def test_retries_are_counted(setup):
    with setup.store.producer(linger_ms=0, retries=2) as producer:
        setup.replicas.refusal = NotLeaderError("t-0: node 2 does")
        [future] = sent(producer, b"a")
        setup.settle(producer)
        assert not future.done()
        setup.settle(producer)
        assert isinstance(future.exception(0), NotLeaderError)


@pytest.mark.row("P10", part="batches that wait for replicas")
def test_without_retries_what_waited_together_fails_and_is_appended_once(setup):
    error = NotEnoughReplicasAfterAppendError("t-0: 1 replicas are in sync by now")
    with setup.store.producer(linger_ms=0, batch_size=1, retries=0) as producer:
        futures = in_flight(setup, producer, b"a", b"b", b"c")
        setup.replicas.fail(error)
        setup.settle(producer)
        setup.settle(producer)
        assert [future.exception(0) for future in futures] == [error] * 3
        # What comes next is taken; the errors were the futures'.
        [after] = sent(producer, b"d")
        setup.replicas.acknowledge(1)
        setup.settle(producer)
        assert after.result(0).offset == 4
        # Where the node does not lead, a batch fails at once, and is not in the log.
        setup.replicas.refusal = NotLeaderError("t-0: node 2 does")
        [refused] = sent(producer, b"e")
        assert isinstance(refused.exception(0), NotLeaderError)
    assert setup.values() == [b"0", b"a", b"b", b"c", b"d"]


def test_an_error_that_is_not_retried_ends_its_batch_only(setup):
    with setup.store.producer(linger_ms=0, delivery_timeout_ms=1_000) as producer:
        setup.replicas.refusal = RecordTooLargeError("t-0: too large")
        first = producer.send("t", b"a")
        setup.replicas.refusal = None
        second = producer.send("t", b"b")
        assert isinstance(first.exception(0), RecordTooLargeError)
        setup.replicas.acknowledge(1)
        producer.flush()
        assert second.result(0).offset == 0
    assert setup.values() == [b"b"]


def test_without_a_node_a_batch_fails_at_once(setup):
    with setup.store.producer(linger_ms=0) as producer:
        [future] = sent(producer, b"a")
        setup.store._host.replicas = None
        setup.replicas.fail(NotLeaderError("t-0: node 1 is closed"))
        [after] = sent(producer, b"b")
        with pytest.raises(NotLeaderError, match="node 1 is closed"):
            future.result(0)
        with pytest.raises(NotLeaderError, match="no node runs on this store"):
            after.result(0)


def test_acks_1_asks_for_the_leader_and_acks_0_for_nothing(setup):
    with setup.store.producer(linger_ms=0, acks=1) as producer:
        [future] = sent(producer, b"a")
        setup.replicas.acknowledge(1)
        producer.flush()
        assert future.result(0).offset == 0
        assert setup.replicas.asked == [Acks.LEADER]
    with setup.store.producer(linger_ms=0, acks=0) as producer:
        [future] = sent(producer, b"b")
        assert future.result(0).offset == 1
        setup.log.replica.set_policy(FOLLOWS)
        assert sent(producer, b"c")[0].result(0).offset == -1
    assert setup.replicas.asked == [Acks.LEADER]


def test_an_interrupted_append_is_stored_once(setup, monkeypatch):
    with setup.store.producer(linger_ms=1_000) as producer:
        future = producer.send("t", b"a")
        interrupt_behind_an_append(monkeypatch, setup.topic[0])
        with pytest.raises(KeyboardInterrupt):
            producer.flush()
        assert (setup.log.log_end_offset, len(setup.replicas.waits)) == (1, 0)
        setup.settle(producer)
        setup.replicas.acknowledge(1)
        producer.flush()
        assert future.result(0).offset == 0
    assert setup.values() == [b"a"]


def test_synced_acks_come_after_the_sync(setup):
    with setup.store.producer(linger_ms=0, ack="synced") as producer:
        [future] = sent(producer, b"a")
        assert setup.log.synced_end == 0
        setup.replicas.acknowledge(1)
        setup.settle(producer)
        assert future.result(0).offset == 0
        assert setup.log.synced_end == 1


def test_a_close_in_time_gives_up_what_waits(setup):
    producer = setup.store.producer(linger_ms=0, delivery_timeout_ms=1_000)
    first, second = sent(producer, b"a", b"b")
    with pytest.raises(DeliveryTimeoutError):
        producer.close(timeout_s=0)
    assert isinstance(first.exception(0), DeliveryTimeoutError)
    assert isinstance(second.exception(0), DeliveryTimeoutError)
    setup.replicas.acknowledge(2)
    assert isinstance(first.exception(0), DeliveryTimeoutError)
