# cython: language_level=3
"""A slot of ``logstore.recovery``, as other compiled modules see it; `_recovery_slot.pyx` describes it."""

from logstore.io._files cimport File


cdef class RecoverySlots:
    cdef readonly object point          # a `RecoveryPoint`
    cdef readonly File file             # None until its first use
    cdef int put(self, object point) except -1
