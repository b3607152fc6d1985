# cython: language_level=3
"""Simulated machine as a Python object: its disk, power cuts, and earlier moments.

`_simtable` implements the operations, `_powercut` decides what survives; tests use `simdisk.SimDisk`. Any
thread; the disk is accessed under the machine's lock.
"""

import errno as _errno
import os

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free

from logstore.testing._disk cimport (
    Disk, Inode, disk_copy, disk_free, disk_hash, disk_new, disk_pending, disk_used, find, reread,
)
from logstore.testing._faults cimport (
    pthread_mutex_destroy, pthread_mutex_init, pthread_mutex_lock, pthread_mutex_unlock,
)
from logstore.testing._powercut cimport POLICY_COUNT, Chance, disk_crash, draw
from logstore.testing._simtable cimport set_simulated

#: Policies of `SimDisk.crash`, in the order of the enum in `_powercut.pxd`.
POLICIES = ("none", "all", "prefix", "torn", "lost", "zeroed", "reordered")
assert len(POLICIES) == POLICY_COUNT


cdef class SimFiles(FaultyFiles):
    """`Files` over a disk in memory; `SimDisk` is what a test uses.

    Owns: the disk, its descriptors, and the moments that were kept.
    Threads: any.
    """

    def __cinit__(self, *, descriptor_limit=None):
        self._machine = <Machine *>calloc(1, sizeof(Machine))
        if self._machine == NULL:
            raise MemoryError
        pthread_mutex_init(&self._machine.guard, NULL)
        self._machine.capacity = -1
        self._machine.disk = disk_new()
        if self._machine.disk == NULL:
            raise MemoryError
        # Identifies the disk, for locks and others; a disk that referred to itself would never be freed.
        self.namespace = object()
        set_simulated(self._faults, self._machine)

    def __dealloc__(self):
        if self._machine == NULL:
            return
        self._forget_moments()
        free(self._machine.moments)
        free(self._machine.open)
        disk_free(self._machine.disk)
        pthread_mutex_destroy(&self._machine.guard)
        free(self._machine)

    cdef int _take(self, Disk *disk) except -1:
        """Replace the disk by this one."""
        if disk == NULL:
            raise MemoryError("no room for another disk")
        disk_free(self._machine.disk)
        self._machine.disk = disk
        return 0

    def reseed(self, seed):
        self._chance.state = <uint64_t>(seed & 0xFFFF_FFFF_FFFF_FFFF)

    def begin_as_copy_of(self, SimFiles other not None, int64_t moment=-1):
        """Replace this disk by a copy of another, as it is or as it was at a kept moment."""
        cdef Disk *disk
        if moment >= other._machine.moment_count:
            raise IndexError(f"moment {moment} of {other._machine.moment_count}")
        pthread_mutex_lock(&other._machine.guard)
        disk = disk_copy(other._machine.disk if moment < 0 else other._machine.moments[moment])
        pthread_mutex_unlock(&other._machine.guard)
        self._take(disk)

    def begin_after_crash_of(self, SimFiles other not None, str policy not None, seed, int64_t keep,
                             int64_t page_bytes):
        """Replace this disk by another after a power cut."""
        cdef Disk *disk
        cdef Chance chance
        cdef int number
        if policy not in POLICIES:
            raise ValueError(f"policy= is one of {', '.join(POLICIES)}, found {policy!r}")
        if page_bytes < 1:
            raise ValueError(f"page_bytes: expected at least 1, found {page_bytes}")
        # Without a seed each draw continues the sequence of the last one.
        chance.state = draw(&other._chance) if seed is None else <uint64_t>(seed & 0xFFFF_FFFF_FFFF_FFFF)
        number = POLICIES.index(policy)
        pthread_mutex_lock(&other._machine.guard)
        disk = disk_crash(other._machine.disk, number, keep, page_bytes, &chance)
        pthread_mutex_unlock(&other._machine.guard)
        self._take(disk)

    def keep_moments(self):
        """Keep a copy of the disk after each operation from now on; forget those kept before."""
        pthread_mutex_lock(&self._machine.guard)
        self._forget_moments()
        self._machine.is_keeping = True
        pthread_mutex_unlock(&self._machine.guard)

    cdef void _forget_moments(self) noexcept:
        cdef int64_t i
        for i in range(self._machine.moment_count):
            disk_free(self._machine.moments[i])
        self._machine.moment_count = 0

    @property
    def moment_count(self):
        """The number of kept moments."""
        return self._machine.moment_count

    @property
    def operations(self):
        """The number of operations that changed something, or made a change durable."""
        return self._machine.operations

    @property
    def pending(self):
        """The number of changes of bytes and names that are not synced."""
        return disk_pending(self._machine.disk)

    @property
    def used_bytes(self):
        return disk_used(self._machine.disk)

    @property
    def capacity(self):
        """Bytes that all files together may use; None: no limit."""
        return None if self._machine.capacity < 0 else self._machine.capacity

    @capacity.setter
    def capacity(self, value):
        self._machine.capacity = -1 if value is None else value

    @property
    def rereads(self):
        """Whether a file that is not open is read from the disk again after a sync of it has failed."""
        return self._machine.rereads

    @rereads.setter
    def rereads(self, bint value):
        self._machine.rereads = value

    def state_hash(self):
        """Return a 64-bit hash of all names and bytes as they are now."""
        return disk_hash(self._machine.disk)

    def drop_caches(self):
        """Drop all clean pages: readers no longer see the bytes lost by a failed sync."""
        cdef int i
        cdef Disk *disk = self._machine.disk
        pthread_mutex_lock(&self._machine.guard)
        for i in range(disk.inode_count):
            if disk.inodes[i] != NULL and disk.inodes[i].is_stale:
                reread(disk, i)
        pthread_mutex_unlock(&self._machine.guard)

    def flip(self, str path not None, int64_t bit):
        """Flip one bit of a file, counted from the first, in the page cache and on the disk.

        Raises:
            IndexError: the file is shorter.
            FileNotFoundError: there is no such file.
        """
        cdef bytes encoded = os.fsencode(path)
        cdef const char *name
        cdef int parent, at = find(self._machine.disk, encoded, &parent, &name)
        cdef int64_t position = bit >> 3
        cdef uint8_t mask = <uint8_t>(1 << (bit & 7))
        cdef Inode *inode
        if at < 0 or self._machine.disk.inodes[at].is_directory:
            raise FileNotFoundError(_errno.ENOENT, "no such file on the simulated disk", path)
        inode = self._machine.disk.inodes[at]
        if bit < 0 or position >= inode.now.size:
            raise IndexError(f"bit {bit} of a file of {inode.now.size} bytes: {path}")
        pthread_mutex_lock(&self._machine.guard)
        inode.now.data[position] ^= mask
        if position < inode.synced.size:
            inode.synced.data[position] ^= mask
        pthread_mutex_unlock(&self._machine.guard)
