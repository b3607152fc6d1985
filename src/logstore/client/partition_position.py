"""Position of a consumer in one partition: where reading begins, and the next records.

This module decides where reading begins: at the group's committed offset; without one, at the log start in a
partition that was added since the group began to read the topic. Otherwise ``auto.offset.reset`` decides. That
rule also holds for an offset out of the log's range. One thread at a time: the consumer's.
"""

from __future__ import annotations

import logging

from logstore.batch._batch import RecordIterator
from logstore.client.backend.backend import Backend
from logstore.client.backend.partitions import Mark, PartitionCursor
from logstore.config.client import ConsumerConfig
from logstore.errors import LogstoreError, NoOffsetError, OffsetOutOfRangeError
from logstore.groups.resume import not_behind_its_epoch
from logstore.records import TopicPartition

_logger = logging.getLogger(__name__)


class PartitionPosition:
    """A partition and how far it has been read.

    ``offset`` is where the next read begins, -1 until that is known; while there is a ``run``, its own
    position counts. Records below ``done`` are processed, as far as is known; ``stored`` is
    the offset committed last. ``added``: the partition was added after the consumer had begun
    to read the whole topic.
    """

    __slots__ = ("added", "cursor", "done", "end", "name", "offset", "paused", "run", "stored", "topic_id")

    def __init__(
        self, name: TopicPartition, cursor: PartitionCursor, topic_id: str, *, added: bool = False
    ) -> None:
        self.name = name
        self.added = added
        self.cursor = cursor
        self.topic_id = topic_id
        self.offset = self.done = self.stored = -1
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

    def go_to(self, offset: int) -> None:
        """Begin the next read at ``offset``."""
        self.stop()
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
            self.find(partition)
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
            partition.run = iter(batches)
        return None

    def check_exists(self, partition: PartitionPosition) -> None:
        """Raise if the partition's topic was deleted or the back end is closed."""
        self._backend.check_exists(partition.name, partition.topic_id)

    # -- where to begin

    def find(self, partition: PartitionPosition) -> None:
        """Find where the first read begins, if that is not known yet.

        Raises:
            NoOffsetError: there is no committed offset and no rule.
        """
        if partition.run is not None or partition.offset >= 0:
            return
        if self._group:
            commit = self._offsets.committed(self._group, [partition.name]).get(partition.name)
            if commit is not None and commit.topic_id in ("", partition.topic_id):
                partition.go_to(not_behind_its_epoch(partition.cursor, commit.offset, commit.leader_epoch))
                partition.stored = commit.offset
                return
        if partition.added or self._was_added(partition):
            # With auto.offset.reset=latest, records from before the consumer saw the partition would be skipped.
            partition.go_to(partition.cursor.log_start_offset)
            return
        if self._rule == "none":
            raise NoOffsetError(
                f"{partition.name}: group {self._group!r} has committed no offset and auto.offset.reset is none; "
                "call seek() or commit()"
            )
        partition.go_to(self._first_offset(partition))

    def _was_added(self, partition: PartitionPosition) -> bool:
        """Tell whether the partition was added to a topic that the group already reads."""
        topic, number = partition.name
        if not self._group or number < self._backend.facts(topic, partition.topic_id).added_from:
            return False
        commits = self._offsets.committed(self._group)
        return any(
            name.topic == topic and commit.topic_id in ("", partition.topic_id) for name, commit in commits.items()
        )

    def _reset(self, partition: PartitionPosition, error: OffsetOutOfRangeError) -> None:
        """Reset the position: the offset is below the log start or past the end."""
        if self._rule == "none":
            raise error
        before = partition.offset
        partition.go_to(self._first_offset(partition))
        _logger.warning(
            "offset out of range, reset: partition=%s group=%s offset=%d new_offset=%d rule=%s",
            partition.name,
            self._group,
            before,
            partition.offset,
            self._rule,
        )

    def _first_offset(self, partition: PartitionPosition) -> int:
        if self._age_ms is not None:
            return self.offset_at(partition, max(self._backend.clock.now_ms() - self._age_ms, 0))
        if self._rule == "earliest":
            return partition.cursor.log_start_offset
        return partition.cursor.end_offset(self._isolation)

    def offset_at(self, partition: PartitionPosition, timestamp_ms: int) -> int:
        """Return the offset of the first record of ``timestamp_ms`` or later, or the end."""
        # The end is read first: records appended concurrently must not be skipped.
        end = partition.cursor.end_offset(self._isolation)
        found = partition.cursor.offset_for_time(timestamp_ms, isolation=self._isolation)
        return end if found is None else found.offset
