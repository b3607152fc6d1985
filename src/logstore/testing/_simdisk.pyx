# cython: language_level=3
"""Simulated machine: file operations over a disk in memory, with descriptors, a capacity, and kept moments.

`_disk` tracks the synced state and decides what survives a power cut. `SimFiles` gives its operations the form and
the errors of system calls. It can keep a copy of the disk after every operation that changed or synced something,
so that a test can cut the power at each. `FaultyFiles` decides on planned faults before an operation arrives here.
Tests use `simdisk.SimDisk`. Any thread may call; the disk is accessed under the GIL.

Paths are absolute. A file has bytes, a directory has names. There are hard links, but no symbolic links, owners or
permissions. One process uses the disk, so a lock on a writable descriptor is always granted.
"""

import errno as _errno
import os

cimport cython
from libc.errno cimport (
    EBADF, EEXIST, EFBIG, EINVAL, EISDIR, ENOMEM, ENOSPC, ENOTDIR, ENOTEMPTY, EOPNOTSUPP, EPERM,
    errno as c_errno,
)
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from posix.fcntl cimport O_ACCMODE, O_CREAT, O_DIRECTORY, O_EXCL, O_RDONLY, O_TRUNC, O_WRONLY
from posix.stat cimport S_IFDIR, S_IFREG
from posix.unistd cimport write as c_write

from logstore.io._file_ops cimport (
    OP_CLOSE, OP_FALLOCATE, OP_FDATASYNC, OP_FSTAT, OP_FSYNC_DIR, OP_FTRUNCATE, OP_LINK, OP_LISTDIR, OP_LOCK,
    OP_MKDIR, OP_MMAP_RO, OP_MUNMAP, OP_OPEN, OP_PREADV, OP_PWRITE, OP_RENAME, OP_SENDFILE, OP_STATVFS, OP_UNLINK,
    Call, FileInfo, SpaceInfo,
)
from logstore.testing._disk cimport Chance, Disk, Inode, PathLookup, new_disk
from logstore.testing._faults cimport FaultyFiles

cdef extern from "<fcntl.h>":
    enum: FALLOC_FL_KEEP_SIZE
    enum: FALLOC_FL_PUNCH_HOLE

cdef extern from "Python.h":
    object PyUnicode_DecodeFSDefault(const char *text)

cdef enum:
    BLOCK = 4096
    SEND_BYTES = 256 * 1024


@cython.final
cdef class _Descriptor:
    cdef Inode inode
    cdef bint is_readable
    cdef bint is_writable


