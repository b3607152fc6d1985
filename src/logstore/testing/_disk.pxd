# cython: language_level=3
"""Bytes and names of a simulated disk in C; see `_disk.pyx`."""

from libc.errno cimport ENOMEM
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memset

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
    int64_t room

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
    int64_t inode_room
    int orphans         # inodes without a name
    Changes names       # changes of names that are not synced, of all directories
    int64_t order

cdef enum:              # the unsynced changes that a power cut keeps
    POLICY_NONE
    POLICY_ALL
    POLICY_PREFIX
    POLICY_TORN
    POLICY_LOST
    POLICY_ZEROED
    POLICY_REORDERED
    POLICY_COUNT

cdef struct Chance:
    uint64_t state


cdef inline int grow(void **items, int64_t *room, int64_t index, size_t item_bytes) noexcept nogil:
    """Make room in a list for an item at an index, and set what is added to zero; return 0 or -ENOMEM."""
    cdef int64_t more = 2 * index + 16
    cdef uint8_t *grown
    if index < room[0]:
        return 0
    grown = <uint8_t *>realloc(items[0], <size_t>more * item_bytes)
    if grown == NULL:
        return -ENOMEM
    memset(grown + <size_t>room[0] * item_bytes, 0, <size_t>(more - room[0]) * item_bytes)
    items[0] = grown
    room[0] = more
    return 0


cdef Disk *disk_new() noexcept nogil
cdef void disk_free(Disk *disk) noexcept nogil
cdef Disk *disk_copy(const Disk *disk) noexcept nogil
cdef Disk *disk_crash(const Disk *disk, int policy, int64_t keep, int64_t page, Chance *chance) noexcept nogil
cdef uint64_t draw(Chance *chance) noexcept nogil
cdef uint64_t disk_hash(const Disk *disk) noexcept nogil
cdef int64_t disk_pending(const Disk *disk) noexcept nogil
cdef int64_t disk_used(const Disk *disk) noexcept nogil
cdef int find(const Disk *disk, const char *path, int *parent, const char **name) noexcept nogil

cdef int make_inode(Disk *disk, bint is_directory) noexcept nogil
cdef int set_name(Disk *disk, int directory, const char *name, int inode) noexcept nogil
cdef int remove_name(Disk *disk, int directory, const char *name) noexcept nogil
cdef int move_name(Disk *disk, int directory, const char *name, int to, const char *to_name) noexcept nogil
cdef int settle_names(Disk *disk, int directory, bint kept) noexcept nogil
cdef int write_bytes(Disk *disk, int inode, const void *data, int64_t size, int64_t position) noexcept nogil
cdef int resize(Disk *disk, int inode, int64_t size) noexcept nogil
cdef int sync_bytes(Disk *disk, int inode) noexcept nogil
cdef void lose_bytes(Disk *disk, int inode) noexcept nogil
cdef int reread(Disk *disk, int inode) noexcept nogil
cdef void sweep(Disk *disk) noexcept nogil
