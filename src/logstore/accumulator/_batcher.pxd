# cython: language_level=3
"""The result and the fast path of a batcher, as other compiled modules see them; `_batcher.pyx` describes them."""

from libc.stdint cimport int32_t, int64_t, uint64_t

from logstore.batch._encode cimport Encoder

cdef enum State:
    GATHERED            # in memory
    APPENDED            # in the log, waiting for the disk
    ACKNOWLEDGED
    FAILED


cdef class BatchResult:
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef readonly int64_t first_offset       # -1 until it is known
    cdef int64_t _append_time_ms             # -1: each record has its own
    cdef readonly object error               # of a batch in parts: the first one's
    cdef list _parts                         # where it was written in parts: see `acknowledge_parts`
    cdef int64_t _claimed                    # number of futures that were made
    cdef int64_t _kept                       # number of those that are still referenced
    cdef State _state
    cdef readonly bint seen                  # a caller has seen the error
    cdef object _clock
    cdef uint64_t _fork
    cdef list _failures                      # gets this result if it fails after a future was dropped
    cdef object _drive                       # syncs; a thread that waits for an appended batch calls it
    cdef object _waiter                      # a Condition
    cdef list _callbacks                     # (function to call, its future)
    cdef list _watched                       # futures that `concurrent.futures.wait` or `as_completed` waits for
    cdef list _loops                         # (event loop, its futures to complete)
    cdef int _begin(self, str topic, int32_t partition, object clock, list failures) except -1
    cdef object claim_next(self, Encoder encoder, int64_t timestamp_ms)
    cdef int answer(self, int64_t first_offset, int64_t append_time_ms) except -1
    cdef int _answer(self, State state) except -1
    cdef bint is_quiet(self) noexcept
    cdef int tell(self) except -1
    cdef _notify_watched(self)
    cdef run_callbacks(self)
    cdef await_in(self, loop)
    cdef int _wake(self) except -1
    cdef _await(self, timeout_s)


cdef BatchResult new_batch_result(str topic, int32_t partition, object clock, list failures)


cdef class FastBatcher:
    cdef Encoder _open
    cdef BatchResult _batch_result
    cdef Py_ssize_t _full_bytes
    cdef int64_t _ahead_ms
    cdef object add_slowly(self, object value, object key, object timestamp, object headers)
    cdef int write_due(self) except -1
    cdef int filled(self) except -1
