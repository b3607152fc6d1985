"""What a Spark source asks of a log, wherever the log lies.

`Backend` is the one contract under planner, stream and reader: `path` answers it from the files of a store,
`bootstrap` over Kafka's protocol. It speaks in topics, offsets and runs of record batches, and knows nothing of
Spark. Imports the vocabulary and the core's batches only. A back end may be used from any thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar, NamedTuple

from logstore.batch._batch import Batches
from logstore.records import TopicPartition

__all__ = ["Backend", "Range", "TopicFacts"]


class Range(NamedTuple):
    """Offsets of one partition that one task reads; ``end`` is exclusive.

    ``topic_id`` and ``leader_epoch`` are what the planner saw, so that a reader can tell a topic that was
    re-created in between. Empty and -1 mean that nobody knows.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str = ""
    leader_epoch: int = -1


class TopicFacts(NamedTuple):
    """A topic as it is now: the id tells it from an earlier topic of the same name; empty where there are none."""

    name: str
    id: str
    partitions: int


class Backend(ABC):
    """Topics and their records, for planning and for reading.

    One for each set of options in a process, kept open between tasks. It finds its way back by itself after
    a lost connection or a new segment; any thread may call any method.
    """

    #: Whether a fetch waits for another machine, so that one ahead of need pays.
    is_remote: ClassVar[bool] = False

    @abstractmethod
    def topics(self) -> dict[str, TopicFacts]:
        """Every topic that is not internal, by name."""

    @abstractmethod
    def topic(self, name: str) -> TopicFacts:
        """One topic.

        Raises:
            UnknownTopicError: there is none of that name.
        """

    @abstractmethod
    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The log start offset of each partition."""

    @abstractmethod
    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset that each partition is readable up to, exclusive.

        The last stable offset, or the high watermark: by the isolation that the back end was made with.
        """

    @abstractmethod
    def offsets_for_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset whose timestamp is at least that many milliseconds, or None where none is."""

    @abstractmethod
    def epoch_at(self, tp: TopicPartition) -> int:
        """The newest leader epoch of a partition, -1 where nobody knows."""

    @abstractmethod
    def end_of_epoch(self, tp: TopicPartition, epoch: int) -> int | None:
        """Where the records of a leader epoch end, exclusive; None where nobody knows.

        An end below an offset that was read in that epoch tells of a log that was cut or made anew.
        """

    @abstractmethod
    def offset_after_bytes(self, tp: TopicPartition, start: int, end: int, max_bytes: int) -> int:
        """The end of a range from ``start`` that holds about ``max_bytes``: above ``start``, at most ``end``."""

    @abstractmethod
    def split(self, range: Range, parts: int) -> list[Range]:
        """At most ``parts`` ranges that together are ``range``: of about the same size in bytes where that is
        known, else in offsets."""

    @abstractmethod
    def prune_by_time(self, range: Range, since_ms: int | None, until_ms: int | None) -> Range:
        """A range inside ``range`` with every record of it from ``since_ms`` on and before ``until_ms``.

        Other records may remain in it. An empty one has ``start == end``.
        """

    @abstractmethod
    def fetch(self, range: Range, max_bytes: int) -> Batches:
        """About ``max_bytes`` of record batches from ``range.start`` on; empty at the end of the range.

        ``next_offset`` of what is returned is where the next fetch begins, also where it holds no visible record.

        Raises:
            OffsetOutOfRangeError: the start of the range is deleted, or its end is beyond that of the log.
            UnknownTopicError: there is no such topic any more.
            DataLossError: the topic is another than the one of ``topic_id``.
            CorruptRecordError: stored or received bytes are damaged.
        """

    def is_current(self) -> bool:
        """Whether what was opened is still there; else it is opened anew for the next task."""
        return True

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections. Calling it again does nothing."""
