"""What the logs of a partition hold below their high watermarks (I2) and where they start (I12), at each step.

Each log is compared when its high watermark has moved, by the bytes that are new below it: a step reads few.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from logstore.log import Log
from logstore.replication.api import NodeId
from logstore.testing.simdisk import SimDisk

_HEADER = 12  #: of a batch: base offset and size of what follows


class ContentJudge:
    """Judges the contents of one partition's logs. ``fail`` raises, with the name of what does not hold, and how.

    Without ``compares`` only the log start offsets are judged: compacted copies differ.
    """

    def __init__(self, fail: Callable[[str, str], NoReturn], *, compares: bool) -> None:
        self._fail = fail
        self._compares = compares
        self._bytes = bytearray()  # the batches that have been below a high watermark, as the first log had them
        self._positions = {0: 0}  # base offset -> position in them; the last one is their end
        self._seen: dict[NodeId, tuple[Log, int, int]] = {}  # log, log start and high watermark at the last look
        self.deleted_end = 0  #: below it records may be missing, as they were deleted

    def note_deleted(self, node: NodeId, start: int, high_watermark: int) -> None:
        """The log of a node has been told to delete what is below ``start``; the high watermark was that."""
        if start > high_watermark:
            self._fail("I12", f"node {node} deletes up to {start}, and its high watermark is {high_watermark}")
        self.deleted_end = max(self.deleted_end, start)

    def look(self, node: NodeId, log: Log, disk: SimDisk) -> None:
        """Judge what is new in a log."""
        start, mark = log.log_start_offset, log.high_watermark
        known = self._seen.get(node)
        if known == (log, start, mark):
            return
        self._seen[node] = (log, start, mark)
        if start > self.deleted_end or start > mark:
            self._fail(
                "I12",
                f"the log of node {node} starts at {start}, its high watermark is {mark}, and nothing was deleted "
                f"above {self.deleted_end}",
            )
        if not self._compares:
            return
        done = start if known is None or known[0] is not log else max(start, min(known[2], mark))
        if done < mark:
            # Also while the disk is about to fail.
            disk.spares = True
            try:
                self._compare_up_to(mark, done, node, log)
            finally:
                disk.spares = False

    def _compare_up_to(self, mark: int, offset: int, node: NodeId, log: Log) -> None:
        while offset < mark:
            region = log.replica.fetch_region(offset).region
            if region is None:
                self._fail("I2", f"node {node} has nothing at offset {offset}, its high watermark is {mark}")
            self._compare(node, bytes(region.read()))
            offset = region.next_offset
            region.close()

    def _compare(self, node: NodeId, batches: bytes) -> None:
        """Compare whole batches with what another log had below its high watermark, or note them."""
        first = int.from_bytes(batches[:8], "big")
        position = self._positions.get(first)
        if position is None:
            self._fail("I2", f"node {node} has a batch at offset {first}, where other logs have none")
        size = min(len(batches), len(self._bytes) - position)
        if self._bytes[position : position + size] != batches[:size]:
            at = next(at for at in range(size) if self._bytes[position + at] != batches[at])
            offset = max(each for each, place in self._positions.items() if place <= position + at)
            self._fail(
                "I2",
                f"node {node} has other bytes at offset {offset}, below its high watermark, than a log that had it "
                "there before",
            )
        while size < len(batches):
            end = size + _HEADER + int.from_bytes(batches[size + 8 : size + _HEADER], "big")
            last = int.from_bytes(batches[size : size + 8], "big") + int.from_bytes(
                batches[size + 23 : size + 27], "big"
            )
            self._bytes += batches[size:end]
            self._positions[last + 1] = len(self._bytes)
            size = end
