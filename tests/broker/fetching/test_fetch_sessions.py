"""Fetch sessions (KIP-227), by themselves and over the wire."""

from __future__ import annotations

import random

import pytest

from logstore.broker import Broker
from logstore.broker.fetching._sessions import IDLE_S, FetchSessions
from logstore.broker.fetching.found import FoundPartition
from logstore.protocol.generated.messages import FetchRequest, FetchResponse
from logstore.store import Store
from logstore.testing import ManualClock
from tests.broker.wire import Wire


def fetch(
    *partitions: tuple[str, int, int], session: int = 0, epoch: int = 0, forget: tuple[tuple[str, int], ...] = ()
) -> FetchRequest:
    """A request for partitions of topics, each from an offset on."""
    topics = [
        FetchRequest.FetchTopic(
            topic=name,
            partitions=[FetchRequest.FetchPartition(partition=n, fetch_offset=at, partition_max_bytes=1 << 20)],
        )
        for name, n, at in partitions
    ]
    forgotten = [FetchRequest.ForgottenTopic(topic=name, partitions=[n]) for name, n in forget]
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session,
        session_epoch=epoch,
        topics=topics,
        forgotten_topics_data=forgotten,
    )


def told(answer: object) -> dict[tuple[str, int], tuple[int, int, int]]:
    """The partitions of an answer: error, high watermark, bytes of records."""
    assert isinstance(answer, FetchResponse)
    return {
        (topic.topic, each.partition_index): (each.error_code, each.high_watermark, len(each.records or b""))
        for topic in answer.responses
        for each in topic.partitions
    }


def test_an_incremental_fetch_names_what_is_new_and_is_told_what_has_changed(store: Store, broker: Broker) -> None:
    topics = {name: store.create_topic(name) for name in ("a", "b", "c")}
    for topic in topics.values():
        topic.append(b"v")
    with Wire(broker) as wire:
        first = wire.ask(fetch(("a", 0, 0), ("b", 0, 1)), 12)
        assert isinstance(first, FetchResponse)
        assert first.session_id > 0
        found = told(first)
        assert found["a", 0][:2] == (0, 1)
        assert found["a", 0][2] > 61
        assert found["b", 0] == (0, 1, 0)
        number = first.session_id
        # Nothing is new.
        assert told(wire.ask(fetch(("a", 0, 1), session=number, epoch=1), 12)) == {}
        topics["b"].append(b"w")
        assert list(told(wire.ask(fetch(session=number, epoch=2), 12))) == [("b", 0)]
        # As long as the client does not move on, it is sent again.
        assert list(told(wire.ask(fetch(session=number, epoch=3), 12))) == [("b", 0)]
        assert told(wire.ask(fetch(("b", 0, 2), ("c", 0, 1), session=number, epoch=4), 12)) == {("c", 0): (0, 1, 0)}
        topics["b"].append(b"x")
        topics["c"].append(b"x")
        forgotten = wire.ask(fetch(session=number, epoch=5, forget=(("b", 0),)), 12)
        assert list(told(forgotten)) == [("c", 0)]
        assert len(broker._requests._fetches.sessions) == 1
        # The last request closes it.
        assert list(told(wire.ask(fetch(("a", 0, 0), session=number, epoch=-1), 12))) == [("a", 0)]
        assert len(broker._requests._fetches.sessions) == 0


def test_a_partition_that_gave_records_takes_its_next_turn_behind_the_others(store: Store, broker: Broker) -> None:
    for name in ("a", "b", "c"):
        store.create_topic(name).append(b"x" * 400_000)
    with Wire(broker) as wire:
        first = wire.ask(fetch(("a", 0, 0), ("b", 0, 0), ("c", 0, 0)), 12)
        assert isinstance(first, FetchResponse)
        number = first.session_id
        assert [key for key, each in told(first).items() if each[2]] == [("a", 0), ("b", 0)]
        second = wire.ask(fetch(session=number, epoch=1), 12)
        assert list(told(second)) == [("c", 0), ("a", 0)]


