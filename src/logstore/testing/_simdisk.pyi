from typing import Final

from typing_extensions import disjoint_base

from logstore.testing._faults import FaultyFiles

POLICIES: Final[tuple[str, ...]]

@disjoint_base
class SimFiles(FaultyFiles):
    """`Files` over a disk in memory; `SimDisk` is what a test uses."""

    def __new__(cls, *, descriptor_limit: int | None = None) -> SimFiles: ...
    def reseed(self, seed: int) -> None: ...
    def begin_as_copy_of(self, other: SimFiles, moment: int = -1) -> None:
        """Hold a copy of another disk as it is, or as it was at a moment that it has kept."""
    def begin_after_crash_of(
        self, other: SimFiles, policy: str, seed: int | None, keep: int, page_bytes: int
    ) -> None:
        """Hold what a power cut leaves of another disk."""
    def keep_moments(self) -> None:
        """From now on keep a copy of the disk after each operation; forget those kept before."""
    @property
    def moment_count(self) -> int:
        """How many moments are kept."""
    @property
    def operations(self) -> int:
        """How many operations have changed something, or made a change durable."""
    @property
    def pending(self) -> int:
        """How many changes of bytes and names are not synced."""
    @property
    def used_bytes(self) -> int: ...
    @property
    def capacity(self) -> int | None:
        """Bytes that the files may take together; None: there is no end."""
    @capacity.setter
    def capacity(self, value: int | None) -> None: ...
    @property
    def rereads(self) -> bool:
        """Whether a file that nobody has open is read from the disk again once a sync of it has failed."""
    @rereads.setter
    def rereads(self, value: bool) -> None: ...
    def state_hash(self) -> int:
        """64 bits over all names and bytes as they are now."""
    def drop_caches(self) -> None:
        """Forget all clean pages: what a failed sync has lost is gone for readers too."""
    def flip(self, path: str, bit: int) -> None:
        """Turn one bit of a file, counted from the first, in the page cache and on the disk."""
