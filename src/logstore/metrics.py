"""Metrics of a log, and of the replicas of a store. Plain values, no exporter; free on the write path."""

from __future__ import annotations

import enum
from collections.abc import Mapping
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


class Role(enum.Enum):
    """What a replica is in its newest leader epoch."""

    LEADER = "leader"
    FOLLOWER = "follower"
    NONE = "none"  #: no state of the registry has come yet, or the node is not assigned


class ReplicaMetrics(NamedTuple):
    """One replica of a node, at one moment."""

    topic: str
    partition: int
    role: Role
    leader: int  #: the number of the node that leads; -1 if there is none
    leader_epoch: int
    isr: tuple[int, ...]  #: the nodes in sync
    replicas: tuple[int, ...]  #: the nodes that the partition is assigned to
    high_watermark: int
    log_end_offset: int
    #: How many records each replica lacks. A leader has an entry for each follower, counted from its own log end. A
    #: follower has one, its own, counted from the high watermark that its leader last named.
    lag: Mapping[int, int]
    lost_records: int  #: that consumers had seen here, and an unclean election has lost, since the node began
    refused_answers: int  #: of leaders: what was no answer, or held something else than was asked for
    #: Why the replica takes no part: its log cannot be opened, or has failed. Empty if nothing is wrong. Of a log
    #: that cannot be opened both offsets are -1, and the role is ``Role.NONE``.
    problem: str = ""


class StoreMetrics(NamedTuple):
    """Metrics of a store at one moment."""

    #: The replicas of the node that runs on the store, sorted by topic and partition. Empty without a node.
    replicas: tuple[ReplicaMetrics, ...]
