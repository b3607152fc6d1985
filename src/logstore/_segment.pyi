from typing import Self

from typing_extensions import Buffer, disjoint_base

from logstore._segment_index import SegmentIndex
from logstore._segment_scan import Extent
from logstore.batch._batch import Record
from logstore.io._file_region import FileRegion
from logstore.io._files import File

@disjoint_base
class Segment:
    """Segment of a log: one `.log` file with its indexes."""

    def __new__(
        cls,
        file: File,
        base_offset: int,
        *,
        index_interval_bytes: int = 4096,
        size: int = 0,
        next_offset: int = -1,
        sealed: bool = False,
        growth: object = None,
    ) -> Self: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def file(self) -> File: ...
    @property
    def index(self) -> SegmentIndex: ...
    @property
    def path(self) -> str:
        """Path of the file, also after it was renamed."""

    @property
    def size(self) -> int:
        """Bytes of the valid part of the file."""

    @property
    def next_offset(self) -> int:
        """Offset after the last batch; -1 if it is not known."""

    @property
    def sealed(self) -> bool:
        """Whether no append may follow."""

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

    def record_at(
        self, offset: int, name: tuple[str, int], limit: int, *, committed: bool = False
    ) -> Record | None:
        """Return the record at ``offset``, without the rest of its batch, or None."""

    def scan(
        self,
        position: int = 0,
        *,
        next_offset: int = -1,
        end: int = -1,
        check: bool = True,
        adopt: bool = False,
    ) -> Extent:
        """Scan the batches from ``position`` on; see `logstore._segment_scan.scan`."""

    def extend(self, end_offset: int) -> None:
        """Add batches that another process has appended; see `logstore._segment_scan.extend`."""

    def behind(self, position: int, limit: int, since: int = -1) -> tuple[int, int] | None:
        """Return the first trustworthy batch after damage, or None; see `logstore._segment_scan.behind`."""

    def set_end(self, next_offset: int) -> None:
        """Set the end offset of a sealed segment; its last batch may end before it."""

    def release(self) -> None:
        """Release the space preallocated past the end."""

    def close(self) -> None:
        """Close the file."""
