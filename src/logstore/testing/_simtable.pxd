# cython: language_level=3
"""Table of file operations over a simulated disk; see `_simtable.pyx`."""

from libc.stdint cimport int64_t

from logstore.testing._disk cimport Disk
from logstore.testing._faults cimport Faults, pthread_mutex_t

cdef struct Descriptor:
    int inode           # -1: free
    int flags

cdef struct Machine:
    pthread_mutex_t guard
    Disk *disk
    Descriptor *open
    int open_room
    int64_t capacity    # -1: no limit
    bint rereads
    int64_t operations  # those that changed something or made it durable
    bint is_keeping
    Disk **moments
    int64_t moment_count
    int64_t moment_room

cdef void set_simulated(Faults *faults, Machine *machine) noexcept
