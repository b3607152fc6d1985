"""Ranges of offsets of a partition, and what reads them in several processes: the contract of planned reads.

`RangeBackend` is what a query over many partitions asks: which topics there are, how far they reach, and the record
batches of a range. A planner in one process fixes ranges, and tasks in others read them, each with a back end of
its own. Topics, offsets and commits are those of a `Backend`. What a range holds is added by
`logstore.store.ranges` for the files of a store that another process may write, and by
`logstore.remote.backend.ranges` for Kafka's protocol.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import ClassVar, NamedTuple

from logstore.batch._batch import Batches
from logstore.client.backend.backend import Backend
from logstore.errors import DataLossError, UnknownTopicError
from logstore.records import Isolation, TopicPartition


class Range(NamedTuple):
    """Offsets of one partition that one task reads; ``end`` is exclusive.

    ``topic_id`` and ``leader_epoch`` are those the planner saw, so that a reader can detect a topic that was
    re-created in between. Empty and -1 mean unknown.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str = ""
    leader_epoch: int = -1

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def split(self, parts: int) -> list[Range]:
        """Split the range into at most ``parts`` of about as many offsets each; an empty one stays whole."""
        size = self.end - self.start
        ends = [self.start + size * number // parts for number in range(parts + 1)]
        return [self._replace(start=start, end=end) for start, end in pairwise(ends) if start < end] or [self]

    def recreated(self) -> DataLossError:
        """Return the error for a topic with another id than the planner has seen."""
        return DataLossError(
            f"topic {self.topic!r} was deleted and created again since the query was planned: offsets "
            f"{self.start} to {self.end - 1} of partition {self.partition} are gone"
        )


class RangeTopic(NamedTuple):
    """A topic as it is now. The id, where there is one, tells it from an earlier topic of the same name."""

    name: str
    id: str
    partitions: int


class RangeBackend(ABC):
    """Topics and their records, for planning and for reading.

    A process has one for each set of options, kept open between tasks. It recovers by itself from a lost
    connection or a new segment. Any thread may call any method.
    """

    #: Whether a fetch waits for another machine, so that fetching ahead pays.
    is_remote: ClassVar[bool] = False

    def __init__(self, backend: Backend, isolation: Isolation) -> None:
        self._backend = backend
        self._isolation = isolation

    # -- topics and offsets: those of the back end

    def topics(self) -> dict[str, RangeTopic]:
        """Return every topic that is not internal, by name."""
        found = {}
        for name in self._backend.topics():
            with contextlib.suppress(UnknownTopicError):  # deleted since it was listed
                found[name] = self._known(name)
        return found

    def topic(self, name: str) -> RangeTopic:
        """Return one topic, asked for now.

        Raises:
            UnknownTopicError: no topic has that name.
        """
        if self._backend.is_remote:
            self._backend.look_again([name])  # else its facts may be as old as metadata.max.age.ms
        return self._known(name)

    def _known(self, name: str) -> RangeTopic:
        facts = self._backend.facts(name)
        return RangeTopic(name, facts.id, facts.partitions)

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition."""
        return self._backend.start_offsets(partitions)

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset that each partition is readable up to, exclusive.

        It is the last stable offset or the high watermark, depending on the isolation of the back end.
        """
        return self._backend.end_offsets(partitions, self._isolation)

    def offsets_for_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the first offset whose timestamp is at least that many milliseconds, or None if there is none."""
        found = self._backend.offsets_for_times(times, self._isolation)
        return {tp: None if each is None else each.offset for tp, each in found.items()}

    def end_of_epoch(self, tp: TopicPartition, epoch: int) -> int | None:
        """Return where the records of a leader epoch end, exclusive; None if unknown.

        If that is below an offset that was read in that epoch, the log was truncated or re-created.
        """
        return self._backend.epoch_ends({tp: epoch})[tp]

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Store the next offsets that a group has to read, where others look for them; may be repeated.

        Raises:
            InvalidGroupError: the name cannot be used.
            UnknownTopicError, UnknownPartitionError: there is no such partition.
            ReadOnlyError, BrokerError: nothing here may commit for the group.
        """
        self._backend.offsets.commit(group, offsets)

    # -- ranges: of each side

    @abstractmethod
    def epoch_at(self, tp: TopicPartition) -> int:
        """Return the newest leader epoch of a partition, -1 if unknown."""

    @abstractmethod
    def offset_after_bytes(self, tp: TopicPartition, start: int, end: int, max_bytes: int) -> int:
        """Return the end of a range from ``start`` with about ``max_bytes``: above ``start``, at most ``end``."""

    def split(self, range: Range, parts: int) -> list[Range]:
        """Split ``range`` into at most ``parts`` ranges of about the same size in bytes; here in offsets."""
        return range.split(parts)

    @abstractmethod
    def prune_by_time(self, range: Range, since_ms: int | None, until_ms: int | None) -> Range:
        """Narrow ``range``, keeping every record from ``since_ms`` on and before ``until_ms``.

        Other records may remain in it. An empty range has ``start == end``.
        """

    @abstractmethod
    def fetch(self, range: Range, max_bytes: int) -> Batches:
        """Fetch about ``max_bytes`` of record batches from ``range.start`` on; empty at the end of the range.

        The next fetch begins at ``next_offset`` of the result, even if the result has no visible record.

        Raises:
            OffsetOutOfRangeError: the start of the range is deleted, or its end is beyond that of the log.
            UnknownTopicError: the topic does not exist any more.
            DataLossError: the topic has another id than ``topic_id``.
            CorruptRecordError: stored or received bytes are damaged.
        """

    def is_current(self, wanted: Range | None = None) -> bool:
        """Return whether what was opened still exists and reaches ``wanted``; if not, it is opened again."""
        return True

    @abstractmethod
    def close(self) -> None:
        """Release files and connections; idempotent."""
