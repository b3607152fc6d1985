"""One workload of a store into which batches of several queries are staged and taken in, step by step.

What was taken in is a set of (query, batch). Between steps exactly these are visible to committed readers, each
record once; inside a step the batch at hand is there whole, or not at all, once the store was opened and has
kept house; and ingesting it again, staged again as Spark would, gives each record once.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import logstore
from logstore.batch._encode import Encoder
from logstore.errors import LogstoreError, OldBatchError
from logstore.records import Isolation
from logstore.store.commit.ingest import Ingested
from logstore.store.commit.staged_writer import Manifest, StagedFileWriter
from logstore.testing import ManualClock, SimDisk

ROOT = "/data"
SETTINGS = {"segment.bytes": 700, "index.interval.bytes": 100, "logstore.housekeeping": "manual"}
PARTITIONS = {"flights": 3, "small": 1, "back": 2}

Key = tuple[str, int]

#: What each batch holds: topic, partition, how many records in which staged files.
SHARES: dict[Key, list[tuple[str, int, list[int]]]] = {
    ("q", 0): [("flights", 0, [3]), ("flights", 2, [2, 1])],
    ("r", 0): [("flights", 1, [2]), ("small", 0, [4])],
    ("q", 1): [("flights", 0, [9, 9]), ("flights", 1, [1]), ("small", 0, [2])],
    ("job:1", 0): [("flights", 2, [2]), ("flights", 0, [1])],
    ("back", 0): [("back", 0, [3, 3]), ("back", 1, [2])],
    ("back", 1): [("back", 0, [4])],
    ("q", 2): [("flights", 2, [5])],
}
#: Of a replay: where the records of a batch begin, by partition.
STARTS = {("back", 0): {0: 10, 1: 0}, ("back", 1): {0: 20, 1: 5}}


class Moment(NamedTuple):
    """The disk after one operation, what was in before its step, and the batch that the step takes in."""

    step: str
    disk: SimDisk
    before: frozenset[Key]
    at_hand: Key | None


def open_store(disk: SimDisk, **settings) -> logstore.Store:
    return logstore.open(ROOT, {**SETTINGS, **settings}, files=disk, clock=ManualClock())


def values_of(key: Key, topic: str, partition: int) -> list[bytes]:
    count = sum(sum(sizes) for t, p, sizes in SHARES[key] if (t, p) == (topic, partition))
    return [b"%s.%d %s-%d %d" % (key[0].encode(), key[1], topic.encode(), partition, n) for n in range(count)]


def mode_of(key: Key) -> str:
    return "replay" if key[0] == "back" else "exactly_once"


def stage(store: logstore.Store, key: Key, *, attempt: int = 0) -> Manifest:
    """Stage a batch as the tasks of a query do."""
    files = []
    for topic, partition, sizes in SHARES[key]:
        values = values_of(key, topic, partition)
        offset = STARTS.get(key, {}).get(partition)
        for size in sizes:
            staging = StagedFileWriter.create(
                ROOT,
                topic,
                store[topic].id,
                partition,
                query=key[0],
                batch=key[1],
                attempt=attempt,
                files=store._host.files,
            )
            # A batch for each two records, so that there are several to a file and to a chunk.
            for first in range(0, size, 2):
                encoder = Encoder().begin(timestamp_ms=store._host.clock.now_ms())
                chosen = values[first : min(first + 2, size)]
                encoder.add_all([(b"key " + value, value) for value in chosen])
                staging.write(encoder.finish(), base_offset=None if offset is None else offset + first)
            if offset is not None:
                offset += size
            files.append(staging.close())
            values = values[size:]
    return Manifest(key[0], key[1], mode_of(key), tuple(files))


def take_in(store: logstore.Store, key: Key, *, attempt: int = 0) -> Ingested:
    return store._host.ingest(stage(store, key, attempt=attempt))


def is_in(store: logstore.Store, key: Key) -> bool:
    """Whether the store says of a batch that comes again that it is in, or that even a newer one is."""
    try:
        return take_in(store, key, attempt=1).duplicate
    except OldBatchError:
        return True


class IngestWorkload:
    """Owns: the store of the workload, open or not."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self.store: logstore.Store | None = None
        self.done: set[Key] = set()
        self.plain = 0

    def steps(self) -> Iterator[tuple[str, Callable[[], object], Key | None]]:
        yield "open", self.open, None
        yield "create", self.create, None
        yield self.take_in("q", 0)
        yield "plain", self.append, None
        yield self.take_in("r", 0)
        yield self.take_in("q", 1)
        yield "housekeep", lambda: self.store.housekeep(), None
        yield self.take_in("back", 0)
        yield self.take_in("job:1", 0)
        yield "close", lambda: self.store.close(), None
        yield "open", self.open, None
        yield "plain", self.append, None
        yield self.take_in("q", 1)
        yield self.take_in("back", 1)
        yield self.take_in("q", 2)
        yield "close", lambda: self.store.close(), None

    def open(self) -> None:
        self.store = open_store(self.disk)

    def create(self) -> None:
        for topic, partitions in PARTITIONS.items():
            if topic not in self.store:
                self.store.create_topic(
                    topic, partitions, {"cleanup.policy": "compact"} if topic == "small" else {}
                )

    def append(self) -> None:
        self.store["flights"].append(b"plain %d" % self.plain, b"key", partition=0, ack="synced")
        self.plain += 1

    def take_in(self, *key) -> tuple[str, Callable[[], object], Key]:
        def step():
            found = take_in(self.store, key)
            assert found.duplicate or key not in self.done, f"{key} was taken in twice"
            assert not found.duplicate or key in self.done, f"{key} was never taken in"
            self.done.add(key)

        return f"take in {key}", step, key

    def run(self, *, moments: bool = True) -> list[Moment]:
        """The whole workload; the disk after every operation of it."""
        spans: list[tuple[str, frozenset[Key], Key | None]] = []
        if moments:
            self.disk.keep_moments()
        for name, step, key in self.steps():
            before, first = frozenset(self.done), self.disk.moment_count
            try:
                step()
            except BaseException:
                self.abandon()
                raise
            spans += [(name, before, key)] * (self.disk.moment_count - first)
        return [
            Moment(name, disk, before, key)
            for (name, before, key), disk in zip(spans, self.disk.moments(), strict=True)
        ]

    def abandon(self) -> None:
        """Release the store, whatever state it is in."""
        if self.store is not None:
            self.store._host.files.heal()
            with contextlib.suppress(LogstoreError):
                self.store.close()


