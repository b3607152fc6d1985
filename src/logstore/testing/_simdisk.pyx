# cython: language_level=3
"""Simulated machine: file operations over a disk in memory, with descriptors, a capacity, and kept moments.

`_disk` tracks the synced state and decides what survives a power cut. This module gives its operations the form and
the errors of system calls, and holds the machine as a Python object. The machine can keep a copy of its disk after
every operation that changed something, so that a test can cut the power at each. Faults are those of
`FaultyFiles`, which wraps this table; tests use `simdisk.SimDisk`. Any thread; the disk is accessed under the
machine's lock.

Paths are absolute; a file has bytes, a directory has names, and there are no owners, modes or links
to names. One process owns the machine, so a lock is always granted.
"""

import errno as _errno
import os

from libc.errno cimport (
    EBADF, EEXIST, EFBIG, EINVAL, EISDIR, EMFILE, ENOENT, ENOMEM, ENOSPC, ENOTDIR, ENOTEMPTY, EOPNOTSUPP, EPERM,
    errno as c_errno,
)
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, strdup

from logstore.io._file_ops cimport FileInfo, FileOps, SpaceInfo, iovec, name_sink
from logstore.testing._disk cimport (
    POLICY_COUNT, Chance, Disk, Entries, Inode, disk_copy, disk_crash, disk_free, disk_hash, disk_new, disk_pending,
    disk_used, draw, find, grow, lose_bytes, make_inode, move_name, remove_name, reread, resize, set_name,
    settle_names, sweep, sync_bytes, write_bytes,
)
from logstore.testing._faults cimport (
    FaultyFiles, pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_t,
    pthread_mutex_unlock,
)

#: Policies of `SimDisk.crash`, in the order of the enum in `_disk.pxd`.
POLICIES = ("none", "all", "prefix", "torn", "lost", "zeroed", "reordered")
assert len(POLICIES) == POLICY_COUNT

cdef extern from *:
    """
    #include <fcntl.h>
    #include <sys/stat.h>
    #include <unistd.h>
    #ifndef FALLOC_FL_KEEP_SIZE
    #include <linux/falloc.h>
    #endif
    """
    enum: O_ACCMODE
    enum: O_CREAT
    enum: O_DIRECTORY
    enum: O_EXCL
    enum: O_RDONLY
    enum: O_TRUNC
    enum: O_WRONLY
    enum: FALLOC_FL_KEEP_SIZE
    enum: FALLOC_FL_PUNCH_HOLE
    enum: S_IFDIR
    enum: S_IFREG
    ssize_t c_write "write"(int fd, const void *data, size_t size) nogil

cdef enum:
    BLOCK = 4096
    SEND_BYTES = 256 * 1024
    DESCRIPTORS = 1 << 20

cdef struct Descriptor:
    bint is_open
    int inode
    int flags

cdef struct Machine:
    pthread_mutex_t guard
    Disk *disk
    Descriptor *open
    int64_t open_room
    int64_t capacity    # -1: no limit
    bint rereads
    int64_t operations  # those that changed something or made it durable
    bint is_keeping
    Disk **moments
    int64_t moment_count
    int64_t moment_room

# --- leaves, under the machine's lock -------------------------------------------------------------

cdef inline Machine *enter(void *context) noexcept nogil:
    cdef Machine *machine = <Machine *>context
    pthread_mutex_lock(&machine.guard)
    return machine


cdef inline int leave(Machine *machine, int status) noexcept nogil:
    pthread_mutex_unlock(&machine.guard)
    return status


cdef int done(Machine *machine, int status) noexcept nogil:
    """End an operation that changed something, and keep its moment."""
    if status >= 0:
        machine.operations += 1
        if machine.is_keeping:
            if grow(<void **>&machine.moments, &machine.moment_room, machine.moment_count, sizeof(Disk *)) < 0:
                return leave(machine, -ENOMEM)
            machine.moments[machine.moment_count] = disk_copy(machine.disk)
            if machine.moments[machine.moment_count] == NULL:
                return leave(machine, -ENOMEM)
            machine.moment_count += 1
    return leave(machine, status)


