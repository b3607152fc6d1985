# cython: language_level=3
"""Scan of a segment's file: finds its valid part, for recovery and readers."""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc

from logstore.batch._batch cimport (
    AT_MAGIC,
    BAD_CRC,
    CHECKED_FROM,
    CONTROL_FLAG,
    HEADER_BYTES,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    batch_crc,
    last_offset_of,
    marker_of,
    parse_header,
    sequence_after,
)
from logstore.batch._bytes cimport OK, load64
from logstore.batch._crc32c cimport logstore_crc32c, logstore_crc32c_init
from logstore.io._files cimport File, FileOps, raise_status, read_upto
from logstore._index cimport OffsetIndex
from logstore._segment_index cimport (
    SegmentIndex, Window, bytes_at, check_gap, check_order, check_sum, header_at, window_over,
)

from logstore.errors import CorruptRecordError

logstore_crc32c_init()

cdef enum:
    CHUNK_BYTES = 1 << 20         # bytes that a scan reads at once


cdef int64_t candidate(const uint8_t *p, const uint8_t *end, int64_t least, int64_t limit) noexcept nogil:
    """Return the bytes from p to a possible header with its base offset in [least, limit); -1 if none."""
    cdef const uint8_t *at = p
    cdef int64_t base
    while end - at >= HEADER_BYTES:
        if at[AT_MAGIC] == 2:
            base = load64(at)
            if least <= base < limit:
                return at - p
        at += 1
    return -1


cdef int64_t whole_batch(FileOps *ops, int fd, int64_t position, int64_t bound, int64_t least, int64_t limit,
                         BatchHeader *out) noexcept nogil:
    """Return 1 if a whole batch with valid checksum and offsets in [least, limit) is at a position, else 0.

    A negative result means that a read failed. Without a header, ``out`` holds no size.
    """
    cdef uint8_t window[HEADER_BYTES]
    cdef int64_t got = read_upto(ops, fd, window, min(<int64_t>HEADER_BYTES, bound - position), position)
    if got < 0:
        return got
    if parse_header(window, window + got, out) != OK:
        return 0
    return (out.size <= bound - position and out.base_offset >= least and last_offset_of(out) < limit
            and check_sum(ops, fd, position, bound) == OK)


cdef bint is_anchored(FileOps *ops, int fd, int64_t position, int64_t bound, int64_t limit,
                      const BatchHeader *header) noexcept nogil:
    """Return whether the next batch or the end confirms a batch's offsets, which no checksum covers."""
    cdef uint8_t window[HEADER_BYTES]
    cdef BatchHeader following
    cdef int64_t got, next_offset = last_offset_of(header) + 1
    position += header.size
    got = read_upto(ops, fd, window, min(<int64_t>HEADER_BYTES, bound - position), position)
    if got == HEADER_BYTES and parse_header(window, window + got, &following) == OK:
        return following.base_offset == next_offset or (
            following.base_offset > next_offset and next_offset == limit)
    # Of a damaged batch the base offset still counts, if it is among the offsets of the batch before.
    return next_offset == limit and not (got == HEADER_BYTES
                                         and header.base_offset < <int64_t>load64(window) < next_offset)


