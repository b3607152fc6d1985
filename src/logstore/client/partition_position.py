"""Position of a consumer in one partition: where reading begins, and the next records.

This module decides where reading begins: at the group's committed offset; without one, at the log start in a
partition that was added since the group began to read the topic. Otherwise ``auto.offset.reset`` decides. That
rule also holds for an offset out of the log's range. One thread at a time: the consumer's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from logstore.batch._batch import RecordIterator
from logstore.client.backend.backend import Backend
from logstore.client.backend.partitions import Mark, PartitionCursor
from logstore.config.client import ConsumerConfig
from logstore.errors import LogstoreError, NoOffsetError, OffsetOutOfRangeError
from logstore.groups.resume import resume_offset
from logstore.records import TopicPartition

_logger = logging.getLogger(__name__)


class PartitionPosition:
    """A partition and how far it has been read.

    ``offset`` is where the next read begins, -1 until that is known; while there is a ``run``, its own
    position counts. Records below ``done`` are processed, as far as is known; ``stored`` is
    the offset committed last, with its epoch. ``added``: the partition was added after the consumer had begun
    to read the whole topic.
    """

    __slots__ = (
        "added",
        "cursor",
        "done",
        "end",
        "name",
        "offset",
        "paused",
        "run",
        "stored",
        "stored_epoch",
        "topic_id",
    )

    def __init__(
        self, name: TopicPartition, cursor: PartitionCursor, topic_id: str, *, added: bool = False
    ) -> None:
        self.name = name
        self.added = added
        self.cursor = cursor
        self.topic_id = topic_id
        self.offset = self.done = self.stored = self.stored_epoch = -1
        self.run: RecordIterator | None = None
        self.paused = False
        #: The end of what can be handed out now, if it moves by itself; set once the position has come to it.
        self.end: Mark | None = None

    @property
    def position(self) -> int:
        """The offset of the next record to hand out; -1 if it is not known yet."""
        return self.offset if self.run is None else self.run.position

    def stop(self) -> None:
        """Stop the loop over the current run, if there is one."""
        if self.run is not None:
            self.run.allow(0)

    def go_to(self, offset: int, epoch: int = -1) -> None:
        """Begin the next read at ``offset``, behind a record of a leader epoch; -1 if that is not known."""
        self.stop()
        self.run = None
        self.offset = self.done = offset
        # Last: an interrupt before it leaves a cut that is told again, one behind it would lose the cut.
        self.cursor._sought(offset, epoch)

    def take_back(self, offset: int) -> None:
        """Hand out the records from ``offset`` on once more: their reader did not get them.

        The cursor is not told: if the log was cut meanwhile, the next read still has to go back further.
        """
        self.stop()
        offset = min(offset, self.position)
        self.run = None
        self.offset = self.done = offset


class PositionRules:
    """The rules by which the partitions of one consumer are read. Stateless otherwise."""

    def __init__(self, backend: Backend, config: ConsumerConfig) -> None:
        self._backend = backend
        self._group = config.group_id
        self._isolation = config.isolation
        self._rule = config.auto_offset_reset
        self._age_ms = config.reset_age_ms
        self._offsets = backend.offsets

    def run_of(self, partition: PartitionPosition, max_bytes: int) -> RecordIterator | None:
        """Return records that can be handed out now, or None; those already read come first.

        Raises:
            OffsetOutOfRangeError, NoOffsetError: the rule for such a case is none.
            CorruptRecordError: a stored batch is damaged.
            UnknownTopicError: the topic was deleted.
        """
        while not partition.paused:
            run = partition.run
            if run is not None:
                if not run.exhausted and not run.failed:
                    return run
                # A loop of another thread may be inside it, and would hand out records that are read again here.
                partition.stop()
                partition.offset, partition.run = run.position, None
            self.find([partition])
            try:
                if partition.cursor._readable_end(self._isolation) == partition.offset:
                    if partition.end is None:
                        partition.end = partition.cursor._live_end(self._isolation)
                    return None
                batches = partition.cursor.read(partition.offset, max_bytes=max_bytes, isolation=self._isolation)
            except OffsetOutOfRangeError as error:
                self._reset(partition, error)
                continue
            except LogstoreError:
                # The log may be closed because its topic was deleted: then that is the error to raise.
                self.check_exists(partition)
                raise
            if batches.next_offset == partition.offset:
                return None
            if batches.next_offset < partition.offset:
                # The log was cut: other records are there now, none of which is processed, nor is one committed.
                partition.done = min(partition.done, batches.next_offset)
                partition.stored = partition.stored_epoch = -1
            partition.run = iter(batches)
        return None

    def check_exists(self, partition: PartitionPosition) -> None:
        """Raise if the partition's topic was deleted or the back end is closed."""
        self._backend.check_exists(partition.name, partition.topic_id)

    # -- where to begin

    def find(self, partitions: Iterable[PartitionPosition]) -> None:
        """Find where the first read of each begins, if that is not known yet.

        Those of many are found together: on a cluster, by one request to each broker that has some of them.

        Raises:
            NoOffsetError: there is no committed offset and no rule.
        """
        unknown = [one for one in partitions if one.run is None and one.offset < 0]
        if not unknown:
            return
        self._go_to_committed(unknown)
        unknown = [one for one in unknown if one.offset < 0]
        # With auto.offset.reset=latest, records from before the consumer saw the partition would be skipped.
        added = self._added_among(unknown)
        _go_to_each(self.starts(added))
        rest = [one for one in unknown if one.offset < 0]
        if rest and self._rule == "none":
            raise NoOffsetError(
                f"{rest[0].name}: group {self._group!r} has committed no offset and auto.offset.reset is none; "
                "call seek() or commit()"
            )
        _go_to_each(self._first_offsets(rest))

    def _go_to_committed(self, partitions: list[PartitionPosition]) -> None:
        if not self._group:
            return
        commits = self._offsets.committed(self._group, [one.name for one in partitions])
        found = {
            one: commit
            for one in partitions
            if (commit := commits.get(one.name)) is not None and commit.topic_id in ("", one.topic_id)
        }
        epochs = {one.name: commit.leader_epoch for one, commit in found.items() if commit.leader_epoch >= 0}
        ends = self._backend.epoch_ends(epochs) if epochs else {}
        for one, (offset, *_) in found.items():
            epoch = epochs.get(one.name, -1)
            one.go_to(resume_offset(one.cursor, offset, epoch, ends.get(one.name)), epoch)
            one.stored, one.stored_epoch = offset, epoch

    def _added_among(self, partitions: list[PartitionPosition]) -> list[PartitionPosition]:
        """Return those that were added to a topic that the consumer, or its group, already reads."""
        added = [one for one in partitions if one.added]
        late = [one for one in partitions if not one.added and self._group and self._was_added(one)]
        if late:
            commits = self._offsets.committed(self._group)
            known = {(name.topic, commit.topic_id) for name, commit in commits.items()}
            added += [
                one for one in late if not known.isdisjoint((one.name.topic, id) for id in ("", one.topic_id))
            ]
        return added

    def _was_added(self, partition: PartitionPosition) -> bool:
        topic, number = partition.name
        return number >= self._backend.facts(topic, partition.topic_id).added_from

    def _reset(self, partition: PartitionPosition, error: OffsetOutOfRangeError) -> None:
        """Reset the position: the offset is below the log start or past the end."""
        if self._rule == "none":
            raise error
        before = partition.offset
        _go_to_each(self._first_offsets([partition]))
        _logger.warning(
            "offset out of range, reset: partition=%s group=%s offset=%d new_offset=%d rule=%s",
            partition.name,
            self._group,
            before,
            partition.offset,
            self._rule,
        )

    def _first_offsets(self, partitions: list[PartitionPosition]) -> dict[PartitionPosition, int]:
        if self._age_ms is not None:
            return self.offsets_at(partitions, max(self._backend.clock.now_ms() - self._age_ms, 0))
        return self.starts(partitions) if self._rule == "earliest" else self.ends(partitions)

    def starts(self, partitions: list[PartitionPosition]) -> dict[PartitionPosition, int]:
        """Return the oldest offset that is kept of each."""
        found = self._backend.start_offsets([one.name for one in partitions]) if partitions else {}
        return {one: found[one.name] for one in partitions}

    def ends(self, partitions: list[PartitionPosition]) -> dict[PartitionPosition, int]:
        """Return the end of what the consumer sees of each."""
        found = self._backend.end_offsets([one.name for one in partitions], self._isolation) if partitions else {}
        return {one: found[one.name] for one in partitions}

    def offsets_at(self, partitions: list[PartitionPosition], timestamp_ms: int) -> dict[PartitionPosition, int]:
        """Return the offset of the first record of ``timestamp_ms`` or later in each, or the end."""
        # The ends are read first: records appended concurrently must not be skipped.
        ends = self.ends(partitions)
        times = {one.name: timestamp_ms for one in partitions}
        found = self._backend.offsets_for_times(times, self._isolation) if partitions else {}
        return {one: end if (at := found[one.name]) is None else at.offset for one, end in ends.items()}


def _go_to_each(offsets: Mapping[PartitionPosition, int]) -> None:
    for partition, offset in offsets.items():
        partition.go_to(offset)
