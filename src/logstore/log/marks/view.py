"""View: the segments and marks of a log, all of one moment. A read takes one view and works on it alone.

The value never changes. Its segments may be removed or cut later; `generation` then tells a read that what it found
may be of two moments.
"""

from __future__ import annotations

from typing import NamedTuple

from logstore._segment import Segment
from logstore.records import Isolation

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
