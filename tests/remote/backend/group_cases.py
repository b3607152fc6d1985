"""What members of groups hold to, whatever the back end is: false brokers, a real Kafka, or a store.

`GroupCases` has the cases; a subclass gives the brokers. `Reader` is a consumer in a thread of its own.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from logstore.client.consumer import Consumer, open_consumer
from logstore.errors import (
    BrokerError,
    ConcurrentUseError,
    ConsumerError,
    GroupFencedError,
    InvalidGroupError,
    LogstoreError,
)
from logstore.records import TopicPartition
from logstore.remote.backend.backend import RemoteBackend
from logstore.remote.client import Client
from tests.kit.waiting import wait_for

KINDS: dict[str, dict[str, Any]] = {
    "range": {"partition.assignment.strategy": "range"},
    "roundrobin": {"partition.assignment.strategy": "roundrobin"},
    "sticky": {"partition.assignment.strategy": "sticky"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
EACH = pytest.mark.parametrize("kind", KINDS)
BOTH = pytest.mark.parametrize("kind", ["cooperative", "consumer"])


class Brokers:
    """The brokers of the cases; a subclass may have a store instead."""

    bootstrap: str
    session_ms = 6_000
    heartbeat_ms = 500
    patience_s = 60.0  #: how long a group may take for what it is to do

    def backend(self) -> Any:
        """Return a back end for one member, which closes it."""
        client = Client(self.bootstrap, is_patient=True, metadata_max_age_ms=500, fetch_max_wait_ms=100)
        return RemoteBackend(client)

    def create(self, topic: str, partitions: int) -> None:
        raise NotImplementedError

    def add_partitions(self, topic: str, total: int) -> None:
        raise NotImplementedError

    def append(self, name: TopicPartition, count: int) -> None:
        raise NotImplementedError

    def move_coordinator(self, group: str) -> None:
        raise NotImplementedError


class Reader:
    """One member in a thread: it polls until it leaves or dies."""

    def __init__(self, brokers: Brokers, group: str, topics: Any, settings: dict[str, Any]) -> None:
        self.got: list[tuple[TopicPartition, int]] = []
        self.calls: list[tuple[str, frozenset[TopicPartition]]] = []
        self.idents: set[int] = set()
        self.errors: list[BaseException] = []
        self.holds: frozenset[TopicPartition] = frozenset()
        self.busy = threading.Event()
        self.idle = threading.Event()
        self.idle.set()
        self.backend = brokers.backend()
        given = {
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 50,
            "session.timeout.ms": brokers.session_ms,
            "heartbeat.interval.ms": brokers.heartbeat_ms,
            **settings,
        }
        self.consumer = open_consumer(self.backend, group, given, {})
        self._ends = ""
        self.consumer.subscribe(
            topics,
            on_assigned=self._noted("assigned"),
            on_revoked=self._noted("revoked"),
            on_lost=self._noted("lost"),
        )
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _noted(self, kind: str) -> Callable[[list[TopicPartition]], None]:
        def note(partitions: list[TopicPartition]) -> None:
            self.idents.add(threading.get_ident())
            self.calls.append((kind, frozenset(partitions)))

        return note

    def _run(self) -> None:
        while not self._ends:
            try:
                for record in self.consumer.poll(0.05, max_records=7):
                    self.got.append((TopicPartition(record.topic, record.partition), record.offset))
                self.holds = self.consumer.assignment
            except Exception as error:  # noqa: BLE001  the test looks at it
                self.errors.append(error)
                return
            self.busy.set()
            self.idle.wait()
        if self._ends == "leaves":
            try:
                self.consumer.close()
            except LogstoreError as error:
                self.errors.append(error)
        self.holds = frozenset()

    def pause(self) -> None:
        """Let the handler of a record take long, until `go_on`."""
        self.idle.clear()
        self.busy.clear()
        self.busy.wait()

    def go_on(self) -> None:
        self.idle.set()

    def leave(self) -> None:
        self._ends = "leaves"
        self.idle.set()
        self.thread.join(60)
        self.backend.close()
        assert not self.thread.is_alive()
        assert self.errors == []

    def die(self) -> None:
        """End without a word to the coordinator, as a process that is killed."""
        self._ends = "dies"
        self.idle.set()
        self.thread.join(60)
        group = self.consumer._group
        if group is not None:
            group.membership.close()
        self.consumer._group = None
        self.consumer._commits.are_automatic = False
        self.backend.close()


class GroupCases:
    """The cases. Each has a topic and a group of its own."""

    @pytest.fixture
    def brokers(self) -> Iterator[Brokers]:
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _scene(self, brokers: Brokers, request: pytest.FixtureRequest) -> Iterator[None]:
        self.begin(brokers, re.sub(r"\W+", "-", request.node.name)[-60:].strip("-"))
        yield
        self.end()
        for reader in self.readers:
            assert reader.errors == []

    def begin(self, brokers: Brokers, name: str) -> None:
        self.brokers = brokers
        self.topic, self.group = f"t-{name}", f"g-{name}"
        self.readers: list[Reader] = []
        self.backends: list[Any] = []

    def end(self) -> None:
        for backend in self.backends:
            backend.close()
        for reader in self.readers:
            if not reader._ends:
                reader.die()

    def reader(self, kind: str, topics: Any = None, **settings: Any) -> Reader:
        given = KINDS[kind] | {key.replace("_", "."): value for key, value in settings.items()}
        made = Reader(self.brokers, self.group, topics or [self.topic], given)
        self.readers.append(made)
        return made

    def wait(self, holds: Callable[[], object], what: str) -> None:
        def told() -> str:
            return f"{what}: {[(len(one.got), sorted(one.holds), one.errors) for one in self.readers]}"

        wait_for(lambda: holds() or any(one.errors for one in self.readers), self.brokers.patience_s, told)
        for one in self.readers:
            assert one.errors == []

    def wait_for_shares(self, *readers: Reader, total: int) -> None:
        def are_shared() -> bool:
            held = [name for one in readers for name in one.holds]
            return len(held) == total == len(set(held)) and all(one.holds for one in readers)

        self.wait(are_shared, f"{total} partitions held once by {len(readers)}")

    def create(self, partitions: int, topic: str | None = None) -> None:
        self.brokers.create(topic or self.topic, partitions)

    def append(self, partitions: int, count: int, topic: str | None = None) -> None:
        for number in range(partitions):
            self.brokers.append(TopicPartition(topic or self.topic, number), count)

    def delivered(self) -> Counter[tuple[TopicPartition, int]]:
        return Counter(one for reader in self.readers for one in [*reader.got])

    def wait_for_all(self, partitions: int, count: int) -> None:
        wanted = {(TopicPartition(self.topic, n), offset) for n in range(partitions) for offset in range(count)}
        self.wait(lambda: wanted <= self.delivered().keys(), "every record is delivered")
        assert self.delivered().keys() == wanted

    def consumer(self, kind: str, **settings: Any) -> Consumer:
        given = {"auto.offset.reset": "earliest", "session.timeout.ms": self.brokers.session_ms,
                 "heartbeat.interval.ms": self.brokers.heartbeat_ms}  # fmt: skip
        given |= KINDS[kind] | {key.replace("_", "."): value for key, value in settings.items()}
        made = self.brokers.backend()
        self.backends.append(made)
        return open_consumer(made, self.group, given, {})

    # -- members come and go

    @pytest.mark.row("C5", part="members of our client")
    @EACH
    def test_members_share_and_a_clean_leave_delivers_nothing_twice(self, kind: str) -> None:
        self.create(6)
        self.append(6, 40)
        # So long that only a rebalance and the end commit.
        first = self.reader(kind, auto_commit_interval_ms=600_000)
        self.wait_for_shares(first, total=6)
        second = self.reader(kind, auto_commit_interval_ms=600_000)
        self.wait_for_shares(first, second, total=6)
        assert abs(len(first.holds) - len(second.holds)) <= 1
        self.append(6, 40)
        self.wait_for_all(6, 80)
        first.leave()
        self.wait_for_shares(second, total=6)
        self.append(6, 40)
        self.wait_for_all(6, 120)
        second.leave()
        assert set(self.delivered().values()) == {1}
        assert first.idents == {first.thread.ident}
        assert all(kind != "lost" for one in self.readers for kind, _ in one.calls)
        third = self.reader(kind)
        self.append(6, 1)
        self.wait_for_all(6, 121)
        third.leave()
        assert set(self.delivered().values()) == {1}

    @pytest.mark.row("C8", part="members of our client")
    @EACH
    def test_a_member_that_dies_is_replaced_and_no_record_is_skipped(self, kind: str) -> None:
        self.create(6)
        first, second = self.reader(kind), self.reader(kind)
        self.wait_for_shares(first, second, total=6)
        self.append(6, 100)

        def has_committed() -> bool:
            found = first.backend.offsets.committed(self.group)
            return any(found[name].offset > 0 for name in first.holds if name in found)

        self.wait(has_committed, "the first has read and committed some")
        first.die()
        self.append(6, 100)
        self.wait_for_shares(second, total=6)
        self.wait_for_all(6, 200)
        second.leave()

    @BOTH
    @pytest.mark.row("C10", part="members of our client")
    def test_a_member_beyond_the_partitions_stands_by_and_takes_over(self, kind: str) -> None:
        self.create(3)
        readers = [self.reader(kind) for _ in range(4)]
        self.wait(lambda: sorted(len(one.holds) for one in readers) == [0, 1, 1, 1], "three share, one stands by")
        (spare,) = (one for one in readers if not one.holds)
        dead = next(one for one in readers if one.holds)
        self.append(3, 50)
        self.wait_for_all(3, 50)
        assert spare.got == []
        dead.die()
        self.append(3, 50)
        self.wait(lambda: len(spare.holds) == 1, "the one that stood by has taken over")
        self.wait_for_all(3, 100)
        assert spare.got
        for one in readers:
            if one is not dead:
                one.leave()

    @BOTH
    @pytest.mark.row("C7", part="members of our client")
    def test_members_of_one_group_divide_the_records_and_each_other_group_gets_them_all(self, kind: str) -> None:
        self.create(4)
        first, second = self.reader(kind), self.reader(kind)
        self.wait_for_shares(first, second, total=4)
        others = [Reader(self.brokers, f"{self.group}-{n}", [self.topic], KINDS[kind]) for n in range(2)]
        self.append(4, 50)
        self.wait_for_all(4, 50)
        wanted = {(TopicPartition(self.topic, n), offset) for n in range(4) for offset in range(50)}
        for one in others:
            wait_for(lambda one=one: one.errors or len(one.got) >= 200, self.brokers.patience_s)
            one.leave()
            assert (set(one.got), len(one.got)) == (wanted, 200)
        first.leave()
        second.leave()
        assert set(self.delivered().values()) == {1}
        assert min(len(first.got), len(second.got)) == 100

    @BOTH
    def test_a_coordinator_that_moves_costs_no_record(self, kind: str) -> None:
        self.create(6)
        first, second = self.reader(kind), self.reader(kind)
        self.wait_for_shares(first, second, total=6)
        self.append(6, 100)
        self.wait(lambda: len(first.got) >= 20, "the first has read some")
        self.brokers.move_coordinator(self.group)
        self.append(6, 100)
        self.wait_for_all(6, 200)
        third = self.reader(kind)
        self.wait_for_shares(first, second, third, total=6)
        self.append(6, 10)
        self.wait_for_all(6, 210)
        for one in (first, second, third):
            one.leave()

    @BOTH
    def test_a_static_member_that_starts_again_keeps_its_partitions(self, kind: str) -> None:
        self.create(4)
        first = self.reader(kind, group_instance_id="one")
        second = self.reader(kind, group_instance_id="two")
        self.wait_for_shares(first, second, total=4)
        had, calls = second.holds, len(first.calls)
        second.leave()
        again = self.reader(kind, group_instance_id="two")
        self.wait_for_shares(first, again, total=4)
        assert again.holds == had
        assert len(first.calls) == calls
        again.leave()
        first.leave()

    @BOTH
    def test_a_member_whose_handler_is_slow_loses_its_partitions_and_joins_again(self, kind: str) -> None:
        self.create(2)
        slow = self.reader(kind, max_poll_interval_ms=1_500)
        self.wait_for_shares(slow, total=2)
        self.append(2, 20)
        slow.pause()
        other = self.reader(kind)
        self.wait_for_shares(other, total=2)
        slow.go_on()
        self.wait_for_shares(slow, other, total=2)
        self.append(2, 20)
        self.wait_for_all(2, 40)
        assert "lost" in [kind for kind, _ in slow.calls]
        slow.leave()
        other.leave()

    @EACH
    def test_no_partition_is_handed_over_before_its_callback_has_returned(self, kind: str) -> None:
        self.create(4)
        self.append(4, 10)
        had_meanwhile: list[frozenset[TopicPartition]] = []
        others: list[Reader] = []

        def hold(partitions: list[TopicPartition]) -> None:
            if others and partitions:
                until = time.monotonic() + 4 * self.brokers.heartbeat_ms / 1000
                wait_for(lambda: time.monotonic() >= until)
                had_meanwhile.append(others[0].holds)
                consumer.commit()

        with self.consumer(kind, enable_auto_commit=False) as consumer:
            consumer.subscribe(self.topic, on_revoked=hold)
            wait_for(lambda: consumer.poll(0.1) and len(consumer.assignment) == 4, 60)
            others.append(self.reader(kind))

            def are_shared() -> bool:
                consumer.poll(0.05)
                return len(consumer.assignment) == 2 == len(others[0].holds)

            wait_for(are_shared, self.brokers.patience_s)
            assert had_meanwhile
            assert not any(had_meanwhile)
        others[0].leave()

    # -- topics

    @BOTH
    def test_a_pattern_is_subscribed_to_topics_made_later(self, kind: str) -> None:
        later = f"{self.topic}-later"
        self.create(2)
        self.append(2, 5)
        reader = self.reader(kind, re.compile(re.escape(self.topic) + "(-later)?"))
        self.wait_for_shares(reader, total=2)
        self.create(1, later)
        self.append(1, 5, later)
        self.wait(lambda: len(reader.got) == 15, "the records of both topics")
        reader.leave()

    @BOTH
    def test_a_pattern_is_python_s_and_finds_topics_within_metadata_max_age(self, kind: str) -> None:
        # A lookahead and a reference back: the RE2 of brokers has neither.
        pattern = re.compile(rf"{re.escape(self.topic)}-(?!bb)(\w)\1")
        self.create(1, f"{self.topic}-aa")
        reader = self.reader(kind, pattern)
        self.wait_for_shares(reader, total=1)
        for ending in ("bb", "ab", "cc"):
            self.create(1, f"{self.topic}-{ending}")
        began = time.monotonic()
        self.wait_for_shares(reader, total=2)
        # metadata.max.age.ms is 500 in these cases; the rest is for a rebalance on a busy machine.
        assert time.monotonic() - began < 0.5 + 15
        assert {name.topic for name in reader.holds} == {f"{self.topic}-aa", f"{self.topic}-cc"}
        reader.leave()

    @pytest.mark.row("C9", part="partitions that are added")
    @BOTH
    def test_added_partitions_are_divided_too(self, kind: str) -> None:
        self.create(2)
        reader = self.reader(kind, auto_offset_reset="latest")
        self.wait_for_shares(reader, total=2)
        self.append(2, 5)
        self.wait(lambda: len(reader.got) == 10, "the first records")
        self.brokers.add_partitions(self.topic, 3)
        self.brokers.append(TopicPartition(self.topic, 2), 5)
        self.wait_for_shares(reader, total=3)
        # Those from before it was assigned as well, although the reset is to the latest.
        self.wait_for_all(3, 5)
        reader.leave()

    @BOTH
    def test_a_topic_that_is_not_there_yet_is_waited_for(self, kind: str) -> None:
        reader = self.reader(kind)
        self.wait(lambda: ("assigned", frozenset()) in reader.calls, "an assignment of nothing")
        self.create(2)
        self.append(2, 5)
        self.wait_for_all(2, 5)
        reader.leave()

    @BOTH
    def test_what_is_paused_and_sought_stays_so_where_a_rebalance_leaves_the_partition(self, kind: str) -> None:
        self.create(4)
        self.append(4, 10)
        with self.consumer(kind, enable_auto_commit=False) as consumer:
            consumer.subscribe(self.topic)
            wait_for(lambda: (consumer.poll(0.1), len(consumer.assignment) == 4)[1], 60)
            consumer.pause()
            for name in consumer.assignment:
                consumer.seek(name, 7)
            got: list[object] = []
            other = self.reader(kind, enable_auto_commit="false")
            wait_for(
                lambda: got.extend(consumer.poll(0.1)) or len(consumer.assignment) == 2 == len(other.holds),
                60,
                lambda: (consumer.assignment, other.holds),
            )
            assert consumer.paused == consumer.assignment
            assert got == []
            assert {consumer.position(name) for name in consumer.assignment} == {7}
            held = consumer.assignment
            other.leave()
            wait_for(lambda: got.extend(consumer.poll(0.1)) or len(consumer.assignment) == 4, 60)
            assert consumer.paused == held, "a partition that was not held is paused"
            consumer.resume()
            wait_for(lambda: got.extend(consumer.poll(0.1)) or len(got) == 6 + 20, 60, lambda: len(got))

    # -- callbacks and commits

    @BOTH
    def test_callbacks_commit_and_seek_but_do_not_poll(self, kind: str) -> None:
        self.create(2)
        self.append(2, 10)
        refused: list[Exception] = []
        with self.consumer(kind, enable_auto_commit=False) as consumer:

            def begin(partitions: list[TopicPartition]) -> None:
                for name in partitions:
                    consumer.seek(name, 7)
                for call in (consumer.poll, consumer.close, consumer.unsubscribe):
                    try:
                        call()
                    except ConcurrentUseError as error:
                        refused.append(error)

            consumer.subscribe(self.topic, on_assigned=begin, on_revoked=lambda _: consumer.commit())
            got: list[int] = []
            wait_for(lambda: got.extend(one.offset for one in consumer.poll(0.1)) or len(got) == 6, 60)
        assert sorted(got) == [7, 7, 8, 8, 9, 9]
        # Three for each callback: the coordinator may assign the partitions in two steps.
        assert refused
        assert len(refused) % 3 == 0
        assert {one.offset for one in self.backends[0].offsets.committed(self.group).values()} == {10}

    @BOTH
    def test_an_error_of_a_callback_is_raised_by_poll_and_reading_goes_on(self, kind: str) -> None:
        self.create(1)
        self.append(1, 5)

        failed: list[object] = []

        def fail(partitions: list[TopicPartition]) -> None:
            failed.append(partitions)
            if len(failed) == 1:
                raise ZeroDivisionError

        with self.consumer(kind) as consumer:
            consumer.subscribe(self.topic, on_assigned=fail)
            with pytest.raises(ZeroDivisionError):
                wait_for(lambda: consumer.poll(0.1), 60)
            got: list[int] = []
            wait_for(lambda: got.extend(one.offset for one in consumer.poll(0.1)) or len(got) == 5, 60)

    @BOTH
    def test_a_commit_that_is_not_waited_for_is_made_before_partitions_pass(self, kind: str) -> None:
        self.create(2)
        self.append(2, 10)
        with self.consumer(kind, enable_auto_commit=False) as consumer:
            offsets = self.backends[0]._offsets
            commit_as = offsets.commit_as

            def commit_late(*given: Any) -> None:
                until = time.monotonic() + 0.4
                wait_for(lambda: time.monotonic() >= until)
                commit_as(*given)

            offsets.commit_as = commit_late  # type: ignore[method-assign]  # of this object alone
            told: list[Exception | None] = []

            def commit(_: object = None) -> None:
                consumer.commit(wait=False, on_commit=lambda _, error: told.append(error))

            consumer.subscribe(self.topic, on_revoked=commit)
            got: list[tuple[int, int]] = []

            def take() -> bool:
                got.extend((one.partition, one.offset) for one in consumer.poll(0.1))
                return len(got) == 20

            wait_for(take, 60)
            other = self.reader(kind)
            wait_for(lambda: take() and len(consumer.assignment) == 1 == len(other.holds), 60)
            self.append(2, 10)
            self.wait(lambda: take() or len(got) + len(other.got) == 40, "the later records, too")
        self.wait_for_shares(other, total=2)
        other.leave()
        assert (
            len({*got, *((name.partition, offset) for name, offset in other.got)})
            == len(got) + len(other.got)
            == 40
        )
        assert told
        assert set(told) == {None}

    @BOTH
    def test_a_loop_over_records_takes_part_in_the_group(self, kind: str) -> None:
        self.create(2)
        self.append(2, 10)
        with self.consumer(kind) as consumer:
            consumer.subscribe(self.topic)
            records = consumer.records()
            assert len([next(records) for _ in range(20)]) == 20
            other = self.reader(kind)
            self.append(2, 300)
            mine = [next(records)]

            def both_have_one() -> bool:
                mine.extend(consumer.poll(0.05))
                return len(consumer.assignment) == 1 == len(other.holds)

            wait_for(both_have_one, self.brokers.patience_s)
        other.leave()

    @BOTH
    def test_a_member_that_was_removed_cannot_commit(self, kind: str) -> None:
        self.create(1)
        self.append(1, 10)
        consumer = self.consumer(kind, enable_auto_commit=False, max_poll_interval_ms=1_500)
        lost: list[TopicPartition] = []
        consumer.subscribe(self.topic, on_lost=lost.extend)
        wait_for(lambda: consumer.poll(0.1), 60)
        other = self.reader(kind)
        self.wait(lambda: other.holds, "the other one has the partition")
        with pytest.raises(GroupFencedError, match="poll"):
            consumer.commit()
        consumer.poll()
        assert lost == [TopicPartition(self.topic, 0)]
        assert consumer.assignment == frozenset()
        consumer.close()
        other.leave()

    @BOTH
    def test_a_consumer_that_unsubscribes_leaves_and_may_assign(self, kind: str) -> None:
        self.create(2)
        self.append(2, 3)
        revoked: list[TopicPartition] = []
        with self.consumer(kind) as consumer:
            consumer.subscribe(self.topic, on_revoked=revoked.extend)
            with pytest.raises(ConsumerError, match="unsubscribe"):
                consumer.assign([(self.topic, 0)])
            wait_for(lambda: consumer.poll(0.1) and len(consumer.assignment) == 2, 60)
            consumer.subscribe([])
            assert len(revoked) == 2
            assert consumer.assignment == frozenset()
            other = self.reader(kind)
            self.wait_for_shares(other, total=2)
            other.leave()
            consumer.assign([(self.topic, 0)])
            with pytest.raises(ConsumerError, match="partitions"):
                consumer.subscribe(self.topic)

    # -- refusals

    def test_members_without_a_common_assignor_are_told(self) -> None:
        self.create(1)
        first = self.reader("range")
        self.wait_for_shares(first, total=1)
        with self.consumer("sticky") as consumer:
            consumer.subscribe(self.topic)
            with pytest.raises(BrokerError, match="INCONSISTENT_GROUP_PROTOCOL"):
                wait_for(lambda: consumer.poll(0.1), 60)
        first.leave()

    def test_a_consumer_without_a_group_does_not_subscribe(self) -> None:
        backend = self.brokers.backend()
        with open_consumer(backend, None, {}, {}) as consumer, pytest.raises(InvalidGroupError, match="group"):
            consumer.subscribe("any")
        backend.close()
