# cython: language_level=3
"""State of a simulated disk after a power cut: the synced part, and the changes that a policy keeps.

Assumptions about real disks: a change of names, including a rename, is kept whole or not at all, and the changes
of one directory in their order, as in a journal. Nothing else is assumed: a write may be kept in part, a later one
without an earlier one, and names without the bytes of their files. All in C without the GIL.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free, qsort

from logstore.testing._disk cimport (
    CHANGE_MOVE, CHANGE_RESIZE, CHANGE_WRITE, Bytes, Change, Disk, Inode, apply_bytes, apply_name, bytes_copy,
    bytes_write, copy_inodes, disk_free, disk_pending, entries_copy, inode_free,
)

cdef enum:
    SECTOR = 512


# --- random numbers ----------------------------------------------------------------------------

cdef uint64_t draw(Chance *chance) noexcept nogil:
    """Return the next number of a splitmix64 sequence."""
    cdef uint64_t z
    chance.state += <uint64_t>0x9E3779B97F4A7C15
    z = chance.state
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    return z ^ (z >> 31)


cdef inline int64_t below(Chance *chance, int64_t bound) noexcept nogil:
    return <int64_t>(draw(chance) % <uint64_t>bound) if bound > 0 else 0


# --- the power cut -----------------------------------------------------------------------------

cdef struct Pending:
    int inode               # -1: a change of names
    const Change *change


cdef int by_order(const void *a, const void *b) noexcept nogil:
    cdef int64_t first = (<const Pending *>a).change.order, second = (<const Pending *>b).change.order
    return (first > second) - (first < second)


cdef Pending *list_pending(const Disk *disk, int64_t count) noexcept nogil:
    """Return all changes that are not synced, oldest first."""
    cdef Pending *pending = <Pending *>calloc(<size_t>(count + 1), sizeof(Pending))
    cdef int64_t n, at = 0
    cdef int i
    if pending == NULL:
        return NULL
    for n in range(disk.names.count):
        pending[at].inode = -1
        pending[at].change = &disk.names.items[n]
        at += 1
    for i in range(disk.inode_count):
        if disk.inodes[i] != NULL:
            for n in range(disk.inodes[i].changes.count):
                pending[at].inode = i
                pending[at].change = &disk.inodes[i].changes.items[n]
                at += 1
    qsort(pending, <size_t>count, sizeof(Pending), by_order)
    return pending


cdef int keep_torn(Disk *after, const Pending *torn, Chance *chance) noexcept nogil:
    """Keep a part of one change: a write up to a byte or the end of a sector; names change whole or not at all."""
    cdef int64_t cut
    cdef const Change *change = torn.change
    if torn.inode < 0 or change.kind == CHANGE_RESIZE:
        return 0
    cut = below(chance, change.size)
    if draw(chance) & 1:
        cut = max((change.position + cut) // SECTOR * SECTOR - change.position, 0)
    return bytes_write(&after.inodes[torn.inode].synced, change.data, cut, change.position)


cdef int keep_pages(Disk *after, const Pending *written, int64_t page, Chance *chance) noexcept nogil:
    """Keep each page of a write, or not, at random."""
    cdef const Change *change = written.change
    cdef Bytes *run = &after.inodes[written.inode].synced
    cdef int64_t at = 0, size
    cdef int status = 0
    while at < change.size:
        size = min(page - (change.position + at) % page, change.size - at)
        if draw(chance) & 1:
            status |= bytes_write(run, change.data + at, size, change.position + at)
        at += size
    return status


cdef int leave_zeros(Bytes *run, const Change *change, int64_t synced_size) noexcept nogil:
    """Extend the file by a write whose bytes were lost, with zeros; existing bytes are not changed."""
    cdef int64_t start = max(change.position, synced_size)
    cdef int64_t size = change.position + change.size - start
    return bytes_write(run, NULL, size, start) if size > 0 else 0


cdef bint keeps_name(const Disk *disk, int directory, int64_t order, uint64_t salt) noexcept nogil:
    """Return whether a change is in the kept prefix of its directory's changes."""
    cdef Chance chance
    cdef int64_t last
    chance.state = salt ^ (<uint64_t>directory << 32)
    last = below(&chance, disk.names.count + 1)
    return last == disk.names.count or order < disk.names.items[last].order


