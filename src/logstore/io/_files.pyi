from typing import Self

from typing_extensions import Buffer, disjoint_base

@disjoint_base
class Files:
    """A table of file operations with its descriptor cache."""

    def __new__(cls, *, descriptor_limit: int | None = None) -> Self: ...
    @property
    def descriptor_limit(self) -> int: ...
    @property
    def open_descriptors(self) -> int: ...
    @property
    def namespace(self) -> object: ...
    def open(
        self,
        path: str,
        *,
        create: bool = False,
        writable: bool = False,
        exclusive: bool = False,
        truncate: bool = False,
        hint: bool = False,
    ) -> File:
        """A `File`; opened at once, so that a missing file is an error here."""

    def lazy(self, path: str, *, writable: bool = False) -> File:
        """A `File` that is opened when it is first used."""

    def rename(self, old: str, new: str) -> None: ...
    def unlink(self, path: str) -> None: ...
    def link(self, old: str, new: str) -> None: ...
    def mkdir(self, path: str) -> None: ...
    def rmdir(self, path: str) -> None: ...
    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""

    def listdir(self, path: str) -> list[str]:
        """Names in a directory, unsorted."""

    def space(self, path: str) -> tuple[int, int]:
        """(total bytes, bytes free to this user) of the file system that holds path."""

    def call_counts(self) -> dict[str, int]:
        """How often each operation was called through this table, by its name."""

@disjoint_base
class File:
    """One file, with a descriptor while the cache grants it one."""

    def __new__(cls, files: Files, path: str) -> Self: ...
    @property
    def files(self) -> Files: ...
    @property
    def path(self) -> str: ...
    @property
    def dirty(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    @property
    def sync_failed(self) -> bool:
        """Whether a sync of this file has failed, at an eviction too."""

    def sync(self) -> int:
        """Make every write so far durable. Blocks on the disk."""

    def size(self) -> int:
        """Bytes in the file."""

    def allocated_bytes(self) -> int:
        """Bytes that the file takes on the disk, which is less for a file with holes."""

    def modified_ms(self) -> int:
        """When the file was last written, in milliseconds since 1970."""

    def read(self, position: int, size: int) -> bytes:
        """At most size bytes from position; fewer only at the end of the file."""

    def write(self, data: Buffer, position: int) -> None:
        """Write all of data at position."""

    def truncate(self, size: int) -> None:
        """Cut or extend the file to size bytes."""

    def begin_writeback(self, position: int, size: int) -> None:
        """Have the kernel begin to write some pages to the disk, so that a later `sync` has less to wait for."""

    def map(self) -> Mapping | None:
        """The whole file, mapped read-only, or None if it is empty."""

    def rename_to(self, path: str) -> None:
        """Give the file another name. It stays open; a descriptor that comes back is opened by that name."""

    def mark_dirty(self) -> None:
        """Take the file for unsynced: an earlier process may have written to it."""

    def lock(self) -> int:
        """Take the write lock of the file; 0, or the pid of the process that holds it (-1: unknown)."""

    def unlock(self) -> None:
        """Give the lock back by closing the file."""

    def close(self) -> None:
        """Close once nobody uses the descriptor any more. Unsynced writes are left to the kernel."""

@disjoint_base
class Mapping:
    """A file mapped read-only."""

    @property
    def size(self) -> int: ...

def errno_of(error: BaseException) -> int:
    """The errno behind a StorageError, or 0."""

def fork_generation() -> int:
    """How many forks lie between the first import of logstore and this process."""

#: The table of this process: libc, with one descriptor cache for all logs.
LIBC: Files
