# cython: language_level=3
"""Table of checked batches: what one look-up of a record has checked and found, kept for the next one.

A batch without compression is kept as pieces of 1 KiB or a little more: where each one begins, and the CRC-32C of
the batch up to there. A later look-up reads one piece from the file, and continues that sum over it: it must be the
sum at the next piece. So its bytes are checked as the whole batch was, and only they are read. A compressed batch
is kept decompressed, and was checked when it was decompressed.

The table holds `LIMIT_BYTES` for the whole process, and removes first what was not used for the longest time. An
owner is one state of one segment's file: a truncated file gets another one, and `forget` removes the batches of a
closed one. A forked process has a copy of the table, which its own logs fill and empty.

Threads: any, with the GIL held. An entry may be removed whenever the GIL is released.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport UINT32_MAX
from libc.stdlib cimport calloc, free, malloc

from logstore.batch._batch cimport APPEND_TIME_FLAG, Record, RecordView, next_record, record_of
from logstore.batch._bytes cimport OK, read_varint
from logstore.batch._crc32c cimport logstore_crc32c, logstore_crc32c_init

cdef extern from *:
    """
    #define logstore_prefetch(p) __builtin_prefetch((const void *)(p), 0, 2)
    """
    void logstore_prefetch(const uint8_t *p) noexcept nogil

logstore_crc32c_init()

cdef enum:
    LIMIT_BYTES = 16 << 20        # of memory, in a process
    LARGEST = LIMIT_BYTES // 8    # of one batch
    PIECE_BYTES = 1024
    BUCKETS = 1 << 17             # more than there are batches of the usual size: each one is a cache miss

cdef Checked **_buckets = NULL    # made at the first use
cdef Checked *_newest = NULL
cdef Checked *_oldest = NULL
cdef int64_t _taken = 0
cdef Py_ssize_t _count = 0
cdef uint64_t _owners = 0


cdef uint64_t new_owner() noexcept:
    """Return a number that no state of a file has had in this process."""
    global _owners
    _owners += 1
    return _owners


cdef Checked *pieces_of(const BatchHeader *header, const uint8_t *begin, const uint8_t *end, int32_t origin,
                        uint32_t sum) noexcept nogil:
    """Divide the records of a batch into pieces; NULL if they are not those its header says, or without memory.

    ``origin`` is the position of ``begin`` in the kept bytes, and ``sum`` the CRC-32C before it. At the top of the
    loop the records before p are whole.
    """
    cdef int32_t count = header.record_count, n, length
    cdef int64_t size = end - begin, step, place = 0
    cdef const uint8_t *p = begin
    cdef const uint8_t *piece = begin
    cdef Checked *entry
    if count <= 0 or count != <int64_t>header.last_offset_delta + 1 or size > LARGEST:
        return NULL
    size = max(size, <int64_t>1)
    step = min((<int64_t>PIECE_BYTES * count + size - 1) // size, <int64_t>count)
    entry = <Checked *>malloc(<size_t>bytes_of(count, step))
    if entry == NULL:
        return NULL
    for n in range(count):
        if n % step == 0:
            sum = logstore_crc32c(sum, piece, <size_t>(p - piece))
            entry.pieces[place].start, entry.pieces[place].sum = <int32_t>(p - begin) + origin, sum
            piece = p
            place += 1
        if read_varint(&p, end, &length) != OK or length < 0 or length > end - p:
            free(entry)
            return NULL
        p += length
    if p != end:
        free(entry)
        return NULL
    entry.pieces[place].start = <int32_t>(p - begin) + origin
    entry.pieces[place].sum = logstore_crc32c(sum, piece, <size_t>(p - piece))
    entry.base_offset, entry.record_count, entry.step = header.base_offset, count, <int32_t>step
    entry.timestamp = header.max_timestamp if header.attributes & APPEND_TIME_FLAG else header.base_timestamp
    entry.attributes = header.attributes
    entry.records = NULL
    return entry


cdef inline int64_t bytes_of(int64_t count, int64_t step) noexcept nogil:
    """Return the size of an entry for so many records: one has space for the end of the last piece already."""
    return sizeof(Checked) + ((count - 1) // step + 1) * sizeof(Piece)


cdef inline int64_t _taken_by(const Checked *entry) noexcept:
    cdef int64_t taken = bytes_of(entry.record_count, entry.step)
    return taken if entry.records == NULL else taken + PyBytes_GET_SIZE(<bytes>entry.records)


cdef inline Checked **bucket_of(uint64_t owner, int64_t position) noexcept:
    cdef uint64_t mixed = (owner * 0x9E3779B97F4A7C15ULL ^ <uint64_t>position) * 0xBF58476D1CE4E5B9ULL
    return &_buckets[(mixed >> 40) % BUCKETS]


cdef Checked *find(uint64_t owner, int64_t position) noexcept:
    """Return the batch at a position of an owner's file, or NULL."""
    cdef Checked *entry = NULL if _buckets == NULL else bucket_of(owner, position)[0]
    # The pieces are on other lines of the cache: their misses overlap that of the first one.
    logstore_prefetch(<const uint8_t *>entry + 64)
    logstore_prefetch(<const uint8_t *>entry + 128)
    while entry != NULL and (entry.position != position or entry.owner != owner):
        entry = entry.chain
    if entry != NULL:
        entry.used = True
    return entry


