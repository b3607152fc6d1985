# cython: language_level=3
"""A slot of ``logstore.recovery``, as other compiled modules see it; `_recovery_slot.pyx` describes it."""

from logstore.io._files cimport File

cdef int put_slot(File file, object point) except -1
