# cython: language_level=3
"""Disk in memory: its bytes and names, each as (synced, changes since), and what a power cut leaves of them.

A running system sees `now`: the synced bytes with every change applied. A sync of a file covers its bytes and its
size, not its name; a sync of a directory covers its names. A power cut keeps the synced state and a part of the
changes, chosen by a policy. A failed sync drops the file's changes: they stay in `now`, and no later sync writes
them, as in kernels.

Assumptions about real disks: a change of names, including a rename, is kept whole or not at all. The changes of
one directory are kept in their order, as in a journal. Nothing else is assumed. A write may be kept in part, a
later one without an earlier one, and names without the bytes of their files.

All in C without the GIL, and without a lock: the caller has one. A status is 0, an inode's number, or a
negative errno. Invariant: `links` counts the names of an inode in all `names`; `order` only rises.
"""

from libc.errno cimport ENOENT, ENOMEM, ENOTDIR
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcpy, memset, strcmp, strdup, strlen, strncmp

cdef enum:
    SECTOR = 512

# --- runs of bytes and lists -------------------------------------------------------------------

cdef int bytes_resize(Bytes *run, int64_t size) noexcept nogil:
    """Truncate, or extend with zeros."""
    cdef uint8_t *grown
    cdef int64_t room
    if size > run.room:
        room = max(size, run.room * 2, 64)
        grown = <uint8_t *>realloc(run.data, <size_t>room)
        if grown == NULL:
            return -ENOMEM
        run.data = grown
        run.room = room
    if size > run.size:
        memset(run.data + run.size, 0, <size_t>(size - run.size))
    run.size = size
    return 0


cdef int bytes_write(Bytes *run, const uint8_t *data, int64_t size, int64_t position) noexcept nogil:
    if position + size > run.size and bytes_resize(run, position + size) < 0:
        return -ENOMEM
    if data == NULL:
        memset(run.data + position, 0, <size_t>size)
    elif size > 0:
        memcpy(run.data + position, data, <size_t>size)
    return 0


cdef int bytes_copy(Bytes *to, const Bytes *run) noexcept nogil:
    to.size = 0
    if bytes_resize(to, run.size) < 0:
        return -ENOMEM
    if run.size:
        memcpy(to.data, run.data, <size_t>run.size)
    return 0


cdef void change_clear(Change *change) noexcept nogil:
    free(change.data)
    free(change.name)
    free(change.to_name)


cdef Change *changes_add(Changes *changes) noexcept nogil:
    """Append an empty change and return it, or NULL."""
    if grow(<void **>&changes.items, &changes.room, changes.count, sizeof(Change)) < 0:
        return NULL
    memset(&changes.items[changes.count], 0, sizeof(Change))
    changes.count += 1
    return &changes.items[changes.count - 1]


cdef void changes_clear(Changes *changes) noexcept nogil:
    cdef int64_t i
    for i in range(changes.count):
        change_clear(&changes.items[i])
    changes.count = 0


cdef int changes_copy(Changes *to, const Changes *changes) noexcept nogil:
    cdef int64_t i
    cdef Change *change
    cdef const Change *source
    for i in range(changes.count):
        source = &changes.items[i]
        change = changes_add(to)
        if change == NULL:
            return -ENOMEM
        change[0] = source[0]
        change.name = strdup(source.name) if source.name != NULL else NULL
        change.to_name = strdup(source.to_name) if source.to_name != NULL else NULL
        if source.data != NULL:
            change.data = <uint8_t *>malloc(<size_t>source.size)
            if change.data == NULL:
                return -ENOMEM
            memcpy(change.data, source.data, <size_t>source.size)
    return 0


cdef int entry_at(const Entries *names, const char *name) noexcept nogil:
    """Return the index of a name in a directory, or -1."""
    cdef int i
    for i in range(names.count):
        if strcmp(names.items[i].name, name) == 0:
            return i
    return -1


