"""Counters and metrics of a log. Plain numbers, no exporter; reading them costs nothing on the write path."""

from __future__ import annotations

from typing import NamedTuple


class Counters:
    """Counters of one log since it was opened. Changed under its lock."""

    __slots__ = (
        "appended_batches",
        "appended_bytes",
        "appended_records",
        "appends",
        "deleted_segments",
        "disk_full",
        "duplicates",
        "flushes",
        "rolls",
        "truncations",
    )

    def __init__(self) -> None:
        self.appends = 0
        self.appended_records = 0
        self.appended_batches = 0
        self.appended_bytes = 0
        self.duplicates = 0  #: idempotent appends that had been written before
        self.flushes = 0  #: rounds of fdatasync
        self.rolls = 0
        self.truncations = 0
        self.deleted_segments = 0
        self.disk_full = 0  #: writes that failed for lack of space

    def snapshot(self) -> dict[str, int]:
        """Return the current counts by name."""
        return {name: getattr(self, name) for name in self.__slots__}


class Taken(NamedTuple):
    """Appends, their bytes and their sync time since a log was opened: sums over one log or several."""

    appends: int
    size: int  #: bytes
    sync_s: float  #: how long syncs were under way


class LogMetrics(NamedTuple):
    """Metrics of a log at one moment. Sizes are bytes."""

    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int
    recovery_point: int
    leader_epoch: int
    segment_count: int
    size: int
    producer_count: int
    open_transactions: int
    was_clean: bool  #: the log had been closed cleanly before this open
    recovered_bytes: int  #: bytes scanned when it was opened
    cut_bytes: int  #: bytes of an unsynced tail, truncated when it was opened
    counters: dict[str, int]  #: see `Counters`
