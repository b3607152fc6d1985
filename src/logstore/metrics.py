"""Metrics of a log. Plain numbers, no exporter; reading them costs nothing on the write path."""

from __future__ import annotations

from typing import NamedTuple


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
    counters: dict[str, int]  #: see `logstore.log._partition_log.Counters`
