# cython: language_level=3
"""The open batch and the sealed batches of one partition: the steps of a `PartitionBatcher` that every batch takes.

`PartitionBatches` opens, seals and appends batches; `partition_batcher` describes their order and their locks, and
has the steps that are rare: failures, retries, the close. A batch of few records costs little more than its bytes
here. Compiled code runs no bytecode: an interrupt strikes only where it calls Python, or waits. Any thread may
call.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from libc.math cimport INFINITY
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t

from logstore.accumulator._alarms cimport Alarm
from logstore.accumulator._batcher cimport BatchResult, FastBatcher, new_batch_result
from logstore.accumulator._memory cimport BufferMemory
from logstore.batch._encode cimport Encoder
from logstore.io._clock cimport monotonic_s, now_ms

import threading
from collections import deque

from logstore.accumulator._alarms import NEVER as _NEVER
from logstore.accumulator._batcher import headers_size, listed, size_of
from logstore.batch._batch import stamp_producer
from logstore.batch._encode import timestamp_of
from logstore.clock import SYSTEM_CLOCK
from logstore.config.log import check_keys, check_timestamps
from logstore.errors import LogstoreError, RecordTooLargeError
from logstore.io._interrupts import shielded
from logstore.records import Ack, AppendResult, ProducerStamp, TimestampType

cdef enum:
    RECORD_BYTES = 40        # upper limit of a record's bytes without key, value and headers
    SPARE_BYTES = 1 << 20    # of encoders that wait for their next batch, where no buffer memory says how many

cdef double AGAIN_S = 0.005      # after which a tick looks again at what could be written and was not
cdef double UNLINGERED_S = 1.0   # after which a tick writes what its sender should have written at once

cdef object _SYNCED = Ack.SYNCED
cdef object _WRITTEN = Ack.WRITTEN
cdef object _new = tuple.__new__


@cython.final
cdef class Counts:
    """Counters of a batcher; changed only while it writes."""

    cdef public int64_t records, batches, bytes, retries, failed_records


@cython.final
cdef class Shared:
    """State that all batchers of one producer share."""

    cdef readonly object config
    cdef readonly object clock
    cdef readonly bint raises
    cdef readonly BufferMemory memory
    cdef readonly object syncing
    cdef readonly tuple stamp
    cdef readonly object ack
    cdef readonly set active             # batchers that hold records
    cdef readonly list failures
    cdef readonly bint writes_wait       # whether a write to one of its partitions may wait for a sync
    cdef public Alarm alarm              # for the next tick of the producer or the appender
    cdef list _spare                     # encoders with buffers that have grown, for the next batches
    cdef readonly int64_t spare_bytes    # of these buffers: with those in use at most `buffer.memory`
    cdef _Rules _rules                   # those last asked for: the partitions of a topic have the same
    cdef int64_t _linger_ms
    cdef int64_t _request_bytes

    def __init__(self, config: ProducerConfig | BatchConfig, clock: Clock, *, bint raises: bool = False,
                 BufferMemory memory: BufferMemory | None = None, syncing: Syncing | None = None,
                 tuple stamp: tuple[int, int] | None = None, ack: Ack | None = None,
                 list failures: list[BatchResult] | None = None):
        """Share settings and parts.

        ``raises`` is True for an appender: the call that writes raises errors. A batch stays queued until it is
        written or the log refuses its records; the log checks them. False for a producer: only futures get errors
        of a write, and `add` checks each record. Without ``syncing`` the append itself waits for the disk if its
        ack asks for that. ``stamp`` is the producer id and epoch, None without idempotence; ``ack`` None is the
        topic's setting. ``failures`` gets the results of failed batches of which a future was dropped; None: their
        errors are ignored.
        """
        self.config, self.clock, self.raises, self.memory, self.syncing = config, clock, raises, memory, syncing
        self.stamp, self.ack, self.failures = stamp, ack, failures
        self.active = set()
        self.alarm = _NEVER
        self._spare = []
        self._linger_ms = config.linger_ms
        self._request_bytes = <int64_t>min(config.max_request_size, INT64_MAX)

    cdef Encoder _encoder(self):
        """Return an encoder, one that has been used if there is one: its memory is there already."""
        cdef Encoder encoder
        if not PyList_GET_SIZE(self._spare):
            return Encoder.__new__(Encoder)
        encoder = self._spare.pop()
        self.spare_bytes -= encoder.capacity
        return encoder

    cdef int _keep(self, Encoder encoder) except -1:
        """Keep an encoder for another batch, within the part of the buffer memory that no batch has."""
        cdef int64_t limit = SPARE_BYTES if self.memory is None else self.memory.limit - self.memory.reserved
        if self.spare_bytes + encoder.capacity <= limit:
            self._spare.append(encoder)
            self.spare_bytes += encoder.capacity
        return 0

    cdef _Rules rules_of(self, object config):
        """Return the rules for a log's settings."""
        cdef _Rules rules = self._rules
        if rules is None or rules.config != config:
            self._rules = rules = _Rules(config, self.config)
            self.writes_wait = self.writes_wait or self._may_wait(config)
        return rules

    cdef bint _may_wait(self, object config) except -1:
        if config.flush_messages < INT64_MAX or config.flush_ms < INT64_MAX or config.tail == "memory":
            return True
        return self.syncing is None and (self.ack or config.default_ack) is _SYNCED


