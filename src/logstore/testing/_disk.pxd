# cython: language_level=3
"""Bytes and names of a simulated disk; see `_disk.pyx`."""

from libc.stdint cimport int64_t, uint64_t


cdef class Chance:
    cdef uint64_t _state
    cdef uint64_t _draw(self) noexcept
    cdef int64_t below(self, int64_t bound) noexcept


cdef class Inode:
    cdef int64_t number
    cdef bint is_directory
    cdef int64_t links          # number of its names now
    cdef int64_t opens          # descriptors
    cdef int64_t reserved       # bytes reserved by fallocate
    cdef int64_t modified       # order of the last change
    cdef bint is_stale          # a sync has failed: `now` holds bytes that the disk does not have
    cdef bytearray now
    cdef bytearray synced
    cdef list changes           # of its bytes, since the last sync
    cdef dict names             # of a directory: name -> number of an inode
    cdef dict synced_names
    cdef Inode copied(self, bint synced_only)
    cdef int reread(self) except -1


cdef class PathLookup:
    cdef Inode inode            # None: the path does not exist
    cdef int64_t status         # 0, or the negative errno if it does not exist
    cdef Inode directory        # None: the directory is missing too, or the path is the root
    cdef bytes name


cdef class Disk:
    cdef dict inodes            # by number; 0 is the root
    cdef int64_t made           # number of the next inode
    cdef list names             # changes of names that are not synced, of all directories
    cdef int64_t order          # of the last change
    cdef int64_t boots          # power cuts before
    cdef PathLookup find(self, bytes path)
    cdef Inode make_inode(self, bint is_directory)
    cdef int set_name(self, PathLookup entry, Inode inode) except -1
    cdef int remove_name(self, PathLookup entry) except -1
    cdef int move_name(self, PathLookup entry, PathLookup to) except -1
    cdef int settle_names(self, Inode directory, bint kept) except -1
    cdef int write(self, Inode inode, bytes data, int64_t position) except -1
    cdef int resize(self, Inode inode, int64_t size) except -1
    cdef int sync(self, Inode inode) except -1
    cdef int sweep(self) except -1
    cdef list pending(self)
    cdef int64_t used(self) except -1
    cdef bytes digest(self, Inode inode)
    cpdef Disk copied(self)
    cpdef Disk after_cut(self, str policy, int64_t keep, int64_t page_bytes, Chance chance)


cdef Disk new_disk()
