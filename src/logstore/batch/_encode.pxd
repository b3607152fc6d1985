# cython: language_level=3
"""The encoder for other compiled modules: `try_add` without the GIL, `make_way` with it."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t

from logstore.batch._bytes cimport LOGSTORE_LIKELY, varlong_size, write_varlong, zigzag

cdef enum:
    ADDED = 0
    FULL = 1        # call make_way, then retry

cdef extern from "Python.h":
    ctypedef struct PyObject


cdef class Encoder:
    cdef uint8_t *data
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity
    cdef int _exports
    cdef Py_ssize_t _batch_start         # -1: no batch is open
    cdef int32_t _batch_records
    cdef int64_t _base_timestamp
    cdef int64_t _batch_max_timestamp
    cdef int _codec
    cdef int _level
    cdef int16_t _attributes
    cdef int64_t _producer_id
    cdef int16_t _producer_epoch
    cdef int32_t _next_sequence
    cdef Py_ssize_t _max_batch_bytes
    cdef tuple _limits                   # the settings that it comes from, with their bytes; or none
    cdef int64_t _default_timestamp
    cdef bint _keeps_offsets             # records bring their own offsets, which may have gaps
    cdef int64_t _offset                 # of the record that is added next, where they do
    cdef int64_t _base_offset            # of the open batch
    cdef int64_t _last_offset            # of the last record added; -1: none yet
    cdef readonly int64_t record_count
    cdef readonly int32_t batch_count
    cdef readonly int64_t max_timestamp_ms
    cdef readonly int64_t min_timestamp_ms
    cdef readonly int64_t null_keys
    cdef readonly int64_t appended_at    # offset of the first record, once the batches are in a log; else -1
    cdef readonly int64_t cuts           # of that log when they were appended: `LogMarks.cuts`

    cdef int begin_plain(self, int64_t timestamp_ms, int codec, int level, Py_ssize_t max_batch_bytes, tuple limits,
                         bint append_time) except -1
    cdef int restart(self, int64_t timestamp_ms) except -1
    cdef int add_list(self, list records) except -1
    cdef Py_ssize_t _add_values(self, PyObject *items, Py_ssize_t index) noexcept
    cdef int try_add(self, int64_t timestamp, const uint8_t *key, int64_t key_size, const uint8_t *value,
                     int64_t value_size, const uint8_t *headers, int64_t headers_size) noexcept nogil
    cdef int make_way(self, int64_t timestamp, int64_t record_bytes) except -1
    cdef int _refuse(self, int64_t record_bytes) except -1
    cdef int add_one(self, int64_t timestamp, const uint8_t *key, int64_t key_size, const uint8_t *value,
                     int64_t value_size, const uint8_t *headers, int64_t headers_size) except -1
    cdef int _reserve(self, Py_ssize_t more) except -1
    cdef int _close_batch(self) except -1
    cdef bint _add_plain(self, PyObject *item) except -1
    cdef int _add_object(self, object item) except -1
    cdef int _add_fields(self, object key, object value, object timestamp, object headers) except -1


cdef inline uint8_t *put_varlong(uint8_t *p, int64_t value) noexcept nogil:
    """Run write_varlong without a loop for the one and two bytes that nearly all values take."""
    cdef uint64_t rest = zigzag(value)
    if LOGSTORE_LIKELY(rest < 0x80):
        p[0] = <uint8_t>rest
        return p + 1
    if LOGSTORE_LIKELY(rest < 0x4000):
        p[0] = <uint8_t>(rest | 0x80)
        p[1] = <uint8_t>(rest >> 7)
        return p + 2
    return write_varlong(p, value)


cdef inline int64_t record_body_size(int64_t timestamp_delta, int32_t offset_delta, int64_t key_size,
                                     int64_t value_size, int64_t headers_size) noexcept nogil:
    """Return the bytes of a record after its length field; sizes of -1 mean null, headers 0 mean none."""
    return (1 + varlong_size(timestamp_delta) + varlong_size(offset_delta)
            + varlong_size(key_size) + (key_size if key_size > 0 else 0)
            + varlong_size(value_size) + (value_size if value_size > 0 else 0)
            + (headers_size if headers_size else 1))
