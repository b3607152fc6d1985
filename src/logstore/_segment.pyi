from typing_extensions import Buffer, disjoint_base

from logstore._segment_scan import Scanned
from logstore.batch._batch import Record
from logstore.io._file_region import FileRegion

@disjoint_base
class Segment(Scanned):
    """One `.log` file with its indexes, as the log writes and reads it."""

    def append(self, batches: Buffer, next_offset: int, leader_epoch: int) -> int:
        """Write whole batches behind the segment and index them."""

    def seal(self) -> None:
        """No more appends: the time index gets its final entry."""

    def cut(self, position: int, next_offset: int) -> None:
        """Cut the file of an active segment to ``position``, where ``next_offset`` would begin."""

    def locate(self, offset: int, max_bytes: int, end_offset: int, hint: int = -1) -> FileRegion | None:
        """The `FileRegion` of whole batches from the one that holds ``offset`` on, or None if there is none."""

    def read(self, offset: int, max_bytes: int, end_offset: int, hint: int = -1) -> tuple[bytes, int, int] | None:
        """(bytes of whole batches, position, next offset) from the batch that holds ``offset`` on, or None."""

    def record_at(self, offset: int, name: tuple[str, int], limit: int) -> Record | None:
        """The record at an offset, with no more of its batch than itself, or None."""

    def set_end(self, next_offset: int) -> None:
        """Tell where a sealed segment ends, which its own last batch need not reach."""

    def release(self) -> None:
        """Give back the room that was taken ahead of the end."""

    def close(self) -> None:
        """Let go of the file."""
