# cython: language_level=3
"""Partition of a key, exactly as Kafka's own clients choose it.

The hash is MurmurHash2 of 32 bits with Kafka's seed (`org.apache.kafka.common.utils.Utils.murmur2`);
the partition is its low 31 bits modulo the number of partitions. Records without a key belong to
the partitioner. Assumes a little-endian machine, as all of the core does.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE

from logstore.errors import RecordTypeError


cdef int32_t hash_of(object key) except? -1:
    cdef Py_buffer view
    cdef int32_t h
    if PyBytes_CheckExact(key):
        return <int32_t>murmur2_of(<const uint8_t *>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
    try:
        if isinstance(key, str):
            raise TypeError
        PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
    except (TypeError, BufferError, ValueError):
        advice = "; encode it first: text.encode()" if isinstance(key, str) else ""
        raise RecordTypeError(
            f"a key must be bytes or another contiguous buffer, found {type(key).__name__}{advice}") from None
    h = <int32_t>murmur2_of(<const uint8_t *>view.buf, view.len)
    PyBuffer_Release(&view)
    return h


def murmur2(key: Buffer) -> int:
    """Return Kafka's hash of a key, from -2**31 to 2**31 - 1.

    >>> murmur2(b"21")
    -973932308

    Raises:
        RecordTypeError: the key is no buffer.
    """
    return hash_of(key)


def partition_of(key: Buffer, int32_t partition_count: int) -> int:
    """Return the partition that Kafka's clients choose for a key.

    >>> partition_of(b"AA", 4)
    1

    Raises:
        RecordTypeError: the key is no buffer.
        ValueError: ``partition_count`` is below 1.
    """
    if partition_count < 1:
        raise ValueError(f"a topic has 1 partition or more, found {partition_count}")
    return partition_of_hash(<uint32_t>hash_of(key), partition_count)
