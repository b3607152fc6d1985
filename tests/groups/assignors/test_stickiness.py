"""Sticky assignors keep what balance lets them keep; the cooperative one revokes first and gives later."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.groups.assignors import cooperative, sticky
from logstore.groups.assignors.members import GroupMember
from logstore.groups.assignors.user_data import encode_sticky
from logstore.records import TopicPartition

TOPICS = {"x": 7, "y": 4}


def joined(names: list[str], topics: tuple[str, ...] = tuple(TOPICS)) -> dict[str, GroupMember]:
    return {name: GroupMember(topics) for name in names}


def after(assigned: dict[str, list[TopicPartition]], generation: int) -> dict[str, GroupMember]:
    """The members as they join the next round."""
    return {
        name: GroupMember(tuple(TOPICS), tuple(owned), generation, user_data=encode_sticky(owned, generation))
        for name, owned in assigned.items()
    }


def moved(before: dict[str, list[TopicPartition]], now: dict[str, list[TopicPartition]]) -> int:
    """How many partitions of members that are still there have been taken from them."""
    return sum(len(set(owned) - set(now[name])) for name, owned in before.items() if name in now)


counts = st.integers(1, 9)


@given(counts)
def test_a_group_that_does_not_change_keeps_all(count: int) -> None:
    first = sticky.assign(TOPICS, joined([f"m{n}" for n in range(count)]))
    assert moved(first, sticky.assign(TOPICS, after(first, 1))) == 0


@given(counts, st.data())
def test_a_member_that_leaves_takes_nothing_from_the_others(count: int, data: st.DataObject) -> None:
    first = sticky.assign(TOPICS, joined([f"m{n}" for n in range(count + 1)]))
    gone = data.draw(st.sampled_from(sorted(first)))
    members = after(first, 1)
    del members[gone]
    assert moved(first, sticky.assign(TOPICS, members)) == 0


@given(counts)
def test_a_member_that_joins_takes_no_more_than_its_share(count: int) -> None:
    first = sticky.assign(TOPICS, joined([f"m{n}" for n in range(count)]))
    now = sticky.assign(TOPICS, after(first, 1) | joined(["new"]))
    assert moved(first, now) == len(now["new"]) == 11 // (count + 1)


@given(counts, counts)
def test_cooperative_gives_no_partition_that_another_member_still_owns(count: int, new: int) -> None:
    first = cooperative.assign(TOPICS, joined([f"m{n}" for n in range(count)]))
    members = after(first, 1) | joined([f"n{n}" for n in range(new)])
    owner = {one: name for name, owned in first.items() for one in owned}
    half = cooperative.assign(TOPICS, members)
    assert all(owner[one] == name for name, owned in half.items() for one in owned)
    # All have revoked what they lost, and join again: now everything has a member.
    whole = cooperative.assign(TOPICS, after(half, 2))
    assert sorted(one for owned in whole.values() for one in owned) == sorted(owner)
    assert moved(half, whole) == 0
    sizes = [len(owned) for owned in whole.values()]
    assert max(sizes) - min(sizes) <= 1


def test_a_claim_of_a_later_generation_wins() -> None:
    everything = tuple(TopicPartition("x", n) for n in range(4))
    members = {
        "late": GroupMember(("x",), everything[:2], 3),
        "here": GroupMember(("x",), everything[:2], 4),
    }
    assert cooperative.assign({"x": 4}, members)["here"] == [*everything[:2]]


@pytest.mark.parametrize("data", [b"", b"\xff" * 9, b"\0\0\0\x01\0\x01x\xff\xff\xff\xff"])
def test_user_data_that_cannot_be_read_is_ignored(data: bytes) -> None:
    members = joined(["a", "b"])
    expected = sticky.assign(TOPICS, members)
    members["b"] = members["b"]._replace(user_data=data)
    assert sticky.assign(TOPICS, members) == expected