cdef int entries_set(Entries *names, const char *name, int inode) noexcept nogil:
    cdef int at = entry_at(names, name)
    if at >= 0:
        names.items[at].inode = inode
        return 0
    if grow(<void **>&names.items, &names.room, names.count, sizeof(Entry)) < 0:
        return -ENOMEM
    names.items[names.count].name = strdup(name)
    names.items[names.count].inode = inode
    if names.items[names.count].name == NULL:
        return -ENOMEM
    names.count += 1
    return 0


cdef void entries_remove(Entries *names, const char *name) noexcept nogil:
    cdef int at = entry_at(names, name)
    if at >= 0:
        free(names.items[at].name)
        names.count -= 1
        names.items[at] = names.items[names.count]


cdef void entries_clear(Entries *names) noexcept nogil:
    cdef int i
    for i in range(names.count):
        free(names.items[i].name)
    names.count = 0


cdef int entries_copy(Entries *to, const Entries *names) noexcept nogil:
    cdef int i
    entries_clear(to)
    for i in range(names.count):
        if entries_set(to, names.items[i].name, names.items[i].inode) < 0:
            return -ENOMEM
    return 0


# --- whole disks -------------------------------------------------------------------------------

cdef Disk *disk_new() noexcept nogil:
    cdef Disk *disk = <Disk *>calloc(1, sizeof(Disk))
    if disk != NULL:
        if make_inode(disk, True) < 0:
            free(disk)
            return NULL
        disk.inodes[0].links = 1
        disk.orphans = 0
    return disk


cdef void inode_free(Inode *inode) noexcept nogil:
    if inode == NULL:
        return
    free(inode.now.data)
    free(inode.synced.data)
    changes_clear(&inode.changes)
    free(inode.changes.items)
    entries_clear(&inode.names)
    free(inode.names.items)
    entries_clear(&inode.synced_names)
    free(inode.synced_names.items)
    free(inode)


cdef void disk_free(Disk *disk) noexcept nogil:
    cdef int i
    if disk == NULL:
        return
    for i in range(disk.inode_count):
        inode_free(disk.inodes[i])
    free(disk.inodes)
    changes_clear(&disk.names)
    free(disk.names.items)
    free(disk)


cdef Inode *inode_copy(const Inode *inode, bint synced_only) noexcept nogil:
    cdef Inode *copied = <Inode *>calloc(1, sizeof(Inode))
    cdef int status
    if copied == NULL:
        return NULL
    copied.is_directory = inode.is_directory
    copied.modified = inode.modified
    status = bytes_copy(&copied.synced, &inode.synced)
    status |= entries_copy(&copied.synced_names, &inode.synced_names)
    if not synced_only:
        copied.links = inode.links
        copied.reserved = inode.reserved
        copied.is_stale = inode.is_stale
        status |= bytes_copy(&copied.now, &inode.now)
        status |= entries_copy(&copied.names, &inode.names)
        status |= changes_copy(&copied.changes, &inode.changes)
    if status < 0:
        inode_free(copied)
        return NULL
    return copied


cdef Disk *copy_inodes(const Disk *disk, bint synced_only) noexcept nogil:
    cdef Disk *copied = <Disk *>calloc(1, sizeof(Disk))
    cdef int i
    if copied == NULL:
        return NULL
    copied.order = disk.order
    copied.orphans = disk.orphans
    copied.inodes = <Inode **>calloc(<size_t>disk.inode_count, sizeof(Inode *))
    if copied.inodes == NULL:
        free(copied)
        return NULL
    copied.inode_count = copied.inode_room = disk.inode_count
    for i in range(disk.inode_count):
        if disk.inodes[i] != NULL:
            copied.inodes[i] = inode_copy(disk.inodes[i], synced_only)
            if copied.inodes[i] == NULL:
                disk_free(copied)
                return NULL
    return copied


cdef Disk *disk_copy(const Disk *disk) noexcept nogil:
    """Copy the disk without its descriptors, as after a process is killed."""
    cdef Disk *copied = copy_inodes(disk, False)
    if copied != NULL:
        if changes_copy(&copied.names, &disk.names) < 0:
            disk_free(copied)
            return NULL
        sweep(copied)
    return copied


