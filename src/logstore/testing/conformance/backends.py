"""Conformance suite of `Backend`: one set of tests for the files of a store and for the brokers of a cluster."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

import pytest

from logstore.batch._batch import Batches
from logstore.client.backend.backend import Backend
from logstore.client.backend.partitions import PartitionCursor
from logstore.client.consumer import Consumer
from logstore.client.lag import lag_of_group
from logstore.config.client import ConsumerConfig
from logstore.config.log import Setting
from logstore.errors import (
    InvalidGroupError,
    OffsetOutOfRangeError,
    UnknownPartitionError,
    UnknownTopicError,
    WakeupError,
)
from logstore.groups.offsets import OffsetAndMetadata
from logstore.io._notifier import Notifier
from logstore.records import Isolation, TimestampOffset, TopicPartition

#: How long a record may take to arrive, or a thread to end; only a wrong back end reaches it.
_PATIENCE_S = 30.0

_ALL = Isolation.READ_UNCOMMITTED
_COMMITTED = Isolation.READ_COMMITTED


class BackendUnderTest(ABC):
    """A back end without topics, and what changes its topics beside it."""

    backend: Backend

    @abstractmethod
    def create(self, topic: str, partitions: int = 1) -> None:
        """Create a topic."""

    @abstractmethod
    def append(self, name: TopicPartition, values: Sequence[bytes], timestamp_ms: int = 0) -> None:
        """Append the values in one batch, all with this timestamp."""

    @abstractmethod
    def delete(self, topic: str) -> None:
        """Delete a topic."""

    @abstractmethod
    def add_partitions(self, topic: str, total: int) -> None:
        """Give a topic more partitions."""

    @abstractmethod
    def delete_before(self, name: TopicPartition, offset: int) -> None:
        """Raise the log start offset of a partition."""


class BackendConformance:
    """The suite for `logstore.client.backend.Backend`."""

    @abstractmethod
    def under_test(self) -> AbstractContextManager[BackendUnderTest]:
        """Return a back end without topics, open for the time of a `with` block."""

    # -- topics

    def test_topics_are_listed_with_their_facts(self) -> None:
        with self.under_test() as scene:
            assert scene.backend.topics() == []
            scene.create("weather", 3)
            scene.create("flights")
            assert scene.backend.topics() == ["flights", "weather"]
            facts = scene.backend.facts("weather")
            assert (facts.name, facts.partitions, facts.added_from) == ("weather", 3, 3)
            assert facts.id
            assert scene.backend.facts("weather", facts.id) == facts
            assert scene.backend.facts("flights").id != facts.id

    def test_a_topic_that_is_not_there_is_refused_by_name(self) -> None:
        with self.under_test() as scene:
            scene.create("flights")
            backend = scene.backend
            for call in (
                lambda: backend.facts("ships"),
                lambda: backend.start_offsets([TopicPartition("ships", 0)]),
                lambda: backend.end_offsets([TopicPartition("ships", 0)], _ALL),
                lambda: backend.offsets_for_times({TopicPartition("ships", 0): 0}, _ALL),
            ):
                with pytest.raises(UnknownTopicError, match="ships"):
                    call()
            with pytest.raises(UnknownPartitionError, match=r"flights.*1"):
                backend.start_offsets([TopicPartition("flights", 1)])

    def test_partitions_that_are_added_are_seen_and_told_from_the_first(self) -> None:
        with self.under_test() as scene:
            scene.create("flights", 2)
            topic_id = scene.backend.facts("flights").id
            known = scene.backend.topics_known()
            assert scene.backend.topics_known() is known
            scene.add_partitions("flights", 5)
            scene.backend.topics()
            facts = scene.backend.facts("flights", topic_id)
            assert (facts.partitions, facts.added_from) == (5, 2)
            assert scene.backend.topics_known() is not known

    def test_a_topic_that_is_made_again_is_another_one(self) -> None:
        with self.under_test() as scene:
            name = TopicPartition("flights", 0)
            scene.create("flights")
            topic_id = scene.backend.facts("flights").id
            scene.backend.check_exists(name, topic_id)
            scene.delete("flights")
            assert scene.backend.topics() == []
            with pytest.raises(UnknownTopicError, match="flights"):
                scene.backend.check_exists(name, topic_id)
            scene.create("flights")
            scene.backend.topics()
            with pytest.raises(UnknownTopicError, match="flights"):
                scene.backend.facts("flights", topic_id)
            with pytest.raises(UnknownTopicError, match="flights"):
                scene.backend.check_exists(name, topic_id)
            assert scene.backend.facts("flights").id != topic_id

    # -- offsets

    def test_offsets_of_many_partitions_are_asked_for_at_once(self) -> None:
        with self.under_test() as scene:
            scene.create("flights", 3)
            names = [TopicPartition("flights", n) for n in range(3)]
            for name in names:
                scene.append(name, [b"v"] * (4 * name.partition))
            scene.delete_before(names[2], 3)
            backend = scene.backend
            assert backend.start_offsets(names) == dict(zip(names, (0, 0, 3), strict=True))
            for isolation in (_ALL, _COMMITTED):
                assert backend.end_offsets(names, isolation) == dict(zip(names, (0, 4, 8), strict=True))

    def test_records_are_found_by_their_time(self) -> None:
        with self.under_test() as scene:
            scene.create("flights", 2)
            name, empty = TopicPartition("flights", 0), TopicPartition("flights", 1)
            for moment in (1_000, 2_000, 3_000):
                scene.append(name, [b"a", b"b"], moment)
            find = scene.backend.offsets_for_times
            assert find({name: 0, empty: 0}, _ALL) == {name: TimestampOffset(1_000, 0), empty: None}
            assert find({name: 1_001}, _ALL) == {name: TimestampOffset(2_000, 2)}
            assert find({name: 3_000}, _COMMITTED) == {name: TimestampOffset(3_000, 4)}
            assert find({name: 3_001}, _ALL) == {name: None}

    # -- cursors and waits

    @contextmanager
    def _reading(self, scene: BackendUnderTest, *names: TopicPartition) -> Iterator[_Reading]:
        reading = _Reading(scene.backend, names)
        try:
            yield reading
        finally:
            reading.fetcher.close()

    def test_a_cursor_hands_out_all_records_in_order(self) -> None:
        with self.under_test() as scene:
            name = TopicPartition("flights", 0)
            scene.create("flights")
            values = [[b"%d.%d" % (batch, n) for n in range(batch + 1)] for batch in range(8)]
            for each in values:
                scene.append(name, each)
            with self._reading(scene, name) as reading:
                found: list[bytes | None] = []
                while len(found) < 36:
                    run = reading.next(name, len(found))
                    assert run.next_offset > len(found)
                    found += run.values()
                assert found == [value for each in values for value in each]
                # From the middle of a batch, and again from a place that was left.
                for start in (30, 2, 17):
                    assert next(iter(reading.next(name, start))).offset == start

    def test_a_wait_ends_with_the_first_record_and_not_before(self) -> None:
        with self.under_test() as scene:
            scene.create("flights", 2)
            first, second = TopicPartition("flights", 0), TopicPartition("flights", 1)
            with self._reading(scene, first, second) as reading:
                places = [(reading.cursors[first], 0), (reading.cursors[second], 0)]
                assert not reading.fetcher.wait(places, 0.05)
                writer = threading.Thread(target=scene.append, args=(second, [b"late"]))
                writer.start()
                assert reading.next(second, 0).values() == [b"late"]
                writer.join(_PATIENCE_S)
                assert reading.fetcher.begin([(reading.cursors[first], 0), (reading.cursors[second], 1)])

    def test_a_wait_that_is_notified_ends(self) -> None:
        with self.under_test() as scene:
            name = TopicPartition("flights", 0)
            scene.create("flights")
            with self._reading(scene, name) as reading:
                waker = threading.Timer(0.05, reading.notifier.notify)
                waker.start()
                assert reading.fetcher.wait([(reading.cursors[name], 0)], _PATIENCE_S)
                waker.join(_PATIENCE_S)

    def test_an_offset_outside_is_refused(self) -> None:
        with self.under_test() as scene:
            name = TopicPartition("flights", 0)
            scene.create("flights")
            scene.append(name, [b"a", b"b", b"c", b"d"])
            scene.append(name, [b"e"])
            scene.delete_before(name, 4)
            with self._reading(scene, name) as reading:
                assert reading.cursors[name].log_start_offset == 4
                for offset in (3, 6):
                    with pytest.raises(OffsetOutOfRangeError):
                        reading.next(name, offset)
                assert reading.next(name, 4).values() == [b"e"]

    def test_the_end_of_an_epoch_is_that_of_its_records(self) -> None:
        with self.under_test() as scene:
            name = TopicPartition("flights", 0)
            scene.create("flights")
            scene.append(name, [b"a", b"b"])
            with self._reading(scene, name) as reading:
                reading.next(name, 0)
                cursor = reading.cursors[name]
                epoch = cursor._epoch_before(1)
                assert epoch >= 0
                assert cursor._end_of_epoch(epoch) == 2
                assert cursor._end_of_epoch(epoch + 7) is None
            scene.create("ships")
            other = TopicPartition("ships", 0)
            scene.append(other, [b"c"])
            assert scene.backend.epoch_ends({name: epoch, other: epoch + 7}) == {name: 2, other: None}
            assert scene.backend.epoch_ends({}) == {}

    # -- ranges

    def test_a_range_is_scanned_by_offsets_and_times_as_often_as_it_is_used(self) -> None:
        with self.under_test() as scene:
            name = TopicPartition("flights", 0)
            scene.create("flights")
            for moment in range(10):
                scene.append(name, [b"%d" % moment] * 3, 1_000 * moment)
            partition = scene.backend.partition(name)
            scan = partition.scan(4, 26)
            assert (scan.start_offset, scan.end_offset) == (4, 26)
            scene.append(name, [b"later"])
            for _ in range(2):
                assert [record.offset for batches in scan.chunks() for record in batches] == list(range(4, 26))
            assert scan.count() == 22
            assert partition.scan(5, 5).count() == 0
            assert [v for batches in partition.scan(-2).chunks() for v in batches.values()] == [b"9", b"later"]
            by_time = partition.scan(since=3_000, until=5_000)
            assert [v for batches in by_time.chunks() for v in batches.values()] == [b"3"] * 3 + [b"4"] * 3
            assert partition.scan(since=99_000).count() == 0
            assert partition.scan(limit=4).count() == 4
            assert not scan.left_out
            for start, end in ((40, None), (0, 99)):
                with pytest.raises(OffsetOutOfRangeError):
                    partition.scan(start, end)

    def test_single_records_are_looked_up(self) -> None:
        with self.under_test() as scene:
            name = TopicPartition("flights", 0)
            scene.create("flights")
            scene.append(name, [b"a", b"b"])
            scene.append(name, [b"c"])
            partition = scene.backend.partition(name, scene.backend.facts("flights").id)
            for offset, value in enumerate([b"a", b"b", b"c"]):
                record = partition.record_at(offset)
                assert record is not None
                assert (record.offset, record.value, record.topic, record.partition) == (offset, value, *name)
            for offset in (-1, 3):
                with pytest.raises(OffsetOutOfRangeError):
                    partition.record_at(offset)
            with pytest.raises(UnknownPartitionError):
                scene.backend.partition(TopicPartition("flights", 1))
            with pytest.raises(UnknownTopicError):
                scene.backend.partition(TopicPartition("ships", 0))

    def test_the_lag_of_a_group_counts_what_it_has_not_read(self) -> None:
        with self.under_test() as scene:
            scene.create("flights", 2)
            one, two = TopicPartition("flights", 0), TopicPartition("flights", 1)
            scene.append(one, [b"v"] * 7)
            scene.append(two, [b"v"] * 3)
            scene.backend.offsets.commit("crew", {one: 2, two: 3})
            found = lag_of_group(scene.backend, "crew")
            assert [(each.partition, each.offset, each.end_offset, each.records) for each in found] == [
                (one, 2, 7, 5),
                (two, 3, 3, 0),
            ]

    # -- committed offsets

    def test_offsets_are_kept_by_group_and_partition(self) -> None:
        with self.under_test() as scene:
            scene.create("flights", 3)
            one, two = TopicPartition("flights", 0), TopicPartition("flights", 2)
            offsets = scene.backend.offsets
            assert offsets.committed("crew") == {}
            offsets.check_writable("crew")
            offsets.commit("crew", {one: 0, two: OffsetAndMetadata(7, "half way")})
            offsets.commit("ground", {one: 3})
            found = offsets.committed("crew")
            assert {name: (each.offset, each.metadata) for name, each in found.items()} == {
                one: (0, ""),
                two: (7, "half way"),
            }
            assert set(offsets.committed("crew", [two])) == {two}
            assert {"crew", "ground"} <= set(offsets.groups())
            offsets.commit("crew", {one: 5})
            offsets.commit("crew", {one: 5})
            assert offsets.committed("crew", [one])[one].offset == 5
            assert offsets.committed("ground", [one])[one].offset == 3

    def test_commits_that_cannot_be_are_refused(self) -> None:
        with self.under_test() as scene:
            scene.create("flights")
            offsets = scene.backend.offsets
            with pytest.raises(InvalidGroupError):
                offsets.committed("")
            with pytest.raises(UnknownTopicError):
                offsets.commit("crew", {TopicPartition("ships", 0): 1})
            with pytest.raises(UnknownPartitionError):
                offsets.commit("crew", {TopicPartition("flights", 4): 1})
            assert offsets.committed("crew") == {}

    def test_deleted_offsets_are_gone(self) -> None:
        with self.under_test() as scene:
            scene.create("flights", 2)
            one, two = TopicPartition("flights", 0), TopicPartition("flights", 1)
            offsets = scene.backend.offsets
            offsets.commit("crew", {one: 1, two: 2})
            assert offsets.delete("crew", [one]) == 1
            assert set(offsets.committed("crew")) == {two}
            assert offsets.delete("crew") == 1
            assert offsets.committed("crew") == {}

    # -- the consumer over it

    def _consumer(self, scene: BackendUnderTest, **settings: Setting) -> Consumer:
        return Consumer(scene.backend, ConsumerConfig.of({"auto_offset_reset": "earliest", **settings}))

    def test_a_consumer_reads_all_partitions_and_those_that_are_added(self) -> None:
        with self.under_test() as scene:
            scene.create("flights", 2)
            for number in range(2):
                scene.append(TopicPartition("flights", number), [b"%d-%d" % (number, n) for n in range(50)])
            with self._consumer(scene) as consumer:
                consumer.assign_topics("flights")
                found = _polled(consumer, 100)
                for number in range(2):
                    own = [value for partition, value in found if partition == number]
                    assert own == [b"%d-%d" % (number, n) for n in range(50)]
                scene.add_partitions("flights", 3)
                scene.append(TopicPartition("flights", 2), [b"added"])
                assert _polled(consumer, 1) == [(2, b"added")]
                assert consumer.poll() == []

    def test_a_group_goes_on_where_it_has_committed(self) -> None:
        with self.under_test() as scene:
            scene.create("flights")
            name = TopicPartition("flights", 0)
            scene.append(name, [b"a", b"b", b"c", b"d"])
            with self._consumer(scene, group_id="crew", enable_auto_commit=False) as consumer:
                consumer.assign([name])
                assert [value for _, value in _polled(consumer, 2, limit=2)] == [b"a", b"b"]
                consumer.commit()
            with self._consumer(scene, group_id="crew", enable_auto_commit=False) as consumer:
                consumer.assign([name])
                assert consumer.position(name) == 2
                assert [value for _, value in _polled(consumer, 2)] == [b"c", b"d"]
            with self._consumer(scene, group_id="crew") as consumer:
                consumer.assign([name])
                _polled(consumer, 2)
            assert scene.backend.offsets.committed("crew")[name].offset == 4

    def test_a_commit_of_a_consumer_has_the_epoch_of_the_record_before_it(self) -> None:
        """Without it, a group does not notice that records were replaced while it was away."""
        name = TopicPartition("flights", 0)
        with self.under_test() as scene:
            scene.create("flights")
            scene.append(name, [b"0", b"1"])
            scene.append(name, [b"2", b"3"])
            offsets = scene.backend.offsets
            with self._reading(scene, name) as reading:
                reading.next(name, 0)
                epoch = reading.cursors[name]._epoch_before(1)

            def found() -> tuple[int, int]:
                stored = offsets.committed("crew")[name]
                return stored.offset, stored.leader_epoch

            with self._consumer(scene, group_id="crew", enable_auto_commit=False) as consumer:
                consumer.assign([name])
                for offset in range(1, 5):
                    _polled(consumer, 1, limit=1)
                    consumer.commit(wait=offset % 2 == 0)
                    consumer.commit()
                    assert found() == (offset, epoch)
                consumer.commit({name: 3})
                assert found() == (3, epoch)
            with self._consumer(scene, group_id="crew", enable_auto_commit=False) as consumer:
                consumer.assign([name])
                assert consumer.position(name) == 3
                consumer.commit()  # of what it has found, without a record
                assert found() == (3, epoch)
            with self._consumer(scene, group_id="crew") as consumer:
                consumer.assign([name])
                _polled(consumer, 1, limit=1)
            assert found() == (4, epoch)

    def test_commits_that_are_not_waited_for_are_made_in_their_order(self) -> None:
        with self.under_test() as scene:
            scene.create("flights")
            name = TopicPartition("flights", 0)
            told: list[tuple[int, Exception | None]] = []

            def tell(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
                told.append((offsets[name].offset, error))

            with self._consumer(scene, group_id="crew", enable_auto_commit=False) as consumer:
                consumer.assign([name])
                for offset in range(1, 51):
                    consumer.commit({name: offset}, wait=False, on_commit=tell)
                assert consumer.commit({name: 20})[name].offset == 20
                assert scene.backend.offsets.committed("crew")[name].offset == 20
                assert told == [(offset, None) for offset in range(1, 51)]
                consumer.commit({name: 30}, wait=False)
                consumer.commit({name: 31}, wait=False, on_commit=tell)
            assert scene.backend.offsets.committed("crew")[name].offset == 31
            assert told[-1] == (31, None)
            with self._consumer(scene, group_id="crew", enable_auto_commit=False) as consumer:
                consumer.assign([name])
                # One that is refused takes no other with it.
                refused: list[Exception | None] = []
                unknown = TopicPartition("flights", 7)
                for offset in range(32, 40):
                    consumer.commit({unknown: 1}, wait=False, on_commit=lambda _, error: refused.append(error))
                    consumer.commit({name: offset}, wait=False)
                consumer.commit({name: 40})
            assert [type(each) for each in refused] == [UnknownPartitionError] * 8
            assert scene.backend.offsets.committed("crew")[name].offset == 40

    def test_seeks_and_pauses_are_obeyed(self) -> None:
        with self.under_test() as scene:
            scene.create("flights", 2)
            one, two = TopicPartition("flights", 0), TopicPartition("flights", 1)
            for name in (one, two):
                for moment in range(10):
                    scene.append(name, [b"%d" % moment], 1_000 * moment)
            with self._consumer(scene) as consumer:
                consumer.assign([one, two])
                consumer.pause(two)
                assert [partition for partition, _ in _polled(consumer, 10)] == [0] * 10
                assert consumer.poll(0.05) == []
                consumer.seek(one, 8)
                assert [value for _, value in _polled(consumer, 2)] == [b"8", b"9"]
                consumer.pause(one)
                consumer.resume(two)
                consumer.seek_to_time(7_500, two)
                assert _polled(consumer, 2) == [(1, b"8"), (1, b"9")]
                consumer.seek_to_beginning(two)
                assert _polled(consumer, 1, limit=1) == [(1, b"0")]
                consumer.seek_to_end(two)
                assert consumer.poll(0.05) == []
                assert consumer.position(two) == 10
                assert consumer.beginning_offsets([one]) == {one: 0}
                assert consumer.end_offsets([one, two]) == {one: 10, two: 10}
                assert consumer.offsets_for_times({one: 2_500}) == {one: TimestampOffset(3_000, 3)}

    def test_a_topic_that_is_deleted_ends_the_wait_for_its_records(self) -> None:
        with self.under_test() as scene:
            scene.create("flights")
            with self._consumer(scene) as consumer:
                consumer.assign_topics("flights")
                assert consumer.poll(0.05) == []
                scene.delete("flights")
                with pytest.raises(UnknownTopicError, match="flights"):
                    consumer.poll(_PATIENCE_S)

    def test_a_wakeup_ends_a_wait(self) -> None:
        with self.under_test() as scene:
            scene.create("flights")
            with self._consumer(scene) as consumer:
                consumer.assign_topics("flights")
                waker = threading.Timer(0.05, consumer.wakeup)
                waker.start()
                with pytest.raises(WakeupError):
                    consumer.poll(_PATIENCE_S)
                waker.join(_PATIENCE_S)
                assert consumer.poll(0) == []


class _Reading:
    """A fetcher and its cursors, read as a consumer reads them."""

    def __init__(self, backend: Backend, names: Sequence[TopicPartition]) -> None:
        self.notifier = Notifier(clock=backend.clock)
        self.fetcher = backend.fetcher(ConsumerConfig(), self.notifier)
        self.cursors: dict[TopicPartition, PartitionCursor] = {
            name: self.fetcher.cursor(name, backend.facts(name.topic).id) for name in names
        }

    def next(self, name: TopicPartition, offset: int) -> Batches:
        """Return what a cursor hands out at an offset, waited for."""
        cursor = self.cursors[name]
        while not (run := cursor.read(offset, max_bytes=1 << 20, isolation=_ALL)):
            assert self.fetcher.wait([(cursor, offset)], _PATIENCE_S), f"nothing came at {name} {offset}"
        return run


def _polled(consumer: Consumer, count: int, limit: int | None = None) -> list[tuple[int, bytes | None]]:
    """Return that many records as partitions and values, however many polls they take."""
    found: list[tuple[int, bytes | None]] = []
    while len(found) < count:
        records = consumer.poll(_PATIENCE_S, limit)
        assert records, f"{len(found)} of {count} records came"
        found += [(record.partition, record.value) for record in records]
    assert len(found) == count
    return found
