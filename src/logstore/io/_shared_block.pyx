# cython: language_level=3
"""Block at the start of a file that is mapped into memory: a store reaches its readers without a system call.

Outside the table of file operations, which cannot order or simulate stores: for bytes that promise nothing after a
power cut, in a file of libc's table. They survive the process, as written ones do. `durability.md` argues why a
store cannot end the process; `_shared_block.h` has the handler of SIGBUS that this takes.

Threads: those that hold the GIL, from the first byte of a store to its last.
"""

from libc.stdint cimport uint8_t
from posix.mman cimport munmap

cdef extern from "io/_shared_block.h" nogil:
    uint8_t *logstore_map_shared(int fd, size_t size)
    int logstore_store_twice(uint8_t *to, const uint8_t *block, size_t size)

cdef enum:
    MOST_BLOCKS = 16_384        # of 65,530 mappings that Linux lets a process have

cdef Py_ssize_t _count = 0      # of blocks that are mapped


cdef class SharedBlock:
    """Two copies of a block at the start of a file.

    Owns: the mapping, until `close`. The file may be closed before.
    """

    def __dealloc__(self):
        self.close()

    cdef bint store(self, const uint8_t *block) noexcept:
        """Overwrite both copies, the first one first; False if the file has no place for them any more.

        A process that is killed in between leaves one of them whole.
        """
        return self._data != NULL and logstore_store_twice(self._data, block, <size_t>self._size) == 0

    cdef void close(self) noexcept:
        """Unmap the file. May be called again."""
        global _count
        if self._data != NULL:
            munmap(self._data, 2 * <size_t>self._size)
            self._data = NULL
            _count -= 1


cdef SharedBlock share(int fd, Py_ssize_t size):
    """Map the two copies in a file whose disk space is allocated; None where only writes are safe.

    So it is on file systems that may show a store late, or not at all, to those that read the file; where SIGBUS is
    blocked in this thread, or another library has taken it; and beyond `MOST_BLOCKS`.
    """
    global _count
    cdef SharedBlock block
    cdef uint8_t *data
    if _count >= MOST_BLOCKS:
        return None
    data = logstore_map_shared(fd, 2 * <size_t>size)
    if data == NULL:
        return None
    block = SharedBlock.__new__(SharedBlock)
    block._data, block._size = data, size
    _count += 1
    return block
