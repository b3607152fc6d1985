# cython: language_level=3
"""Operating system behind the table of file operations: libc and its system calls.

Each call returns 0, a count or a descriptor, or the negative errno; those that a signal may
interrupt without effect are retried here.
"""

import os

from libc.errno cimport EINTR, ENOMEM, errno as c_errno
from libc.stdint cimport int64_t, uint8_t
from libc.stdio cimport rename
from posix.fcntl cimport O_CLOEXEC, open as c_open
from posix.mman cimport MAP_FAILED, MAP_SHARED, PROT_READ, mmap, munmap
from posix.stat cimport fstat, mkdir, struct_stat
from posix.unistd cimport close, fdatasync, ftruncate, link, pread, pwrite, rmdir, unlink

from logstore.io._file_ops cimport (
    OP_CACHED, OP_CLOSE, OP_FALLOCATE, OP_FDATASYNC, OP_FSTAT, OP_FSYNC_DIR, OP_FTRUNCATE, OP_LINK, OP_LISTDIR,
    OP_LOCK, OP_MKDIR, OP_MMAP_RO, OP_MUNMAP, OP_OPEN, OP_PREADV, OP_PWRITE, OP_RENAME, OP_RMDIR, OP_STATVFS,
    OP_UNLINK, OP_WRITEBACK, Call, FileInfo, SpaceInfo,
)

cdef extern from *:
    """
    #include <errno.h>
    #include <fcntl.h>
    #include <stdint.h>
    #include <string.h>
    #include <sys/sendfile.h>
    #include <sys/stat.h>
    #include <sys/statvfs.h>
    #include <sys/uio.h>
    #include <unistd.h>

    static int logstore_libc_fsync_dir(const char *path) {
        int status, failure, fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0) return -1;
        status = fsync(fd);
        failure = errno;
        close(fd);
        errno = failure;
        return status;
    }
    /* Nanoseconds from 1970 to the file's creation; 0 if kernel or file system do not tell. */
    static int64_t logstore_libc_birth(int fd) {
    #ifdef STATX_BTIME
        struct statx found;
        if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &found) == 0 && (found.stx_mask & STATX_BTIME))
            return (int64_t)found.stx_btime.tv_sec * 1000000000 + found.stx_btime.tv_nsec;
    #endif
        return 0;
    }
    /* Java's FileLock is an fcntl lock of the whole file, so Kafka and we exclude each other. */
    static int logstore_libc_lock(int fd, int *owner_pid) {
        struct flock lock;
        int failure;
        memset(&lock, 0, sizeof lock);
        lock.l_type = F_WRLCK;
        lock.l_whence = SEEK_SET;
        if (fcntl(fd, F_SETLK, &lock) == 0) return 0;
        failure = errno;
        if (fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK) *owner_pid = (int)lock.l_pid;
        errno = failure;
        return -1;
    }
    /* 0 if a byte can be read without waiting for the disk, or if the kernel cannot tell; -1 with EAGAIN if not. */
    static int logstore_libc_at_hand(int fd, int64_t position) {
    #ifdef RWF_NOWAIT
        char byte;
        struct iovec part = {&byte, 1};
        if (preadv2(fd, &part, 1, (off_t)position, RWF_NOWAIT) < 0 && errno == EAGAIN) return -1;
    #else
        (void)fd, (void)position;
    #endif
        return 0;
    }
    /* The same of a range, by bytes inside it, at most APART from each other: the kernel reads and drops more than
       one page at a time. Not by bytes near its ends: the look-up of the range has read headers there. */
    static int logstore_libc_cached(int fd, int64_t position, int64_t size) {
        enum { APART = 1 << 19 };
        int64_t parts = (size + APART - 1) / APART;
        for (int64_t part = 0; part < parts; part++)
            if (logstore_libc_at_hand(fd, position + (4 * part + 3) * size / (4 * parts)) < 0) return -1;
        return 0;
    }
    """
    struct struct_statvfs "statvfs":
        int64_t f_blocks
        int64_t f_frsize
        int64_t f_bavail
    int statvfs(const char *path, struct_statvfs *out) nogil
    int fallocate(int fd, int mode, int64_t position, int64_t size) nogil
    int sync_file_range(int fd, int64_t position, int64_t size, unsigned int flags) nogil
    const unsigned int SYNC_FILE_RANGE_WRITE
    int64_t sendfile(int out_fd, int in_fd, int64_t *position, size_t size) nogil
    int logstore_libc_fsync_dir(const char *path) nogil
    int logstore_libc_lock(int fd, int *owner_pid) nogil
    int64_t logstore_libc_birth(int fd) nogil
    int logstore_libc_cached(int fd, int64_t position, int64_t size) nogil

