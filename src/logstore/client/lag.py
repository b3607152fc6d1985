"""Consumer lag: how far readers are behind, in records that they will see, and in seconds.

The difference of two offsets is too large: it counts transaction markers, aborted records, records removed by
compaction, and offsets below the log start. Here the records themselves are counted, batch by batch: the cost is
that of reading the headers of the unread batches. Reads only; any thread may call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import NamedTuple

from logstore.client.backend.backend import Backend
from logstore.client.backend.partitions import Partition
from logstore.errors import OffsetOutOfRangeError, UnknownPartitionError, UnknownTopicError
from logstore.records import INT64_MAX, Isolation, TopicPartition


class Lag(NamedTuple):
    """The distance between a committed offset and the end of one partition.

    ``offset`` is 0 for a partition that was added later and that the group has not committed yet.

    ``records`` counts those that a reader of that isolation will see; ``lost`` counts the offsets below the log
    start that were deleted unread. ``seconds`` is the age of the first unread record, by its own
    timestamp: 0 if there is none, or if the timestamp is ahead of the clock.
    """

    partition: TopicPartition
    offset: int
    end_offset: int
    records: int
    seconds: float
    lost: int = 0


def lag_of(
    log: Partition,
    offset: int,
    now_ms: int,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    known: tuple[int, int] | None = None,
) -> Lag:
    """Return how far a reader at ``offset`` is behind; a reader past the end is not.

    ``known`` has the log start and the end, if the caller has asked for them.
    """
    end = INT64_MAX
    while True:
        start, now_ends = (log.log_start_offset, log.end_offset(isolation)) if known is None else known
        known = None
        # The end only falls: else a writer and its retention could restart this loop for ever.
        end = max(start, min(end, now_ends))
        first = min(max(offset, start), end)
        records, oldest_ms = 0, None
        try:
            for batches in log.scan(first, end, isolation=isolation).chunks() if first < end else ():
                count = batches.count()
                if count and oldest_ms is None:
                    oldest_ms = next(iter(batches)).timestamp_ms
                records += count
        except OffsetOutOfRangeError:
            # Deleted concurrently: the remaining records are counted again.
            if log.log_start_offset == start and log.end_offset(isolation) >= end:
                raise
            continue
        seconds = 0.0 if oldest_ms is None else max(now_ms - oldest_ms, 0) / 1000
        return Lag(log.name, offset, end, records, seconds, max(start - offset, 0))


def lag_of_group(
    backend: Backend,
    group: str,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    partitions: Iterable[TopicPartition] | None = None,
) -> list[Lag]:
    """Return how far a group is behind, by partition; partitions of deleted topics are left out.

    Partitions added to a topic since the group began to read it count from offset 0, where it will begin.

    Raises:
        InvalidGroupError: the group's name cannot be used.
    """
    commits = backend.offsets.committed(group)
    begins = {name: commit.offset for name, commit in commits.items()}
    for topic in {name.topic for name in commits}:
        try:
            facts = backend.facts(topic)
        except UnknownTopicError:
            continue
        for number in range(facts.added_from, facts.partitions):
            begins.setdefault(TopicPartition(topic, number), 0)
    wanted = set(begins) if partitions is None else set(partitions)
    logs = {}
    for name in sorted(wanted & begins.keys()):
        with contextlib.suppress(UnknownTopicError, UnknownPartitionError):
            logs[name] = backend.partition(name)
    known = _known(backend, logs.keys(), isolation)
    found = []
    for name, log in logs.items():
        with contextlib.suppress(UnknownTopicError, UnknownPartitionError):
            found.append(lag_of(log, begins[name], backend.clock.now_ms(), isolation, known.get(name)))
    return found


def _known(
    backend: Backend, names: Iterable[TopicPartition], isolation: Isolation
) -> dict[TopicPartition, tuple[int, int]]:
    """Return log start and end of the partitions, of a cluster by one request each to every leader.

    Empty, if one of them is gone by now: then each is asked for by itself.
    """
    try:
        starts = backend.start_offsets(names)
        ends = backend.end_offsets(names, isolation)
    except (UnknownTopicError, UnknownPartitionError):
        return {}
    return {name: (starts[name], ends[name]) for name in names}
