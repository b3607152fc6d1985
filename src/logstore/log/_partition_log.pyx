# cython: language_level=3
"""Partition log: the marks of one open log, and the step that writes an append and moves them.

`PartitionLog.append` encodes records, and `append_one` a single one; `append_encoded` takes them from an encoder,
`append_batch` as a client's batch, `append_turn` as batches of several clients, `append_run` as a run of batches
that the caller owns, `_append_gathered_turn` from several encoders. Each takes one write. An append changes, under
the log's lock and in this order: bytes, producer state, counters, marks, published end. This module takes what
nearly every append is: batches that fit the active segment of a log that is whole, and of a producer its next one.
Anything else (a roll, a memory tail, offsets that are positions, the first append after an open, a repeated batch)
is left to the `LogWriter` of `log.append`.

Threads: any. The numbers change under the log's lock; `Watermark.value` is read without it. The lock notifies those
that wait for a mark once it is released.
"""

cimport cython
from libc.stdint cimport INT32_MAX, INT64_MAX, int64_t, uint8_t

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from logstore._segment cimport Segment
from logstore._segment_index cimport SegmentIndex
from logstore.accumulator._alarms cimport Alarm
from logstore.batch._batch cimport (
    APPEND_TIME_FLAG, CODEC_MASK, CONTROL_FLAG, DELETE_HORIZON_FLAG, HEADER_BYTES, TRANSACTIONAL_FLAG, BatchHeader,
    Survey, check_batch, payload_of, raise_batch_status, survey_records, whole_header,
)
from logstore.batch._bytes cimport OK
from logstore.batch._encode cimport Encoder
from logstore.io._file_region cimport FileRegion
from logstore.io._clock cimport monotonic_s, now_ms
from logstore.io._files cimport fork_generation
from logstore.log._producers cimport ProducerState, Producers
from logstore.log.marks._watermark cimport Watermark

from logstore.clock import SYSTEM_CLOCK
from logstore.errors import OUT_OF_RESOURCES as _OUT_OF_RESOURCES
from logstore.errors import AppendTruncatedError, DiskFullError, LogstoreError, RecordError, StorageError
from logstore.io._interrupts import shielded
from logstore.log.marks.view import UNSETTLED as _UNSETTLED
from logstore.log.marks.view import FetchedRegion, View
from logstore.log.write_modes import DIRECT
from logstore.records import Ack, AppendResult, Isolation, RecordMetadata

cdef extern from "Python.h":
    tuple PyType_GenericAlloc(PyTypeObject *kind, Py_ssize_t items)

cdef object _new = tuple.__new__
cdef object _DIRECT = DIRECT
cdef object _WRITTEN = Ack.WRITTEN
cdef object _UNCOMMITTED = Isolation.READ_UNCOMMITTED
cdef object _COMMITTED = Isolation.READ_COMMITTED

cdef enum:
    EXPIRY_MS = 600_000           # Kafka's producer.id.expiration.check.interval.ms
    KEPT_BYTES = 1 << 20          # of the copy of clients' batches, from one append to the next
    TURN_BATCHES = 128            # of clients, in one write at most
    OFFERED = 32                  # of clients, by a caller that does not wait
    ATTEMPTS = 3
    SURVEYED_BYTES = 32_768       # of a client's records, in 2 to 5 us

#: Other appends may use up what one has prepared: after so many, it waits under the lock.
READY_ATTEMPTS = ATTEMPTS

cdef double LEAST_FLUSH_S = 0.005     # from an append that flushes by itself to the tick that looks after it

cdef enum:                        # `Moves` of `log.marks.policies`
    BY_POLICY = 0
    WITH_END = 1
    WITH_SYNCED_END = 2
    FROM_OUTSIDE = 3


cdef tuple _made(object kind, object a, object b, object c, object d):
    """Return a named tuple of four fields; `tuple.__new__` takes a fifth of a microsecond."""
    cdef tuple made = PyType_GenericAlloc(<PyTypeObject *>kind, 4)
    # Each item is stolen.
    Py_INCREF(a)
    Py_INCREF(b)
    Py_INCREF(c)
    Py_INCREF(d)
    PyTuple_SET_ITEM(made, 0, a)
    PyTuple_SET_ITEM(made, 1, b)
    PyTuple_SET_ITEM(made, 2, c)
    PyTuple_SET_ITEM(made, 3, d)
    return made


cdef tuple _result(int64_t first, int64_t last):
    """Return the result of an append that is no duplicate, in a log that keeps times."""
    return _made(AppendResult, first, last, -1, False)


@cython.final
cdef class Counters:
    """Counters of one log since it was opened, and those of its flushes. Changed under its lock."""

    def __init__(self, clock: Clock):
        self._clock = clock
        self.last_flush_s = monotonic_s(self._clock, SYSTEM_CLOCK)

    def count(self, int64_t records: int, int64_t batches: int, int64_t size: int) -> None:
        """Count one append."""
        self._count(1, records, batches, size)

    cdef int _count(self, int64_t appends, int64_t records, int64_t batches, int64_t size) except -1:
        cdef bint is_first = not self.unflushed_records
        self.appends += appends
        self.appended_records += records
        self.appended_batches += batches
        self.appended_bytes += size
        self.unflushed_records += records
        if is_first and self._alarm is not None:
            self._set_alarm()
        return 0

    cpdef int64_t take_unflushed(self) except -1:
        """Return the count of records since the last flush, as the next one begins."""
        cdef int64_t taken = self.unflushed_records
        self.last_flush_s = monotonic_s(self._clock, SYSTEM_CLOCK)
        self.unflushed_records = 0
        return taken

    cpdef int untake_unflushed(self, int64_t records) except -1:
        """Count records again as not flushed: the flush has ended without its sync."""
        self.unflushed_records += records
        return self.ask_flush()

    def flush_within(self, Alarm alarm: Alarm | None, double seconds: float) -> None:
        """Set an alarm from now on for what is not flushed: after ``seconds`` at the latest. None: no longer."""
        self._alarm, self._flush_within_s = alarm, seconds
        self.ask_flush()

    cpdef int ask_flush(self) except -1:
        """Set the alarm if there is something to flush."""
        if self._alarm is not None and self.unflushed_records:
            self._set_alarm()
        return 0

    cdef int _set_alarm(self) except -1:
        # As `Flusher.tick` has it: so long after the last flush began. If that has passed already, an append of a
        # client flushes by itself.
        cdef double now_s = monotonic_s(self._clock, SYSTEM_CLOCK)
        cdef double due_s = self.last_flush_s + self._flush_within_s
        return self._alarm.set(due_s if due_s > now_s else now_s + max(self._flush_within_s, LEAST_FLUSH_S))

    cpdef int count_sync(self, double began_s) except -1:
        """Count the time of a sync of appended batches, from its begin until now."""
        self.sync_s += monotonic_s(self._clock, SYSTEM_CLOCK) - began_s
        return 0

    def snapshot(self) -> dict[str, int]:
        """Return the current counts by name."""
        return {
            "appended_batches": self.appended_batches,
            "appended_bytes": self.appended_bytes,
            "appended_records": self.appended_records,
            "appends": self.appends,
            "deleted_segments": self.deleted_segments,
            "disk_full": self.disk_full,
            "duplicates": self.duplicates,
            "flushes": self.flushes,
            "roll_waits": self.roll_waits,
            "rolls": self.rolls,
            "truncations": self.truncations,
        }


