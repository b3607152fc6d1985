"""Planner of a read: its partitions, their ranges of offsets, and how tasks share them.

Pure planning over a `RangeBackend`: it reads offsets, no records. Knows no Spark, so that every rule can be tested
without one. Any thread may use it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping

from logstore.client.backend.ranges import Range, RangeBackend, RangeTopic
from logstore.errors import DataLossError, SparkOptionError, UnknownPartitionError, UnknownTopicError
from logstore.records import TopicPartition
from logstore.spark.reading.options import EARLIEST, LATEST, Bound, ReadOptions, names, utc_text

_logger = logging.getLogger(__name__)

Offsets = dict[TopicPartition, int]

#: The most offsets of a micro-batch that are packed into one task.
TASK_RECORDS = 16_384


def data_loss(message: str, *, fail: bool, otherwise: str = "") -> None:
    """Report missing records: raise, or log a warning and let the query continue without them.

    ``otherwise`` is another remedy, for the message.

    Raises:
        DataLossError: with ``fail``.
    """
    if fail:
        raise DataLossError(f"{message}; set failOnDataLoss to false to continue without them{otherwise}")
    _logger.warning("%s; the query continues without them, since failOnDataLoss is false", message)


# --- partitions --------------------------------------------------------------------------------


def chosen_topics(options: ReadOptions, backend: RangeBackend) -> dict[str, RangeTopic]:
    """Return the topics that a query reads, as they are now.

    Raises:
        UnknownTopicError: one that is named does not exist.
    """
    if options.pattern is not None:
        matches = re.compile(options.pattern).fullmatch
        return {name: facts for name, facts in sorted(backend.topics().items()) if matches(name)}
    wanted = options.subscribe if options.assign is None else tuple(options.assign)
    found: dict[str, RangeTopic] = {}
    missing: list[str] = []
    for name in sorted(wanted or ()):
        try:
            found[name] = backend.topic(name)
        except UnknownTopicError:
            missing.append(name)
    if missing:
        there = sorted(backend.topics())
        listed = (
            f"there are {', '.join(there[:20])}{', …' if len(there) > 20 else ''}" if there else "there is none"
        )
        raise UnknownTopicError(f"topic {', '.join(map(repr, missing))} does not exist; {listed}")
    return found


def subscribed(options: ReadOptions, topics: Mapping[str, RangeTopic]) -> list[TopicPartition]:
    """Return the partitions of those topics that a query reads, in order.

    Raises:
        UnknownPartitionError: `assign` names one that a topic does not have.
    """
    if options.assign is None:
        return [TopicPartition(name, n) for name, facts in sorted(topics.items()) for n in range(facts.partitions)]
    wanted = [TopicPartition(name, n) for name, numbers in sorted(options.assign.items()) for n in numbers]
    missing = [tp for tp in wanted if not 0 <= tp.partition < topics[tp.topic].partitions]
    if missing:
        raise UnknownPartitionError(
            f"partition {names(missing)} does not exist; "
            + ", ".join(f"{name!r} has {topics[name].partitions}" for name in sorted({tp.topic for tp in missing}))
        )
    return wanted


# --- ranges of offsets -------------------------------------------------------------------------


def resolve(
    bound: Bound, partitions: list[TopicPartition], backend: RangeBackend, *, is_start: bool, no_match: str
) -> Offsets:
    """Resolve one end of a query to offsets, as of now.

    Raises:
        SparkOptionError: offsets or times do not name exactly the partitions, or no record is so new.
    """
    if bound.word is not None:
        return backend.earliest(partitions) if bound.word == EARLIEST else backend.latest(partitions)
    if bound.offsets is not None:
        _check_named(bound.option, bound.offsets, partitions, "use -2 for earliest and -1 for latest")
        found = dict(bound.offsets)
        for word, ends in ((EARLIEST, backend.earliest), (LATEST, backend.latest)):
            found |= ends([tp for tp, offset in found.items() if offset == word])
        return found
    if bound.timestamp_ms is not None:
        times = dict.fromkeys(partitions, bound.timestamp_ms)
    else:
        assert bound.times is not None
        _check_named(bound.option, bound.times, partitions, "a time for each is needed")
        times = dict(bound.times)
    matched = backend.offsets_for_time(times)
    unmatched = [tp for tp, offset in matched.items() if offset is None]
    if unmatched and is_start and no_match == "error":
        newest = utc_text(times[min(unmatched)])
        raise SparkOptionError(
            {
                bound.option: f"no record of {names(unmatched)} is as new as {newest}; set "
                "startingOffsetsByTimestampStrategy to latest to begin behind the last record there"
            }
        )
    latest = backend.latest(unmatched)
    return {tp: latest[tp] if offset is None else offset for tp, offset in matched.items()}


def _check_named(
    option: str, given: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition], advice: str
) -> None:
    missing, strange = set(partitions) - set(given), set(given) - set(partitions)
    if missing or strange:
        what = [
            f"{names(missing)} left out" if missing else "",
            f"{names(strange)} not subscribed" if strange else "",
        ]
        raise SparkOptionError(
            {option: f"every partition must be named, and no other: {', '.join(filter(None, what))}; {advice}"}
        )


def plan_batch(options: ReadOptions, backend: RangeBackend) -> list[Range]:
    """Plan a batch query: one range for each partition that is not empty, not yet split for tasks.

    Raises:
        UnknownTopicError, UnknownPartitionError: a topic or partition does not exist.
        SparkOptionError: an end of the range is wrong.
        DataLossError: requested offsets are deleted, or beyond the end.
    """
    topics = chosen_topics(options, backend)
    partitions = subscribed(options, topics)
    start = options.start or Bound("startingOffsets", word=EARLIEST)
    end = options.end or Bound("endingOffsets", word=LATEST)
    starts = resolve(start, partitions, backend, is_start=True, no_match=options.no_match)
    ends = resolve(end, partitions, backend, is_start=False, no_match="latest")
    if start.offsets is not None or end.offsets is not None:
        hold_within(options, starts, ends, backend)
    return [
        Range(tp.topic, tp.partition, starts[tp], ends[tp], topics[tp.topic].id)
        for tp in partitions
        if starts[tp] < ends[tp]
    ]


def hold_within(options: ReadOptions, starts: Offsets, ends: Offsets, backend: RangeBackend) -> None:
    """Clamp given offsets to the range that each log holds, or raise."""
    earliest, latest = backend.earliest(starts), backend.latest(starts)
    for tp in sorted(starts):
        low, high = earliest[tp], latest[tp]
        if starts[tp] < low and starts[tp] < ends[tp]:
            data_loss(
                f"{tp}: offsets {starts[tp]} to {min(low, ends[tp]) - 1} are deleted, the log begins at {low}",
                fail=options.fail_on_data_loss,
            )
        if max(starts[tp], ends[tp]) > high:
            data_loss(
                f"{tp}: offsets {max(starts[tp], ends[tp])} and before were asked for, the log ends at {high}: "
                f"{'it was truncated, or ' if high else ''}they were not written yet",
                fail=options.fail_on_data_loss,
            )
        starts[tp] = min(max(starts[tp], low), high)
        ends[tp] = min(ends[tp], high)


# --- ranges for tasks --------------------------------------------------------------------------


def split(ranges: Iterable[Range], options: ReadOptions, backend: RangeBackend) -> list[Range]:
    """Split ranges for tasks: one per partition, or more by ``maxRecordsPerPartition`` and ``minPartitions``.

    As in Spark's Kafka source: the former first limits the offsets of each range. Then ranges are split in
    proportion to their size, until there are about as many as the latter. Empty ranges make no task.
    """
    whole = [range for range in ranges if range.start < range.end]
    if options.max_records is not None:
        whole = [
            part for range in whole for part in range.split(-(-(range.end - range.start) // options.max_records))
        ]
    if options.min_partitions is None or len(whole) >= options.min_partitions:
        return whole
    total = sum(range.end - range.start for range in whole)
    parts = []
    for range in whole:
        share = (range.end - range.start) / total * options.min_partitions
        parts.extend(backend.split(range, max(1, round(share))))
    return [part for part in parts if part.start < part.end]


def packed(ranges: Iterable[Range], options: ReadOptions) -> list[list[Range]]:
    """Pack the ranges of a micro-batch into tasks: one range each, or several small ones in sequence.

    A task costs Spark some tens of milliseconds in Python, more than reading a few thousand records. Nothing is
    packed where the options say how to split the ranges.
    """
    is_dealt = options.min_partitions is not None or options.max_records is not None
    tasks: list[list[Range]] = []
    held = 0
    for range in ranges:
        size = range.end - range.start
        if tasks and not is_dealt and held + size <= TASK_RECORDS:
            tasks[-1].append(range)
            held += size
        else:
            tasks.append([range])
            held = size
    return tasks
