"""One workload of a store, step by step, with what has to be true of its topics between and inside the steps.

A *view* is what the topics are: their ids, settings, partitions, and the records of each that were acknowledged as
synced. Inside a step either the view before it or the one after it is found, never anything between.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

import logstore
from logstore.errors import DiskFullError, LogstoreError, StorageFailedError
from logstore.log.directory import files
from logstore.log.directory.files import Directory
from logstore.log.formats import checkpoints
from logstore.log.root import _Shared
from logstore.records import NewTopic, TopicPartition
from logstore.testing import ManualClock, SimDisk

ROOT = "/data"
SETTINGS = {"segment_bytes": 400, "index_interval_bytes": 100, "logstore.ack": "synced"}

View = dict[str, "TopicView"]


class TopicView:
    """What is known of one topic."""

    def __init__(self, topic_id: str, partitions: int, settings: dict[str, str]) -> None:
        self.id, self.partitions, self.settings = topic_id, partitions, settings
        self.records: dict[int, list[bytes]] = {}
        self.starts: dict[int, int] = {}

    def shape(self) -> tuple[str, int, dict[str, str]]:
        return self.id, self.partitions, self.settings


class Moment(NamedTuple):
    """The disk after one operation, and the views between which it lies."""

    step: str
    disk: SimDisk
    before: View
    after: View


def open_store(disk: SimDisk, **settings):
    return logstore.open(ROOT, {**SETTINGS, **settings}, files=disk, clock=ManualClock())


class StoreWorkload:
    """Owns: the store of the workload, open or not."""

    def __init__(self, disk: SimDisk, **settings) -> None:
        self.disk = disk
        self.settings = settings
        self.view: View = {}
        self.store: logstore.Store | None = None
        self.failures = 0
        self._number = 0
        self._abandoned: list[logstore.Store | None] = []

    # -- steps

    def steps(self) -> Iterator[Callable[[], None]]:
        yield self.open
        yield self.create("flights", 2, {"retention.ms": -1})
        yield self.append("flights", 0)
        yield self.append("flights", 1, count=8)
        yield self.create("small", 1, {})
        yield self.append("small", 0)
        yield self.grow("flights", 4)
        yield self.append("flights", 3)
        yield self.housekeep
        yield self.delete("small")
        yield self.append("flights", 1)
        yield self.create("small", 2, {"cleanup.policy": "compact"})
        yield self.append("small", 1)
        yield self.producer_id
        yield self.delete_records("flights", 1, 5)
        yield self.close
        yield self.open
        yield self.alter("flights", {"retention.ms": 5000, "segment.bytes": 300})
        yield self.append("flights", 1)
        yield self.alter("flights", {"segment.bytes": None})
        yield self.append("flights", 1)
        yield self.delete("flights")
        yield self.append("small", 1)
        yield self.create_together("left", "right")
        yield self.append("right", 1)
        yield self.delete_together("left", "right")
        yield self.close

    def open(self) -> None:
        self.store = open_store(self.disk, **self.settings)

    def close(self) -> None:
        assert self.store is not None
        self.store.close()

    def housekeep(self) -> None:
        self.store.housekeep()

    def producer_id(self) -> None:
        self.store._host.next_producer_id()

    def create(self, name, partitions, settings):
        def step():
            topic = self.store.create_topic(name, partitions, settings)
            self.view[name] = TopicView(topic.id, partitions, {key: str(value) for key, value in settings.items()})

        return _named(step, f"create {name}")

    def create_together(self, *names):
        def step():
            wanted = [NewTopic(name, 2, 1, {"segment.bytes": 500}) for name in names]
            for topic in self.store.create_topics(wanted):
                self.view[topic.name] = TopicView(topic.id, 2, {"segment.bytes": "500"})

        return _named(step, f"create {','.join(names)}")

    def delete_together(self, *names):
        def step():
            self.store.delete_topics(names)
            for name in names:
                del self.view[name]

        return _named(step, f"delete {','.join(names)}")

    def append(self, name, partition, count=2):
        def step():
            for _ in range(count):
                value = b"record %d" % self._number
                self._number += 1
                self.store[name].append(value, b"key", partition=partition)
                self.view[name].records.setdefault(partition, []).append(value)

        return _named(step, f"append to {name}")

    def alter(self, name, changes):
        def step():
            settings = self.store.alter_topic(name, changes)
            self.view[name].settings = dict(settings)

        return _named(step, f"alter {name}")

    def grow(self, name, total):
        def step():
            self.store.add_partitions(name, total)
            self.view[name].partitions = total

        return _named(step, f"grow {name}")

    def delete(self, name):
        def step():
            self.store.delete_topic(name)
            del self.view[name]

        return _named(step, f"delete {name}")

    def delete_records(self, name, partition, offset):
        def step():
            self.store[name].delete_records({partition: offset})
            self.view[name].starts[partition] = offset

        return _named(step, f"delete records of {name}")

    # -- running

    def run(self, *, moments: bool = True) -> list[Moment]:
        """The whole workload; the disk after every operation of it."""
        spans = []
        if moments:
            self.disk.keep_moments()
        for step in self.steps():
            before, first = copy.deepcopy(self.view), self.disk.moment_count
            step()
            spans += [(step.__name__, before, copy.deepcopy(self.view))] * (self.disk.moment_count - first)
        return [
            Moment(name, disk, before, after)
            for (name, before, after), disk in zip(spans, self.disk.moments(), strict=True)
        ]

    def run_with_faults(self, *, stubborn: bool) -> str:
        """The whole workload, in which a step that fails is tried again; the step at which it ended early, or "".

        After a failure the store goes on, or, if it is ``stubborn`` no more or a log has failed, another
        process opens it.
        """
        for step in self.steps():
            for _ in range(3):
                try:
                    step()
                    break
                except LogstoreError as error:
                    self.failures += 1
                    if self._recover(step.__name__, error, reopen=not stubborn):
                        break
            else:
                return step.__name__
        return ""

    def _recover(self, step: str, error: LogstoreError, *, reopen: bool) -> bool:
        """Look what a step that has failed has left; whether nothing of it is to be done again."""
        if step in ("open", "close") or reopen or isinstance(error, StorageFailedError):
            self._abandoned.append(self.store)
            self.disk = self.disk.kill()
            if step in ("open", "close"):
                return step == "close"
            self.open()
            reopen = True
        what, _, text = step.rpartition(" ")
        names = text.split(",")
        for known in list(self.view):
            if known not in self.store:
                assert (what, known in names) == ("delete", True), f"{known} is gone after {step}: {error!r}"
                del self.view[known]
        for found in self.store.topics():
            try:
                told = self.store.describe_topic(found)
            except DiskFullError:
                # There is no room for the first files of a log that was never opened.
                continue
            if found not in self.view:
                made = reopen and what == "create" and found in names
                assert made, f"{found} is there after {step}: {error!r}"
                self.view[found] = TopicView("", 0, {})
            view = self.view[found]
            was, now = view.shape(), (told.id, len(told.partitions), dict(told.settings))
            assert was == now or (found in names and reopen), f"{found} is {now} after {step}, was {was}: {error!r}"
            view.id, view.partitions, view.settings = now
            for number, log in enumerate(self.store[found].partitions):
                sent = view.records.get(number, [])
                start = view.starts[number] = log.log_start_offset
                values = [record.value for record in log.scan()]
                assert values[: len(sent) - start] == sent[start:], (
                    f"{log.name}: {values} after {step}, sent {sent}"
                )
                view.records[number] = sent[:start] + values
        there = [name in self.view for name in names]
        if what in ("create", "delete"):
            assert len(set(there)) == 1, f"after {step} there are some of them: {error!r}"
            return there[0] == (what == "create")
        return self._is_grown(what, text)

    def _is_grown(self, what: str, name: str) -> bool:
        return what == "grow" and self.view[name].partitions == 4

    def abandon(self) -> None:
        """Release every store as a killed process does; the disks they write to are looked at no more."""
        for store in (*self._abandoned, self.store):
            if store is not None:
                store._host.files.heal()
                with contextlib.suppress(LogstoreError):
                    store.close()
        self._abandoned.clear()


def _named(step, name):
    step.__name__ = name
    return step


# -- what has to be true


def check(disk: SimDisk, before: View, after: View, *, write_on: bool = True, undecided: str = "") -> None:
    """Open what is left and hold it against the views; then write on, lose the power, and look again.

    Topics that are ``undecided`` could neither be made nor taken back.

    Raises:
        AssertionError, LogstoreError: something is lost, half made, or comes back.
    """
    store = open_store(disk.kill())
    ready = [TopicPartition(n, p) for n in store.topics() for p in range(store[n].partition_count)]
    store.close()
    check_checkpoints(disk, ready)
    store = open_store(disk)
    try:
        for name in undecided.split(",") if undecided else ():
            if name in store and name not in before:
                store.delete_topic(name)
        found = check_topics(store, before, after)
        check_directories(disk, store)
        if write_on:
            for name in store.topics():
                store[name].append(b"written on", b"key", partition=0)
            probe = store.create_topic("probe", 2)
            probe.append(b"probe", b"key", partition=1)
            ids = {name: store[name].id for name in store.topics()}
            cut = disk.crash("none")
    finally:
        store.close()
    if write_on:
        with open_store(cut) as store:
            left = {name: store[name].id for name in store.topics()}
            assert left == ids, f"topics after another power cut: found {left}, expected {ids}"
            probes = [record.value for record in store["probe"].read(1)]
            assert probes == [b"probe"], f"a synced record is lost by another power cut: found {probes}"
            store.delete_topic("probe")
            check_topics(store, found, found)


def check_topics(store, before: View, after: View) -> View:
    found = {}
    for name in {*before, *after}:
        allowed = [view[name].shape() if name in view else None for view in (before, after)]
        told = store.describe_topic(name) if name in store else None
        shape = None if told is None else (told.id, len(told.partitions), dict(told.settings))
        assert shape in allowed, f"{name}: found {shape}, expected one of {allowed}"
        if told is None:
            continue
        known = [view[name] for view in (before, after) if name in view and view[name].id == told.id]
        check_records(store, name, known)
        seen = TopicView(*shape)
        for number, log in enumerate(store[name].partitions):
            seen.starts[number] = log.log_start_offset
            seen.records[number] = known[-1].records.get(number, [])[: log.log_end_offset]
        found[name] = seen
    sides = {(name in before, name in found) for name in {*before, *after} if (name in before) != (name in after)}
    assert len(sides) <= 1, f"of topics that are made or deleted together some are: {found.keys()}"
    others = set(store.topics(internal=True)) - {*before, *after, "probe"}
    assert not others, f"topics that were never made: {others}"
    return found


def check_records(store, name: str, known: list[TopicView]) -> None:
    """What was acknowledged before is there; what is there was sent."""
    first, last = known[0], known[-1]
    for number in range(store[name].partition_count):
        sent = last.records.get(number, [])
        acknowledged = len(first.records.get(number, []))
        values = {r.offset: r.value for r in store[name][number].scan() if r.value != b"written on"}
        start = store[name][number].log_start_offset
        starts = first.starts.get(number, 0), last.starts.get(number, 0)
        assert start in starts, f"{name}-{number}: starts at {start}, expected one of {starts}"
        expected = {offset: value for offset, value in enumerate(sent) if offset >= start}
        kept = {offset: value for offset, value in values.items() if offset < len(sent)}
        assert kept.items() <= expected.items(), f"{name}-{number}: found {kept}, sent {expected}"
        missing = [offset for offset in expected if offset < acknowledged and offset not in kept]
        assert not missing, f"{name}-{number}: acknowledged offsets {missing} are lost"


def check_checkpoints(disk: SimDisk, partitions: Collection[TopicPartition]) -> None:
    """Kafka's recovery points name nothing that is not on the disk, and are known for ours."""
    root = Directory(ROOT, disk)
    if not root.exists() or checkpoints.RECOVERY_POINTS not in root.names():
        return
    shared = _Shared(root)
    for name, facts in shared.facts.items():
        partition = Directory(root.join(str(name)), disk)
        if facts.recovery_point is None or name not in partitions:
            continue
        point = checkpoints.decode_slots(partition.read(checkpoints.RECOVERY) or b"")
        lowers = point is not None and facts.recovery_point < point.recovery_point
        assert shared.facts_are_ours or not lowers, f"a checkpoint of ours is taken for Kafka's: {facts}, {point}"
        # Recovered, on a copy: a reader goes by a hint that may be older.
        with logstore.Log.open(partition.path, files=disk.kill()) as log:
            end = log.log_end_offset
        assert facts.recovery_point <= end, f"checkpoint {facts.recovery_point} above the end {end} of {name}"


def check_directories(disk: SimDisk, store) -> None:
    """Every directory belongs to a partition, and every partition has one."""
    below = files.partitions_below(Directory(ROOT, disk))
    owned = [
        TopicPartition(name, number)
        for name in store.topics(internal=True)
        for number in range(store[name].partition_count)
    ]
    assert set(below) <= set(owned), f"directories that are no partition's: {set(below) - set(owned)}"
    assert set(owned) <= set(below), f"partitions without a directory: {set(owned) - set(below)}"
    assert len(below) == len(owned)


__all__ = ["Moment", "StoreWorkload", "TopicView", "View", "check", "check_checkpoints", "open_store"]
