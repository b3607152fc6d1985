# cython: language_level=3
"""A `Clock` in compiled code: the machine's clock is read in C, any other is called.

``system`` is `logstore.clock.SYSTEM_CLOCK`, which the caller has at hand. It imports nothing of logstore.
"""

from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, timespec


cdef inline int64_t now_ms(object clock, object system) except? -1:
    """Return `Clock.now_ms` of a clock."""
    cdef timespec moment
    if clock is not system:
        return clock.now_ms()
    clock_gettime(CLOCK_REALTIME, &moment)
    return <int64_t>moment.tv_sec * 1000 + moment.tv_nsec // 1_000_000


cdef inline double monotonic_s(object clock, object system) except? -1:
    """Return `Clock.monotonic_s` of a clock."""
    cdef timespec moment
    if clock is not system:
        return clock.monotonic_s()
    clock_gettime(CLOCK_MONOTONIC, &moment)
    return <double>moment.tv_sec + <double>moment.tv_nsec * 1e-9
