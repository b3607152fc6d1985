"""Kafka's round robin assignor: partitions of all topics dealt one by one (`RoundRobinAssignor`)."""

from __future__ import annotations

from logstore.groups.assignors.members import Assigned, Members, Racks, Topics, java_order, static_first
from logstore.records import TopicPartition

NAME = "roundrobin"


def assign(topics: Topics, members: Members, racks: Racks | None = None) -> Assigned:
    """Deal the partitions, ordered by topic, to the members in turn.

    A member that does not subscribe to a topic is passed over. The next partition is offered to the member after
    the one that took the last. Static members come first (KIP-345). Racks are ignored, as in Kafka.

    >>> from logstore.groups.assignors.members import GroupMember
    >>> pair = {"a": GroupMember(("x",)), "b": GroupMember(("x", "y"))}
    >>> [str(one) for one in assign({"x": 2, "y": 2}, pair)["b"]]
    ['x-1', 'y-0', 'y-1']
    """
    assigned: Assigned = {member_id: [] for member_id in members}
    turn = static_first(members)
    subscribed = {member_id: frozenset(members[member_id].topics) for member_id in turn}
    wanted = frozenset[str]().union(*subscribed.values())
    place = 0
    for topic in sorted(wanted, key=java_order):
        for partition in range(topics.get(topic, 0)):
            while topic not in subscribed[turn[place]]:
                place = (place + 1) % len(turn)
            assigned[turn[place]].append(TopicPartition(topic, partition))
            place = (place + 1) % len(turn)
    return assigned
