"""Workloads of a log on a simulated disk, with what was promised at every moment of them.

A `Workload` drives one log by chance: appends of every kind, rolls, flushes, cuts, deletions, closings, kills and
power cuts. Each of its chapters has a disk of its own that keeps its moments; a `Promise` says what a power
cut at such a moment has to leave. `docs/durability.md` holds the promises in words.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from logstore import Codec, Log
from logstore.config.log import LogConfig
from logstore.log import Marker
from logstore.log._producers import ProducedBatch, Producers, ProducerState
from logstore.testing import ManualClock, SimDisk
from logstore.testing.simdisk import POLICIES
from tests.crash.histories import CODECS, History, Sent, committed, expect, fields, same
from tests.kit.inside import headers_of, producers_of, segments_of

#: Settings of workloads, one after the other: small segments, so that there is much to roll.
SETTINGS = (
    {"segment_bytes": 700, "index_interval_bytes": 150},
    {"segment_bytes": 420, "index_interval_bytes": 1},
    {"segment_bytes": 9_000, "index_interval_bytes": 300, "flush_messages": 5},
    {"segment_bytes": 700, "index_interval_bytes": 150, "tail": "memory"},
    {"segment_bytes": 1_500, "index_interval_bytes": 400, "visible_after": "flush"},
)
IDEMPOTENT, TRANSACTIONAL = (7, 8), (20, 21)


class Promise(NamedTuple):
    """What a power cut has to leave: some of the first batches, but at least those below an offset."""

    sent: tuple[Sent, ...] = ()
    epochs: tuple[int, ...] = ()  #: the leader epoch of each batch
    least_end: int = 0  #: offsets below it were acknowledged as synced
    start: int = 0  #: the log start offset is this
    most_start: int = 0  #: or up to this, while a deletion is under way
    clean: bool = False  #: the log was closed


class Step(NamedTuple):
    """One call: the operations of the disk before and behind it, and what was promised."""

    began: int
    ended: int
    during: Promise
    after: Promise
    what: str


class Chapter:
    """A workload between two machines: from the opening of a log to a kill, a power cut or the end."""

    def __init__(self, disk: SimDisk, promise: Promise) -> None:
        self.disk = disk
        self.first = promise
        self.steps: list[Step] = []
        disk.keep_moments()

    def moments(self) -> Iterator[tuple[SimDisk, Promise, str]]:
        """The disk after each operation, with what is promised of it."""
        steps, place, promise = self.steps, 0, self.first
        for number, moment in enumerate(self.disk.moments(), start=1):
            if steps and number > steps[-1].ended:
                return
            while steps[place].ended <= number and place + 1 < len(steps) and steps[place + 1].began <= number:
                promise = steps[place].after
                place += 1
            step = steps[place]
            if step.ended <= number:
                yield moment, step.after, f"after {step.what}"
            else:
                yield moment, step.during if step.began < number else promise, f"in {step.what}"


class Workload:
    """One log, driven by chance from a seed."""

    def __init__(
        self,
        seed: int,
        steps: int = 40,
        settings: dict | None = None,
        plant: Callable[[SimDisk], None] = lambda disk: None,
    ) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        # Settled once: thousands of opens would ask each key again.
        self.config = LogConfig(**(SETTINGS[seed % len(SETTINGS)] if settings is None else settings))
        self.path = f"/{seed}/t-0"
        self.sent: list[Sent] = []
        self.epochs: list[int] = []
        self.history = History(None, self.rng, self.sent)
        self.log: Log | None = None
        self.abandoned: list[Log] = []
        self.chapters: list[Chapter] = []
        self.length = steps
        self.plant = plant  #: what is done to each new disk

    # -- calls

    def open(self, disk: SimDisk, promise: Promise) -> None:
        """Begin a chapter: what is found is what goes on."""
        self.plant(disk)
        chapter = Chapter(disk, promise)
        self.chapters.append(chapter)
        self.log = open_log(self, disk)
        kept = check_promise(self.log, promise)
        self.sent[:] = kept
        self.epochs[:] = promise.epochs[: len(kept)]
        self.history.log = self.log
        self.know_producers()
        chapter.steps.append(Step(0, disk.operations, promise, self.promise(), "open"))

    def do(self, what: str, act: Callable[[], object], during: Promise | None = None) -> None:
        before = self.promise() if during is None else during
        began = self.disk.operations
        epoch = self.log.replica.leader_epoch
        act()
        self.epochs += [epoch] * (len(self.sent) - len(self.epochs))
        self.chapters[-1].steps.append(Step(began, self.disk.operations, before, self.promise(), what))

    @property
    def disk(self) -> SimDisk:
        return self.chapters[-1].disk

    def promise(self) -> Promise:
        start = self.log.log_start_offset
        return Promise(tuple(self.sent), tuple(self.epochs), self.log.synced_end, start, start)

    def append(self, what: str, attempt: Callable[[], Sent], synced: bool = False) -> None:
        """An append may be in the log in part, batch by batch, until it returns."""
        before = self.promise()
        began, epoch = self.disk.operations, self.log.replica.leader_epoch
        batch = attempt()
        self.epochs.append(epoch)
        during = before._replace(sent=(*before.sent, batch), epochs=(*before.epochs, epoch))
        after = self.promise()
        assert not synced or after.least_end == batch.last + 1
        self.chapters[-1].steps.append(Step(began, self.disk.operations, during, after, what))

    def append_large(self) -> None:
        """One append of more records than a segment holds."""
        first, epoch = self.log.log_end_offset, self.log.replica.leader_epoch
        values = [self.rng.randbytes(self.config.segment_bytes // 20) for _ in range(30)]
        single = [
            Sent(first + n, first + n, ((first + n, None, value, 5_000, ()),)) for n, value in enumerate(values)
        ]
        before = self.promise()
        began = self.disk.operations
        self.log.append(values, timestamp=5_000)
        self.sent += single
        self.epochs += [epoch] * len(single)
        during = before._replace(sent=tuple(self.sent), epochs=tuple(self.epochs))
        self.chapters[-1].steps.append(Step(began, self.disk.operations, during, self.promise(), "large append"))

    def append_turn(self) -> None:
        """Batches of several clients, or of a leader: until the call returns, any first ones may be in the log."""
        producer_ids = [self.rng.choice([-1, -1, *IDEMPOTENT]) for _ in range(self.rng.randrange(2, 6))]
        for pid in sorted(set(producer_ids) - {-1}):
            self.next_of(pid)
        epoch, before, began = self.log.replica.leader_epoch, self.promise(), self.disk.operations
        ack = self.rng.choice(["written", "synced"])
        as_follower = self.rng.random() < 0.5
        sent = self.history.turn(producer_ids, ack, as_follower=as_follower)
        self.epochs += [epoch] * len(sent)
        during = before._replace(sent=tuple(self.sent), epochs=tuple(self.epochs))
        after = self.promise()
        assert ack == "written" or after.least_end == sent[-1].last + 1
        what = f"{'run' if as_follower else 'turn'}, {ack}"
        self.chapters[-1].steps.append(Step(began, self.disk.operations, during, after, what))

    def know_producers(self) -> None:
        """After something was lost: which sequences come next."""
        self.history.sequences.clear()
        for batch in self.sent:
            if batch.producer is not None and batch.marker is None:
                stamp = batch.producer
                self.history.sequences[stamp.producer_id] = stamp.base_sequence + len(batch.records)

    def next_of(self, pid: int) -> int:
        """The producer, whose sequences begin again where only a marker is left of it, as in Kafka."""
        state = producers_of(self.log).get(pid)
        if state is not None and not state.batches:
            assert not any(
                batch.last >= self.log.log_start_offset
                for batch in self.sent
                if batch.marker is None and batch.producer and batch.producer[0] == pid
            )
            self.history.sequences[pid] = state.next_sequence
        return pid

    def undecided(self) -> set[int]:
        opened: set[int] = set()
        for batch in self.sent:
            if batch.marker is not None:
                opened.discard(batch.producer.producer_id)
            elif batch.producer is not None and batch.producer.transactional:
                opened.add(batch.producer.producer_id)
        return opened

    # -- what may happen

    def run(self) -> Workload:
        try:
            self.open(SimDisk(self.seed), Promise())
            for _ in range(self.length):
                self.step()
            if self.rng.random() < 0.5:
                self.close()
            else:
                self.abandoned.append(self.log)
        except BaseException:
            self.forget()
            raise
        return self

    def forget(self) -> None:
        """Close what was left open by kills and power cuts, on disks that no later step reads."""
        for log in (*self.abandoned, *([] if self.log is None else [self.log])):
            log.close()

    def step(self) -> None:
        rng, h = self.rng, self.history
        chance = rng.random()
        count = rng.randrange(1, 4)
        if chance < 0.03:
            self.append_large()
        elif chance < 0.10:
            self.append_turn()
        elif chance < 0.26:
            codec = rng.choice(CODECS) if rng.random() < 0.3 else Codec.NONE
            self.append("append", lambda: h.append(count, codec))
        elif chance < 0.38:
            self.append("append synced", lambda: h.append(count, ack="synced"), synced=True)
        elif chance < 0.50:
            pid = self.next_of(rng.choice(IDEMPOTENT))
            self.append("idempotent append", lambda: h.append(count, producer_id=pid))
        elif chance < 0.60:
            pid = self.next_of(rng.choice(TRANSACTIONAL))
            self.append("append in a transaction", lambda: h.append(1, producer_id=pid, transactional=True))
        elif chance < 0.68:
            self.end_transaction()
        elif chance < 0.74:
            self.do("flush", self.log.flush)
        elif chance < 0.79:
            self.do("roll", self.log.maintenance.roll)
        elif chance < 0.84:
            self.cut()
        elif chance < 0.89:
            self.delete()
        elif chance < 0.93:
            self.close()
            self.open(self.disk.kill(), self.chapters[-1].steps[-1].after)
        elif chance < 0.96:
            self.die()
        else:
            self.lose_power()

    def end_transaction(self) -> None:
        pid = self.rng.choice(sorted(self.undecided()) or [TRANSACTIONAL[0]])
        marker = self.rng.choice([Marker.ABORT, Marker.COMMIT])
        if pid in {batch.producer.producer_id for batch in self.sent if batch.producer}:
            self.append("marker", lambda: self.history.end(pid, marker))

    def cut(self) -> None:
        """Truncate to an offset that may lie inside a batch."""
        if self.config.tail == "memory":
            # Where its batches end is known once they are in the files.
            self.do("flush", self.log.flush)
        low, high = max(self.log.log_start_offset, self.log.log_end_offset - 12), self.log.log_end_offset
        if high <= low:
            return
        offset = self.rng.randrange(low, high)
        kept = [batch for batch in self.sent if batch.last < offset]
        # A large append was written in batches that are not known here.
        end = max(self.batch_at(offset), self.log.log_start_offset)
        before = self.promise()
        if end == self.log.log_start_offset:
            # Nothing is left: the epochs of deleted batches may be forgotten with those that are cut.
            self.epochs[:] = [-1] * len(self.epochs)
            before = before._replace(epochs=tuple(self.epochs))

        def act() -> None:
            found = self.log.replica.truncate_to(offset)
            assert end <= found <= offset
            self.sent[:] = [batch for batch in kept if batch.last < found]
            del self.epochs[len(self.sent) :]
            self.know_producers()

        self.do(f"truncate to {offset}", act, before._replace(least_end=min(before.least_end, end)))

    def batch_at(self, offset: int) -> int:
        """Where the batch that holds an offset begins."""
        known = [b.first for b in self.sent if b.first <= offset]
        stored = [base for base, last, *_ in headers_of(self.log) if base <= offset <= last]
        return min([*stored, *known[-1:]], default=offset)

    def delete(self) -> None:
        low, high = self.log.log_start_offset, self.log.high_watermark
        if high <= low:
            return
        offset = self.rng.randrange(low, high) + (self.rng.random() < 0.3)
        before = self.promise()
        self.do(
            f"delete before {offset}", lambda: self.log.delete_before(offset), before._replace(most_start=offset)
        )

    def close(self) -> None:
        self.do("close", self.log.close)
        last = self.chapters[-1].steps.pop()
        assert last.after.least_end >= (self.sent[-1].last + 1 if self.sent else 0)
        self.chapters[-1].steps.append(last._replace(after=last.after._replace(clean=True)))

    def die(self) -> None:
        """A kill: another process finds everything that was written."""
        written = segments_of(self.log)[-1].next_offset
        self.abandoned.append(self.log)
        self.open(self.disk.kill(), self.promise())
        # The kernel has it, but it was not promised to be on the disk.
        assert self.log.log_end_offset >= written

    def lose_power(self) -> None:
        self.abandoned.append(self.log)
        policy = self.rng.choice(POLICIES)
        after = self.disk.crash(policy, seed=self.rng.randrange(2**32), page_bytes=512)
        self.open(after, self.promise())


def open_log(workload: Workload, disk: SimDisk, **options) -> Log:
    return Log.open(
        workload.path, workload.config, files=disk, clock=ManualClock(), rng=random.Random(0), **options
    )


# --- looking at what is left ------------------------------------------------------------------


def check_promise(log: Log, promise: Promise) -> list[Sent]:
    """Hold a log that was opened after a power cut against the promise; the batches that it has kept."""
    end, start = log.log_end_offset, log.log_start_offset
    assert end >= promise.least_end, f"synced up to {promise.least_end}, but the log ends at {end}"
    assert promise.start <= start <= promise.most_start, f"the log starts at {start}"
    kept = [batch for batch in promise.sent if batch.last < end]
    assert end == max(kept[-1].last + 1 if kept else 0, start), f"the log ends at {end}, which ends no batch"
    assert log.synced_end <= end
    latest = max(promise.epochs[: len(kept)], default=-1)
    if promise.clean:
        assert log.maintenance.was_clean, "it was closed, but does not open as clean"
    if not log.maintenance.was_clean:
        assert log.replica.leader_epoch > latest, f"epoch {log.replica.leader_epoch}, but a batch has {latest}"
    else:
        assert log.replica.leader_epoch >= latest
    return kept


def check_content(log: Log, kept: list[Sent], *, thorough: bool) -> None:
    """Every record is the one that was sent, none is missing; indexes and producers agree with the batches."""
    if log.high_watermark < log.log_end_offset:
        # By the settings only what is synced may be seen.
        log.flush()
    start = log.log_start_offset
    expect_from(log, kept, start, thorough)
    check_producers(log, kept)


def check_producers(log: Log, kept: list[Sent]) -> None:
    """What is known of producers agrees with the batches: with all of them, or with those that are left."""
    first = segments_of(log)[0].base_offset
    whole, left = Producers(), Producers()
    for batch in kept:
        if batch.producer is not None:
            whole.apply(produced(batch))
            if batch.first >= first:
                left.apply(produced(batch))
    for state in left:
        found = producers_of(log).get(state.producer_id)
        assert found is not None, f"producer {state.producer_id} is not known"
        # A snapshot may know of what is deleted, but it is only a hint.
        possible = said_of(state), said_of(whole.get(state.producer_id))
        assert said_of(found) in possible, f"producer {state.producer_id}: {said_of(found)}, not {possible}"


def said_of(state: ProducerState) -> tuple:
    # Not the timestamp of the last batch: a snapshot keeps one of the producer, as in Kafka.
    last = [batch[:4] for batch in state.batches[-1:]]
    return state.epoch, state.transaction_first_offset, state.next_sequence, last


def expect_from(log: Log, kept: list[Sent], start: int, thorough: bool) -> None:
    if not kept or kept[-1].last + 1 < start:
        assert log.log_end_offset == start
        assert list(log.scan()) == []
        return
    # The batches below the start are given too: transactions may have begun there.
    expect(log, kept, start, thorough=thorough, isolation=False)
    found = [fields(record) for record in log.scan(isolation="read_committed")]
    first = segments_of(log)[0].base_offset
    # A transaction of which nothing is left need not hold back what came after it.
    if found != committed([batch for batch in kept if batch.first >= first], start):
        same(found, committed(kept, start))


def produced(batch: Sent) -> ProducedBatch:
    stamp = batch.producer
    return ProducedBatch(
        batch.first,
        batch.last,
        stamp.producer_id,
        stamp.producer_epoch,
        stamp.base_sequence,
        stamp.base_sequence + len(batch.records) - 1 if batch.marker is None else -1,
        max((record[3] for record in batch.records), default=-1),
        True if batch.marker is not None else stamp.transactional,
        batch.marker is not None,
        batch.marker,
    )
