# cython: language_level=3
"""How much of a segment's file is true: the walk over its batches that recovery and readers rest on."""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, uint32_t
from libc.stdlib cimport free, malloc

from logstore._batch cimport (
    BAD_CRC, BAD_OFFSET, CHECKED_FROM, CONTROL_FLAG, HEADER_BYTES, SHORT, TRANSACTIONAL_FLAG, BatchHeader,
    batch_crc, last_offset_of, marker_of, parse_header, raise_batch_status,
)
from logstore._bytes cimport OK
from logstore._crc32c cimport logstore_crc32c, logstore_crc32c_init
from logstore._files cimport FileOps, raise_status, read_upto
from logstore._index cimport OffsetIndex, TimeIndex
from logstore._indexed cimport Indexed, check_gap, header_fields

from logstore.errors import CorruptRecordError, RecordError, StorageError

logstore_crc32c_init()

cdef enum:
    CHUNK_BYTES = 1 << 20         # what a scan reads at once


cdef class Extent:
    """What a scan found: how far the segment is whole, and what the state above is rebuilt from.

    ``problem`` is None for a whole segment, else the sentence that says what is wrong at
    ``valid_bytes``. ``produced`` lists the batches that carry a producer id, as tuples
    (base offset, last offset, producer id, producer epoch, base sequence, last sequence,
    max timestamp, is transactional, is control, marker, coordinator epoch); ``epochs`` lists
    (leader epoch, first offset) wherever the epoch changes.
    """

    @property
    def is_whole(self):
        return self.problem is None

    def __repr__(self):
        return (f"<Extent {self.valid_bytes} of {self.file_bytes} bytes, next offset {self.next_offset}"
                + (f": {self.problem}" if self.problem else "") + ">")