cdef uint64_t mix(uint64_t hashed, const uint8_t *data, int64_t size) noexcept nogil:
    cdef int64_t i
    for i in range(size):
        hashed = (hashed ^ data[i]) * <uint64_t>0x100000001B3
    hashed ^= <uint64_t>size
    hashed = (hashed ^ (hashed >> 33)) * <uint64_t>0xFF51AFD7ED558CCD
    return hashed ^ (hashed >> 33)


cdef uint64_t hash_directory(const Disk *disk, const Inode *inode) noexcept nogil:
    # Anything but a sum would depend on the order of names in a directory.
    cdef uint64_t hashed = 0x9E37, one
    cdef int i
    cdef const Inode *child
    for i in range(inode.names.count):
        child = disk.inodes[inode.names.items[i].inode]
        one = mix(<uint64_t>0xCBF29CE484222325, <const uint8_t *>inode.names.items[i].name,
                  <int64_t>strlen(inode.names.items[i].name))
        if child.is_directory:
            one ^= hash_directory(disk, child)
        else:
            one = mix(one, child.now.data, child.now.size)
        hashed += one * <uint64_t>0x9FB21C651E98DF25 ^ (one >> 29)
    return mix(hashed, NULL, 0)


cdef uint64_t disk_hash(const Disk *disk) noexcept nogil:
    """Hash all names and bytes as they are now."""
    return hash_directory(disk, disk.inodes[0])


cdef int64_t disk_pending(const Disk *disk) noexcept nogil:
    """Return the number of changes that are not synced."""
    cdef int64_t count = disk.names.count
    cdef int i
    for i in range(disk.inode_count):
        if disk.inodes[i] != NULL:
            count += disk.inodes[i].changes.count
    return count


cdef int64_t disk_used(const Disk *disk) noexcept nogil:
    """Return the bytes that files use, including reserved ones, and files that are open without a name."""
    cdef int64_t used = 0
    cdef int i
    cdef Inode *inode
    for i in range(disk.inode_count):
        inode = disk.inodes[i]
        if inode != NULL and (inode.links or inode.opens):
            used += max(inode.now.size, inode.reserved)
    return used


# --- names -------------------------------------------------------------------------------------

cdef int find(const Disk *disk, const char *path, int *parent, const char **name) noexcept nogil:
    """Return the inode of a path. `name` is its last part, to the end of the path, `parent` its directory.

    Returns -ENOENT with a parent of -1 if a directory of the path is missing.
    """
    cdef int at = 0, i
    cdef size_t length
    cdef const char *end
    cdef const Entries *names
    parent[0] = -1
    while True:
        while path[0] == 47:
            path += 1
        if path[0] == 0:
            return at
        if not disk.inodes[at].is_directory:
            parent[0] = -1
            return -ENOTDIR
        end = path
        while end[0] != 0 and end[0] != 47:
            end += 1
        length = <size_t>(end - path)
        parent[0] = at
        name[0] = path
        names = &disk.inodes[at].names
        at = -1
        for i in range(names.count):
            if strncmp(names.items[i].name, path, length) == 0 and names.items[i].name[length] == 0:
                at = names.items[i].inode
                break
        if at < 0:
            if end[0] != 0:
                parent[0] = -1
            return -ENOENT
        path = end


cdef int make_inode(Disk *disk, bint is_directory) noexcept nogil:
    """Make an inode without a name."""
    if grow(<void **>&disk.inodes, &disk.inode_room, disk.inode_count, sizeof(Inode *)) < 0:
        return -ENOMEM
    disk.inodes[disk.inode_count] = <Inode *>calloc(1, sizeof(Inode))
    if disk.inodes[disk.inode_count] == NULL:
        return -ENOMEM
    disk.inodes[disk.inode_count].is_directory = is_directory
    disk.inode_count += 1
    disk.orphans += 1
    return disk.inode_count - 1


cdef void unlink_inode(Disk *disk, int inode) noexcept nogil:
    disk.inodes[inode].links -= 1
    if disk.inodes[inode].links == 0:
        disk.orphans += 1


