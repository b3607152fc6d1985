"""A store with something of everything in it, the loss of its files, and what it answers after that.

`build` runs a store's workload on a simulated disk and gives three disks of it: as a close leaves it, as a kill
leaves it, and as it was "yesterday". A `Fault` changes one file of such a disk: deleted, emptied, cut, or
replaced by yesterday's. `observe` asks a store everything that a user may ask, for writing or read-only, each
answer on its own, so that a refusal of one is told from a wrong answer of another.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, NamedTuple

import logstore
from logstore import Log
from logstore.batch._encode import Encoder
from logstore.client.backend.findings import Finding, Level
from logstore.config.store import StoreConfig
from logstore.errors import LogstoreError, OldBatchError
from logstore.log import Marker, ProducerStamp
from logstore.log.directory import files
from logstore.records import Isolation, TopicPartition
from logstore.store.admin.diagnosis import diagnose
from logstore.store.catalog.change_blocks import BLOCK
from logstore.store.catalog.topic_list import CATALOGUE
from logstore.store.commit.staged_writer import EXACTLY_ONCE, Manifest, StagedFileWriter
from logstore.testing import ManualClock, SimDisk
from logstore.testing.clock import START_MS
from tests.kit.inside import state_of
from tests.kit.rolling import HeldTasks

ROOT = "/data"
SETTINGS = {
    "segment.bytes": 330,
    "index.interval.bytes": 100,
    "logstore.ack": "synced",
    "logstore.housekeeping": "manual",
    "offsets.topic.segment.bytes": 420,
}
PARTITIONS = {"flights": 2, "moves": 1, "keys": 1}
GROUP = "readers"
OLD_GROUP = "committed once, long ago"
QUERY = "q"
DAY_MS = 86_400_000
WRITTEN = b"written, and not synced"
EVERYWHERE = tuple(f"{topic}-{number}" for topic, count in PARTITIONS.items() for number in range(count))


# --- the store ---------------------------------------------------------------------------------


class Built(NamedTuple):
    """The disks of one store, by name, and what it has given away."""

    closed: SimDisk
    killed: SimDisk
    yesterday: SimDisk
    producer_ids: tuple[int, ...]
    epochs: dict[str, int]  #: the leader epoch that each partition has come to
    stamps: dict[TopicPartition, tuple[ProducerStamp, bytes]]  #: the last batch of an idempotent producer


def open_store(disk: SimDisk, *, read_only: bool = False, clock: ManualClock | None = None) -> logstore.Store:
    return logstore.open(
        ROOT,
        SETTINGS,
        read_only=read_only,
        create=False,
        files=disk,
        clock=clock or ManualClock(),
        rng=random.Random(7),
        environ={},
    )


class _Workload:
    """Writes to the store. Owns: nothing that outlives `build`."""

    def __init__(self) -> None:
        self.disk = SimDisk(1)
        self.clock = ManualClock()
        self.rng = random.Random(7)
        self.number = 0
        self.ids: list[int] = []
        self.stamps: dict[TopicPartition, tuple[ProducerStamp, bytes]] = {}
        self.sequences: dict[TopicPartition, ProducerStamp] = {}
        self.commits = 0
        self.batches = 0
        self.store = logstore.open(ROOT, SETTINGS, files=self.disk, clock=self.clock, rng=self.rng, environ={})

    def value(self) -> bytes:
        self.number += 1
        return b"record %03d of the life of this store" % self.number

    def log(self, topic: str, partition: int = 0) -> Log:
        log = self.store[topic][partition]
        assert isinstance(log, Log)
        return log

    def plain(self, topic: str, partition: int, count: int) -> None:
        for _ in range(count):
            self.clock.advance(1_000)
            self.store[topic].append(self.value(), b"key", partition=partition)

    def keyed(self, count: int) -> None:
        for n in range(count):
            self.clock.advance(1_000)
            self.store["keys"].append(None if n == 2 else self.value(), b"key %d" % (n % 3), partition=0)

    def produced(self, topic: str, partition: int, count: int) -> None:
        """Batches of an idempotent producer."""
        place = TopicPartition(topic, partition)
        if place not in self.sequences:
            self.ids.append(self.store._host.next_producer_id())
            self.sequences[place] = ProducerStamp(self.ids[-1], 0, 0)
        for _ in range(count):
            stamp, value = self.sequences[place], self.value()
            self.log(topic, partition).append([value], producer=stamp)
            self.stamps[place] = stamp, value
            self.sequences[place] = stamp._replace(base_sequence=stamp.base_sequence + 1)

    def transaction(self, marker: Marker, count: int, *, topic: str = "moves") -> None:
        """A transaction of a producer of its own, with plain records between."""
        self.ids.append(self.store._host.next_producer_id())
        log = self.log(topic)
        for n in range(count):
            stamp = ProducerStamp(self.ids[-1], 0, n, transactional=True)
            log.append([b"%s %d" % (marker.name.encode(), n) + self.value()], producer=stamp)
            self.plain(topic, 0, n % 2)
        log.replica.append_control(marker, producer_id=self.ids[-1], producer_epoch=0)

    def commit(self, count: int = 1) -> None:
        for _ in range(count):
            self.commits += 1
            self.store.commit_offsets(
                GROUP, {TopicPartition("flights", p): min(self.commits, 5 + p) for p in range(2)}, ack="synced"
            )

    def commit_once(self) -> None:
        self.store.commit_offsets(OLD_GROUP, {TopicPartition("flights", 0): 2}, ack="synced")

    def take_in(self) -> None:
        assert not self.store._host.ingest(stage(self.store, self.batches)).duplicate
        self.batches += 1

    def again(self) -> None:
        """A kill, and another process: the next leader epoch."""
        killed, self.disk = self.store, self.disk.kill()
        # On a disk that is looked at no more.
        killed.close()
        self.store = open_store(self.disk, clock=self.clock)


def stage(store: logstore.Store, batch: int) -> Manifest:
    """Stage a batch of the query as a task of Spark does."""
    staging = StagedFileWriter.create(
        ROOT, "moves", store["moves"].id, 0, query=QUERY, batch=batch, attempt=0, files=store._host.files
    )
    encoder = Encoder().begin(timestamp_ms=store._host.clock.now_ms())
    encoder.add_all([(None, b"staged %d of batch %d" % (n, batch)) for n in range(2)])
    staging.write(encoder.finish())
    return Manifest(QUERY, batch, EXACTLY_ONCE, (staging.close(),))


def build() -> Built:
    """Run the workload of a store, up to a close and up to a kill; both ends hold the same."""
    workload = _Workload()
    workload.store.create_topic("flights", 2, {"retention.ms": -1})
    workload.store.create_topic("moves", 1, {"retention.ms": -1})
    workload.store.create_topic("keys", 1, {"cleanup.policy": "compact"})
    workload.plain("flights", 0, 2)
    workload.commit_once()
    _day(workload)
    workload.log("flights", 1).delete_before(3)
    _compact(workload)
    workload.again()
    # A process that wrote nothing has an epoch of its own all the same.
    workload.plain("flights", 1, 1)
    yesterday = workload.disk.kill()
    workload.again()
    _day(workload)
    workload.log("flights", 1).delete_before(8)
    _compact(workload)
    workload.store.alter_topic("flights", {"max.message.bytes": 900_000})
    workload.plain("flights", 0, 1)
    workload.commit()
    # The kill comes between a roll and what follows it: the newest segment has the name of a prepared file.
    late = HeldTasks()
    state_of(workload.log("flights", 1)).rolls._worker = late
    workload.log("flights", 1).maintenance.roll()
    workload.store["flights"].append(WRITTEN, b"key", partition=1, ack="written")
    epochs = {place: workload.log(*files.parse_partition(place)).replica.leader_epoch for place in EVERYWHERE}
    killed = workload.disk.kill()
    late.run()
    workload.store.close()
    return Built(workload.disk, killed, yesterday, tuple(workload.ids), epochs, dict(workload.stamps))


def _day(workload: _Workload) -> None:
    workload.plain("flights", 0, 3)
    workload.produced("flights", 0, 3)
    workload.plain("flights", 1, 6)
    workload.transaction(Marker.ABORT, 2)
    workload.transaction(Marker.COMMIT, 1)
    workload.transaction(Marker.ABORT, 3)
    workload.keyed(8)
    workload.commit(3)
    workload.take_in()
    workload.plain("moves", 0, 1)


def _compact(workload: _Workload) -> None:
    workload.log("keys").maintenance.roll()
    workload.keyed(2)
    workload.log("keys").maintenance.compact()


# --- faults ------------------------------------------------------------------------------------


class Fault(NamedTuple):
    """What happens to one file. ``what`` is a word of the table; ``size`` of a cut, in bytes."""

    path: str
    what: str
    size: int = 0

    def apply(self, disk: SimDisk, yesterday: dict[str, bytes]) -> None:
        if self.what == DELETED:
            disk.unlink(self.path)
            return
        file = disk.open(self.path, writable=True)
        try:
            file.truncate(self.size)
            if self.what == OLDER:
                file.write(yesterday[self.path], 0)
            file.mark_dirty()
            file.sync()
        finally:
            file.close()

    def __str__(self) -> str:
        return f"{self.path}: {self.what}" + (f" at {self.size}" if "cut" in self.what else "")


DELETED, EMPTIED, CUT, CUT_INSIDE, OLDER = "deleted", "emptied", "cut", "cut inside", "yesterday's"

_ENTRY_BYTES = {".index": 8, ".timeindex": 12, ".txnindex": 34}


def batch_ends(data: bytes) -> list[int]:
    """Where the batches of a segment end."""
    ends, position = [], 0
    while position < len(data):
        position += int.from_bytes(data[position + 8 : position + 12], "big") + 12
        ends.append(position)
    return ends


def faults_of(path: str, data: bytes, yesterday: dict[str, bytes]) -> Iterator[Fault]:
    """What is done to one file, all of it."""
    yield Fault(path, DELETED)
    if not data:
        return
    yield Fault(path, EMPTIED)
    if path.endswith(files.LOG):
        ends = batch_ends(data)
        for end in ends[:-1]:
            yield Fault(path, CUT, end)
        yield Fault(path, CUT_INSIDE, ends[-1] - 1)
        return
    if path.endswith(CATALOGUE):
        # Before and behind the last change: what is left is a whole catalogue.
        used = len(data.rstrip(b"\0"))
        yield from (Fault(path, CUT, size) for size in (used - BLOCK, used) if data[size:])
    suffix = path[path.rfind(".") :]
    last_entry = len(data) - _ENTRY_BYTES.get(suffix, 1)
    for size in sorted({last_entry, len(data) // 2, len(data) - 1} - {0}):
        yield Fault(path, CUT_INSIDE, size)
    if yesterday.get(path, data) != data:
        yield Fault(path, OLDER)


# --- answers -----------------------------------------------------------------------------------


class Refused(NamedTuple):
    """An error in the place of an answer."""

    error: str

    @classmethod
    def of(cls, error: BaseException) -> Refused:
        return cls(f"{type(error).__name__}: {error}")


class Question(NamedTuple):
    """Of which place something was asked: a partition, or "" for the store as a whole."""

    place: str
    what: str


class Observed(NamedTuple):
    """What a store answered, and what `doctor` said of it before."""

    answers: dict[Question, Any]
    findings: list[Finding]

    def problems(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level is not Level.INFO]


class _Asking:
    def __init__(self) -> None:
        self.answers: dict[Question, Any] = {}

    def ask(self, place: str, what: str, question: Callable[[], Any]) -> Any:
        try:
            answer = question()
        except LogstoreError as error:
            answer = Refused.of(error)
        self.answers[Question(place, what)] = answer
        return answer


def observe(disk: SimDisk, built: Built, *, read_only: bool, places: Collection[str] = EVERYWHERE) -> Observed:
    """Everything that can be asked of the files of a disk, and of these partitions; the disk is changed by it."""
    findings = list(diagnose(ROOT, StoreConfig.of(SETTINGS), deep=True, table=disk))
    asking = _Asking()
    clock = ManualClock(START_MS + DAY_MS)
    with _opened(asking, disk, clock, read_only, "open") as store:
        if store is not None:
            _ask_store(asking, store, built)
            for place in places:
                _ask_log(asking, store, place)
            if not read_only:
                _write_on(asking, store, built, clock, places)
    if not read_only and store is not None:
        with _opened(asking, disk, clock, False, "open again") as store:
            if store is not None:
                for place in places:
                    _ask_newest(asking, store, place, "at the end")
    return Observed(asking.answers, findings)


@contextlib.contextmanager
def _opened(
    asking: _Asking, disk: SimDisk, clock: ManualClock, read_only: bool, what: str
) -> Iterator[logstore.Store | None]:
    opened: list[logstore.Store] = []

    def open_it() -> bool:
        opened.append(open_store(disk, read_only=read_only, clock=clock))
        return True

    asking.ask("", what, open_it)
    yield opened[0] if opened else None
    for store in opened:
        asking.ask("", f"close after {what}", store.close)


def _ask_store(asking: _Asking, store: logstore.Store, built: Built) -> None:
    ask = asking.ask
    ask("", "cluster", lambda: store._host.cluster_id)
    ask("", "topics", lambda: store.topics(internal=True))
    ask("", "ids", lambda: {name: store[name].id for name in PARTITIONS})
    ask("", "settings", lambda: {name: store[name].config for name in PARTITIONS})
    ask("", "committed", lambda: [store.committed(group) for group in (GROUP, OLD_GROUP)])


def _ask_log(asking: _Asking, store: logstore.Store, place: str) -> None:
    topic, partition = files.parse_partition(place)

    def ask(what: str, question: Callable[[], Any]) -> None:
        asking.ask(place, what, question)

    def log() -> Any:
        return store[topic][partition]

    ask("marks", lambda: (log().log_start_offset, log().last_stable_offset, log().log_end_offset))
    ask("each", lambda: _each(log()))
    ask("times", lambda: [log().offset_for_time(START_MS + second * 1000) for second in (0, 30, 45, 60)])
    for isolation in Isolation:
        word = isolation.value
        ask(f"scan, {word}", partial(_scanned, log, isolation))
        ask(f"count, {word}", partial(_counted, store, topic, partition, isolation))
        ask(f"consumed, {word}", partial(_consumed, store, topic, partition, isolation))


def _scanned(log: Callable[[], Any], isolation: Isolation) -> list[Any]:
    return _records(log().scan(isolation=isolation))


def _counted(store: logstore.Store, topic: str, partition: int, isolation: Isolation) -> int:
    return store[topic].scan(partitions=partition, isolation=isolation).count()


def _records(records: Any) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records]


def _consumed(store: logstore.Store, topic: str, partition: int, isolation: Isolation) -> list[Any]:
    consumer = store.consumer(isolation_level=isolation.value, auto_offset_reset="none", enable_auto_commit=False)
    try:
        place = TopicPartition(topic, partition)
        consumer.assign([place])
        consumer.seek(place, store[topic][partition].log_start_offset)
        found: list[Any] = []
        while records := consumer.poll():
            found += _records(records)
        return found
    finally:
        consumer.close()


def _each(log: Any) -> list[bytes | None]:
    found = []
    for offset in range(log.log_start_offset, log.log_end_offset):
        record = log.record_at(offset)
        found.append(None if record is None else record.value)
    return found


def _ask_newest(asking: _Asking, store: logstore.Store, place: str, when: str) -> None:
    """What of the records stays whatever is compacted meanwhile."""
    topic, partition = files.parse_partition(place)

    def newest() -> Any:
        found = _records(store[topic][partition].scan(isolation=Isolation.READ_COMMITTED))
        if topic != "keys":
            return found
        by_key = {key: (offset, value) for offset, key, value in found}
        return {key: there for key, there in by_key.items() if there[1] is not None}

    asking.ask(place, when, newest)


def _write_on(
    asking: _Asking, store: logstore.Store, built: Built, clock: ManualClock, places: Collection[str]
) -> None:
    """What a store that goes on must not have forgotten."""
    ask = asking.ask
    for name, (stamp, value) in built.stamps.items():
        if str(name) in places:
            ask(str(name), "a batch sent again", partial(_sent_again, store, name, stamp, value))
    ask("", "a batch taken in again", lambda: _taken_in_again(store))
    ask("", "a new producer id", lambda: store._host.next_producer_id() > max(built.producer_ids))
    for place in places:
        topic, partition = files.parse_partition(place)
        ask(place, "epoch", partial(_goes_on_in_its_epoch, store, place, built))
    clock.advance(60 * DAY_MS)
    ask("", "housekeeping", store.housekeep)
    for place in places:
        topic, partition = files.parse_partition(place)
        _ask_newest(asking, store, place, "after housekeeping")
        ask(place, "append", partial(_append, store, topic, partition))


def _sent_again(store: logstore.Store, name: TopicPartition, stamp: ProducerStamp, value: bytes) -> bool:
    log = store._host.partition(*name)
    assert isinstance(log, Log)
    return log.append([value], producer=stamp).duplicate


def _goes_on_in_its_epoch(store: logstore.Store, place: str, built: Built) -> bool:
    log = store._host.partition(*files.parse_partition(place))
    assert isinstance(log, Log)
    return log.replica.leader_epoch >= built.epochs[place]


def _append(store: logstore.Store, topic: str, partition: int) -> int:
    return store[topic].append(b"written on", b"new key", partition=partition).offset


def _taken_in_again(store: logstore.Store) -> list[str]:
    found = []
    for batch in (1, 0):
        try:
            found.append("duplicate" if store._host.ingest(stage(store, batch)).duplicate else "taken in")
        except OldBatchError:
            found.append("old")
    return found
