from typing import Self

from typing_extensions import disjoint_base

from logstore.io._files import Mapping

@disjoint_base
class Entries:
    """Fixed-size entries: in memory while their segment grows, a mapped file once it is sealed."""

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
        """Load the entries of an index file into memory; a partial entry at the file's end is dropped."""

    def map(self, mapping: Mapping | None) -> Self:
        """Use the entries of a mapped index file in place (None: the file is empty)."""

    def unsaved(self) -> bytes:
        """Return the entries that the file does not hold yet, as bytes to append to the file."""

    def mark_saved(self) -> None: ...
    def unmark_saved(self) -> None:
        """Mark all entries as not saved, because the file was deleted or emptied."""

    def to_bytes(self) -> bytes:
        """Return all entries as the bytes of an index file."""

    def __len__(self) -> int: ...

class OffsetIndex(Entries):
    """Offset index: last offset of a batch -> its position."""

    def append(self, relative_offset: int, position: int) -> None:
        """Add an entry; its offset and its position must be above those of the last entry."""

    def entry(self, number: int) -> tuple[int, int]:
        """Return (relative offset, position) of an entry."""

    def floor(self, relative_offset: int) -> tuple[int, int] | None:
        """Return (relative offset, position) of the last entry at or below relative_offset, or None."""

    def is_sound(self, log_bytes: int) -> bool:
        """Return whether offsets and positions rise and every position is within ``log_bytes``."""

    def cut_to(self, position: int) -> None:
        """Remove the entries of batches that start at or after a position."""

class TimeIndex(Entries):
    """Time index: largest timestamp so far -> last offset of its batch."""

    def append(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry if its timestamp and its offset are above those of the last entry; else do nothing."""

    def entry(self, number: int) -> tuple[int, int]:
        """Return (timestamp, relative offset) of an entry."""

    def last_below(self, timestamp: int) -> tuple[int, int] | None:
        """Return (timestamp, relative offset) of the last entry below ``timestamp``, or None."""

    def is_sound(self) -> bool:
        """Return whether timestamps and offsets never fall from entry to entry; they may be equal."""

    def cut_to(self, relative_offset: int) -> None:
        """Remove the entries at or after an offset."""
