"""Age at which the active segment of a log is rolled, less a random jitter, which is another for each segment.

Logs that were opened together would else roll together. Imports settings alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logstore.config.log import LogConfig

if TYPE_CHECKING:
    import random


class RollAge:
    """Part of a `State`, guarded by the log's lock. Owns: when the segment began."""

    def __init__(self, rng: random.Random | None) -> None:
        self._rng = rng  # if None, made when it is needed
        #: When this process began the active segment; -1 if an earlier one did.
        self.began_ms = -1

    def begin(self, now_ms: int) -> None:
        """Record that a segment begins."""
        self.began_ms = now_ms

    def next_ms(self, config: LogConfig) -> int:
        """Return the age in ms at which the active segment is rolled, with a new jitter."""
        age = config.segment_ms
        if config.compacts:
            # Only sealed segments are compacted: a later roll would exceed max.compaction.lag.ms.
            age = min(age, config.max_compaction_lag_ms)
        return age - self._new_jitter(config)

    def _new_jitter(self, config: LogConfig) -> int:
        most = min(config.segment_jitter_ms, config.segment_ms)
        if most and self._rng is None:
            import random  # imported late: it imports hashlib, and few processes need it

            self._rng = random.Random()
        return self._rng.randint(0, most) if self._rng is not None else 0
