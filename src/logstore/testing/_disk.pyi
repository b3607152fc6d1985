from typing import Self, final

@final
class Chance:
    """Random numbers: a splitmix64 sequence."""

    def __new__(cls, seed: int) -> Self: ...
    def draw(self) -> int:
        """Return the next number, of 64 bits."""

@final
class Inode:
    """File or directory: what is synced, the changes since, and what a running system sees."""

@final
class PathLookup:
    """Result of the lookup of a path: an inode, or the directory in which the last name is missing."""

@final
class Disk:
    """Inodes by number, the names that lead to them, and the changes that are not synced."""

    def copied(self) -> Disk:
        """Return the disk as another process finds it: without descriptors."""

    def after_cut(self, policy: str, keep: int, page_bytes: int, chance: Chance) -> Disk:
        """Return the disk after a power cut and a restart: all of it is synced, nothing is open."""