@cython.final
cdef class _Rules:
    """Rules of a batch, derived from the settings of a log and of a producer."""

    cdef object config
    cdef int codec
    cdef int level
    cdef int64_t limit                   # bytes of a batch before compression
    cdef tuple limits                    # the settings that `limit` comes from, with their values
    cdef int64_t full_bytes
    cdef bint append_time
    cdef bint needs_key
    cdef object ack                      # the log's default
    # How long after the time of its batch a timestamp may be on the fast path; -1: no timestamps there.
    cdef int64_t ahead_ms

    def __cinit__(self, log, batches):
        codec = log.codec
        self.config = log
        self.codec = batches.codec if codec is None else codec
        self.level = batches.level if codec is None else log.level_of(codec)
        self.limit = log.batch_limit
        self.limits = log.batch_limits
        self.full_bytes = min(<int64_t>batches.batch_size, self.limit)
        self.append_time = log.timestamp_type is TimestampType.LOG_APPEND_TIME
        self.needs_key = log.compacts
        self.ack = log.default_ack
        # The limit of past timestamps moves with the clock, but the time of a batch does not: with such a limit the
        # slow path must check each timestamp.
        self.ahead_ms = -1
        if log.message_timestamp_before_max_ms == INT64_MAX and not self.append_time:
            self.ahead_ms = log.message_timestamp_after_max_ms


@cython.final
@cython.freelist(64)
cdef class ProducerBatch:
    """One batch, open or sealed."""

    cdef readonly Encoder encoder
    cdef readonly BatchResult batch_result
    cdef readonly int64_t reserved       # bytes of the buffer memory
    cdef readonly double opened_s
    cdef readonly int64_t producer_id    # with which it was appended for the first time
    cdef readonly int32_t sequence       # of its first record; -1 until it is appended for the first time
    cdef public int64_t retries
    # Where batches are answered later:
    cdef public object acks             # what it waits for; None: it is to be written, for the first time or again
    cdef public object result            # of its last append
    cdef readonly tuple written          # results of the appends before the last one; None: there was none

    @property
    def may_be_written(self) -> bool:
        """Whether an append has written the batch: a log may have it, unless it was truncated since."""
        return self.written is not None or self.encoder.appended_at >= 0

    cdef int64_t records(self) noexcept:
        cdef Encoder encoder = self.encoder
        return encoder.record_count + (encoder._batch_records if encoder._batch_start >= 0 else 0)


@cython.final
@cython.freelist(8)
cdef class WriteTurn:
    """Result of one call of `PartitionBatches.write`."""

    cdef readonly object ack
    cdef readonly bint waits
    cdef readonly list answered
    cdef readonly list appended
    cdef public object error             # the first error
    cdef public bint is_done             # False: a batch has to wait for a retry

    def __cinit__(self):
        self.answered = []
        self.appended = []
        self.is_done = True


