# cython: language_level=3
"""Power cut on a simulated disk; see `_powercut.pyx`."""

from libc.stdint cimport int64_t, uint64_t

from logstore.testing._disk cimport Disk

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

cdef uint64_t draw(Chance *chance) noexcept nogil
cdef Disk *disk_crash(const Disk *disk, int policy, int64_t keep, int64_t page, Chance *chance) noexcept nogil
