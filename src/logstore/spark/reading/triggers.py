"""Decisions of a stream: where it begins, how far each trigger goes, and the ranges between two offsets.

Knows no Spark: `source.StreamReader` puts a `StreamPlanner` behind Spark's interface. Only this module compares a
checkpoint with the log. It detects a topic that was re-created, a log that was truncated, and records that were
deleted. Used by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Mapping

from logstore.client.backend.ranges import Range, RangeBackend, RangeTopic
from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.records import TopicPartition
from logstore.spark.reading.fetches import backend_of
from logstore.spark.reading.offsets import StreamOffsets
from logstore.spark.reading.options import LATEST, Bound, ReadOptions, names
from logstore.spark.reading.plan import Offsets, chosen_topics, data_loss, hold_within, resolve, split, subscribed

_NEW_CHECKPOINT = ", or begin a query with a new checkpoint"


class StreamPlanner:
    """Planner of a stream, trigger by trigger.

    State: the target of `Trigger.AvailableNow`, the newest offsets seen, and the time of the last trigger that
    moved on.
    """

    def __init__(self, options: ReadOptions, clock: Clock = SYSTEM_CLOCK) -> None:
        self.options = options
        self._clock = clock
        self._target: StreamOffsets | None = None
        self._newest: Mapping[TopicPartition, int] = {}
        self._last_trigger_ms: int | None = None

    @property
    def backend(self) -> RangeBackend:
        """Return the back end, looked up each time: another store may have replaced the one that was open."""
        return backend_of(self.options)

    def initial(self) -> StreamOffsets:
        """Return where a query without a checkpoint begins.

        Raises:
            UnknownTopicError, UnknownPartitionError: a topic or partition does not exist.
            SparkOptionError, DataLossError: the start is wrong, or its records are missing.
        """
        backend = self.backend
        topics, partitions = self._there(backend)
        start = self.options.start or Bound("startingOffsets", word=LATEST)
        starts = resolve(start, partitions, backend, is_start=True, no_match=self.options.no_match)
        if start.offsets is not None:
            hold_within(self.options, starts, dict(backend.latest(partitions)), backend)
        return self._reached(starts, topics, {}, backend)._replace(is_first=True)

    def prepare(self) -> None:
        """Limit all later triggers to the records that exist now (`Trigger.AvailableNow`)."""
        backend = self.backend
        topics, partitions = self._there(backend)
        self._target = self._reached(backend.latest(partitions), topics, {}, backend)

    def newest(self) -> Mapping[TopicPartition, int]:
        """Return how far the last `latest` could have gone."""
        return self._newest

    def latest(self, start: StreamOffsets, *, everything: bool = False) -> StreamOffsets:
        """Return the end of the next batch from ``start``: ``start`` itself if there are no or too few records.

        With ``everything`` no limit applies.

        Raises:
            DataLossError: records after ``start`` are missing, and ``failOnDataLoss`` is true.
        """
        backend = self.backend
        topics, partitions = self._there(backend)
        ends = dict(backend.latest(partitions)) if self._target is None else dict(self._target.offsets)
        self._newest = ends
        # Planning the batch logs the loss; logging it here too would repeat it.
        begins = self._begins(start, topics, ends, backend, quietly=not self.options.fail_on_data_loss)
        ends = {tp: max(end, begins[tp]) for tp, end in ends.items() if tp in begins}
        if not everything:
            if self._is_too_little(begins, ends):
                return start
            ends = self._limited(begins, ends, backend)
        found = self._reached(ends, topics, start, backend)
        if found.is_at(start):
            return start  # Spark compares texts, and those of ``began`` and ``is_first`` may differ
        return found._replace(began=start._replace(is_first=False)) if start.is_first else found

    def ranges(self, start: StreamOffsets, end: StreamOffsets) -> list[Range]:
        """Return the ranges of a batch, split for tasks.

        Raises:
            DataLossError: some records are missing, and ``failOnDataLoss`` is true.
        """
        if end.began is not None:
            # After a restart, ``start`` is where a query would begin now: repeating the batch from it would differ.
            start = end.began
        backend = self.backend
        there = backend.topics()
        topics = {tp.topic: there[tp.topic] for tp in (*start.offsets, *end.offsets) if tp.topic in there}
        begins = self._begins(start, topics, end.offsets, backend)
        gone = {tp.topic for tp in end.offsets if tp.topic in topics and _is_other(end, topics[tp.topic])}
        for name in sorted(gone):
            if not _is_other(start, topics[name]):  # else `_begins` has reported it
                data_loss(_recreated(name), fail=self.options.fail_on_data_loss, otherwise=_NEW_CHECKPOINT)
        ranges = [
            Range(tp.topic, tp.partition, begins[tp], offset, topics[tp.topic].id, end.epochs.get(tp, -1))
            for tp, offset in sorted(end.offsets.items())
            if tp in begins and tp.topic not in gone
        ]
        return split(ranges, self.options, backend)

    # -- topics and offsets

    def _there(self, backend: RangeBackend) -> tuple[dict[str, RangeTopic], list[TopicPartition]]:
        """Return the topics that the options choose, and the partitions of them that are read."""
        # Options are checked here: PySpark would not show an error of the reader's constructor.
        topics = chosen_topics(self.options.for_stream(), backend)
        return topics, subscribed(self.options, topics)

    def _reached(
        self,
        offsets: Offsets,
        topics: Mapping[str, RangeTopic],
        start: StreamOffsets | Mapping[str, object],
        backend: RangeBackend,
    ) -> StreamOffsets:
        """Return offsets with topic ids and leader epochs; a partition that has not moved keeps its epoch."""
        known = start if isinstance(start, StreamOffsets) else StreamOffsets({})
        epochs = {}
        for tp, offset in offsets.items():
            kept = known.offsets.get(tp) == offset and not _is_other(known, topics[tp.topic])
            epochs[tp] = known.epochs.get(tp, -1) if kept else backend.epoch_at(tp)
        ids = {tp.topic: topics[tp.topic].id for tp in offsets}
        return StreamOffsets(offsets, ids, epochs)

    # -- missing records

    def _begins(
        self,
        start: StreamOffsets,
        topics: Mapping[str, RangeTopic],
        ends: Mapping[TopicPartition, int],
        backend: RangeBackend,
        *,
        quietly: bool = False,
    ) -> Offsets:
        """Return where each partition of ``ends`` continues: at ``start``, or at the records that are left."""

        def lost(message: str) -> None:
            if not quietly:
                data_loss(message, fail=self.options.fail_on_data_loss, otherwise=_NEW_CHECKPOINT)

        there = [tp for tp in ends if tp.topic in topics and tp.partition < topics[tp.topic].partitions]
        if gone := set(start.offsets) - set(there):
            lost(f"{names(gone)}: deleted, or not subscribed to any more, since the checkpoint was written")
        earliest = backend.earliest(there)
        begins: Offsets = {}
        for name in sorted({tp.topic for tp in there}):
            if _is_other(start, topics[name]):
                lost(_recreated(name))
        latest = backend.latest([tp for tp in there if tp in start.offsets])
        for tp in there:
            offset, first = start.offsets.get(tp), earliest[tp]
            if offset is None or _is_other(start, topics[tp.topic]):
                begins[tp] = first
                continue
            epoch = start.epochs.get(tp, -1)
            ended = backend.end_of_epoch(tp, epoch) if epoch >= 0 else None
            if ended is not None and ended < offset:
                lost(
                    f"{tp}: the log was truncated to offset {ended} since offset {offset} was read; records that "
                    "were read are gone, and other records have their offsets"
                )
                offset = ended
            elif ended is None and latest[tp] < offset:
                lost(f"{tp}: offset {offset} was reached, but the log ends at {latest[tp]} now")
                offset = latest[tp]
            if offset < first:
                lost(f"{tp}: offsets {offset} to {first - 1} are deleted, the log begins at {first}")
                offset = first
            begins[tp] = offset
        return begins

    # -- limits

    def _is_too_little(self, begins: Offsets, ends: Offsets) -> bool:
        """Return whether the trigger waits for more records (``minOffsetsPerTrigger``)."""
        least = self.options.min_offsets
        if least is None or self._target is not None:  # waiting would keep AvailableNow from reaching its end
            return False
        now_ms = self._clock.now_ms()
        last_ms = self._last_trigger_ms
        waits = last_ms is not None and now_ms - last_ms < self.options.max_delay_ms
        if waits and sum(ends[tp] - begins[tp] for tp in ends) < least:
            return True
        self._last_trigger_ms = now_ms
        return False

    def _limited(self, begins: Offsets, ends: Offsets, backend: RangeBackend) -> Offsets:
        lags = {tp: ends[tp] - begins[tp] for tp in ends}
        until = dict(ends)
        if self.options.max_offsets is not None:
            until = {tp: begins[tp] + part for tp, part in share(self.options.max_offsets, lags).items()}
        if self.options.max_bytes is not None:
            for tp, size in share(self.options.max_bytes, lags, cap=False).items():
                if lags[tp]:
                    until[tp] = min(until[tp], backend.offset_after_bytes(tp, begins[tp], ends[tp], size))
        return until


def share(limit: int, lags: Mapping[TopicPartition, int], *, cap: bool = True) -> dict[TopicPartition, int]:
    """Divide a limit in proportion to the lag of each partition, at least 1 where there is a lag.

    As in Spark's Kafka source. With ``cap`` no share is larger than the lag.
    """
    total = sum(lags.values())
    if cap and total <= limit:
        return dict(lags)
    return {
        tp: 0 if not lag else min(max(limit * lag // total, 1), lag if cap else limit) for tp, lag in lags.items()
    }


def _is_other(offsets: StreamOffsets, facts: RangeTopic) -> bool:
    """Return whether a topic is another than the one known by its name."""
    known = offsets.ids.get(facts.name, "")
    return bool(known and facts.id and known != facts.id)


def _recreated(name: str) -> str:
    return (
        f"topic {name!r} was deleted and created again since the checkpoint was written: what was not read of the "
        "old one is gone, the new one is read from its beginning"
    )
