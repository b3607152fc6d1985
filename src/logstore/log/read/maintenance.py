"""Maintenance calls that only read: settings and segments of a log.

A `ReaderMaintenance` is made at each use; it refers to the log and owns nothing. Any thread may use it. The log may
be closed: then they are those it had.
"""

from __future__ import annotations

from logstore._segment import Segment
from logstore.config.log import LogConfig
from logstore.log.read.viewed_log import ViewedLog


class ReaderMaintenance:
    """The calls for maintenance that only read: settings and segments of a log."""

    __slots__ = ("log",)

    def __init__(self, log: ViewedLog) -> None:
        self.log = log

    @property
    def config(self) -> LogConfig:
        """The settings as they are now."""
        return self.log._config

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments as they are now, in order, for planning: one may be dropped or cut at any time."""
        return self.log._segments_now()

    @property
    def segment_count(self) -> int:
        return len(self.log._segments_now())

    @property
    def size(self) -> int:
        """Bytes of all segments, without their indexes."""
        return sum(segment.size for segment in self.log._segments_now())

    def check_joined(self, segment: Segment) -> None:
        """Raise if offsets between a segment and the next one were lost.

        Raises:
            DamagedLogError: names them, and how to read on.
        """
        self.log._check_joined(segment)
