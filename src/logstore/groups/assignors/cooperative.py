"""Kafka's cooperative sticky assignor: members keep what they do not lose while the group changes (KIP-429)."""

from __future__ import annotations

from logstore.groups.assignors import sticky
from logstore.groups.assignors.claims import OwnedClaim
from logstore.groups.assignors.members import NO_GENERATION, Assigned, Members, Racks, Topics
from logstore.groups.assignors.user_data import decode_cooperative

NAME = "cooperative-sticky"


def assign(topics: Topics, members: Members, racks: Racks | None = None) -> Assigned:
    """Divide as `sticky` does, but give no partition to a member while another still owns it.

    Such a partition is left out of this round. Its owner sees that it has lost it, revokes it, and joins again; the
    next round gives it to its new member (KIP-429). What members own are the partitions of their subscriptions, by
    the generation there (KIP-792) or, before version 2 of subscriptions, in their user data.
    """
    claims = {}
    for name, member in members.items():
        generation = member.generation
        if generation == NO_GENERATION:
            generation = decode_cooperative(member.user_data)
        claims[name] = OwnedClaim(member.owned, generation)
    divided = sticky.divide(topics, members, claims, racks)
    owned_by_some = {one for member in members.values() for one in member.owned}
    if sticky.are_equal(members):  # here Kafka counts only claims that hold
        valid = sticky.compared(topics, members, claims)
        held = {name: set(owned) - valid.doubtful for name, owned in valid.owned.items()}
    else:
        held = {name: set(member.owned) for name, member in members.items()}
    return {
        name: [one for one in found if one not in owned_by_some or one in held[name]]
        for name, found in divided.items()
    }
