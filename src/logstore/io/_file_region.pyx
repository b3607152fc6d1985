# cython: language_level=3
"""Region of a segment's file with whole batches, sent to a socket by sendfile or by copying."""

cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.object cimport PyObject_AsFileDescriptor
from libc.errno cimport EAGAIN, EINTR, errno as c_errno
from libc.stdlib cimport free, malloc

from logstore.io._files cimport (
    OP_CACHED, OP_PREADV, OP_SENDFILE, Call, File, FileOps, on_file, raise_status, read_upto,
)

import os

from logstore.errors import CorruptRecordError

cdef extern from "<sys/socket.h>" nogil:
    ssize_t c_send "send"(int fd, const void *data, size_t size, int flags)
    enum: MSG_NOSIGNAL

cdef enum:
    COPY_BYTES = 1 << 18          # bytes that a region copies to a socket at once


# The garbage collector's clear would drop the file before `__dealloc__` releases it.
@cython.no_gc_clear
@cython.final
cdef class FileRegion:
    """Whole batches in a segment's file, which a fetch sends.

    Owns: a pin on the file's descriptor, so the bytes stay readable when the segment is deleted.
    """

    def __cinit__(self, File file, int64_t position, int64_t size, int64_t base_offset, int64_t next_offset):
        self._fd = -1
        self.file = file
        self.position = position
        self.size = size
        self.base_offset = base_offset
        self.next_offset = next_offset
        self._fd = file.acquire()

    def __dealloc__(self):
        if self._fd >= 0:
            self.file.release()

    def close(self) -> None:
        """Release the file."""
        if self._fd >= 0:
            self._fd = -1
            self.file.release()

    cdef int _usable(self, int64_t start) except -1:
        if self._fd < 0:
            raise ValueError("the region is closed")
        if start < 0 or start > self.size:
            raise ValueError(f"a region of {self.size} bytes cannot be sent from byte {start}")
        return 0

    def read(self) -> bytes:
        """Return the bytes. They are not checked: their reader checks the CRC of each batch."""
        self._usable(0)
        data = self.file.read(self.position, self.size)
        if len(data) != self.size:
            raise self._cut(len(data))
        return data

    cdef object _cut(self, int64_t found):
        return CorruptRecordError(f"{self.size} bytes expected, {found} are there",
                                  path=self.file.path, position=self.position)

    def read_into(self, out: Buffer) -> None:
        """Read the bytes into a buffer of their size. They are not checked, as with `read`."""
        cdef Py_buffer view
        cdef FileOps *ops = &self.file.files.ops
        cdef int64_t got
        cdef int fd
        self._usable(0)
        PyObject_GetBuffer(out, &view, PyBUF_WRITABLE)
        try:
            if view.len != self.size:
                raise ValueError(f"a region of {self.size} bytes is not read into {view.len}")
            fd = self.file.acquire()
            self.file.files.calls[OP_PREADV] += 1
            with nogil:
                got = read_upto(ops, fd, <uint8_t *>view.buf, self.size, self.position)
            self.file.release()
        finally:
            PyBuffer_Release(&view)
        raise_status(got, "read", self.file.path, self.position)
        if got != self.size:
            raise self._cut(got)

    def send_to(self, socket: int | _HasFileno, int64_t start: int = 0, int64_t most: int = 2**63 - 1) -> int:
        """Send the bytes from ``start`` on with sendfile, at most ``most`` of them; returns the number sent.

        A blocking socket takes all of them, a non-blocking one as many as its buffer holds (0: none now).

        Raises:
            OSError: the socket's error, as from `socket.send`.
        """
        cdef int out = PyObject_AsFileDescriptor(socket)
        cdef FileOps *ops = &self.file.files.ops
        cdef Call call
        cdef int64_t done = start, count = 0, end
        cdef int fd
        self._usable(start)
        end = start + min(self.size - start, max(most, <int64_t>0))
        # A pin of its own: if another thread closed the region meanwhile, the descriptor could be another file's.
        fd = self.file.acquire()
        self.file.files.calls[OP_SENDFILE] += 1
        with nogil:
            while done < end:
                call = Call(OP_SENDFILE, fd, 0, out, NULL, NULL, NULL, end - done, self.position + done)
                count = ops.make(ops.context, &call)
                if count == -EINTR:
                    continue
                if count <= 0:
                    break
                done += count
        self.file.release()
        return self._sent(start, done, end, count)

    def is_cold(self, int64_t start: int = 0, int64_t most: int = 2**63 - 1) -> bool:
        """Return whether to send bytes from ``start`` on, at most ``most``, would wait for the disk.

        What this process has just written is not looked at: it is in memory, as long as there is enough.
        """
        cdef int64_t size, status
        cdef int fd
        self._usable(start)
        size = min(self.size - start, most)
        if size <= 0 or self.file.has_just_written(self.position + start):
            return False
        fd = self.file.acquire()
        self.file.files.calls[OP_CACHED] += 1
        status = on_file(&self.file.files.ops, OP_CACHED, fd, NULL, size, self.position + start)
        self.file.release()
        return status == -EAGAIN

    def warm(self, int64_t start: int = 0, int64_t most: int = 2**63 - 1) -> None:
        """Read bytes from ``start`` on, at most ``most``, into memory: a send will not wait for the disk.

        What cannot be read is left to the send, which raises its error.
        """
        cdef FileOps *ops = &self.file.files.ops
        cdef int64_t done = start, got, end
        cdef uint8_t *buffer
        cdef int fd
        self._usable(start)
        end = start + min(self.size - start, max(most, <int64_t>0))
        buffer = <uint8_t *>malloc(COPY_BYTES)
        if buffer == NULL:
            raise MemoryError
        try:
            fd = self.file.acquire()
            self.file.files.calls[OP_PREADV] += 1
            with nogil:
                while done < end:
                    got = read_upto(ops, fd, buffer, min(<int64_t>COPY_BYTES, end - done), self.position + done)
                    if got <= 0:
                        break
                    done += got
            self.file.release()
        finally:
            free(buffer)

    def copy_to(self, socket: int | _HasFileno, int64_t start: int = 0, int64_t most: int = 2**63 - 1) -> int:
        """Send as `send_to` does, through a buffer: for sockets that sendfile cannot serve."""
        cdef int out = PyObject_AsFileDescriptor(socket)
        cdef FileOps *ops = &self.file.files.ops
        cdef int64_t done = start, count = 0, got, offered, end
        cdef uint8_t *buffer
        cdef int fd
        self._usable(start)
        end = start + min(self.size - start, max(most, <int64_t>0))
        buffer = <uint8_t *>malloc(COPY_BYTES)
        if buffer == NULL:
            raise MemoryError
        try:
            fd = self.file.acquire()
        except BaseException:
            free(buffer)
            raise
        self.file.files.calls[OP_PREADV] += 1
        with nogil:
            while done < end:
                got = read_upto(ops, fd, buffer, min(<int64_t>COPY_BYTES, end - done),
                                self.position + done)
                if got <= 0:
                    count = got
                    break
                offered = 0
                while offered < got:
                    count = c_send(out, buffer + offered, <size_t>(got - offered), MSG_NOSIGNAL)
                    if count < 0:
                        count = -c_errno
                        if count == -EINTR:
                            continue
                        break
                    offered += count
                done += offered
                if offered < got:
                    break
        self.file.release()
        free(buffer)
        return self._sent(start, done, end, count)

    cdef object _sent(self, int64_t start, int64_t done, int64_t end, int64_t status):
        if done == start and start < end:
            if status == 0:
                raise CorruptRecordError("the file ends inside the region", path=self.file.path,
                                         position=self.position + done)
            if status != -EAGAIN:
                raise OSError(-status, os.strerror(-status))
        return done - start

    def __len__(self):
        return self.size

    def __repr__(self):
        return f"<FileRegion {self.file.path!r} {self.position}+{self.size}, from offset {self.base_offset}>"