cdef inline Inode *inode_of(Machine *machine, int fd) noexcept nogil:
    """Return the inode of an open descriptor, or NULL."""
    if fd < 0 or fd >= machine.open_room or not machine.open[fd].is_open:
        return NULL
    return machine.disk.inodes[machine.open[fd].inode]


cdef inline bint is_writable(Machine *machine, int fd) noexcept nogil:
    return (machine.open[fd].flags & O_ACCMODE) != O_RDONLY


cdef inline bint is_readable(Machine *machine, int fd) noexcept nogil:
    return (machine.open[fd].flags & O_ACCMODE) != O_WRONLY


cdef int grant(Machine *machine, int inode, int flags) noexcept nogil:
    """Open the lowest free descriptor for an inode."""
    cdef int fd = 0
    while fd < machine.open_room and machine.open[fd].is_open:
        fd += 1
    if fd >= DESCRIPTORS:
        return -EMFILE
    if grow(<void **>&machine.open, &machine.open_room, fd, sizeof(Descriptor)) < 0:
        return -ENOMEM
    machine.open[fd] = Descriptor(True, inode, flags)
    machine.disk.inodes[inode].opens += 1
    return fd


cdef int64_t room_for(Machine *machine, Inode *inode, int64_t end) noexcept nogil:
    """Return how far a write up to `end` may extend a file now."""
    cdef int64_t taken, left
    if machine.capacity < 0:
        return end
    taken = max(inode.now.size, inode.reserved)
    left = max(machine.capacity - disk_used(machine.disk), 0)
    return min(end, taken + left)


cdef int64_t write_at(Machine *machine, int fd, const void *data, int64_t size, int64_t position) noexcept nogil:
    cdef Inode *inode = inode_of(machine, fd)
    cdef int64_t end
    cdef int status
    if inode == NULL or not is_writable(machine, fd):
        return -EBADF
    if position < 0:
        return -EINVAL
    if size == 0:
        return 0
    if position > (<int64_t>1 << 62) - size:
        return -EFBIG
    end = room_for(machine, inode, position + size)
    if end <= position:
        return -ENOSPC
    size = end - position
    status = write_bytes(machine.disk, machine.open[fd].inode, data, size, position)
    return status if status < 0 else size


cdef int64_t read_at(Machine *machine, int fd, uint8_t *data, int64_t size, int64_t position) noexcept nogil:
    cdef Inode *inode = inode_of(machine, fd)
    if inode == NULL or not is_readable(machine, fd):
        return -EBADF
    if inode.is_directory:
        return -EISDIR
    if position < 0:
        return -EINVAL
    size = min(size, inode.now.size - position)
    if size <= 0:
        return 0
    memcpy(data, inode.now.data + position, <size_t>size)
    return size


cdef int directory_at(Machine *machine, const char *path, int *parent, const char **name) noexcept nogil:
    """Run `find` for a path that must be a directory."""
    cdef int at = find(machine.disk, path, parent, name)
    return -ENOTDIR if at >= 0 and not machine.disk.inodes[at].is_directory else at


cdef bint lies_below(Machine *machine, int directory, int ancestor) noexcept nogil:
    """Return whether a directory is in another, at any depth, or is the same."""
    cdef Entries *names
    cdef int i
    if directory == ancestor:
        return True
    names = &machine.disk.inodes[ancestor].names
    for i in range(names.count):
        if (machine.disk.inodes[names.items[i].inode].is_directory
                and lies_below(machine, directory, names.items[i].inode)):
            return True
    return False


# --- the table ---------------------------------------------------------------------------------

