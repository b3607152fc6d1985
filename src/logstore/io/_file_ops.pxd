# cython: language_level=3
"""Table of file operations as a C struct, filled by `_libc` or by a test."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "<sys/uio.h>" nogil:
    struct iovec:
        void *iov_base
        size_t iov_len

cdef struct FileInfo:
    int64_t size
    int64_t allocated_bytes
    int64_t modified_ns
    uint64_t device
    uint64_t inode
    uint32_t mode

cdef struct SpaceInfo:
    int64_t total_bytes
    int64_t free_bytes          # free to this user

ctypedef int (*name_sink)(void *sink, const char *name) noexcept nogil

# Every operation returns 0, a count or a descriptor, or the negative errno.
cdef struct FileOps:
    void *context
    int (*open)(void *context, const char *path, int flags, int mode) noexcept nogil
    int (*close)(void *context, int fd) noexcept nogil
    int (*fstat)(void *context, int fd, FileInfo *out) noexcept nogil
    int64_t (*pwrite)(void *context, int fd, const void *data, size_t size, int64_t position) noexcept nogil
    int64_t (*pwritev)(void *context, int fd, const iovec *parts, int count, int64_t position) noexcept nogil
    int64_t (*preadv)(void *context, int fd, const iovec *parts, int count, int64_t position) noexcept nogil
    int (*fdatasync)(void *context, int fd) noexcept nogil
    int (*ftruncate)(void *context, int fd, int64_t size) noexcept nogil
    int (*fallocate)(void *context, int fd, int mode, int64_t position, int64_t size) noexcept nogil
    int (*rename)(void *context, const char *old, const char *new) noexcept nogil
    int (*unlink)(void *context, const char *path) noexcept nogil
    int (*link)(void *context, const char *old, const char *new) noexcept nogil
    int (*mkdir)(void *context, const char *path, int mode) noexcept nogil
    int (*rmdir)(void *context, const char *path) noexcept nogil
    int (*listdir)(void *context, const char *path, name_sink emit, void *sink) noexcept nogil
    int (*fsync_dir)(void *context, const char *path) noexcept nogil
    int (*statvfs)(void *context, const char *path, SpaceInfo *out) noexcept nogil
    int (*writeback)(void *context, int fd, int64_t position, int64_t size) noexcept nogil
    int (*mmap_ro)(void *context, int fd, size_t size, const uint8_t **out) noexcept nogil
    int (*munmap)(void *context, const uint8_t *data, size_t size) noexcept nogil
    int (*lock)(void *context, int fd, int *owner_pid) noexcept nogil
    int64_t (*sendfile)(void *context, int out_fd, int in_fd, int64_t position, size_t size) noexcept nogil

cdef enum:    # indexes in Files.calls
    OP_OPEN, OP_CLOSE, OP_FSTAT, OP_PWRITE, OP_PWRITEV, OP_PREADV, OP_FDATASYNC, OP_FTRUNCATE,
    OP_FALLOCATE, OP_RENAME, OP_UNLINK, OP_LINK, OP_MKDIR, OP_RMDIR, OP_LISTDIR, OP_FSYNC_DIR,
    OP_STATVFS, OP_WRITEBACK, OP_MMAP_RO, OP_MUNMAP, OP_LOCK, OP_SENDFILE, OP_COUNT