cdef int keep(Checked *entry, uint64_t owner, int64_t position, bytes records) except -1:
    """Keep a batch that was checked, and own ``entry``; ``records`` are its decompressed ones, or None."""
    global _buckets, _taken
    cdef Checked *before
    cdef Checked **bucket
    if not 0 <= position <= <int64_t>UINT32_MAX:
        free(entry)
        return 0
    if _buckets == NULL:
        _buckets = <Checked **>calloc(BUCKETS, sizeof(Checked *))
        if _buckets == NULL:
            free(entry)
            return 0
    # Another thread may have looked the same batch up meanwhile.
    before = find(owner, position)
    if before != NULL:
        _drop(before)
    if records is not None:
        Py_INCREF(records)
        entry.records = <PyObject *>records
    entry.owner, entry.position, entry.used = owner, <uint32_t>position, False
    bucket = bucket_of(owner, position)
    entry.chain = bucket[0]
    bucket[0] = entry
    _push(entry)
    _taken += _taken_by(entry)
    while _taken > LIMIT_BYTES:
        if _oldest.used and _oldest != entry:
            # Once more around: it was used since.
            before = _oldest
            before.used = False
            _unlink(before)
            _push(before)
            continue
        _drop(_oldest)
    return 0


cdef void forget(uint64_t owner) noexcept:
    """Remove every batch of an owner."""
    cdef Checked *entry = _newest
    cdef Checked *older
    while entry != NULL:
        older = entry.older
        if entry.owner == owner:
            _drop(entry)
        entry = older


cdef void _push(Checked *entry) noexcept:
    global _newest, _oldest, _count
    entry.newer, entry.older = NULL, _newest
    if _newest != NULL:
        _newest.newer = entry
    else:
        _oldest = entry
    _newest = entry
    _count += 1


cdef void _unlink(Checked *entry) noexcept:
    global _newest, _oldest, _count
    if entry.newer != NULL:
        entry.newer.older = entry.older
    else:
        _newest = entry.older
    if entry.older != NULL:
        entry.older.newer = entry.newer
    else:
        _oldest = entry.newer
    _count -= 1


cdef void _drop(Checked *entry) noexcept:
    global _taken
    cdef Checked **link = bucket_of(entry.owner, entry.position)
    while link[0] != entry:
        link = &link[0].chain
    link[0] = entry.chain
    _unlink(entry)
    _taken -= _taken_by(entry)
    Py_XDECREF(entry.records)
    free(entry)


cdef Record record_in(const uint8_t *p, const uint8_t *end, int32_t skipped, int32_t left,
                      const BatchHeader *header, int64_t offset, object name):
    """Return the record at an offset among ``left`` records after the skipped ones; None if none has it."""
    cdef RecordView view
    cdef const uint8_t *begin
    cdef bytes kept
    cdef int32_t size
    cdef int status
    while skipped > 0:
        if read_varint(&p, end, &size) != OK or size < 0 or size > end - p:
            return None
        p += size
        skipped -= 1
    while True:
        if left <= 0:
            return None
        begin = p
        status = next_record(&p, end, header.base_offset, header.base_timestamp, &view)
        left -= 1
        if status != OK:
            return None
        if view.offset >= offset:
            break
    if view.offset != offset:
        return None
    # A view would keep the bytes of the whole batch alive: the bytes of the record are copied.
    kept = PyBytes_FromStringAndSize(<const char *>begin, <Py_ssize_t>(view.end - begin))
    begin = <const uint8_t *>PyBytes_AS_STRING(kept)
    next_record(&begin, begin + PyBytes_GET_SIZE(kept), header.base_offset, header.base_timestamp, &view)
    if header.attributes & APPEND_TIME_FLAG:
        view.timestamp = header.max_timestamp
    return record_of(&view, kept, name[0], name[1], (header.attributes & APPEND_TIME_FLAG) != 0)


def held() -> tuple[int, int]:
    """Return how many batches the table holds, and their bytes of memory."""
    return _count, _taken