cdef int s_open(void *context, const char *path, int flags, int mode) noexcept nogil:
    cdef Machine *machine = enter(context)
    cdef Disk *disk = machine.disk
    cdef int parent
    cdef int fd
    cdef const char *name
    cdef int at = find(disk, path, &parent, &name)
    if at == -ENOENT and parent >= 0 and flags & O_CREAT:
        at = make_inode(disk, False)
        if at < 0:
            return leave(machine, at)
        fd = set_name(disk, parent, name, at)
        return done(machine, grant(machine, at, flags) if fd == 0 else fd)
    if at < 0:
        return leave(machine, at)
    if flags & O_CREAT and flags & O_EXCL:
        return leave(machine, -EEXIST)
    if disk.inodes[at].is_directory:
        if (flags & O_ACCMODE) != O_RDONLY or flags & (O_CREAT | O_TRUNC):
            return leave(machine, -EISDIR)
    elif flags & O_DIRECTORY:
        return leave(machine, -ENOTDIR)
    if machine.rereads and disk.inodes[at].is_stale and disk.inodes[at].opens == 0:
        reread(disk, at)
    fd = grant(machine, at, flags)
    if fd >= 0 and flags & O_TRUNC and disk.inodes[at].now.size:
        resize(disk, at, 0)
        return done(machine, fd)
    return leave(machine, fd)


cdef int s_close(void *context, int fd) noexcept nogil:
    cdef Machine *machine = enter(context)
    cdef Inode *inode = inode_of(machine, fd)
    if inode == NULL:
        return leave(machine, -EBADF)
    inode.opens -= 1
    machine.open[fd].is_open = False
    if inode.opens == 0 and inode.links == 0:
        sweep(machine.disk)
    return leave(machine, 0)


cdef int s_fstat(void *context, int fd, FileInfo *out) noexcept nogil:
    cdef Machine *machine = enter(context)
    cdef Inode *inode = inode_of(machine, fd)
    if inode == NULL:
        return leave(machine, -EBADF)
    out.size = inode.now.size
    out.allocated_bytes = (max(inode.now.size, inode.reserved) + BLOCK - 1) // BLOCK * BLOCK
    out.modified_ns = inode.modified * 1_000_000
    out.device = <uint64_t>machine
    out.inode = <uint64_t>machine.open[fd].inode + 1
    out.mode = S_IFDIR | 0o755 if inode.is_directory else S_IFREG | 0o644
    return leave(machine, 0)


cdef int64_t s_pwrite(void *context, int fd, const void *data, size_t size, int64_t position) noexcept nogil:
    cdef Machine *machine = enter(context)
    cdef int64_t status = write_at(machine, fd, data, <int64_t>size, position)
    if status > 0:
        return status if done(machine, 0) == 0 else -ENOMEM
    leave(machine, 0)
    return status


cdef int64_t s_pwritev(void *context, int fd, const iovec *parts, int count, int64_t position) noexcept nogil:
    # One call must be one change, torn as a whole: the parts are copied together first.
    cdef int64_t size = 0, status
    cdef int i
    cdef uint8_t *whole
    for i in range(count):
        size += <int64_t>parts[i].iov_len
    whole = <uint8_t *>malloc(<size_t>size + 1)
    if whole == NULL:
        return -ENOMEM
    size = 0
    for i in range(count):
        memcpy(whole + size, parts[i].iov_base, parts[i].iov_len)
        size += <int64_t>parts[i].iov_len
    status = s_pwrite(context, fd, whole, <size_t>size, position)
    free(whole)
    return status


cdef int64_t s_preadv(void *context, int fd, const iovec *parts, int count, int64_t position) noexcept nogil:
    cdef Machine *machine = enter(context)
    cdef int64_t got, total = 0
    cdef int i
    for i in range(count):
        got = read_at(machine, fd, <uint8_t *>parts[i].iov_base, <int64_t>parts[i].iov_len, position + total)
        if got < 0:
            leave(machine, 0)
            return got
        total += got
        if got < <int64_t>parts[i].iov_len:
            break
    leave(machine, 0)
    return total


cdef int s_fdatasync(void *context, int fd) noexcept nogil:
    cdef Machine *machine = enter(context)
    cdef Inode *inode = inode_of(machine, fd)
    if inode == NULL:
        return leave(machine, -EBADF)
    return done(machine, sync_bytes(machine.disk, machine.open[fd].inode))


cdef int s_ftruncate(void *context, int fd, int64_t size) noexcept nogil:
    cdef Machine *machine = enter(context)
    cdef Inode *inode = inode_of(machine, fd)
    if inode == NULL:
        return leave(machine, -EBADF)
    if size < 0 or not is_writable(machine, fd):
        return leave(machine, -EINVAL)
    if size == inode.now.size:
        # The content is the same, but space reserved by fallocate after the end must be released.
        inode.reserved = min(inode.reserved, size)
        return leave(machine, 0)
    if size > inode.now.size and room_for(machine, inode, size) < size:
        return leave(machine, -ENOSPC)
    return done(machine, resize(machine.disk, machine.open[fd].inode, size))


