"""One life of a store, step by step, with what has to be true of its topics between and inside the steps.

A *view* is what the topics are: their ids, settings, partitions, and the records of each that were acknowledged as
synced. Inside a step either the view before it or the one after it is found, never anything between.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import NamedTuple

import logstore
from logstore.log import files
from logstore.log.files import Directory
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


class StoreLife:
    """Owns: the store of the life, open or not."""

    def __init__(self, disk: SimDisk, **settings) -> None:
        self.disk = disk
        self.settings = settings
        self.view: View = {}
        self.store: logstore.Store | None = None
        self._number = 0

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
        yield self.alter("flights", {"segment.bytes": None})
        yield self.append("flights", 1)
        yield self.delete("flights")
        yield self.append("small", 1)
        yield self.close

    def open(self) -> None:
        self.store = open_store(self.disk, **self.settings)

    def close(self) -> None:
        assert self.store is not None
        self.store.close()

    def housekeep(self) -> None:
        self.store.housekeep()

    def producer_id(self) -> None:
        self.store.next_producer_id()

    def create(self, name, partitions, settings):
        def step():
            topic = self.store.create_topic(name, partitions, settings)
            self.view[name] = TopicView(topic.id, partitions, dict(self.store.describe_topic(name).settings))

        return _named(step, f"create {name}")

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

    def run(self) -> list[Moment]:
        """The whole life; the disk after every operation of it."""
        spans = []
        self.disk.keep_moments()
        for step in self.steps():
            before, first = copy.deepcopy(self.view), self.disk.moment_count
            step()
            spans += [(step.__name__, before, copy.deepcopy(self.view))] * (self.disk.moment_count - first)
        return [
            Moment(name, disk, before, after)
            for (name, before, after), disk in zip(spans, self.disk.moments(), strict=True)
        ]


def _named(step, name):
    step.__name__ = name
    return step


# -- what has to be true


def check(disk: SimDisk, before: View, after: View, *, write_on: bool = True) -> None:
    """Open what is left and hold it against the views; then write on, lose the power, and look again.

    Raises:
        AssertionError, LogstoreError: something is lost, half made, or comes back.
    """
    store = open_store(disk)
    try:
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
            assert {name: store[name].id for name in store.topics()} == ids
            assert [record.value for record in store["probe"].read(1)] == [b"probe"]
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
        found[name] = known[allowed.index(shape) if len(known) == 2 else 0]
        check_records(store, name, known)
    others = set(store.topics(internal=True)) - {*before, *after, "probe"}
    assert not others, f"topics that nobody made: {others}"
    return found


def check_records(store, name: str, known: list[TopicView]) -> None:
    """What was acknowledged before is there; what is there was sent."""
    first, last = known[0], known[-1]
    for number in range(store[name].partition_count):
        sent = last.records.get(number, [])
        acknowledged = len(first.records.get(number, []))
        values = {r.offset: r.value for r in store[name][number].scan() if r.value != b"written on"}
        start = store[name][number].log_start_offset
        assert start in (first.starts.get(number, 0), last.starts.get(number, 0))
        expected = {offset: value for offset, value in enumerate(sent) if offset >= start}
        kept = {offset: value for offset, value in values.items() if offset < len(sent)}
        assert kept.items() <= expected.items(), f"{name}-{number}: found {kept}, sent {expected}"
        missing = [offset for offset in expected if offset < acknowledged and offset not in kept]
        assert not missing, f"{name}-{number}: acknowledged offsets {missing} are lost"


def check_directories(disk: SimDisk, store) -> None:
    """Every directory belongs to a partition, and every partition has one."""
    below = files.partitions_below(Directory(ROOT, disk))
    owned = [
        logstore.TopicPartition(name, number)
        for name in store.topics(internal=True)
        for number in range(store[name].partition_count)
    ]
    assert below == sorted(owned)


__all__ = ["Moment", "StoreLife", "TopicView", "View", "check", "open_store"]
