"""A log of keyed records with transactions, and what has to be in it however often it was compacted.

`Keyed` writes to a log and remembers all of it; `check` holds a log against that by the slow way: every
record is one that was sent, the table of keys and values is the one of all committed records, and below
the first dirty offset there is one record of each key, the newest.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from logstore import Codec, Log
from logstore.log import Marker, ProducerStamp

DELETE_RETENTION_MS = 10_000
CODECS = tuple(Codec)

#: Small segments and much to compact.
SETTINGS = {
    "cleanup_policy": "compact",
    "segment_bytes": 900,
    "index_interval_bytes": 120,
    "delete_retention_ms": DELETE_RETENTION_MS,
    "min_cleanable_dirty_ratio": 0.01,
}


class Keep(NamedTuple):
    """A record as it was sent."""

    offset: int
    key: bytes
    value: bytes | None
    timestamp_ms: int


class Part(NamedTuple):
    """A batch as it was sent; a marker has no records."""

    first: int
    last: int
    records: tuple[Keep, ...]
    sent_ms: int
    producer: ProducerStamp | None = None
    marker: Marker | None = None


class Keyed:
    """Writes to a log, and knows what it has written."""

    def __init__(self, log: Log, clock, rng: random.Random, keys: int = 12) -> None:
        self.log = log
        self.clock = clock
        self.rng = rng
        self.keys = keys
        self.parts: list[Part] = []
        self.sequences: dict[int, int] = {}
        self.runs: list[int] = []  #: when a compaction was run

    def append(
        self, count: int = 1, producer_id: int = -1, transactional: bool = False, ack: str = "written"
    ) -> Part:
        rng, first, now = self.rng, self.log.log_end_offset, self.clock.now_ms()
        records = [
            Keep(
                first + n,
                b"k%d" % rng.randrange(self.keys),
                rng.choice([None, b"", rng.randbytes(rng.randrange(30)), b"v" * 60]),
                now - rng.randrange(100),
            )
            for n in range(count)
        ]
        stamp = None
        if producer_id >= 0:
            stamp = ProducerStamp(producer_id, 0, self.sequences.get(producer_id, 0), transactional)
        part = Part(first, first + count - 1, tuple(records), now, stamp)
        self.log.append(
            [(r.key, r.value, r.timestamp_ms) for r in records], codec=rng.choice(CODECS), producer=stamp, ack=ack
        )
        if stamp is not None:
            self.sequences[producer_id] = stamp.base_sequence + count
        self.parts.append(part)
        return part

    def end(self, producer_id: int, marker: Marker) -> Part:
        first = self.log.log_end_offset
        stamp = ProducerStamp(producer_id, 0, -1, True)
        part = Part(first, first, (), self.clock.now_ms(), stamp, marker)
        self.log.replica.append_control(marker, producer_id=producer_id, producer_epoch=0)
        self.parts.append(part)
        return part

    def open_transactions(self) -> set[int]:
        opened: set[int] = set()
        for part in self.parts:
            if part.marker is not None:
                opened.discard(part.producer.producer_id)
            elif part.producer is not None and part.producer.transactional:
                opened.add(part.producer.producer_id)
        return opened

    def step(self) -> None:
        """Something, by chance: mostly an append."""
        chance, rng = self.rng.random(), self.rng
        opened = sorted(self.open_transactions())
        if chance < 0.5:
            self.append(rng.randrange(1, 5))
        elif chance < 0.65:
            self.append(rng.randrange(1, 4), rng.choice([7, 8]))
        elif chance < 0.8:
            self.append(rng.randrange(1, 3), rng.choice([20, 21]), True)
        elif chance < 0.93:
            if opened:
                self.end(rng.choice(opened), rng.choice([Marker.ABORT, Marker.COMMIT]))
            else:
                self.clock.advance(rng.randrange(3_000))
        else:
            self.log.maintenance.roll()

    def settle(self) -> None:
        """End what is open, so that all of it may be compacted."""
        for producer_id in sorted(self.open_transactions()):
            self.end(producer_id, self.rng.choice([Marker.ABORT, Marker.COMMIT]))

    def compact(self, **options):
        self.runs.append(self.clock.now_ms())
        return self.log.maintenance.compact(**options)


def committed(parts: list[Part]) -> list[Keep]:
    """The records of all decided transactions and of no aborted one, up to the first that is undecided."""
    undecided: dict[int, int] = {}
    aborted: set[int] = set()
    since: dict[int, list[int]] = {}
    for number, part in enumerate(parts):
        if part.producer is None:
            continue
        pid = part.producer.producer_id
        if part.marker is not None:
            if part.marker is Marker.ABORT:
                aborted.update(since.get(pid, ()))
            since.pop(pid, None)
            undecided.pop(pid, None)
        elif part.producer.transactional:
            since.setdefault(pid, []).append(number)
            undecided.setdefault(pid, part.first)
    end = min(undecided.values(), default=2**63)
    return [
        record
        for number, part in enumerate(parts)
        if number not in aborted
        for record in part.records
        if record.offset < end
    ]


def table(records) -> dict[bytes, bytes]:
    """The state that a reader builds up from a log of changes."""
    state: dict[bytes, bytes] = {}
    for record in records:
        if record.value is None:
            state.pop(record.key, None)
        else:
            state[record.key] = record.value
    return state


def kept(records) -> list[Keep]:
    return [Keep(r.offset, r.key, r.value, r.timestamp_ms) for r in records]


def check(
    log,
    parts: list[Part],
    runs: list[int],
    *,
    first_dirty: int | None = None,
    thorough: bool = True,
    start: int = 0,
) -> None:
    """Hold a log that was written by a `Keyed` against all that was sent."""
    sent = {record.offset: record for part in parts for record in part.records}
    everything = kept(log.scan())
    assert [r.offset for r in everything] == sorted({r.offset for r in everything}), "offsets do not rise"
    for record in everything:
        assert record == sent[record.offset], f"{record}, but sent was {sent[record.offset]}"
    found = kept(log.scan(isolation="read_committed"))
    wanted = [record for record in committed(parts) if record.offset >= start]
    visible = {record.offset for record in wanted}
    assert all(record.offset in visible for record in found), "an aborted record is seen"
    assert table(found) == table(wanted), "the table of keys differs"
    dirty = log._state.cleaned.first_dirty_offset if first_dirty is None else first_dirty
    # What is not compacted is all there.
    uncompacted = [r for r in wanted if r.offset >= dirty]
    assert [r for r in found if r.offset >= dirty] == uncompacted, "a record above the first dirty offset is gone"
    newest = {record.key: record for record in wanted if record.offset < dirty}
    compacted = [record for record in found if record.offset < dirty]
    missing = set(newest.values()) - set(compacted)
    assert set(compacted) <= set(newest.values()), "an older record of a key is left"
    when = {record.offset: part.sent_ms for part in parts for record in part.records}
    for record in missing:
        assert record.value is None, f"the newest record of its key is gone: {record}"
        met = [run for run in runs if run >= when[record.offset]]
        due = met[0] + DELETE_RETENTION_MS if met else 2**63
        assert runs[-1] >= due, f"a tombstone went too early: {record}"
    if thorough:
        by_offset = {record.offset: record for record in everything}
        for offset in range(log.log_start_offset, log.log_end_offset):
            one = log.record_at(offset)
            assert (None if one is None else kept([one])[0]) == by_offset.get(offset)
        for probe in everything[:: max(len(everything) // 7, 1)]:
            first = next(r for r in everything if r.timestamp_ms >= probe.timestamp_ms)
            answer = log.offset_for_time(probe.timestamp_ms)
            assert (answer.timestamp_ms, answer.offset) == (first.timestamp_ms, first.offset)
