# cython: language_level=3
"""``logstore.published``: offsets of the writing process, as 64 bytes for readers in other processes.

The file has the 64 bytes twice; a file of an earlier release has them once. `PublishedFile` overwrites the first
copy, then the second; `log/` decides what to write and when. They are read while they are written, hence the CRC. A
process that is killed in between leaves one copy whole. Big-endian::

     0  4  magic "lpub"        24  8  high watermark
     4  2  version 1           32  8  last stable offset
     6  2  zero                40  8  log end offset
     8  8  generation          48 12  zero
    16  8  log start offset    60  4  CRC-32C of bytes [0, 60)

An append stores them into memory that is mapped from the file, without a system call. `durability.md` says when it
writes them instead. Other changes write them with one `pwrite`, which wakes readers that watch the directory. An
append has woken these by its write to the segment.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from logstore.batch._bytes cimport load64, store32, store64
from logstore.batch._crc32c cimport logstore_crc32c, logstore_crc32c_init
from logstore.io._files cimport File
from logstore.io._shared_block cimport share

from logstore.errors import StorageError

logstore_crc32c_init()

cdef enum:
    BLOCK_BYTES = 64
    CHECKED_BYTES = 60
    MAGIC = 0x6C707562          # "lpub"
    VERSION = 1
    WRITTEN_FIRST = 8           # appends of an opened log: to map the file takes as long as to write it nine times

SIZE = 2 * BLOCK_BYTES


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


cdef int _pack_checked(uint8_t *block, uint64_t generation, int64_t log_start, int64_t high_watermark,
                       int64_t last_stable, int64_t log_end) except -1:
    assert last_stable <= high_watermark <= log_end, (last_stable, high_watermark, log_end)
    _pack(block, generation, log_start, high_watermark, last_stable, log_end)
    return 0


def pack(uint64_t generation, int64_t log_start, int64_t high_watermark, int64_t last_stable, int64_t log_end):
    """Return one copy as bytes."""
    cdef uint8_t block[BLOCK_BYTES]
    _pack(block, generation, log_start, high_watermark, last_stable, log_end)
    return PyBytes_FromStringAndSize(<char *>block, BLOCK_BYTES)


def unpack(const uint8_t[::1] data not None):
    """Return (generation, log start, high watermark, last stable offset, log end); None if no copy is whole."""
    cdef uint8_t expected[BLOCK_BYTES]
    cdef Py_ssize_t size = data.shape[0], at
    cdef const uint8_t *p
    if size != BLOCK_BYTES and size != 2 * BLOCK_BYTES:
        return None
    for at in range(0, size, BLOCK_BYTES):
        p = &data[at]
        # The five numbers have only one encoding, so a copy is whole if packing them gives the same bytes.
        _pack(expected, <uint64_t>load64(p + 8), load64(p + 16), load64(p + 24), load64(p + 32), load64(p + 40))
        if memcmp(p, expected, BLOCK_BYTES) == 0:
            return <uint64_t>load64(p + 8), load64(p + 16), load64(p + 24), load64(p + 32), load64(p + 40)
    return None


cdef class PublishedFile:
    """``logstore.published`` as its writer sees it.

    Owns: its file and the memory that is mapped from it, until `close`. Called under the log's lock.
    """

    def __init__(self, File file not None):
        """Write to an open file, which `close` closes."""
        self._file = file
        # A table of a test can neither order nor simulate stores.
        self._left = WRITTEN_FIRST if file.files.ops.context == NULL else -1

    def write(self, uint64_t generation, int64_t log_start, int64_t high_watermark, int64_t last_stable,
              int64_t log_end) -> None:
        """Publish offsets with a write, which wakes readers. They see these or the previous ones. Never synced.

        Raises:
            DiskFullError, StorageError: readers may find the block torn, and retry later.
        """
        cdef uint8_t block[2 * BLOCK_BYTES]
        _pack_checked(block, generation, log_start, high_watermark, last_stable, log_end)
        self._write(block, False)

    cpdef int put(self, uint64_t generation, int64_t log_start, int64_t high_watermark, int64_t last_stable,
                  int64_t log_end) except -1:
        """Publish offsets after an append, whose write to the segment has woken readers; as `write` otherwise."""
        cdef uint8_t block[2 * BLOCK_BYTES]
        _pack_checked(block, generation, log_start, high_watermark, last_stable, log_end)
        if self._shared is not None:
            if self._shared.store(block):
                return 0
            # The file was cut, or the disk cannot take the block: only a write tells which, and can fail.
            self._shared.close()
            self._shared = None
        self._write(block, self._left == 1)
        if self._left > 0:
            self._left -= 1
        return 0

    cdef int _write(self, uint8_t *block, bint then_share) except -1:
        """Write both copies; ``block`` has the first one, and space for the second.

        The file may be mapped then: the write has allocated its disk space.
        """
        cdef int fd = self._file.acquire()
        memcpy(block + BLOCK_BYTES, block, BLOCK_BYTES)
        try:
            self._file.put(block, 2 * BLOCK_BYTES, 0)
            if then_share:
                self._shared = share(fd, BLOCK_BYTES)
        finally:
            self._file.release()
        return 0

    cpdef bint is_at_hand(self) noexcept:
        """Return whether `put` opens no file."""
        return self._shared is not None or self._file.is_at_hand()

    def take_with(self, File file not None) -> None:
        """Give a segment's file and this one their descriptors, so that an append opens neither.

        Raises:
            StorageError: the segment's file cannot be opened. A failure of this one is left to `put`.
        """
        # Pinned: a clean file is the first to be closed, and perhaps all others have to be synced before.
        file.acquire()
        try:
            if not self.is_at_hand():
                self._file.acquire()
                self._file.release()
        except StorageError:
            pass
        finally:
            file.release()

    @property
    def is_shared(self) -> bool:
        """Whether an append publishes without a system call."""
        return self._shared is not None

    def close(self) -> None:
        """Close the file."""
        if self._shared is not None:
            self._shared.close()
            self._shared = None
        self._left = -1
        self._file.close()