cdef void link_inode(Disk *disk, int inode) noexcept nogil:
    if disk.inodes[inode].links == 0:
        disk.orphans -= 1
    disk.inodes[inode].links += 1


cdef Change *note_name(Disk *disk, int kind, int directory, const char *name, int inode) noexcept nogil:
    cdef Change *change = changes_add(&disk.names)
    if change == NULL:
        return NULL
    disk.order += 1
    change.kind = kind
    change.order = disk.order
    change.directory = directory
    change.inode = inode
    change.name = strdup(name)
    disk.inodes[directory].modified = disk.order
    return change


cdef int set_name(Disk *disk, int directory, const char *name, int inode) noexcept nogil:
    """Give an inode an unused name."""
    if note_name(disk, CHANGE_SET, directory, name, inode) == NULL:
        return -ENOMEM
    link_inode(disk, inode)
    return entries_set(&disk.inodes[directory].names, name, inode)


cdef int remove_name(Disk *disk, int directory, const char *name) noexcept nogil:
    cdef Entries *names = &disk.inodes[directory].names
    cdef int at = entry_at(names, name)
    if at < 0:
        return -ENOENT
    unlink_inode(disk, names.items[at].inode)
    if note_name(disk, CHANGE_REMOVE, directory, name, names.items[at].inode) == NULL:
        return -ENOMEM
    entries_remove(names, name)
    return 0


cdef int move_name(Disk *disk, int directory, const char *name, int to, const char *to_name) noexcept nogil:
    """Rename, replacing an existing name: one change, so that a power cut keeps all of it or nothing."""
    cdef Entries *names = &disk.inodes[directory].names
    cdef Entries *targets = &disk.inodes[to].names
    cdef int inode, at = entry_at(names, name)
    cdef Change *change
    if at < 0:
        return -ENOENT
    inode = names.items[at].inode
    change = note_name(disk, CHANGE_MOVE, directory, name, inode)
    if change == NULL:
        return -ENOMEM
    change.to_directory = to
    change.to_name = strdup(to_name)
    at = entry_at(targets, to_name)
    if at >= 0:
        unlink_inode(disk, targets.items[at].inode)
    entries_remove(names, name)
    return entries_set(targets, to_name, inode)


cdef int apply_name(Disk *disk, const Change *change) noexcept nogil:
    """Apply a change of names to the synced names."""
    cdef Entries *names = &disk.inodes[change.directory].synced_names
    if change.kind == CHANGE_SET:
        return entries_set(names, change.name, change.inode)
    entries_remove(names, change.name)
    if change.kind == CHANGE_MOVE:
        return entries_set(&disk.inodes[change.to_directory].synced_names, change.to_name, change.inode)
    return 0


cdef uint8_t *joined(const Disk *disk, int directory) noexcept nogil:
    """Mark, by number, the directory and those connected to it by moves between directories."""
    cdef uint8_t *marked = <uint8_t *>calloc(<size_t>disk.inode_count, 1)
    cdef const Change *change
    cdef bint grows = True
    cdef int64_t i
    if marked == NULL:
        return NULL
    marked[directory] = 1
    while grows:
        grows = False
        for i in range(disk.names.count):
            change = &disk.names.items[i]
            if change.kind == CHANGE_MOVE and marked[change.directory] != marked[change.to_directory]:
                marked[change.directory] = marked[change.to_directory] = 1
                grows = True
    return marked


cdef int settle_names(Disk *disk, int directory, bint kept) noexcept nogil:
    """Sync a directory; after a failed sync (not kept) its changes stay visible, and never reach the disk."""
    cdef uint8_t *marked = joined(disk, directory)
    cdef int64_t i, left = 0
    cdef int status = 0
    if marked == NULL:
        return -ENOMEM
    for i in range(disk.names.count):
        if marked[disk.names.items[i].directory]:
            if kept:
                status |= apply_name(disk, &disk.names.items[i])
            change_clear(&disk.names.items[i])
        else:
            disk.names.items[left] = disk.names.items[i]
            left += 1
    disk.names.count = left
    free(marked)
    if disk.orphans:
        sweep(disk)
    return status