cdef class PartitionBatches(FastBatcher):
    """The batches of one partition, and the order of their appends. See `PartitionBatcher`."""

    cdef readonly object name
    cdef readonly object _lock
    cdef readonly object _writing
    cdef readonly ProducerBatch _batch
    cdef readonly object _sealed         # a deque
    cdef readonly Counts counts
    cdef public object failure           # of a write for which no caller waited
    cdef public object _refusal          # makes the error of `add` once closed
    cdef public int32_t _next_sequence
    cdef public double _retry_s          # monotonic time before which no batch is retried, after a full disk
    cdef public int64_t _producer_id     # -1 without idempotence
    # Batches stay queued until another thread answers them: see `_write_later`.
    cdef public bint _is_answered_later
    # A batch may be written while earlier ones have no answer.
    cdef public bint _sends_ahead
    cdef readonly Shared _shared
    cdef str _topic
    cdef int32_t _partition
    cdef object _open_log
    cdef object _log
    cdef _Rules _rules
    cdef object _config                  # of the log, when its rules were derived
    cdef int64_t _full_bytes_now

    def __init__(self, name: TopicPartition, open_log: Callable[[], AppendableLog], Shared shared not None: Shared):
        self.name = name
        self._topic, self._partition = name.topic, name.partition
        self._open_log = open_log
        self._shared = shared
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._sealed = deque()
        self.counts = Counts()
        self._full_bytes_now = shared.config.batch_size
        self._producer_id = -1 if shared.stamp is None else shared.stamp[0]

    @property
    def log(self) -> AppendableLog:
        """The partition's log, opened when the first record is added."""
        if self._log is None:
            self._log = self._open_log()
        return self._log

    # -- gathering

    def add(self, value: Any, key: Any, timestamp: Any, headers: Any) -> SendFuture | int:
        """Add one record and return its future.

        If a new batch is needed and the buffer memory is full, add nothing and return the bytes that it needs.

        Raises:
            RecordError: the record is invalid. Nothing was added.
            StoreClosedError, LogClosedError: the batcher is closed; `close` was given this error.
        """
        return self.add_slowly(value, key, timestamp, headers)

    cdef object add_slowly(self, object value, object key, object timestamp, object headers):
        cdef _Rules rules = self._rules_now()
        cdef Shared shared = self._shared
        cdef int64_t size, timestamp_ms = 0
        if headers is not None and not isinstance(headers, (list, tuple)):
            headers = listed(headers)
        if timestamp is not None:
            if rules.append_time:
                timestamp = None
            else:
                timestamp = timestamp_of(timestamp)
                timestamp_ms = timestamp
                if not shared.raises:
                    check_timestamps(timestamp, timestamp, rules.config, shared.clock.now_ms())
        if key is None and rules.needs_key and not shared.raises:
            check_keys(1, rules.config)
        size = _size(value) + _size(key)
        if size > shared._request_bytes:
            limits = (("max.request.size", shared._request_bytes), *rules.limits)
            raise RecordTooLargeError.over(f"{self.name}: a record", size, limits, ("split the record",))
        size += RECORD_BYTES
        if headers is not None:
            size += headers_size(headers)
        self._lock.acquire()
        try:
            if self._refusal is not None:
                raise self._refusal()
            self._open = None
            try:
                return self._add_locked(rules, size, value, key, timestamp, timestamp_ms, headers)
            finally:
                if self._batch is not None:
                    self._full_bytes, self._ahead_ms = self._full_bytes_now, rules.ahead_ms
                    self._batch_result, self._open = self._batch.batch_result, self._batch.encoder
        finally:
            self._lock.release()

    cdef object _add_locked(self, _Rules rules, int64_t size, object value, object key, object timestamp,
                            int64_t timestamp_ms, object headers):
        cdef ProducerBatch batch = self._batch
        cdef Encoder encoder
        cdef const uint8_t *key_data = NULL
        cdef int64_t pending, reserved, key_size = -1
        if batch is not None:
            pending = batch.encoder.size
            # A batch has one base sequence and cannot be split. A record above the limit gets its own batch: it may
            # fit once compressed.
            if pending and (pending >= self._full_bytes_now or pending + size > rules.limit):
                self._seal()
                batch = None
        if batch is None:
            reserved = max(rules.full_bytes, size)
            if self._shared.memory is not None and not self._shared.memory.try_reserve(reserved):
                return reserved
            batch = self._begin_locked(reserved, rules)
        encoder = batch.encoder
        if timestamp is None:
            timestamp_ms = encoder._default_timestamp
        try:
            if headers is None and PyBytes_CheckExact(value) and (key is None or PyBytes_CheckExact(key)):
                if key is not None:
                    key_data, key_size = <const uint8_t *>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)
                encoder.add_one(timestamp_ms, key_data, key_size, <const uint8_t *>PyBytes_AS_STRING(value),
                                PyBytes_GET_SIZE(value), NULL, 0)
            else:
                encoder._add_fields(key, value, timestamp, headers)
        except BaseException:
            if not batch.records():
                # An empty batch left open would give its old time to a record that comes much later.
                self._batch = None
                self._give_back(batch)
            raise
        if self._full_bytes_now and encoder.size >= self._full_bytes_now:
            self.set_alarm()
        return batch.batch_result.claim_next(encoder, timestamp_ms)

    cdef _Rules _rules_now(self):
        """Return the rules for the log's settings; derive them again if the settings have changed."""
        config = (self.log if self._log is None else self._log)._config
        if self._rules is None or self._config is not config:
            self._rules = self._shared.rules_of(config)
            self._config = config
        return self._rules

    cdef ProducerBatch _begin_locked(self, int64_t reserved, _Rules rules):
        cdef Shared shared = self._shared
        cdef bint gathers
        cdef ProducerBatch batch = ProducerBatch.__new__(ProducerBatch)
        cdef Encoder encoder = shared._encoder()
        encoder.begin_plain(now_ms(shared.clock, SYSTEM_CLOCK), rules.codec, rules.level, rules.limit, rules.limits,
                            rules.append_time)
        # While batches wait for acks this one has to wait, too, and gathers.
        gathers = shared._linger_ms or shared.raises or self._waits_for_acks()
        self._full_bytes_now = rules.full_bytes if gathers else 0
        batch.encoder = encoder
        batch.batch_result = new_batch_result(self._topic, self._partition, shared.clock, shared.failures)
        batch.reserved = reserved
        batch.opened_s = monotonic_s(shared.clock, SYSTEM_CLOCK)
        batch.sequence = -1
        self._batch = batch
        shared.active.add(self)
        self._set_alarm(batch.opened_s)
        return batch

    def _seal_locked(self) -> None:
        """Seal the open batch, so that it is written; the next record opens another."""
        self._seal()

    cdef int _seal(self) except -1:
        self._open = None
        if self._batch is not None:
            # Neither step runs bytecode: an interrupt in between would leave the batch open and sealed, and written
            # twice.
            self._sealed.append(self._batch)
            self._batch = None
        return 0

    # -- writing

    cdef bint _is_full(self) noexcept:
        return self._batch is not None and self._batch.encoder.size >= max(self._full_bytes_now, <int64_t>1)

    cdef bint _has_lingered(self) except -1:
        cdef double opened_s
        if self._batch is None:
            return False
        opened_s = self._batch.opened_s
        return (monotonic_s(self._shared.clock, SYSTEM_CLOCK) - opened_s) * 1000 >= self._shared._linger_ms

    cdef bint _is_due(self) except -1:
        return len(self._sealed) or self._is_full()

    def is_due(self) -> bool:
        """Return whether a batch is sealed or full, so that it is written without regard to linger."""
        return self._is_due()

    def is_ready(self) -> bool:
        """Return whether a batch is sealed or full, or has lingered."""
        return self._is_due() or self._has_lingered()

    def is_oversized(self) -> bool:
        """Return whether the open batch is above the limit, so that only compression can make it fit.

        If it does not fit, all its records fail: no other record may be added.
        """
        return self._batch is not None and self._rules is not None and self._batch.encoder.size > self._rules.limit

    cdef int filled(self) except -1:
        return self.set_alarm()

    cpdef int set_alarm(self) except -1:
        """Set the alarm for what a tick has to do here, unless another call does it before."""
        if self._shared.alarm is not _NEVER:
            self._set_alarm(monotonic_s(self._shared.clock, SYSTEM_CLOCK))
        return 0

    cdef int _set_alarm(self, double now_s) except -1:
        cdef double due_s = self._due_s()
        # What is due now is left to the thread that is writing, or waits for an answer that is on its way.
        return self._shared.alarm.set(due_s if due_s > now_s else now_s + AGAIN_S)

    cdef double _due_s(self) except? -1:
        """Return when a tick has something to do here, inf if it never has; a time that has passed: soon."""
        cdef double due_s = INFINITY
        cdef ProducerBatch batch = self._batch
        if batch is not None:
            # Without a linger the thread that adds the record writes it, unless an interrupt strikes in between.
            due_s = batch.opened_s + (self._shared._linger_ms / 1000.0 if self._full_bytes_now else UNLINGERED_S)
            if self._full_bytes_now and self._is_full():
                due_s = 0
        if not len(self._sealed):
            return due_s
        batch = self._sealed[0]
        if not self._is_answered_later or batch.acks is None:
            return self._retry_s
        if batch.acks.is_settled:
            return 0
        if not self._sends_ahead:
            due_s = INFINITY         # the open batch waits for the answer
        elif (<ProducerBatch>self._sealed[len(self._sealed) - 1]).acks is None:
            return 0
        return min(due_s, batch.opened_s + self._shared.config.delivery_timeout_ms / 1000.0)

    @property
    def is_empty(self) -> bool:
        return self._batch is None and not self._sealed

    def write(self, *, bint force: bool = False, bint wait: bool = True,
              ack: Ack | str | None = Ack.WRITTEN) -> WriteTurn:
        """Append the batches that are sealed, full or have lingered, or with ``force`` all batches.

        Errors are passed to the futures and to the returned turn. With ``wait=False`` nothing is done if another
        thread is writing batches of this partition.
        """
        return self._write(force, wait, ack)

    cdef int write_due(self) except -1:
        if self._is_due():
            self._write(False, True, _WRITTEN)
        return 0

    cdef WriteTurn _write(self, bint force, bint wait, object ack):
        cdef WriteTurn turn = WriteTurn.__new__(WriteTurn)
        turn.ack = ack
        turn.waits = wait
        try:
            if self._writing.acquire(wait):
                try:
                    self._write_sealed(force, turn)
                finally:
                    self._writing.release()
        except BaseException:
            self._tell(turn)
            raise
        self._tell(turn)
        return turn

    cdef int _write_sealed(self, bint force, WriteTurn turn) except -1:
        if self._is_answered_later:
            if force or not self._only_waits() or (self._sends_ahead and self._has_more()):
                self._write_later(force, turn)
            else:
                turn.is_done = False
            return 0
        self._seal_due(force, True)
        if (self._sealed and not force and self._retry_s
                and monotonic_s(self._shared.clock, SYSTEM_CLOCK) < self._retry_s):
            turn.is_done = False
        while turn.is_done and self._sealed:
            self._append(self._sealed[0], turn)
        return 0

    cdef bint _waits_for_acks(self) except -1:
        """Whether batches are in flight: the front of the queue waits for its answer."""
        return self._is_answered_later and len(self._sealed) and (<ProducerBatch>self._sealed[0]).acks is not None

    cdef bint _only_waits(self) except -1:
        """Whether batches wait for acks, and the oldest is neither answered nor late."""
        cdef ProducerBatch batch
        if not self._waits_for_acks():
            return False
        batch = self._sealed[0]
        return (not batch.acks.is_settled
                and (monotonic_s(self._shared.clock, SYSTEM_CLOCK) - batch.opened_s) * 1000
                < self._shared.config.delivery_timeout_ms)

    cdef bint _has_more(self) except -1:
        """Whether there is a batch to write behind those that wait."""
        cdef ProducerBatch newest = self._sealed[len(self._sealed) - 1]
        return newest.acks is None or self._is_full() or self._has_lingered()

    cdef int _seal_due(self, bint force, bint lingered) except -1:
        self._lock.acquire()
        try:
            if force or self._is_full() or (lingered and self._has_lingered()):
                self._seal()
        finally:
            self._lock.release()
        return 0

    def _write_later(self, bint force, WriteTurn turn not None: WriteTurn) -> None:
        """Write what may be written now, and answer what is settled; under `_writing`."""
        # A cdef class has no abstract methods.
        raise NotImplementedError("a subclass says how batches wait for their answers")

    cdef int _tell(self, WriteTurn turn) except -1:
        try:
            self._mark(turn.answered)
        except BaseException:
            # An interrupt may have left it half done: the second call cannot be interrupted.
            shielded(self._notify, turn.answered)
            raise
        return 0

    def _notify(self, list answered not None: list[BatchResult]) -> None:
        """Run the callbacks of these results, and mark the batcher as active if it holds batches."""
        self._mark(answered)

    cdef int _mark(self, list answered) except -1:
        cdef BatchResult batch_result
        # In this order: a thread that opens a batch meanwhile marks the batcher as active again.
        self._shared.active.discard(self)
        if self._batch is not None or self._sealed:
            self._shared.active.add(self)
            self.set_alarm()
        for batch_result in answered:
            batch_result.tell()
        return 0

    cdef int _append(self, ProducerBatch batch, WriteTurn turn) except -1:
        """Append the oldest sealed batch. After an error it is given up or left for another try (`_fail`)."""
        try:
            result = self._put(batch, turn.ack)
        except Exception as error:
            if batch.encoder.appended_at >= 0 and not isinstance(error, LogstoreError):
                raise  # of a signal handler, as below
            self._fail(batch, error, turn)  # passed to the futures
            return 0
        # After an interrupt the batch stays queued. The encoder knows whether its batch is in the log; if so, the
        # next call writes nothing and acknowledges it.
        return self._finish(batch, result, turn)

    cdef object _put(self, ProducerBatch batch, object ack):
        """Write a batch to the log, under the sequence that it has or gets now; return the result of the append."""
        stamp = self._stamped(batch)
        return self.log._append_encoded(batch.encoder, producer=stamp, ack=ack)

    cdef object _stamped(self, ProducerBatch batch):
        """Close a batch under the sequence that it has or gets now; return the producer in its header, or None."""
        cdef Encoder encoder = batch.encoder
        stamp = None
        if self._producer_id >= 0:
            if batch.sequence < 0:
                batch.producer_id, batch.sequence = self._producer_id, self._next_sequence
                self._next_sequence = <int32_t>((<int64_t>batch.sequence + batch.records()) & INT32_MAX)
                if encoder._batch_start < 0:
                    # Closed with a number of an earlier producer id: see `_renew_producer`.
                    stamp_producer(encoder, batch.producer_id, 0, batch.sequence)
            stamp = _new(ProducerStamp, (batch.producer_id, 0, batch.sequence, False))
            encoder._producer_id, encoder._producer_epoch = batch.producer_id, 0
            encoder._next_sequence = batch.sequence
        if encoder._batch_start >= 0:
            encoder._close_batch()
        return stamp

    cdef int _finish(self, ProducerBatch batch, object result, WriteTurn turn) except -1:
        """Acknowledge the oldest sealed batch, which is in the log, or leave that to the sync; then forget it."""
        cdef Shared shared = self._shared
        cdef Encoder encoder = batch.encoder
        cdef BatchResult batch_result = batch.batch_result
        cdef Counts counts = self.counts
        turn.appended.append(result)
        # Answered first: if an interrupt leaves the batch queued, it is retried and the repetition is detected.
        if shared.syncing is not None and (shared.ack or self._rules_now().ack) is _SYNCED:
            shared.syncing.add(self.log, batch_result, result.first_offset, result.last_offset, result.timestamp_ms,
                               encoder.cuts)
        else:
            batch_result.answer(result.first_offset, result.timestamp_ms)
            turn.answered.append(batch_result)
        self._sealed.popleft()
        counts.records += encoder.record_count
        counts.batches += 1
        counts.bytes += encoder.size
        self._give_back(batch)
        return 0

    # -- steps of a batcher whose batches are answered later

    @property
    def _waits(self):
        return self._waits_for_acks()

    def _seal_later(self, bint force, bint lingered) -> None:
        """Seal the open batch if it is full, with ``lingered`` if it has lingered, with ``force`` in any case."""
        self._seal_due(force, lingered)

    def _closed(self, ProducerBatch batch not None: ProducerBatch) -> Encoder:
        """Close and compress a sealed batch; return its encoder.

        Raises:
            RecordTooLargeError: the batch is too large for its partition.
        """
        self._stamped(batch)
        return batch.encoder

    def _front(self, int64_t limit: int) -> list[ProducerBatch]:
        """Return the batches that wait for acks; if none does, the oldest ones up to a size, at least one."""
        cdef ProducerBatch batch
        cdef list front = []
        cdef int64_t size = 0
        cdef Py_ssize_t n
        cdef bint waits = self._waits_for_acks()
        # Not an iterator of the deque: a thread that adds a record may seal a batch meanwhile.
        for n in range(len(self._sealed)):
            batch = self._sealed[n]
            size += batch.encoder.size
            if batch.acks is None if waits else (front and size > limit):
                break
            front.append(batch)
        return front

    def _put_again(self, ProducerBatch batch not None: ProducerBatch, ack: Ack | str | None) -> AppendResult:
        """Append a batch, even if an earlier call has: the log may have been truncated since.

        With a producer id the log recognizes a batch that it has.
        """
        first = batch.encoder.appended_at
        if first >= 0:
            # An append that was interrupted has returned no result.
            last = batch.result
            if last is None or last.first_offset != first:
                last = AppendResult(first, first + batch.records() - 1)
            batch.written = (last,) if batch.written is None else (*batch.written, last)
            batch.encoder.appended_at = -1
        return self._put(batch, ack)

    def _put_together(self, list batches not None: list[ProducerBatch]) -> list[AppendResult]:
        """Append batches, none of which was appended before, in one write; return the results of the first ones.

        There may be none: the others take `_put_again`, as if this had not been called.
        """
        cdef ProducerBatch batch
        cdef list encoders = [], stamps = []
        try:
            for batch in batches:
                stamps.append(self._stamped(batch))
                encoders.append(batch.encoder)
            return self.log._append_encoded_turn(encoders, stamps)
        finally:
            for batch in reversed(batches):
                if batch.encoder.appended_at < 0 and batch.sequence >= 0:
                    self._next_sequence = batch.sequence
                    batch.sequence = -1

    def _acknowledge(self, ProducerBatch batch not None: ProducerBatch, WriteTurn turn not None: WriteTurn) -> None:
        """Acknowledge the oldest batch by its result."""
        self._finish(batch, batch.result, turn)

    def _answer_plainly(self) -> bool:
        """Answer the acknowledged batches at the front; return whether that was all there is to do here.

        For a thread that may neither wait nor run code of users. What it leaves is for `write`: batches that have
        failed or are to be written, futures with callbacks, and everything while another thread is writing.
        """
        cdef ProducerBatch batch
        cdef WriteTurn turn
        cdef object handed, result
        if not self._writing.acquire(False):
            return False
        try:
            turn = WriteTurn.__new__(WriteTurn)
            while len(self._sealed):
                batch = self._sealed[0]
                handed = batch.acks
                if handed is None or handed.error is not None or handed.parts is not None:
                    return False
                if not handed.is_settled:
                    break
                result = _new(AppendResult, (handed.first_offset, handed.last_offset, handed.append_time_ms, False))
                if not batch.batch_result.is_quiet():
                    return False
                # From here to the answer nothing is made and no bytecode runs, so no callback is added in between:
                # a later one finds the answer.
                batch.result = result
                self._finish(batch, result, turn)
                self.counts.retries += handed.retries
            if self._is_full() or self._has_lingered():
                return False
            if len(self._sealed) and (<ProducerBatch>self._sealed[len(self._sealed) - 1]).acks is None:
                return False
        finally:
            self._writing.release()
        self._mark([])
        return True

    def _renew_producer(self, int64_t producer_id: int) -> None:
        """Take another producer id, for the batches from the first one on that does not wait for acks.

        The log has none of them: sequences begin again.
        """
        cdef ProducerBatch batch
        cdef Py_ssize_t n
        self._producer_id, self._next_sequence = producer_id, 0
        for n in range(len(self._sealed)):
            batch = self._sealed[n]
            if batch.acks is None:
                batch.sequence = -1
                batch.written = None
                batch.encoder.appended_at = -1

    def _release(self, ProducerBatch batch not None: ProducerBatch) -> None:
        """Release the memory of a batch, and keep its encoder for another."""
        self._give_back(batch)

    cdef int _give_back(self, ProducerBatch batch) except -1:
        cdef Shared shared = self._shared
        if shared.memory is not None:
            shared.memory.release(batch.reserved)
        shared._keep(batch.encoder)
        return 0


cdef int64_t _size(object data) except -1:
    if data is None:
        return 0
    if PyBytes_CheckExact(data):
        return PyBytes_GET_SIZE(data)
    return size_of(data)
