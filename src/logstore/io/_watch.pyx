# cython: language_level=3
"""Inotify watch for writes of another process, as a hint to look again.

Outside the table of file operations, since nothing depends on it: a waiting reader looks again after
a short time anyway.
"""

import os

from libc.stdint cimport uint32_t

cdef extern from "<sys/inotify.h>" nogil:
    int inotify_init1(int flags)
    int inotify_add_watch(int fd, const char *path, uint32_t mask)
    enum: IN_NONBLOCK
    enum: IN_CLOEXEC
    enum: IN_MODIFY
    enum: IN_DELETE_SELF

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd *fds, unsigned long count, int timeout_ms)
    enum: POLLIN

cdef extern from "<unistd.h>" nogil:
    ssize_t c_read "read"(int fd, void *data, size_t size)
    int c_close "close"(int fd)


cdef class Watch:
    """Inotify watch on the files of a directory. Outside the table of file operations: only a hint to look again.

    Owns: an inotify descriptor.
    """

    cdef int _fd

    def __cinit__(self, str path not None):
        self._fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC)
        if self._fd >= 0 and inotify_add_watch(self._fd, os.fsencode(path), IN_MODIFY | IN_DELETE_SELF) < 0:
            c_close(self._fd)
            self._fd = -1

    def __dealloc__(self):
        if self._fd >= 0:
            c_close(self._fd)

    def wait(self, int timeout_ms):
        """Block until a write or the timeout, whichever comes first; return whether there was a write."""
        cdef pollfd waiting
        cdef char drained[4096]
        waiting.fd = self._fd
        waiting.events = POLLIN
        waiting.revents = 0
        with nogil:
            poll(&waiting, 1, timeout_ms)
            if waiting.revents:
                while c_read(self._fd, drained, sizeof(drained)) > 0:
                    pass
        return waiting.revents != 0
