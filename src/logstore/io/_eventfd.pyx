# cython: language_level=3
"""Eventfd: a descriptor that becomes readable when a thread sets it, for an event loop that waits for descriptors.

Outside the table of file operations: no file is behind it. Threads: any. Every call holds the interpreter lock, so
none writes to a descriptor that another thread closes meanwhile: its number may be a log's file by then.
"""

import os

cimport cython
from libc.errno cimport EMFILE, ENFILE, errno
from libc.stdint cimport uint64_t

from logstore.errors import StorageError, TooManyFilesError

cdef extern from "<sys/eventfd.h>" nogil:
    int c_eventfd "eventfd"(unsigned int initial, int flags)
    enum: EFD_NONBLOCK
    enum: EFD_CLOEXEC

cdef extern from "<unistd.h>" nogil:
    ssize_t c_read "read"(int fd, void *data, size_t size)
    ssize_t c_write "write"(int fd, const void *data, size_t size)
    int c_close "close"(int fd)


@cython.final
cdef class EventFd:
    """Descriptor that is readable from `set` until `clear`.

    Owns: the descriptor, until `close`.
    """

    def __cinit__(self):
        self._fd = c_eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
        if self._fd < 0:
            kind = TooManyFilesError if errno in (EMFILE, ENFILE) else StorageError
            raise kind(f"cannot make an eventfd: {os.strerror(errno)}")

    def __dealloc__(self):
        self.close()

    def fileno(self) -> int:
        """Return the descriptor, -1 once it is closed."""
        return self._fd

    cpdef void set(self) noexcept:
        """Make the descriptor readable. The write fails only if the counter is full, which is readable, too."""
        cdef uint64_t one = 1
        cdef ssize_t _status
        if self._fd >= 0:
            _status = c_write(self._fd, &one, sizeof(one))

    cpdef void clear(self) noexcept:
        """Make the descriptor unreadable."""
        cdef uint64_t count
        cdef ssize_t _status
        if self._fd >= 0:
            # It fails where the descriptor is unreadable already.
            _status = c_read(self._fd, &count, sizeof(count))

    def close(self) -> None:
        """Close the descriptor; `set` then does nothing. May be called again."""
        if self._fd >= 0:
            c_close(self._fd)
            self._fd = -1
