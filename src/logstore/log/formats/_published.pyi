from typing_extensions import Buffer, disjoint_base

from logstore.io._files import File

SIZE: int

def pack(generation: int, log_start: int, high_watermark: int, last_stable: int, log_end: int) -> bytes: ...
def unpack(data: Buffer) -> tuple[int, int, int, int, int] | None: ...

@disjoint_base
class PublishedFile:
    """``logstore.published`` as its writer sees it."""

    def __init__(self, file: File) -> None:
        """Write to an open file, which `close` closes."""

    def write(self, generation: int, log_start: int, high_watermark: int, last_stable: int, log_end: int) -> None:
        """Publish offsets with a write, which wakes readers. They see these or the previous ones. Never synced."""

    def put(self, generation: int, log_start: int, high_watermark: int, last_stable: int, log_end: int) -> int:
        """Publish offsets after an append, whose write to the segment has woken readers; as `write` otherwise."""

    def is_at_hand(self) -> bool:
        """Return whether `put` opens no file."""

    def take_with(self, file: File) -> None:
        """Give a segment's file and this one their descriptors, so that an append opens neither.

        Raises:
            StorageError: the segment's file cannot be opened. A failure of this one is left to `put`.
        """

    @property
    def is_shared(self) -> bool: ...
    def close(self) -> None:
        """Close the file."""
