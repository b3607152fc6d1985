from typing import Self

from typing_extensions import disjoint_base

from logstore.io._files import File

@disjoint_base
class Growth:
    """Extend: the file grows with each write, by the bytes written."""

    def release(self, file: File, size: int) -> int:
        """Release the blocks reserved past size, the end of the file."""

@disjoint_base
class Preallocate(Growth):
    """Reserve blocks ahead of the end, without changing the size that the file shows."""

    def __new__(cls, limit_bytes: int = ...) -> Self: ...
    @property
    def reserved(self) -> int: ...

@disjoint_base
class Chunked(Growth):
    """Write in pieces of chunk_bytes, so that the kernel allocates small runs of pages."""

    def __new__(cls, chunk_bytes: int = ...) -> Self: ...
    @property
    def chunk_bytes(self) -> int: ...
