# cython: language_level=3
"""Run of whole batches as a leader stores them: checked once, then taken piece by piece into the segments.

The check reads headers and CRC-32C alone; records are neither decompressed nor walked, but for those of control
batches. It needs no lock, since it compares each batch with the one before it. The rules are those of Kafka's
followers (`UnifiedLog.appendAsFollower`), with the epoch and the offsets checked over the borders of batches, too.
This module writes nothing.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc

from logstore._segment cimport Segment
from logstore.batch._batch cimport (
    CONTROL_FLAG, TRANSACTIONAL_FLAG, BatchHeader, check_batch, last_offset_of, marker_of, raise_batch_status,
    sequence_after,
)
from logstore.log._partition_log cimport PartitionLog
from logstore.log._producers cimport Producers

from typing import NamedTuple

from logstore.errors import FencedLeaderEpochError, InvalidRecordError, LogstoreError, UnexpectedOffsetError
from logstore.log._producers import ProducedBatch


class Piece(NamedTuple):
    """Batches that one segment takes, in one write."""

    batch_count: int
    position: int  #: of the first one in the run
    size: int
    record_count: int
    next_offset: int


cdef class ReplicatedRun:
    """The good batches at the beginning of a run, and the error of the first bad one.

    Owns: an export of the buffer until `release`, the headers' fields, and how many batches were taken.
    """

    def __init__(self, data: Buffer):
        PyObject_GetBuffer(data, &self._view, PyBUF_SIMPLE)
        self._holds = True
        self.markers = {}
        self.bytes = memoryview(data).cast("B")
        self._check()

    cdef int _check(self) except -1:
        cdef const uint8_t *begin = <const uint8_t *>self._view.buf
        cdef const uint8_t *end = begin + self._view.len
        cdef const uint8_t *p = begin
        cdef BatchHeader header
        cdef int status
        cdef int64_t next_offset = 0
        cdef int32_t epoch = -1
        while p < end:
            with nogil:
                status = check_batch(p, end, &header)
            try:
                raise_batch_status(status, p, end, None, p - begin)
                self._check_header(p, &header, next_offset, epoch, p - begin)
            except LogstoreError as error:
                self.error = error
                break
            self._keep(&header, p - begin)
            p += header.size
            next_offset = last_offset_of(&header) + 1
            epoch = header.leader_epoch
        return 0

    cdef int _check_header(self, const uint8_t *p, const BatchHeader *header, int64_t next_offset, int32_t epoch,
                           int64_t position) except -1:
        """Check what the CRC does not cover, and what a batch says of itself."""
        if header.base_offset < next_offset:
            raise UnexpectedOffsetError(
                f"a replicated batch begins at offset {header.base_offset}, the batch before it ends at "
                f"{next_offset - 1}", position=position, offset=header.base_offset)
        if header.leader_epoch < epoch:
            raise FencedLeaderEpochError(
                f"a batch of leader epoch {header.leader_epoch} behind one of epoch {epoch}",
                position=position, offset=header.base_offset)
        if header.attributes & TRANSACTIONAL_FLAG and header.producer_id < 0:
            raise InvalidRecordError("a transactional batch needs a producer id", position=position,
                                     offset=header.base_offset)
        if header.attributes & CONTROL_FLAG and header.producer_id >= 0:
            marker = marker_of(p, header)
            if marker is not None:
                self.markers[self.count] = marker
        return 0

    cdef int _keep(self, const BatchHeader *header, int64_t position) except -1:
        cdef ReplicatedBatch *batch
        cdef Py_ssize_t capacity
        cdef void *grown
        if self.count == self._capacity:
            capacity = max(2 * self._capacity, <Py_ssize_t>64)
            grown = realloc(self._batches, <size_t>capacity * sizeof(ReplicatedBatch))
            if grown == NULL:
                raise MemoryError
            self._batches, self._capacity = <ReplicatedBatch *>grown, capacity
        batch = &self._batches[self.count]
        batch.position, batch.size = position, header.size
        batch.base_offset, batch.last_offset = header.base_offset, last_offset_of(header)
        batch.newest = header.max_timestamp
        batch.record_count = header.record_count
        batch.leader_epoch = header.leader_epoch
        batch.producer_id, batch.producer_epoch = header.producer_id, header.producer_epoch
        batch.base_sequence = header.base_sequence
        batch.last_sequence = -1
        if header.base_sequence >= 0:
            batch.last_sequence = sequence_after(header.base_sequence, header.last_offset_delta)
        batch.attributes = header.attributes
        self.count += 1
        return 0

    @property
    def first_offset(self) -> int:
        """Base offset of the next batch to take."""
        return self._batches[self.taken].base_offset

    @property
    def left(self) -> int:
        """Bytes of the batches that are not taken yet."""
        cdef ReplicatedBatch *last
        if self.taken == self.count:
            return 0
        last = &self._batches[self.count - 1]
        return last.position + last.size - self._batches[self.taken].position

    def check_follows(self, name: object, int64_t end_offset: int, int latest_epoch: int) -> None:
        """Raise if the next batch does not continue a log that ends there and has seen that epoch; under its lock.

        Raises:
            UnexpectedOffsetError: it begins below the log end offset.
            FencedLeaderEpochError: its leader epoch is below that of the log's newest batch.
        """
        cdef ReplicatedBatch *batch = &self._batches[self.taken]
        if batch.base_offset < end_offset:
            raise UnexpectedOffsetError(
                f"{name}: a replicated batch begins at offset {batch.base_offset}, the log ends at {end_offset}",
                position=batch.position, offset=batch.base_offset)
        if batch.leader_epoch < latest_epoch:
            raise FencedLeaderEpochError(
                f"{name}: a batch of leader epoch {batch.leader_epoch}, the log has seen {latest_epoch}",
                position=batch.position, offset=batch.base_offset)

    def end_before_wrong(self, int64_t end_offset: int, int leader_epoch: int, bint is_contiguous: bool) -> None:
        """End the run before a batch of a newer epoch than the leader's, or before a gap if there must be none.

        ``end_offset`` is the log end offset. Neither the offset nor the epoch of a batch is under its CRC-32C.
        """
        cdef ReplicatedBatch *batch
        cdef Py_ssize_t n
        for n in range(self.taken, self.count):
            batch = &self._batches[n]
            if batch.leader_epoch > leader_epoch:
                self.error = InvalidRecordError(
                    f"a batch of leader epoch {batch.leader_epoch}, from a leader of epoch {leader_epoch}",
                    position=batch.position, offset=batch.base_offset)
            elif is_contiguous and batch.base_offset > end_offset:
                self.error = UnexpectedOffsetError(
                    f"a replicated batch begins at offset {batch.base_offset}, and {end_offset} comes next",
                    position=batch.position, offset=batch.base_offset)
            else:
                end_offset = batch.last_offset + 1
                continue
            self.count = n
            return

    def piece(self, PartitionLog log: PartitionLog) -> Piece | None:
        """Return the next batches that the active segment takes, None if it has to be rolled first.

        An empty segment takes any batch: no limit of this log refuses what its leader stores.
        """
        cdef ReplicatedBatch *batch
        cdef Segment segment = log.segments._active()
        cdef int64_t size = 0, records = 0, begin = self._batches[self.taken].position
        cdef int64_t there = segment.index.size, oldest = -1
        cdef Py_ssize_t n = self.taken
        cdef bint is_full
        while n < self.count:
            batch = &self._batches[n]
            if batch.last_offset - segment.base_offset > INT32_MAX:
                break
            if there:
                is_full = log.roll_is_due_locked(size + batch.size, batch.last_offset, batch.newest)
            else:
                oldest = batch.newest if oldest < 0 else oldest
                is_full = n > self.taken and (size + batch.size > log._segment_bytes
                                              or batch.newest - oldest > log.roll_after_ms)
            if is_full:
                break
            size += batch.size
            records += batch.record_count
            n += 1
        if n == self.taken:
            return None
        return Piece(n - self.taken, begin, size, records, self._batches[n - 1].last_offset + 1)

    def epochs(self, Py_ssize_t count: int) -> list[tuple[int, int]]:
        """Return epoch and base offset of the first batch of each epoch among the next ``count``."""
        cdef list found = []
        cdef Py_ssize_t n
        for n in range(self.taken, self.taken + count):
            if n == self.taken or self._batches[n].leader_epoch != self._batches[n - 1].leader_epoch:
                found.append((self._batches[n].leader_epoch, self._batches[n].base_offset))
        return found

    def has_producers(self, Py_ssize_t count: int) -> bool:
        """Return whether a producer has written one of the next ``count`` batches."""
        cdef Py_ssize_t n
        for n in range(self.taken, self.taken + count):
            if self._batches[n].producer_id >= 0:
                return True
        return False

    def apply(self, Producers producers: Producers, Py_ssize_t count: int, int64_t now_ms: int) -> list[object]:
        """Record the next ``count`` batches in the producer state; return the transactions that they abort."""
        cdef ReplicatedBatch *batch
        cdef list aborted = []
        cdef Py_ssize_t n
        for n in range(self.taken, self.taken + count):
            batch = &self._batches[n]
            if batch.producer_id < 0:
                continue
            if not batch.attributes & CONTROL_FLAG:
                producers.record(batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence,
                                 batch.base_offset, batch.last_offset, batch.newest,
                                 (batch.attributes & TRANSACTIONAL_FLAG) != 0, now_ms)
                continue
            marker = self.markers.get(n)
            if marker is None:
                continue  # a compaction has deleted the marker of this batch
            ended = producers.apply(
                ProducedBatch(batch.base_offset, batch.last_offset, batch.producer_id, batch.producer_epoch,
                              batch.base_sequence, batch.last_sequence, batch.newest,
                              (batch.attributes & TRANSACTIONAL_FLAG) != 0, True, *marker), now_ms)
            entry = producers.abort_entry(ended)
            if entry is not None:
                aborted.append(entry)
        return aborted

    def take(self, Py_ssize_t count: int) -> None:
        """Count the next batches as written."""
        self.taken += count

    def release(self) -> None:
        """Give the buffer back; the run cannot be used any more."""
        self.bytes.release()
        if self._holds:
            self._holds = False
            PyBuffer_Release(&self._view)

    def __dealloc__(self):
        if self._holds:
            PyBuffer_Release(&self._view)
        free(self._batches)