cdef bint keeps_names(const Disk *disk, const Change *change, uint64_t salt) noexcept nogil:
    if not keeps_name(disk, change.directory, change.order, salt):
        return False
    return change.kind != CHANGE_MOVE or keeps_name(disk, change.to_directory, change.order, salt)


cdef int keep_some(const Disk *disk, Disk *after, const Pending *pending, int64_t count, int policy,
                   int64_t page, Chance *chance) noexcept nogil:
    """Keep changes by the policies that may drop any part of them."""
    cdef uint64_t odds = 1 + draw(chance) % 3       # of four that are kept
    cdef uint64_t salt = draw(chance)
    cdef int64_t i
    cdef int status = 0
    cdef Bytes *run
    for i in range(count):
        if pending[i].inode < 0:
            if keeps_names(disk, pending[i].change, salt):
                status |= apply_name(after, pending[i].change)
            continue
        run = &after.inodes[pending[i].inode].synced
        if policy == POLICY_ZEROED:
            if pending[i].change.kind == CHANGE_RESIZE or draw(chance) % 4 < odds:
                status |= apply_bytes(run, pending[i].change)
            else:
                status |= leave_zeros(run, pending[i].change, disk.inodes[pending[i].inode].synced.size)
        elif policy == POLICY_REORDERED and pending[i].change.kind == CHANGE_WRITE:
            status |= keep_pages(after, &pending[i], page, chance)
        elif draw(chance) % 4 < odds:
            status |= apply_bytes(run, pending[i].change)
    return status


cdef Disk *disk_crash(const Disk *disk, int policy, int64_t keep, int64_t page, Chance *chance) noexcept nogil:
    """Return the disk after a power cut and a restart: all of it is synced, nothing is open.

    `keep` is the number of changes that a prefix (and a torn one) holds; -1 draws it.
    """
    cdef int64_t i, count = disk_pending(disk)
    cdef int status = 0, k
    cdef Pending *pending
    cdef Inode *inode
    cdef Disk *after
    if page < 1:
        return NULL
    pending = list_pending(disk, count)
    if pending == NULL:
        return NULL
    after = copy_inodes(disk, True)
    if after == NULL:
        free(pending)
        return NULL
    if policy == POLICY_ALL:
        keep = count
    elif policy == POLICY_PREFIX or policy == POLICY_TORN:
        keep = below(chance, count + 1) if keep < 0 else min(keep, count)
    else:
        keep = 0
    for i in range(keep):
        if pending[i].inode < 0:
            status |= apply_name(after, pending[i].change)
        else:
            status |= apply_bytes(&after.inodes[pending[i].inode].synced, pending[i].change)
    if policy == POLICY_TORN and keep < count:
        status |= keep_torn(after, &pending[keep], chance)
    elif policy == POLICY_LOST or policy == POLICY_ZEROED or policy == POLICY_REORDERED:
        status |= keep_some(disk, after, pending, count, policy, page, chance)
    free(pending)
    for k in range(after.inode_count):
        inode = after.inodes[k]
        if inode != NULL:
            status |= bytes_copy(&inode.now, &inode.synced)
            status |= entries_copy(&inode.names, &inode.synced_names)
    if status < 0:
        disk_free(after)
        return NULL
    count_links(after)
    return after


cdef void count_links(Disk *disk) noexcept nogil:
    """Count links after a power cut: inodes unreachable from the root are removed."""
    cdef int i
    reach(disk, 0)
    disk.orphans = 0
    for i in range(disk.inode_count):
        if disk.inodes[i] != NULL and disk.inodes[i].links == 0:
            inode_free(disk.inodes[i])
            disk.inodes[i] = NULL


cdef void reach(Disk *disk, int number) noexcept nogil:
    cdef Inode *inode = disk.inodes[number]
    cdef int i
    inode.links += 1
    if inode.links == 1:
        for i in range(inode.names.count):
            reach(disk, inode.names.items[i].inode)
