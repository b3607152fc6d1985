# cython: language_level=3
"""Compaction of one batch: all of it as it is stored, some of its records, or nothing.

Offsets, sequences and the deltas inside records stay. A batch that loses records is rewritten from *slices* of its
bytes. Record count, greatest timestamp, length and CRC change, the last offset delta does not. Compressed batches
are decompressed and compressed again with their own codec. This module decides by key, offset and horizon. The
caller says whether a transaction was aborted, and whether a marker may be removed (`Filter.decide`).

The first pass that finds a tombstone, or a marker whose transaction has no batch left, gives its batch a *delete
horizon* (KIP-534). Attribute bit 6 is set, and the base timestamp becomes the time at which they may be removed.
So all timestamp deltas are rewritten. A batch without remaining records is kept as a header only (count 0, codec
none, base timestamp -1) if its offsets or sequence are still needed.
"""

cimport cython
from cpython.buffer cimport PyBUF_READ, PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from logstore.batch._batch cimport (
    APPEND_TIME_FLAG,
    AT_ATTRIBUTES,
    AT_BASE_TIMESTAMP,
    AT_MAX_TIMESTAMP,
    AT_RECORD_COUNT,
    BAD_COUNT,
    BAD_OFFSET,
    CODEC_MASK,
    CONTROL_FLAG,
    DECOMPRESSED_LIMIT,
    DELETE_HORIZON_FLAG,
    HEADER_BYTES,
    SHORT,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    RecordView,
    check_batch,
    last_offset_of,
    next_record,
    payload_of,
    raise_batch_status,
    seal_batch,
)
from logstore.batch._bytes cimport (
    MALFORMED,
    OK,
    read_varint,
    read_varlong,
    store16,
    store32,
    store64,
    varlong_size,
    write_varlong,
)
from logstore.batch._codec cimport compress
from logstore.batch._crc32c cimport logstore_crc32c_init
from logstore.batch._offset_map cimport Digest, KeyMap, get_hash, logstore_prefetch, logstore_bucket, sip_hash

from logstore.errors import CorruptRecordError

logstore_crc32c_init()

# Reasons why a run stopped.
ENDED = 0       # the bytes end here, or inside the next batch
DECIDE = 1      # the next batch is a marker or part of a transaction: the caller has to decide

cdef enum:
    NO_MEMORY = -100
    TOO_LARGE = -101
    AHEAD = 16                  # records whose slots in the map are being prefetched
    MOST_GROWTH = 14            # of a record by another timestamp delta: nine bytes, five in its length

cdef struct Ahead:
    Digest digest
    const uint8_t *start
    const uint8_t *end
    int64_t offset
    int64_t timestamp
    bint has_key
    bint is_tombstone

cdef struct Tally:
    int64_t size            # of the records that stay
    int32_t kept
    int32_t tombstones      # of those
    int32_t keyless         # removed because they have no key
    int64_t max_timestamp   # of those that stay


cdef int64_t rebase_records(const uint8_t *p, const uint8_t *end, int64_t old_base, int64_t new_base,
                            uint8_t *out) noexcept nogil:
    """Write records with their timestamp deltas relative to another base; return the bytes written, or a status.

    ``out`` has room for MOST_GROWTH bytes more for each record. The records were checked before.
    """
    cdef uint8_t *begin = out
    cdef const uint8_t *body
    cdef const uint8_t *stop
    cdef int32_t size = 0
    cdef int64_t delta = 0
    cdef uint8_t attributes
    while p < end:
        if read_varint(&p, end, &size) != OK or size < 1 or size > end - p:
            return MALFORMED
        stop = p + size
        attributes = p[0]
        body = p + 1
        if read_varlong(&body, stop, &delta) != OK:
            return MALFORMED
        # Timestamps wrap around as those of next_record do.
        delta = <int64_t>(<unsigned long long>delta + <unsigned long long>old_base - <unsigned long long>new_base)
        out = write_varlong(out, 1 + varlong_size(delta) + (stop - body))
        out[0] = attributes
        out = write_varlong(out + 1, delta)
        memcpy(out, body, <size_t>(stop - body))
        out += stop - body
        p = stop
    return out - begin


