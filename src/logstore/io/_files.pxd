# cython: language_level=3
"""Table of file operations, as the compiled core sees it; `_files.pyx` describes it."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from logstore.io._file_ops cimport (
    Call,
    FileInfo,
    FileOps,
    SpaceInfo,
    on_file,
    on_path,
    OP_OPEN,
    OP_CLOSE,
    OP_FSTAT,
    OP_PWRITE,
    OP_PREADV,
    OP_FDATASYNC,
    OP_FTRUNCATE,
    OP_FALLOCATE,
    OP_RENAME,
    OP_UNLINK,
    OP_LINK,
    OP_MKDIR,
    OP_RMDIR,
    OP_LISTDIR,
    OP_FSYNC_DIR,
    OP_STATVFS,
    OP_WRITEBACK,
    OP_MMAP_RO,
    OP_MUNMAP,
    OP_LOCK,
    OP_SENDFILE,
    OP_CACHED,
    OP_COUNT,
)

cdef int write_all(FileOps *ops, int fd, const uint8_t *data, int64_t size, int64_t position) noexcept nogil
cdef int64_t read_upto(FileOps *ops, int fd, uint8_t *data, int64_t size, int64_t position) noexcept nogil
cpdef uint64_t fork_generation() noexcept
cdef int raise_status(int64_t status, str action, str path, object position=*) except -1


cdef struct Pace:                   # of one write
    int64_t began_ns
    int64_t switches                # how often the thread had blocked before it; -1: not counted


cdef class Files:
    cdef FileOps ops
    cdef uint64_t calls[32]             # by Op; counted under the GIL
    cdef readonly Py_ssize_t descriptor_limit
    cdef readonly object namespace      # None: the machine's files; else the owner of the names
    cdef readonly Py_ssize_t open_descriptors
    cdef readonly int64_t held_writes   # that have kept the GIL
    cdef int64_t _watched_until_ns      # a write was slow: those until then are looked at more closely
    cdef int64_t _released_until_ns     # a write has blocked: those until then release the GIL
    cdef readonly set untold            # directories that could not record that a write or sync of theirs failed
    cdef object _cleaner                # called when the least recently used files should be synced; or None
    cdef bint _is_cleaning              # it was called, and `sync_oldest` has not ended
    cdef Py_ssize_t _left_clean         # descriptors that may be closed before it is called again
    cdef File _newest                   # ends of the list of open files, by last use
    cdef File _oldest
    cdef int _path_call(self, int op, str action, str first, str second, void *data) except -1
    cdef int _close_excess(self) except -1
    cdef int _ask_cleaner(self) except -1
    cdef bint _close_one(self) except -1
    cdef bint _gave_one_back(self, int64_t status, int *tries) except -1
    cdef void _unlink_node(self, File file) noexcept
    cdef void _push_node(self, File file)


cdef class File:
    cdef readonly Files files
    cdef readonly str path
    cdef bytes _path
    cdef str _renamed_to                # by another process, perhaps; None: no such name
    cdef int _flags
    cdef int _fd                        # -1 while the cache has closed it
    cdef int _pins
    cdef bint _listed
    cdef bint _closed
    cdef bint _hint
    cdef readonly bint dirty
    cdef int _sync_errno
    cdef int64_t _doubtful_from         # up to `_doubtful_end`, bytes that the next sync writes again
    cdef int64_t _doubtful_end
    cdef int _syncing                   # syncs that are under way
    cdef int64_t _warm_until_ns         # until then, the pages of the last write are still in the page cache
    cdef int64_t _written_from          # of the writes that follow each other, up to `_written_end`
    cdef int64_t _written_end
    cdef object _sync_lock              # one sync at a time
    cdef File _newer
    cdef File _older
    cdef int acquire(self) except -1
    cdef void release(self) noexcept
    cdef bint keeps_gil(self, int64_t size, Pace *pace) noexcept
    cdef void wrote(self, bint has_kept_gil, const Pace *pace, int64_t position, int64_t size) noexcept
    cdef bint has_just_written(self, int64_t position) noexcept
    cdef int put(self, const uint8_t *data, int64_t size, int64_t position) except -1
    cdef int _close_descriptor(self) except -1
    cdef void _drop_descriptor(self) noexcept
    cdef int _sync(self) except -1
    cdef int _write_again(self) except -1
    cdef FileInfo _info(self, bint with_birth=*) except *
    cpdef bint is_at_hand(self) noexcept
    cpdef int64_t size(self) except -1
    cpdef int sync(self) except -1


cdef class Mapping:
    cdef Files _files
    cdef const uint8_t *data
    cdef readonly int64_t size