cdef class PartitionLog:
    """The numbers of a log that is open for writing, and its append.

    Owns: the marks and counters. Its subclass has the parts that it refers to, and closes them.
    """

    def set_marks(self, LogMarks marks: LogMarks) -> None:
        """Begin with the offsets that recovery has found."""
        self.counters = Counters(self.clock)
        self.marks = marks
        self.end, self.synced = marks.end, marks.synced
        self.high_watermark, self.last_stable = marks.high_watermark, marks.last_stable
        self.noted_epoch = -1

    @property
    def log_start(self) -> int:
        """The log start offset."""
        return self.marks.log_start

    def note_epoch(self, int32_t epoch: int) -> None:
        """Record that the epoch table ends with an epoch: appends in it need not look there; -1: they have to."""
        self.noted_epoch = epoch

    def begin_epoch(self, int32_t epoch: int) -> None:
        """Write in a leader epoch from now on; the epoch table has it."""
        self.leader_epoch = self.noted_epoch = epoch

    def has_unmarked(self) -> None:
        """Record that no slot of the recovery file says any more that the log was closed cleanly."""
        self.must_unmark = False

    def begin_append(self) -> None:
        """Record that bytes are about to be written: an interrupt leaves them behind the log end offset."""
        self.appending = True

    def end_append(self) -> None:
        """Record that an append is in the log as a whole, or not at all."""
        self.appending = False

    def prepare_from(self, int64_t size: int) -> None:
        """Have the append by which the active segment reaches this size ask for the next segment."""
        self.prepare_bytes = size

    def ask_follow_up(self, *, bint rolls: bool = False) -> None:
        """Have the thread that has appended do more once it has released the lock; ``rolls``: what they need."""
        self.has_work = True
        self.rolls_have_work = self.rolls_have_work or rolls

    def set_limits(self, int64_t segment_bytes: int, int64_t index_bytes: int) -> None:
        """Set the size of a segment and of its indexes from which on the next append rolls."""
        self._segment_bytes = segment_bytes
        self._index_bytes = index_bytes

    def follow(self, policy: HighWatermarkPolicy) -> None:
        """Let the high watermark move as a policy says, which is asked if it names no fixed way."""
        self.policy = policy
        self._moves = policy.moves
        self.leads = policy.leads

    def view(self) -> View:
        """Return segments and marks of one moment, without the lock; raise if the log is closed or was forked.

        From the begin of a truncation until it has lowered the marks there is no such moment: the view then has
        the generation `view.UNSETTLED`.
        """
        if self.closed or self.fork != fork_generation():
            self.check_open()
        # All are read before the first object is made: making one may run finalizers, and so other threads.
        cdef object segments = self.segments.all
        cdef int64_t start = self.marks.log_start, end = self.end.value
        cdef int64_t visible = min(self.high_watermark.value, end)
        cdef int64_t stable = min(self.last_stable.value, visible)
        cdef int64_t generation = <int64_t>_UNSETTLED if self.marks.lowering else self.segments._moment()
        return _new(View, (start, visible, stable, end, segments, generation))

    def record_at(self, object offset: int, bint committed: bool, object name: tuple[str, int]) -> Record | None:
        """Return the record at an offset as readers may see it; None if the steps of `Readable` have to decide.

        They find out what is wrong, and the records of transactions.
        """
        cdef int64_t wanted
        cdef int overflow = 0
        cdef Watermark mark
        cdef Segment segment
        cdef int64_t generation = self.segments._moment()
        if self.closed or self.fork != fork_generation() or type(offset) is not int:
            return None
        wanted = PyLong_AsLongLongAndOverflow(offset, &overflow)
        mark = self.last_stable if committed else self.high_watermark
        if overflow or not self.marks.log_start <= wanted < mark.value:
            return None
        segment = _segment_of(self.segments.all, wanted)
        if segment is None:
            return None
        try:
            found = segment.find_record(wanted, committed, name, self._decompressed_bytes)
        except (RecordError, StorageError):
            # Dropped or truncated meanwhile, or damaged.
            return None
        # After a truncation, a record in place of the wanted one may be one that cannot be seen yet.
        return found if generation == self.segments._moment() else None

    def _fetch_region(self, object offset: int, object max_bytes: int, bint at_least_one,
                      object isolation: Isolation | str, bint to_log_end) -> FetchedRegion | None:
        """Return what `LogReplica.fetch_region` does; None if its steps have to decide, such as what is wrong."""
        cdef Moment moment
        cdef FileRegion region
        cdef int64_t wanted, most
        cdef int overflow = 0, too_many = 0, to = TO_LOG_END if to_log_end else TO_HIGH_WATERMARK
        cdef bint committed = False
        cdef tuple aborted = ()
        if isolation is not _UNCOMMITTED:
            committed = isolation is _COMMITTED or Isolation(isolation) is _COMMITTED
        if type(offset) is not int or type(max_bytes) is not int:
            return None
        wanted = PyLong_AsLongLongAndOverflow(offset, &overflow)
        most = PyLong_AsLongLongAndOverflow(max_bytes, &too_many)
        if overflow or too_many:
            return None
        if committed and not to_log_end:
            to = TO_LAST_STABLE
        region = self.region_at(wanted, most, to, &moment)
        if not moment.is_usual:
            return None
        if region is not None and region.size > most and not at_least_one:
            region = None
        if committed and region is not None and self.transactions.sums is not None:
            # The sums are those of each list; without any, nothing was ever aborted.
            try:
                aborted = tuple(self.transactions.aborted_between(wanted, region.next_offset))
            except (RecordError, StorageError):
                # Of segments that were dropped meanwhile, perhaps.
                return None
            if not self.is_in(&moment):
                return None
        return _new(FetchedRegion, (region, moment.log_start, moment.last_stable, moment.high_watermark,
                                    moment.log_end, aborted))

    cdef FileRegion region_at(self, int64_t offset, int64_t max_bytes, int to, Moment *moment):
        """Return the region of a fetch and its moment; None at the end of what its caller may see.

        As `LogReplica.fetch_region` with ``at_least_one``, without aborted transactions: those are of the same
        moment if `is_in` returns True after they were looked up. If it is not usual, that call has to decide.
        """
        cdef tuple segments = self.segments.all
        cdef Segment segment
        cdef FileRegion region
        cdef int64_t log_end = self.end.value, end
        moment.is_usual = False
        if self.closed or self.fork != fork_generation() or self.marks.lowering:
            return None
        moment.log_start = self.marks.log_start
        moment.high_watermark = min(self.high_watermark.value, log_end)
        moment.last_stable = min(self.last_stable.value, moment.high_watermark)
        moment.log_end = log_end
        moment.generation = self.segments._moment()
        if to == TO_LOG_END:
            end = log_end
        else:
            end = moment.last_stable if to == TO_LAST_STABLE else moment.high_watermark
        if not moment.log_start <= offset <= end:
            return None
        if offset == end:
            moment.is_usual = True
            return None
        segment = _segment_of(segments, offset)
        if segment is None:
            return None
        try:
            region = segment.locate(offset, max_bytes, end)
        except (RecordError, StorageError):
            # Dropped or truncated meanwhile, or damaged.
            return None
        # Without one, the records may be in the next segment, or lost.
        moment.is_usual = region is not None and self.is_in(moment)
        return region

    cdef bint is_in(self, const Moment *moment) noexcept:
        """Return whether nothing was truncated, replaced or deleted since a moment."""
        return moment.generation == self.segments._moment() and moment.log_start == self.marks.log_start

    cpdef int64_t wanted_mark(self) except -1:
        """Return where the high watermark should be now; it never falls, nor rises above the log end offset."""
        if self._moves == WITH_END:
            return self.end.value
        if self._moves == WITH_SYNCED_END:
            return self.synced.value
        if self._moves == FROM_OUTSIDE:
            return self.high_watermark.value
        return max(min(<int64_t>self.policy.high_watermark(self.end.value, self.synced.value,
                                                           self.high_watermark.value), self.end.value), <int64_t>0)

    def expect_records(self, *, bint plain: bool, bint synced: bool, bint times: bool, bint keys: bool,
                       int64_t before_max_ms: int, int64_t after_max_ms: int, int codec: int,
                       int64_t message_bytes: int, int64_t decompressed_bytes: int) -> None:
        """Apply the settings of an append: see `LogWriter.configure`. Encoders of the old settings are dropped.

        ``codec`` is that of every batch, -1 if each keeps its own.
        """
        self._encoder = None
        self._encoders = []
        self._is_plain = plain
        self._is_synced = synced
        self._keeps_times = times
        self._needs_keys = keys
        self._before_max_ms = before_max_ms
        self._after_max_ms = after_max_ms
        self._codec = codec
        self._message_bytes = message_bytes
        self._decompressed_bytes = decompressed_bytes

    def append(self, list records: list[RecordLike], writer: LogWriter,
               bint synced: bool = False) -> AppendResult | None:
        """Encode records and append them; None, with nothing done, if that takes the steps of ``writer``.

        With ``synced``, or if the settings say so, they are on disk on return. Raises as `Log.append`.
        """
        cdef Encoder encoder
        cdef int64_t now
        cdef list encoders = self._encoders
        synced = synced or self._is_synced
        if not records or not (self._takes_synced() if synced else self._takes_plain()):
            return None
        now = now_ms(self.clock, SYSTEM_CLOCK)
        encoder = self._take_encoder(now, writer)
        try:
            encoder.restart(now)
            encoder.add_list(records)
            if encoder._batch_start >= 0:
                encoder._close_batch()
            result = self._append_encoded(encoder, None, now, writer)
        finally:
            self._give_back(encoder, encoders)
        if synced:
            self._sync_appended(result, encoder.cuts, writer)
        return result

    cdef int _sync_appended(self, object result, int64_t cuts, object writer) except -1:
        """Return once an append is on disk; ``cuts``: those before it."""
        try:
            writer.commit.run(result[1] + 1)
        except _OUT_OF_RESOURCES as error:
            raise writer.not_synced(result, error) from error
        if self.marks.cuts != cuts:
            self._check_kept(result[0], result[1], cuts)
        return 0

    def _check_kept(self, int64_t first: int, int64_t last: int, int64_t cuts: int) -> None:
        """Raise if records that were appended after so many cuts of the log were removed by a later one."""
        error = self._loss_of(first, last, cuts)
        if error is not None:
            raise error

    def _loss_of(self, int64_t first: int, int64_t last: int, int64_t cuts: int) -> AppendTruncatedError | None:
        """Return the error of records that were appended after so many cuts of the log, if a later one has them."""
        if not self.marks.was_cut(last + 1, cuts):
            return None
        return AppendTruncatedError(
            f"{self.name}: offsets {first} to {last} are not in the log: a truncation has removed them before they "
            "were acknowledged as synced; append the records again",
            path=self.path,
        )

    def _note_cuts(self, Encoder encoder: Encoder) -> None:
        """Record in an encoder, under the lock, how often the log was cut before the append that follows."""
        encoder.cuts = self.marks.cuts

    def _flush(self, writer: LogWriter) -> None:
        """Make everything that was appended before this call durable; raises as `Log.flush`."""
        if not self._takes_any():
            self.check_writable()
        if self.mode is _DIRECT:
            writer.commit.run(self.end.value)
        else:
            writer.flush()

    def append_one(self, value: Buffer | None, key: Buffer | None, str topic not None: str, int32_t partition: int,
                   writer: LogWriter) -> RecordMetadata | None:
        """Append one record, with the time of this call; None, with nothing done, as `append`.

        ``topic`` and ``partition`` are those of the log, for the answer. Raises as `Log.append`.
        """
        cdef Encoder encoder
        cdef int64_t now
        cdef list encoders = self._encoders
        if not self._takes_plain():
            return None
        now = now_ms(self.clock, SYSTEM_CLOCK)
        encoder = self._take_encoder(now, writer)
        try:
            encoder.restart(now)
            if key is None and type(value) is bytes:
                encoder.add_one(now, NULL, -1, <const uint8_t *>PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value),
                                NULL, 0)
            else:
                encoder._add_fields(key, value, None, None)
            encoder._close_batch()
            result = self._append_encoded(encoder, None, now, writer)
            return _made(RecordMetadata, topic, partition, (<tuple>result)[0], now)
        finally:
            self._give_back(encoder, encoders)

    cdef Encoder _take_encoder(self, int64_t now, object writer):
        """Return an encoder with the settings of a plain append, which no other thread has."""
        cdef Encoder encoder = self._encoder
        if encoder is not None:
            self._encoder = None
            return encoder
        return self._encoders.pop() if self._encoders else writer.plain_encoder(now)

    cdef int _give_back(self, Encoder encoder, list encoders) except -1:
        """Keep an encoder for the next append. Taken beside other ``encoders``, it has the settings of before."""
        if self._encoder is None and encoders is self._encoders:
            self._encoder = encoder
        else:
            encoders.append(encoder)
        return 0

    cdef bint _takes_plain(self) except -1:
        """Return whether an append is answered once it is written, and the log takes any."""
        return self._is_plain and self._takes_any()

    cdef bint _takes_synced(self) except -1:
        """Return whether an append is answered once it is synced, and the log takes any."""
        return self._keeps_times and self.mode is _DIRECT and self._takes_any()

    cdef bint _takes_any(self) except -1:
        return not self.closed and self.failed is None and self.fork == fork_generation()

    def check_encoded(self, Encoder encoder: Encoder, int64_t now: int, writer: LogWriter) -> None:
        """Close an encoder's batches, and check keys and times, before anything of several appends is written."""
        if encoder._batch_start >= 0:
            encoder._close_batch()
        self._check(encoder, now, writer)

    cdef int _check(self, Encoder encoder, int64_t now, object writer) except -1:
        if self._breaks_rule(encoder, now):
            writer.check(encoder, now)
        return 0

    cdef bint _breaks_rule(self, Encoder encoder, int64_t now) noexcept:
        return (self._needs_keys and encoder.null_keys or now - encoder.min_timestamp_ms > self._before_max_ms
                or encoder.max_timestamp_ms - now > self._after_max_ms)

    def append_plain(self, Encoder encoder: Encoder, int64_t now: int, writer: LogWriter) -> AppendResult | None:
        """Write an encoder's batches as `append_encoded`; None, with nothing done, as `append`."""
        return self._append_encoded(encoder, None, now, writer) if self._takes_plain() else None

    def _append_gathered(self, Encoder encoder: Encoder, producer: ProducerStamp | None, ack: Ack | str | None,
                         writer: LogWriter) -> AppendResult | None:
        """Write a batch of an accumulator as `append_encoded`; None, with nothing done, as `append`.

        None also if another ``ack`` is asked for than that of the settings, or an earlier call, which was
        interrupted, has written the batch.
        """
        if (not (ack is None or ack is _WRITTEN) or encoder.appended_at >= 0 or not encoder.record_count
                or not self._takes_plain()):
            return None
        return self._append_encoded(encoder, producer, now_ms(self.clock, SYSTEM_CLOCK), writer)

    def _append_gathered_turn(self, list encoders: list[Encoder], list producers: list[ProducerStamp | None],
                              writer: LogWriter) -> list[AppendResult]:
        """Write batches of one accumulator in one write, and move the marks once; return their results.

        Each encoder holds one closed batch, and ``producers`` those in their headers. Written are the first ones,
        as many as are plain and fit the active segment, perhaps none. `_append_gathered` and its caller take what
        is left, and raise what is wrong with it.
        """
        cdef Py_ssize_t count = len(encoders), plain = 0, taken = 0
        cdef int64_t now, first = -1
        cdef Encoder encoder
        cdef list results = []
        cdef Run *runs
        if not self._takes_plain():
            return results
        now = now_ms(self.clock, SYSTEM_CLOCK)
        runs = <Run *>malloc(<size_t>max(count, 1) * sizeof(Run))
        if runs == NULL:
            raise MemoryError
        try:
            while plain < count:
                encoder = encoders[plain]
                if encoder._batch_start >= 0 or encoder.batch_count != 1 or encoder.appended_at >= 0 or (
                        self._breaks_rule(encoder, now)):
                    break
                _describe_encoded(encoder, producers[plain], &runs[plain])
                runs[plain].in_place = False
                plain += 1
            if plain:
                self.lock.acquire()
                try:
                    taken = self._append(runs, plain, now, &first)
                except LogstoreError:
                    # An encoder whose batch is in the log knows it. The steps for a single one raise this again.
                    taken = 0
                except BaseException as error:
                    self._settle(error, writer)
                    raise error
                finally:
                    self.lock.release()
            _add_results(results, runs, taken, first)
        finally:
            free(runs)
        if self.has_work:
            writer.follow_up()
        return results

    def append_encoded(self, Encoder encoder: Encoder, producer: ProducerStamp | None, int64_t now: int,
                       writer: LogWriter) -> AppendResult:
        """Check keys and times of an encoder's batches, and write them; ``writer`` has the steps that are rare.

        ``producer`` is the producer in the header of the one batch. Raises as `LogReplica.append_encoded`.
        """
        return self._append_encoded(encoder, producer, now, writer)

    cdef object _append_encoded(self, Encoder encoder, object producer, int64_t now, object writer):
        self._check(encoder, now, writer)
        try:
            return self._write_encoded(encoder, producer, now, writer)
        except DiskFullError:
            if not self.quota.reclaim(encoder.size):
                raise
        return self._write_encoded(encoder, producer, now, writer)

    def append_batch(self, bytes batch not None: bytes, int64_t now: int, writer: LogWriter,
                     bint synced: bool = False) -> AppendResult | None:
        """Append one whole batch of a client; None, with nothing done, if that takes the steps of ``writer``.

        With ``synced`` it is on disk on return. None also for a batch that is wrong or breaks a rule of the log:
        `admit` of `log.append` says what is wrong.
        """
        cdef int64_t cuts = 0
        result = self._append_batch(batch, now, writer, &cuts)
        if synced and result is not None:
            self._sync_appended(result, cuts, writer)
        return result

    def append_plain_batch(self, bytes batch not None: bytes, writer: LogWriter,
                           bint synced: bool = False) -> AppendResult | None:
        """Append one whole batch of a client as `append_batch`; None, with nothing done, also as `append`.

        With ``synced``, or if the settings say so, it is on disk on return.
        """
        cdef int64_t cuts = 0
        synced = synced or self._is_synced
        if not (self._takes_synced() if synced else self._takes_plain()):
            return None
        result = self._append_batch(batch, now_ms(self.clock, SYSTEM_CLOCK), writer, &cuts)
        if synced and result is not None:
            self._sync_appended(result, cuts, writer)
        return result

    cdef object _append_batch(self, bytes batch, int64_t now, object writer, int64_t *cuts):
        cdef Run run
        cdef list results = []
        if self.fork != fork_generation() or not self._describe(<const uint8_t *>PyBytes_AS_STRING(batch),
                                                                PyBytes_GET_SIZE(batch), now, &run):
            return None
        if not self._write_turn(&run, 1, results, now, writer):
            return None
        result, cuts[0] = results[0], run.cuts
        if isinstance(result, LogstoreError):
            raise result
        return result

    def append_turn(self, list batches: list[bytes], int64_t now: int, writer: LogWriter,
                    list cuts: list[int]) -> list[AppendResult | LogstoreError]:
        """Append whole batches of several clients in their order; return a result or an error for each.

        ``cuts`` gets the number of cuts before each.

        Each is in the log whole or not at all, and an error of one changes nothing for the others. Neighbours that
        fit the active segment take one write. So do those that are changed, as by another compression: all are
        checked, and changed, before the first write.

        By itself, by the writer's `attempt`, goes what the steps of one append decide under the lock: a batch that
        needs a roll, the first one after an open, one that was written before, is out of sequence or begins a
        transaction, and one whose offsets are not those of its records. So does every batch of a log whose tail is
        in memory or whose offsets are positions, and one that is older than retention keeps, which is warned of.
        """
        cdef Py_ssize_t count = len(batches), done = 0, plain, taken, n
        cdef list results = [], others = [None] * count
        cdef bytes batch
        cdef Run *runs = <Run *>malloc(<size_t>max(count, 1) * sizeof(Run))
        if runs == NULL:
            raise MemoryError
        try:
            for n in range(count):
                batch = batches[n]
                if not self._describe(<const uint8_t *>PyBytes_AS_STRING(batch), PyBytes_GET_SIZE(batch), now,
                                      &runs[n]):
                    # Admitted as it is written, or the error that says what is wrong with it.
                    others[n] = other = writer.admitted(batch, now)
                    if isinstance(other, LogstoreError) or not self._describe_admitted(other.data, now, &runs[n]):
                        runs[n].size = -1
            while done < count:
                plain = done
                while plain < count and runs[plain].size >= 0:
                    plain += 1
                taken = self._write_turn(runs + done, plain - done, results, now, writer) if plain > done else 0
                for n in range(done, done + taken):
                    cuts.append(runs[n].cuts)
                if not taken:
                    result, before = writer.attempt(batches[done], others[done], now)
                    results.append(result)
                    cuts.append(before)
                    taken = 1
                done += taken
        finally:
            free(runs)
        return results

    cdef Py_ssize_t offer(self, Offer *offers, Py_ssize_t count, object writer) except -1:
        """Append the first of clients' batches in one write, as far as that waits for nothing; return how many.

        It does not wait for the lock, nor for a roll, nor for a sync that the settings ask for. Each that is in the
        log has its first offset. What is left, such as a batch that breaks a rule, is for the steps that may wait;
        nothing of it is done. If it raises, the log has failed, and none of the batches may be called written.
        """
        cdef Run runs[OFFERED]
        cdef int64_t first = -1, now
        cdef Py_ssize_t plain = 0, taken = 0, n
        if not self._takes_plain():
            return 0
        now = now_ms(self.clock, SYSTEM_CLOCK)
        while plain < count and plain < OFFERED and self._describe(offers[plain].data, offers[plain].size, now,
                                                                   &runs[plain]):
            plain += 1
        if not plain or not self.lock.acquire(False):
            return 0
        try:
            taken = self._append(runs, plain, now, &first)
        except LogstoreError:
            if first >= 0:
                raise
            return 0  # the steps that may wait find out what there is to do, or raise it again
        except BaseException as error:
            self._settle(error, writer)
            raise error
        finally:
            self.lock.release()
        if self.has_work:
            writer.leave_follow_up()
        for n in range(taken):
            offers[n].first = first
            first += runs[n].record_count
        return taken

    def append_run(self, run: Buffer, producer: ProducerStamp, int64_t newest: int, int64_t now: int,
                   writer: LogWriter) -> tuple[int, AppendResult] | None:
        """Append the first batches of a run that the caller owns, as many as one segment takes, in one write.

        Their headers are stamped where they are. Returns their bytes and their offsets; None, with nothing done, if
        that takes the steps of ``writer``, such as a roll. Raises as `LogReplica.append_run`.
        """
        cdef Py_buffer view
        cdef Run piece
        cdef int64_t first = -1
        cdef Py_ssize_t taken
        if self.fork != fork_generation():
            return None
        PyObject_GetBuffer(run, &view, PyBUF_WRITABLE)
        try:
            self.lock.acquire()
            try:
                # Under the lock: a smaller segment.bytes may be set at any time.
                self._measure(<uint8_t *>view.buf, view.len, &piece)
                piece.newest = newest
                piece.producer_id, piece.producer_epoch = producer.producer_id, producer.producer_epoch
                piece.base_sequence, piece.transactional = producer.base_sequence, producer.transactional
                piece.last_sequence = (<int64_t>piece.base_sequence + piece.record_count - 1) & INT32_MAX
                taken = self._append(&piece, 1, now, &first)
            except LogstoreError:
                raise
            except BaseException as error:
                self._settle(error, writer)
                raise error
            finally:
                self.lock.release()
        finally:
            PyBuffer_Release(&view)
        if not taken:
            return None
        return piece.size, _result(first, first + piece.record_count - 1)

    cdef int _measure(self, uint8_t *data, int64_t size, Run *run) except -1:
        """Fill ``run`` with the first batches, at least one, that an empty segment takes together."""
        cdef BatchHeader header
        cdef const uint8_t *end = data + size
        cdef int64_t done = 0
        run.data, run.in_place, run.encoder = data, True, NULL
        run.record_count, run.batch_count = 0, 0
        while done < size:
            raise_batch_status(whole_header(data + done, end, &header), data + done, end, None, None)
            if run.batch_count and done + header.size > self._segment_bytes:
                break
            run.record_count += <int64_t>header.last_offset_delta + 1
            run.batch_count += 1
            done += header.size
        run.size = done
        return 0

    cdef bint _describe(self, const uint8_t *p, int64_t size, int64_t now, Run *run) except -1:
        """Fill ``run`` from a client's batch; False if the batch is not plain, or breaks a rule."""
        cdef BatchHeader header
        if (not self._keeps_times or size > self._message_bytes or check_batch(p, p + size, &header) != OK
                or header.size != size or not self._admits(p, &header, now)):
            return False
        self._describe_header(p, &header, run)
        return True

    cdef void _describe_header(self, const uint8_t *p, const BatchHeader *header, Run *run) noexcept:
        run.data, run.size, run.in_place, run.encoder = <uint8_t *>p, header.size, False, NULL
        run.cuts, run.answer_ms = 0, -1
        run.record_count, run.batch_count = header.record_count, 1
        run.newest = header.max_timestamp
        run.producer_id, run.producer_epoch = header.producer_id, header.producer_epoch
        run.base_sequence = header.base_sequence
        run.last_sequence = (<int64_t>header.base_sequence + header.record_count - 1) & INT32_MAX
        run.transactional = (header.attributes & TRANSACTIONAL_FLAG) != 0

    cdef bint _describe_admitted(self, bytearray data, int64_t now, Run *run) except -1:
        """Fill ``run`` from a checked and changed batch; False if its offsets are not those of its records."""
        cdef BatchHeader header
        cdef uint8_t *p = <uint8_t *>PyByteArray_AS_STRING(data)
        cdef const uint8_t *end = p + PyByteArray_GET_SIZE(data)
        raise_batch_status(whole_header(p, end, &header), p, end, None, None)
        self._describe_header(p, &header, run)
        if not self._keeps_times:
            run.answer_ms = now
        return header.record_count == <int64_t>header.last_offset_delta + 1

    cdef bint _admits(self, const uint8_t *p, const BatchHeader *header, int64_t now) except -1:
        """Return whether a client's batch keeps every rule as it is; the rules are those of `append.validation`."""
        cdef const uint8_t *begin = p + HEADER_BYTES
        cdef const uint8_t *end = p + header.size
        cdef Survey survey
        cdef int status
        cdef bytes payload
        if (header.attributes & (CONTROL_FLAG | DELETE_HORIZON_FLAG | APPEND_TIME_FLAG) or header.record_count <= 0
                or header.record_count != <int64_t>header.last_offset_delta + 1
                or (self._codec >= 0 and header.attributes & CODEC_MASK != self._codec)):
            return False
        if header.producer_id >= 0:
            if header.producer_epoch < 0 or header.base_sequence < 0:
                return False
        elif header.attributes & TRANSACTIONAL_FLAG:
            return False
        if header.attributes & CODEC_MASK:
            try:
                payload = payload_of(p, header, self._decompressed_bytes)
            except LogstoreError:
                return False  # `admit` raises it again
            begin = <const uint8_t *>PyBytes_AS_STRING(payload)
            end = begin + PyBytes_GET_SIZE(payload)
        if end - begin <= SURVEYED_BYTES:
            # Releasing the GIL takes longer if other threads want it: they are woken, and this one has to wait.
            status = survey_records(begin, end, header, True, &survey)
        else:
            with nogil:
                status = survey_records(begin, end, header, True, &survey)
        return (status == OK and survey.max_timestamp == header.max_timestamp
                and not (self._needs_keys and survey.null_keys)
                # In sums that no timestamp of a client can overflow.
                and survey.min_timestamp >= now - self._before_max_ms
                and (self._after_max_ms > INT64_MAX - now or survey.max_timestamp <= now + self._after_max_ms))

    cdef object _write_encoded(self, Encoder encoder, object producer, int64_t now, object writer):
        """Write an encoder's batches at the log end offset, under the lock."""
        cdef Run run
        cdef int64_t first = -1
        cdef int left = ATTEMPTS
        _describe_encoded(encoder, producer, &run)
        while True:
            self.lock.acquire()
            try:
                # The writer refuses an idempotent append of several batches.
                if encoder._batch_start < 0 and (producer is None or run.batch_count == 1) and (
                        self._append(&run, 1, now, &first)):
                    result = _result(first, first + run.record_count - 1)
                    break
                if writer.is_ready_locked(run.size, run.record_count, run.newest) or (
                        left <= 0 and not writer.must_wait_locked(run.size, run.record_count, run.newest)):
                    result = writer.write_other_locked(encoder, producer, now)
                    break
            except LogstoreError:
                raise
            except BaseException as error:
                self._settle(error, writer)
                raise error
            finally:
                self.lock.release()
            # A roll waits for a file, say: not under the lock.
            left -= 1
            writer.make_ready()
        if self.has_work:
            writer.follow_up()
        return result

    cdef Py_ssize_t _write_turn(self, Run *runs, Py_ssize_t count, list results, int64_t now,
                                object writer) except -1:
        """Write the first of clients' batches, under the lock; return how many have a result or an error now."""
        cdef Py_ssize_t taken = 0
        cdef int64_t first = -1
        self.lock.acquire()
        try:
            taken = self._append(runs, count, now, &first)
        except LogstoreError as error:
            if first >= 0:
                # The batches are in the log, but their readers may not see it: none of them may be called written.
                taken = self._batches_since(runs, first)
                results.extend([error] * taken)
                return taken
            if isinstance(error, _OUT_OF_RESOURCES):
                return 0  # the writer reclaims space, and tries them one by one
            results.append(error)
            return 1
        except BaseException as error:
            self._settle(error, writer)
            raise error
        finally:
            self.lock.release()
        if self.has_work:
            writer.follow_up()
        _add_results(results, runs, taken, first)
        return taken

    cdef Py_ssize_t _batches_since(self, Run *runs, int64_t first) except -1:
        """Return how many of the batches are in the log, from an offset on."""
        cdef Py_ssize_t count = 0
        while first < self.end.value:
            first += runs[count].record_count
            count += 1
        return count

    cdef int _settle(self, object error, object writer) except -1:
        """Repair the state after an interrupt, as `locked` does: before another thread sees it."""
        try:
            shielded(writer.settle_locked)
        except BaseException as second:
            if second.__context__ is None:
                second.__context__ = error
        return 0

    def raise_end(self, batches: object, int64_t first: int, int64_t end: int) -> None:
        """Raise the log end offset over an append; an encoder learns that its batches are in the log.

        Nothing can come between the two. So after an interrupt the accumulator knows whether it has to write the
        batch again.
        """
        mark_appended(batches, first)
        self.end.advance(end)

    cdef Segment _segment_for(self, int64_t size, int64_t span, int64_t newest):
        """Return the active segment if an append of these bytes, offsets and newest timestamp fits it.

        None if the log refuses writes, or anything has to be done before the bytes can be written.
        """
        cdef Segment segment
        if (self.closed or self.failed is not None or self.mutation_depth or self.appending
                or self.must_unmark or self.must_check_keys or self.mode is not _DIRECT
                or self.noted_epoch != self.leader_epoch or newest < self.old_below_ms
                or size > self.reserved_bytes or size > self._segment_bytes
                or self._moves == BY_POLICY or not self.leads):
            return None
        segment = self.segments._active()
        # An end below the segment's is a tail or a gap; above it, an append that has failed half way.
        if segment.index.next_offset != self.end.value or not (
                segment.file.is_at_hand() and self.published.is_at_hand()) or (
                self.roll_is_due_locked(size, self.end.value + span - 1, newest)):
            return None
        return segment

    cpdef bint roll_is_due_locked(self, int64_t size, int64_t last_offset, int64_t newest) except -1:
        """Return whether an append of these bytes, last offset and newest timestamp needs a new segment."""
        cdef Segment segment = self.segments._active()
        cdef SegmentIndex index = segment.index
        if last_offset - segment.base_offset > INT32_MAX:
            return True
        if not index.size:
            return False
        if newest >= 0 and index.first_timestamp_ms >= 0 and newest - index.first_timestamp_ms > self.roll_after_ms:
            return True
        return (index.size + size > self._segment_bytes or index.offsets.count + 1 > self._index_bytes // 8
                or index.times.count + 1 > self._index_bytes // 12)

    cdef Py_ssize_t _append(self, Run *runs, Py_ssize_t count, int64_t now, int64_t *first) except -1:
        """Append the first of the runs to the active segment, in one write; return how many.

        0, with nothing done, if the first one takes other steps. ``first`` is set once the log has the bytes, to
        their first offset. The runs are batches of clients or of encoders, or one that is stamped in place. The
        encoders know then that their batches are in the log.
        """
        cdef Segment segment = None, found
        cdef Counters counters = self.counters
        cdef Producers producers = None
        cdef int64_t size = 0, records = 0, batches = 0, offset = self.end.value, last
        cdef Py_ssize_t taken = 0, n
        cdef Encoder encoder
        cdef uint8_t *data
        while taken < count and taken < TURN_BATCHES and size < KEPT_BYTES:
            found = self._segment_for(size + runs[taken].size, records + runs[taken].record_count,
                                      runs[taken].newest)
            if found is None:
                break
            if runs[taken].producer_id >= 0:
                if producers is None:
                    producers = self.transactions.producers
                if not self._is_next(runs, taken, producers):
                    break
            segment = found
            size += runs[taken].size
            records += runs[taken].record_count
            taken += 1
            if not segment.index.size:
                break  # the age at which it rolls counts from this batch
        if not taken:
            return 0
        if not runs.in_place:
            # The headers are stamped in a copy.
            data = self._space_for(size)
            size = 0
            for n in range(taken):
                memcpy(data + size, runs[n].data, <size_t>runs[n].size)
                size += runs[n].size
            self._put(segment, data, size, offset)
        elif runs.encoder == NULL:
            self._put(segment, runs.data, size, offset)
        else:
            # As a memoryview does: another thread may use a caller's encoder by mistake, and must not move bytes.
            encoder = <Encoder>runs.encoder
            encoder._exports += 1
            try:
                self._put(segment, runs.data, size, offset)
            finally:
                encoder._exports -= 1
        first[0] = offset
        for n in range(taken):
            last = offset + runs[n].record_count - 1
            runs[n].cuts = self.marks.cuts
            if runs[n].producer_id >= 0:
                self._record(&runs[n], producers, offset, last, now)
            batches += runs[n].batch_count
            offset = last + 1
        last = first[0]
        for n in range(taken):
            if runs[n].encoder != NULL:
                encoder = <Encoder>runs[n].encoder
                encoder.appended_at, encoder.cuts = last, runs[n].cuts
            last += runs[n].record_count
        counters._count(taken, records, batches, size)
        if segment.index.size >= self.prepare_bytes:
            # No call of Python before the end has risen: an interrupt in it would leave bytes behind the end.
            self.prepare_bytes = INT64_MAX
            self.has_work = self.rolls_have_work = True
        self.end.advance(offset)
        self._move_marks()
        if producers is not None and not -EXPIRY_MS < now - self.transactions.last_expiry_ms < EXPIRY_MS:
            self.transactions.expire(now)
        return taken

    cdef int _record(self, Run *run, Producers producers, int64_t first, int64_t last, int64_t now) except -1:
        """Record a written batch of a producer, which `_is_next` has admitted."""
        if run.state != NULL:
            producers.take(<ProducerState>run.state, run.base_sequence, run.last_sequence, first, last, run.newest,
                           now)
            return 0
        # Without memory for another producer, its bytes are cut off again.
        self.appending = True
        self.transactions.note_producer()
        producers.record(run.producer_id, run.producer_epoch, run.base_sequence, run.last_sequence, first, last,
                         run.newest, False, now)
        self.appending = False
        return 0

    cdef bint _is_next(self, Run *runs, Py_ssize_t n, Producers producers) except -1:
        """Return whether a batch is plainly its producer's next one, behind those before it; keep the producer.

        So is the first batch of a producer that the log does not know, whatever its sequence: `Producers.check`.
        """
        cdef ProducerState state
        cdef Py_ssize_t before = n - 1
        if runs[n].batch_count != 1 and not runs[n].in_place:
            return False
        while before >= 0 and runs[before].producer_id != runs[n].producer_id:
            before -= 1
        if before < 0:
            state = producers.expecting(runs[n].producer_id, runs[n].producer_epoch, runs[n].base_sequence,
                                        runs[n].last_sequence, runs[n].transactional)
            if state is None:
                runs[n].state = NULL
                return (runs[n].base_sequence >= 0 and runs[n].producer_epoch >= 0 and not runs[n].transactional
                        and not producers.knows(runs[n].producer_id))
            # Not counted: the table refers to it for as long as the lock is held.
            runs[n].state = <PyObject *>state
            return True
        runs[n].state = runs[before].state
        return (runs[n].state != NULL
                and runs[n].producer_epoch == runs[before].producer_epoch
                and runs[n].transactional == runs[before].transactional
                and runs[n].base_sequence == (<int64_t>runs[before].last_sequence + 1) & INT32_MAX
                and (<ProducerState>runs[n].state)._find(runs[n].base_sequence, runs[n].last_sequence) < 0)

    cdef int _put(self, Segment segment, uint8_t *data, int64_t size, int64_t first) except -1:
        try:
            segment.put(data, size, first, self.leader_epoch)
        except _OUT_OF_RESOURCES as error:
            self.counters.disk_full += isinstance(error, DiskFullError)
            raise
        except StorageError as error:
            raise self.fail_locked(error) from error
        self.reserved_bytes -= size
        return 0

    cdef uint8_t *_space_for(self, int64_t size) except NULL:
        """Return memory for a copy of batches, used under the lock; the next append gives back a large one."""
        cdef void *data
        cdef int64_t wanted = size if size > KEPT_BYTES else max(size, min(self._copy_bytes, <int64_t>KEPT_BYTES))
        if wanted != self._copy_bytes:
            data = realloc(self._copy, <size_t>wanted)
            if data == NULL:
                raise MemoryError
            self._copy = <uint8_t *>data
            self._copy_bytes = wanted
        return self._copy

    def __dealloc__(self):
        free(self._copy)

    cdef int _move_marks(self) except -1:
        """Move the marks that follow the log end offset, and publish them."""
        cdef Watermark mark = self.high_watermark
        cdef int64_t stable
        mark.advance(self.wanted_mark())
        if self.transactions.has_producers and not self.transactions.producers.is_all_stable():
            self.last_stable.advance(self.transactions.last_stable_offset(mark.value))
        else:
            self.last_stable.advance(mark.value)
        self.marks.check()
        # Readers in other processes find aborted transactions in the files alone.
        stable = min(self.last_stable.value, self.transactions.listed_end)
        try:
            self.published.put(self.segments._moment(), self.marks.log_start, mark.value,
                               max(self.marks.log_start, stable), self.end.value)
        except StorageError:
            # Once more, by the step that knows which errors fail the log.
            self.publish_locked()
        return 0


cdef Segment _segment_of(tuple segments, int64_t offset):
    """Return the last segment whose base offset is at most ``offset``; None if there is none."""
    cdef Py_ssize_t first = 0, behind = len(segments), middle
    while first < behind:
        middle = (first + behind) // 2
        if (<Segment>segments[middle]).base_offset <= offset:
            first = middle + 1
        else:
            behind = middle
    return <Segment>segments[first - 1] if first else None


cdef int _add_results(list results, Run *runs, Py_ssize_t count, int64_t first) except -1:
    """Add the result of each run, of which the first begins at an offset."""
    cdef Py_ssize_t n
    cdef int64_t end
    for n in range(count):
        end = first + runs[n].record_count
        results.append(_result(first, end - 1) if runs[n].answer_ms < 0 else _made(
            AppendResult, first, end - 1, runs[n].answer_ms, False))
        first = end
    return 0


cdef int _describe_encoded(Encoder encoder, object producer, Run *run) except -1:
    """Fill ``run`` from an encoder's batches and the producer in their header."""
    run.data, run.size, run.in_place, run.encoder = encoder.data, encoder.size, True, <PyObject *>encoder
    run.record_count, run.batch_count = encoder.record_count, encoder.batch_count
    run.newest = encoder.max_timestamp_ms
    run.producer_id = -1
    run.cuts, run.answer_ms = 0, -1
    if producer is not None:
        run.producer_id, run.producer_epoch = producer.producer_id, producer.producer_epoch
        run.base_sequence, run.transactional = producer.base_sequence, producer.transactional
        run.last_sequence = (<int64_t>run.base_sequence + run.record_count - 1) & INT32_MAX
    return 0


cpdef int mark_appended(batches, int64_t first) except -1:
    """Record in an encoder that its batches are in the log, from an offset on."""
    if type(batches) is Encoder:
        (<Encoder>batches).appended_at = first
    return 0
