"""Kafka's range assignor: a run of each topic's partitions for each subscriber (`RangeAssignor`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from logstore.groups.assignors.members import (
    Assigned,
    Members,
    Racks,
    Topics,
    java_order,
    racks_help,
    subscribers_of,
)
from logstore.records import TopicPartition

NAME = "range"


class _Division:
    """One topic while it is divided: what is left of it, and how much each subscriber may still take.

    With n partitions and m subscribers, each subscriber takes n // m; n % m of them take one more.
    """

    def __init__(self, topic: str, count: int, members: Sequence[str], racks: Sequence[frozenset[str]]) -> None:
        self.topic = topic
        self.count = count
        self.subscribers = members
        self.racks = racks  #: of each partition; empty if unknown
        self.left = dict.fromkeys(range(count))
        self.taken: dict[str, list[int]] = {member_id: [] for member_id in members}
        self._share, self._larger_shares = divmod(count, len(members))

    def capacity(self, member_id: str) -> int:
        """Return how many partitions a subscriber may still take."""
        return self._share + (self._larger_shares > 0) - len(self.taken[member_id])

    def take(self, member_id: str, partition: int) -> None:
        """Give a partition that is left to a subscriber that has capacity."""
        del self.left[partition]
        self.taken[member_id].append(partition)
        if len(self.taken[member_id]) > self._share:
            self._larger_shares -= 1

    def is_near(self, rack: str | None, partition: int) -> bool:
        """Tell whether a replica stands in the rack; a member without a rack is near to all."""
        return rack is None or not self.racks or rack in self.racks[partition]

    def is_helped(self, rack_of: Mapping[str, str | None]) -> bool:
        """Tell whether racks can bring a subscriber nearer to a partition of this topic."""
        return racks_help({rack_of[member_id] for member_id in self.subscribers}, self.racks)

    def fill(self, allowed: Callable[[str, int], bool]) -> None:
        """Give each subscriber in turn the first partitions that are left and allowed, up to its capacity."""
        for member_id in self.subscribers:
            capacity = self.capacity(member_id)
            if capacity > 0:
                found = [partition for partition in self.left if allowed(member_id, partition)]
                for partition in found[:capacity]:
                    self.take(member_id, partition)


def assign(topics: Topics, members: Members, racks: Racks | None = None) -> Assigned:
    """Divide each topic alone: its subscribers get runs of its partitions, the first ones the longer runs.

    So partitions of the same number go to one member if topics have the same subscribers and the same number of
    partitions. Static members come first (KIP-345).

    With racks (KIP-881) a subscriber first gets, within its share, partitions with a replica in its rack. For
    topics with the same subscribers and the same number of partitions, first those numbers are given that are near
    to a member in all of these topics. What is then left is given as without racks.

    >>> from logstore.groups.assignors.members import GroupMember
    >>> pair = {"a": GroupMember(("x",)), "b": GroupMember(("x",))}
    >>> [str(one) for one in assign({"x": 3}, pair)["a"]]
    ['x-0', 'x-1']
    """
    rack_of = {member_id: member.rack_id for member_id, member in members.items()}
    divisions = [
        _Division(topic, topics[topic], subscribers, [frozenset(one) for one in (racks or {}).get(topic, ())])
        for topic, subscribers in subscribers_of(topics, members).items()
    ]
    if any(division.is_helped(rack_of) for division in divisions):
        _take_near(divisions, rack_of)
    assigned: Assigned = {member_id: [] for member_id in members}
    for division in sorted(divisions, key=lambda one: java_order(one.topic)):
        division.fill(lambda member_id, partition: True)
        for member_id, partitions in division.taken.items():
            assigned[member_id] += [TopicPartition(division.topic, partition) for partition in sorted(partitions)]
    return assigned


def _take_near(divisions: Sequence[_Division], rack_of: Mapping[str, str | None]) -> None:
    """Give what is near; of topics with the same subscribers and number of partitions, what is near in all of them.

    Racks of a topic alone count only where they help; those of several topics if they help in any.
    """
    alike: dict[tuple[tuple[str, ...], int], list[_Division]] = {}
    for division in divisions:
        alike.setdefault((tuple(division.subscribers), division.count), []).append(division)
    for group in alike.values():
        if len(group) > 1:
            _take_together(group, rack_of)
        elif group[0].is_helped(rack_of):
            only = group[0]
            only.fill(partial(_is_near, only, rack_of))


def _is_near(division: _Division, rack_of: Mapping[str, str | None], member_id: str, partition: int) -> bool:
    return division.is_near(rack_of[member_id], partition)


def _take_together(group: Sequence[_Division], rack_of: Mapping[str, str | None]) -> None:
    """Give each partition number of all topics to the first member that has capacity and is near in all of them."""
    for partition in range(group[0].count):
        for member_id in group[0].subscribers:
            rack = rack_of[member_id]
            if all(one.capacity(member_id) > 0 and one.is_near(rack, partition) for one in group):
                for division in group:
                    division.take(member_id, partition)
                break