cdef int s_fallocate(void *context, int fd, int mode, int64_t position, int64_t size) noexcept nogil:
    cdef Machine *machine = enter(context)
    cdef Inode *inode = inode_of(machine, fd)
    cdef int64_t end = position + size
    if inode == NULL or not is_writable(machine, fd):
        return leave(machine, -EBADF)
    if position < 0 or size <= 0:
        return leave(machine, -EINVAL)
    if mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE) or mode == FALLOC_FL_PUNCH_HOLE:
        return leave(machine, -EOPNOTSUPP)
    if mode & FALLOC_FL_PUNCH_HOLE:
        end = min(end, inode.now.size)
        if end <= position:
            inode.reserved = min(inode.reserved, max(position, inode.now.size))
            return leave(machine, 0)
        return punch(machine, fd, position, end - position)
    if room_for(machine, inode, end) < end:
        return leave(machine, -ENOSPC)
    inode.reserved = max(inode.reserved, end)
    if mode == 0 and end > inode.now.size:
        return done(machine, resize(machine.disk, machine.open[fd].inode, end))
    return leave(machine, 0)


cdef int punch(Machine *machine, int fd, int64_t position, int64_t size) noexcept nogil:
    cdef uint8_t *zeros = <uint8_t *>calloc(<size_t>size, 1)
    cdef int status
    if zeros == NULL:
        return leave(machine, -ENOMEM)
    status = write_bytes(machine.disk, machine.open[fd].inode, zeros, size, position)
    free(zeros)
    return done(machine, status)


cdef int s_rename(void *context, const char *old, const char *new) noexcept nogil:
    cdef Machine *machine = enter(context)
    cdef Disk *disk = machine.disk
    cdef int parent, to
    cdef const char *name
    cdef const char *to_name
    cdef int at = find(disk, old, &parent, &name)
    cdef int target = find(disk, new, &to, &to_name)
    # As Linux: the directories of both names first, and only then the file that is renamed.
    if at < 0 and parent < 0:
        return leave(machine, at)
    if to < 0:
        return leave(machine, target if target < 0 else -EINVAL)
    if at < 0:
        return leave(machine, at)
    if at == target:
        return leave(machine, 0)
    if disk.inodes[at].is_directory and lies_below(machine, to, at):
        return leave(machine, -EINVAL)
    if target >= 0 and disk.inodes[target].is_directory and lies_below(machine, parent, target):
        return leave(machine, -ENOTEMPTY)
    if target >= 0:
        if disk.inodes[target].is_directory and not disk.inodes[at].is_directory:
            return leave(machine, -EISDIR)
        if disk.inodes[at].is_directory and not disk.inodes[target].is_directory:
            return leave(machine, -ENOTDIR)
        if disk.inodes[target].names.count:
            return leave(machine, -ENOTEMPTY)
    return done(machine, move_name(disk, parent, name, to, to_name))


cdef int s_unlink(void *context, const char *path) noexcept nogil:
    cdef Machine *machine = enter(context)
    cdef int parent
    cdef const char *name
    cdef int at = find(machine.disk, path, &parent, &name)
    if at < 0:
        return leave(machine, at)
    if machine.disk.inodes[at].is_directory:
        return leave(machine, -EISDIR)
    return done(machine, remove_name(machine.disk, parent, name))


cdef int s_link(void *context, const char *old, const char *new) noexcept nogil:
    cdef Machine *machine = enter(context)
    cdef int parent, to
    cdef const char *name
    cdef int at = find(machine.disk, old, &parent, &name)
    cdef int target = find(machine.disk, new, &to, &name)
    if at < 0:
        return leave(machine, at)
    if target >= 0:
        return leave(machine, -EEXIST)
    if to < 0:
        return leave(machine, target)
    if machine.disk.inodes[at].is_directory:
        return leave(machine, -EPERM)
    return done(machine, set_name(machine.disk, to, name, at))


