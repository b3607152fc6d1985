"""CRC-32C for the compiled core: a leaf, callable without the GIL from any thread.

A plain extern: the header is compiled into each module that cimports it, and nothing is looked
up in `logstore.batch._crc32c` at run time. Such a module calls `logstore_crc32c_init()` once at import.
"""

from libc.stdint cimport uint8_t, uint32_t


cdef extern from "batch/_crc32c.h" nogil:
    ctypedef uint32_t (*logstore_crc32c_fn)(
        uint32_t crc, const uint8_t *data, size_t size) noexcept nogil

    enum logstore_crc32c_way:
        LOGSTORE_CRC32C_VPCLMULQDQ
        LOGSTORE_CRC32C_SSE42
        LOGSTORE_CRC32C_ARM_CRC
        LOGSTORE_CRC32C_TABLE
        LOGSTORE_CRC32C_WAYS

    void logstore_crc32c_init() noexcept
    uint32_t logstore_crc32c(uint32_t crc, const uint8_t *data, size_t size) noexcept
    logstore_crc32c_fn logstore_crc32c_function(int way) noexcept
