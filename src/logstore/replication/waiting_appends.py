"""The appends of one leader that wait for their acks, in the order of their offsets.

Both sets of rules have one. Its caller says how far the high watermark has come; I4 is asserted here: an append is
acknowledged in the leader epoch in which it was made, or not at all.

A signal may strike at any line, since a main thread appends: what is settled leaves the queue afterwards, and is
settled once more if it has not left.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

from logstore.errors import LogstoreError, NotLeaderError
from logstore.replication.api import Acks, Pending


class WaitingAppends:
    """A part of one replica, guarded as it is."""

    def __init__(self) -> None:
        self.pending: deque[Pending] = deque()
        self._forgotten = 0  # since those were last removed

    def __bool__(self) -> bool:
        return bool(self.pending)

    def begin(self, pending: Pending, *, acks: Acks, led: int | None, name: object) -> None:
        """Let an append wait, or settle it at once; ``led`` is the epoch that the replica leads, None if none."""
        if pending.epoch != led:
            pending.settle(NotLeaderError(f"{name}: the leader epoch has changed since the append"))
        elif acks is not Acks.ALL:
            pending.settle()
        else:
            # Repeated batches, and threads that append side by side, come in another order than their offsets.
            last = pending.result.last_offset
            at = bisect_right(self.pending, last, key=lambda each: each.result.last_offset)
            self.pending.insert(at, pending)

    def acknowledge_below(self, mark: int, epoch: int) -> None:
        """Acknowledge those whose records are all below the high watermark, in the epoch that is led."""
        while self.pending and self.pending[0].result.last_offset < mark:
            pending = self.pending[0]
            assert pending.epoch == epoch, ("I4", pending.epoch, epoch)
            pending.settle()
            self.pending.popleft()

    def forget(self, pending: Pending, error: LogstoreError) -> None:
        """Let one fail that has no waiter any more. At most as many stay in the queue as wait."""
        pending.settle(error)
        self._forgotten += 1
        if 2 * self._forgotten >= len(self.pending):
            self.pending = deque(each for each in self.pending if not each.is_settled)
            self._forgotten = 0

    def fail(self, error: LogstoreError) -> None:
        """Let all of them fail."""
        while self.pending:
            self.pending[0].settle(error)
            self.pending.popleft()
