"""The sticky division of members that all subscribe to the same topics (KIP-54, KIP-429, KIP-881).

The order of steps is that of `AbstractStickyAssignor` in Kafka's Java client, since members of both must agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from logstore.groups.assignors.claims import Claims
from logstore.groups.assignors.members import Assigned, java_order
from logstore.groups.assignors.nearness import Nearness
from logstore.records import TopicPartition


class _Shares:
    """The partitions of each member while they are given out.

    With n partitions and m members, each gets n // m, the least; n % m of them get one more. ``below`` are the
    members that have fewer than the least, ``ready`` those that have it and may get one more.
    """

    def __init__(self, member_ids: Sequence[str], count: int) -> None:
        self.of: Assigned = {member_id: [] for member_id in member_ids}
        self.least, self._more = divmod(count, len(member_ids))
        self.below: list[str] = []
        self.ready: list[str] = []

    def keep(self, member_id: str, owned: Sequence[TopicPartition]) -> None:
        """Leave a member what it owns, as much as the shares allow."""
        count = len(owned)
        if count < self.least:
            self.below.append(member_id)
        elif count > self.least and self._more:
            count = self.least + 1
            self._count_larger()
        else:
            count = self.least
            if self._more:
                self.ready.append(member_id)
        self.of[member_id] += owned[:count]

    def give(self, member_id: str, partition: TopicPartition) -> bool:
        """Give one more partition to a member of ``below`` or ``ready``; tell whether it has left its list."""
        found = self.of[member_id]
        found.append(partition)
        if len(found) < self.least:
            return False
        if len(found) == self.least:
            self.below.remove(member_id)
            if self._more:
                self.ready.append(member_id)
        else:
            self.ready.remove(member_id)
            self._count_larger()
        return True

    def _count_larger(self) -> None:
        self._more -= 1
        if not self._more:
            self.ready.clear()


def divide(topics: Mapping[str, int], member_ids: Sequence[str], claims: Claims, near: Nearness) -> Assigned:
    """Return the partitions of each member: what it owned, as far as balance allows, and a part of the rest.

    Shares differ by at most one. The rest is dealt in the order of topics and partitions to the members in the
    order of their ids: each gets the least that all get, and then the first ones get one more. With racks,
    partitions that few members are near to are dealt first, to a member that is near; a claim that is not near
    does not hold.
    """
    shares = _Shares(member_ids, sum(topics.values()))
    for member_id, owned in claims.owned.items():
        held = [one for one in owned if one not in claims.doubtful and near.may_keep(member_id, one)]
        shares.keep(member_id, sorted(held, key=lambda one: (one.partition, java_order(one.topic))))
    kept = {one for found in shares.of.values() for one in found}
    shares.below.sort(key=java_order)
    shares.ready.sort(key=java_order)
    everything = (
        TopicPartition(topic, n) for topic in sorted(topics, key=java_order) for n in range(topics[topic])
    )
    rest = [one for one in everything if one not in kept]
    if near.counts:
        rest = _deal_near(shares, near.rarest_first(rest), near)
    _deal(shares, rest)
    return shares.of


def _deal(shares: _Shares, rest: Sequence[TopicPartition]) -> None:
    place = 0
    for partition in rest:
        turn = shares.below or shares.ready
        if not shares.below or place >= len(turn):
            place = 0
        if not shares.give(turn[place], partition):
            place += 1


def _deal_near(shares: _Shares, rest: Sequence[TopicPartition], near: Nearness) -> list[TopicPartition]:
    """Deal each partition to the next member that is near to it; return those for which none has room."""
    left = []
    place = 0
    for partition in rest:
        below, ready = shares.below, shares.ready
        count = len(below)
        found = next(
            (n % count for n in range(place, place + count) if near.is_near(below[n % count], partition)), -1
        )
        if found >= 0:
            place = found + (not shares.give(below[found], partition))
            place = place % len(below) if below else 0
            continue
        chosen = next((one for one in ready if near.is_near(one, partition)), None)
        if chosen is None:
            left.append(partition)
        else:
            shares.give(chosen, partition)
    return left
