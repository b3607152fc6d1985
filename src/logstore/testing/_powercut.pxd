# cython: language_level=3
"""A power cut on a simulated disk; `_powercut.pyx` says what it keeps."""

from libc.stdint cimport int64_t, uint64_t

from logstore.testing._disk cimport Disk

cdef enum:              # what a power cut keeps of the changes that were not synced
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
