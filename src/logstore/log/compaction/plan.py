"""Plan of a compaction: the part of a log that may be cleaned, its dirty ratio, and the segments to merge.

Rules of Kafka's `LogCleanerManager` and `Cleaner`: whole sealed segments only, below the last stable offset, older
than ``min.compaction.lag.ms``. Neighbours are merged while the result stays within ``segment.bytes``,
``segment.index.bytes`` and 31 bits of relative offsets. Functions over a tuple of segments and a few numbers: only
headers, indexes and times are read, and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from logstore._segment import Segment
from logstore.batch._batch import Batches
from logstore.config.log import LogConfig
from logstore.errors import PolicyViolationError
from logstore.records import INT32_MAX, INT64_MAX, TopicPartition
from logstore.renamed import warn

NEVER_MS = INT64_MAX

#: A segment may grow by its compaction: timestamp deltas are rewritten where a delete horizon is set.
_GROWTH_BYTES = 1 << 26


class Cleanable(NamedTuple):
    """Part of a log that a compaction would clean, as of one moment.

    ``dirty_ratio`` is the share of ``dirty_bytes`` in all bytes below ``end_offset``. ``is_due`` means that the
    log should be compacted now. It is dirtier than ``min.cleanable.dirty.ratio``, or a dirty segment is older than
    ``max.compaction.lag.ms``, or tombstones have expired: no later append would make these due.
    """

    first_dirty_offset: int  #: every key below it has one record
    end_offset: int  #: offsets from here on are not touched
    clean_bytes: int
    dirty_bytes: int
    dirty_ratio: float
    is_due: bool
    cleaner_error: str | None = None  #: damage that a compaction met and that prevents it, with its position

    @property
    def uncleanable(self) -> str | None:  # former name
        """`cleaner_error` by its old name, which the next release deletes."""
        warn("Cleanable.uncleanable", "cleaner_error")  # former name
        return self.cleaner_error


def cleanable(
    segments: Sequence[Segment],
    config: LogConfig,
    first_dirty_offset: int,
    last_stable_offset: int,
    now_ms: int,
    next_horizon_ms: int,
    cleaner_error: str | None,
) -> Cleanable:
    """Return the part of a log to clean; its first tombstone expires at ``next_horizon_ms``.

    Raises:
        StorageError: a segment's first batch or its times could not be read.
    """
    end = _end_offset(segments, config, first_dirty_offset, last_stable_offset, now_ms)
    clean = sum(s.size for s in segments if s.next_offset <= first_dirty_offset and not s.base_offset >= end)
    dirty = sum(s.size for s in segments[:-1] if s.next_offset > first_dirty_offset and s.base_offset < end)
    ratio = dirty / (clean + dirty) if dirty else 0.0
    is_due = cleaner_error is None and (
        ratio > config.min_cleanable_dirty_ratio
        or (dirty > 0 and _is_late(segments, config, first_dirty_offset, now_ms))
        or (clean > 0 and next_horizon_ms <= now_ms)
    )
    return Cleanable(first_dirty_offset, max(end, first_dirty_offset), clean, dirty, ratio, is_due, cleaner_error)


def _end_offset(
    segments: Sequence[Segment], config: LogConfig, first_dirty: int, last_stable: int, now_ms: int
) -> int:
    """Return the base offset of the first segment that may not be cleaned."""
    young = now_ms - config.min_compaction_lag_ms
    for segment in segments[:-1]:
        if segment.next_offset > last_stable:
            return segment.base_offset
        if config.min_compaction_lag_ms and segment.next_offset > first_dirty:
            newest = segment.index.largest_timestamp()
            if newest is not None and newest[0] > young:
                return segment.base_offset
    return segments[-1].base_offset


def _is_late(segments: Sequence[Segment], config: LogConfig, first_dirty: int, now_ms: int) -> bool:
    """Return whether a dirty sealed segment began longer ago than max.compaction.lag.ms."""
    if config.max_compaction_lag_ms >= NEVER_MS:
        return False
    for segment in segments[:-1]:
        if segment.next_offset > first_dirty and segment.size:
            first = segment.index.first_timestamp()
            if first is not None and first > 0 and first < now_ms - config.max_compaction_lag_ms:
                return True
    return False


def groups(segments: Sequence[Segment], end_offset: int, config: LogConfig) -> list[list[Segment]]:
    """Group the segments that begin below an offset into runs of neighbours to merge."""
    found: list[list[Segment]] = []
    log_bytes = index_bytes = time_bytes = 0
    most = min(config.segment_bytes, INT32_MAX - _GROWTH_BYTES)
    for segment in segments[:-1]:
        if segment.base_offset >= end_offset:
            break
        segment.index.load()
        fits = (
            bool(found)
            and log_bytes + segment.size <= most
            and index_bytes + segment.index.offsets.size <= config.segment_index_bytes
            and time_bytes + segment.index.times.size <= config.segment_index_bytes
            and segment.next_offset - 1 - found[-1][0].base_offset <= INT32_MAX
        )
        if fits:
            found[-1].append(segment)
        else:
            found.append([segment])
            log_bytes = index_bytes = time_bytes = 0
        log_bytes += segment.size
        index_bytes += segment.index.offsets.size
        time_bytes += segment.index.times.size
    return found


def refuse_keyless(name: TopicPartition, chunks: Iterable[Batches], start: int) -> None:
    """Raise if a record at ``start`` or after it has no key: compaction would delete it.

    Raises:
        PolicyViolationError: the first such record is named.
    """
    for chunk in chunks:
        for batch in chunk.batches():
            if batch.is_control or not batch.validate(contiguous=False)[2]:
                continue
            offset = next((r.offset for r in batch if r.key is None and r.offset >= start), None)
            if offset is not None:
                raise PolicyViolationError(
                    f"partition {name.partition} of topic {name.topic!r} has records without a key, the first at "
                    f"offset {offset}, which compaction deletes; give drop_keyless=True (--drop-keyless) to lose "
                    "them, or leave cleanup.policy=delete"
                )