cdef void sweep(Disk *disk) noexcept nogil:
    """Free the inodes that are unreachable now and after any power cut."""
    cdef int i, k
    cdef int64_t n
    cdef uint8_t *needed = <uint8_t *>calloc(<size_t>disk.inode_count, 1)
    cdef Inode *inode
    if needed == NULL:
        return
    needed[0] = 1
    for i in range(disk.inode_count):
        inode = disk.inodes[i]
        if inode == NULL:
            continue
        if inode.links or inode.opens:
            needed[i] = 1
        for k in range(inode.synced_names.count):
            needed[inode.synced_names.items[k].inode] = 1
    for n in range(disk.names.count):
        needed[disk.names.items[n].inode] = 1
        needed[disk.names.items[n].directory] = 1
        if disk.names.items[n].kind == CHANGE_MOVE:
            needed[disk.names.items[n].to_directory] = 1
    for i in range(disk.inode_count):
        if disk.inodes[i] != NULL and not needed[i]:
            inode_free(disk.inodes[i])
            disk.inodes[i] = NULL
            disk.orphans -= 1
    free(needed)


# --- bytes -------------------------------------------------------------------------------------

cdef Change *note_bytes(Disk *disk, Inode *inode, int kind, int64_t position, int64_t size) noexcept nogil:
    cdef Change *change = changes_add(&inode.changes)
    if change == NULL:
        return NULL
    disk.order += 1
    inode.modified = disk.order
    change.kind = kind
    change.order = disk.order
    change.position = position
    change.size = size
    return change


cdef int write_bytes(Disk *disk, int number, const void *data, int64_t size, int64_t position) noexcept nogil:
    cdef Inode *inode = disk.inodes[number]
    cdef uint8_t *kept = <uint8_t *>malloc(<size_t>size)
    cdef Change *change
    if kept == NULL:
        return -ENOMEM
    change = note_bytes(disk, inode, CHANGE_WRITE, position, size)
    if change == NULL:
        free(kept)
        return -ENOMEM
    memcpy(kept, data, <size_t>size)
    change.data = kept
    return bytes_write(&inode.now, kept, size, position)


cdef int resize(Disk *disk, int number, int64_t size) noexcept nogil:
    cdef Inode *inode = disk.inodes[number]
    if note_bytes(disk, inode, CHANGE_RESIZE, size, 0) == NULL:
        return -ENOMEM
    inode.reserved = min(inode.reserved, size)
    return bytes_resize(&inode.now, size)


cdef int apply_bytes(Bytes *run, const Change *change) noexcept nogil:
    if change.kind == CHANGE_RESIZE:
        return bytes_resize(run, change.position)
    return bytes_write(run, change.data, change.size, change.position)


cdef int sync_bytes(Disk *disk, int number) noexcept nogil:
    """Sync a file's changes to the disk, in order, except those lost by an earlier failed sync."""
    cdef Inode *inode = disk.inodes[number]
    cdef int64_t i
    cdef int status = 0
    for i in range(inode.changes.count):
        status |= apply_bytes(&inode.synced, &inode.changes.items[i])
    changes_clear(&inode.changes)
    return status


cdef void lose_bytes(Disk *disk, int number) noexcept nogil:
    """Simulate a failed sync: the pages are marked clean, and their bytes are not on the disk."""
    cdef Inode *inode = disk.inodes[number]
    if inode.changes.count:
        inode.is_stale = True
    changes_clear(&inode.changes)


cdef int reread(Disk *disk, int number) noexcept nogil:
    """Drop the clean pages of a file, so that they are read from the disk again."""
    cdef Inode *inode = disk.inodes[number]
    cdef int64_t i
    cdef int status = bytes_copy(&inode.now, &inode.synced)
    for i in range(inode.changes.count):
        status |= apply_bytes(&inode.now, &inode.changes.items[i])
    inode.is_stale = False
    return status


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