@cython.final
cdef class Filter:
    """A filter that removes records replaced by a newer one of the same key.

    Owns: a buffer with the remaining batches, which it exports until `clear`.
    Threads: one at a time.
    """

    cdef KeyMap _map
    cdef int64_t _known_offset
    cdef int64_t _now_ms
    cdef int64_t _delete_retention_ms
    cdef int64_t _limit
    cdef object _level_of
    cdef int64_t *_last_of_producers
    cdef Py_ssize_t _producer_count
    cdef Py_ssize_t _producer_at
    cdef int64_t _next_offset
    cdef uint8_t *_out
    cdef int64_t _size
    cdef int64_t _capacity
    cdef uint8_t *_scratch
    cdef int64_t _scratch_capacity
    cdef Py_ssize_t _exports
    cdef readonly int64_t records_read
    cdef readonly int64_t records_kept
    cdef readonly int64_t keyless_records
    cdef readonly int64_t bytes_read
    cdef readonly int64_t bytes_kept
    cdef readonly int64_t batches_copied
    cdef readonly int64_t batches_rewritten
    cdef readonly int64_t batches_emptied
    cdef readonly int64_t batches_dropped
    cdef readonly int64_t next_horizon_ms
    #: The highest offset of a tombstone or a marker that was deleted because its time had come; -1 if none was.
    cdef readonly int64_t last_dropped

    def __cinit__(self, KeyMap keys not None, *, int64_t known_offset, int64_t now_ms, int64_t delete_retention_ms,
                  level_of, int64_t limit=DECOMPRESSED_LIMIT):
        """Use ``keys``, which has every key up to ``known_offset``; later records stay."""
        self._map = keys
        self._known_offset = known_offset
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._level_of = level_of
        self._limit = limit
        self._next_offset = -1
        self.next_horizon_ms = INT64_MAX
        self.last_dropped = -1

    def __dealloc__(self):
        free(self._last_of_producers)
        free(self._out)
        free(self._scratch)

    def begin(self, int64_t base_offset, last_offsets):
        """Begin another group of segments.

        ``last_offsets`` are those of the last batches of all producers, rising. Each of these
        batches keeps its header, since it holds the producer's last sequence.
        """
        cdef int64_t *offsets
        cdef Py_ssize_t i
        self._free_to_write()
        offsets = <int64_t *>malloc(max(len(last_offsets), 1) * sizeof(int64_t))
        if offsets == NULL:
            raise MemoryError
        try:
            for i in range(len(last_offsets)):
                offsets[i] = last_offsets[i]
        except BaseException:
            free(offsets)
            raise
        free(self._last_of_producers)
        self._last_of_producers = offsets
        self._producer_count = len(last_offsets)
        self._producer_at = 0
        self._next_offset = base_offset
        self._size = 0

    # -- passing batches on ----------------------------------------------------------------------

    def run(self, bytes data not None, int64_t position, int64_t end_offset, bint ends_group, *, str path=None,
            int64_t file_position=0):
        """Pass whole batches on from ``position``; return (where it stopped, why).

        The batches end before ``end_offset``. With ``ends_group`` the last one, which ends with
        ``data``, keeps at least its header, so that the segment has its end offset.

        Raises:
            CorruptRecordError: a batch is damaged; its position is ``file_position`` and the bytes passed.
        """
        cdef const uint8_t *first = <const uint8_t *>PyBytes_AS_STRING(data)
        cdef const uint8_t *end = first + PyBytes_GET_SIZE(data)
        cdef const uint8_t *p = first + position
        cdef BatchHeader header
        cdef int status = OK
        cdef bint stays_empty
        if not 0 <= position <= end - first:
            raise ValueError(f"position {position} is outside {end - first} bytes")
        self._free_to_write()
        with nogil:
            while p < end:
                status = self._look(p, end, end_offset, &header)
                if status != OK or header.attributes & (CONTROL_FLAG | TRANSACTIONAL_FLAG):
                    break
                stays_empty = self._is_last_of_producer(&header) or (ends_group and p + header.size == end)
                if header.attributes & CODEC_MASK and header.record_count:
                    with gil:
                        self._pass_packed(p, &header, stays_empty, path, file_position + (p - first))
                else:
                    status = self._pass_plain(p, &header, False, False, stays_empty)
                    if status != OK:
                        break
                self._step(&header)
                p += header.size
        if status == SHORT:
            return p - first, ENDED
        self._check(status, p, end, &header, path, file_position + (p - first))
        return p - first, DECIDE if p < end else ENDED

    def decide(self, bytes data not None, int64_t position, int64_t end_offset, *, bint discard, bint marker_goes,
               bint stays_empty, str path=None, int64_t file_position=0):
        """Pass on the one batch at ``position`` as the caller decided; return where the next begins.

        ``discard``: all of its records are removed. ``marker_goes``: it is a marker that may be removed when its
        horizon has passed, so it gets one. ``stays_empty``: at least the header stays.
        """
        cdef const uint8_t *first = <const uint8_t *>PyBytes_AS_STRING(data)
        cdef const uint8_t *end = first + PyBytes_GET_SIZE(data)
        cdef const uint8_t *p = first + position
        cdef BatchHeader header
        cdef int status
        cdef bint is_marker
        self._free_to_write()
        status = self._look(p, end, end_offset, &header)
        self._check(status, p, end, &header, path, file_position + position)
        stays_empty = self._is_last_of_producer(&header) or stays_empty
        is_marker = header.attributes & CONTROL_FLAG
        if discard:
            self.records_read += header.record_count
            if is_marker and header.record_count:
                self.last_dropped = max(self.last_dropped, last_offset_of(&header))
            status = self._empty_or_drop(p, &header, stays_empty)
        elif header.attributes & CODEC_MASK and header.record_count and not is_marker:
            self._pass_packed(p, &header, stays_empty, path, file_position + position)
        else:
            status = self._pass_plain(p, &header, is_marker, marker_goes, stays_empty)
        self._check(status, p, end, &header, path, file_position + position)
        self._step(&header)
        return position + header.size

    cdef int _look(self, const uint8_t *p, const uint8_t *end, int64_t end_offset,
                   BatchHeader *header) noexcept nogil:
        """Check a batch, and that its offsets rise: the CRC does not cover where they begin."""
        cdef int status = check_batch(p, end, header)
        if status == OK and (header.base_offset < self._next_offset or last_offset_of(header) >= end_offset):
            return BAD_OFFSET
        return status

    cdef void _step(self, const BatchHeader *header) noexcept nogil:
        self._next_offset = last_offset_of(header) + 1
        self.bytes_read += header.size

    cdef bint _is_last_of_producer(self, const BatchHeader *header) noexcept nogil:
        """Tell whether a producer's last sequence is in this batch. Batches come with rising offsets."""
        cdef int64_t last = last_offset_of(header)
        while self._producer_at < self._producer_count and self._last_of_producers[self._producer_at] < last:
            self._producer_at += 1
        return (header.producer_id >= 0 and self._producer_at < self._producer_count
                and self._last_of_producers[self._producer_at] == last)

    cdef int _sift(self, const uint8_t *p, const uint8_t *end, const BatchHeader *header, bint all_stay,
                   uint8_t *out, Tally *tally) noexcept nogil:
        """Copy the records that stay to out, which has room for all; adjacent ones are copied together.

        At the top of the loop every record before p is whole, and is judged or among those ahead.
        """
        cdef RecordView record
        cdef Ahead ahead[AHEAD]
        cdef int pending = 0, i, status
        cdef int32_t left = header.record_count
        cdef uint8_t *begin = out
        cdef const uint8_t *slice_start = NULL
        cdef const uint8_t *slice_end = NULL
        cdef bint tombstones_stay = not (header.attributes & DELETE_HORIZON_FLAG
                                         and header.base_timestamp <= self._now_ms)
        cdef int64_t offset_before = header.base_offset - 1, last = last_offset_of(header)
        cdef bint stays
        tally.kept = tally.tombstones = tally.keyless = 0
        tally.max_timestamp = INT64_MIN
        while left > 0 or pending:
            if left > 0 and pending < AHEAD:
                ahead[pending].start = p
                status = next_record(&p, end, header.base_offset, header.base_timestamp, &record)
                if status != OK:
                    return MALFORMED
                if record.offset <= offset_before or record.offset > last:
                    return MALFORMED
                offset_before = record.offset
                ahead[pending].end = p
                ahead[pending].offset = record.offset
                ahead[pending].timestamp = record.timestamp
                ahead[pending].is_tombstone = record.value_size < 0
                ahead[pending].has_key = record.key_size >= 0
                if record.key_size >= 0 and record.offset <= self._known_offset and not all_stay:
                    ahead[pending].digest = sip_hash(record.key, record.key_size, self._map.table.secret_low,
                                                     self._map.table.secret_high)
                    logstore_prefetch(self._map.table.slots + logstore_bucket(ahead[pending].digest.high,
                                                                              self._map.table.slot_count))
                pending += 1
                left -= 1
                if pending < AHEAD and left > 0:
                    continue
            for i in range(pending):
                if all_stay or ahead[i].offset > self._known_offset:
                    stays = True
                elif not ahead[i].has_key:
                    tally.keyless += 1
                    stays = False
                else:
                    stays = ahead[i].offset >= get_hash(&self._map.table, &ahead[i].digest)
                    if stays and ahead[i].is_tombstone and not tombstones_stay:
                        stays = False
                        self.last_dropped = max(self.last_dropped, ahead[i].offset)
                if not stays:
                    continue
                tally.kept += 1
                if ahead[i].is_tombstone:
                    tally.tombstones += 1
                if ahead[i].timestamp > tally.max_timestamp:
                    tally.max_timestamp = ahead[i].timestamp
                if ahead[i].start != slice_end:
                    if slice_start != NULL:
                        memcpy(out, slice_start, <size_t>(slice_end - slice_start))
                        out += slice_end - slice_start
                    slice_start = ahead[i].start
                slice_end = ahead[i].end
            pending = 0
        if p != end:
            return BAD_COUNT
        if tally.kept < header.record_count and slice_start != NULL:
            memcpy(out, slice_start, <size_t>(slice_end - slice_start))
            out += slice_end - slice_start
            tally.size = out - begin
        else:
            # All records or none: nothing was copied, and the caller reads them in place.
            tally.size = slice_end - slice_start if slice_start != NULL else 0
        return OK

    cdef int64_t _horizon_for(self, const BatchHeader *header, const Tally *tally, bint marker_goes) noexcept nogil:
        """Return the delete horizon that a batch must get now; -1 if it has one, or needs none."""
        cdef int64_t horizon
        if tally.kept == 0 or not (tally.tombstones or marker_goes):
            return -1
        if header.attributes & DELETE_HORIZON_FLAG:
            self.next_horizon_ms = min(self.next_horizon_ms, header.base_timestamp)
            return -1
        horizon = self._now_ms + min(self._delete_retention_ms, INT64_MAX - self._now_ms)
        self.next_horizon_ms = min(self.next_horizon_ms, horizon)
        return horizon

    cdef void _count(self, const BatchHeader *header, const Tally *tally) noexcept nogil:
        self.records_read += header.record_count
        self.records_kept += tally.kept
        self.keyless_records += tally.keyless

    cdef int _pass_plain(self, const uint8_t *p, const BatchHeader *header, bint all_stay, bint marker_goes,
                         bint stays_empty) noexcept nogil:
        """Filter an uncompressed batch: its remaining records are copied once, to the output."""
        cdef Tally tally
        cdef int64_t horizon, size
        cdef int status
        if self._reserve(header.size) != OK:
            return NO_MEMORY
        status = self._sift(p + HEADER_BYTES, p + header.size, header, all_stay,
                            self._out + self._size + HEADER_BYTES, &tally)
        if status != OK:
            return status
        self._count(header, &tally)
        horizon = self._horizon_for(header, &tally, marker_goes)
        if tally.kept == header.record_count and tally.kept and horizon < 0:
            self._copy_whole(p, header)
            return OK
        if tally.kept == 0:
            return self._empty_or_drop(p, header, stays_empty)
        size = tally.size
        if horizon >= 0:
            if (self._make_scratch(size) != OK
                    or self._reserve(HEADER_BYTES + size + <int64_t>tally.kept * MOST_GROWTH) != OK):
                return NO_MEMORY
            memcpy(self._scratch, p + HEADER_BYTES if tally.kept == header.record_count
                   else self._out + self._size + HEADER_BYTES, <size_t>size)
            size = rebase_records(self._scratch, self._scratch + size, header.base_timestamp, horizon,
                                  self._out + self._size + HEADER_BYTES)
            if size < 0:
                return <int>size
        return self._head(p, header, &tally, horizon, size)

    cdef int _head(self, const uint8_t *p, const BatchHeader *header, const Tally *tally, int64_t horizon,
                   int64_t size) noexcept nogil:
        """Write the header before records that are already in the output, past its end."""
        cdef uint8_t *out = self._out + self._size
        if size > INT32_MAX - HEADER_BYTES:
            return TOO_LARGE
        memcpy(out, p, HEADER_BYTES)
        store32(out + AT_RECORD_COUNT, tally.kept)
        if not header.attributes & APPEND_TIME_FLAG:
            store64(out + AT_MAX_TIMESTAMP, tally.max_timestamp)
        if horizon >= 0:
            store16(out + AT_ATTRIBUTES, header.attributes | DELETE_HORIZON_FLAG)
            store64(out + AT_BASE_TIMESTAMP, horizon)
        seal_batch(out, HEADER_BYTES + size)
        self._size += HEADER_BYTES + size
        self.bytes_kept += HEADER_BYTES + size
        self.batches_rewritten += 1
        return OK

    cdef int _pass_packed(self, const uint8_t *p, const BatchHeader *header, bint stays_empty, str path,
                          int64_t position) except -1:
        """Filter a compressed batch: decompress it, and compress it again unless all of it stays."""
        cdef bytes payload = payload_of(p, header, self._limit)
        cdef bytes packed
        cdef const uint8_t *records = <const uint8_t *>PyBytes_AS_STRING(payload)
        cdef int64_t records_size = PyBytes_GET_SIZE(payload), horizon = -1, size = 0
        cdef int codec = header.attributes & CODEC_MASK, status
        cdef uint8_t *source
        cdef Tally tally
        with nogil:
            # Two parts: the slices, and the same with other timestamps.
            status = self._make_scratch(2 * records_size + <int64_t>header.record_count * MOST_GROWTH)
            if status == OK:
                status = self._sift(records, records + records_size, header, False, self._scratch, &tally)
            if status == OK:
                self._count(header, &tally)
                horizon = self._horizon_for(header, &tally, False)
                size = tally.size
        self._check(status, p, p + header.size, header, path, position)
        if tally.kept == header.record_count and horizon < 0:
            self._check(self._reserve(header.size), p, p + header.size, header, path, position)
            self._copy_whole(p, header)
            return 0
        if tally.kept == 0:
            self._check(self._empty_or_drop(p, header, stays_empty), p, p + header.size, header, path, position)
            return 0
        source = self._scratch
        if horizon >= 0:
            if tally.kept == header.record_count:
                memcpy(source, records, <size_t>size)
            source = self._scratch + size
            size = rebase_records(self._scratch, source, header.base_timestamp, horizon, source)
            self._check(<int>min(size, <int64_t>OK), p, p + header.size, header, path, position)
        packed = compress(codec, PyMemoryView_FromMemory(<char *>source, size, PyBUF_READ), self._level_of(codec))
        size = PyBytes_GET_SIZE(packed)
        self._check(self._reserve(HEADER_BYTES + size), p, p + header.size, header, path, position)
        memcpy(self._out + self._size + HEADER_BYTES, PyBytes_AS_STRING(packed), <size_t>size)
        self._check(self._head(p, header, &tally, horizon, size), p, p + header.size, header, path, position)
        return 0

    cdef void _copy_whole(self, const uint8_t *p, const BatchHeader *header) noexcept nogil:
        memcpy(self._out + self._size, p, <size_t>header.size)
        self._size += header.size
        self.bytes_kept += header.size
        self.batches_copied += 1

    cdef int _empty_or_drop(self, const uint8_t *p, const BatchHeader *header, bint stays_empty) noexcept nogil:
        """Filter a batch without records: keep its header where it is still needed."""
        cdef uint8_t *out
        if not stays_empty:
            self.batches_dropped += 1
            return OK
        if self._reserve(HEADER_BYTES) != OK:
            return NO_MEMORY
        out = self._out + self._size
        memcpy(out, p, HEADER_BYTES)
        store16(out + AT_ATTRIBUTES, <int16_t>(header.attributes & ~(CODEC_MASK | DELETE_HORIZON_FLAG)))
        store64(out + AT_BASE_TIMESTAMP, -1)
        store32(out + AT_RECORD_COUNT, 0)
        seal_batch(out, HEADER_BYTES)
        self._size += HEADER_BYTES
        self.bytes_kept += HEADER_BYTES
        if header.record_count == 0 and header.size == HEADER_BYTES:
            self.batches_copied += 1
        else:
            self.batches_emptied += 1
        return OK

    cdef int _check(self, int status, const uint8_t *p, const uint8_t *end, const BatchHeader *header, str path,
                    int64_t position) except -1:
        if status == NO_MEMORY:
            raise MemoryError
        if status == TOO_LARGE:
            raise CorruptRecordError(f"the batch at base offset {header.base_offset} would grow past 2**31 bytes",
                                     path=path, position=position)
        if status == MALFORMED or status == BAD_COUNT and header.size:
            raise CorruptRecordError(
                f"a record of the batch at base offset {header.base_offset} is malformed, its offset is outside "
                "the batch, or bytes follow the last", path=path, position=position)
        raise_batch_status(status, p, end, path, position)
        return 0

    # -- what stays ------------------------------------------------------------------------------

    cdef int _reserve(self, int64_t more) noexcept nogil:
        cdef int64_t capacity
        cdef uint8_t *out
        if more <= self._capacity - self._size:
            return OK
        capacity = max(self._size + more, self._capacity * 2)
        out = <uint8_t *>realloc(self._out, <size_t>capacity)
        if out == NULL:
            return NO_MEMORY
        self._out = out
        self._capacity = capacity
        return OK

    cdef int _make_scratch(self, int64_t size) noexcept nogil:
        cdef uint8_t *scratch
        if size <= self._scratch_capacity and self._scratch != NULL:
            return OK
        scratch = <uint8_t *>malloc(<size_t>max(size, <int64_t>1))
        if scratch == NULL:
            return NO_MEMORY
        free(self._scratch)
        self._scratch = scratch
        self._scratch_capacity = size
        return OK

    def _free_to_write(self):
        if self._exports:
            raise BufferError("the kept bytes still have a view; release it before more batches are passed on")

    def clear(self):
        """Empty the output after it was written."""
        self._free_to_write()
        self._size = 0

    def __len__(self):
        return self._size

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self._out, <Py_ssize_t>self._size, 1, flags)
        self._exports += 1

    def __releasebuffer__(self, Py_buffer *buffer):
        self._exports -= 1
