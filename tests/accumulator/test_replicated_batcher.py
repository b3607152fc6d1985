"""Batches that wait for acks, on a log that a test truncates and lets lead or follow; each answer is the test's."""

from __future__ import annotations

import random

import pytest

import logstore
from logstore.errors import (
    DeliveryTimeoutError,
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
    """Send each value in a batch of its own."""
    futures = []
    for value in values:
        futures.append(producer.send("t", value))
        producer.tick()
    return futures


def test_batches_wait_side_by_side_and_are_answered_in_order(setup):
    with setup.store.producer(linger_ms=0) as producer:
        futures = sent(producer, b"a", b"b", b"c")
        assert setup.log.log_end_offset == 3
        setup.replicas.acknowledge(2)
        assert not any(future.done() for future in futures)
        setup.settle(producer)
        assert [future.done() for future in futures] == [True, True, False]
        assert futures[1].result(0).offset == 1
        setup.replicas.acknowledge(1)
        setup.settle(producer)
        assert futures[2].result(0).offset == 2
        assert setup.replicas.asked == [Acks.ALL] * 3
        assert producer.metrics().batches == 3
        assert producer.metrics().buffered_bytes == 0


def test_at_most_five_batches_wait_and_the_next_gathers(setup):
    with setup.store.producer(linger_ms=5) as producer:
        for number in range(5):
            producer.send("t", b"%d" % number)
            setup.settle(producer, 6)
        assert setup.log.log_end_offset == 5
        for number in range(5, 20):
            producer.send("t", b"%d" % number)
            setup.settle(producer, 6)
        assert setup.log.log_end_offset == 5
        setup.replicas.acknowledge(5)
        setup.settle(producer)
        # One batch of fifteen.
        assert (setup.log.log_end_offset, len(setup.replicas.waits)) == (20, 1)
        setup.replicas.acknowledge(1)
        producer.flush()
    assert setup.values() == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_batches_are_appended_again_in_order_and_stored_once(setup, kept):
    """A new leader has the first ``kept`` of three batches; then this node leads again."""
    with setup.store.producer(linger_ms=0) as producer:
        futures = sent(producer, b"a", b"b", b"c")
        setup.log.replica.set_policy(FOLLOWS)
        setup.log.replica.truncate_to(kept)
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
        assert [future.result(0).offset for future in futures] == [0, 1, 2]
        assert producer.metrics().retries > 0
    assert setup.values() == [b"a", b"b", b"c"]


def test_a_batch_behind_one_that_was_given_up_and_lost_gets_another_producer_id(setup):
    with setup.store.producer(linger_ms=0, delivery_timeout_ms=1_000) as producer:
        [first] = sent(producer, b"a")
        setup.clock.advance(600)
        [second] = sent(producer, b"b")
        setup.clock.advance(400)
        producer.tick()
        with pytest.raises(DeliveryTimeoutError, match="records at offset 0 may be acknowledged later"):
            first.result(0)
        setup.log.replica.truncate_to(0)
        setup.replicas.fail(NotEnoughReplicasAfterAppendError("t-0: one"))
        setup.settle(producer)
        setup.settle(producer)
        [third] = sent(producer, b"c")
        setup.replicas.acknowledge(9)
        producer.flush()
        assert [second.result(0).offset, third.result(0).offset] == [0, 1]
    assert setup.values() == [b"b", b"c"]
    ids = {view.producer_id for chunk in setup.log.scan().chunks() for view in chunk.batches()}
    assert len(ids) == 1


def test_a_batch_behind_one_that_was_given_up_and_kept_is_stored_once(setup):
    with setup.store.producer(linger_ms=0, delivery_timeout_ms=1_000) as producer:
        [first] = sent(producer, b"a")
        setup.clock.advance(600)
        [second] = sent(producer, b"b")
        setup.clock.advance(400)
        producer.tick()
        assert isinstance(first.exception(0), DeliveryTimeoutError)
        setup.replicas.fail(NotEnoughReplicasAfterAppendError("t-0: one"))
        setup.settle(producer)
        setup.settle(producer)
        [third] = sent(producer, b"c")
        setup.replicas.acknowledge(9)
        producer.flush()
        assert [second.result(0).offset, third.result(0).offset] == [1, 2]
    assert setup.values() == [b"a", b"b", b"c"]


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


def test_an_error_that_is_not_retried_ends_its_batch_only(setup):
    with setup.store.producer(linger_ms=0, delivery_timeout_ms=1_000) as producer:
        first = producer.send("t", b"a")
        setup.replicas.refusal = RecordTooLargeError("t-0: too large")
        middle = producer.send("t", b"b")
        setup.replicas.refusal = None
        last = producer.send("t", b"c")
        assert isinstance(middle.exception(0), RecordTooLargeError)
        setup.replicas.acknowledge(2)
        producer.flush()
        assert [first.result(0).offset, last.result(0).offset] == [0, 1]
    assert setup.values() == [b"a", b"c"]


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
