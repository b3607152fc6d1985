# cython: language_level=3
"""The map from keys to offsets for other compiled modules; `_offset_map.pyx` describes it."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    static inline uint64_t logstore_rotl64(uint64_t v, int n) { return (v << n) | (v >> (64 - n)); }
    /* Spreads a hash over any number of slots, without the division of a remainder. */
    static inline uint64_t logstore_bucket(uint64_t hash, uint64_t slots) {
        return (uint64_t)(((unsigned __int128)hash * slots) >> 64);
    }
    static inline void logstore_prefetch(const void *p) { __builtin_prefetch(p); }
    """
    uint64_t logstore_rotl64(uint64_t v, int n) noexcept nogil
    uint64_t logstore_bucket(uint64_t hash, uint64_t slots) noexcept nogil
    void logstore_prefetch(const void *p) noexcept nogil

cdef enum:
    FULL = 1            # status of put_hash: no more keys fit

cdef struct Digest:
    uint64_t low
    uint64_t high

cdef struct Slot:
    Digest digest
    int64_t after       # the offset plus one; 0: the slot is free

cdef struct Table:
    Slot *slots
    uint64_t slot_count
    uint64_t count
    uint64_t most       # keys: nine tenths of the slots, as in Kafka
    uint64_t secret_low
    uint64_t secret_high


cdef inline void sip_round(uint64_t *v) noexcept nogil:
    v[0] += v[1]
    v[2] += v[3]
    v[1] = logstore_rotl64(v[1], 13) ^ v[0]
    v[3] = logstore_rotl64(v[3], 16) ^ v[2]
    v[0] = logstore_rotl64(v[0], 32)
    v[2] += v[1]
    v[0] += v[3]
    v[1] = logstore_rotl64(v[1], 17) ^ v[2]
    v[3] = logstore_rotl64(v[3], 21) ^ v[0]
    v[2] = logstore_rotl64(v[2], 32)


cdef inline Digest sip_hash(const uint8_t *p, int64_t size, uint64_t low, uint64_t high) noexcept nogil:
    """Compute SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, 2012), of a key and a secret."""
    cdef uint64_t v[4]
    cdef uint64_t word
    cdef int64_t left = size
    cdef int _
    cdef Digest digest
    v[0] = low ^ <uint64_t>0x736F6D6570736575
    v[1] = high ^ <uint64_t>0x646F72616E646F6D ^ 0xEE
    v[2] = low ^ <uint64_t>0x6C7967656E657261
    v[3] = high ^ <uint64_t>0x7465646279746573
    while left >= 8:
        memcpy(&word, p, 8)
        v[3] ^= word
        sip_round(v)
        sip_round(v)
        v[0] ^= word
        p += 8
        left -= 8
    word = 0
    memcpy(&word, p, <size_t>left)
    word |= <uint64_t>size << 56
    v[3] ^= word
    sip_round(v)
    sip_round(v)
    v[0] ^= word
    v[2] ^= 0xEE
    for _ in range(4):
        sip_round(v)
    digest.low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    for _ in range(4):
        sip_round(v)
    digest.high = v[0] ^ v[1] ^ v[2] ^ v[3]
    return digest


cdef inline int put_hash(Table *table, const Digest *digest, int64_t offset) noexcept nogil:
    """Store the offset of a key, replacing an earlier one; return OK, or FULL if a new key does not fit."""
    cdef uint64_t place = logstore_bucket(digest.high, table.slot_count)
    cdef Slot *slot
    while True:
        slot = table.slots + place
        if slot.after == 0:
            if table.count >= table.most:
                return FULL
            slot.digest = digest[0]
            slot.after = offset + 1
            table.count += 1
            return 0
        if slot.digest.high == digest.high and slot.digest.low == digest.low:
            slot.after = offset + 1
            return 0
        place += 1
        if place == table.slot_count:
            place = 0


cdef inline int64_t get_hash(const Table *table, const Digest *digest) noexcept nogil:
    """Return the offset of a key, or -1."""
    cdef uint64_t place = logstore_bucket(digest.high, table.slot_count)
    cdef const Slot *slot
    while True:
        slot = table.slots + place
        if slot.after == 0:
            return -1
        if slot.digest.high == digest.high and slot.digest.low == digest.low:
            return slot.after - 1
        place += 1
        if place == table.slot_count:
            place = 0


cdef class KeyMap:
    cdef Table table
    cdef readonly int64_t latest_offset
    cdef int _take_records(self, const uint8_t *p, const uint8_t *end, int64_t base_offset, int64_t base_timestamp,
                           int32_t count, int64_t start_offset, int64_t *refused) noexcept nogil
