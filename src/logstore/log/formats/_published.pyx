# cython: language_level=3
"""``logstore.published``: offsets of the writing process, as 64 bytes for readers in other processes.

`PublishedFile` replaces the bytes with one `pwrite`; `log/` decides what to write and when. They
are read while they are written, hence the CRC. Big-endian::

     0  4  magic "lpub"        24  8  high watermark
     4  2  version 1           32  8  last stable offset
     6  2  zero                40  8  log end offset
     8  8  generation          48 12  zero
    16  8  log start offset    60  4  CRC-32C of bytes [0, 60)
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memset

from logstore.batch._bytes cimport load64, store32, store64
from logstore.batch._crc32c cimport logstore_crc32c, logstore_crc32c_init
from logstore.io._files cimport OP_PWRITE, File, FileOps, Pace, raise_status, write_all

logstore_crc32c_init()

cdef enum:
    BLOCK_BYTES = 64
    CHECKED_BYTES = 60
    MAGIC = 0x6C707562          # "lpub"
    VERSION = 1

SIZE = BLOCK_BYTES


cdef void _pack(uint8_t *p, uint64_t generation, int64_t log_start, int64_t high_watermark,
                int64_t last_stable, int64_t log_end) noexcept nogil:
    memset(p, 0, BLOCK_BYTES)
    store32(p, MAGIC)
    store32(p + 4, VERSION << 16)
    store64(p + 8, <int64_t>generation)
    store64(p + 16, log_start)
    store64(p + 24, high_watermark)
    store64(p + 32, last_stable)
    store64(p + 40, log_end)
    store32(p + CHECKED_BYTES, <int32_t>logstore_crc32c(0, p, CHECKED_BYTES))


def pack(uint64_t generation, int64_t log_start, int64_t high_watermark, int64_t last_stable, int64_t log_end):
    """Return the block as bytes."""
    cdef uint8_t block[BLOCK_BYTES]
    _pack(block, generation, log_start, high_watermark, last_stable, log_end)
    return PyBytes_FromStringAndSize(<char *>block, BLOCK_BYTES)


def unpack(const uint8_t[::1] data not None):
    """Return (generation, log start, high watermark, last stable offset, log end), or None if it is torn."""
    cdef uint8_t expected[BLOCK_BYTES]
    cdef const uint8_t *p
    if data.shape[0] != BLOCK_BYTES:
        return None
    p = &data[0]
    # The five numbers have only one encoding, so the block is whole if packing them gives the same bytes.
    _pack(expected, <uint64_t>load64(p + 8), load64(p + 16), load64(p + 24), load64(p + 32), load64(p + 40))
    if memcmp(p, expected, BLOCK_BYTES) != 0:
        return None
    return <uint64_t>load64(p + 8), load64(p + 16), load64(p + 24), load64(p + 32), load64(p + 40)


cdef class PublishedFile:
    """``logstore.published`` as its writer sees it.

    Owns: its file, until `close`. Called under the log's lock.
    """

    def __init__(self, File file not None):
        """Write to an open file, which `close` closes."""
        self._file = file

    def write(self, uint64_t generation, int64_t log_start, int64_t high_watermark, int64_t last_stable,
              int64_t log_end) -> None:
        """Publish offsets; readers see these or the previous ones. Never synced.

        Raises:
            DiskFullError, StorageError: readers may find the block torn, and retry later.
        """
        self.put(generation, log_start, high_watermark, last_stable, log_end)

    cdef int put(self, uint64_t generation, int64_t log_start, int64_t high_watermark, int64_t last_stable,
                 int64_t log_end) except -1:
        """Overwrite the block at the start of the file with one `pwrite`."""
        cdef uint8_t block[BLOCK_BYTES]
        cdef FileOps *ops = &self._file.files.ops
        cdef int status
        cdef int fd
        cdef bint keeps_gil
        cdef Pace pace
        assert last_stable <= high_watermark <= log_end, (last_stable, high_watermark, log_end)
        fd = self._file.acquire()
        _pack(block, generation, log_start, high_watermark, last_stable, log_end)
        self._file.files.calls[OP_PWRITE] += 1
        keeps_gil = self._file.keeps_gil(BLOCK_BYTES, &pace)
        if keeps_gil:
            status = write_all(ops, fd, block, BLOCK_BYTES, 0)
        else:
            with nogil:
                status = write_all(ops, fd, block, BLOCK_BYTES, 0)
        self._file.wrote(keeps_gil, &pace)
        self._file.release()
        raise_status(status, "write", self._file.path, 0)
        return 0

    def close(self) -> None:
        """Close the file."""
        self._file.close()
