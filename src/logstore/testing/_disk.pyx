# cython: language_level=3
"""Disk in memory: the synced bytes and names, the changes since the sync, and what a power cut keeps of both.

A running system sees `now`: the synced bytes with every change applied. A sync of a file covers its bytes and its
size, not its name; a sync of a directory covers its names. A power cut keeps the synced state and a part of the
changes, chosen by a policy. A failed sync drops the file's changes. As in kernels they stay in `now`, and no later
sync writes them.

Assumptions about real disks: a change of names, including a rename, is kept whole or not at all. The changes of
one directory are kept in their order, as in a journal. Nothing else is assumed: a write may be kept in part, a
later write without an earlier one, and a name without the bytes of its file.

The objects are used under the GIL. They call no Python code of a program, since an interrupt inside a file
operation would be lost. Changes are immutable, and shared by copies of a disk. Invariant: `links` is the number of
an inode's names in the `names` of all directories; `order` only rises.
"""

from hashlib import blake2b
from operator import attrgetter

cimport cython
from libc.errno cimport ENOENT, ENOTDIR
from libc.stdint cimport int64_t, uint64_t

cdef enum:
    SECTOR = 512

cdef enum:
    CHANGE_WRITE
    CHANGE_RESIZE
    CHANGE_SET          # a name is made
    CHANGE_REMOVE
    CHANGE_MOVE


@cython.final
cdef class _Change:
    """One change of bytes or names; immutable."""

    cdef int kind
    cdef readonly int64_t order     # place among all changes of the disk
    cdef int64_t inode
    cdef bytes data                 # of a write
    cdef int64_t position           # of a write; of a resize the new size
    cdef int64_t directory          # of a change of names: the directory's inode
    cdef bytes name
    cdef int64_t to_directory       # of a move: the inode of the new directory
    cdef bytes to_name


_ORDER = attrgetter("order")


@cython.final
cdef class Chance:
    """Random numbers: a splitmix64 sequence."""

    def __cinit__(self, seed):
        self._state = <uint64_t>(seed & 0xFFFF_FFFF_FFFF_FFFF)

    def draw(self):
        """Return the next number, of 64 bits."""
        return self._draw()

    cdef uint64_t _draw(self) noexcept:
        cdef uint64_t z
        self._state += <uint64_t>0x9E3779B97F4A7C15
        z = self._state
        z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
        z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
        return z ^ (z >> 31)

    cdef int64_t below(self, int64_t bound) noexcept:
        return <int64_t>(self._draw() % <uint64_t>bound) if bound > 0 else 0


# --- bytes -------------------------------------------------------------------------------------

cdef int set_size(bytearray run, int64_t size) except -1:
    """Truncate, or extend with zeros."""
    if size < len(run):
        del run[size:]
    else:
        run.extend(bytes(size - len(run)))
    return 0


cdef int put(bytearray run, bytes data, int64_t position) except -1:
    if position > len(run):
        set_size(run, position)
    run[position:position + len(data)] = data
    return 0


cdef int apply_bytes(bytearray run, _Change change) except -1:
    if change.kind == CHANGE_RESIZE:
        return set_size(run, change.position)
    return put(run, change.data, change.position)


@cython.final
cdef class Inode:
    """File or directory: what is synced, the changes since, and what a running system sees."""

    cdef Inode copied(self, bint synced_only):
        """Copy the inode without its descriptors."""
        cdef Inode copied = Inode()
        copied.number = self.number
        copied.is_directory = self.is_directory
        copied.modified = self.modified
        copied.synced = bytearray(self.synced)
        copied.synced_names = self.synced_names.copy()
        if synced_only:
            copied.changes = []
        else:
            copied.links = self.links
            copied.reserved = self.reserved
            copied.is_stale = self.is_stale
            copied.now = bytearray(self.now)
            copied.changes = self.changes.copy()
            copied.names = self.names.copy()
        return copied

    cdef int reread(self) except -1:
        """Read the file from the disk again: its synced bytes, with the unsynced changes applied."""
        cdef _Change change
        self.now = bytearray(self.synced)
        for change in self.changes:
            apply_bytes(self.now, change)
        self.is_stale = False
        return 0