cdef int s_mkdir(void *context, const char *path, int mode) noexcept nogil:
    cdef Machine *machine = enter(context)
    cdef int parent
    cdef const char *name
    cdef int at = find(machine.disk, path, &parent, &name)
    if at >= 0:
        return leave(machine, -EEXIST)
    if parent < 0:
        return leave(machine, at)
    at = make_inode(machine.disk, True)
    return done(machine, at if at < 0 else set_name(machine.disk, parent, name, at))


cdef int s_rmdir(void *context, const char *path) noexcept nogil:
    cdef Machine *machine = enter(context)
    cdef int parent
    cdef const char *name
    cdef int at = directory_at(machine, path, &parent, &name)
    if at < 0:
        return leave(machine, at)
    if parent < 0:
        return leave(machine, -EINVAL)
    if machine.disk.inodes[at].names.count:
        return leave(machine, -ENOTEMPTY)
    return done(machine, remove_name(machine.disk, parent, name))


cdef int s_listdir(void *context, const char *path, name_sink emit, void *sink) noexcept nogil:
    # `emit` takes the GIL, whose holder may wait for the machine's lock: calling it here would deadlock.
    cdef Machine *machine = enter(context)
    cdef int parent, i, count = 0, status = 0
    cdef const char *name
    cdef char **found
    cdef Entries *names
    cdef int at = directory_at(machine, path, &parent, &name)
    if at < 0:
        return leave(machine, at)
    names = &machine.disk.inodes[at].names
    found = <char **>calloc(<size_t>names.count + 1, sizeof(char *))
    if found == NULL:
        return leave(machine, -ENOMEM)
    for i in range(names.count):
        found[i] = strdup(names.items[i].name)
        if found[i] == NULL:
            status = -ENOMEM
            break
        count += 1
    leave(machine, 0)
    for i in range(count):
        if status == 0:
            status = emit(sink, found[i])
        free(found[i])
    free(found)
    return status


cdef int s_fsync_dir(void *context, const char *path) noexcept nogil:
    cdef Machine *machine = enter(context)
    cdef int parent
    cdef const char *name
    cdef int at = directory_at(machine, path, &parent, &name)
    if at < 0:
        return leave(machine, at)
    return done(machine, settle_names(machine.disk, at, True))


cdef int s_statvfs(void *context, const char *path, SpaceInfo *out) noexcept nogil:
    cdef Machine *machine = enter(context)
    cdef int parent
    cdef const char *name
    cdef int at = find(machine.disk, path, &parent, &name)
    if at < 0:
        return leave(machine, at)
    out.total_bytes = machine.capacity if machine.capacity >= 0 else <int64_t>1 << 40
    out.free_bytes = max(out.total_bytes - disk_used(machine.disk), 0)
    return leave(machine, 0)


cdef int s_writeback(void *context, int fd, int64_t position, int64_t size) noexcept nogil:
    # No effect: it promises nothing, and a power cut may keep any of the bytes anyway.
    cdef Machine *machine = enter(context)
    return leave(machine, -EBADF if inode_of(machine, fd) == NULL else 0)


cdef int s_mmap_ro(void *context, int fd, size_t size, const uint8_t **out) noexcept nogil:
    # A copy: a mapping here never sees later changes, and only whole files are mapped.
    cdef Machine *machine = enter(context)
    cdef Inode *inode = inode_of(machine, fd)
    cdef uint8_t *data
    if inode == NULL:
        return leave(machine, -EBADF)
    if size == 0:
        return leave(machine, -EINVAL)
    data = <uint8_t *>calloc(size, 1)
    if data == NULL:
        return leave(machine, -ENOMEM)
    memcpy(data, inode.now.data, min(size, <size_t>inode.now.size))
    out[0] = data
    return leave(machine, 0)


cdef int s_munmap(void *context, const uint8_t *data, size_t size) noexcept nogil:
    free(<void *>data)
    return 0


cdef int s_lock(void *context, int fd, int *owner_pid) noexcept nogil:
    cdef Machine *machine = enter(context)
    if inode_of(machine, fd) == NULL or not is_writable(machine, fd):
        return leave(machine, -EBADF)
    return leave(machine, 0)


