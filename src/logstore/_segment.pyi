from typing_extensions import Buffer, disjoint_base

from logstore._segment_scan import Scanned
from logstore.batch._batch import Record
from logstore.io._file_region import FileRegion

@disjoint_base
class Segment(Scanned):
    """Segment of a log: one `.log` file with its indexes."""

    def append(self, batches: Buffer, next_offset: int, leader_epoch: int) -> int:
        """Append whole batches to the segment and index them."""

    def seal(self) -> None:
        """Seal the segment: add the final entry of the time index; no append may follow."""

    def cut(self, position: int, next_offset: int) -> None:
        """Truncate the file of an active segment to ``position``, where ``next_offset`` would begin."""

    def locate(self, offset: int, max_bytes: int, end_offset: int, hint: int = -1) -> FileRegion | None:
        """Return the `FileRegion` of whole batches from the one that holds ``offset`` on, or None if there is none."""

    def read(self, offset: int, max_bytes: int, end_offset: int, hint: int = -1) -> tuple[bytes, int, int] | None:
        """Read (bytes of whole batches, position, next offset) from the batch that holds ``offset`` on, or None."""

    def record_at(self, offset: int, name: tuple[str, int], limit: int) -> Record | None:
        """Return the record at ``offset``, without the rest of its batch, or None."""

    def set_end(self, next_offset: int) -> None:
        """Set the end offset of a sealed segment; its last batch may end before it."""

    def release(self) -> None:
        """Release the space preallocated past the end."""

    def close(self) -> None:
        """Close the file."""
