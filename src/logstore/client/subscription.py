"""Subscription of a consumer: which partitions it reads, and its position in each.

This module is responsible for the map from names to positions, and allows one thread at a time in a consumer.
Reading and committing belong to `consumer`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from logstore.client.backend import Opened, Source
from logstore.client.offsets import CommittedOffsets
from logstore.client.partition_position import PartitionFetcher, PartitionPosition
from logstore.config.client import ConsumerConfig
from logstore.errors import (
    ConcurrentUseError,
    ConsumerClosedError,
    InvalidOffsetError,
    NotAssignedError,
    UnknownTopicError,
)
from logstore.groups.offsets import is_whole
from logstore.groups.resume import epoch_before, not_behind_its_epoch
from logstore.io._interrupts import held
from logstore.log.moments import When, moment_of
from logstore.records import TimestampOffset, TopicPartition
from logstore.renamed import warn

#: A partition by its name, or a topic for all of its partitions.
Wanted = TopicPartition | tuple[str, int] | str


class _Followed(NamedTuple):
    """A topic that is read as it grows: partitions from ``looked_at`` on have not been seen yet.

    A consumer that shares the topic with others takes those new ones that are ``turn`` modulo ``shares``.
    """

    topic_id: str
    looked_at: int
    turn: int = 0
    shares: int = 1


class Subscription:
    """The positions of one consumer, of which it is the greater part."""

    def __init__(self, store: Source, config: ConsumerConfig, offsets: CommittedOffsets) -> None:
        self._store = store
        self.config = config
        self._isolation = config.isolation
        self._reading = PartitionFetcher(store, config, offsets)
        self._places: dict[TopicPartition, PartitionPosition] = {}
        self._turns: list[PartitionPosition] = []  # the positions in order, the one whose turn it is first
        self._followed: dict[str, _Followed] = {}
        self._may_have_grown = False  # set by any thread; cleared before the topics are looked at
        self._in_use = threading.Lock()
        self._closed = False

    def _before_assignment(self) -> None:
        """Settle the present positions before others replace them."""

    # -- what is read

    def assign(self, partitions: Iterable[Wanted]) -> None:
        """Read these partitions from now on, and no others; a topic's name stands for all of its partitions.

        A partition that was assigned before keeps its position. The others begin at their group's committed
        offset, else where ``auto.offset.reset`` says. Partitions added later to a topic that was assigned by
        its name are read too, from offset 0. On an error nothing has changed.

        Raises:
            UnknownTopicError, UnknownPartitionError: one of them does not exist.
        """
        wanted = [partitions] if isinstance(partitions, str) else list(partitions)
        with self._use():
            followed = {
                each: _Followed(self._store.topic_id(each), self._store.partition_count(each))
                for each in wanted
                if isinstance(each, str)
            }
            self._assign(self._named(wanted), followed)

    def assign_share(self, topic: str, partition_count: int, turn: int, shares: int) -> None:
        """Read one of ``shares`` shares of a topic, and no others, also if the topic has fewer partitions.

        The first ``partition_count`` partitions are assigned in ranges, those that are added later in turn.
        """
        share = range(turn * partition_count // shares, (turn + 1) * partition_count // shares)
        with self._use():
            topic_id = self._store.topic_id(topic)
            self._assign(
                [TopicPartition(topic, number) for number in share],
                {topic: _Followed(topic_id, partition_count, turn, shares)},
            )

    def _assign(self, wanted: Iterable[TopicPartition], followed: dict[str, _Followed]) -> None:
        places = {name: self._places.get(name) or self._place_of(name) for name in wanted}
        self._before_assignment()
        for name, place in self._places.items():
            if name not in places:
                place.hold_up()
        self._places = places
        self._turns = list(places.values())
        self._followed = followed
        self._may_have_grown = True

    def _follow(self) -> None:
        """Read the new partitions of the followed topics too."""
        self._may_have_grown = False
        try:
            for topic, known in list(self._followed.items()):
                try:
                    count = self._store.partition_count(topic, known.topic_id)
                except UnknownTopicError:
                    continue  # the next read of its partitions raises
                for number in range(known.looked_at, count):
                    name = TopicPartition(topic, number)
                    if name not in self._places and number % known.shares == known.turn:
                        place = self._place_of(name, added=True)
                        # Copied: other threads may be iterating over the positions.
                        self._places = {**self._places, name: place}
                        self._turns.append(place)
                self._followed[topic] = known._replace(looked_at=max(count, known.looked_at))
            if self.config.auto_offset_reset != "none":
                # All at once: else the last of many would begin at the latest end at its turn, and skip records. A
                # commit would leave out partitions whose turn has not come, and so would their lag.
                for place in self._turns:
                    if not place.paused:
                        self._reading.find(place)
        except BaseException:
            self._may_have_grown = True
            raise

    def _named(self, partitions: Iterable[Wanted]) -> list[TopicPartition]:
        if isinstance(partitions, str):
            partitions = [partitions]
        found: dict[TopicPartition, None] = {}
        for each in partitions:
            if isinstance(each, str):
                names = [TopicPartition(each, n) for n in range(self._store.partition_count(each))]
            else:
                names = [TopicPartition(*each)]
            found |= dict.fromkeys(names)
        return list(found)

    def _place_of(self, name: TopicPartition, *, added: bool = False) -> PartitionPosition:
        topic_id = self._store.topic_id(name.topic)
        log = self._store._log_of(name.topic, name.partition, topic_id)
        known = self._followed.get(name.topic)
        if known is not None and known.topic_id == topic_id and name.partition >= known.looked_at:
            added = True  # assigned again before the partition was seen
        return PartitionPosition(name, log, topic_id, added=added)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read."""
        return frozenset(self._places)

    def pause(self, *partitions: Wanted) -> None:
        """Return no records of these partitions (default: of all) until `resume`; positions are kept."""
        with self._use():
            for place in self._chosen(partitions):
                place.paused = True
                place.hold_up()

    def resume(self, *partitions: Wanted) -> None:
        """End `pause`, for these partitions or for all."""
        with self._use():
            for place in self._chosen(partitions):
                place.paused = False

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return frozenset(place.name for place in self._places.values() if place.paused)

    # -- where it stands

    def position(self, partition: Wanted) -> int:
        """Return the offset of the next record that will be handed out.

        Raises:
            NotAssignedError: the partition is not assigned.
            NoOffsetError: there is neither a committed offset nor a rule where to begin.
        """
        with self._use():
            (place,) = self._chosen((partition,), one=True)
            self._reading.find(place)
            return place.position

    def positions(self) -> dict[TopicPartition, int]:
        """Return `position` of every assigned partition."""
        with self._use():
            self._check_assigned()
            for place in self._turns:
                self._reading.find(place)
            return {place.name: place.position for place in self._places.values()}

    def topic_id(self, partition: Wanted) -> str:
        """Return the id of an assigned partition's topic, in Kafka's text form; "" if it has none."""
        return self._chosen((partition,), one=True)[0].topic_id

    def was_added(self, partition: Wanted) -> bool:
        """Tell whether an assigned partition was added to its topic after that was created."""
        (place,) = self._chosen((partition,), one=True)
        return place.name.partition >= self._store.added_from(place.name.topic, place.topic_id)

    def leader_epoch(self, partition: Wanted, offset: int) -> int:
        """Return the epoch of the record before an offset, to store for `seek_to_committed`; -1 if unknown."""
        return epoch_before(self._chosen((partition,), one=True)[0].log, offset)

    def seek_to_committed(self, partition: Wanted, offset: int, leader_epoch: int) -> int:
        """Seek to an offset that was stored; return the new position.

        The position is below ``offset`` if the records before it are lost: a power cut removed records
        acknowledged as written only, and others have their offsets now.
        """
        place = self._chosen((partition,), one=True)[0]
        where = not_behind_its_epoch(place.log, offset, leader_epoch)
        self.seek(partition, where)
        return where

    def seek_to_stored(self, partition: Wanted, offset: int, leader_epoch: int) -> int:
        """Call `seek_to_committed`, the new name of this method."""
        warn("Consumer.seek_to_stored", "Consumer.seek_to_committed")
        return self.seek_to_committed(partition, offset, leader_epoch)

    def seek(self, partition: Wanted, offset: int) -> None:
        """Seek to the record at ``offset``, or the next one after it if there is none.

        An offset outside the log is only noticed by the next read, which then does as ``auto.offset.reset`` says.

        Raises:
            NotAssignedError: the partition is not assigned.
            InvalidOffsetError: the offset is no whole number from 0 on.
        """
        if not is_whole(offset) or offset < 0:
            raise InvalidOffsetError(f"an offset is a whole number from 0 on, found {offset!r}")
        with self._use():
            (place,) = self._chosen((partition,), one=True)
            place.go_to(offset)

    def seek_to_beginning(self, *partitions: Wanted) -> None:
        """Seek to the oldest record that is kept, in these partitions or in all."""
        with self._use():
            for place in self._chosen(partitions):
                place.go_to(place.log.log_start_offset)

    def seek_to_end(self, *partitions: Wanted) -> None:
        """Seek past the last record, in these partitions or in all."""
        with self._use():
            for place in self._chosen(partitions):
                place.go_to(place.log.end_offset(self._isolation))

    def seek_to_time(self, timestamp: When, *partitions: Wanted) -> None:
        """Seek to the first record of this time or later, else to the end.

        ``timestamp`` is milliseconds, an aware datetime, or an age: a timedelta, or a text such as ``"-2h"``.
        """
        wanted = moment_of(timestamp, self._store.clock)
        with self._use():
            for place in self._chosen(partitions):
                place.go_to(self._reading.offset_at(place, wanted))

    def beginning_offsets(self, partitions: Iterable[Wanted]) -> dict[TopicPartition, int]:
        """Return the oldest offsets that are kept; the partitions need not be assigned."""
        return {name: log.log_start_offset for name, log in self._logs(partitions)}

    def end_offsets(self, partitions: Iterable[Wanted]) -> dict[TopicPartition, int]:
        """Return the offsets that the next visible records will get; the partitions need not be assigned."""
        return {name: log.end_offset(self._isolation) for name, log in self._logs(partitions)}

    def offsets_for_times(self, times: Mapping[Wanted, When]) -> dict[TopicPartition, TimestampOffset | None]:
        """Return the first record of each partition that has this time or a later one, or None."""
        return {
            name: log.offset_for_time(when, isolation=self._isolation)
            for wanted, when in times.items()
            for name, log in self._logs([wanted])
        }

    def _logs(self, partitions: Iterable[Wanted]) -> list[tuple[TopicPartition, Opened]]:
        self._check_open()
        return [(name, self._store._log_of(*name)) for name in self._named(partitions)]

    def _chosen(self, partitions: tuple[Wanted, ...], *, one: bool = False) -> list[PartitionPosition]:
        if not self._places:
            raise NotAssignedError("the consumer has no partitions; call assign([...]) first")
        if not partitions:
            return list(self._places.values())
        chosen = []
        for name in self._named(partitions):
            place = self._places.get(name)
            if place is None:
                assigned = ", ".join(map(str, sorted(self._places)))
                raise NotAssignedError(f"{name} is not assigned to this consumer, which reads {assigned}")
            chosen.append(place)
        if one and len(chosen) != 1:
            raise NotAssignedError(f"one partition is needed here, {partitions[0]!r} stands for {len(chosen)}")
        return chosen

    # -- one thread at a time

    def _use(self) -> held:
        return held(self._in_use, refusal=_used_elsewhere, check=self._check_open)

    def _check_open(self) -> None:
        if self._closed:
            raise ConsumerClosedError("the consumer is closed; call store.consumer() for another")

    def _check_assigned(self) -> None:
        self._check_open()
        if not self._places and not self._followed:
            raise NotAssignedError("the consumer has no partitions; call assign([...]) first")


def _used_elsewhere() -> ConcurrentUseError:
    return ConcurrentUseError(
        "another thread is using this consumer; give each thread its own, or call wakeup() to interrupt it"
    )


__all__ = ["Subscription", "Wanted"]
