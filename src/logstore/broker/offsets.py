"""The leader epochs that a client names, compared with those of a log."""

from __future__ import annotations

from logstore.log import Log
from logstore.protocol import codes


def epoch_error(log: Log, epoch: int) -> int:
    """Return Kafka's code for the leader epoch that a client believes in; 0 if it is the current one, or -1."""
    current = log.replica.leader_epoch
    if epoch in (-1, current):
        return 0
    return codes.FENCED_LEADER_EPOCH if epoch < current else codes.UNKNOWN_LEADER_EPOCH


def end_of_epoch(log: Log, epoch: int) -> tuple[int, int]:
    """Return the newest epoch up to one, and the offset at which its records end; (-1, -1) if it is not known.

    The table of a new log has no epoch: the present one is in it from the first record on.
    """
    end = log.log_end_offset
    return (epoch, end) if epoch == log.replica.leader_epoch else log.replica.epochs.end_offset_for(epoch, end)
