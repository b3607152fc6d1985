"""Assignors: equal to Java's on stored cases, and what each promises on any group."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.groups.assignors import ranges
from logstore.groups.assignors.members import GroupMember
from logstore.groups.assignors.user_data import encode_sticky
from logstore.records import TopicPartition
from tests.interop import assignors
from tests.interop.assignors import ASSIGNORS, Case

each_assignor = pytest.mark.parametrize("assignor", ASSIGNORS)


@each_assignor
def test_the_answer_is_javas(assignor: str) -> None:
    found = [(case, answer) for case, answer in assignors.load() if case.assignor == assignor]
    assert len(found) >= 80
    for case, answer in found:
        assert assignors.plain(case.ours()) == answer, case.line()


@st.composite
def groups(draw: st.DrawFn, *, is_equal: bool = False) -> tuple[dict[str, list[list[str]]], dict[str, GroupMember]]:
    """The topics and the members of a group that has had no round yet."""
    racks = st.lists(st.sampled_from("abc"), unique=True, max_size=2)
    topics = draw(st.dictionaries(st.sampled_from(["x", "y", "z"]), st.lists(racks, min_size=1, max_size=9)))
    names = [*topics, "unknown"]
    some = st.just(tuple(names)) if is_equal else st.lists(st.sampled_from(names), unique=True).map(tuple)
    one = st.builds(
        GroupMember,
        some,
        owned=st.just(()),
        generation=st.just(-1),
        user_data=st.none(),
        instance_id=st.none(),
        rack_id=st.sampled_from(["a", "b", "d", None]),
    )
    return topics, draw(st.dictionaries(st.text("abc\u00ff", min_size=1, max_size=3), one, min_size=1, max_size=7))


@each_assignor
@given(group=groups())
def test_each_partition_has_one_member_that_subscribes(assignor: str, group: Any) -> None:
    topics, members = group
    assigned = Case(assignor, topics, members).ours()
    assert set(assigned) == set(members)
    given_out = sorted(one for partitions in assigned.values() for one in partitions)
    wanted = {topic for member in members.values() for topic in member.topics}
    assert given_out == sorted(
        TopicPartition(topic, n) for topic, racks in topics.items() if topic in wanted for n in range(len(racks))
    )
    for name, partitions in assigned.items():
        assert {one.topic for one in partitions} <= set(members[name].topics)


@each_assignor
@given(group=groups(is_equal=True))
def test_the_shares_of_equal_members_differ_by_at_most_one(assignor: str, group: Any) -> None:
    topics, members = group
    assigned = Case(assignor, topics, members).ours()
    of_topics = [[]] if assignor != "range" else [[topic] for topic in topics]  # range divides each topic alone
    for chosen in of_topics:
        sizes = [sum(not chosen or one.topic in chosen for one in partitions) for partitions in assigned.values()]
        assert max(sizes) - min(sizes) <= 1


@given(racks_of_members=st.lists(st.sampled_from("abc"), min_size=2, max_size=4), data=st.data())
def test_range_gives_partitions_of_one_number_to_one_member_where_topics_are_alike(
    racks_of_members: list[str], data: Any
) -> None:
    members = {f"m{n}": GroupMember(("x", "y"), rack_id=rack) for n, rack in enumerate(racks_of_members)}
    racks = st.sampled_from([["a"], ["b"], ["c"], ["a", "b"], ["b", "c"]])
    count = data.draw(st.integers(2, 6))
    alike = {topic: data.draw(st.lists(racks, min_size=count, max_size=count)) for topic in ("x", "y")}
    assigned = Case("range", alike, members).ours()
    for partitions in assigned.values():
        numbers = {topic: [one.partition for one in partitions if one.topic == topic] for topic in alike}
        assert len({tuple(found) for found in numbers.values()}) <= 1


def test_range_gives_each_number_of_topics_that_are_alike_to_the_first_member_that_is_near() -> None:
    """A topic alone is dealt member by member, and topics that are alike number by number (KIP-881)."""
    members = {
        "a": GroupMember(("x", "y"), rack_id="east"),
        "b": GroupMember(("x", "y"), rack_id="west"),
        "c": GroupMember(("x", "y"), rack_id="north"),
    }
    racks = [["west"], ["west"], ["east"], ["east"]]
    both = ranges.assign({"x": 4, "y": 4}, members, {"x": racks, "y": racks})
    for topic in ("x", "y"):
        found = {name: [one.partition for one in owned if one.topic == topic] for name, owned in both.items()}
        assert found == {"a": [2], "b": [0, 1], "c": [3]}
    alone = ranges.assign({"x": 4}, members, {"x": racks})
    assert {name: [one.partition for one in owned] for name, owned in alone.items()} == {
        "a": [2, 3],
        "b": [0],
        "c": [1],
    }


def claims(generation: int, *partitions: tuple[str, int]) -> str:
    """What the sticky assignor of a member writes, in hex."""
    return encode_sticky([TopicPartition(*one) for one in partitions], generation).hex()


def divided(topics: dict[str, int], members: dict[str, GroupMember]) -> dict[str, list[list[Any]]]:
    case = Case("sticky", {topic: [[]] * count for topic, count in topics.items()}, members)
    return assignors.plain(case.ours())


def test_of_three_claims_the_latest_holds_also_where_the_others_are_of_one_generation() -> None:
    """Java's answer; before, the partition that two claimed by generation 4 went to any member."""
    members = {
        "c-546-1": GroupMember(("unknown",), (), 4, user_data=claims(4)),
        "c-4832-2": GroupMember(("t",), (), 4, user_data=claims(4, ("t", 1), ("t", 0), ("t", 2))),
        "größe-5645-3": GroupMember(("other",), (), 4, user_data=claims(4, ("t", 2), ("t", 1))),
        "consumer-9387-5": GroupMember(("t",), (), 5, user_data=claims(5, ("t", 1))),
        "c-636-6": GroupMember(("unknown", "t")),
    }
    found = divided({"t": 3}, members)
    assert found == {
        "c-546-1": [], "c-4832-2": [["t", 0]], "größe-5645-3": [], "consumer-9387-5": [["t", 1]],
        "c-636-6": [["t", 2]],
    }  # fmt: skip


def test_a_partition_moves_to_the_member_that_had_it_in_a_missed_round_even_if_no_other_claims_it() -> None:
    """Java's answer to a group whose members' user data are of generations 2, 0 and none."""
    without_generation = claims(0, ("topic-1", 0), ("topic-1", 1))[:-8]
    members = {
        "\uffee-2073-1": GroupMember(("topic-1",), (), 2, user_data=without_generation),
        "größe-8896-2": GroupMember(("topic-0", "unknown"), (), 2, "a", user_data=claims(2, ("topic-0", 0))),
        "größe-7640-3": GroupMember(("topic-1", "unknown")),
        "\U0001f600-9985-4": GroupMember(
            ("unknown", "topic-0", "topic-1"), (), 0, "b",
            user_data=claims(0, ("topic-1", 0), ("topic-1", 1), ("topic-0", 0), ("gone", 0)),
        ),
        "c-7317-5": GroupMember(("unknown", "topic-0", "topic-1"), instance_id="c"),
    }  # fmt: skip
    assert divided({"topic-0": 1, "topic-1": 2}, members) == {
        "\uffee-2073-1": [], "größe-8896-2": [["topic-0", 0]], "größe-7640-3": [],
        "\U0001f600-9985-4": [["topic-1", 1]], "c-7317-5": [["topic-1", 0]],
    }  # fmt: skip
