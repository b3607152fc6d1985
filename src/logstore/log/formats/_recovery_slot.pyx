# cython: language_level=3
"""Writing of one slot of ``logstore.recovery``: its 64 bytes, and the place that its sequence gives it.

`checkpoints` shows the bytes, and reads them. A round of syncs writes a slot at its end, under the log's lock:
`RecoverySlots` is what it needs of the file, of which `RecoveryPointFile` has the rest.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from logstore.batch._bytes cimport store32, store64
from logstore.batch._crc32c cimport logstore_crc32c, logstore_crc32c_init
from logstore.io._files cimport File

logstore_crc32c_init()

cdef enum:
    BLOCK_BYTES = 64
    CHECKED_BYTES = 60
    SPACING_BYTES = 4096
    MAGIC_AND_VERSION = 0x6C720100      # "lr", version 1, room for the flags
    CLEAN = 1
    SUSPECT = 2
    CONTIGUOUS = 4
    GAPPED = 8
    LISTS_ABORTED = 16

SLOT_BYTES = BLOCK_BYTES
SLOT_SPACING_BYTES = SPACING_BYTES


cdef int pack(uint8_t *p, object point) except -1:
    """Fill the block from the fields of a `RecoveryPoint`."""
    cdef int64_t recovery_point = point[2], base_offset = point[3], position = point[4], log_start = point[5]
    cdef int64_t replay_from = point[6]
    cdef int32_t flags = 0
    assert 0 <= base_offset <= recovery_point, point
    assert position >= 0 and log_start >= 0 and replay_from >= -1, point
    if point[7]:
        flags |= CLEAN
    if point[8]:
        flags |= SUSPECT
    if point[9]:
        flags |= CONTIGUOUS if point[9] == "contiguous" else GAPPED
    if point[10]:
        flags |= LISTS_ABORTED
    store32(p, MAGIC_AND_VERSION | flags)
    store64(p + 4, <int64_t><uint64_t>point[0])
    store64(p + 12, <int64_t><uint64_t>point[1])
    store64(p + 20, recovery_point)
    store64(p + 28, base_offset)
    store64(p + 36, position)
    store64(p + 44, log_start)
    store64(p + 52, replay_from)
    store32(p + CHECKED_BYTES, <int32_t>logstore_crc32c(0, p, CHECKED_BYTES))
    return 0


def encode_slot(point: tuple[Any, ...]) -> bytes:
    """Encode the 64 bytes to write at `slot_position` of the point's sequence."""
    cdef uint8_t block[BLOCK_BYTES]
    pack(block, point)
    return PyBytes_FromStringAndSize(<char *>block, BLOCK_BYTES)


cpdef int64_t slot_position(uint64_t sequence) noexcept:
    """Return the position in the file of the slot with this sequence."""
    return SPACING_BYTES if sequence & 1 else 0


cdef int put_slot(File file, object point) except -1:
    """Overwrite the slot of the point's sequence by one `pwrite`.

    Raises:
        DiskFullError, StorageError: the slot may be torn; the other one is as it was.
    """
    cdef uint8_t block[BLOCK_BYTES]
    pack(block, point)
    return file.put(block, BLOCK_BYTES, slot_position(point[0]))


cdef class RecoverySlots:
    """The point in the newest slot of a file, and the file, which its subclass opens and closes.

    Invariant: `point` is what the newest slot has, or would have if its write had not failed.
    """

    def begin_at(self, point: tuple[Any, ...]) -> None:
        """Begin with the point that recovery has found."""
        self.point = point

    def use(self, File file not None: File) -> None:
        """Write to this file from now on."""
        self.file = file

    cdef int put(self, object point) except -1:
        """Overwrite the older slot with a point, whose sequence follows on the newest one's; not synced.

        Raises:
            DiskFullError, StorageError: the slot may be torn; the newest one is as it was.
        """
        put_slot(self.file if self.file is not None else self.opened(), point)
        self.point = point
        return 0

    def put_next(self, point: tuple[Any, ...]) -> None:
        """Write as `put`."""
        self.put(point)
