"""Logs of a command, and offsets in them for positions on the command line."""

from __future__ import annotations

from collections.abc import Collection

from logstore.cli.param_types import Begin
from logstore.client.backend.partitions import Partition
from logstore.client.topic import AnyTopic
from logstore.config.quantities import time_ms
from logstore.errors import OffsetOutOfRangeError
from logstore.records import Isolation


def logs_of(topic: AnyTopic, partitions: Collection[int]) -> dict[int, Partition]:
    """Return some partitions of a topic, or all if none are named."""
    return {number: topic[number] for number in partitions or range(topic.partition_count)}


def offset_in(log: Partition, begin: Begin, now_ms: int, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> int:
    """Return the offset of ``begin`` in a log; a time after the last record is the end.

    Raises:
        OffsetOutOfRangeError: the offset is beyond the end.
    """
    end = log.end_offset(isolation)
    if begin.end:
        return end
    if begin.time is not None:
        found = log.offset_for_time(time_ms(begin.time, now_ms, begin.zone), isolation=isolation)
        return end if found is None else found.offset
    if begin.offset is None:
        return log.log_start_offset
    if begin.offset > max(end, log.end_offset(Isolation.READ_UNCOMMITTED)):
        raise OffsetOutOfRangeError(
            f"{log.name}: offset {begin.offset} is beyond the end, {end}; `end` is the next record that comes, -N "
            "the last N of each partition",
            offset=begin.offset,
            path=log.path or None,
        )
    return begin.offset if begin.offset >= 0 else max(end + begin.offset, log.log_start_offset)