@cython.final
cdef class PathLookup:
    """Result of the lookup of a path: an inode, or the directory in which the last name is missing."""


# --- changes and disks -------------------------------------------------------------------------

cdef Disk new_disk():
    cdef Disk disk = Disk()
    disk.inodes = {}
    disk.names = []
    disk.make_inode(True).links = 1
    return disk


cdef Disk copy_inodes(Disk disk, bint synced_only):
    cdef Disk copied = Disk()
    cdef Inode inode
    copied.made = disk.made
    copied.order = disk.order
    copied.boots = disk.boots
    copied.names = []
    copied.inodes = {}
    for inode in list(disk.inodes.values()):
        copied.inodes[inode.number] = inode.copied(synced_only)
    return copied


cdef _Change note(Disk disk, int kind, Inode inode, Inode changed):
    """Return a new change; `changed` is the file, or the directory of a name."""
    cdef _Change change = _Change()
    disk.order += 1
    changed.modified = disk.order
    change.kind = kind
    change.order = disk.order
    change.inode = inode.number
    return change


cdef _Change note_name(Disk disk, int kind, PathLookup entry, Inode inode):
    cdef _Change change = note(disk, kind, inode, entry.directory)
    change.directory = change.to_directory = entry.directory.number
    change.name = entry.name
    disk.names.append(change)
    return change


cdef int keep_change(Disk disk, _Change change) except -1:
    """Apply a change to what is synced."""
    cdef Inode inode
    if change.kind == CHANGE_WRITE or change.kind == CHANGE_RESIZE:
        inode = disk.inodes[change.inode]
        return apply_bytes(inode.synced, change)
    inode = disk.inodes[change.directory]
    if change.kind == CHANGE_SET:
        inode.synced_names[change.name] = change.inode
    else:
        inode.synced_names.pop(change.name, None)
    if change.kind == CHANGE_MOVE:
        inode = disk.inodes[change.to_directory]
        inode.synced_names[change.to_name] = change.inode
    return 0


cdef set joined_to(Disk disk, int64_t directory):
    """Return the number of a directory and of those that unsynced moves connect with it, also by way of others."""
    cdef set joined = {directory}
    cdef _Change change
    cdef int64_t before = 0
    while before < len(joined):
        before = len(joined)
        for change in disk.names:
            if change.directory in joined or change.to_directory in joined:
                joined.update((change.directory, change.to_directory))
    return joined