cdef class Scanned(Indexed):
    """A segment's file that can be walked from a batch to its end."""

    def scan(self, int64_t position=0, *, int64_t next_offset=-1, int64_t end=-1, bint check=True,
             bint adopt=False):
        """Walk the batches from ``position`` to the end of the file; an `Extent` says what is whole.

        At the top of the loop the bytes below the cursor are batches with good headers (and, with
        ``check``, good checksums) whose offsets rise from ``next_offset`` and end below the extent's
        next offset. ``adopt`` makes the extent the segment's own: size, next offset, indexes and
        times are set from it. Memory does not grow with the batches.

        Raises:
            StorageError: a read failed, which is never taken for the end of the file.
        """
        cdef Extent extent = Extent()
        cdef FileOps *ops = &self.file.files.ops
        cdef BatchHeader header
        cdef int status = OK, fd, producing = 0
        cdef int64_t file_bytes = self.file.size() if end < 0 else end
        cdef int64_t start = position, got = 0, done, part = 0
        cdef int64_t room = min(<int64_t>CHUNK_BYTES, max(file_bytes - position, <int64_t>HEADER_BYTES))
        cdef uint32_t crc
        cdef int32_t epoch = -2
        cdef uint8_t *window = <uint8_t *>malloc(<size_t>room)
        cdef uint8_t *spill = NULL
        if window == NULL:
            raise MemoryError
        if next_offset < 0:
            next_offset = self.base_offset
        extent.file_bytes = file_bytes
        extent.max_timestamp_ms = -1
        extent.produced = []
        extent.epochs = []
        if adopt:
            if position == 0:
                self.index = OffsetIndex()
                self.times = TimeIndex()
                self.max_timestamp_ms = -1
                self.max_timestamp_offset = self.base_offset
                self.first_timestamp_ms = -1
                self._unindexed = 0
                self._ready = True
            else:
                self.size = position
                self.next_offset = next_offset
                self._load_indexes()
                self._measure_times()
        fd = self.file.acquire()
        try:
            while position < file_bytes:
                with nogil:
                    producing = 0
                    while position < file_bytes:
                        if got == 0 or position + HEADER_BYTES > start + got:
                            start = position
                            got = read_upto(ops, fd, window, min(room, file_bytes - position), position)
                            if got < 0:
                                break
                        status = parse_header(window + (position - start), window + got, &header)
                        if status == OK and header.size > file_bytes - position:
                            status = SHORT
                        if status == OK and (header.base_offset < next_offset
                                             or last_offset_of(&header) - self.base_offset > INT32_MAX):
                            status = BAD_OFFSET
                        if status == OK and header.base_offset > next_offset:
                            status = check_gap(ops, fd, &header, position, file_bytes)
                        if status != OK:
                            break
                        if check:
                            if position + header.size > start + got and start != position:
                                start = position
                                got = read_upto(ops, fd, window, min(room, file_bytes - position), position)
                                if got < 0:
                                    break
                            if position + header.size <= start + got:
                                crc = batch_crc(window + (position - start), header.size)
                            else:
                                # A batch larger than the window: its sum is taken part by part, behind
                                # the header, which stays for what follows.
                                crc = logstore_crc32c(0, window + CHECKED_FROM, <size_t>(got - CHECKED_FROM))
                                done = got
                                if spill == NULL:
                                    spill = <uint8_t *>malloc(CHUNK_BYTES)
                                    if spill == NULL:
                                        got = -12
                                        break
                                while done < header.size:
                                    part = min(<int64_t>CHUNK_BYTES, header.size - done)
                                    part = read_upto(ops, fd, spill, part, position + done)
                                    if part <= 0:
                                        break
                                    crc = logstore_crc32c(crc, spill, <size_t>part)
                                    done += part
                                if done < header.size:
                                    got = part if part < 0 else -5
                                    break
                            if crc != header.crc:
                                status = BAD_CRC
                                break
                        producing = header.producer_id >= 0 or header.leader_epoch != epoch or adopt
                        if producing:
                            break
                        self._count(extent, &header)
                        next_offset = last_offset_of(&header) + 1
                        position += header.size
                if got < 0:
                    raise_status(got, "read", self.path, position)
                if status != OK or not producing:
                    break
                if header.leader_epoch != epoch:
                    epoch = header.leader_epoch
                    extent.epochs.append((epoch, header.base_offset))
                if header.producer_id >= 0:
                    extent.produced.append(self._produced(window + (position - start), &header,
                                                          start + got - position, position))
                if adopt:
                    self._note(window + (position - start), position)
                self._count(extent, &header)
                next_offset = last_offset_of(&header) + 1
                position += header.size
            extent.valid_bytes = position
            extent.next_offset = next_offset
            if status != OK:
                try:
                    if status == BAD_CRC:
                        raise CorruptRecordError(
                            f"CRC-32C of the batch at base offset {header.base_offset} "
                            "does not fit its bytes",
                            path=self.path, position=position)
                    raise_batch_status(status, window + (position - start), window + got, self.path, position)
                except Exception as error:
                    extent.problem = str(error)
                    extent.error = error
        finally:
            self.file.release()
            free(window)
            free(spill)
        if adopt:
            self.size = extent.valid_bytes
            self.next_offset = extent.next_offset
        return extent

    cdef void _count(self, Extent extent, const BatchHeader *header) noexcept nogil:
        extent.batch_count += 1
        extent.record_count += header.record_count
        if header.max_timestamp > extent.max_timestamp_ms:
            extent.max_timestamp_ms = header.max_timestamp

    cdef object _produced(self, const uint8_t *p, const BatchHeader *header, int64_t at_hand,
                          int64_t position):
        """One entry of Extent.produced; a marker that is not at hand is read for its few bytes."""
        cdef bytes small
        cdef object marker = None
        cdef int32_t coordinator_epoch = -1
        cdef int32_t last_sequence = -1
        if header.base_sequence >= 0:
            last_sequence = <int32_t>((<int64_t>header.base_sequence + header.last_offset_delta) & 0x7FFFFFFF)
        if header.attributes & CONTROL_FLAG:
            if at_hand < header.size:
                small = self.file.read(position, <Py_ssize_t>min(header.size, <int64_t>CHUNK_BYTES))
                p = <const uint8_t *>PyBytes_AS_STRING(small)
                at_hand = len(small)
            if at_hand >= header.size:
                found = marker_of(p, header)
                if found is not None:
                    marker, coordinator_epoch = found
        return (header.base_offset, last_offset_of(header), header.producer_id, header.producer_epoch,
                header.base_sequence, last_sequence, header.max_timestamp,
                (header.attributes & TRANSACTIONAL_FLAG) != 0, (header.attributes & CONTROL_FLAG) != 0,
                marker, coordinator_epoch)

    def extend(self, int64_t end_offset):
        """Take batches that another process has appended, up to an end that it has published.

        For readers beside a writer's process. Ends early where the file does not hold that much.
        """
        cdef int64_t position, got, file_bytes
        cdef BatchHeader header
        cdef uint8_t window[HEADER_BYTES]
        cdef FileOps *ops = &self.file.files.ops
        cdef int status, fd
        if not self._ready:
            # The index that the writer has saved leads near the end; what is wrong in it is left out.
            self._start_from_saved_index(end_offset)
        position = self.size
        # A header that is whole says nothing about the batch behind it: the file may end inside.
        file_bytes = self.file.size() if self.next_offset < end_offset else 0
        fd = self.file.acquire()
        try:
            while self.next_offset < end_offset:
                with nogil:
                    got = read_upto(ops, fd, window, HEADER_BYTES, position)
                    status = parse_header(window, window + max(got, <int64_t>0), &header)
                raise_status(got, "read", self.path, position)
                if (status != OK or header.base_offset < self.next_offset
                        or last_offset_of(&header) >= end_offset or header.size > file_bytes - position):
                    break
                if header.base_offset > self.next_offset and check_gap(ops, fd, &header, position, INT64_MAX) != OK:
                    break
                self._note(window, position)
                position += header.size
                self.next_offset = last_offset_of(&header) + 1
                self.size = position
        finally:
            self.file.release()

    def _start_from_saved_index(self, int64_t end_offset):
        cdef int64_t entry, position
        file_bytes = self.file.size()
        self.size = 0
        self.next_offset = self.base_offset
        self._ready = True
        index, times = OffsetIndex(), TimeIndex()
        try:
            self._load_one(index, ".index")
            self._load_one(times, ".timeindex")
        except StorageError:
            return
        if not index.is_sound(file_bytes) or not times.is_sound():
            return
        self.index, self.times = index, times
        entry = self.index.floor_entry(end_offset - 1 - self.base_offset)
        if entry < 0:
            self.index, self.times = OffsetIndex(), TimeIndex()
            return
        position = self.index.position_at(entry)
        named = self.base_offset + self.index.offset_at(entry)
        data = self.file.read(position, HEADER_BYTES)
        try:
            _, last, size, _, _ = header_fields(data, self.path, position)
        except RecordError:
            last = -1
        if last != named or size > file_bytes - position:
            self.index, self.times = OffsetIndex(), TimeIndex()
            return
        self.index.cut(entry + 1)
        self.times.cut_to(named + 1 - self.base_offset)
        self.size = position + size
        self.next_offset = named + 1
        try:
            self._measure_times()
        except RecordError:
            # Damage on the way: who reads there, or asks for a time, is told. The rest can be read, by
            # the entries of the file, which lead behind it.
            self.index, self.times, self.max_timestamp_ms = index, times, -1