cdef extern from "Python.h":
    object PyUnicode_DecodeFSDefault(const char *text)


cdef int list_names(const char *path, void *names) noexcept nogil:
    cdef int failure = 0
    with gil:
        try:
            # Only builtin functions: an interrupt that Python code raised in here would be lost.
            (<list>names).extend(os.listdir(PyUnicode_DecodeFSDefault(path)))
        except OSError as error:
            failure = error.errno
        except MemoryError:
            failure = ENOMEM
    (&c_errno)[0] = failure
    return -1 if failure else 0


cdef int stat_file(int fd, FileInfo *out, bint with_birth) noexcept nogil:
    cdef struct_stat found
    if fstat(fd, &found) != 0:
        return -1
    out.size = found.st_size
    out.allocated_bytes = <int64_t>found.st_blocks * 512
    out.modified_ns = <int64_t>found.st_mtim.tv_sec * 1_000_000_000 + found.st_mtim.tv_nsec
    out.device = found.st_dev
    out.inode = found.st_ino
    out.mode = found.st_mode
    out.born_ns = logstore_libc_birth(fd) if with_birth else 0
    return 0


cdef int stat_space(const char *path, SpaceInfo *out) noexcept nogil:
    cdef struct_statvfs found
    if statvfs(path, &found) != 0:
        return -1
    out.total_bytes = found.f_blocks * found.f_frsize
    out.free_bytes = found.f_bavail * found.f_frsize
    return 0


cdef int map_file(int fd, size_t size, const uint8_t **out) noexcept nogil:
    cdef void *data = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0)
    if data == MAP_FAILED:
        return -1
    out[0] = <const uint8_t *>data
    return 0


cdef int64_t system_call(const Call *call) noexcept nogil:
    """Make a call; return -1, with errno set, if it failed."""
    cdef int op = call.op, fd = call.fd
    cdef size_t size = <size_t>call.size
    cdef int64_t position = call.position
    if op == OP_PREADV:
        return pread(fd, call.data, size, position)
    elif op == OP_PWRITE:
        return pwrite(fd, call.data, size, position)
    elif op == OP_FDATASYNC:
        return fdatasync(fd)
    elif op == OP_OPEN:
        return c_open(call.path, call.flags | O_CLOEXEC, 0o666)
    elif op == OP_CLOSE:
        return close(fd)
    elif op == OP_FSTAT:
        return stat_file(fd, <FileInfo *>call.data, call.size != 0)
    elif op == OP_FTRUNCATE:
        return ftruncate(fd, call.size)
    elif op == OP_FALLOCATE:
        return fallocate(fd, call.flags, position, call.size)
    elif op == OP_RENAME:
        return rename(call.path, call.new_path)
    elif op == OP_UNLINK:
        return unlink(call.path)
    elif op == OP_LINK:
        return link(call.path, call.new_path)
    elif op == OP_MKDIR:
        return mkdir(call.path, 0o777)
    elif op == OP_RMDIR:
        return rmdir(call.path)
    elif op == OP_LISTDIR:
        return list_names(call.path, call.data)
    elif op == OP_FSYNC_DIR:
        return logstore_libc_fsync_dir(call.path)
    elif op == OP_STATVFS:
        return stat_space(call.path, <SpaceInfo *>call.data)
    elif op == OP_WRITEBACK:
        return sync_file_range(fd, position, call.size, SYNC_FILE_RANGE_WRITE)
    elif op == OP_MMAP_RO:
        return map_file(fd, size, <const uint8_t **>call.data)
    elif op == OP_MUNMAP:
        return munmap(call.data, size)
    elif op == OP_LOCK:
        return logstore_libc_lock(fd, <int *>call.data)
    elif op == OP_CACHED:
        return logstore_libc_cached(fd, position, call.size)
    else:  # OP_SENDFILE
        return sendfile(call.out_fd, fd, &position, size)


cdef int64_t call_libc(void *context, const Call *call) noexcept nogil:
    cdef int64_t status
    while True:
        status = system_call(call)
        if status >= 0:
            return status
        if c_errno != EINTR:
            return -c_errno
        if call.op == OP_CLOSE:
            # Linux frees the descriptor even then; closing again could hit another thread's file.
            return 0
        if call.op != OP_OPEN and call.op != OP_FTRUNCATE and call.op != OP_FALLOCATE:
            return -EINTR
