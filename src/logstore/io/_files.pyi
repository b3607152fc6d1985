from collections.abc import Callable
from typing import Self

from typing_extensions import Buffer, disjoint_base

@disjoint_base
class Files:
    """Table of file operations with its descriptor cache."""

    def __new__(cls, *, descriptor_limit: int | None = None) -> Self: ...
    @property
    def descriptor_limit(self) -> int: ...
    @property
    def open_descriptors(self) -> int: ...
    @property
    def held_writes(self) -> int: ...
    @property
    def namespace(self) -> object: ...
    @property
    def untold(self) -> set[str]:
        """Directories that could not record that a write or sync of theirs failed: this process remembers it."""
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
        """Open a `File` at once, so that a missing file is an error here."""

    def lazy(self, path: str, *, writable: bool = False, renamed_to: str | None = None) -> File:
        """Return a `File` that is opened at its first use."""

    def clean_by(self, cleaner: Callable[[], object]) -> None:
        """Have ``cleaner`` called when an eighth of the descriptors is left: another thread has to `sync_oldest`."""

    def sync_oldest(self) -> None:
        """Sync the unsynced ones among the least recently used quarter of the files that may be open."""

    def forget_cleaning(self) -> None:
        """Have the cleaner called again in a forked child, which has not the thread that it had asked."""

    def rename(self, old: str, new: str) -> None: ...
    def unlink(self, path: str) -> None: ...
    def link(self, old: str, new: str) -> None: ...
    def mkdir(self, path: str) -> None: ...
    def rmdir(self, path: str) -> None: ...
    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory, unsorted."""

    def space(self, path: str) -> tuple[int, int]:
        """Return (total bytes, bytes free to this user) of the file system that holds path."""

    def boot(self) -> bytes:
        """Return the id of this run of the machine, 16 bytes; empty if the system does not tell."""

    def call_counts(self) -> dict[str, int]:
        """Return the number of calls of each operation in this table, by its name."""

@disjoint_base
class File:
    """File, with a descriptor while the cache grants it one."""

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
        """Return whether a sync of this file has failed, at an eviction too."""

    def is_at_hand(self) -> bool:
        """Return whether the file has its descriptor, so that a write opens nothing and closes nothing."""

    def sync(self) -> int:
        """Make every write so far durable. Blocks on the disk."""

    def size(self) -> int:
        """Return the number of bytes in the file."""

    def allocated_bytes(self) -> int:
        """Return the bytes that the file takes on the disk, which are fewer for a file with holes."""

    def identity(self) -> tuple[int, int]:
        """Return (inode, time of creation in ns): a copy of the file has another; the time is 0 if unknown."""

    def modified_ms(self) -> int:
        """Return the time of the last write, in milliseconds since 1970."""

    def read(self, position: int, size: int) -> bytes:
        """Read at most size bytes from position; fewer only at the end of the file."""

    def write(self, data: Buffer, position: int) -> None:
        """Write all of data at position."""

    def truncate(self, size: int) -> None:
        """Truncate or extend the file to size bytes."""

    def begin_writeback(self, position: int, size: int) -> None:
        """Start the kernel's write-back of some pages, so that a later `sync` waits for fewer."""

    def map(self) -> Mapping | None:
        """Map the whole file read-only; None if it is empty."""

    def rename_to(self, path: str) -> None:
        """Rename the file. It stays open; a reopened descriptor uses the new name."""

    def doubt(self, position: int, end: int) -> None:
        """Have the next `sync` write the bytes from ``position`` to ``end`` again first, as a read finds them.

        A sync of the process that wrote them may have failed, of which nothing tells any more. The kernel takes the
        pages that it lost for written then, and no sync but one after a write would bring them to the disk.
        """

    def mark_dirty(self) -> None:
        """Mark the file as unsynced: an earlier process may have written to it."""

    def lock(self) -> int:
        """Take the write lock of the file; return 0, or the pid of its holder (-1: unknown)."""

    def unlock(self) -> None:
        """Release the lock by closing the file."""

    def close(self) -> None:
        """Close once no caller pins the descriptor any more. Unsynced writes are left to the kernel."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc_info: object) -> None: ...

@disjoint_base
class Mapping:
    """Read-only mapping of a file."""

    @property
    def size(self) -> int: ...

OP_NAMES: tuple[str, ...]

def spare_descriptors() -> None:
    """Have the calling thread never close a cached file to get its descriptor, until the thread ends."""

def errno_of(error: BaseException) -> int:
    """Return the errno behind a StorageError, or 0."""

def fork_generation() -> int:
    """Return the number of forks between the first import of logstore and this process."""

#: Table of this process: libc, with one descriptor cache for all logs.
LIBC: Files
