"""The sticky division of members that subscribe to different topics (KIP-54, KIP-881)."""

from __future__ import annotations

from bisect import bisect_left, insort
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


class _Balance:
    """The members that may still change, ordered by how much they have, then by id."""

    def __init__(self, members: Members, topics: Mapping[str, int]) -> None:
        self.topics = topics
        self.wanted = {
            name: frozenset(topic for topic in member.topics if topic in topics) for name, member in members.items()
        }
        self.members_of: dict[str, list[str]] = {topic: [] for topic in topics}
        for name, wanted in self.wanted.items():
            for topic in wanted:
                self.members_of[topic].append(name)
        self.of: dict[str, dict[TopicPartition, None]] = {name: {} for name in members}
        self.owner: dict[TopicPartition, str] = {}
        self._order: list[tuple[int, bytes, str]] = []
        self._key = {name: java_order(name) for name in members}

    def sort(self) -> None:
        """Order the members; until then `put` and `take` do not."""
        self._order = sorted((len(found), self._key[name], name) for name, found in self.of.items())

    def _at(self, member_id: str) -> int:
        return bisect_left(self._order, (len(self.of[member_id]), self._key[member_id], member_id))

    def put(self, member_id: str, partition: TopicPartition) -> None:
        del self._order[self._at(member_id)]
        self.of[member_id][partition] = None
        self.owner[partition] = member_id
        insort(self._order, (len(self.of[member_id]), self._key[member_id], member_id))

    def take(self, partition: TopicPartition) -> None:
        member_id = self.owner.pop(partition)
        del self._order[self._at(member_id)]
        del self.of[member_id][partition]
        insort(self._order, (len(self.of[member_id]), self._key[member_id], member_id))

    def smallest(self, partition: TopicPartition, near: Nearness | None = None) -> str | None:
        """Return the member with the fewest partitions that subscribes to the topic, and is near if asked for."""
        return next(
            (
                name
                for _, _, name in self._order
                if partition.topic in self.wanted[name] and (near is None or near.is_near(name, partition))
            ),
            None,
        )

    def offer(self, partition: TopicPartition, near: Nearness | None = None) -> None:
        """Give a partition to the `smallest` member, if there is one."""
        chosen = self.smallest(partition, near)
        if chosen is not None:
            self.put(chosen, partition)

    def set_aside(self, member_id: str) -> dict[TopicPartition, None]:
        """Take a member out of the order with what it has."""
        del self._order[self._at(member_id)]
        return self.of.pop(member_id)

    def size(self, member_id: str) -> int:
        return len(self.of[member_id])


def divide(topics: Mapping[str, int], members: Members, claims: Claims, near: Nearness) -> Assigned:
    """Return the partitions of each member: what it owned and subscribes to, and some of the rest.

    The rest goes to the members that have the least. Then partitions move from members with more to members
    with less, as long as one has two more than another that subscribes to the topic, and back to the member
    that had lost it by an older claim. If that does not improve balance, what was kept and given stays as it
    was.
    """
    balance = _Balance(members, topics)
    ordered = [
        TopicPartition(topic, n)
        for topic in sorted(topics, key=lambda one: (len(balance.members_of[one]), java_order(one)))
        for n in range(topics[topic])
    ]
    exists = set(ordered)
    was_revoked = False
    for name, owned in claims.owned.items():
        for one in owned:
            if one not in exists or one in claims.doubtful:
                continue
            if one.topic not in balance.wanted[name] or not near.may_keep(name, one):
                was_revoked = True
                continue
            balance.of[name][one] = None
            balance.owner[one] = name
    balance.sort()
    is_first = not any(balance.of.values())
    rest = [one for one in ordered if one not in balance.owner]
    if near.counts:
        rest = near.rarest_first(rest)
        for one in rest:
            balance.offer(one, near)
    for one in rest:
        if one not in balance.owner:
            balance.offer(one)
    movable = [one for one in ordered if len(balance.members_of[one.topic]) > 1]
    fixed: dict[str, dict[TopicPartition, None]] = {}
    for name in members:
        possible = sum(topics[topic] for topic in balance.wanted[name])
        if balance.size(name) >= possible and not any(
            len(balance.members_of[one.topic]) > 1 for one in balance.of[name]
        ):
            fixed[name] = balance.set_aside(name)
    before = {name: dict(found) for name, found in balance.of.items()}
    moves = _Moves()
    moved = False
    if not was_revoked:
        unplaced = set(rest)
        moved = _even_out(balance, [one for one in movable if one in unplaced], claims.lost, moves, near)
    moved = _even_out(balance, movable, claims.lost, moves, near) or moved
    if moved and not is_first and _spread(balance.of) >= _spread(before):
        balance.of = before
    return {name: [*(fixed.get(name) or balance.of.get(name) or {})] for name in members}


def _even_out(
    balance: _Balance,
    movable: Sequence[TopicPartition],
    lost: Mapping[TopicPartition, str],
    moves: _Moves,
    near: Nearness,
) -> bool:
    """Move partitions until none can be moved for better balance; tell whether any has moved."""
    moved_any = False
    moved = True
    while moved:
        moved = False
        for partition in movable:
            owner = balance.owner[partition]
            size = balance.size(owner)
            before = lost.get(partition)
            if before not in balance.of or partition.topic not in balance.wanted[before]:
                before = None  # Kafka's assignor fails here, or gives it to a member that does not subscribe
            if before is not None and size > balance.size(before) + 1:
                target = before
            else:
                smallest = balance.smallest(partition, near if near.counts else None)
                if smallest is None or size <= balance.size(smallest) + 1:
                    smallest = balance.smallest(partition)
                if smallest is None or size <= balance.size(smallest) + 1:
                    continue
                target = smallest
            chosen = moves.instead(partition, owner, target)
            moves.note(chosen, balance.owner[chosen], target)
            balance.take(chosen)
            balance.put(target, chosen)
            moved = moved_any = True
    return moved_any


def _spread(of: Mapping[str, Mapping[TopicPartition, None]]) -> int:
    """Return the sum of the differences between the sizes of all pairs of members."""
    sizes = sorted(len(found) for found in of.values())
    return sum(size * (2 * n - len(sizes) + 1) for n, size in enumerate(sizes))
