from typing import final

from logstore.clock import Clock
from logstore.log.marks._watermark import LogLock, Watermark

@final
class LogMarks:
    """The five offsets that say what of a log is there, visible and on disk."""

    @property
    def log_start(self) -> int: ...
    @property
    def last_stable(self) -> Watermark: ...
    @property
    def high_watermark(self) -> Watermark: ...
    @property
    def end(self) -> Watermark: ...
    @property
    def synced(self) -> Watermark: ...
    def __init__(
        self, log_start: int, end: int, synced: int, visible: int, clock: Clock, lock: LogLock | None
    ) -> None: ...
    def raise_visible(self, high_watermark: int, last_stable: int) -> bool:
        """Raise the ends of what readers see; a lower one changes nothing. Return whether one of them has risen."""

    def raise_synced(self, offset: int) -> int:
        """Raise the synced end: everything below ``offset`` is on disk."""

    def lower_synced(self, offset: int) -> None:
        """Lower the synced end for a truncation, or set it back if nothing was truncated."""

    def raise_start(self, offset: int) -> None:
        """Raise the log start offset: records below it are deleted."""

    @property
    def cuts(self) -> int: ...
    @property
    def lowering(self) -> bool: ...
    def begin_lowering(self) -> None:
        """Record that a truncation has begun: until `lower`, `restart` or `end_lowering` no read may begin."""

    def end_lowering(self) -> None:
        """Record that the truncation is over, or was given up."""

    def was_cut(self, end: int, since: int) -> bool:
        """Return whether records up to ``end``, appended after ``since`` cuts, were removed by a later one."""

    def lower(self, end: int, stable: int) -> None:
        """Lower the log end offset to that of a truncation, and to it all marks; the last stable one to ``stable``."""

    def restart(self, offset: int) -> None:
        """Set every mark to the one offset of an empty log."""

    def close(self) -> None:
        """Notify every waiter; no later wait blocks."""
