"""Policy that says how far the high watermark of a log rises.

A `Log` never decides its own high watermark. It asks its policy: `StandalonePolicy` for a log without followers,
one of the replication layer for a log with followers. `_partition_log` has the watermarks themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from logstore.config.log import LogConfig


class HighWatermarkPolicy(ABC):
    """The policy that decides the high watermark of one log.

    A log with a policy other than `StandalonePolicy` has its leader epochs from the layer that the policy belongs
    to (`LogReplica.begin_epoch`). It begins none by itself, not even after an unclean stop.
    """

    @abstractmethod
    def high_watermark(self, log_end_offset: int, synced_end: int, current: int) -> int:
        """Return the high watermark that the log should have now.

        Called under the log's lock after each append and each flush, so it must not block and must
        not call the log. ``synced_end`` is the offset below which everything is on disk. A result
        below ``current`` changes nothing; one above ``log_end_offset`` is lowered to it. A policy
        that learns of progress at other times calls `LogReplica.advance_high_watermark`.
        """


class StandalonePolicy(HighWatermarkPolicy):
    """The policy of a log without replicas: records are visible once written, or once synced.

    With ``logstore.visible.after=flush`` or ``logstore.tail=memory``, a record is visible only once it is on disk,
    as in Kafka's paper of 2011.
    """

    def __init__(self, config: LogConfig) -> None:
        self._after_flush = config.visible_after == "flush" or config.tail == "memory"

    def high_watermark(self, log_end_offset: int, synced_end: int, current: int) -> int:
        return synced_end if self._after_flush else log_end_offset


def shown_after(policy: HighWatermarkPolicy) -> tuple[bool, bool]:
    """Return whether a policy shows records once they are written, and whether once they are on disk.

    Neither for a policy of the replication layer: it is asked after each append.
    """
    if type(policy) is not StandalonePolicy:
        return False, False
    after_sync = policy.high_watermark(log_end_offset=1, synced_end=0, current=0) == 0
    return not after_sync, after_sync