def test_errors_of_sessions(store: Store, broker: Broker) -> None:
    topic = store.create_topic("a")
    topic.append(b"v")
    with Wire(broker) as wire:
        unknown = wire.ask(fetch(session=12345, epoch=1), 12)
        assert isinstance(unknown, FetchResponse)
        assert (unknown.error_code, unknown.session_id, unknown.responses) == (70, 0, [])
        first = wire.ask(fetch(("a", 0, 0)), 12)
        assert isinstance(first, FetchResponse)
        for epoch in (2, 7, -3):
            wrong = wire.ask(fetch(session=first.session_id, epoch=epoch), 12)
            assert isinstance(wrong, FetchResponse)
            assert wrong.error_code == 71
        by_id = wire.ask(fetch(session=first.session_id, epoch=1), 13)
        assert isinstance(by_id, FetchResponse)
        assert by_id.error_code == 106
        # It goes on where it was, from another connection too.
        with Wire(broker) as other:
            assert list(told(other.ask(fetch(session=first.session_id, epoch=1), 12))) == [("a", 0)]


@pytest.mark.parametrize("version", [4, 6])
def test_a_version_without_sessions_gets_none(store: Store, broker: Broker, version: int) -> None:
    store.create_topic("a").append(b"v")
    with Wire(broker) as wire:
        assert list(told(wire.ask(fetch(("a", 0, 0)), version))) == [("a", 0)]
    assert len(broker._requests._fetches.sessions) == 0


def test_an_error_is_told_each_time_and_the_marks_after_it(store: Store, broker: Broker) -> None:
    store.create_topic("a").append(b"v")
    with Wire(broker) as wire:
        first = wire.ask(fetch(("a", 0, 5), ("missing", 0, 0)), 12)
        assert isinstance(first, FetchResponse)
        assert [each[0] for each in told(first).values()] == [1, 3]
        again = wire.ask(fetch(session=first.session_id, epoch=1), 12)
        assert [each[0] for each in told(again).values()] == [1, 3]
        healed = wire.ask(fetch(("a", 0, 1), session=first.session_id, epoch=2, forget=(("missing", 0),)), 12)
        assert told(healed) == {("a", 0): (0, 1, 0)}
        assert told(wire.ask(fetch(session=first.session_id, epoch=3), 12)) == {}


def test_a_client_that_has_read_another_epoch_is_told_where_the_logs_part(store: Store, broker: Broker) -> None:
    topic = store.create_topic("a")
    topic.append_many([b"v"] * 3)
    topic.log(0).replica.begin_epoch(5)
    topic.append_many([b"w"] * 3)
    request = fetch(("a", 0, 5))
    asked = request.topics[0].partitions[0]
    with Wire(broker) as wire:
        for last_epoch, expected in ((3, (0, 0, 3)), (9, None), (5, None)):
            asked.last_fetched_epoch = last_epoch
            for version in (12, 17):
                if version == 17:
                    request.topics[0].topic, request.topics[0].topic_id = "", topic.id
                else:
                    request.topics[0].topic, request.topics[0].topic_id = "a", ""
                answer = wire.ask(request, version)
                assert isinstance(answer, FetchResponse)
                (found,) = answer.responses[0].partitions
                if expected is not None:
                    assert (
                        found.error_code,
                        found.diverging_epoch.epoch,
                        found.diverging_epoch.end_offset,
                    ) == expected
                    assert not found.records
                else:
                    assert found.error_code == (1 if last_epoch == 9 else 0)
                    assert found.diverging_epoch.end_offset == -1


