from typing import Self

from typing_extensions import disjoint_base

from logstore.io._files import Mapping

@disjoint_base
class Entries:
    """Fixed-size entries, in memory while they grow or mapped once they are sealed."""

    def __new__(cls) -> Self: ...
    @property
    def count(self) -> int: ...
    @property
    def saved(self) -> int: ...
    @property
    def entry_bytes(self) -> int: ...
    @property
    def size(self) -> int:
        """Bytes that the entries take in their file."""

    def load(self, data: bytes) -> Self:
        """Take the entries of an index file into memory; a part of an entry at its end is dropped."""

    def map(self, mapping: Mapping | None) -> Self:
        """Read the entries of a mapped index file (None: the file is empty)."""

    def unsaved(self) -> bytes:
        """The entries that the file does not hold yet, as its bytes."""

    def mark_saved(self) -> None: ...
    def unmark_saved(self) -> None:
        """The file is gone or empty: all entries have to be written again."""

    def to_bytes(self) -> bytes:
        """All entries, as the bytes of their file."""

    def __len__(self) -> int: ...

class OffsetIndex(Entries):
    """Last offset of a batch -> where it starts."""

    def append(self, relative_offset: int, position: int) -> None:
        """Add an entry; it has to rise over the last one."""

    def entry(self, number: int) -> tuple[int, int]:
        """(relative offset, position) of an entry."""

    def floor(self, relative_offset: int) -> tuple[int, int] | None:
        """(relative offset, position) of the last entry at or below relative_offset, or None."""

    def is_sound(self, log_bytes: int) -> bool:
        """Whether offsets and positions rise and every position lies in the log."""

    def cut_to(self, position: int) -> None:
        """Drop the entries of batches that start at or behind a position."""

class TimeIndex(Entries):
    """Largest timestamp so far -> last offset of its batch."""

    def append(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry unless its timestamp or offset does not rise over the last one."""

    def entry(self, number: int) -> tuple[int, int]:
        """(timestamp, relative offset) of an entry."""

    def last_below(self, timestamp: int) -> tuple[int, int] | None:
        """(timestamp, relative offset) of the last entry below timestamp, or None."""

    def is_sound(self) -> bool:
        """Whether timestamps and offsets rise."""

    def cut_to(self, relative_offset: int) -> None:
        """Drop the entries at or behind an offset."""
