"""Kafka's sticky assignor: balanced, and with as few moves as balance allows (`StickyAssignor`, KIP-54)."""

from __future__ import annotations

from collections.abc import Mapping

from logstore.groups.assignors import balanced, unequal
from logstore.groups.assignors.claims import Claims, OwnedClaim, compare
from logstore.groups.assignors.members import NO_GENERATION, Assigned, Members, Racks, Topics
from logstore.groups.assignors.nearness import Nearness
from logstore.groups.assignors.user_data import decode_sticky

NAME = "sticky"


def assign(topics: Topics, members: Members, racks: Racks | None = None) -> Assigned:
    """Leave members what they had, and move only what balance asks for.

    What a member had stands in its user data, which its own assignor has written (`user_data.encode_sticky`):
    before it joins it gives up all its partitions, so that it owns none. User data that cannot be read is ignored.
    """
    claims = {name: _claim(member.user_data) for name, member in members.items()}
    return divide(topics, members, claims, racks)


def _claim(user_data: bytes | None) -> OwnedClaim:
    found = decode_sticky(user_data)
    return OwnedClaim((), NO_GENERATION) if found is None else OwnedClaim(*found)


def known(topics: Topics, members: Members) -> dict[str, int]:
    """Return the topics that have partitions and a subscriber."""
    wanted = {topic for member in members.values() for topic in member.topics}
    return {topic: topics[topic] for topic in wanted if topics.get(topic, 0) > 0}


def are_equal(members: Members) -> bool:
    """Tell whether all members subscribe to the same topics."""
    return len({frozenset(member.topics) for member in members.values()}) == 1


def compared(topics: Topics, members: Members, claims: Mapping[str, OwnedClaim]) -> Claims:
    """Return which claims hold for the topics that are divided."""
    return compare(known(topics, members), members, claims)


def divide(topics: Topics, members: Members, claims: Mapping[str, OwnedClaim], racks: Racks | None) -> Assigned:
    """Divide the topics by the claims of members; `cooperative` has others than `assign` here."""
    divided = known(topics, members)
    valid = compare(divided, members, claims)
    near = Nearness(members, divided, racks)
    if are_equal(members):
        return balanced.divide(divided, [*members], valid, near)
    return unequal.divide(divided, members, valid, near)
