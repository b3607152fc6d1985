"""The assignors of a member of a classic group: what it says for each when it joins, and what a leader computes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from logstore.errors import InvalidSettingError
from logstore.groups.assignors import cooperative, ranges, round_robin, sticky
from logstore.groups.assignors.embedded import decode_subscription, encode_assignment, encode_subscription
from logstore.groups.assignors.members import Assigned, GroupMember, Members, Racks, Topics
from logstore.groups.assignors.user_data import encode_cooperative, encode_sticky
from logstore.protocol.generated.messages import JoinGroupRequest, JoinGroupResponse, SyncGroupRequest
from logstore.records import TopicPartition

_ASSIGN: dict[str, Callable[[Topics, Members, Racks | None], Assigned]] = {
    module.NAME: module.assign for module in (ranges, round_robin, sticky, cooperative)
}

#: The default of Kafka's ``partition.assignment.strategy``.
DEFAULT_ASSIGNORS = (ranges.NAME, cooperative.NAME)


class _Received(NamedTuple):
    """What a member got in its last round."""

    partitions: tuple[TopicPartition, ...]
    generation: int


class Protocols:
    """The assignors that one member supports, best first."""

    def __init__(self, names: Sequence[str], rack_id: str | None = None) -> None:
        unknown = [name for name in names if name not in _ASSIGN]
        if unknown or not names:
            said = f"unknown: {', '.join(unknown)}" if unknown else "empty"
            raise InvalidSettingError(
                {"partition.assignment.strategy": f"{said}; choose among {', '.join(_ASSIGN)}"}
            )
        self.names = tuple(dict.fromkeys(names))
        self._rack_id = rack_id
        self._last: _Received | None = None

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep what they do not lose: only if every assignor can do with that (KIP-429)."""
        return self.names == (cooperative.NAME,)

    def remember(self, partitions: Iterable[TopicPartition], generation: int) -> None:
        """Note what a round has given, which the sticky assignor says in the next one."""
        self._last = _Received(tuple(partitions), generation)

    def said(
        self, topics: Collection[str], held: Iterable[TopicPartition], generation: int
    ) -> list[JoinGroupRequest.JoinGroupRequestProtocol]:
        """Return what the member says when it joins: it holds these since that generation."""
        member = GroupMember(tuple(topics), tuple(held), generation, rack_id=self._rack_id)
        user_data: dict[str, bytes | None] = {cooperative.NAME: encode_cooperative(generation)}
        if self._last is not None:
            user_data[sticky.NAME] = encode_sticky(*self._last)
        return [
            JoinGroupRequest.JoinGroupRequestProtocol(
                name=name, metadata=encode_subscription(member._replace(user_data=user_data.get(name)))
            )
            for name in self.names
        ]


class Leading:
    """One round as its leader sees it.

    Raises:
        MalformedMessageError: a member's subscription cannot be read.
    """

    def __init__(self, assignor: str, members: Iterable[JoinGroupResponse.JoinGroupResponseMember]) -> None:
        self._assignor = assignor
        self.members = {one.member_id: decode_subscription(one.metadata, one.group_instance_id) for one in members}
        #: the topics of all members
        self.topics = tuple(sorted({topic for one in self.members.values() for topic in one.topics}))

    def counted(self, counts: Mapping[str, int]) -> dict[str, int] | None:
        """Return the number of partitions of each topic, or None if one is not known yet."""
        if any(topic not in counts for topic in self.topics):
            return None
        return {topic: counts[topic] for topic in self.topics}

    def divided(self, counts: Topics, racks: Racks) -> list[SyncGroupRequest.SyncGroupRequestAssignment]:
        """Return what each member gets."""
        assigned = _ASSIGN[self._assignor](counts, self.members, racks)
        return [
            SyncGroupRequest.SyncGroupRequestAssignment(
                member_id=member_id, assignment=encode_assignment(partitions)
            )
            for member_id, partitions in assigned.items()
        ]