@cython.final
cdef class Disk:
    """Inodes by number, the names that lead to them, and the changes that are not synced."""

    cpdef Disk copied(self):
        """Return the disk as another process finds it: without descriptors."""
        cdef Disk copied = copy_inodes(self, False)
        copied.names = self.names.copy()
        copied.sweep()
        return copied

    cdef bytes digest(self, Inode inode):
        """Hash the names and bytes below an inode as they are now."""
        if not inode.is_directory:
            return blake2b(inode.now, digest_size=8).digest()
        cdef Inode child
        whole = blake2b(digest_size=8)
        for name in sorted(inode.names):
            child = self.inodes[inode.names[name]]
            whole.update(name + (b"/" if child.is_directory else b"\0") + self.digest(child))
        return whole.digest()

    cdef list pending(self):
        """Return all changes that are not synced, oldest first."""
        cdef list pending = self.names.copy()
        cdef Inode inode
        for inode in self.inodes.values():
            pending += inode.changes
        pending.sort(key=_ORDER)
        return pending

    cdef int64_t used(self) except -1:
        """Return the bytes that files use, including reserved ones, and files that are open without a name."""
        cdef int64_t used = 0
        cdef Inode inode
        for inode in self.inodes.values():
            if inode.links or inode.opens:
                used += max(<int64_t>len(inode.now), inode.reserved)
        return used

    # --- names ---------------------------------------------------------------------------------

    cdef PathLookup find(self, bytes path):
        """Look up a path: return its inode, or the directory in which its last name is missing."""
        cdef PathLookup entry = PathLookup()
        cdef Inode inode = self.inodes[0]
        for name in path.split(b"/"):
            if not name:
                continue
            entry.directory = None
            if inode is None:
                break
            if not inode.is_directory:
                entry.status = -ENOTDIR
                return entry
            entry.directory = inode
            entry.name = name
            inode = self.inodes.get(inode.names.get(name))
        entry.inode = inode
        entry.status = -ENOENT if inode is None else 0
        return entry

    cdef Inode make_inode(self, bint is_directory):
        """Make an inode without a name."""
        cdef Inode inode = Inode()
        inode.number = self.made
        inode.is_directory = is_directory
        inode.now = bytearray()
        inode.synced = bytearray()
        inode.changes = []
        inode.names = {}
        inode.synced_names = {}
        self.made += 1
        self.inodes[inode.number] = inode
        return inode

    cdef int set_name(self, PathLookup entry, Inode inode) except -1:
        """Give an inode an unused name."""
        note_name(self, CHANGE_SET, entry, inode)
        inode.links += 1
        entry.directory.names[entry.name] = inode.number
        return 0

    cdef int remove_name(self, PathLookup entry) except -1:
        note_name(self, CHANGE_REMOVE, entry, entry.inode)
        entry.inode.links -= 1
        del entry.directory.names[entry.name]
        return 0

    cdef int move_name(self, PathLookup entry, PathLookup to) except -1:
        """Rename, replacing an existing name. It is one change: a power cut keeps all of it or none."""
        cdef _Change change = note_name(self, CHANGE_MOVE, entry, entry.inode)
        change.to_directory = to.directory.number
        change.to_name = to.name
        if to.inode is not None:
            to.inode.links -= 1
        del entry.directory.names[entry.name]
        to.directory.names[to.name] = entry.inode.number
        return 0

    cdef int settle_names(self, Inode directory, bint kept) except -1:
        """Sync a directory. Without ``kept`` the sync fails: its changes stay visible, but never reach the disk.

        Directories that unsynced moves connect with it are synced, too.
        """
        cdef set joined = joined_to(self, directory.number)
        cdef list left = []
        cdef _Change change
        for change in self.names:
            if change.directory not in joined:
                left.append(change)
            elif kept:
                keep_change(self, change)
        self.names = left
        return self.sweep()

    cdef int sweep(self) except -1:
        """Drop the inodes that can be reached neither now nor after any power cut."""
        cdef set needed = {0}
        cdef Inode inode
        cdef _Change change
        for inode in list(self.inodes.values()):
            if inode.links or inode.opens:
                needed.add(inode.number)
            needed.update(inode.synced_names.values())
        for change in self.names:
            needed.update((change.inode, change.directory, change.to_directory))
        for number in self.inodes.keys() - needed:
            del self.inodes[number]
        return 0

    # --- bytes of files ------------------------------------------------------------------------

    cdef int write(self, Inode inode, bytes data, int64_t position) except -1:
        cdef _Change change = note(self, CHANGE_WRITE, inode, inode)
        change.data = data
        change.position = position
        inode.changes.append(change)
        return apply_bytes(inode.now, change)

    cdef int resize(self, Inode inode, int64_t size) except -1:
        cdef _Change change = note(self, CHANGE_RESIZE, inode, inode)
        change.position = size
        inode.changes.append(change)
        inode.reserved = min(inode.reserved, size)
        return apply_bytes(inode.now, change)

    cdef int sync(self, Inode inode) except -1:
        """Sync a file's changes to the disk, in order, except those lost by an earlier failed sync."""
        cdef _Change change
        for change in inode.changes:
            keep_change(self, change)
        inode.changes = []
        return 0

    cpdef Disk after_cut(self, str policy, int64_t keep, int64_t page_bytes, Chance chance):
        """Return the disk after a power cut and a restart: all of it is synced, nothing is open.

        `keep` is the number of changes that the policies prefix and torn keep; with -1 it is random.
        """
        cdef list pending = self.pending()
        cdef int64_t count = len(pending)
        cdef Disk after = copy_inodes(self, True)
        after.boots += 1
        cdef Inode inode
        if policy == "all":
            keep = count
        elif policy == "prefix" or policy == "torn":
            keep = chance.below(count + 1) if keep < 0 else min(keep, count)
        else:
            keep = 0
        for change in pending[:keep]:
            keep_change(after, change)
        if policy == "torn" and keep < count:
            keep_torn(after, pending[keep], chance)
        elif policy == "lost" or policy == "zeroed" or policy == "reordered":
            keep_some(self, after, pending, policy, page_bytes, chance)
        for inode in after.inodes.values():
            inode.now = bytearray(inode.synced)
            inode.names = inode.synced_names.copy()
        reach(after, after.inodes[0])
        for inode in list(after.inodes.values()):
            if inode.links == 0:
                del after.inodes[inode.number]
        return after


