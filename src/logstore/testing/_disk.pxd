# cython: language_level=3
"""Bytes and names of a simulated disk in C; see `_disk.pyx`."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef enum:
    CHANGE_WRITE
    CHANGE_RESIZE
    CHANGE_SET          # a name is made
    CHANGE_REMOVE
    CHANGE_MOVE

cdef struct Bytes:
    uint8_t *data
    int64_t size
    int64_t room

cdef struct Change:
    int kind
    int64_t order       # place among all changes of the disk
    int64_t position    # of a write; of a resize the new size
    int64_t size
    uint8_t *data
    int directory       # of a name
    char *name
    int inode
    int to_directory    # of a move
    char *to_name

cdef struct Changes:
    Change *items
    int64_t count
    int64_t room

cdef struct Entry:
    char *name
    int inode

cdef struct Entries:
    Entry *items
    int count
    int room

cdef struct Inode:
    bint is_directory
    int links           # number of its names now
    int opens           # descriptors
    int64_t reserved    # bytes reserved by fallocate
    int64_t modified    # order of the last change
    bint is_stale       # holds bytes that the kernel marks clean and the disk does not have
    Bytes now
    Bytes synced
    Changes changes     # of its bytes, since the last sync
    Entries names
    Entries synced_names

cdef struct Disk:
    Inode **inodes      # by number; 0 is the root; freed ones are NULL
    int inode_count
    int inode_room
    int orphans         # inodes without a name
    Changes names       # changes of names that are not synced, of all directories
    int64_t order

cdef Disk *disk_new() noexcept nogil
cdef void disk_free(Disk *disk) noexcept nogil
cdef Disk *disk_copy(const Disk *disk) noexcept nogil
cdef uint64_t disk_hash(const Disk *disk) noexcept nogil
cdef int64_t disk_pending(const Disk *disk) noexcept nogil
cdef int64_t disk_used(const Disk *disk) noexcept nogil
cdef int find(const Disk *disk, const char *path, int *parent, const char **name) noexcept nogil
cdef int entry_at(const Entries *names, const char *name) noexcept nogil

cdef int make_inode(Disk *disk, bint is_directory) noexcept nogil
cdef int set_name(Disk *disk, int directory, const char *name, int inode) noexcept nogil
cdef int remove_name(Disk *disk, int directory, const char *name) noexcept nogil
cdef int move_name(Disk *disk, int directory, const char *name, int to, const char *to_name) noexcept nogil
cdef int sync_names(Disk *disk, int directory) noexcept nogil
cdef int lose_names(Disk *disk, int directory) noexcept nogil
cdef int write_bytes(Disk *disk, int inode, const void *data, int64_t size, int64_t position) noexcept nogil
cdef int resize(Disk *disk, int inode, int64_t size) noexcept nogil
cdef int sync_bytes(Disk *disk, int inode) noexcept nogil
cdef void lose_bytes(Disk *disk, int inode) noexcept nogil
cdef int reread(Disk *disk, int inode) noexcept nogil
cdef void sweep(Disk *disk) noexcept nogil

cdef int bytes_write(Bytes *run, const uint8_t *data, int64_t size, int64_t position) noexcept nogil
cdef int bytes_copy(Bytes *to, const Bytes *run) noexcept nogil
cdef int entries_copy(Entries *to, const Entries *names) noexcept nogil
cdef int apply_name(Disk *disk, const Change *change) noexcept nogil
cdef int apply_bytes(Bytes *run, const Change *change) noexcept nogil
cdef void inode_free(Inode *inode) noexcept nogil
cdef Disk *copy_inodes(const Disk *disk, bint synced_only) noexcept nogil
