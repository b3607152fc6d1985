# cython: language_level=3
"""Counts of what clients have fetched from one topic, and of what was refused: a fetch of 1,000 partitions adds to
as many. Plain numbers, changed by the loop's thread; it imports nothing.
"""

cimport cython


@cython.final
cdef class TopicCounts:
    """What has been fetched from one topic, and what was refused: plain numbers, changed by the loop's thread."""