# As for `FaultyFiles`: the last munmap of a mapping may come after the garbage collector's clear.
@cython.no_gc_clear
cdef class SimFiles(FaultyFiles):
    """`Files` over a disk in memory: the compiled base of `SimDisk`.

    Owns: the disk, its descriptors, and the moments that were kept.
    Threads: any.
    """

    cdef public Disk _disk
    cdef public Chance _chance
    cdef readonly list _moments
    cdef bint _keeps_moments
    cdef dict _opened                   # _Descriptor by number
    cdef readonly int64_t operations
    cdef public object capacity
    cdef public bint rereads

    def __cinit__(self, *, descriptor_limit=None):
        self._disk = new_disk()
        self._chance = Chance(0)
        self._moments = []
        self._opened = {}
        # Identifies the disk, for locks and others. A reference to the disk itself would be a cycle.
        self.namespace = object()

    cdef int64_t _pass_on(self, const Call *call) except? -1:
        cdef int64_t status, before = self._disk.order
        if call.op == OP_MUNMAP:
            free(call.data)
            return 0
        if call.op == OP_SENDFILE:
            return self._send(call)
        status = self._on_file(call) if call.path == NULL else self._on_path(call)
        if status >= 0 and (self._disk.order != before or call.op == OP_FDATASYNC or call.op == OP_FSYNC_DIR):
            self._end_change()
        return status

    cdef int _end_change(self) except -1:
        """Count an operation that changed or synced something, and keep a copy of the disk if moments are kept."""
        self.operations += 1
        if self._keeps_moments:
            self._moments.append(self._disk.copied())
        return 0

    cdef int _lose(self, const Call *call) except -1:
        cdef PathLookup entry
        cdef _Descriptor file = self._opened.get(call.fd)
        if call.path != NULL:
            entry = self._disk.find(call.path)
            if entry.inode is None:
                return 0
            self._disk.settle_names(entry.inode, False)
        elif file is None:
            return 0
        elif file.inode.changes:
            # The pages are marked clean, and their bytes are not on the disk.
            file.inode.is_stale = True
            file.inode.changes = []
        return self._end_change()

    # --- calls on a path -----------------------------------------------------------------------

    cdef int64_t _on_path(self, const Call *call) except? -1:
        cdef int op = call.op
        cdef PathLookup entry = self._disk.find(call.path)
        cdef SpaceInfo *space
        if op == OP_OPEN:
            return self._open(entry, call.flags)
        if op == OP_MKDIR:
            return self._make_directory(entry)
        if op == OP_RENAME:
            return self._rename(entry, self._disk.find(call.new_path))
        if op == OP_LINK:
            return self._link(entry, self._disk.find(call.new_path))
        if entry.inode is None:
            return entry.status
        if op == OP_STATVFS:
            space = <SpaceInfo *>call.data
            space.total_bytes = <int64_t>1 << 40 if self.capacity is None else self.capacity
            space.free_bytes = max(space.total_bytes - self._disk.used(), <int64_t>0)
            return 0
        if op == OP_UNLINK:
            return -EISDIR if entry.inode.is_directory else self._disk.remove_name(entry)
        if not entry.inode.is_directory:
            return -ENOTDIR
        if op == OP_FSYNC_DIR:
            return self._disk.settle_names(entry.inode, True)
        if op == OP_LISTDIR:
            for name in list(entry.inode.names):
                (<list>call.data).append(PyUnicode_DecodeFSDefault(<bytes>name))
            return 0
        # OP_RMDIR
        if entry.directory is None:
            return -EINVAL
        return -ENOTEMPTY if entry.inode.names else self._disk.remove_name(entry)

    cdef int64_t _open(self, PathLookup entry, int flags) except? -1:
        cdef _Descriptor file
        cdef Inode inode = entry.inode
        cdef int64_t fd = 0
        if inode is None:
            if entry.directory is None or not flags & O_CREAT:
                return entry.status
            inode = self._disk.make_inode(False)
            self._disk.set_name(entry, inode)
        elif flags & O_CREAT and flags & O_EXCL:
            return -EEXIST
        elif inode.is_directory:
            if (flags & O_ACCMODE) != O_RDONLY or flags & (O_CREAT | O_TRUNC):
                return -EISDIR
        elif flags & O_DIRECTORY:
            return -ENOTDIR
        if self.rereads and inode.is_stale and inode.opens == 0:
            inode.reread()
        if flags & O_TRUNC and inode.now:
            self._disk.resize(inode, 0)
        file = _Descriptor()
        file.inode = inode
        file.is_readable = (flags & O_ACCMODE) != O_WRONLY
        file.is_writable = (flags & O_ACCMODE) != O_RDONLY
        while fd in self._opened:
            fd += 1
        self._opened[fd] = file
        inode.opens += 1
        return fd

    cdef int64_t _make_directory(self, PathLookup entry) except? -1:
        if entry.inode is not None:
            return -EEXIST
        if entry.directory is None:
            return entry.status
        return self._disk.set_name(entry, self._disk.make_inode(True))

    cdef int64_t _rename(self, PathLookup entry, PathLookup to) except? -1:
        cdef Inode inode = entry.inode, target = to.inode
        # As in Linux: errors of the directories of both names come before those of the renamed file.
        if inode is None and entry.directory is None:
            return entry.status
        if to.directory is None:
            return -EINVAL if target is not None else to.status
        if inode is None:
            return entry.status
        if inode is target:
            return 0
        if inode.is_directory and self._lies_below(to.directory, inode):
            return -EINVAL
        if target is not None:
            if target.is_directory and self._lies_below(entry.directory, target):
                return -ENOTEMPTY
            if target.is_directory and not inode.is_directory:
                return -EISDIR
            if inode.is_directory and not target.is_directory:
                return -ENOTDIR
            if target.names:
                return -ENOTEMPTY
        return self._disk.move_name(entry, to)

    cdef bint _lies_below(self, Inode directory, Inode ancestor) except -1:
        """Return whether ``directory`` is ``ancestor`` or is below it, at any depth."""
        if directory is ancestor:
            return True
        for number in ancestor.names.values():
            if self._lies_below(directory, self._disk.inodes[number]):
                return True
        return False

    cdef int64_t _link(self, PathLookup entry, PathLookup to) except? -1:
        if entry.inode is None:
            return entry.status
        if to.inode is not None:
            return -EEXIST
        if to.directory is None:
            return to.status
        if entry.inode.is_directory:
            return -EPERM
        return self._disk.set_name(to, entry.inode)

    # --- calls on an open file -----------------------------------------------------------------

    cdef int64_t _on_file(self, const Call *call) except? -1:
        cdef int op = call.op
        cdef _Descriptor file = self._opened.get(call.fd)
        if file is None:
            return -EBADF
        if op == OP_PREADV:
            return self._read(file, <uint8_t *>call.data, call.size, call.position)
        if op == OP_PWRITE:
            return self._write(file, call)
        if op == OP_FTRUNCATE:
            return self._truncate(file, call.size)
        if op == OP_FALLOCATE:
            return self._allocate(file, call)
        if op == OP_FDATASYNC:
            return self._disk.sync(file.inode)
        if op == OP_FSTAT:
            return self._stat(file.inode, <FileInfo *>call.data)
        if op == OP_MMAP_RO:
            return self._map(file.inode, <size_t>call.size, <void **>call.data)
        if op == OP_LOCK:
            return 0 if file.is_writable else -EBADF
        if op == OP_CLOSE:
            del self._opened[call.fd]
            file.inode.opens -= 1
            if file.inode.opens == 0 and file.inode.links == 0:
                self._disk.sweep()
        # OP_WRITEBACK has no effect: it promises nothing, and a power cut may keep any of the bytes anyway.
        return 0

    cdef int64_t _end_within_capacity(self, Inode inode, int64_t end) except -1:
        """Return `end`, or the smaller size to which the capacity lets a file grow now."""
        if self.capacity is None:
            return end
        return min(end, max(<int64_t>len(inode.now), inode.reserved)
                   + max(<int64_t>self.capacity - self._disk.used(), <int64_t>0))

    cdef int64_t _read(self, _Descriptor file, uint8_t *data, int64_t size, int64_t position) except? -1:
        if not file.is_readable:
            return -EBADF
        if file.inode.is_directory:
            return -EISDIR
        if position < 0:
            return -EINVAL
        size = min(size, len(file.inode.now) - position)
        if size <= 0:
            return 0
        memcpy(data, <char *>file.inode.now + position, <size_t>size)
        return size

    cdef int64_t _write(self, _Descriptor file, const Call *call) except? -1:
        cdef int64_t end
        if not file.is_writable:
            return -EBADF
        if call.position < 0:
            return -EINVAL
        if call.size == 0:
            return 0
        if call.position > (<int64_t>1 << 62) - call.size:
            return -EFBIG
        end = self._end_within_capacity(file.inode, call.position + call.size)
        if end <= call.position:
            return -ENOSPC
        self._disk.write(file.inode, (<const char *>call.data)[:end - call.position], call.position)
        return end - call.position

    cdef int64_t _truncate(self, _Descriptor file, int64_t size) except? -1:
        cdef Inode inode = file.inode
        if size < 0 or not file.is_writable:
            return -EINVAL
        if size == len(inode.now):
            # The content is the same, but space reserved by fallocate after the end must be released.
            inode.reserved = min(inode.reserved, size)
            return 0
        if size > len(inode.now) and self._end_within_capacity(inode, size) < size:
            return -ENOSPC
        return self._disk.resize(inode, size)

    cdef int64_t _allocate(self, _Descriptor file, const Call *call) except? -1:
        cdef Inode inode = file.inode
        cdef int64_t position = call.position, size = len(inode.now), end = position + call.size
        if not file.is_writable:
            return -EBADF
        if position < 0 or call.size <= 0:
            return -EINVAL
        if call.flags & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE) or call.flags == FALLOC_FL_PUNCH_HOLE:
            return -EOPNOTSUPP
        if call.flags & FALLOC_FL_PUNCH_HOLE:
            end = min(end, size)
            if end > position:
                return self._disk.write(inode, bytes(end - position), position)
            inode.reserved = min(inode.reserved, max(position, size))
            return 0
        if self._end_within_capacity(inode, end) < end:
            return -ENOSPC
        inode.reserved = max(inode.reserved, end)
        return self._disk.resize(inode, end) if call.flags == 0 and end > size else 0

    cdef int64_t _stat(self, Inode inode, FileInfo *out) except? -1:
        cdef int64_t size = len(inode.now)
        out.size = size
        out.allocated_bytes = (max(size, inode.reserved) + BLOCK - 1) // BLOCK * BLOCK
        out.born_ns = 0
        out.modified_ns = inode.modified * 1_000_000
        out.device = <uint64_t><void *>self
        out.inode = <uint64_t>inode.number + 1
        out.mode = S_IFDIR | 0o755 if inode.is_directory else S_IFREG | 0o644
        return 0

    cdef int64_t _map(self, Inode inode, size_t size, void **out) except? -1:
        # A copy: a mapping here never sees later changes, and only whole files are mapped.
        if size == 0:
            return -EINVAL
        out[0] = calloc(size, 1)
        if out[0] == NULL:
            return -ENOMEM
        memcpy(out[0], <char *>inode.now, min(size, <size_t>len(inode.now)))
        return 0

    cdef int64_t _send(self, const Call *call) except? -1:
        # The receiver is a real socket, which may block: the GIL is released.
        cdef _Descriptor file = self._opened.get(call.fd)
        cdef int64_t got, sent
        cdef int out_fd = call.out_fd
        cdef bytearray buffer
        cdef char *data
        if file is None:
            return -EBADF
        buffer = bytearray(min(call.size, <int64_t>SEND_BYTES))
        data = buffer
        got = self._read(file, <uint8_t *>data, len(buffer), call.position)
        if got <= 0:
            return got
        with nogil:
            sent = c_write(out_fd, data, <size_t>got)
        return sent if sent >= 0 else -c_errno

    # --- what a test asks ----------------------------------------------------------------------

    def boot(self):
        """Return the id of this run of the simulated machine: a power cut begins the next one."""
        return self._disk.boots.to_bytes(16, "big")

    def keep_moments(self):
        """Keep a copy of the disk after each operation that changes or syncs something; drop earlier copies."""
        self._moments = []
        self._keeps_moments = True

    @property
    def moment_count(self):
        """The number of copies kept since `keep_moments`."""
        return len(self._moments)

    @property
    def pending(self):
        """The number of changes of bytes and names that are not synced."""
        return len(self._disk.pending())

    @property
    def used_bytes(self):
        return self._disk.used()

    def state_hash(self):
        """Return a 64-bit hash of all names and bytes as they are now."""
        return int.from_bytes(self._disk.digest(self._disk.inodes[0]), "little")

    def drop_caches(self):
        """Read all files from the disk again: readers no longer see the bytes that a failed sync has lost."""
        cdef Inode inode
        for inode in list(self._disk.inodes.values()):
            if inode.is_stale:
                inode.reread()

    def flip(self, str path not None, int64_t bit):
        """Flip one bit of a file, numbered from 0 at its start, in the page cache and on the disk.

        Raises:
            IndexError: the file is shorter.
            FileNotFoundError: there is no such file.
        """
        cdef Inode inode = self._disk.find(os.fsencode(path)).inode
        cdef int64_t position = bit >> 3
        if inode is None or inode.is_directory:
            raise FileNotFoundError(_errno.ENOENT, "no such file on the simulated disk", path)
        if bit < 0 or position >= len(inode.now):
            raise IndexError(f"bit {bit} of a file of {len(inode.now)} bytes: {path}")
        for run in (inode.now, inode.synced):
            if position < len(run):
                run[position] ^= 1 << (bit & 7)
