"""CRC-32C of Python's bytes and buffers.

Only takes a buffer and passes it to `_crc32c.h`, which sums. Safe from any thread:
short input is summed under the GIL, from 16 KiB on without it.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t

from logstore.batch._crc32c cimport (
    LOGSTORE_CRC32C_ARM_CRC,
    LOGSTORE_CRC32C_SSE42,
    LOGSTORE_CRC32C_TABLE,
    LOGSTORE_CRC32C_VPCLMULQDQ,
    LOGSTORE_CRC32C_WAYS,
    logstore_crc32c,
    logstore_crc32c_fn,
    logstore_crc32c_function,
    logstore_crc32c_init,
)

logstore_crc32c_init()

cdef enum:
    # 16 KiB take a quarter of a microsecond at best and 7 by table; releasing the GIL costs 20 ns.
    GIL_BYTES = 16 * 1024

cdef dict _WAYS = {
    "vpclmulqdq": <int>LOGSTORE_CRC32C_VPCLMULQDQ,
    "sse42": <int>LOGSTORE_CRC32C_SSE42,
    "arm": <int>LOGSTORE_CRC32C_ARM_CRC,
    "table": <int>LOGSTORE_CRC32C_TABLE,
}
assert sorted(_WAYS.values()) == list(range(LOGSTORE_CRC32C_WAYS))


cdef object _sum(logstore_crc32c_fn function, object data, uint32_t value):
    """Sum any contiguous buffer; the export pins its bytes while the GIL is released."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if view.len >= GIL_BYTES:
            with nogil:
                value = function(value, <const uint8_t *>view.buf, <size_t>view.len)
        else:
            value = function(value, <const uint8_t *>view.buf, <size_t>view.len)
    finally:
        PyBuffer_Release(&view)
    return value


def crc32c(data, uint32_t value=0):
    """Return the CRC-32C of ``data``, bytes or any contiguous buffer.

    ``value`` is the checksum of the bytes before them, [0, 2**32): ``crc32c(b, crc32c(a))`` is
    ``crc32c(a + b)``. Does not block; from 16 KiB on other threads can run meanwhile.

    Raises:
        TypeError: ``data`` offers no buffer.
        BufferError: the buffer is not contiguous.
        OverflowError: ``value`` is outside its range.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    cdef const uint8_t *start
    cdef Py_ssize_t size
    if type(data) is bytes:
        # Skips the buffer protocol, which costs as much as the sum of a hundred bytes.
        size = PyBytes_GET_SIZE(data)
        if size < GIL_BYTES:
            start = <const uint8_t *>PyBytes_AS_STRING(data)
            return logstore_crc32c(value, start, <size_t>size)
    return _sum(logstore_crc32c, data, value)


def implementation():
    """Return the name of the implementation that `crc32c` uses on this machine.

    >>> implementation() == implementations()[0]
    True
    """
    return implementations()[0]


def implementations():
    """Return the names of all implementations on this machine, fastest first; ``"table"`` is always last.

    >>> implementations()[-1]
    'table'
    """
    return tuple([name for name, way in _WAYS.items() if logstore_crc32c_function(way) is not NULL])


def crc32c_with(str implementation, data, uint32_t value=0):
    """Compute `crc32c` with the implementation of that name, for tests and benchmarks.

    Raises:
        ValueError: ``implementation`` is not one of `implementations()`. Otherwise as `crc32c`.

    >>> hex(crc32c_with("table", b"123456789"))
    '0xe3069283'
    """
    cdef int way = _WAYS.get(implementation, -1)
    cdef logstore_crc32c_fn function = logstore_crc32c_function(way)
    if function is NULL:
        raise ValueError(
            f"expected one of {', '.join(implementations())}, found {implementation!r}")
    return _sum(function, data, value)
