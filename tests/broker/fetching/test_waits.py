"""A fetch outside of a session that waits is woken, ends and is answered as one of a message object."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from random import Random

import pytest

from logstore.broker import Broker
from logstore.log import Marker, ProducerStamp
from logstore.protocol.frames import encode_request
from logstore.protocol.generated.messages import FetchRequest
from logstore.records import Isolation
from logstore.store import Store
from tests.broker.fetching.test_fetch_bytes import VERSIONS
from tests.broker.fetching.twins import SEED, WaitingTwins, answered_from_bytes, counts_of
from tests.broker.wire import Wire
from tests.kit.waiting import wait_for

WAIT_MS = 60_000
PARTITIONS = 4
ROUNDS = 100


class Twins(WaitingTwins):
    """A connection to each of two brokers over one store."""

    def __init__(self, store: Store, brokers: tuple[Broker, Broker], stack: contextlib.ExitStack) -> None:
        super().__init__(store, brokers, stack, PARTITIONS)
        self.version = 12
        self.send(dict.fromkeys(range(PARTITIONS), 0), max_wait_ms=0)  # opens the logs
        self.same()

    def send(
        self,
        offsets: dict[int, int],
        *,
        last_epoch: int = -1,
        more: bytes = b"",
        wires: Sequence[Wire] = (),
        **fields: int,
    ) -> None:
        """Ask both for partitions from an offset on each; ``more`` bytes are behind the request."""
        partitions = [
            FetchRequest.FetchPartition(
                partition=n, fetch_offset=at, last_fetched_epoch=last_epoch, partition_max_bytes=1 << 20
            )
            for n, at in offsets.items()
        ]
        topic = FetchRequest.FetchTopic(partitions=partitions)
        if self.version >= 13:
            topic.topic_id = self.topic.id
        else:
            topic.topic = "idle"
        settings = {"max_wait_ms": WAIT_MS, "min_bytes": 1, "max_bytes": 1 << 20} | fields
        frame = encode_request(FetchRequest(replica_id=-1, topics=[topic], **settings), self.version, 7, "a test")
        frame = (len(frame) - 4 + len(more)).to_bytes(4, "big") + frame[4:] + more
        for wire in wires or self.wires:
            wire.socket.sendall(frame)

    def same(self) -> bytes:
        """Return the answer of both."""
        one, other = (wire.frame() for wire in self.wires)
        assert one == other
        return one

    @property
    def parked(self) -> int:
        return self.brokers[0]._requests._fetches.quick.parked

    @property
    def handed_over(self) -> list[int]:
        """The waits in ms of those that have become message objects."""
        return [each.max_wait_ms for each in self.brokers[0]._requests._fetches._parked.values()]


@pytest.fixture
def twins(store: Store, quick: Broker, decoding: Broker) -> Iterator[Twins]:
    with contextlib.ExitStack() as stack:
        yield Twins(store, (quick, decoding), stack)


@pytest.mark.parametrize("version", VERSIONS)
def test_both_are_woken_alike(twins: Twins, version: int) -> None:
    twins.version = version
    rng = Random(SEED + version)
    ends = dict.fromkeys(range(PARTITIONS), 0)
    for _ in range(ROUNDS if version == 12 else ROUNDS // 10):
        least = rng.choice([1, 1, 400])
        partition = rng.randrange(PARTITIONS)
        isolation = rng.choice(list(Isolation))
        level = int(isolation is Isolation.READ_COMMITTED)
        twins.send(ends, min_bytes=least, isolation_level=level)
        twins.both_wait(partition, isolation)
        # Too little, and then enough.
        for each in rng.sample(range(PARTITIONS), rng.randrange(PARTITIONS)) if least > 1 else []:
            twins.both_wait(each, isolation)
            twins.topic.log(each).append([b"v"])
            ends[each] += 1
        twins.both_wait(partition, isolation)
        twins.topic.log(partition).append([bytes(500)])
        ends[partition] += 1
        twins.same()
        assert not any(twins.waiters(each, isolation) for each in range(PARTITIONS))
    assert twins.parked == answered_from_bytes(twins.brokers[0]) > 0
    assert counts_of(twins.brokers[0]) == counts_of(twins.brokers[1])


def test_a_record_between_the_look_and_the_wait_ends_it(twins: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
    twins.appends_early(monkeypatch, 1)
    for n, wire in enumerate(twins.wires):
        twins.send({0: 0, 1: n, 2: 0}, wires=[wire])
        assert b"early" in wire.frame()
        assert twins.topic.log(1).log_end_offset == n + 1
    assert twins.parked == answered_from_bytes(twins.brokers[0]) == 1


def test_one_whose_time_is_over_gets_what_there_is(twins: Twins) -> None:
    for _ in range(3):
        twins.send({0: 0, 1: 0}, max_wait_ms=20)
        empty = twins.same()
    twins.send({0: 0, 1: 0}, max_wait_ms=300, min_bytes=10_000)
    twins.both_wait(1)
    twins.topic.log(1).append([b"v"])
    assert len(twins.same()) > len(empty)
    assert twins.parked == answered_from_bytes(twins.brokers[0]) == 4
    assert not twins.waiters(0)


def test_one_that_was_woken_is_not_ended_by_its_time(twins: Twins) -> None:
    twins.send({0: 0}, max_wait_ms=100)
    twins.topic.log(0).append([b"v"])
    assert b"v" in twins.same()
    twins.send({0: 1}, max_wait_ms=300)
    empty = twins.same()
    twins.send({0: 1}, max_wait_ms=1)
    assert twins.same() == empty


def test_one_that_finds_an_aborted_transaction_waits_as_a_message_object(twins: Twins) -> None:
    """For what is left of its time."""
    began_s = time.monotonic()
    twins.send({0: 0, 1: 0}, min_bytes=2_000, isolation_level=1)
    twins.both_wait(0, Isolation.READ_COMMITTED)
    wait_for(lambda: time.monotonic() - began_s > 0.005)
    log = twins.topic.log(0)
    log.append([b"in a transaction"], producer=ProducerStamp(7, 0, 0, True))
    log.replica.append_control(Marker.ABORT, producer_id=7, producer_epoch=0)
    wait_for(lambda: twins.handed_over)
    assert twins.handed_over[0] < WAIT_MS
    twins.both_wait(1, Isolation.READ_COMMITTED)
    twins.topic.log(1).append([bytes(2_000)])
    assert len(twins.same()) > 2_000
    assert answered_from_bytes(twins.brokers[0]) == 0
    twins.send({0: 2}, min_bytes=2_000, isolation_level=1, max_wait_ms=100)
    twins.both_wait(0, Isolation.READ_COMMITTED)
    log.append([b"in a transaction"], producer=ProducerStamp(7, 0, 1, True))
    log.replica.append_control(Marker.ABORT, producer_id=7, producer_epoch=0)
    assert b"in a transaction" in twins.same()  # too little, at the end of its time


def test_a_topic_that_is_deleted_wakes_with_its_error(twins: Twins, store: Store) -> None:
    twins.send(dict.fromkeys(range(PARTITIONS), 0))
    twins.both_wait(0)
    store.delete_topic("idle")
    assert twins.same().count(b"\x00\x03" + b"\xff" * 24) == PARTITIONS


def test_a_log_that_begins_a_leader_epoch_wakes_with_its_records(twins: Twins) -> None:
    """The client has read the epoch before; the end of that epoch is where it goes on."""
    twins.topic.log(0).append([b"a"])
    epoch = twins.topic.log(0).replica.leader_epoch
    twins.send({0: 1}, last_epoch=epoch)
    twins.both_wait(0)
    twins.topic.log(0).replica.begin_epoch(epoch + 3)
    twins.topic.log(0).append([b"b"])
    assert b"b" in twins.same()


def test_a_connection_that_closes_leaves_no_waiter(twins: Twins) -> None:
    twins.send({0: 0, 1: 0})
    twins.send({2: 0})  # its turn comes behind the first
    twins.both_wait(1)
    twins.reset()
    wait_for(lambda: not any(twins.waiters(n) for n in range(3)))
    assert not twins.brokers[0]._requests._fetches._parked


def test_bytes_behind_a_request_are_not_kept_while_it_waits(twins: Twins) -> None:
    twins.send({0: 0}, more=bytes(1_000))
    twins.both_wait(0)
    assert twins.parked == 0
    twins.topic.log(0).append([b"v"])
    assert b"v" in twins.same()


def test_requests_behind_one_that_waits_are_answered_in_their_turn(twins: Twins) -> None:
    twins.send({0: 0})
    twins.send({1: 0}, max_wait_ms=1)
    twins.send({2: 0}, max_wait_ms=0)
    twins.both_wait(0)
    twins.topic.log(0).append([b"the first"])
    assert [b"the first" in twins.same() for _ in range(3)] == [True, False, False]
