"""Subscription of a consumer: which partitions it reads, in which turn, and its position in each.

Responsible for the map from names to positions, and for topics that are read as they grow. Reading belongs to
`consumer`, committing to `commits`. Used by one thread at a time, which the consumer enforces.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from logstore.client.backend.backend import Backend
from logstore.client.backend.fetcher import PartitionFetcher
from logstore.client.partition_position import PartitionPosition, PositionRules
from logstore.config.client import ConsumerConfig
from logstore.errors import NotAssignedError, UnknownTopicError
from logstore.records import TopicPartition

#: A partition by its name, or a topic for all of its partitions.
Wanted = TopicPartition | tuple[str, int] | str


class Followed(NamedTuple):
    """A topic that is read as it grows: partitions from ``looked_at`` on have not been seen yet.

    A consumer that shares the topic with others takes those new ones that are ``turn`` modulo ``shares``.
    """

    topic_id: str
    looked_at: int
    turn: int = 0
    shares: int = 1


class Subscription:
    """The partitions of one consumer. ``turns`` has those of ``partitions`` in order, the next turn first."""

    def __init__(self, backend: Backend, config: ConsumerConfig, fetcher: PartitionFetcher) -> None:
        self._backend = backend
        self._has_rule = config.auto_offset_reset != "none"
        self.fetcher = fetcher
        self.rules = PositionRules(backend, config)
        self.partitions: dict[TopicPartition, PartitionPosition] = {}
        self.turns: list[PartitionPosition] = []
        self._followed: dict[str, Followed] = {}
        self.may_have_grown = False  #: set by any thread; cleared before the topics are looked at

    # -- what is read

    def topics(self, names: Iterable[str]) -> dict[str, Followed]:
        """Return topics to follow from now on, with the partitions that they have.

        Raises:
            UnknownTopicError: one of them does not exist.
        """
        found = {name: self._backend.facts(name) for name in names}
        return {name: Followed(facts.id, facts.partitions) for name, facts in found.items()}

    def share(self, topic: str, partition_count: int, turn: int, shares: int) -> dict[str, Followed]:
        """Return one of ``shares`` shares of a topic to follow, beside its range of ``partition_count``."""
        return {topic: Followed(self._backend.facts(topic).id, partition_count, turn, shares)}

    def prepare(self, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionPosition]:
        """Return positions for `replace`: those that are assigned already keep theirs.

        Raises:
            UnknownTopicError, UnknownPartitionError: one of them does not exist.
        """
        return {name: self.partitions.get(name) or self._position_of(name) for name in wanted}

    def replace(self, partitions: dict[TopicPartition, PartitionPosition], followed: dict[str, Followed]) -> None:
        """Read these partitions from now on, and no others."""
        for name, partition in self.partitions.items():
            if name not in partitions:
                partition.stop()
        self.partitions = partitions
        self.turns = list(partitions.values())
        self._followed = followed
        self.fetcher.keep(partitions)
        self.may_have_grown = True

    def follow(self) -> None:
        """Read the new partitions of the followed topics too."""
        self.may_have_grown = False
        try:
            for topic, known in list(self._followed.items()):
                try:
                    count = self._backend.facts(topic, known.topic_id).partitions
                except UnknownTopicError:
                    continue  # the next read of its partitions raises
                for number in range(known.looked_at, count):
                    name = TopicPartition(topic, number)
                    if name not in self.partitions and number % known.shares == known.turn:
                        partition = self._position_of(name, added=True)
                        # Copied: other threads may be iterating over the partitions.
                        self.partitions = {**self.partitions, name: partition}
                        self.turns.append(partition)
                self._followed[topic] = known._replace(looked_at=max(count, known.looked_at))
            if self._has_rule:
                # All at once: else the last of many would begin at the latest end at its turn, and skip records. A
                # commit would leave out partitions whose turn has not come, and so would their lag.
                self.rules.find_soon((partition for partition in self.turns if not partition.paused), self.turns)
        except BaseException:
            self.may_have_grown = True
            raise

    def _position_of(self, name: TopicPartition, *, added: bool = False) -> PartitionPosition:
        topic_id = self._backend.facts(name.topic).id
        cursor = self.fetcher.cursor(name, topic_id)
        known = self._followed.get(name.topic)
        if known is not None and known.topic_id == topic_id and name.partition >= known.looked_at:
            added = True  # assigned again before the partition was seen
        return PartitionPosition(name, cursor, topic_id, added=added)

    # -- by name

    def named(self, wanted: Iterable[Wanted]) -> list[TopicPartition]:
        """Return the names of partitions, each once; a topic's name stands for all of its partitions."""
        found: dict[TopicPartition, None] = {}
        for each in [wanted] if isinstance(wanted, str) else wanted:
            if isinstance(each, str):
                names = [TopicPartition(each, n) for n in range(self._backend.facts(each).partitions)]
            else:
                names = [TopicPartition(*each)]
            found |= dict.fromkeys(names)
        return list(found)

    def topic_names(self) -> set[str]:
        """Return the names of the topics that are read or followed."""
        return {name.topic for name in self.partitions} | set(self._followed)

    def chosen(self, wanted: tuple[Wanted, ...]) -> list[PartitionPosition]:
        """Return the positions of these partitions; of all if none is named.

        Raises:
            NotAssignedError: one of them is not assigned.
        """
        if not self.partitions:
            raise NotAssignedError("the consumer has no partitions; call assign([...]) first")
        if not wanted:
            return list(self.partitions.values())
        chosen = []
        for name in self.named(wanted):
            partition = self.partitions.get(name)
            if partition is None:
                assigned = ", ".join(map(str, sorted(self.partitions)))
                raise NotAssignedError(f"{name} is not assigned to this consumer, which reads {assigned}")
            chosen.append(partition)
        return chosen

    def one(self, wanted: Wanted) -> PartitionPosition:
        """Return the position of one assigned partition.

        Raises:
            NotAssignedError: it is not assigned, or a topic's name stands for several partitions.
        """
        chosen = self.chosen((wanted,))
        if len(chosen) != 1:
            raise NotAssignedError(f"one partition is needed here, {wanted!r} stands for {len(chosen)}")
        return chosen[0]

    def check_assigned(self) -> None:
        """Raise if nothing was assigned."""
        if not self.partitions and not self._followed:
            raise NotAssignedError("the consumer has no partitions; call assign([...]) first")

    # -- for programs that store offsets themselves (`dbapi`)

    def positions(self) -> dict[TopicPartition, int]:
        """Return the position of every assigned partition."""
        self.check_assigned()
        self.rules.find(self.turns)
        return {name: partition.position for name, partition in self.partitions.items()}

    def was_added(self, wanted: Wanted) -> bool:
        """Tell whether an assigned partition was added to its topic after that was created."""
        partition = self.one(wanted)
        return partition.name.partition >= self._backend.facts(partition.name.topic, partition.topic_id).added_from

    def leader_epoch(self, wanted: Wanted, offset: int) -> int:
        """Return the epoch of the record before an offset, to store beside it; -1 if unknown."""
        return self.one(wanted).cursor._epoch_before(offset)
