"""Disk-space quota: how many bytes a log may write before it must reserve more.

A `Log` counts its reservation down and reserves again when it is used up, so an append costs one comparison.
A standalone log has `UnlimitedSpace`. A log of a store has the quota of that store's disk budget and reserve.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from logstore.errors import DiskFullError

_Answer = TypeVar("_Answer")


class SpaceQuota(ABC):
    """The quota of one log."""

    @abstractmethod
    def reserve(self, needed: int) -> int:
        """Reserve at least ``needed`` bytes more for the log, and return how many.

        Called under the log's lock, so it must not block on a disk and must not call any log. When the log is
        closed, its unused bytes no longer count as reserved.

        Raises:
            DiskFullError: there is no space for ``needed`` bytes.
        """

    @abstractmethod
    def reclaim(self, needed: int) -> bool:
        """Delete old segments to free ``needed`` bytes; return whether to retry the append.

        Called after a `DiskFullError`, without any lock, in the thread that appends or flushes. May delete old
        segments of any log of the store, within the rules of its disk budget.
        """


class UnlimitedSpace(SpaceQuota):
    """The quota of a standalone log: the disk itself is the limit."""

    # Below 2^30, where Python's integers have one digit: counting down a larger one costs twice as much.
    _PLENTY = 1 << 29

    def reserve(self, needed: int) -> int:
        return max(needed, self._PLENTY)

    def reclaim(self, needed: int) -> bool:
        return False


def with_space(quota: SpaceQuota, needed: int, write: Callable[[], _Answer]) -> _Answer:
    """Call ``write`` and return its result; retry once if the disk was full and the quota reclaimed space.

    The caller must hold no lock: reclaiming takes those of other logs.
    """
    try:
        return write()
    except DiskFullError:
        if not quota.reclaim(needed):
            raise
    return write()