# --- what a power cut keeps --------------------------------------------------------------------

cdef int reach(Disk disk, Inode inode) except -1:
    """Count the links of the inodes below one."""
    inode.links += 1
    if inode.links == 1:
        for number in inode.names.values():
            reach(disk, disk.inodes[number])
    return 0


cdef int keep_torn(Disk disk, _Change change, Chance chance) except -1:
    """Keep a part of one change: a write up to a byte or the end of a sector; names change whole or not at all."""
    cdef int64_t cut
    cdef Inode inode
    if change.kind == CHANGE_WRITE:
        cut = chance.below(len(change.data))
        if chance._draw() & 1:
            cut = max((change.position + cut) // SECTOR * SECTOR - change.position, 0)
        inode = disk.inodes[change.inode]
        put(inode.synced, change.data[:cut], change.position)
    return 0


cdef int keep_some(Disk disk, Disk after, list pending, str policy, int64_t page_bytes, Chance chance) except -1:
    """Keep changes by the policies that may drop any part of them."""
    cdef uint64_t odds = 1 + chance._draw() % 3       # how many of four changes are kept
    cdef uint64_t salt = chance._draw()
    cdef _Change change
    cdef Inode inode
    for change in pending:
        inode = after.inodes[change.inode]
        if change.kind > CHANGE_RESIZE:
            if (keeps_name(disk, change.directory, change, salt)
                    and keeps_name(disk, change.to_directory, change, salt)):
                keep_change(after, change)
        elif policy == "reordered" and change.kind == CHANGE_WRITE:
            keep_pages(inode.synced, change, page_bytes, chance)
        elif (policy == "zeroed" and change.kind == CHANGE_RESIZE) or chance._draw() % 4 < odds:
            keep_change(after, change)
        elif policy == "zeroed":
            leave_zeros(inode.synced, change, len((<Inode>disk.inodes[change.inode]).synced))
    return 0


cdef bint keeps_name(Disk disk, int64_t directory, _Change change, uint64_t salt) except -1:
    """Return whether a change is in the kept prefix of a directory's changes."""
    cdef Chance chance = Chance(salt ^ (<uint64_t>directory << 32))
    cdef int64_t last = chance.below(len(disk.names) + 1)
    return last == len(disk.names) or change.order < (<_Change>disk.names[last]).order


cdef int keep_pages(bytearray run, _Change change, int64_t page_bytes, Chance chance) except -1:
    """Keep each page of a write, or not, at random."""
    cdef int64_t at = 0, size
    while at < len(change.data):
        size = page_bytes - (change.position + at) % page_bytes
        if chance._draw() & 1:
            put(run, change.data[at:at + size], change.position + at)
        at += size
    return 0


cdef int leave_zeros(bytearray run, _Change change, int64_t synced_size) except -1:
    """Extend a file with zeros for a write whose bytes were lost; synced bytes are not changed."""
    cdef int64_t start = max(change.position, synced_size)
    cdef int64_t size = change.position + len(change.data) - start
    return put(run, bytes(size), start) if size > 0 else 0
