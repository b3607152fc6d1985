"""View: the segments and marks of a log, all of one moment. A read takes one view and works on it alone.

The value never changes. Its segments may be removed or cut later; `generation` then tells a read that what it found
may be of two moments. A `FetchedRegion` has the marks of the moment of a fetch.
"""

from __future__ import annotations

from typing import NamedTuple

from logstore._segment import Segment
from logstore.io._file_region import FileRegion
from logstore.records import AbortedTransaction, Isolation

_COMMITTED = Isolation.READ_COMMITTED

#: The generation of a view that may be of two moments: what is found in it does not
#: count. It is odd, as during a change.
UNSETTLED = -3


class View(NamedTuple):
    """One moment of a log."""

    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int
    segments: tuple[Segment, ...]
    generation: int  #: changes with every truncation and segment swap, at its begin and end; odd during one

    def end_offset(self, isolation: Isolation) -> int:
        """Return the end of the records visible to a reader of that isolation, exclusive."""
        return self.last_stable_offset if isolation is _COMMITTED else self.high_watermark


class FetchedRegion(NamedTuple):
    """What `LogReplica.fetch_region` has found, all of one moment."""

    region: FileRegion | None  #: None if no batch may be seen from the offset on
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    #: The aborted transactions that touch the region, for a reader with read_committed.
    aborted: tuple[AbortedTransaction, ...]
