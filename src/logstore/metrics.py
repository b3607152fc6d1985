"""What a log counts. Plain numbers, no exporter; reading them costs nothing on the write path."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Counters:
    """Counted by one log since it was opened. Changed under its lock."""

    appended_records: int = 0
    appended_batches: int = 0
    appended_bytes: int = 0
    appends: int = 0
    duplicates: int = 0
    flushes: int = 0  #: rounds of fdatasync
    rolls: int = 0
    truncations: int = 0
    deleted_segments: int = 0
    disk_full: int = 0


@dataclass(frozen=True, slots=True)
class LogMetrics:
    """A log at one moment. Offsets are offsets, sizes are bytes."""

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
    recovered_bytes: int  #: scanned when it was opened
    cut_bytes: int  #: of an unsynced tail, cut when it was opened
    counters: Counters
