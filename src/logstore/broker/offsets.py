"""The leader epoch that a client believes in, compared with that of a log."""

from __future__ import annotations

from logstore.log import Log
from logstore.protocol import codes


def epoch_error(log: Log, epoch: int) -> int:
    """Return Kafka's code for the leader epoch that a client believes in; 0 if it is the current one, or -1."""
    current = log.replica.leader_epoch
    if epoch in (-1, current):
        return 0
    return codes.FENCED_LEADER_EPOCH if epoch < current else codes.UNKNOWN_LEADER_EPOCH