# -- what has to be true


def seen(store: logstore.Store) -> Counter[bytes]:
    """Every value that committed readers see, and how often."""
    found: Counter[bytes] = Counter()
    for topic in store.topics():
        for number in range(len(store[topic])):
            log = store[topic][number]
            found.update(r.value for r in log.scan(isolation=Isolation.READ_COMMITTED))
    return Counter({value: count for value, count in found.items() if not value.startswith((b"plain", b"more"))})


def expected(done: set[Key] | frozenset[Key]) -> Counter[bytes]:
    places = {(topic, number) for topic, count in PARTITIONS.items() for number in range(count)}
    return Counter(value for key in done for place in places for value in values_of(key, *place))


def check(disk: SimDisk, before: frozenset[Key], at_hand: Key | None, *, cut_again: bool = True) -> None:
    """Open what is left, hold it against what was taken in, and go on as the writer would.

    Then the power is cut again, unless a sync of names has failed, which nothing makes good (see durability.md).

    Raises:
        AssertionError, LogstoreError: something is lost, doubled, half there, or keeps readers waiting.
    """
    with open_store(disk) as store:
        if not set(PARTITIONS) <= set(store.topics()):
            assert not before, f"the topics of {sorted(before)} are gone"
            return
        store.housekeep()
        check_settled(store, before, at_hand)
        for key in sorted(before):
            assert is_in(store, key), f"{key} was taken in twice"
        if at_hand is not None:
            take_in(store, at_hand, attempt=1)
            before |= {at_hand}
        assert seen(store) == expected(before), f"after taking in {at_hand} again: batches differ: {seen(store)}"
        assert not staged(disk), f"staged files are left: {staged(disk)}"
        cut = disk.crash("none")
    if not cut_again:
        return
    with open_store(cut) as store:
        store.housekeep()
        assert seen(store) == expected(before), f"after another power cut: batches differ: {seen(store)}"


def check_settled(store: logstore.Store, before: frozenset[Key], at_hand: Key | None) -> None:
    """Nothing keeps a committed reader waiting, and the batch at hand is there whole, or not at all."""
    for topic in PARTITIONS:
        for number in range(len(store[topic])):
            log = store[topic][number]
            assert log.last_stable_offset == log.log_end_offset, f"{log.name} waits for a transaction"
    found = seen(store)
    allowed = [expected(before), expected(before | {at_hand})] if at_hand is not None else [expected(before)]
    if at_hand is not None and mode_of(at_hand) == "replay":
        # A log after the other, each from its beginning: what is there is a part of it.
        assert expected(before) <= found <= allowed[1], (
            f"batches in part: found {found}, expected a part of {allowed[1]}"
        )
        return
    assert found in allowed, f"batches in part: found {found}, expected one of {allowed}"


def staged(disk: SimDisk) -> list[str]:
    """Staged files that no process has removed, of batches that are over."""
    return [path for path in disk.image(ROOT) if "/.staging/" in path and ".1." in path.rpartition("/")[2]]


__all__ = ["IngestWorkload", "Moment", "check", "open_store", "seen", "stage", "take_in"]
