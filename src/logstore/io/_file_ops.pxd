# cython: language_level=3
"""Call of the operating system as a C struct, and the table that makes it: `_libc`, or one of a test."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef struct FileInfo:
    int64_t size
    int64_t allocated_bytes
    int64_t modified_ns
    int64_t born_ns             # 0 if the file system does not say
    uint64_t device
    uint64_t inode
    uint32_t mode

cdef struct SpaceInfo:
    int64_t total_bytes
    int64_t free_bytes          # free to this user

cdef enum:    # operations: what a call needs besides fd, size and position, or besides path
    OP_OPEN                     # flags
    OP_CLOSE
    OP_FSTAT                    # data: FileInfo
    OP_PWRITE                   # data: the bytes
    OP_PREADV                   # data: room for the bytes; a pread, counted as preadv
    OP_FDATASYNC
    OP_FTRUNCATE
    OP_FALLOCATE                # flags
    OP_RENAME                   # new_path
    OP_UNLINK
    OP_LINK                     # new_path
    OP_MKDIR
    OP_RMDIR
    OP_LISTDIR                  # data: the Python list that gets the names
    OP_FSYNC_DIR
    OP_STATVFS                  # data: SpaceInfo
    OP_WRITEBACK
    OP_MMAP_RO                  # data: address of the mapping
    OP_MUNMAP                   # data: the mapping; no fd
    OP_LOCK                     # data: int, the pid of the holder
    OP_SENDFILE                 # out_fd
    OP_CACHED                   # 0; -EAGAIN: some of the bytes are not in memory
    OP_COUNT

cdef struct Call:
    int op
    int fd                      # -1: a call on a path
    int flags
    int out_fd                  # the socket of sendfile
    const char *path
    const char *new_path
    void *data
    int64_t size
    int64_t position

cdef struct FileOps:
    void *context
    # Returns 0, a count or a descriptor, or the negative errno.
    int64_t (*make)(void *context, const Call *call) noexcept nogil


cdef inline int64_t on_file(FileOps *ops, int op, int fd, const void *data, int64_t size,
                            int64_t position) noexcept nogil:
    """Make a call on a descriptor."""
    cdef Call call = Call(op, fd, 0, -1, NULL, NULL, <void *>data, size, position)
    return ops.make(ops.context, &call)


cdef inline int64_t on_path(FileOps *ops, int op, const char *path, const char *new_path, void *data,
                            int flags) noexcept nogil:
    """Make a call on a path."""
    cdef Call call = Call(op, -1, flags, -1, path, new_path, data, 0, 0)
    return ops.make(ops.context, &call)