cdef int64_t s_sendfile(void *context, int out_fd, int in_fd, int64_t position, size_t size) noexcept nogil:
    # `out_fd` is a real descriptor: a socket may block, so it must not happen under the lock.
    cdef Machine *machine
    cdef int64_t got, sent
    cdef uint8_t *data
    size = min(size, <size_t>SEND_BYTES)
    data = <uint8_t *>malloc(size + 1)
    if data == NULL:
        return -ENOMEM
    machine = enter(context)
    got = read_at(machine, in_fd, data, <int64_t>size, position)
    leave(machine, 0)
    if got > 0:
        sent = c_write(out_fd, data, <size_t>got)
        got = sent if sent >= 0 else -c_errno
    free(data)
    return got


# --- failed syncs ------------------------------------------------------------------------------

cdef void s_lose(void *context, int fd) noexcept nogil:
    cdef Machine *machine = enter(context)
    if inode_of(machine, fd) != NULL:
        lose_bytes(machine.disk, machine.open[fd].inode)
        done(machine, 0)
    else:
        leave(machine, 0)


cdef void s_lose_names(void *context, const char *path) noexcept nogil:
    cdef Machine *machine = enter(context)
    cdef int parent
    cdef const char *name
    cdef int at = find(machine.disk, path, &parent, &name)
    if at >= 0:
        settle_names(machine.disk, at, False)
        done(machine, 0)
    else:
        leave(machine, 0)


# --- the Python class --------------------------------------------------------------------------