def test_places_go_to_others_when_sessions_are_idle_or_small() -> None:
    clock = ManualClock()
    sessions = FetchSessions(2, clock, random.Random(1))
    small = sessions.plan(fetch(("a", 0, 0)), 12)
    large = sessions.plan(fetch(("a", 0, 0), ("b", 0, 0)), 12)
    assert small.session_id != large.session_id
    # Both are young and in use.
    assert sessions.plan(fetch(("c", 0, 0), ("d", 0, 0), ("e", 0, 0)), 12).session_id == 0
    clock.advance(1000 * (IDLE_S - 1))
    assert sessions.plan(fetch(session=small.session_id, epoch=1), 12).is_incremental
    assert sessions.plan(fetch(session=large.session_id, epoch=1), 12).is_incremental
    clock.advance(2000)
    # They are used, but no longer young: a larger one takes the place of the smallest.
    assert sessions.plan(fetch(("c", 0, 0)), 12).session_id == 0
    assert sessions.plan(fetch(("c", 0, 0), ("d", 0, 0)), 12).session_id > 0
    assert sessions.plan(fetch(session=small.session_id, epoch=2), 12).code == 70
    clock.advance(1000 * (IDLE_S + 1))
    # Idle ones give way to any.
    assert sessions.plan(fetch(("c", 0, 0)), 12).session_id > 0
    assert sessions.plan(fetch(session=large.session_id, epoch=2), 12).code == 70
    assert len(sessions) == 2


def _many(count: int, first: int = 0) -> tuple[tuple[str, int, int], ...]:
    return tuple((f"t{n}", 0, 0) for n in range(first, first + count))


def test_partitions_of_all_sessions_are_bounded() -> None:
    """They outlive the connection of their client, which may begin a thousand sessions of any size."""
    clock = ManualClock()
    sessions = FetchSessions(1_000, clock, most_partitions=10)
    first, second = (sessions.plan(fetch(*_many(4)), 12) for _ in range(2))
    assert first.session_id
    assert second.session_id
    none = sessions.plan(fetch(*_many(3)), 12)
    assert (none.session_id, len(none.wanted), none.code) == (0, 3, 0)
    assert sessions.plan(fetch(*_many(2)), 12).session_id
    # Sessions grow by their requests too. One that has no place for it ends, and its client begins another one.
    assert sessions.plan(fetch(*_many(3), session=first.session_id, epoch=1), 12).is_incremental
    grown = sessions.plan(fetch(*_many(1, first=4), session=first.session_id, epoch=2), 12)
    assert (grown.wanted, grown.session_id, grown.code) == ([], 0, 70)
    assert sessions.plan(fetch(session=first.session_id, epoch=3), 12).code == 70
    assert len(sessions) == 2
    # What is forgotten, or closed, has its place back; so has what is idle.
    forget = tuple((name, n) for name, n, _ in _many(3))
    assert sessions.plan(fetch(session=second.session_id, epoch=1, forget=forget), 12).is_incremental
    third = sessions.plan(fetch(*_many(7)), 12)
    assert third.session_id
    assert not sessions.plan(fetch(*_many(1)), 12).session_id
    sessions.plan(fetch(session=third.session_id, epoch=-1), 12)
    assert sessions.plan(fetch(*_many(7)), 12).session_id
    clock.advance(1000 * (IDLE_S + 1))
    assert sessions.plan(fetch(*_many(10)), 12).session_id
    assert len(sessions) == 1
    assert not sessions.plan(fetch(*_many(11)), 12).session_id


def test_epochs_of_a_session_begin_again_at_1() -> None:
    sessions = FetchSessions(10)
    plan = sessions.plan(fetch(("a", 0, 0)), 12)
    assert plan.session is not None
    plan.session.epoch = 2**31 - 1
    assert sessions.plan(fetch(session=plan.session_id, epoch=2**31 - 1), 12).is_incremental
    assert sessions.plan(fetch(session=plan.session_id, epoch=1), 12).is_incremental


def test_a_session_without_partitions_ends() -> None:
    sessions = FetchSessions(10)
    plan = sessions.plan(fetch(("a", 0, 0)), 12)
    assert sessions.plan(fetch(), 12).session_id == 0
    assert sessions.plan(fetch(session=plan.session_id, epoch=1, forget=(("a", 0),)), 12).wanted == []
    assert len(sessions) == 0
    assert FoundPartition(0).region is None
