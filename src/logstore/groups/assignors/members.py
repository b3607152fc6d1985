"""The members of a group as an assignor sees them, and the topics that it divides.

All assignors have the same signature: ``assign(topics, members, racks)`` returns the partitions of each member.
They are pure functions. Results are those of the assignor of the same name in Kafka 4.3's Java client. One is not:
with racks, the sticky assignors divide members of different subscriptions by a rule of their own (`unequal`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from logstore.records import TopicPartition

#: Generation of a member that has not been in the group before.
NO_GENERATION = -1

#: Topic -> number of its partitions.
Topics: TypeAlias = Mapping[str, int]

#: Topic -> for each partition, the racks where its replicas stand (KIP-881); a topic may be missing.
Racks: TypeAlias = Mapping[str, Sequence[Collection[str]]]

#: Member id -> its partitions.
Assigned: TypeAlias = dict[str, list[TopicPartition]]


class GroupMember(NamedTuple):
    """What one member says when it joins.

    ``owned`` are the partitions that it holds, and ``generation`` is that of the group when it got them (KIP-429,
    KIP-792). ``instance_id`` is set for a static member (KIP-345), ``rack_id`` for one that has a rack (KIP-881).
    ``user_data`` are the bytes that its assignor has added.
    """

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    instance_id: str | None = None
    rack_id: str | None = None
    user_data: bytes | None = None


#: Member id -> member.
Members: TypeAlias = Mapping[str, GroupMember]


def java_order(text: str) -> bytes:
    """Return a key that sorts texts as Java does: by UTF-16 units, not by code points.

    >>> sorted(["\\U0001f600", "\\uffee"], key=java_order) == ["\\U0001f600", "\\uffee"]
    True
    """
    return text.encode("utf-16-be", "surrogatepass")


def static_first(members: Members) -> list[str]:
    """Return the member ids in the order in which range and round robin serve them.

    Static members come first, by instance id: a restart changes their member id, and must not change their
    partitions (KIP-345). The others follow by member id.

    >>> static_first({"b": GroupMember(()), "a": GroupMember(()), "z": GroupMember((), instance_id="one")})
    ['z', 'a', 'b']
    """

    def place(member_id: str) -> tuple[bool, bytes]:
        instance_id = members[member_id].instance_id
        return instance_id is None, java_order(member_id if instance_id is None else instance_id)

    return sorted(members, key=place)


def subscribers_of(topics: Topics, members: Members) -> dict[str, list[str]]:
    """Return the subscribers of each topic that has some, as `static_first` orders them.

    Topics that are unknown, or have no partition, are left out.
    """
    found: dict[str, list[str]] = {}
    for member_id in static_first(members):
        for topic in dict.fromkeys(members[member_id].topics):
            if topics.get(topic, 0) > 0:
                found.setdefault(topic, []).append(member_id)
    return found


def racks_help(member_racks: set[str | None], partition_racks: Sequence[Collection[str]]) -> bool:
    """Tell whether the choice of a member can bring it nearer to a partition (KIP-881).

    It cannot if no member stands in a rack of a replica, nor if all partitions have replicas in the same racks.

    >>> racks_help({"a"}, [{"a"}, {"b"}]), racks_help({"a"}, [{"a", "b"}, {"a", "b"}]), racks_help({"c"}, [{"a"}])
    (True, False, False)
    """
    everywhere = frozenset[str]().union(*partition_racks)
    if member_racks.isdisjoint(everywhere):
        return False
    return any(frozenset(racks) != everywhere for racks in partition_racks)
