"""Partitions added and described, elections and moves of them."""

from __future__ import annotations

from typing import Any

import pytest

from logstore.protocol.generated.messages import (
    CreatePartitionsRequest,
    DescribeTopicPartitionsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from logstore.store import Store
from tests.broker.wire import Wire

# --- added -------------------------------------------------------------------------------------


def _grow(
    wire: Wire, *wanted: tuple[str, int, list[list[int]] | None], version: int = 3, validate_only: bool = False
) -> list[tuple[str, int]]:
    R = CreatePartitionsRequest
    topics = [
        R.CreatePartitionsTopic(
            name=name,
            count=count,
            assignments=None
            if assigned is None
            else [R.CreatePartitionsAssignment(broker_ids=brokers) for brokers in assigned],
        )
        for name, count, assigned in wanted
    ]
    found: Any = wire.ask(R(topics=topics, timeout_ms=1000, validate_only=validate_only), version)
    assert all((each.error_message is None) == (each.error_code == 0) for each in found.results)
    return [(each.name, each.error_code) for each in found.results]


@pytest.mark.parametrize("version", range(4))
def test_each_topic_gets_partitions_for_itself(store: Store, wire: Wire, version: int) -> None:
    for name in ("flights", "weather", "twice"):
        store.create_topic(name, 2)
    wanted = [
        ("flights", 4, None),
        ("missing", 3, None),
        ("weather", 2, None),
        ("twice", 3, None),
        ("twice", 4, None),
    ]
    found = _grow(wire, *wanted, version=version)
    assert found == [("flights", 0), ("missing", 3), ("weather", 37), ("twice", 42)]
    assert [len(store[name]) for name in ("flights", "weather", "twice")] == [4, 2, 2]


def test_each_topic_is_looked_at_before_it_grows_and_once_more_while_it_does(
    store: Store, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = store._host.topics_table
    check, looked = table.check_grow, []

    def counting(name: str, total: int) -> object:
        looked.append(name)
        return check(name, total)

    monkeypatch.setattr(table, "check_grow", counting)
    for name in ("flights", "weather"):
        store.create_topic(name)
    assert _grow(wire, ("flights", 2, None), ("weather", 3, None)) == [("flights", 0), ("weather", 0)]
    assert sorted(looked) == ["flights"] * 2 + ["weather"] * 2


@pytest.mark.parametrize(
    ("name", "count", "assigned", "code"),
    [
        ("flights", 3, [[1]], 0),
        ("flights", 1, None, 37),
        ("flights", 0, None, 37),
        ("flights", -1, None, 37),
        ("flights", 2**31 - 1, None, 37),
        ("flights", 3, [], 39),
        ("flights", 4, [[1]], 39),
        ("flights", 3, [[2]], 39),
        ("flights", 3, [[1, 1]], 39),
        ("flights", 3, [[]], 39),
        ("__consumer_offsets", 9, None, 37),
        ("a/b", 3, None, 3),
    ],
)
@pytest.mark.parametrize("validate_only", [True, False])
def test_what_cannot_be_added_is_refused(
    store: Store,
    wire: Wire,
    name: str,
    count: int,
    assigned: list[list[int]] | None,
    code: int,
    validate_only: bool,
) -> None:
    store.create_topic("flights", 2)
    store.create_topic("__consumer_offsets", cleanup_policy="compact")
    assert _grow(wire, (name, count, assigned), validate_only=validate_only) == [(name, code)]
    assert len(store["flights"]) == (3 if code == 0 and not validate_only else 2)


# --- described ---------------------------------------------------------------------------------


def _describe(
    wire: Wire, names: list[str], *, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> tuple[list[tuple[str, int, list[int]]], tuple[str, int] | None]:
    R = DescribeTopicPartitionsRequest
    request = R(topics=[R.TopicRequest(name=name) for name in names], response_partition_limit=limit)
    if cursor is not None:
        request.cursor = R.Cursor(topic_name=cursor[0], partition_index=cursor[1])
    found: Any = wire.ask(request, 0)
    topics = [
        (each.name, each.error_code, [part.partition_index for part in each.partitions]) for each in found.topics
    ]
    following = found.next_cursor
    return topics, None if following is None else (following.topic_name, following.partition_index)


@pytest.fixture
def two(store: Store) -> Store:
    store.create_topic("b", 3)
    store.create_topic("a", 2)
    return store


def test_topics_are_described_in_the_order_of_their_names(two: Store, wire: Wire) -> None:
    both = [("a", 0, [0, 1]), ("b", 0, [0, 1, 2])]
    assert _describe(wire, []) == (both, None)
    assert _describe(wire, ["b", "missing", "a", "b", "a/b"]) == (
        [both[0], ("a/b", 17, []), both[1], ("missing", 3, [])],
        None,
    )
    R = DescribeTopicPartitionsRequest
    found: Any = wire.ask(R(topics=[R.TopicRequest(name="a")]), 0)
    (topic,) = found.topics
    assert (topic.topic_id, topic.is_internal) == (two["a"].id, False)
    part = topic.partitions[1]
    assert (part.leader_id, list(part.replica_nodes), list(part.isr_nodes)) == (1, [1], [1])
    assert list(part.offline_replicas) == []


@pytest.mark.parametrize("limit", range(1, 7))
@pytest.mark.parametrize("names", [[], ["b", "a", "missing"]])
def test_pages_of_any_size_hold_every_partition_once(two: Store, wire: Wire, limit: int, names: list[str]) -> None:
    seen, cursor = [], None
    for _ in range(10):
        topics, cursor = _describe(wire, names, limit=limit, cursor=cursor)
        assert sum(len(numbers) for _, _, numbers in topics) <= limit
        seen += [(name, number) for name, _, numbers in topics for number in numbers]
        if cursor is None:
            break
    assert seen == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2)]


def test_a_cursor_may_be_where_nothing_is(two: Store, wire: Wire) -> None:
    assert _describe(wire, [], cursor=("aa", 7)) == ([("b", 0, [0, 1, 2])], None)
    assert _describe(wire, [], cursor=("a", 7)) == ([("a", 0, []), ("b", 0, [0, 1, 2])], None)
    assert _describe(wire, [], cursor=("z", 0)) == ([], None)
    for limit in (0, -1):
        assert _describe(wire, [], limit=limit) == ([("a", 0, [0])], ("a", 1))


@pytest.mark.parametrize("cursor", [("b", 0), ("a", -1)])
def test_a_cursor_that_does_not_fit_is_refused(two: Store, wire: Wire, cursor: tuple[str, int]) -> None:
    assert _describe(wire, ["a"], cursor=cursor) == ([("a", 42, [])], None)


# --- elections and moves -----------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_no_election_is_needed(two: Store, wire: Wire, version: int) -> None:
    R = ElectLeadersRequest
    asked = [
        R.TopicPartitions(topic="a", partitions=[1, 2, -1]),
        R.TopicPartitions(topic="missing", partitions=[0]),
    ]
    found: Any = wire.ask(R(topic_partitions=asked), version)
    results = [[each.error_code for each in topic.partition_result] for topic in found.replica_election_results]
    assert (found.error_code, results) == (0, [[84, 3, 3], [3]])
    found = wire.ask(R(topic_partitions=None), version)
    assert (found.error_code, list(found.replica_election_results)) == (0, [])


def test_an_election_of_an_unknown_kind_is_refused(two: Store, wire: Wire) -> None:
    R = ElectLeadersRequest
    asked = [R.TopicPartitions(topic="a", partitions=[0])]
    found: Any = wire.ask(R(topic_partitions=asked, election_type=2), 2)
    assert (found.error_code, found.replica_election_results[0].partition_result[0].error_code) == (42, 42)
    found = wire.ask(R(topic_partitions=asked, election_type=1), 2)
    assert found.replica_election_results[0].partition_result[0].error_code == 84


def test_no_partition_moves(two: Store, wire: Wire) -> None:
    R = ListPartitionReassignmentsRequest
    topics = [R.ListPartitionReassignmentsTopics(name=name, partition_indexes=[0]) for name in ("a", "missing")]
    for asked in (None, topics):
        found: Any = wire.ask(R(topics=asked), 0)
        assert (found.error_code, found.error_message, list(found.topics)) == (0, None, [])
