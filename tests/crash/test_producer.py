"""Power cuts at every moment of a producer's workload: acknowledged records are there, once, in order."""

from __future__ import annotations

import errno
import random
from typing import NamedTuple

import pytest

import logstore
from logstore.accumulator.syncing import Syncing
from logstore.testing import ManualClock, SimDisk
from logstore.testing.simdisk import POLICIES
from tests.crash.planted import must_break

pytestmark = [
    pytest.mark.crash,
    pytest.mark.row("P10", "P13", part="one process"),
    pytest.mark.row("S20", part="killed processes"),
]

PARTITIONS = 2


class Told(NamedTuple):
    """An acknowledgement: how many operations the disk had made by then, and what was acknowledged."""

    moments: int
    partition: int
    offset: int
    value: bytes


class Workload:
    """A producer that sends, lingers, flushes, and finds the disk full now and then.

    A root of its own: two disks of one test must not be taken for one store.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.disk, self.clock = SimDisk(seed), ManualClock()
        self.path = f"/producer-{seed}/data"
        self.sent: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        self.told: list[Told] = []

    def run(self) -> None:
        rng, disk = self.rng, self.disk
        with logstore.open(self.path, files=disk, clock=self.clock, rng=rng, environ={}) as store:
            store.create_topic("flights", partitions=PARTITIONS, settings={"segment.bytes": 900})
            disk.keep_moments()
            with store.producer(batch_size=250, linger_ms=10, ack="synced", retry_backoff_ms=1) as producer:
                for step in range(14):
                    for _ in range(rng.randrange(1, 8)):
                        self.send(producer)
                    if rng.random() < 0.3:
                        disk.fail("pwrite", 1, errno.ENOSPC, times=rng.randrange(1, 3), path_contains=".log")
                    if step % 3 == 2:
                        producer.flush()
                    else:
                        self.clock.advance(rng.randrange(15))
                        producer.tick()
        assert {number: len(values) for number, values in self.sent.items()} == {
            number: sum(told.partition == number for told in self.told) for number in self.sent
        }, "a future was not answered, or twice"

    def send(self, producer) -> None:
        partition = self.rng.randrange(PARTITIONS)
        value = b"%d-%d " % (partition, len(self.sent[partition])) + b"x" * self.rng.randrange(60)
        self.sent[partition].append(value)

        def note(done) -> None:
            at = done.result()
            self.told.append(Told(self.disk.moment_count, at.partition, at.offset, value))

        producer.send("flights", value, partition=partition).add_done_callback(note)

    def cut_everywhere(self) -> int:
        """Cut the power after every operation; how many states were examined."""
        seen = set()
        for number, moment in enumerate(self.disk.moments()):
            told = [each for each in self.told if each.moments <= number + 1]
            for policy in POLICIES:
                after = moment.crash(policy, seed=self.rng.getrandbits(63), page_bytes=512)
                state = (after.state_hash(), len(told))
                if state not in seen:
                    seen.add(state)
                    self.check(after, told)
        return len(seen)

    def check(self, disk: SimDisk, told: list[Told]) -> None:
        with logstore.open(self.path, files=disk, clock=ManualClock(), environ={}) as store:
            topic = store["flights"]
            for number, values in self.sent.items():
                found = [record.value for record in topic[number].scan()]
                assert found == values[: len(found)], "out of order, doubled or never sent"
                for each in told:
                    if each.partition == number:
                        assert found[each.offset : each.offset + 1] == [each.value], f"lost: {each}"
            # And a producer goes on.
            with store.producer() as producer:
                at = producer.send("flights", b"on", partition=0)
            assert at.result().offset == topic[0].log_end_offset - 1


@pytest.mark.parametrize("seed", range(4))
def test_what_a_producer_was_told_survives_every_power_cut(seed):
    workload = Workload(seed)
    workload.run()
    states = workload.cut_everywhere()
    print(f"seed {seed}: {states} states, {len(workload.told)} records")
    assert states > 100


def live(seeds) -> None:
    for seed in seeds:
        workload = Workload(seed)
        workload.run()
        workload.cut_everywhere()


def test_planted_an_acknowledgement_before_the_sync_is_found(monkeypatch):
    def hasty(self, log, result, first_offset, last_offset, append_time_ms, *_cuts):
        result.acknowledge(first_offset, append_time_ms)
        result.notify()

    monkeypatch.setattr(Syncing, "add", hasty)
    with pytest.raises(AssertionError, match="lost"):
        live(range(10, 15))


def test_planted_a_batch_that_is_dropped_when_there_is_no_space_is_found(monkeypatch):
    """Its futures are answered all the same: with the offset that it would have got."""
    from logstore.accumulator.partition_batcher import PartitionBatcher

    def forgetful(self, batch, error, turn):
        batch.batch_result.acknowledge(self.log.log_end_offset)
        turn.answered.append(batch.batch_result)
        self._sealed.popleft()
        self._release(batch)

    monkeypatch.setattr(PartitionBatcher, "_fail", forgetful)
    must_break("lost: ", lambda: live(range(20, 25)))
