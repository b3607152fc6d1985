# cython: language_level=3
"""Interrupts, as other compiled modules see them; `_interrupts.pyx` describes them."""

cdef bint in_main_thread() noexcept
