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
        """Load the entries of an index file into memory; a partial entry at its end is dropped."""

    def map(self, mapping: Mapping | None) -> Self:
        """Read the entries of a mapped index file (None: the file is empty)."""

    def unsaved(self) -> bytes:
        """Return the entries that the file does not hold yet, as its bytes."""

    def mark_saved(self) -> None: ...
    def unmark_saved(self) -> None:
        """Mark all entries as not saved: the file is deleted or empty."""

    def to_bytes(self) -> bytes:
        """Return all entries, as the bytes of their file."""

    def __len__(self) -> int: ...

class OffsetIndex(Entries):
    """Offset index: last offset of a batch -> its position."""

    def append(self, relative_offset: int, position: int) -> None:
        """Add an entry, which must rise over the last one."""

    def entry(self, number: int) -> tuple[int, int]:
        """Return (relative offset, position) of an entry."""

    def floor(self, relative_offset: int) -> tuple[int, int] | None:
        """Return (relative offset, position) of the last entry at or below relative_offset, or None."""

    def is_sound(self, log_bytes: int) -> bool:
        """Return whether offsets and positions rise and every position is in the log."""

    def cut_to(self, position: int) -> None:
        """Drop the entries of batches that start at or after a position."""

class TimeIndex(Entries):
    """Time index: largest timestamp so far -> last offset of its batch."""

    def append(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry unless its timestamp or offset does not rise over the last one."""

    def entry(self, number: int) -> tuple[int, int]:
        """Return (timestamp, relative offset) of an entry."""

    def last_below(self, timestamp: int) -> tuple[int, int] | None:
        """Return (timestamp, relative offset) of the last entry below timestamp, or None."""

    def is_sound(self) -> bool:
        """Return whether timestamps and offsets rise."""

    def cut_to(self, relative_offset: int) -> None:
        """Drop the entries at or after an offset."""
