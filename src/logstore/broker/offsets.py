"""The leader epoch that a client believes in, compared with that of a log."""

from __future__ import annotations

from logstore.log import Log

UNKNOWN_LEADER_EPOCH = 75
FENCED_LEADER_EPOCH = 74


def epoch_error(log: Log, epoch: int) -> int:
    """Return Kafka's code for the leader epoch that a client believes in; 0 if it is the current one, or -1."""
    current = log.replica.leader_epoch
    if epoch in (-1, current):
        return 0
    return FENCED_LEADER_EPOCH if epoch < current else UNKNOWN_LEADER_EPOCH
