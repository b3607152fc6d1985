"""Compression and decompression for the compiled core; an edge: both hold the GIL and raise."""

from libc.stdint cimport int64_t

cpdef bytes compress(int codec, object data, int level=*)
cpdef bytes decompress(int codec, object data, int64_t limit)
