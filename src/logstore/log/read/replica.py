"""Replica calls that only read: for brokers, which send file regions, and for replicas.

A `ReaderReplica` is made at each use; it refers to the log and owns nothing. Any thread may use it.
"""

from __future__ import annotations

from functools import partial

from logstore._segment import Segment
from logstore.batch.runs import DEFAULT_READ_BYTES
from logstore.io._file_region import FileRegion
from logstore.log.formats.leader_epochs import Epochs
from logstore.log.marks.view import View
from logstore.log.read.timestamps import newest
from logstore.log.read.viewed_log import ViewedLog
from logstore.records import Isolation, TimestampOffset


class ReaderReplica:
    """The calls for brokers and replicas that only read."""

    __slots__ = ("log",)

    def __init__(self, log: ViewedLog) -> None:
        self.log = log

    @property
    def epochs(self) -> Epochs:
        """Leader epochs and their start offsets. A reader in another process may see the newest one late."""
        return self.log._epochs()

    @property
    def generation(self) -> int:
        """A number that changes when records may have been lost: by a truncation, or by opening after a crash."""
        return self.log._generation()

    def locate(
        self,
        offset: int,
        *,
        max_bytes: int = DEFAULT_READ_BYTES,
        isolation: Isolation | str = Isolation.READ_UNCOMMITTED,
    ) -> FileRegion | None:
        """Return the file region of the batches of a read, for a socket to send; None at the end.

        The region pins its file: it stays whole when the segment is deleted. Its bytes are not
        checked; the receiver checks the CRC of each batch.

        Raises:
            OffsetOutOfRangeError: as `Log.read`.
        """
        log, wanted = self.log, Isolation(isolation)

        def locate(view: View, _hold: object) -> FileRegion | None:
            end = view.end_offset(wanted)
            log._check_range(offset, view.log_start_offset, end)
            return located(log, view, offset, max_bytes, end) if offset < end else None

        return log._of_one_moment(locate, log._view())

    def offset_of_max_timestamp(
        self, *, isolation: Isolation | str = Isolation.READ_UNCOMMITTED
    ) -> TimestampOffset | None:
        """Return the record with the largest timestamp that can be seen, or None; of several, the first.

        Kafka's ListOffsets calls this timestamp -3 (KIP-734). The time indexes answer it, and one batch is read.
        Only if newer records are deleted, aborted or not visible yet, the batch headers of their segment are read,
        too. Records without a timestamp do not count.
        """
        log, wanted = self.log, Isolation(isolation)
        return log._of_one_moment(partial(newest, log), log._view(), None, wanted)


def located(log: ViewedLog, view: View, offset: int, max_bytes: int, end: int) -> FileRegion | None:
    """Return the file region of whole batches from ``offset`` up to ``end``; None if no batch is there."""
    found = log._at_segment(view, offset, lambda segment: _located(segment, offset, max_bytes, end), end)
    if found is None:
        log._check_whole(view)
    return None if found is None else found[0]


def _located(segment: Segment, offset: int, max_bytes: int, end: int) -> tuple[FileRegion, int, int] | None:
    found = segment.locate(offset, max_bytes, end)
    return None if found is None else (found, found.position, found.next_offset)
