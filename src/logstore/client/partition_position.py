"""Position of a consumer in one partition: where reading begins, and the next records.

This module is responsible for where reading begins: at the group's committed offset, else at the log start in a
partition that was added to a topic since the group began to read it, else as ``auto.offset.reset`` says. That rule
also holds for an offset out of the log's range. One thread at a time: the consumer's.
"""

from __future__ import annotations

import logging

from logstore.batch._batch import RecordIterator
from logstore.client.backend import Opened, Source
from logstore.client.offsets import CommittedOffsets
from logstore.config.client import ConsumerConfig
from logstore.errors import LogstoreError, NoOffsetError, OffsetOutOfRangeError
from logstore.groups.resume import not_behind_its_epoch
from logstore.log import Log
from logstore.log.watermark import Watermark
from logstore.records import TopicPartition

_logger = logging.getLogger(__name__)


class PartitionPosition:
    """A partition and how far it has been read.

    ``offset`` is where the next read begins, -1 until that is known; while there is a ``run``, its own
    position counts. Records below ``done`` are processed, as far as is known; ``stored`` is
    the offset committed last. ``added``: the partition was added after the consumer had begun
    to read the whole topic.
    """

    __slots__ = ("added", "done", "end", "log", "name", "offset", "paused", "run", "stored", "topic_id")

    def __init__(self, name: TopicPartition, log: Opened, topic_id: str, *, added: bool = False) -> None:
        self.name = name
        self.added = added
        self.log = log
        self.topic_id = topic_id
        self.offset = self.done = self.stored = -1
        self.run: RecordIterator | None = None
        self.paused = False
        #: The end of what may be read, of a log that this process writes; set once the position has come to it.
        self.end: Watermark | None = None

    @property
    def position(self) -> int:
        """The offset of the next record to hand out; -1 if it is not known yet."""
        return self.offset if self.run is None else self.run.position

    def hold_up(self) -> None:
        """Stop the loop over the current run, if there is one."""
        if self.run is not None:
            self.run.allow(0)

    def go_to(self, offset: int) -> None:
        """Begin the next read at ``offset``."""
        self.hold_up()
        self.run = None
        self.offset = self.done = offset


class PartitionFetcher:
    """The rules by which the partitions of one consumer are read. Stateless otherwise."""

    def __init__(self, store: Source, config: ConsumerConfig, offsets: CommittedOffsets) -> None:
        self._store = store
        self._group = config.group_id
        self._isolation = config.isolation
        self._rule = config.auto_offset_reset
        self._age_ms = config.reset_age_ms
        self._offsets = offsets

    def run_of(self, place: PartitionPosition, max_bytes: int) -> RecordIterator | None:
        """Return records that can be handed out now, or None; those already read come first.

        Raises:
            OffsetOutOfRangeError, NoOffsetError: the rule for such a case is none.
            CorruptRecordError: a stored batch is damaged.
            UnknownTopicError: the topic was deleted.
        """
        while not place.paused:
            run = place.run
            if run is not None:
                if not run.exhausted and not run.failed:
                    return run
                # A loop of another thread may be inside it, and would hand out records that are read again here.
                place.hold_up()
                place.offset, place.run = run.position, None
            self.find(place)
            try:
                if place.log.end_offset(self._isolation) == place.offset:
                    if place.end is None and isinstance(place.log, Log):
                        place.end = place.log._end_mark(self._isolation)
                    return None
                batches = place.log.read(place.offset, max_bytes=max_bytes, isolation=self._isolation)
            except OffsetOutOfRangeError as error:
                self._reset(place, error)
                continue
            except LogstoreError:
                # The log may be closed because its topic was deleted: then that is the error to raise.
                self.check_there(place)
                raise
            if batches.next_offset == place.offset:
                return None
            place.run = iter(batches)
        return None

    def check_there(self, place: PartitionPosition) -> None:
        """Raise if the partition's topic was deleted or the store is closed."""
        self._store._log_of(*place.name, place.topic_id)

    # -- where to begin

    def find(self, place: PartitionPosition) -> None:
        """Find where the first read begins, if that is not known yet.

        Raises:
            NoOffsetError: there is no committed offset and no rule.
        """
        if place.run is not None or place.offset >= 0:
            return
        if self._group:
            commit = self._offsets.committed(self._group, [place.name]).get(place.name)
            if commit is not None and commit.topic_id in ("", place.topic_id):
                place.go_to(not_behind_its_epoch(place.log, commit.offset, commit.leader_epoch))
                place.stored = commit.offset
                return
        if place.added or self._was_added(place):
            # With auto.offset.reset=latest, records from before the consumer saw the partition would be skipped.
            place.go_to(place.log.log_start_offset)
            return
        if self._rule == "none":
            raise NoOffsetError(
                f"{place.name}: group {self._group!r} has committed no offset and auto.offset.reset is none; call "
                "seek() or commit()"
            )
        place.go_to(self._first_offset(place))

    def _was_added(self, place: PartitionPosition) -> bool:
        """Tell whether the partition was added to a topic that the group already reads."""
        topic, number = place.name
        if not self._group or number < self._store.added_from(topic, place.topic_id):
            return False
        commits = self._offsets.committed(self._group)
        return any(
            name.topic == topic and commit.topic_id in ("", place.topic_id) for name, commit in commits.items()
        )

    def _reset(self, place: PartitionPosition, error: OffsetOutOfRangeError) -> None:
        """Reset the position: the offset is below the log start or past the end."""
        if self._rule == "none":
            raise error
        before = place.offset
        place.go_to(self._first_offset(place))
        _logger.warning(
            "offset out of range, begun anew: partition=%s group=%s offset=%d new_offset=%d rule=%s",
            place.name,
            self._group,
            before,
            place.offset,
            self._rule,
        )

    def _first_offset(self, place: PartitionPosition) -> int:
        if self._age_ms is not None:
            return self.offset_at(place, max(self._store.clock.now_ms() - self._age_ms, 0))
        if self._rule == "earliest":
            return place.log.log_start_offset
        return place.log.end_offset(self._isolation)

    def offset_at(self, place: PartitionPosition, timestamp_ms: int) -> int:
        """Return the offset of the first record of ``timestamp_ms`` or later, or the end."""
        # The end is read first: records appended concurrently must not be skipped.
        end = place.log.end_offset(self._isolation)
        found = place.log.offset_for_time(timestamp_ms, isolation=self._isolation)
        return end if found is None else found.offset


__all__ = ["PartitionFetcher", "PartitionPosition"]
