# cython: language_level=3
"""The marks of an open log, as other compiled modules see them; `_partition_log.pyx` describes them."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from cpython.object cimport PyObject

from logstore._segment cimport Segment
from logstore.accumulator._alarms cimport Alarm
from logstore.batch._batch cimport BatchHeader
from logstore.batch._encode cimport Encoder
from logstore.io._file_region cimport FileRegion
from logstore.log._producers cimport Producers, ProducersOfLog
from logstore.log.directory._segment_set cimport SegmentSet
from logstore.log.marks._marks cimport LogMarks
from logstore.log.marks._watermark cimport LogLock, Watermark
from logstore.log.formats._published cimport PublishedFile


cdef struct Run:                  # whole batches to append, with what their headers say
    uint8_t *data
    int64_t size
    int64_t record_count
    int32_t batch_count
    int64_t newest                # timestamp
    int64_t producer_id           # -1: none, and nothing below
    int32_t producer_epoch
    int32_t base_sequence
    int32_t last_sequence
    bint transactional
    int64_t answer_ms             # of its result: the log's own time, if it sets one; else -1
    int64_t cuts                  # of the log, once they are in it: `LogMarks.cuts`
    bint in_place                 # its headers may be stamped where they are; else in a copy
    PyObject *state               # of the producer, while the lock is held; NULL: the log has none of it yet
    PyObject *encoder             # that has them, and shall know that they are in the log; else NULL


cdef struct Offer:                # a client's batch, offered by a caller that does not wait
    const uint8_t *data
    int64_t size
    int64_t first                 # its first offset, once it is in the log


cdef struct Moment:               # of a fetch
    bint is_usual                 # else the steps of `Readable` have to decide
    int64_t log_start
    int64_t last_stable
    int64_t high_watermark
    int64_t log_end
    int64_t generation


cdef enum:                        # the ends of a fetch
    TO_HIGH_WATERMARK = 0
    TO_LAST_STABLE = 1
    TO_LOG_END = 2


cpdef int mark_appended(batches, int64_t first) except -1


cdef class Counters:
    cdef public int64_t appends
    cdef public int64_t appended_records
    cdef public int64_t appended_batches
    cdef public int64_t appended_bytes
    cdef public int64_t duplicates      # idempotent appends that had been written before
    cdef public int64_t flushes         # rounds of fdatasync
    cdef public int64_t rolls
    cdef public int64_t truncations
    cdef public int64_t deleted_segments
    cdef public int64_t roll_waits      # appends that waited for the sync of earlier segments
    cdef public int64_t disk_full       # writes that failed for lack of space
    # Of flushes.
    cdef readonly int64_t unflushed_records
    cdef readonly double last_flush_s   # monotonic time at which the last one began
    cdef readonly double sync_s         # time spent in syncs of appended batches
    cdef object _clock
    cdef Alarm _alarm                   # for the next flush; None: no time limits it
    cdef double _flush_within_s
    cdef int _count(self, int64_t appends, int64_t records, int64_t batches, int64_t size) except -1
    cpdef int64_t take_unflushed(self) except -1
    cpdef int untake_unflushed(self, int64_t records) except -1
    cpdef int ask_flush(self) except -1
    cdef int _set_alarm(self) except -1
    cpdef int count_sync(self, double began_s) except -1


cdef class PartitionLog:
    cdef public LogLock lock
    cdef public object clock
    cdef public uint64_t fork           # of the process that has opened the log
    cdef readonly LogMarks marks
    # Those that each append moves.
    cdef readonly Watermark end
    cdef readonly Watermark synced
    cdef readonly Watermark high_watermark
    cdef readonly Watermark last_stable
    cdef readonly Counters counters
    cdef public PublishedFile published
    cdef public SegmentSet segments
    cdef public ProducersOfLog transactions
    cdef public object quota            # of disk space
    cdef public object mode             # how batches get their offsets and reach the files
    # What refuses writes.
    cdef public bint closed
    cdef public object failed
    cdef public int32_t mutation_depth  # steps of a change that are in progress
    cdef readonly bint appending          # an append is in progress
    # What an append has to do first.
    cdef public bint must_unmark        # the file says that the log was closed cleanly
    cdef public bint must_check_keys    # the log became a compacted one while it was open
    cdef public int32_t leader_epoch
    cdef readonly int32_t noted_epoch     # the newest in the epoch table; -1: unknown
    cdef public object epochs           # the epoch table, and whether its file has it
    cdef public int64_t old_below_ms    # retention deletes older records; their caller is warned once
    # What an append counts down, or up.
    cdef public int64_t reserved_bytes  # not written yet
    # When a segment is full, and what has to be done before and after.
    cdef public object rolls
    cdef public int64_t prepare_bytes   # size of the active segment from which on the next one is prepared
    cdef public bint has_work           # for the thread that has appended, once the lock is free
    cdef public bint rolls_have_work    # part of it is that of `rolls`
    cdef public int64_t roll_after_ms
    cdef int64_t _segment_bytes
    cdef int64_t _index_bytes
    # What the settings ask of an append.
    cdef Encoder _encoder               # with the settings of a plain append; None: an append has it
    cdef list _encoders                 # more of them, for threads beside it; new settings replace the list
    cdef bint _is_plain                 # an append is answered once it is written, with no time of its own
    cdef bint _is_synced                # an append is answered once it is on disk
    cdef bint _keeps_times              # the log does not set its own time in batches
    cdef bint _needs_keys
    cdef int64_t _before_max_ms
    cdef int64_t _after_max_ms
    cdef int _codec                     # of every batch; -1: of each its own
    cdef int64_t _message_bytes         # of a client's batch, at most
    cdef int64_t _decompressed_bytes
    cdef uint8_t *_copy                 # of a client's batch, whose headers are stamped
    cdef int64_t _copy_bytes
    cdef readonly object policy         # of the high watermark
    cdef int _moves                     # what moves it, by that policy
    cdef readonly bint leads            # whether it lets clients append
    cdef FileRegion region_at(self, int64_t offset, int64_t max_bytes, int to, Moment *moment)
    cdef bint is_in(self, const Moment *moment) noexcept
    cpdef int64_t wanted_mark(self) except -1
    cdef Encoder _take_encoder(self, int64_t now, object writer)
    cdef int _give_back(self, Encoder encoder, list encoders) except -1
    cdef int _sync_appended(self, object result, int64_t cuts, object writer) except -1
    cdef bint _takes_plain(self) except -1
    cdef bint _takes_synced(self) except -1
    cdef bint _takes_any(self) except -1
    cdef int _check(self, Encoder encoder, int64_t now, object writer) except -1
    cdef bint _breaks_rule(self, Encoder encoder, int64_t now) noexcept
    cdef object _append_batch(self, bytes batch, int64_t now, object writer, int64_t *cuts)
    cdef int _measure(self, uint8_t *data, int64_t size, Run *run) except -1
    cdef object _append_encoded(self, Encoder encoder, object producer, int64_t now, object writer)
    cdef bint _admits(self, const uint8_t *p, const BatchHeader *header, int64_t now) except -1
    cdef bint _describe(self, const uint8_t *p, int64_t size, int64_t now, Run *run) except -1
    cdef void _describe_header(self, const uint8_t *p, const BatchHeader *header, Run *run) noexcept
    cdef Py_ssize_t offer(self, Offer *offers, Py_ssize_t count, object writer) except -1
    cdef bint _describe_admitted(self, bytearray data, int64_t now, Run *run) except -1
    cdef object _write_encoded(self, Encoder encoder, object producer, int64_t now, object writer)
    cdef Py_ssize_t _write_turn(self, Run *runs, Py_ssize_t count, list results, int64_t now,
                                object writer) except -1
    cdef Py_ssize_t _batches_since(self, Run *runs, int64_t first) except -1
    cdef int _settle(self, object error, object writer) except -1
    cpdef bint roll_is_due_locked(self, int64_t size, int64_t last_offset, int64_t newest) except -1
    cdef Segment _segment_for(self, int64_t size, int64_t span, int64_t newest)
    cdef Py_ssize_t _append(self, Run *runs, Py_ssize_t count, int64_t now, int64_t *first) except -1
    cdef int _record(self, Run *run, Producers producers, int64_t first, int64_t last, int64_t now) except -1
    cdef bint _is_next(self, Run *runs, Py_ssize_t n, Producers producers) except -1
    cdef int _put(self, Segment segment, uint8_t *data, int64_t size, int64_t first) except -1
    cdef uint8_t *_space_for(self, int64_t size) except NULL
    cdef int _move_marks(self) except -1
