# cython: language_level=3
"""Offset map of a compaction: from the key of a record to the offset of the newest record with it.

A hash table with open addressing. A slot has 24 bytes: a keyed hash of 128 bits in place of the key, and the
offset. The key itself is not stored. The memory is allocated once and never grows. Each map has its own random
secret, so no producer can choose keys that collide. By chance, two of ten million keys collide with probability
1.5e-25. With a hash of 64 bits, about one in 370 000 such runs would lose a record.

Whole batches are added without a Python object for each record. The map does not know which transactions were
aborted. So it stops before a marker or a batch of a transaction, and the caller decides what to add.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport calloc, free

from logstore.batch._batch cimport (
    CODEC_MASK,
    CONTROL_FLAG,
    DECOMPRESSED_LIMIT,
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
)
from logstore.batch._bytes cimport OK
from logstore.batch._crc32c cimport logstore_crc32c_init

from logstore.errors import CorruptRecordError

logstore_crc32c_init()

SLOT_BYTES = sizeof(Slot)

# Reasons why a run stopped.
ENDED = 0       # the bytes end here, or inside the next batch
DECIDE = 1      # the next batch is a marker or part of a transaction: the caller decides whether to add it
FILLED = 2      # the keys of the next batch do not all fit into the map

cdef enum:
    MOST_SLOTS_SHIFT = 40       # a map has less than 2^40 bytes: more is a mistake of units
    AHEAD = 16                  # hashes whose slots are prefetched before the first of them is used

# Bytes of the slots of all maps in this process. Changed only with the GIL held.
cdef int64_t _allocated = 0


def allocated_bytes():
    """Return the bytes of the slots of all maps that are alive in this process."""
    return _allocated


@cython.final
cdef class KeyMap:
    """Newest offset by key.

    Owns: the slots, `size` bytes. A page of this memory is used only once a key is stored in it.
    Threads: one at a time.
    """

    def __cinit__(self, int64_t size, bytes secret not None):
        global _allocated
        if len(secret) != 16:
            raise ValueError(f"expected a secret of 16 bytes, found {len(secret)}")
        if size < 2 * <int64_t>sizeof(Slot) or size >> MOST_SLOTS_SHIFT:
            raise ValueError(f"expected 48 bytes to a terabyte for a map of keys, found {size}")
        self.table.slot_count = <uint64_t>size // sizeof(Slot)
        # Never all slots: the search for a key ends at a free slot.
        self.table.most = max(self.table.slot_count * 9 // 10, <uint64_t>1)
        memcpy(&self.table.secret_low, PyBytes_AS_STRING(secret), 8)
        memcpy(&self.table.secret_high, PyBytes_AS_STRING(secret) + 8, 8)
        self.table.slots = <Slot *>calloc(self.table.slot_count, sizeof(Slot))
        if self.table.slots == NULL:
            raise MemoryError(f"no memory for a map of keys of {size} bytes")
        _allocated += <int64_t>(self.table.slot_count * sizeof(Slot))
        self.latest_offset = -1

    def __dealloc__(self):
        global _allocated
        if self.table.slots != NULL:
            _allocated -= <int64_t>(self.table.slot_count * sizeof(Slot))
        free(self.table.slots)

    @property
    def size(self):
        """Bytes of all slots."""
        return self.table.slot_count * sizeof(Slot)

    @property
    def capacity(self):
        """The number of keys that fit."""
        return self.table.most

    def __len__(self):
        return <Py_ssize_t>self.table.count

    def put(self, bytes key not None, int64_t offset):
        """Store the offset of a key; return False if the key is new and the map is full."""
        cdef Digest digest = sip_hash(<const uint8_t *>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key),
                                      self.table.secret_low, self.table.secret_high)
        return put_hash(&self.table, &digest, offset) == OK

    def get(self, bytes key not None):
        """Return the offset of a key, or -1."""
        cdef Digest digest = sip_hash(<const uint8_t *>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key),
                                      self.table.secret_low, self.table.secret_high)
        return get_hash(&self.table, &digest)

    def digest(self, bytes key not None):
        """Return the hash stored in place of a key: 16 bytes."""
        cdef Digest digest = sip_hash(<const uint8_t *>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key),
                                      self.table.secret_low, self.table.secret_high)
        return PyBytes_FromStringAndSize(<const char *>&digest, sizeof(Digest))

    def pass_over(self, int64_t last_offset):
        """Raise `latest_offset` to the end of a batch whose keys are not added."""
        if last_offset > self.latest_offset:
            self.latest_offset = last_offset

    cdef int _take_records(self, const uint8_t *p, const uint8_t *end, int64_t base_offset, int64_t base_timestamp,
                           int32_t count, int64_t start_offset, int64_t *refused) noexcept nogil:
        """Store the keys of records from start_offset on; refused is the first offset that did not fit, or -1.

        At the top of the loop every record before p is whole. Its key, if it has one, is in the map, or its hash
        is in ``digests`` while its slot is prefetched.
        """
        cdef RecordView record
        cdef Digest digests[AHEAD]
        cdef int64_t offsets[AHEAD]
        cdef int pending = 0, i
        cdef int status = OK
        refused[0] = -1
        while count > 0:
            status = next_record(&p, end, base_offset, base_timestamp, &record)
            if status != OK:
                return status
            count -= 1
            if record.key_size < 0 or record.offset < start_offset:
                continue
            digests[pending] = sip_hash(record.key, record.key_size, self.table.secret_low, self.table.secret_high)
            offsets[pending] = record.offset
            logstore_prefetch(self.table.slots + logstore_bucket(digests[pending].high, self.table.slot_count))
            pending += 1
            if pending == AHEAD:
                for i in range(pending):
                    if put_hash(&self.table, &digests[i], offsets[i]) != OK:
                        refused[0] = offsets[i]
                        return OK
                pending = 0
        for i in range(pending):
            if put_hash(&self.table, &digests[i], offsets[i]) != OK:
                refused[0] = offsets[i]
                return OK
        return OK if p == end else SHORT

    def add_run(self, bytes data not None, int64_t start_offset, *, int64_t position=0,
                int64_t limit=DECOMPRESSED_LIMIT, str path=None, int64_t file_position=0):
        """Add the keys of whole batches from ``position`` on; return (position of the next batch, reason).

        Records below ``start_offset`` are skipped. ``limit`` is the most bytes that a batch may decompress to.
        ``file_position`` is the position of ``data`` in the file at ``path``, for errors.

        The call stops at the end of the whole batches (ENDED), or before a marker or a batch of a transaction
        (DECIDE). It also stops at a batch whose keys do not all fit (FILLED). `latest_offset` is then the last
        offset of the batch before. Some keys of the batch that did not fit are in the map. They do no harm, since
        a compaction keeps every record above `latest_offset`.

        Raises:
            CorruptRecordError: a batch is damaged; the error has its position in the file.
        """
        return self._walk(data, start_offset, position, limit, path, file_position, 0)

    def add_batch(self, bytes data not None, int64_t start_offset, *, int64_t position=0,
                  int64_t limit=DECOMPRESSED_LIMIT, str path=None, int64_t file_position=0):
        """Add the keys of the one batch at ``position`` as `add_run` does; it may be part of a transaction."""
        return self._walk(data, start_offset, position, limit, path, file_position, 1)

    def _walk(self, bytes data, int64_t start_offset, int64_t position, int64_t limit, str path,
              int64_t file_position, bint single):
        cdef const uint8_t *first = <const uint8_t *>PyBytes_AS_STRING(data)
        cdef const uint8_t *end = first + PyBytes_GET_SIZE(data)
        cdef const uint8_t *p = first + position
        cdef const uint8_t *records
        cdef const uint8_t *records_end
        cdef BatchHeader header
        cdef bytes payload
        cdef int64_t refused = -1
        cdef int status = OK, records_status = OK
        if not 0 <= position <= end - first:
            raise ValueError(f"position {position} is outside {end - first} bytes")
        with nogil:
            while p < end:
                status = check_batch(p, end, &header)
                if status != OK or (not single and header.attributes & (CONTROL_FLAG | TRANSACTIONAL_FLAG)):
                    break
                if last_offset_of(&header) >= start_offset:
                    records, records_end = p + HEADER_BYTES, p + header.size
                    if header.attributes & CODEC_MASK and header.record_count:
                        with gil:
                            payload = payload_of(p, &header, limit)
                            records = <const uint8_t *>PyBytes_AS_STRING(payload)
                            records_end = records + PyBytes_GET_SIZE(payload)
                    records_status = self._take_records(records, records_end, header.base_offset,
                                                        header.base_timestamp, header.record_count, start_offset,
                                                        &refused)
                    if records_status != OK or refused >= 0:
                        break
                    self.latest_offset = max(self.latest_offset, last_offset_of(&header))
                p += header.size
                if single:
                    end = p
        if status == SHORT:
            # The data ends inside this batch: the caller reads on from its start.
            return p - first, ENDED
        raise_batch_status(status, p, end, path, file_position + (p - first))
        if records_status != OK:
            raise CorruptRecordError(
                f"a record of the batch at base offset {header.base_offset} is malformed, or bytes are left "
                "behind the last", path=path, position=file_position + (p - first))
        if refused >= 0:
            return p - first, FILLED
        return p - first, DECIDE if p < end else ENDED
