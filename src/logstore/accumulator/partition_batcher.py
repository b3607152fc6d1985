"""Batcher of one partition: the open batch, the sealed batches, and their order.

A record is added to the open batch under `_lock`, or without a lock on the fast path (`_batcher.FastBatcher`).
Batches are appended in order under `_writing`, so records can be added meanwhile. With a producer id a batch gets
its sequence when it is first appended, and keeps it until it is in the log. So the log detects a retried batch.
The next batch reuses the sequence of a batch that is given up: there is no gap. Lock order: `_writing`, then
`_lock`. Neither is held while a future's callbacks run.

The batcher does not close the log. Any thread may use a batcher.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import inf
from typing import Any, NamedTuple

from logstore.accumulator._batcher import BatchResult, FastBatcher, SendFuture, headers_size, listed, size_of
from logstore.accumulator.memory import BufferMemory
from logstore.accumulator.syncing import AppendableLog, Syncing
from logstore.batch._encode import Encoder, timestamp_of
from logstore.clock import Clock
from logstore.config.client import ProducerConfig
from logstore.config.log import LogConfig, check_keys, check_timestamps
from logstore.errors import OUT_OF_RESOURCES, LogstoreError, NotSyncedError, RecordError, RecordTooLargeError
from logstore.io._interrupts import guarded, held, together, tried
from logstore.records import (
    INT32_MAX,
    INT64_MAX,
    Ack,
    AppendResult,
    Codec,
    ProducerStamp,
    TimestampType,
    TopicPartition,
)

_logger = logging.getLogger(__name__)

_SPARE_ENCODERS = 8
_RECORD_BYTES = 40  #: upper limit of a record's bytes without key, value and headers


class BatchConfig(NamedTuple):
    """Batch settings of an appender, which never gives up a batch for lack of time or space.

    A producer uses its `ProducerConfig` instead, which has the same fields and more.
    """

    linger_ms: int
    batch_size: int
    codec: Codec
    level: int  #: of the codec
    max_request_size: float = inf
    retries: float = inf
    retry_backoff_ms: int = 0
    delivery_timeout_ms: float = inf


@dataclass(slots=True)
class Counts:
    """Counters of a batcher; changed only under `_writing`."""

    records: int = 0
    batches: int = 0
    bytes: int = 0
    retries: int = 0
    failed_records: int = 0


@dataclass(slots=True)
class Shared:
    """State that all batchers of one producer share."""

    config: ProducerConfig | BatchConfig
    clock: Clock
    #: True for an appender: the call that writes raises errors. A batch stays queued until it is written or the
    #: log refuses its records; the log checks them. False for a producer: only futures get errors of a write, and
    #: `add` checks each record.
    raises: bool = False
    memory: BufferMemory | None = None
    syncing: Syncing | None = None  #: None: the append itself waits for the disk if its ack asks for that
    stamp: tuple[int, int] | None = None  #: producer id and epoch; None: not idempotent
    ack: Ack | None = None  #: None: the topic's setting
    active: set[PartitionBatcher] = field(default_factory=set)  #: batchers that hold records
    #: Results of failed batches of which a future was dropped; None: their errors are ignored.
    failures: list[BatchResult] | None = field(default_factory=list)
    spare: list[Encoder] = field(default_factory=list)  #: spare encoders with buffers that have grown


@dataclass(slots=True)
class _Rules:
    """Rules of a batch, derived from the settings of a log and of a producer."""

    config: LogConfig
    codec: Codec
    level: int
    limit: int  #: bytes of a batch before compression
    limits: tuple[tuple[str, int], ...]  #: the settings that `limit` comes from, with their values
    full_bytes: int
    append_time: bool
    ack: Ack  #: the log's default
    #: How long after the time of its batch a timestamp may be on the fast path; -1: no timestamps there.
    ahead_ms: int

    @classmethod
    def of(cls, log: LogConfig, batches: ProducerConfig | BatchConfig) -> _Rules:
        codec = log.codec
        limit = log.batch_limit
        return cls(
            log,
            batches.codec if codec is None else codec,
            batches.level if codec is None else log.level_of(codec),
            limit,
            log.batch_limits,
            min(batches.batch_size, limit),
            log.timestamp_type is TimestampType.LOG_APPEND_TIME,
            log.default_ack,
            # The limit of past timestamps moves with the clock, but the time of a batch does not: with such a
            # limit the slow path must check each timestamp.
            log.message_timestamp_after_max_ms
            if log.message_timestamp_before_max_ms == INT64_MAX
            and log.timestamp_type is not TimestampType.LOG_APPEND_TIME
            else -1,
        )


@dataclass(slots=True)
class _ProducerBatch:
    encoder: Encoder
    batch_result: BatchResult
    reserved: int  #: bytes of the buffer memory
    opened_s: float
    sequence: int = -1  #: of its first record; -1 until it is appended for the first time
    retries: int = 0


class WriteTurn:
    """Result of one call of `PartitionBatcher.write`."""

    __slots__ = ("ack", "answered", "appended", "error", "is_done", "waits")

    def __init__(self, ack: Ack | str | None, waits: bool) -> None:
        self.ack = ack
        self.waits = waits
        self.answered: list[BatchResult] = []
        self.appended: list[AppendResult] = []
        self.error: Exception | None = None  #: the first error
        self.is_done = True  #: False: a batch has to wait for a retry


class PartitionBatcher(FastBatcher):
    """A batcher that collects records for one partition and appends them in order."""

    def __init__(self, name: TopicPartition, open_log: Callable[[], AppendableLog], shared: Shared) -> None:
        self.name = name
        self._open_log = open_log
        self._shared = shared
        self._config = shared.config
        self._rules: _Rules | None = None
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._batch: _ProducerBatch | None = None
        self._sealed: deque[_ProducerBatch] = deque()
        self.counts = Counts()
        self.failure: Exception | None = None  #: of a write for which no caller waited
        self._refusal: Callable[[], Exception] | None = None  #: makes the error of `add` once closed
        self._next_sequence = 0
        self._retry_s = 0.0  #: monotonic time before which no batch is retried, after a full disk
        self._full_bytes_now = shared.config.batch_size

    @cached_property
    def log(self) -> AppendableLog:
        """The partition's log, opened when the first record is added."""
        return self._open_log()

    # -- gathering

    def add(self, value: Any, key: Any, timestamp: Any, headers: Any) -> SendFuture | int:
        """Add one record and return its future.

        If a new batch is needed and the buffer memory is full, add nothing and return the bytes that it needs.

        Raises:
            RecordError: the record is invalid. Nothing was added.
            StoreClosedError, LogClosedError: the batcher is closed; `close` was given this error.
        """
        if headers is not None and not isinstance(headers, list | tuple):
            headers = listed(headers)
        rules, shared = self._rules_now(), self._shared
        timestamp_ms = None
        if timestamp is not None and not rules.append_time:
            timestamp_ms = timestamp_of(timestamp)
            if not shared.raises:
                check_timestamps(timestamp_ms, timestamp_ms, rules.config, shared.clock.now_ms())
        if key is None and not shared.raises:
            check_keys(1, rules.config)
        size = size_of(value) + size_of(key)
        if size > self._config.max_request_size:
            limits = (("max.request.size", int(self._config.max_request_size)), *rules.config.batch_limits)
            raise RecordTooLargeError.over(f"{self.name}: a record", size, limits, ("split the record",))
        size += headers_size(headers) + _RECORD_BYTES
        limit = rules.limit
        with held(self._lock):
            if self._refusal is not None:
                raise self._refusal()
            self.pause()
            try:
                batch = self._batch
                if batch is not None:
                    pending = batch.encoder.pending_bytes
                    # A batch has one base sequence and cannot be split. A record above the limit gets its own
                    # batch: it may fit once compressed.
                    if pending and (pending >= self._full_bytes_now or pending + size > limit):
                        self._seal_locked()
                        batch = None
                if batch is None:
                    reserved = max(rules.full_bytes, size)
                    if shared.memory is not None and not shared.memory.try_reserve(reserved):
                        return reserved
                    batch = self._begin_locked(reserved, rules)
                try:
                    batch.encoder.add(value, key, timestamp_ms, headers)
                except BaseException:
                    if not batch.encoder.pending_records:
                        # An empty batch left open would give its old time to a record that comes much later.
                        self._batch = None
                        self._release(batch)
                    raise
                return batch.batch_result.claim(batch.encoder, timestamp_ms)
            finally:
                if self._batch is not None:
                    self.resume(self._batch.encoder, self._batch.batch_result, self._full_bytes_now, rules.ahead_ms)

    def _rules_now(self) -> _Rules:
        """Return the rules for the log's settings; derive them again if the settings have changed."""
        config = self.log._config
        rules = self._rules
        if rules is None or rules.config is not config:
            rules = self._rules = _Rules.of(config, self._config)
        return rules

    def _begin_locked(self, reserved: int, rules: _Rules) -> _ProducerBatch:
        shared = self._shared
        try:
            encoder = shared.spare.pop()
        except IndexError:
            encoder = Encoder()
        encoder.begin(
            timestamp_ms=shared.clock.now_ms(),
            codec=rules.codec,
            level=rules.level,
            limits=rules.limits,
            append_time=rules.append_time,
        )
        self._full_bytes_now = rules.full_bytes if self._config.linger_ms or shared.raises else 0
        result = BatchResult(self.name.topic, self.name.partition, clock=shared.clock, failures=shared.failures)
        batch = self._batch = _ProducerBatch(encoder, result, reserved, shared.clock.monotonic_s())
        shared.active.add(self)
        return batch

    def _seal_locked(self) -> None:
        """Seal the open batch, so that it is written; the next record opens another."""
        self.pause()
        if self._batch is not None:
            # An interrupt between the two steps would leave it open and sealed: it would be written twice.
            together(partial(self._sealed.append, self._batch), partial(setattr, self, "_batch", None))

    # -- writing

    def is_due(self) -> bool:
        """Return whether a batch is sealed or full, so that it is written without regard to linger."""
        batch = self._batch
        return bool(self._sealed) or (batch is not None and self._is_full(batch))

    def _is_full(self, batch: _ProducerBatch) -> bool:
        return batch.encoder.pending_bytes >= max(self._full_bytes_now, 1)

    def _has_lingered(self, batch: _ProducerBatch) -> bool:
        return (self._shared.clock.monotonic_s() - batch.opened_s) * 1000 >= self._config.linger_ms

    def is_ready(self) -> bool:
        """Return whether a batch is sealed or full, or has lingered."""
        batch = self._batch
        return self.is_due() or (batch is not None and self._has_lingered(batch))

    def is_oversized(self) -> bool:
        """Return whether the open batch is above the limit, so that only compression can make it fit.

        If it does not fit, all its records fail: no other record may be added.
        """
        batch, rules = self._batch, self._rules
        return batch is not None and rules is not None and batch.encoder.pending_bytes > rules.limit

    @property
    def is_empty(self) -> bool:
        return self._batch is None and not self._sealed

    def newest_result(self) -> BatchResult | None:
        """Return the result of the newest batch, which is written last; None if no batch is left."""
        with held(self._lock):
            batch = self._batch or (self._sealed[-1] if self._sealed else None)
            return None if batch is None else batch.batch_result

    def write(self, *, force: bool = False, wait: bool = True, ack: Ack | str | None = Ack.WRITTEN) -> WriteTurn:
        """Append the batches that are sealed, full or have lingered, or with ``force`` all batches.

        Errors are passed to the futures and to the returned turn. With ``wait=False`` nothing is done if another
        thread is writing batches of this partition.
        """
        turn = WriteTurn(ack, wait)
        guarded(
            partial(tried, self._writing, wait, partial(self._write_sealed, force, turn), None),
            partial(self._notify, turn.answered),
        )
        return turn

    def _write_sealed(self, force: bool, turn: WriteTurn) -> None:
        with held(self._lock):
            batch = self._batch
            if batch is not None and (force or self._is_full(batch) or self._has_lingered(batch)):
                self._seal_locked()
        if self._sealed and not force and self._shared.clock.monotonic_s() < self._retry_s:
            turn.is_done = False
        while self._sealed and turn.is_done:
            self._append(self._sealed[0], turn)

    def _notify(self, answered: list[BatchResult]) -> None:
        """Run the callbacks of these results, and mark the batcher as active if it holds batches."""
        # In this order: a thread that opens a batch meanwhile marks the batcher as active again.
        self._shared.active.discard(self)
        if self._batch is not None or self._sealed:
            self._shared.active.add(self)
        for batch_result in answered:
            batch_result.notify()

    def _append(self, batch: _ProducerBatch, turn: WriteTurn) -> None:
        """Append the oldest sealed batch. After an error it is given up or left for another try (`_fail`)."""
        shared, encoder, batch_result = self._shared, batch.encoder, batch.batch_result
        stamp = None
        count = encoder.pending_records
        if shared.stamp is not None:
            if batch.sequence < 0:
                batch.sequence = self._next_sequence
                self._next_sequence = (batch.sequence + count) & INT32_MAX
            stamp = ProducerStamp(*shared.stamp, batch.sequence)
            encoder.number(*stamp[:3])
        try:
            size = len(encoder.finish())
            result = self.log._append_encoded(encoder, producer=stamp, ack=turn.ack)
        except Exception as error:
            if encoder.appended_at >= 0 and not isinstance(error, LogstoreError):
                raise  # of a signal handler, as below
            self._fail(batch, error, turn)  # passed to the futures
            return
        # After an interrupt the batch stays queued. The encoder knows whether its batch is in the log; if so, the
        # next call writes nothing and acknowledges it.
        turn.appended.append(result)
        # Answered first: if an interrupt leaves the batch queued, it is retried and the repetition is detected.
        if shared.syncing is not None and (shared.ack or self._rules_now().ack) is Ack.SYNCED:
            shared.syncing.add(self.log, batch_result, result.first_offset, result.last_offset, result.timestamp_ms)
        else:
            batch_result.acknowledge(result.first_offset, result.timestamp_ms)
            turn.answered.append(batch_result)
        self._sealed.popleft()
        counts = self.counts
        counts.records += count
        counts.batches += 1
        counts.bytes += size
        self._release(batch)

    def _fail(self, batch: _ProducerBatch, error: Exception, turn: WriteTurn) -> None:
        """Give up a batch that could not be appended, or leave it for another try."""
        turn.error = turn.error or error
        if isinstance(error, OUT_OF_RESOURCES):
            if self._may_retry(batch):
                _logger.info("records wait for room: partition=%s error=%s", self.name, error)
                turn.is_done = False
                return
        elif self._shared.raises:
            if not turn.waits:
                # Set under `_writing`: a flush that waits for this write finds the error afterwards.
                self.failure = error
            if not isinstance(error, (RecordError, NotSyncedError)):
                batch.batch_result.fail(error)
                turn.answered.append(batch.batch_result)
                turn.is_done = False
                return
        self._give_up(batch, error, turn.answered)

    def _may_retry(self, batch: _ProducerBatch) -> bool:
        now_s = self._shared.clock.monotonic_s()
        batch.retries += 1
        self.counts.retries += 1
        self._retry_s = now_s + self._config.retry_backoff_ms / 1000
        return (
            batch.retries <= self._config.retries
            and (now_s - batch.opened_s) * 1000 < self._config.delivery_timeout_ms
        )

    def _give_up(self, batch: _ProducerBatch, error: BaseException, answered: list[BatchResult]) -> None:
        batch.batch_result.fail(error)
        answered.append(batch.batch_result)
        self._sealed.popleft()
        if batch.sequence >= 0:
            # Batches are in order, so no later batch has a sequence yet: the next one reuses this.
            self._next_sequence = batch.sequence
        self.counts.failed_records += batch.encoder.pending_records
        self._release(batch)

    def abandon(self, error: BaseException) -> None:
        """Give up all batches that are not written: their futures are answered with ``error``."""
        answered: list[BatchResult] = []
        with held(self._writing):
            with held(self._lock):
                self._seal_locked()
            while self._sealed:
                self._give_up(self._sealed[0], error, answered)
        for batch_result in answered:
            batch_result.notify()

    def close(self, refusal: Callable[[], Exception] | None) -> None:
        """Refuse further records with the error that ``refusal`` makes; None accepts records again.

        Batches that are not written stay.
        """
        with held(self._lock):
            self._refusal = refusal
            self.pause()

    def _release(self, batch: _ProducerBatch) -> None:
        shared = self._shared
        if shared.memory is not None:
            shared.memory.release(batch.reserved)
        if len(shared.spare) < _SPARE_ENCODERS:
            shared.spare.append(batch.encoder)

    def __repr__(self) -> str:
        return f"<PartitionBatcher {self.name}>"
