from typing_extensions import disjoint_base

from logstore.testing._disk import Chance, Disk
from logstore.testing._faults import FaultyFiles

@disjoint_base
class SimFiles(FaultyFiles):
    """`Files` over a disk in memory: the compiled base of `SimDisk`."""

    _disk: Disk
    _chance: Chance
    capacity: int | None
    """Bytes that all files together may use; None: no limit."""
    rereads: bool
    """Whether a file that is not open is read from the disk again after a sync of it has failed."""

    def __new__(cls, *, descriptor_limit: int | None = None) -> SimFiles: ...
    @property
    def _moments(self) -> list[Disk]: ...
    def boot(self) -> bytes:
        """Return the id of this run of the simulated machine: a power cut begins the next one."""
    def keep_moments(self) -> None:
        """Keep a copy of the disk after each operation that changes or syncs something; drop earlier copies."""
    @property
    def moment_count(self) -> int:
        """The number of copies kept since `keep_moments`."""
    @property
    def operations(self) -> int:
        """The number of operations that changed something, or made a change durable."""
    @property
    def pending(self) -> int:
        """The number of changes of bytes and names that are not synced."""
    @property
    def used_bytes(self) -> int: ...
    def state_hash(self) -> int:
        """Return a 64-bit hash of all names and bytes as they are now."""
    def drop_caches(self) -> None:
        """Read all files from the disk again: readers no longer see the bytes that a failed sync has lost."""
    def flip(self, path: str, bit: int) -> None:
        """Flip one bit of a file, numbered from 0 at its start, in the page cache and on the disk."""