cdef class SimFiles(FaultyFiles):
    """`Files` over a disk in memory; `SimDisk` is what a test uses.

    Owns: the disk, its descriptors, and the moments that were kept.
    Threads: any.
    """

    cdef Machine *_machine
    cdef Chance _chance

    def __cinit__(self, *, descriptor_limit=None):
        self._machine = <Machine *>calloc(1, sizeof(Machine))
        if self._machine == NULL:
            raise MemoryError
        pthread_mutex_init(&self._machine.guard, NULL)
        self._machine.capacity = -1
        self._machine.disk = disk_new()
        if self._machine.disk == NULL:
            raise MemoryError
        # Identifies the disk, for locks and others; a disk that referred to itself would never be freed.
        self.namespace = object()
        self._faults.inner = FileOps(
            context=<void *>self._machine, open=s_open, close=s_close, fstat=s_fstat, pwrite=s_pwrite,
            pwritev=s_pwritev, preadv=s_preadv, fdatasync=s_fdatasync, ftruncate=s_ftruncate,
            fallocate=s_fallocate, rename=s_rename, unlink=s_unlink, link=s_link, mkdir=s_mkdir, rmdir=s_rmdir,
            listdir=s_listdir, fsync_dir=s_fsync_dir, statvfs=s_statvfs, writeback=s_writeback, mmap_ro=s_mmap_ro,
            munmap=s_munmap, lock=s_lock, sendfile=s_sendfile)
        self._faults.lose = s_lose
        self._faults.lose_names = s_lose_names

    def __dealloc__(self):
        if self._machine == NULL:
            return
        self._forget_moments()
        free(self._machine.moments)
        free(self._machine.open)
        disk_free(self._machine.disk)
        pthread_mutex_destroy(&self._machine.guard)
        free(self._machine)

    cdef int _take(self, Disk *disk) except -1:
        """Replace the disk by this one."""
        if disk == NULL:
            raise MemoryError("no room for another disk")
        disk_free(self._machine.disk)
        self._machine.disk = disk
        return 0

    def reseed(self, seed):
        self._chance.state = <uint64_t>(seed & 0xFFFF_FFFF_FFFF_FFFF)

    def begin_as_copy_of(self, SimFiles other not None, int64_t moment=-1):
        """Replace this disk by a copy of another, as it is or as it was at a kept moment."""
        cdef Disk *disk
        if moment >= other._machine.moment_count:
            raise IndexError(f"moment {moment} of {other._machine.moment_count}")
        pthread_mutex_lock(&other._machine.guard)
        disk = disk_copy(other._machine.disk if moment < 0 else other._machine.moments[moment])
        pthread_mutex_unlock(&other._machine.guard)
        self._take(disk)

    def begin_after_crash_of(self, SimFiles other not None, str policy not None, seed, int64_t keep,
                             int64_t page_bytes):
        """Replace this disk by another after a power cut."""
        cdef Disk *disk
        cdef Chance chance
        cdef int number
        if policy not in POLICIES:
            raise ValueError(f"policy= is one of {', '.join(POLICIES)}, found {policy!r}")
        if page_bytes < 1:
            raise ValueError(f"page_bytes: expected at least 1, found {page_bytes}")
        # Without a seed each draw continues the sequence of the last one.
        chance.state = draw(&other._chance) if seed is None else <uint64_t>(seed & 0xFFFF_FFFF_FFFF_FFFF)
        number = POLICIES.index(policy)
        pthread_mutex_lock(&other._machine.guard)
        disk = disk_crash(other._machine.disk, number, keep, page_bytes, &chance)
        pthread_mutex_unlock(&other._machine.guard)
        self._take(disk)

    def keep_moments(self):
        """Keep a copy of the disk after each operation from now on; forget those kept before."""
        pthread_mutex_lock(&self._machine.guard)
        self._forget_moments()
        self._machine.is_keeping = True
        pthread_mutex_unlock(&self._machine.guard)

    cdef void _forget_moments(self) noexcept:
        cdef int64_t i
        for i in range(self._machine.moment_count):
            disk_free(self._machine.moments[i])
        self._machine.moment_count = 0

    @property
    def moment_count(self):
        """The number of kept moments."""
        return self._machine.moment_count

    @property
    def operations(self):
        """The number of operations that changed something, or made a change durable."""
        return self._machine.operations

    @property
    def pending(self):
        """The number of changes of bytes and names that are not synced."""
        return disk_pending(self._machine.disk)

    @property
    def used_bytes(self):
        return disk_used(self._machine.disk)

    @property
    def capacity(self):
        """Bytes that all files together may use; None: no limit."""
        return None if self._machine.capacity < 0 else self._machine.capacity

    @capacity.setter
    def capacity(self, value):
        self._machine.capacity = -1 if value is None else value

    @property
    def rereads(self):
        """Return whether a file that is not open is read from the disk again after a sync of it has failed."""
        return self._machine.rereads

    @rereads.setter
    def rereads(self, bint value):
        self._machine.rereads = value

    def state_hash(self):
        """Return a 64-bit hash of all names and bytes as they are now."""
        return disk_hash(self._machine.disk)

    def drop_caches(self):
        """Drop all clean pages: readers no longer see the bytes lost by a failed sync."""
        cdef int i
        cdef Disk *disk = self._machine.disk
        pthread_mutex_lock(&self._machine.guard)
        for i in range(disk.inode_count):
            if disk.inodes[i] != NULL and disk.inodes[i].is_stale:
                reread(disk, i)
        pthread_mutex_unlock(&self._machine.guard)

    def flip(self, str path not None, int64_t bit):
        """Flip one bit of a file, counted from the first, in the page cache and on the disk.

        Raises:
            IndexError: the file is shorter.
            FileNotFoundError: there is no such file.
        """
        cdef bytes encoded = os.fsencode(path)
        cdef const char *name
        cdef int parent, at = find(self._machine.disk, encoded, &parent, &name)
        cdef int64_t position = bit >> 3
        cdef uint8_t mask = <uint8_t>(1 << (bit & 7))
        cdef Inode *inode
        if at < 0 or self._machine.disk.inodes[at].is_directory:
            raise FileNotFoundError(_errno.ENOENT, "no such file on the simulated disk", path)
        inode = self._machine.disk.inodes[at]
        if bit < 0 or position >= inode.now.size:
            raise IndexError(f"bit {bit} of a file of {inode.now.size} bytes: {path}")
        pthread_mutex_lock(&self._machine.guard)
        inode.now.data[position] ^= mask
        if position < inode.synced.size:
            inode.synced.data[position] ^= mask
        pthread_mutex_unlock(&self._machine.guard)
