"""Policies that say how far the high watermark of a log rises.

A `Log` never decides its own high watermark. It asks its policy: `StandalonePolicy` for a log without followers,
one of the replication layer for a log with followers. `_partition_log` has the watermarks themselves.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod

from logstore.config.log import LogConfig


class Moves(enum.IntEnum):
    """What moves the high watermark of a log. All but the first need no Python call under the log's lock."""

    BY_POLICY = 0  #: the policy is asked after each append and each flush
    WITH_END = 1  #: it is the log end offset
    WITH_SYNCED_END = 2  #: it is the offset below which everything is on disk
    FROM_OUTSIDE = 3  #: only `LogReplica.advance_high_watermark` raises it


class HighWatermarkPolicy(ABC):
    """The policy that decides the high watermark of one log.

    `Log.open` takes one, and `LogReplica.set_policy` replaces it, as when a replica becomes leader or follower.
    The high watermark only rises, whichever policy comes; only a truncation lowers it.

    A log with a policy other than `StandalonePolicy` has its leader epochs from the layer that the policy belongs
    to (`LogReplica.begin_epoch`). It begins none by itself, not even after an unclean stop. Its high watermark
    begins, when it is opened, with the one that the root's checkpoint has (Kafka's
    ``replication-offset-checkpoint``), or with the log start offset if that is higher or there is none.
    """

    @property
    def moves(self) -> Moves:
        """What moves the high watermark. It is read once, when the log takes the policy."""
        return Moves.BY_POLICY

    @property
    def leads(self) -> bool:
        """Whether clients may append to this log; a follower's takes only what its leader has.

        It is read once, when the log takes the policy. Without it an append raises `NotLeaderError`.
        """
        return True

    @abstractmethod
    def high_watermark(self, log_end_offset: int, synced_end: int, current: int) -> int:
        """Return the high watermark that the log should have now.

        Called under the log's lock after each append and each flush, so it must not block and must
        not call the log. ``synced_end`` is the offset below which everything is on disk. A result
        below ``current`` changes nothing; one above ``log_end_offset`` is lowered to it. A policy
        that learns of progress at other times calls `LogReplica.advance_high_watermark`.
        Only a policy whose `moves` is `Moves.BY_POLICY` is asked.
        """


class StandalonePolicy(HighWatermarkPolicy):
    """The policy of a log without replicas: records are visible once written, or once synced.

    With ``logstore.visible.after=flush`` or ``logstore.tail=memory``, a record is visible only once it is on disk,
    as in Kafka's paper of 2011.
    """

    def __init__(self, config: LogConfig) -> None:
        self._after_flush = config.visible_after == "flush" or config.tail == "memory"

    @property
    def moves(self) -> Moves:
        if type(self) is not StandalonePolicy:
            return Moves.BY_POLICY  # a subclass may decide otherwise
        return Moves.WITH_SYNCED_END if self._after_flush else Moves.WITH_END

    def high_watermark(self, log_end_offset: int, synced_end: int, current: int) -> int:
        return synced_end if self._after_flush else log_end_offset


class FixedPolicy(HighWatermarkPolicy):
    """The policy of a replica whose layer moves the high watermark in one of the ways that need no Python call.

    >>> FixedPolicy(Moves.FROM_OUTSIDE).high_watermark(log_end_offset=9, synced_end=7, current=3)
    3
    """

    def __init__(self, moves: Moves, *, leads: bool = True) -> None:
        """Move the high watermark that way; `Moves.BY_POLICY` is refused (ValueError)."""
        self._moves, self._leads = Moves(moves), leads
        if self._moves is Moves.BY_POLICY:
            raise ValueError(
                "moves=BY_POLICY needs a policy that is asked: write a subclass of HighWatermarkPolicy"
            )

    @property
    def moves(self) -> Moves:
        return self._moves

    @property
    def leads(self) -> bool:
        return self._leads

    def high_watermark(self, log_end_offset: int, synced_end: int, current: int) -> int:
        by_kind = {Moves.WITH_END: log_end_offset, Moves.WITH_SYNCED_END: synced_end}
        return by_kind.get(self._moves, current)


#: The policy of a replica that does not lead, or does not know yet: clients cannot append.
FOLLOWS = FixedPolicy(Moves.FROM_OUTSIDE, leads=False)


def policy_for(config: LogConfig) -> HighWatermarkPolicy:
    """Return the policy of a log that was opened without one."""
    return FOLLOWS if config.replicated else StandalonePolicy(config)