cdef class Extent:
    """Result of a scan: the end of the valid part, and the batches from which state is rebuilt.

    ``problem`` is None for a whole segment, else a sentence that describes the damage at
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


cdef class Damage:
    """Results of the last searches behind damage in one segment, so that each read does not repeat them."""

    def __cinit__(self):
        self.position = self.goes_on_at = self.searched = 0


cdef void count(Extent extent, const BatchHeader *header) noexcept nogil:
    extent.batch_count += 1
    extent.record_count += header.record_count
    if header.max_timestamp > extent.max_timestamp_ms:
        extent.max_timestamp_ms = header.max_timestamp


cdef object produced_of(File file, const uint8_t *p, const BatchHeader *header, int64_t at_hand, int64_t position):
    """Return one entry of Extent.produced; a marker that is not in the window is read from the file."""
    cdef bytes small
    cdef object marker = None
    cdef int32_t coordinator_epoch = -1
    cdef int32_t last_sequence = -1
    if header.base_sequence >= 0:
        last_sequence = sequence_after(header.base_sequence, header.last_offset_delta)
    if header.attributes & CONTROL_FLAG:
        if at_hand < header.size:
            small = file.read(position, <Py_ssize_t>min(header.size, <int64_t>CHUNK_BYTES))
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


def scan(SegmentIndex index not None, int64_t position=0, *, int64_t next_offset=-1, int64_t end=-1,
         bint check=True, bint adopt=False):
    """Scan the batches from ``position`` to the end of the file; return the valid part as an `Extent`.

    At the top of the loop the bytes below the cursor are batches with good headers (and, with
    ``check``, good checksums) whose offsets rise from ``next_offset`` and end below the extent's
    next offset. ``adopt`` makes the extent the segment's own: size, next offset, indexes and
    times are set from it. Memory does not grow with the batches.

    Raises:
        StorageError: a read failed, which never counts as the end of the file.
    """
    cdef Extent extent = Extent()
    cdef FileOps *ops = &index.file.files.ops
    cdef int status = OK, fd, producing = 0
    cdef int64_t file_bytes = index.file.size() if end < 0 else end
    cdef int64_t done, part = 0
    cdef uint32_t crc
    cdef int32_t epoch = -2
    cdef Window window = window_over(NULL, min(<int64_t>CHUNK_BYTES, max(file_bytes - position,
                                                                         <int64_t>HEADER_BYTES)))
    cdef const BatchHeader *header = &window.header
    cdef uint8_t *spill = NULL
    if next_offset < 0:
        next_offset = index.base_offset
    extent.file_bytes = file_bytes
    extent.max_timestamp_ms = -1
    extent.produced = []
    extent.epochs = []
    if adopt:
        index._begin(position, next_offset)
    fd = index.file.acquire()
    try:
        # Allocated inside the try block: an error before it would leak the memory.
        window.data = <uint8_t *>malloc(<size_t>window.span)
        if window.data == NULL:
            raise MemoryError
        while position < file_bytes:
            with nogil:
                producing = 0
                while position < file_bytes:
                    status = header_at(ops, fd, position, file_bytes, &window)
                    if status == OK:
                        status = check_order(header, next_offset - 1, index.base_offset + INT32_MAX + 1)
                    if status == OK and header.base_offset > next_offset:
                        status = check_gap(ops, fd, header, next_offset, position, file_bytes)
                    if status != OK:
                        break
                    if check:
                        if position + header.size > window.start + window.size and window.start != position:
                            # Emptied, so that the batch is read from its beginning.
                            window.size = 0
                            status = header_at(ops, fd, position, file_bytes, &window)
                            if status != OK:
                                break
                        if position + header.size <= window.start + window.size:
                            crc = batch_crc(bytes_at(&window, position), header.size)
                        else:
                            # A batch larger than the window: its checksum is computed in parts, read into
                            # another buffer, as the code below needs the header.
                            crc = logstore_crc32c(0, window.data + CHECKED_FROM,
                                                  <size_t>(window.size - CHECKED_FROM))
                            done = window.size
                            if spill == NULL:
                                spill = <uint8_t *>malloc(CHUNK_BYTES)
                                if spill == NULL:
                                    window.size = -12
                                    break
                            while done < header.size:
                                part = min(<int64_t>CHUNK_BYTES, header.size - done)
                                part = read_upto(ops, fd, spill, part, position + done)
                                if part <= 0:
                                    break
                                crc = logstore_crc32c(crc, spill, <size_t>part)
                                done += part
                            if done < header.size:
                                window.size = part if part < 0 else -5
                                break
                        if crc != header.crc:
                            status = BAD_CRC
                            break
                    producing = header.producer_id >= 0 or header.leader_epoch != epoch or adopt
                    if producing:
                        break
                    count(extent, header)
                    next_offset = last_offset_of(header) + 1
                    position += header.size
            raise_status(window.size, "read", index.file.path, position)
            if status != OK or not producing:
                break
            if header.leader_epoch != epoch:
                epoch = header.leader_epoch
                extent.epochs.append((epoch, header.base_offset))
            if header.producer_id >= 0:
                extent.produced.append(produced_of(index.file, bytes_at(&window, position), header,
                                                   window.start + window.size - position, position))
            if adopt:
                index._note(header, position)
            count(extent, header)
            next_offset = last_offset_of(header) + 1
            position += header.size
        extent.valid_bytes = position
        extent.next_offset = next_offset
        if status != OK:
            try:
                if status == BAD_CRC:
                    raise CorruptRecordError(
                        f"CRC-32C of the batch at base offset {header.base_offset} "
                        "does not fit its bytes",
                        path=index.file.path, position=position)
                index._raise_at(status, &window, position)
            except Exception as error:
                extent.problem = str(error)
                extent.error = error
    finally:
        index.file.release()
        free(window.data)
        free(spill)
    if adopt:
        index._publish(extent.valid_bytes, extent.next_offset)
    return extent


def extend(SegmentIndex index not None, Damage damage not None, int64_t end_offset):
    """Add batches that another process has appended, up to an end that it has published.

    For readers beside a writer's process. Ends early if the file is shorter.
    """
    cdef int64_t position, file_bytes
    cdef uint8_t span[HEADER_BYTES]
    cdef Window window = window_over(span, HEADER_BYTES)
    cdef const BatchHeader *header = &window.header
    cdef FileOps *ops = &index.file.files.ops
    cdef int status, fd
    if not index._ready:
        # The writer's saved index gives a position near the end.
        index._load_saved(end_offset)
    position = index.size
    # An empty segment ends at its base offset, even before anything is published in it.
    index._publish(position, max(index.next_offset, index.base_offset))
    # A valid header does not show that its batch is complete: the file may end inside the batch.
    file_bytes = index.file.size() if index.next_offset < end_offset else 0
    fd = index.file.acquire()
    try:
        while index.next_offset < end_offset:
            with nogil:
                status = header_at(ops, fd, position, INT64_MAX, &window)
            raise_status(window.size, "read", index.file.path, position)
            if (status != OK or check_order(header, index.next_offset - 1, end_offset) != OK
                    or header.size > file_bytes - position or (
                        header.base_offset > index.next_offset
                        and check_gap(ops, fd, header, index.next_offset, position, INT64_MAX) != OK)):
                # A published batch that is missing is damage. Batches after it can still be read; a search for
                # them that finds none is not repeated.
                if file_bytes - position < HEADER_BYTES or file_bytes == damage.searched:
                    break
                found = behind(index, damage, position, end_offset)
                if found is None or found[0] <= position:
                    # The damage may begin before this position: from there, the same lengths would lead
                    # here again, in an endless loop.
                    damage.searched = file_bytes
                    break
                position, next_offset = found
                index._publish(position, next_offset)
                continue
            index._note(header, position)
            position += header.size
            index._publish(position, last_offset_of(header) + 1)
    finally:
        index.file.release()


def behind(SegmentIndex index not None, Damage damage not None, int64_t position, int64_t limit,
           int64_t since=-1):
    """Return (position, base offset) of the first trustworthy batch after damage, or None.

    ``position`` is the start of a damaged batch; -1 asks for the first batch of the file. ``since`` is the
    position of a batch trusted before: damage before it is ignored. Offsets of trusted batches rise over those
    before the damage and end below ``limit``.

    Bytes inside a batch may look like another one, because a value can hold one. So a batch is trusted only
    in three cases: at the end of the damaged one, if its offsets follow; at the position of an index entry
    that names its last offset; elsewhere, if whole batches lead from it to one of these, or to the end. No
    checksum covers base offsets, so without an index entry the next batch must follow. At the top of the last
    loop no bytes below ``at`` are trusted. Each byte is read a few times at most: the file bounds the work.

    Raises:
        StorageError: a read failed.
    """
    cdef FileOps *ops = &index.file.files.ops
    cdef BatchHeader header, following
    cdef OffsetIndex offsets
    cdef Extent extent
    cdef uint8_t *window
    cdef int64_t bound = index.file.size(), edge = bound, edge_base = -1, least = index.base_offset
    cdef int64_t start_base, known, at = position + 1, entry, place, got = 0, have = 0, start, found
    cdef int64_t budget = 4 * bound + CHUNK_BYTES
    cdef int fd
    if position > 0 and position == damage.position:
        # Cached result: without an index, each read that meets the damage would search many bytes again.
        fd = index.file.acquire()
        got = whole_batch(ops, fd, damage.goes_on_at, bound, least, limit, &following)
        index.file.release()
        if got > 0:
            return damage.goes_on_at, following.base_offset
        got = 0
    index._load_indexes()
    offsets = index.offsets
    # Entries that were built from the damaged file prove nothing.
    known = 0 if index.stale else offsets.count
    if position > 0:
        # A search steps by lengths, which no checksum covers. The damage may begin before the position where
        # it was found, with a batch whose length led there.
        # The batch where the scan begins is trusted: what is before it makes no gap.
        entry = known - 1
        start = max(since, <int64_t>0)
        start_base = index.base_offset
        fd = index.file.acquire()
        if since > 0 and whole_batch(ops, fd, since, bound, least, limit, &following) > 0:
            start_base = following.base_offset
        while entry >= 0 and since < 0:
            place = offsets.position_at(entry)
            if (place < position and whole_batch(ops, fd, place, bound, least, limit, &following) > 0
                    and last_offset_of(&following) == index.base_offset + offsets.offset_at(entry)):
                start, start_base = place, following.base_offset
                break
            entry -= 1
        index.file.release()
        extent = scan(index, start, next_offset=start_base, end=position)
        position = extent.valid_bytes
        at = position + 1
        least = max(least, extent.next_offset)
    window = <uint8_t *>malloc(CHUNK_BYTES)
    if window == NULL:
        raise MemoryError
    fd = index.file.acquire()
    try:
        if position >= 0:
            got = whole_batch(ops, fd, position, bound, 0, INT64_MAX, &header)
            place = position + header.size
            if got >= 0 and header.size and place < bound:
                got = whole_batch(ops, fd, place, bound, least, limit, &following)
                if got > 0 and is_anchored(ops, fd, place, bound, limit, &following):
                    edge, edge_base = place, following.base_offset
                    if edge_base == last_offset_of(&header) + 1:
                        return edge, edge_base
        for entry in range(known):
            place = offsets.position_at(entry)
            if got < 0 or place >= edge:
                break
            if place <= position:
                continue
            got = whole_batch(ops, fd, place, bound, least, limit, &following)
            if got > 0 and last_offset_of(&following) == index.base_offset + offsets.offset_at(entry):
                edge, edge_base = place, following.base_offset
                break
        start = at
        while at < edge and got >= 0 and budget > 0:
            if at + HEADER_BYTES > start + have:
                start = at
                with nogil:
                    have = read_upto(ops, fd, window, min(<int64_t>CHUNK_BYTES, bound - at), at)
                if have < HEADER_BYTES:
                    got = min(have, <int64_t>0)
                    break
            with nogil:
                found = candidate(window + (at - start), window + have, least, limit)
            if found < 0:
                at = start + have - HEADER_BYTES + 1
                continue
            at += found
            if at >= edge:
                break
            with nogil:
                got = whole_batch(ops, fd, at, edge, least, limit, &header)
            if got > 0 and not is_anchored(ops, fd, at, bound, limit, &header):
                at += header.size
            elif got > 0:
                extent = scan(index, at, next_offset=header.base_offset, end=edge)
                if extent.valid_bytes >= edge or extent.next_offset >= limit:
                    damage.position = position
                    damage.goes_on_at = at
                    return at, header.base_offset
                # No batch begins inside the scanned ones. A scan checks more than the checksum, and may accept
                # no batch: without a step forward the search would never end.
                at = max(extent.valid_bytes, at + 1)
            else:
                budget -= header.size
                at += 1
    finally:
        index.file.release()
        free(window)
    raise_status(min(got, <int64_t>0), "read", index.file.path, at)
    return None if edge_base < 0 else (edge, edge_base)
