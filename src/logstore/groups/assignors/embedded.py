"""What a member says when it joins and what it is given, as bytes inside JoinGroup and SyncGroup.

``int16`` version, then the fields of ConsumerProtocolSubscription or ConsumerProtocolAssignment of that version
(`logstore.protocol.generated.embedded`). A later version than 3 is read as 3: it may only have more fields at its
end, as Kafka promises. Bytes come from other members and may be anything: what is malformed is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from logstore.errors import MalformedMessageError
from logstore.groups.assignors.members import NO_GENERATION, GroupMember, java_order
from logstore.protocol.generated.embedded import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from logstore.protocol.grouping import by_topic
from logstore.records import TopicPartition

PROTOCOL_TYPE = "consumer"
CURRENT = 3

_PREFIX = 2  #: bytes of the version


class MemberAssignment(NamedTuple):
    """What one member is given, with bytes of the assignor."""

    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None


def encode_subscription(member: GroupMember, version: int = CURRENT) -> bytes:
    """Encode what a member says; its instance id stands in JoinGroup. Topics and partitions are sorted.

    A version leaves out what it does not have: owned partitions (from 1), generation (from 2), rack (from 3).

    >>> encode_subscription(GroupMember(("t",)), 0).hex(" ", 2)
    '00 0000 0000 0100 0174 ffff ffff'
    """
    kind = ConsumerProtocolSubscription.TopicPartition
    found = ConsumerProtocolSubscription(
        topics=sorted(member.topics, key=java_order),
        user_data=member.user_data,
        owned_partitions=[
            kind(topic=topic, partitions=ns) for topic, ns in by_topic(_sorted(member.owned)).items()
        ],
        generation_id=member.generation,
        rack_id=member.rack_id,
    )
    return version.to_bytes(_PREFIX, "big") + found.encode(version)


def decode_subscription(data: bytes, instance_id: str | None = None) -> GroupMember:
    """Decode what a member says.

    Raises:
        MalformedMessageError: the bytes are no subscription.
    """
    found = ConsumerProtocolSubscription.decode(data, _version(data, "subscription"), _PREFIX)
    owned = [(one.topic, one.partitions) for one in found.owned_partitions]
    return GroupMember(
        tuple(found.topics),
        _partitions(owned, "subscription"),
        found.generation_id if found.generation_id >= 0 else NO_GENERATION,
        instance_id,
        found.rack_id or None,
        found.user_data,
    )


def encode_assignment(
    partitions: Iterable[TopicPartition], user_data: bytes | None = None, version: int = CURRENT
) -> bytes:
    """Encode what a member is given.

    >>> encode_assignment([TopicPartition("t", 2)]).hex(" ", 2)
    '00 0300 0000 0100 0174 0000 0001 0000 0002 ffff ffff'
    """
    kind = ConsumerProtocolAssignment.TopicPartition
    found = ConsumerProtocolAssignment(
        assigned_partitions=[kind(topic=topic, partitions=ns) for topic, ns in by_topic(partitions).items()],
        user_data=user_data,
    )
    return version.to_bytes(_PREFIX, "big") + found.encode(version)


def decode_assignment(data: bytes) -> MemberAssignment:
    """Decode what a member is given. No bytes at all mean no partitions.

    Raises:
        MalformedMessageError: the bytes are no assignment.
    """
    if not data:
        return MemberAssignment(())
    found = ConsumerProtocolAssignment.decode(data, _version(data, "assignment"), _PREFIX)
    given = [(one.topic, one.partitions) for one in found.assigned_partitions]
    return MemberAssignment(_partitions(given, "assignment"), found.user_data)


def _sorted(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    return sorted(partitions, key=lambda one: (java_order(one.topic), one.partition))


def _version(data: bytes, what: str) -> int:
    if len(data) < _PREFIX:
        raise MalformedMessageError(f"{what}: {len(data)} bytes, the version alone has {_PREFIX}")
    version = int.from_bytes(data[:_PREFIX], "big", signed=True)
    if version < 0:
        raise MalformedMessageError(f"{what}: version {version}, there are 0 and above")
    return min(version, CURRENT)


def _partitions(rows: Iterable[tuple[str, Iterable[int]]], what: str) -> tuple[TopicPartition, ...]:
    found = tuple(TopicPartition(topic, n) for topic, numbers in rows for n in numbers)
    for one in found:
        if one.partition < 0:
            raise MalformedMessageError(f"{what}: partition {one.partition} of topic {one.topic!r}")
    return found
