# cython: language_level=3
"""Producer state, as other compiled modules see it; `_producers.pyx` describes it."""

from libc.stdint cimport int32_t, int64_t

cdef enum:
    REMEMBERED = 5                # batches of each producer

cdef struct Written:              # one of a producer's last batches
    int32_t base_sequence
    int32_t last_sequence
    int64_t base_offset
    int64_t last_offset
    int64_t timestamp_ms


cdef class ProducerState:
    cdef readonly int64_t producer_id
    cdef public int32_t epoch
    cdef public int32_t coordinator_epoch
    cdef public int64_t timestamp_ms
    cdef public int64_t written_ms
    cdef public int64_t chain_count
    cdef int64_t _transaction_first     # of its open transaction; -1 without one
    cdef Written[REMEMBERED] _batches   # oldest first
    cdef int _count
    cdef int32_t _next_sequence(self) noexcept
    cdef object _written(self, int n)
    cdef int _find(self, int32_t base_sequence, int32_t last_sequence) noexcept
    cdef bint _overlaps(self, int64_t base_sequence, int64_t last_sequence) noexcept
    cdef void _remember(self, int32_t base_sequence, int32_t last_sequence, int64_t base_offset,
                        int64_t last_offset, int64_t timestamp_ms) noexcept
    cdef tuple _fields(self)


cdef class Producers:
    cdef dict _states
    cdef object _open                   # producer id -> first offset, oldest first
    cdef object _completed
    cdef int64_t _expiration_ms
    cdef int record(self, int64_t producer_id, int32_t epoch, int32_t base_sequence, int32_t last_sequence,
                    int64_t base_offset, int64_t last_offset, int64_t timestamp_ms, bint transactional,
                    int64_t now_ms) except -1
    cdef ProducerState _known(self, int64_t producer_id, int32_t epoch, int64_t timestamp_ms, int64_t now_ms)
    cdef ProducerState expecting(self, int64_t producer_id, int32_t epoch, int32_t base_sequence,
                                 int32_t last_sequence, bint transactional)
    cdef bint knows(self, int64_t producer_id) except -1
    cdef void take(self, ProducerState state, int32_t base_sequence, int32_t last_sequence, int64_t base_offset,
                   int64_t last_offset, int64_t timestamp_ms, int64_t now_ms) noexcept
    cdef bint is_all_stable(self) except -1


cdef class ProducersOfLog:
    cdef public Producers producers
    cdef public bint has_producers
    cdef public int64_t last_expiry_ms  # of the last search for expired producers
    cdef public int64_t listed_end      # what readers in other processes may be shown as stable
    cdef void note_producer(self) noexcept
