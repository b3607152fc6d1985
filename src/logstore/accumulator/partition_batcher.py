"""One partition as a producer sees it: the batch that is open, those that wait, and their order.

A record goes into the open batch under `_lock`, or without it the quick way (`_produce.SendBatcher`). Batches
leave in order under `_writing`, which is held while one is appended, so records go on being gathered
meanwhile. A batch gets its sequence when it is appended and keeps it until it is in the log: what is
tried again is known again, and what is given up leaves no gap. Lock order: `_writing`, then `_lock`;
neither is held while a future is answered.

Assumes that the log belongs to somebody else. Any thread may use a batcher.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from logstore.accumulator._batcher import BatchResult, SendBatcher, SendFuture
from logstore.accumulator.memory import BufferMemory
from logstore.accumulator.syncing import Syncing
from logstore.batch._encode import Encoder, timestamp_of
from logstore.clock import Clock
from logstore.config.client import ProducerConfig
from logstore.config.log import LogConfig
from logstore.config.schema import INT64_MAX
from logstore.errors import NO_ROOM, RecordTooLargeError, StoreClosedError
from logstore.io._interrupts import guarded, held, together, tried
from logstore.log import Log, ProducerStamp
from logstore.log.append.validation import check_keys, check_timestamps
from logstore.log.moments import Time
from logstore.records import Ack, Codec, TimestampType, TopicPartition

_logger = logging.getLogger(__name__)

_INT32_MAX = 2**31 - 1
_SPARE_ENCODERS = 8
_RECORD_BYTES = 40  #: what a record takes beside its key, value and headers, at most


@dataclass(slots=True)
class Counts:
    """What a batcher has done; counted by whoever holds its order."""

    records: int = 0
    batches: int = 0
    bytes: int = 0
    retries: int = 0
    failed_records: int = 0


@dataclass(slots=True)
class Shared:
    """What all batchers of one producer have in common."""

    config: ProducerConfig
    clock: Clock
    memory: BufferMemory
    syncing: Syncing
    stamp: tuple[int, int] | None  #: producer id and epoch; None: not idempotent
    ack: Ack | None  #: None: what the topic says
    active: set[PartitionBatcher] = field(default_factory=set)  #: batchers that hold records
    failures: list[BatchResult] = field(default_factory=list)  #: of which no future tells
    spare: list[Encoder] = field(default_factory=list)  #: encoders with buffers that have grown

    def batch_result(self, name: TopicPartition) -> BatchResult:
        failures = None if self.config.acks == "0" else self.failures
        return BatchResult(name.topic, name.partition, clock=self.clock, failures=failures)

    def encoder(self) -> Encoder:
        try:
            return self.spare.pop()
        except IndexError:
            return Encoder()


@dataclass(slots=True)
class _Rules:
    """What the settings of a log and of a producer come to."""

    config: LogConfig
    codec: Codec
    level: int
    limit: int  #: bytes of a batch before compression
    limits: tuple[tuple[str, int], ...]  #: and the settings that it comes from
    full_bytes: int
    append_time: bool
    ack: Ack  #: the log's own
    ahead_ms: int  #: how far ahead of its batch's time a timestamp may be given the quick way; -1: not at all

    @classmethod
    def of(cls, log: LogConfig, producer: ProducerConfig) -> _Rules:
        codec = log.codec
        limit = log.batch_limit
        return cls(
            log,
            producer.codec if codec is None else codec,
            _level(producer, producer.codec) if codec is None else log.level_of(codec),
            limit,
            log.batch_limits,
            min(producer.batch_size, limit),
            log.timestamp_type is TimestampType.LOG_APPEND_TIME,
            log.default_ack,
            # Of what lies behind, the bound moves on with the clock, and a batch's time does not.
            log.message_timestamp_after_max_ms
            if log.message_timestamp_before_max_ms == INT64_MAX
            and log.timestamp_type is not TimestampType.LOG_APPEND_TIME
            else -1,
        )


@dataclass(slots=True)
class _Batch:
    encoder: Encoder
    batch_result: BatchResult
    taken: int  #: of the buffer memory
    opened_s: float
    sequence: int = -1  #: of its first record; -1 until it is appended for the first time
    retries: int = 0


class PartitionBatcher(SendBatcher):
    """Gathers records for one partition and appends them in order."""

    def __init__(self, name: TopicPartition, open_log: Callable[[], Log], shared: Shared) -> None:
        self.name = name
        self._open_log = open_log
        self._shared = shared
        self._config = shared.config
        self._log: Log | None = None
        self._rules: _Rules | None = None
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._batch: _Batch | None = None
        self._sealed: deque[_Batch] = deque()
        self.counts = Counts()
        self._closed = False
        self._next_sequence = 0
        self._retry_s = 0.0  #: after a full disk: not before
        self._full_bytes_now = shared.config.batch_size

    @property
    def log(self) -> Log:
        """The partition's log, opened when the first record comes."""
        log = self._log
        if log is None:
            log = self._log = self._open_log()
        return log

    # -- gathering

    def add(self, value: Any, key: Any, timestamp: Time | None, headers: Any) -> SendFuture | int:
        """Gather one record; its future, or how many bytes of memory are missing for another batch.

        Raises:
            RecordError: the record cannot be. Nothing was gathered.
            StoreClosedError: the batcher is closed.
        """
        if headers is not None and not isinstance(headers, list | tuple):
            headers = _listed(headers)
        rules = self._rules_now()
        timestamp_ms = None
        if timestamp is not None and not rules.append_time:
            timestamp_ms = timestamp_of(timestamp)
            check_timestamps(timestamp_ms, timestamp_ms, rules.config, self._shared.clock.now_ms())
        if key is None:
            check_keys(1, rules.config)
        size = _size(value) + _size(key)
        if size > self._config.max_request_size:
            limits = (("max.request.size", self._config.max_request_size), *rules.config.batch_limits)
            raise RecordTooLargeError.over(f"{self.name}: a record", size, limits, ("split the record",))
        size += _headers_size(headers) + _RECORD_BYTES
        limit = rules.limit
        with held(self._lock):
            if self._closed:
                raise StoreClosedError("the producer is closed; the record was not sent")
            self.pause()
            try:
                batch = self._batch
                if batch is not None:
                    pending = batch.encoder.pending_bytes
                    # A batch must stay one: it has one sequence. And what only a codec makes fit goes alone.
                    if pending and (pending >= self._full_bytes_now or pending + size > limit):
                        self._seal_locked()
                        batch = None
                if batch is None:
                    taken = max(rules.full_bytes, size)
                    if not self._shared.memory.try_take(taken):
                        return taken
                    batch = self._begin_locked(taken, rules)
                try:
                    batch.encoder.add(value, key, timestamp_ms, headers)
                except BaseException:
                    if not batch.encoder.pending_records:
                        # Left open, it would give its time to a record that comes much later.
                        self._batch = None
                        self._let_go(batch)
                    raise
                return batch.batch_result.claim(batch.encoder, timestamp_ms)
            finally:
                if self._batch is not None:
                    self.open_for(
                        self._batch.encoder, self._batch.batch_result, self._full_bytes_now, rules.ahead_ms
                    )

    def _rules_now(self) -> _Rules:
        """What the log's settings come to, worked out anew when they have changed."""
        config = self.log.config
        rules = self._rules
        if rules is None or rules.config is not config:
            rules = self._rules = _Rules.of(config, self._config)
        return rules

    def _begin_locked(self, taken: int, rules: _Rules) -> _Batch:
        shared = self._shared
        encoder = shared.encoder()
        encoder.begin(
            timestamp_ms=shared.clock.now_ms(),
            codec=rules.codec,
            level=rules.level,
            limits=rules.limits,
            append_time=rules.append_time,
        )
        self._full_bytes_now = rules.full_bytes if self._config.linger_ms else 0
        batch = self._batch = _Batch(encoder, shared.batch_result(self.name), taken, shared.clock.monotonic_s())
        shared.active.add(self)
        return batch

    def _seal_locked(self) -> None:
        """Let the open batch wait to be written; the next record opens another."""
        self.pause()
        if self._batch is not None:
            # Both or none: a batch that is open and sealed would be written twice.
            together(partial(self._sealed.append, self._batch), partial(setattr, self, "_batch", None))

    # -- writing

    def is_due(self) -> bool:
        """Whether there is something to write now, linger or not."""
        batch = self._batch
        return bool(self._sealed) or (batch is not None and self._is_full(batch))

    def _is_full(self, batch: _Batch) -> bool:
        return batch.encoder.pending_bytes >= max(self._full_bytes_now, 1)

    def _has_lingered(self, batch: _Batch) -> bool:
        return (self._shared.clock.monotonic_s() - batch.opened_s) * 1000 >= self._config.linger_ms

    def must_go(self) -> bool:
        """Whether something is full, has waited long enough, or waits to be tried again."""
        batch = self._batch
        return self.is_due() or (batch is not None and self._has_lingered(batch))

    @property
    def is_empty(self) -> bool:
        return self._batch is None and not self._sealed

    def newest_result(self) -> BatchResult | None:
        """Of the batch that is written last of all that are gathered now; None if nothing is."""
        with held(self._lock):
            batch = self._batch or (self._sealed[-1] if self._sealed else None)
            return None if batch is None else batch.batch_result

    def write(self, *, force: bool = False, wait: bool = True) -> bool:
        """Append what is due, or with ``force`` all that is gathered; False if some of it has to wait for room.

        Without ``wait`` a batcher that another thread writes is left to that one. Failures reach the futures.
        """
        answered: list[BatchResult] = []

        def write() -> bool:
            return tried(self._writing, wait, partial(self._write_sealed, force, answered), True)

        return guarded(write, partial(self._tell, answered))

    def _write_sealed(self, force: bool, answered: list[BatchResult]) -> bool:
        with held(self._lock):
            batch = self._batch
            if batch is not None and (force or self._is_full(batch) or self._has_lingered(batch)):
                self._seal_locked()
        if self._sealed and not force and self._shared.clock.monotonic_s() < self._retry_s:
            return False
        while self._sealed:
            if not self._append(self._sealed[0], answered):
                return False
        return True

    def _tell(self, answered: list[BatchResult]) -> None:
        """Wake those who wait for what was written, and list the batcher if there is more to write."""
        # In this order: who opens a batch meanwhile lists the batcher again.
        self._shared.active.discard(self)
        if not self.is_empty:
            self._shared.active.add(self)
        for batch_result in answered:
            batch_result.tell()

    def _append(self, batch: _Batch, answered: list[BatchResult]) -> bool:
        """Append the oldest batch that waits; False: it goes on waiting for room."""
        shared, encoder, batch_result = self._shared, batch.encoder, batch.batch_result
        stamp = None
        count = encoder.pending_records
        if shared.stamp is not None:
            if batch.sequence < 0:
                batch.sequence = self._next_sequence
                self._next_sequence = (batch.sequence + count) & _INT32_MAX
            stamp = ProducerStamp(*shared.stamp, batch.sequence)
            encoder.number(*stamp[:3])
        try:
            size = len(encoder.finish())
            result = self.log.append_encoded(encoder, producer=stamp, ack=Ack.WRITTEN)
        except NO_ROOM as error:
            if self._may_retry(batch):
                _logger.info("records wait for room: partition=%s error=%s", self.name, error)
                return False
            self._give_up(batch, error, answered)
            return True
        except Exception as error:  # noqa: BLE001  it is handed to whoever waits
            self._give_up(batch, error, answered)
            return True
        except BaseException as error:
            # An interrupt, perhaps after the write: with a sequence the log knows the batch again.
            if stamp is None:
                self._give_up(batch, error, answered)
            raise
        # Answered first: a batch that an interrupt leaves in its place is tried again, and known again.
        if (shared.ack or self._rules_now().ack) is Ack.SYNCED:
            shared.syncing.add(self.log, batch_result, result.first_offset, result.last_offset, result.timestamp_ms)
        else:
            batch_result.acknowledge(result.first_offset, result.timestamp_ms)
            answered.append(batch_result)
        self._sealed.popleft()
        counts = self.counts
        counts.records += count
        counts.batches += 1
        counts.bytes += size
        self._let_go(batch)
        return True

    def _may_retry(self, batch: _Batch) -> bool:
        now_s = self._shared.clock.monotonic_s()
        batch.retries += 1
        self.counts.retries += 1
        self._retry_s = now_s + self._config.retry_backoff_ms / 1000
        return (
            batch.retries <= self._config.retries
            and (now_s - batch.opened_s) * 1000 < self._config.delivery_timeout_ms
        )

    def _give_up(self, batch: _Batch, error: BaseException, answered: list[BatchResult]) -> None:
        batch.batch_result.fail(error)
        answered.append(batch.batch_result)
        self._sealed.popleft()
        if batch.sequence >= 0:
            # The newest that was given: batches go in order. The next one takes its place.
            self._next_sequence = batch.sequence
        self.counts.failed_records += batch.encoder.pending_records
        self._let_go(batch)

    def abandon(self, error: BaseException) -> None:
        """Give up what is gathered: every future of it is answered with ``error``."""
        answered: list[BatchResult] = []
        with held(self._writing):
            with held(self._lock):
                self._seal_locked()
            while self._sealed:
                self._give_up(self._sealed[0], error, answered)
        for batch_result in answered:
            batch_result.tell()

    def close(self) -> None:
        """Take no more records. What is gathered stays, to be written or abandoned."""
        with held(self._lock):
            self._closed = True
            self.pause()

    def _let_go(self, batch: _Batch) -> None:
        shared = self._shared
        shared.memory.give_back(batch.taken)
        if len(shared.spare) < _SPARE_ENCODERS:
            shared.spare.append(batch.encoder)

    def __repr__(self) -> str:
        return f"<PartitionLane {self.name}>"


def _level(config: ProducerConfig, codec: Codec) -> int:
    """The compression level of a codec; 0 for codecs without levels."""
    levels = {
        Codec.GZIP: config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return levels.get(codec, 0)


def _size(data: Any) -> int:
    """Bytes of a key or value; 0 for what is none, which the encoder refuses."""
    if type(data) is bytes:
        return len(data)
    try:
        return 0 if data is None else memoryview(data).nbytes
    except (TypeError, ValueError, BufferError):  # what numpy raises, too
        return 0


def _listed(headers: Any) -> Any:
    """Headers that can be looked at twice; what are none is left for the encoder to refuse."""
    try:
        return list(headers)
    except TypeError:
        return headers


def _headers_size(headers: Any) -> int:
    """Bytes that headers may take at most; 0 for what are none, which the encoder refuses."""
    if not headers:
        return 0
    try:
        return 10 + sum(4 * len(key) + _size(value) + 20 for key, value in headers)
    except (TypeError, ValueError):
        return 0
