"""Racks of members and replicas, for the sticky assignors (KIP-881)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from logstore.groups.assignors.members import Members, Racks, racks_help
from logstore.records import TopicPartition


class Nearness:
    """Which members stand in a rack where a partition has a replica.

    Racks count only if they help (`racks_help`): else every member is near to every partition.
    """

    def __init__(self, members: Members, topics: Mapping[str, int], racks: Racks | None) -> None:
        self._rack_of = {name: member.rack_id for name, member in members.items() if member.rack_id is not None}
        self._of: dict[TopicPartition, frozenset[str]] = {
            TopicPartition(topic, n): frozenset(found)
            for topic in (racks or {}).keys() & topics.keys()
            for n, found in enumerate((racks or {})[topic])
        }
        self.counts = racks_help(set(self._rack_of.values()), [*self._of.values()])  #: whether racks count

    def is_near(self, member_id: str, partition: TopicPartition) -> bool:
        """Tell whether the member has a rack, and a replica stands in it."""
        return self._rack_of.get(member_id) in self._of.get(partition, ())

    def may_keep(self, member_id: str, partition: TopicPartition) -> bool:
        """Tell whether a member keeps what it owns: it is near, has no rack, or racks do not count."""
        return not self.counts or member_id not in self._rack_of or self.is_near(member_id, partition)

    def rarest_first(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions, those first to which the fewest members are near."""
        members: dict[str, int] = {}
        for rack in self._rack_of.values():
            members[rack] = members.get(rack, 0) + 1
        return sorted(partitions, key=lambda one: sum(members.get(rack, 0) for rack in self._of.get(one, ())))
