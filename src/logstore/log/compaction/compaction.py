"""Compaction: only the newest record of each key is kept, as by Kafka's log cleaner.

One run works in rounds. A round reads the dirty records and keeps the offset of each key in a map of bounded
memory (`_offset_map`). Then it passes every segment, up to the end of the mapped offsets, through a filter
(`_compaction_filter`). It replaces the old segments by the new ones (`segment_swap`). Offsets, sequences and the
order of records stay. Tombstones, and markers of transactions without remaining records, are deleted once
``delete.retention.ms`` has passed since a compaction first met them.

Invariants: only synced, sealed segments below the last stable offset are touched. The last batch of each
new segment stays, if only its header, so that segments stay contiguous. Every batch is checked before its
bytes are used. Damage ends the run, and its position is recorded in the log's state.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from logstore._segment import Segment
from logstore.batch import _compaction_filter, _offset_map
from logstore.batch._batch import BatchView
from logstore.batch._compaction_filter import Filter
from logstore.batch._offset_map import SLOT_BYTES, KeyMap
from logstore.config.log import LogConfig
from logstore.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidSettingError,
    LogClosedError,
    RecordError,
    StorageError,
)
from logstore.io._interrupts import held, shielded
from logstore.log.compaction import plan, segment_swap
from logstore.log.compaction.plan import Cleanable
from logstore.log.compaction.segment_swap import Superseded
from logstore.log.compaction.transaction_filter import TransactionFilter
from logstore.log.recovery import recovery
from logstore.log.state import State
from logstore.records import INT32_MAX, INT64_MAX, Codec

_logger = logging.getLogger(__name__)

MAP_BYTES = 128 << 20  #: Kafka's log.cleaner.dedupe.buffer.size
READ_BYTES = 1 << 20

#: Counts of a filter that a run adds up.
_COUNTS = ("bytes_read", "bytes_kept", "records_read", "records_kept", "keyless_records")

Throttle = Callable[[int], None]


class Compacted(NamedTuple):
    """Result of one run. Counts are of records and bytes that were read, once for each round."""

    first_dirty_offset: int  #: below it, no key has more than one record now
    rounds: int
    segments_before: int
    segments_after: int
    bytes_read: int
    bytes_kept: int
    records_read: int
    records_kept: int
    keyless_records: int  #: records without a key, which were dropped; a compacted log refuses new ones
    is_complete: bool  #: false if a truncation or deletion ended the run before everything was cleaned


def compact(
    state: State,
    sync_to: Callable[[int], None],
    *,
    map_bytes: int = MAP_BYTES,
    now_ms: int | None = None,
    throttle: Throttle | None = None,
) -> Compacted:
    """See `LogMaintenance.compact`; ``sync_to`` syncs the log up to the offset where compaction ends."""
    state.check_writable()
    if not state.config.compacts:
        raise InvalidSettingError({"cleanup.policy": f"{state.name} is not compacted: expected compact in it"})
    if map_bytes < 2 * SLOT_BYTES:
        raise InvalidSettingError(
            {"log.cleaner.dedupe.buffer.size": f"expected at least {2 * SLOT_BYTES} bytes, found {map_bytes}"}
        )
    with held(state.compacting):
        run = _Run(state, map_bytes, state.clock.now_ms() if now_ms is None else now_ms, throttle)
        try:
            done = run.work(sync_to)
        except RecordError as error:
            # All old segments remain.
            state.cleaned.ended(str(error))
            _logger.error("log cannot be compacted: log=%s error=%s", state.path, error)
            raise
        state.cleaned.ended(None)
        return done


def look(state: State, now_ms: int | None = None) -> Cleanable:
    """See `LogMaintenance.cleanable`."""
    state.check_open()
    now = state.clock.now_ms() if now_ms is None else now_ms
    with held(state.lock):
        segments, stable, cleaned = state.segments.all, state.last_stable.value, state.cleaned
        first, next_horizon_ms = cleaned.first_dirty_offset, cleaned.next_horizon_ms
    return plan.cleanable(segments, state.config, first, stable, now, next_horizon_ms, cleaned.error)


class _Run:
    """Compaction run of one log."""

    def __init__(self, state: State, map_bytes: int, now_ms: int, throttle: Throttle | None) -> None:
        self._state = state
        self._map_bytes = map_bytes
        self._now_ms = now_ms
        self._throttle = throttle
        self._generation = -1  # of the log: a truncation raises it, and ends the run
        self._rounds = 0
        self._drops_markers = False  # whether a marker was deleted in this round
        self._passed = 0  # bytes of the last chunk that are whole batches, see `_chunks`
        # Counts of all filters. The filters are not kept: each holds the map of its round.
        self._counts = dict.fromkeys(_COUNTS, 0)

    def work(self, sync_to: Callable[[int], None]) -> Compacted:
        state = self._state
        # Read before the plan: a truncation between the two would leave a stale plan for the new generation.
        self._generation = state.segments.generation
        plan = look(state, self._now_ms)
        before = len(state.segments)
        is_complete = True
        if plan.clean_bytes + plan.dirty_bytes:
            first = plan.first_dirty_offset
            try:
                shielded(self._promise, sync_to)
                while True:
                    known = self._round(first, plan.end_offset)
                    first = known + 1
                    if first >= plan.end_offset:
                        break
            except Superseded:
                is_complete = False
            except RecordError:
                # A truncation raises the generation before it changes a file; bytes read then may look damaged.
                if self._generation == state.segments.generation:
                    raise
                is_complete = False
        done = Compacted(
            first_dirty_offset=state.cleaned.first_dirty_offset,
            rounds=self._rounds,
            segments_before=before,
            segments_after=len(state.segments),
            is_complete=is_complete,
            **self._counts,
        )
        _logger.info("compacted: log=%s %s", state.path, " ".join(f"{k}={v}" for k, v in done._asdict().items()))
        return done

    def _promise(self, sync_to: Callable[[int], None]) -> None:
        """Sync the log, and store a recovery point above what is compacted in both slots, durably.

        Up to the log end: the markers of the newest transactions to be compacted may be in later segments. If one
        was lost, its transaction would be undecided again, and hide records whose older ones are gone.

        Recovery neither scans nor truncates below the recovery point. A slot with an older recovery point could
        name an offset and a position inside a replaced segment.
        """
        state = self._state
        sync_to(state.end.value)
        with held(state.lock):
            state.check_whole_locked()
            if self._generation != state.segments.generation:
                raise Superseded
        if not state.transactions.is_on_disk:
            # Else the point would stay below what is compacted, since a flush had no space for the list.
            state.save_aborted()
            with state.storing():
                state.transactions.sync_files()
        with state.storing():
            state.durability.promise()
        with held(state.lock):
            state.check_whole_locked()
            # A truncation lowers the point and raises the generation.
            if self._generation != state.segments.generation:
                raise Superseded
            with state.storing_locked(is_append=False):
                state.cleaned.begin_run()

    def _round(self, first: int, end_offset: int) -> int:
        """Clean as much as one map holds; return the last offset in the map."""
        state = self._state
        self._check_joined(end_offset)
        keys = self._map(first, end_offset)
        known = max(keys.latest_offset, first - 1)
        with held(state.lock):
            segments = state.segments.all
        filtered = Filter(
            keys,
            known_offset=known,
            now_ms=self._now_ms,
            delete_retention_ms=state.config.delete_retention_ms,
            level_of=_level_of(state.config),
            limit=state.config.decompressed_max_bytes,
        )
        self._rounds += 1
        self._drops_markers = False
        transaction_filter = TransactionFilter(
            state.transactions.aborted_between(segments[0].base_offset, end_offset)
        )
        try:
            for group in plan.groups(segments, known + 1, state.config):
                self._clean(group, filtered, transaction_filter)
        finally:
            for name in _COUNTS:
                self._counts[name] += getattr(filtered, name)
        with held(state.lock):
            if self._generation != state.segments.generation:
                raise Superseded
            until_ms = self._now_ms + min(state.config.delete_retention_ms, INT64_MAX - self._now_ms)
            shielded(state.cleaned.round_done, min(known + 1, end_offset), filtered.next_horizon_ms, until_ms)
        return known

    def _check_joined(self, end_offset: int) -> None:
        """Raise if offsets are missing between segments: a merged segment would hide the loss for good."""
        state = self._state
        with held(state.lock):
            segments = [s for s in state.segments.all[:-1] if s.base_offset < end_offset]
        for segment in segments:
            try:
                state.check_joined(segment)
            except StorageError as error:
                self._check()
                if segment.file.closed or segment not in state.segments.all:
                    raise Superseded from error
                raise

    # -- the map

    def _map(self, first: int, end_offset: int) -> KeyMap:
        """Map each key from ``first`` on to its newest offset, until the map is full."""
        size, rng = self._map_bytes, self._state.rng
        # Slots for the possible records only: most maps need far less than the allowed memory.
        needed = ((end_offset - first) * 10 // 9 + 2) * SLOT_BYTES
        while True:
            keys = KeyMap(min(size, needed), os.urandom(16) if rng is None else rng.randbytes(16))
            is_whole = self._fill(keys, first, end_offset)
            if is_whole or keys.latest_offset >= first:
                return keys
            # Not even one batch fitted: use a larger map. It fits into memory, as the decompressed batch does. The
            # old map is dropped first, since memory may not hold both.
            del keys
            size *= 2

    def _fill(self, keys: KeyMap, first: int, end_offset: int) -> bool:
        """Fill the map; return whether it holds the keys of all records up to the end."""
        state = self._state
        with held(state.lock):
            segments = [s for s in state.segments.all[:-1] if s.next_offset > first and s.base_offset < end_offset]
        transaction_filter = TransactionFilter(state.transactions.aborted_between(first, end_offset))
        limit = state.config.decompressed_max_bytes
        for segment in segments:
            start = segment.index.position_of(first) if first > segment.base_offset else 0
            for data, position in self._chunks(segment, start):
                at, path = 0, segment.path
                while True:
                    at, why = keys.add_run(data, first, position=at, limit=limit, path=path, file_position=position)
                    if why == _offset_map.FILLED:
                        return False
                    if why != _offset_map.DECIDE:
                        break
                    batch = BatchView(memoryview(data)[at:])
                    if transaction_filter.may_discard(batch) or batch.is_control:
                        keys.pass_over(batch.last_offset)
                    else:
                        _, why = keys.add_batch(
                            data, first, position=at, limit=limit, path=path, file_position=position
                        )
                        if why == _offset_map.FILLED:
                            return False
                    at += batch.size
                self._passed = at
            # A gap at the end holds no records: without this the map would end before it.
            keys.pass_over(segment.next_offset - 1)
        # Nor do the segments that a deletion removed since the plan, which may be all.
        keys.pass_over(end_offset - 1)
        self._check_markers_after(transaction_filter, end_offset)
        return True

    def _check_markers_after(self, transaction_filter: TransactionFilter, end_offset: int) -> None:
        """Check the aborted index against the markers of transactions that end after the compacted part."""
        waiting = transaction_filter.open_producers
        if not waiting:
            return
        state = self._state
        for batch in recovery.produced_batches(state.segments, end_offset, state.last_stable.value):
            if batch.marker is not None and batch.producer_id in waiting:
                transaction_filter.agree(batch.producer_id, batch.marker, batch.last_offset)
                waiting.discard(batch.producer_id)
                if not waiting:
                    return

    # -- reading

    def _chunks(self, segment: Segment, position: int) -> Iterator[tuple[bytes, int]]:
        """Yield chunks of a segment from a position on: the bytes, and their position.

        After each chunk, the caller sets `_passed` to the bytes of its whole batches.
        """
        state, end, want = self._state, segment.size, READ_BYTES
        while position < end:
            self._check()
            try:
                data = segment.file.read(position, min(want, end - position))
            except StorageError as error:
                self._check()
                if segment.file.closed or segment not in state.segments.all:
                    raise Superseded from error
                raise
            if self._throttle is not None:
                self._throttle(len(data))
            self._passed = 0
            yield data, position
            if self._passed:
                position += self._passed
                want = READ_BYTES
                continue
            # The batch, if it is one, is larger than the chunk.
            size = int.from_bytes(data[8:12], "big") + 12 if len(data) >= 12 else 0
            if size <= len(data) or size > end - position:
                raise CorruptRecordError(
                    f"the segment ends inside a batch: {end - position} bytes are there",
                    path=segment.path,
                    position=position,
                )
            want = size

    def _check(self) -> None:
        state = self._state
        if state.closing:
            raise LogClosedError(f"{state.name}: the log was closed during its compaction", path=state.path)
        state.check_writable()

    # -- cleaning

    def _clean(self, group: Sequence[Segment], filtered: Filter, transaction_filter: TransactionFilter) -> None:
        """Write the compacted form of a group of segments, and replace them by it if it differs."""
        state = self._state
        base = group[0].base_offset
        last_offsets, epochs = self._producers()
        filtered.begin(base, last_offsets)
        transaction_filter.listed.clear()
        changes = _changes(filtered)
        target = state.segments.begin_cleaned(base)
        try:
            for segment in group:
                self._pass(segment, segment is group[-1], filtered, transaction_filter, epochs, target)
            if len(group) == 1 and changes == _changes(filtered):
                segment_swap.discard(state, target)
                return
            target.seal()
            if filtered.last_dropped >= 0:
                shielded(self._record_dropped, filtered.last_dropped)
            self._generation = shielded(
                segment_swap.swap, state, group, target, list(transaction_filter.listed), self._generation
            )
        except BaseException:
            # After a failed swap the next open needs these files to finish it.
            if state.failed is None:
                segment_swap.discard(state, target)
            raise

    def _record_dropped(self, last_offset: int) -> None:
        """Record what the new segment lacks, before it takes the place of the old ones."""
        state = self._state
        with held(state.lock):
            state.check_whole_locked()
            if self._generation != state.segments.generation:
                # The log was cut: the number could be above its end.
                raise Superseded
            with state.storing_locked(is_append=False):
                state.cleaned.will_drop(last_offset, self._now_ms, drops_markers=self._drops_markers)

    def _producers(self) -> tuple[list[int], dict[int, int]]:
        """Return the last offset of each producer, rising, and the epochs of producers with only markers."""
        last_offsets, epochs = [], {}
        with held(self._state.lock):
            for producer in self._state.transactions.producers:
                if producer.batches:
                    last_offsets.append(producer.batches[-1].last_offset)
                else:
                    epochs[producer.producer_id] = producer.epoch
        return sorted(last_offsets), epochs

    def _pass(
        self,
        segment: Segment,
        ends_group: bool,
        filtered: Filter,
        transaction_filter: TransactionFilter,
        epochs: dict[int, int],
        target: Segment,
    ) -> None:
        end, path = segment.next_offset, segment.path
        for data, position in self._chunks(segment, 0):
            ends_here = ends_group and position + len(data) == segment.size
            at = 0
            while True:
                at, why = filtered.run(data, at, end, ends_here, path=path, file_position=position)
                if why != _compaction_filter.DECIDE:
                    break
                batch = BatchView(memoryview(data)[at:])
                is_spent = transaction_filter.may_discard(batch)
                horizon = batch.delete_horizon_ms
                is_over = not batch.is_control or (horizon is not None and horizon <= self._now_ms)
                self._drops_markers |= is_spent and is_over and batch.is_control and batch.record_count > 0
                # Without this marker, the epoch that fences its producer would be lost.
                fences = batch.is_control and epochs.get(batch.producer_id) == batch.producer_epoch
                at = filtered.decide(
                    data,
                    at,
                    end,
                    discard=is_spent and is_over,
                    marker_goes=is_spent and batch.is_control,
                    stays_empty=fences or (ends_here and at + batch.size == len(data)),
                    path=path,
                    file_position=position,
                )
            self._passed = at
            self._write(target, filtered)

    def _write(self, target: Segment, filtered: Filter) -> None:
        if not len(filtered):
            return
        if target.size + len(filtered) > INT32_MAX:
            raise InvalidRecordError(
                f"{self._state.name}: the segment at {target.base_offset} would grow past 2**31 bytes, since its "
                "tombstones get a delete horizon; compact with a smaller segment.bytes",
                path=target.path,
            )
        target.append(filtered, -1, -1)
        if self._throttle is not None:
            self._throttle(len(filtered))
        filtered.clear()


def _level_of(config: LogConfig) -> Callable[[int], int]:
    """Return a function from codec to level. A method of the run would keep the run alive with its filters."""
    return lambda codec: config.level_of(Codec(codec))


def _changes(filtered: Filter) -> int:
    return filtered.batches_rewritten + filtered.batches_emptied + filtered.batches_dropped
