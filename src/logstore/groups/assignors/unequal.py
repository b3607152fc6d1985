"""The sticky division of members that subscribe to different topics (KIP-54, KIP-881).

The order of steps is that of `AbstractStickyAssignor` in Kafka's Java client, since members of both must agree.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from logstore.groups.assignors.claims import Claims, java_buckets
from logstore.groups.assignors.members import Assigned, Members, java_order
from logstore.groups.assignors.nearness import Nearness
from logstore.groups.offsets import java_hash
from logstore.records import TopicPartition


class _Moves:
    """The moves of partitions between members in this division.

    Of two members each of which would give partitions of a topic to the other, one takes its own back instead.
    """

    def __init__(self) -> None:
        self._of: dict[TopicPartition, tuple[str, str]] = {}
        self._by_pair: dict[tuple[str, str, str], dict[TopicPartition, None]] = {}

    def instead(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """Return the partition that is better moved from the source to the target."""
        if partition in self._of:
            source = self._of[partition][0]
        back = self._by_pair.get((partition.topic, target, source))
        return min(back, key=_java_place(len(back))) if back else partition

    def note(self, partition: TopicPartition, source: str, target: str) -> None:
        """Remember a move; one that brings a partition back where it was is none."""
        before = self._of.pop(partition, None)
        if before is not None:
            found = self._by_pair[partition.topic, *before]
            del found[partition]
            source = before[0]
        if source != target:
            self._of[partition] = (source, target)
            self._by_pair.setdefault((partition.topic, source, target), {})[partition] = None


def _java_place(count: int) -> Callable[[TopicPartition], int]:
    """Return the order in which a HashSet of Java has partitions of one topic."""
    bucket = java_buckets(count)
    return lambda partition: bucket(31 * (31 + partition.partition) + java_hash(partition.topic))


class _Table:
    """What each member may have and has, and the members that may still change, those with the least first."""

    def __init__(self, members: Members, topics: Mapping[str, int]) -> None:
        self.topics = topics
        self.wanted = {name: topics.keys() & set(member.topics) for name, member in members.items()}
        self.readers = Counter(topic for wanted in self.wanted.values() for topic in wanted)
        self.partitions = [
            TopicPartition(topic, n)
            for topic in sorted(topics, key=lambda one: (self.readers[one], java_order(one)))
            for n in range(topics[topic])
        ]
        self.of: dict[str, dict[TopicPartition, None]] = {name: {} for name in members}
        self.owner: dict[TopicPartition, str] = {}
        self.settled: dict[str, dict[TopicPartition, None]] = {}  #: of members that were taken out
        self._rank = {name: java_order(name) for name in members}
        self._queue: list[tuple[int, bytes, str]] = []  #: the members of ``of``: size, rank, name

    # -- claims

    def keep(self, claims: Claims, near: Nearness) -> bool:
        """Leave members what they claim; tell whether one must give a partition up that it may not have now."""
        gives_up = False
        exists = set(self.partitions)
        for name, owned in claims.owned.items():
            for one in owned:
                if one not in exists:
                    continue
                if one.topic in self.wanted[name] and near.may_keep(name, one):
                    self.of[name][one] = None
                    self.owner[one] = name
                else:
                    gives_up = True
        self._queue = sorted(map(self._place, self.of))
        return gives_up

    # -- the queue of members

    def _place(self, name: str) -> tuple[int, bytes, str]:
        return len(self.of[name]), self._rank[name], name

    def _leave_queue(self, name: str) -> None:
        del self._queue[bisect_left(self._queue, self._place(name))]

    def give(self, partition: TopicPartition, name: str) -> None:
        """Make a member the owner of a partition."""
        before = self.owner.get(partition)
        if before is not None:
            self._leave_queue(before)
            del self.of[before][partition]
            insort(self._queue, self._place(before))
        self._leave_queue(name)
        self.of[name][partition] = None
        self.owner[partition] = name
        insort(self._queue, self._place(name))

    def least(self, partition: TopicPartition, near: Nearness | None = None) -> str | None:
        """Return the member with the least that subscribes to the topic, and is near if that is asked for."""
        for _, _, name in self._queue:
            if partition.topic in self.wanted[name] and (near is None or near.is_near(name, partition)):
                return name
        return None

    def size(self, name: str) -> int:
        return len(self.of[name])

    # -- what may move

    def is_shared(self, partition: TopicPartition) -> bool:
        """Tell whether more than one member subscribes to the topic."""
        return self.readers[partition.topic] > 1

    def settle(self) -> None:
        """Take those members out that have all they may have, none of it wanted by another."""
        for name, wanted in self.wanted.items():
            found = self.of[name]
            if len(found) >= sum(self.topics[topic] for topic in wanted) and not any(map(self.is_shared, found)):
                self._leave_queue(name)
                self.settled[name] = self.of.pop(name)


def divide(topics: Mapping[str, int], members: Members, claims: Claims, near: Nearness) -> Assigned:
    """Return the partitions of each member: what it owned and subscribes to, and some of the rest.

    The rest goes to the members that have the least. Then partitions move from members with more to members
    with less, as long as one has two more than another that subscribes to the topic, and rather to the member
    that had it before it missed a round. If that does not improve balance, what was kept and given stays as it
    was.
    """
    table = _Table(members, topics)
    gives_up = table.keep(claims, near)
    is_new = not table.owner
    rest = [one for one in table.partitions if one not in table.owner]
    _hand_out(table, near.rarest_first(rest) if near.counts else rest, near)
    table.settle()
    before = {name: dict(found) for name, found in table.of.items()}
    shared = [one for one in table.partitions if table.is_shared(one)]
    # What was handed out moves first, unless that may be what a member has to give up.
    handed = set(rest)
    turns = [shared] if gives_up else [[one for one in shared if one in handed], shared]
    moves = _Moves()
    has_moved = [_even_out(table, turn, claims.older, moves, near) for turn in turns]
    is_better = is_new or _spread(table.of) < _spread(before)
    of = table.of if is_better or not any(has_moved) else before
    return {name: [*(table.settled.get(name) or of.get(name) or {})] for name in members}


def _hand_out(table: _Table, rest: Sequence[TopicPartition], near: Nearness) -> None:
    """Give each partition to the subscriber with the least; where racks count, first to those that are near."""
    for nearness in [near, None] if near.counts else [None]:
        for one in rest:
            if one not in table.owner and (name := table.least(one, nearness)) is not None:
                table.give(one, name)


def _even_out(
    table: _Table,
    partitions: Sequence[TopicPartition],
    older: Mapping[TopicPartition, str],
    moves: _Moves,
    near: Nearness,
) -> bool:
    """Move partitions until none can be moved for better balance; tell whether any has moved."""
    has_moved = False
    goes_on = True
    while goes_on:
        goes_on = False
        for one in partitions:
            target = _better_owner(table, one, older.get(one), near)
            if target is not None:
                chosen = moves.instead(one, table.owner[one], target)
                moves.note(chosen, table.owner[chosen], target)
                table.give(chosen, target)
                goes_on = has_moved = True
    return has_moved


def _better_owner(table: _Table, partition: TopicPartition, former: str | None, near: Nearness) -> str | None:
    """Return a member with at least two less than the owner: the one that had it before, one near, or any."""
    limit = table.size(table.owner[partition]) - 1
    # Kafka's assignor fails for one that is settled, or gives it what it does not subscribe to.
    if former in table.of and partition.topic in table.wanted[former] and table.size(former) < limit:
        return former
    for nearness in [near, None] if near.counts else [None]:
        found = table.least(partition, nearness)
        if found is not None and table.size(found) < limit:
            return found
    return None


def _spread(of: Mapping[str, Mapping[TopicPartition, None]]) -> int:
    """Return the sum of the differences between the sizes of all pairs of members."""
    sizes = sorted(len(found) for found in of.values())
    return sum(size * (2 * n - len(sizes) + 1) for n, size in enumerate(sizes))
