# cython: language_level=3
"""Operating system behind the table of file operations: libc and its system calls.

Each operation returns 0, a count or a descriptor, or the negative errno; those that a signal may
interrupt without effect are retried here.
"""

from libc.errno cimport EINTR, errno as c_errno
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from logstore.io._file_ops cimport FileInfo, FileOps, SpaceInfo, iovec, name_sink

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <dirent.h>
    #include <errno.h>
    #include <fcntl.h>
    #include <pthread.h>
    #include <stdio.h>
    #include <string.h>
    #include <sys/mman.h>
    #include <sys/sendfile.h>
    #include <sys/stat.h>
    #include <sys/statvfs.h>
    #include <sys/uio.h>
    #include <unistd.h>

    static int logstore_libc_fstat(int fd, int64_t *size, int64_t *allocated, int64_t *modified_ns,
                                   uint64_t *device, uint64_t *inode, uint32_t *mode) {
        struct stat st;
        if (fstat(fd, &st) != 0) return -errno;
        *size = st.st_size;
        *allocated = (int64_t)st.st_blocks * 512;
        *modified_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        *device = st.st_dev;
        *inode = st.st_ino;
        *mode = st.st_mode;
        return 0;
    }
    static int logstore_libc_fsync_dir(const char *path) {
        int status, fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0) return -errno;
        status = fsync(fd) == 0 ? 0 : -errno;
        close(fd);
        return status;
    }
    static int logstore_libc_listdir(const char *path, int (*emit)(void *, const char *), void *sink) {
        struct dirent *entry;
        int status = 0;
        DIR *dir = opendir(path);
        if (dir == NULL) return -errno;
        for (;;) {
            errno = 0;
            entry = readdir(dir);
            if (entry == NULL) { status = -errno; break; }
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
            status = emit(sink, entry->d_name);
            if (status != 0) break;
        }
        closedir(dir);
        return status;
    }
    static int logstore_libc_statvfs(const char *path, int64_t *total, int64_t *available) {
        struct statvfs st;
        if (statvfs(path, &st) != 0) return -errno;
        *total = (int64_t)st.f_blocks * (int64_t)st.f_frsize;
        *available = (int64_t)st.f_bavail * (int64_t)st.f_frsize;
        return 0;
    }
    static int logstore_libc_mmap_ro(int fd, size_t size, const uint8_t **out) {
        void *data = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        if (data == MAP_FAILED) return -errno;
        *out = (const uint8_t *)data;
        return 0;
    }
    /* Java's FileLock is an fcntl lock of the whole file, so Kafka and we exclude each other. */
    static int logstore_libc_lock(int fd, int *owner_pid) {
        struct flock lock;
        memset(&lock, 0, sizeof lock);
        lock.l_type = F_WRLCK;
        lock.l_whence = SEEK_SET;
        if (fcntl(fd, F_SETLK, &lock) == 0) return 0;
        int status = -errno;
        if (fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK) *owner_pid = (int)lock.l_pid;
        return status;
    }
    """
    int c_open "open"(const char *path, int flags, int mode) nogil
    int c_close "close"(int fd) nogil
    int64_t c_pwrite "pwrite"(int fd, const void *data, size_t size, int64_t position) nogil
    int64_t c_pwritev "pwritev"(int fd, const iovec *parts, int count, int64_t position) nogil
    int64_t c_preadv "preadv"(int fd, const iovec *parts, int count, int64_t position) nogil
    int c_fdatasync "fdatasync"(int fd) nogil
    int c_ftruncate "ftruncate"(int fd, int64_t size) nogil
    int c_fallocate "fallocate"(int fd, int mode, int64_t position, int64_t size) nogil
    int c_rename "rename"(const char *old, const char *new) nogil
    int c_unlink "unlink"(const char *path) nogil
    int c_link "link"(const char *old, const char *new) nogil
    int c_mkdir "mkdir"(const char *path, int mode) nogil
    int c_rmdir "rmdir"(const char *path) nogil
    int c_sync_file_range "sync_file_range"(int fd, int64_t position, int64_t size, unsigned int flags) nogil
    const unsigned int C_WRITE "SYNC_FILE_RANGE_WRITE"
    int c_munmap "munmap"(void *data, size_t size) nogil
    int64_t c_sendfile "sendfile"(int out_fd, int in_fd, int64_t *position, size_t size) nogil
    int logstore_libc_fstat(int fd, int64_t *size, int64_t *allocated, int64_t *modified_ns,
                            uint64_t *device, uint64_t *inode, uint32_t *mode) nogil
    int logstore_libc_fsync_dir(const char *path) nogil
    int logstore_libc_listdir(const char *path, name_sink emit, void *sink) nogil
    int logstore_libc_statvfs(const char *path, int64_t *total, int64_t *available) nogil
    int logstore_libc_mmap_ro(int fd, size_t size, const uint8_t **out) nogil
    int logstore_libc_lock(int fd, int *owner_pid) nogil
    enum: O_CLOEXEC


cdef int libc_open(void *context, const char *path, int flags, int mode) noexcept nogil:
    cdef int fd
    while True:
        fd = c_open(path, flags | O_CLOEXEC, mode)
        if fd >= 0:
            return fd
        if c_errno != EINTR:
            return -c_errno

cdef int libc_close(void *context, int fd) noexcept nogil:
    # Linux frees the descriptor even on EINTR; closing again could hit another thread's file.
    return 0 if c_close(fd) == 0 or c_errno == EINTR else -c_errno

cdef int libc_fstat(void *context, int fd, FileInfo *out) noexcept nogil:
    return logstore_libc_fstat(fd, &out.size, &out.allocated_bytes, &out.modified_ns,
                               &out.device, &out.inode, &out.mode)

cdef int64_t libc_pwrite(void *context, int fd, const void *data, size_t size,
                         int64_t position) noexcept nogil:
    cdef int64_t count = c_pwrite(fd, data, size, position)
    return count if count >= 0 else -c_errno

cdef int64_t libc_pwritev(void *context, int fd, const iovec *parts, int count,
                          int64_t position) noexcept nogil:
    cdef int64_t written = c_pwritev(fd, parts, count, position)
    return written if written >= 0 else -c_errno

cdef int64_t libc_preadv(void *context, int fd, const iovec *parts, int count,
                         int64_t position) noexcept nogil:
    cdef int64_t got = c_preadv(fd, parts, count, position)
    return got if got >= 0 else -c_errno

cdef int libc_fdatasync(void *context, int fd) noexcept nogil:
    return 0 if c_fdatasync(fd) == 0 else -c_errno

cdef int libc_ftruncate(void *context, int fd, int64_t size) noexcept nogil:
    while c_ftruncate(fd, size) != 0:
        if c_errno != EINTR:
            return -c_errno
    return 0

cdef int libc_fallocate(void *context, int fd, int mode, int64_t position, int64_t size) noexcept nogil:
    while c_fallocate(fd, mode, position, size) != 0:
        if c_errno != EINTR:
            return -c_errno
    return 0

cdef int libc_rename(void *context, const char *old, const char *new) noexcept nogil:
    return 0 if c_rename(old, new) == 0 else -c_errno

cdef int libc_unlink(void *context, const char *path) noexcept nogil:
    return 0 if c_unlink(path) == 0 else -c_errno

cdef int libc_link(void *context, const char *old, const char *new) noexcept nogil:
    return 0 if c_link(old, new) == 0 else -c_errno

cdef int libc_mkdir(void *context, const char *path, int mode) noexcept nogil:
    return 0 if c_mkdir(path, mode) == 0 else -c_errno

cdef int libc_rmdir(void *context, const char *path) noexcept nogil:
    return 0 if c_rmdir(path) == 0 else -c_errno

cdef int libc_listdir(void *context, const char *path, name_sink emit, void *sink) noexcept nogil:
    return logstore_libc_listdir(path, emit, sink)

cdef int libc_fsync_dir(void *context, const char *path) noexcept nogil:
    return logstore_libc_fsync_dir(path)

cdef int libc_statvfs(void *context, const char *path, SpaceInfo *out) noexcept nogil:
    return logstore_libc_statvfs(path, &out.total_bytes, &out.free_bytes)

cdef int libc_writeback(void *context, int fd, int64_t position, int64_t size) noexcept nogil:
    return 0 if c_sync_file_range(fd, position, size, C_WRITE) == 0 else -c_errno

cdef int libc_mmap_ro(void *context, int fd, size_t size, const uint8_t **out) noexcept nogil:
    return logstore_libc_mmap_ro(fd, size, out)

cdef int libc_munmap(void *context, const uint8_t *data, size_t size) noexcept nogil:
    return 0 if c_munmap(<void *>data, size) == 0 else -c_errno

cdef int libc_lock(void *context, int fd, int *owner_pid) noexcept nogil:
    return logstore_libc_lock(fd, owner_pid)

cdef int64_t libc_sendfile(void *context, int out_fd, int in_fd, int64_t position,
                           size_t size) noexcept nogil:
    cdef int64_t at = position
    cdef int64_t sent = c_sendfile(out_fd, in_fd, &at, size)
    return sent if sent >= 0 else -c_errno


cdef void set_libc(FileOps *ops) noexcept:
    ops.context = NULL
    ops.open = libc_open
    ops.close = libc_close
    ops.fstat = libc_fstat
    ops.pwrite = libc_pwrite
    ops.pwritev = libc_pwritev
    ops.preadv = libc_preadv
    ops.fdatasync = libc_fdatasync
    ops.ftruncate = libc_ftruncate
    ops.fallocate = libc_fallocate
    ops.rename = libc_rename
    ops.unlink = libc_unlink
    ops.link = libc_link
    ops.mkdir = libc_mkdir
    ops.rmdir = libc_rmdir
    ops.listdir = libc_listdir
    ops.fsync_dir = libc_fsync_dir
    ops.statvfs = libc_statvfs
    ops.writeback = libc_writeback
    ops.mmap_ro = libc_mmap_ro
    ops.munmap = libc_munmap
    ops.lock = libc_lock
    ops.sendfile = libc_sendfile
