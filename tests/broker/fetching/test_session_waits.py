"""A step of a session that waits is woken, ends and is answered as one of a message object."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from random import Random

import pytest

from logstore.broker import Broker, serve
from logstore.log import Marker, ProducerStamp
from logstore.protocol.frames import encode_request
from logstore.protocol.generated.messages import FetchRequest
from logstore.records import Isolation
from logstore.store import Store
from tests.broker.fetching.test_session_bytes import SessionOfTwo
from tests.broker.fetching.twins import SEED, WaitingTwins, counts_of
from tests.broker.wire import Wire
from tests.kit.waiting import wait_for

VERSION = 12
WAIT_MS = 60_000
PARTITIONS = 4
ROUNDS = 150


def asked(offsets: dict[int, int], **fields: int) -> FetchRequest:
    """A step that waits, for partitions of one topic from an offset on each."""
    partitions = [
        FetchRequest.FetchPartition(partition=n, fetch_offset=at, partition_max_bytes=1 << 20)
        for n, at in offsets.items()
    ]
    topics = [FetchRequest.FetchTopic(topic="idle", partitions=partitions)] if partitions else []
    settings = {"max_wait_ms": WAIT_MS, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": 0} | fields
    return FetchRequest(replica_id=-1, topics=topics, **settings)


class Twins(WaitingTwins):
    """A session in each of two brokers over one store."""

    def __init__(self, store: Store, brokers: tuple[Broker, Broker], stack: contextlib.ExitStack) -> None:
        super().__init__(store, brokers, stack, PARTITIONS)
        self.session = SessionOfTwo()
        offsets = dict.fromkeys(range(PARTITIONS), 0)
        self.send(asked(offsets, max_wait_ms=0))
        self.same()

    def send(self, request: FetchRequest, *, only: Wire | None = None) -> None:
        request.session_epoch = self.session.epoch
        for wire, number in zip(self.wires, self.session.numbers, strict=True):
            if only not in (None, wire):
                continue
            request.session_id = number
            wire.socket.sendall(encode_request(request, VERSION, 7, "a test"))

    def same(self) -> bytes:
        """Return the answer of both."""
        one, other = self.session.learn([wire.frame() for wire in self.wires], VERSION)
        assert one == other
        return one

    @property
    def parked(self) -> int:
        return self.brokers[0]._requests._fetches.steps.parked


@pytest.fixture
def twins(store: Store, quick: Broker, decoding: Broker) -> Iterator[Twins]:
    with contextlib.ExitStack() as stack:
        yield Twins(store, (quick, decoding), stack)


def test_both_are_woken_alike(twins: Twins) -> None:
    rng = Random(SEED)
    ends = dict.fromkeys(range(PARTITIONS), 0)
    asks: dict[int, int] = {}
    for n in range(ROUNDS):
        least = rng.choice([1, 1, 400])
        partition = rng.randrange(PARTITIONS)
        isolation = rng.choice(list(Isolation))
        level = int(isolation is Isolation.READ_COMMITTED)
        twins.send(asked(asks, min_bytes=least, isolation_level=level))
        # Registrations of earlier steps may be armed still: it is counted when it is parked.
        wait_for(lambda parked=n + 1: twins.parked == parked)
        twins.both_wait(partition, isolation)
        # Too little, and then enough.
        for each in rng.sample(range(PARTITIONS), rng.randrange(PARTITIONS)) if least > 1 else []:
            twins.both_wait(each, isolation)
            twins.topic.log(each).append([b"v"])
            ends[each] += 1
        twins.both_wait(partition, isolation)
        twins.topic.log(partition).append([bytes(500)])
        ends[partition] += 1
        asks = dict(ends)
        twins.same()
    assert twins.parked == ROUNDS
    assert counts_of(twins.brokers[0]) == counts_of(twins.brokers[1])


def test_a_record_between_the_look_and_the_wait_ends_it(twins: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
    twins.appends_early(monkeypatch, 1)
    for n, wire in enumerate(twins.wires):
        twins.send(asked({1: n}), only=wire)
        assert b"early" in wire.frame()
        assert twins.topic.log(1).log_end_offset == n + 1
    assert twins.parked == 1


def test_a_step_whose_time_is_over_gets_an_empty_answer_and_its_session_goes_on(twins: Twins) -> None:
    for _ in range(3):
        twins.send(asked({}, max_wait_ms=20))
        empty = twins.same()
    twins.send(asked({}))
    wait_for(lambda: twins.parked == 4)
    twins.both_wait(1)
    twins.topic.log(1).append([b"v"])
    assert len(twins.same()) > len(empty)


def test_a_step_that_was_woken_is_not_ended_by_its_time(twins: Twins) -> None:
    twins.send(asked({}, max_wait_ms=100))
    twins.topic.log(1).append([b"v"])
    twins.same()
    twins.send(asked({1: 1}, max_wait_ms=300))
    empty = twins.same()
    twins.send(asked({}, max_wait_ms=1))
    assert twins.same() == empty


def test_a_step_that_waits_and_finds_an_aborted_transaction_waits_for_enough(twins: Twins) -> None:
    """It goes on as a message object, for what is left of its time."""
    twins.send(asked({}, min_bytes=2_000, isolation_level=1))
    twins.both_wait(0, Isolation.READ_COMMITTED)
    log = twins.topic.log(0)
    log.append([b"in a transaction"], producer=ProducerStamp(7, 0, 0, True))
    log.replica.append_control(Marker.ABORT, producer_id=7, producer_epoch=0)
    twins.both_wait(0, Isolation.READ_COMMITTED)
    twins.topic.log(1).append([b"v"])
    twins.both_wait(1, Isolation.READ_COMMITTED)
    twins.topic.log(2).append([bytes(2_000)])
    assert len(twins.same()) > 2_000
    assert twins.parked == 1
    twins.send(asked({0: 2, 1: 1, 2: 1}, min_bytes=2_000, isolation_level=1, max_wait_ms=20))
    twins.same()
    twins.send(asked({}, min_bytes=2_000, isolation_level=1, max_wait_ms=100))
    twins.both_wait(0, Isolation.READ_COMMITTED)
    log.append([b"in a transaction"], producer=ProducerStamp(7, 0, 1, True))
    log.replica.append_control(Marker.ABORT, producer_id=7, producer_epoch=0)
    assert b"idle" in twins.same()  # too little, at the end of its time


def test_a_topic_that_is_deleted_wakes_with_its_error(twins: Twins, store: Store) -> None:
    twins.send(asked({}))
    twins.both_wait(0)
    store.delete_topic("idle")
    assert twins.same().count(b"\x00\x03" + b"\xff" * 24) == PARTITIONS


def test_a_connection_that_closes_leaves_no_waiter_and_its_session_goes_on(twins: Twins) -> None:
    twins.send(asked({}))
    twins.both_wait(0)
    twins.reset()
    wait_for(lambda: twins.waiters(0) == 0)
    twins.session.epoch += 1
    twins.wires = [Wire(broker) for broker in twins.brokers]
    with contextlib.ExitStack() as stack:
        for wire in twins.wires:
            stack.enter_context(wire)
        twins.send(asked({}))
        wait_for(lambda: twins.parked == 2)
        twins.both_wait(2)
        twins.topic.log(2).append([b"v"])
        assert b"idle" in twins.same()


def test_two_steps_of_one_session_wait_and_are_both_answered(twins: Twins) -> None:
    twins.send(asked({}))
    twins.both_wait(0)
    first = twins.wires
    with contextlib.ExitStack() as stack:
        twins.wires = [stack.enter_context(Wire(broker)) for broker in twins.brokers]
        twins.session.epoch += 1
        twins.send(asked({}))
        wait_for(lambda: twins.waiters(0) == 4)
        twins.topic.log(3).append([b"v"])
        assert b"idle" in twins.same()
        twins.wires = first
        assert b"idle" in twins.same()
    assert twins.parked == 1


def test_an_append_between_steps_disarms_what_no_step_waits_for(store: Store) -> None:
    with serve(store, "127.0.0.1:0") as broker, Wire(broker) as wire:
        topic = store.create_topic("idle", PARTITIONS)
        first = wire.ask(asked(dict.fromkeys(range(PARTITIONS), 0), max_wait_ms=0), VERSION)
        marks = [topic.log(n)._end_mark(Isolation.READ_UNCOMMITTED) for n in range(PARTITIONS)]
        wire.ask(asked({}, session_id=first.session_id, session_epoch=1, max_wait_ms=1), VERSION)
        assert [mark.waiters for mark in marks] == [1] * PARTITIONS
        topic.log(0).append([b"v"])
        wait_for(lambda: not any(mark.waiters for mark in marks))
        # The end of a session is the end of its registrations, too.
        wire.ask(asked({0: 1}, session_id=first.session_id, session_epoch=2, max_wait_ms=1), VERSION)
        answer = wire.ask(asked({0: 1}, session_id=first.session_id, session_epoch=3, max_wait_ms=1), VERSION)
        assert answer.error_code == 0
        assert sum(mark.waiters for mark in marks) == PARTITIONS
        wire.ask(asked({}, session_id=first.session_id, session_epoch=-1, max_wait_ms=0), VERSION)
        assert not any(mark.waiters for mark in marks)
