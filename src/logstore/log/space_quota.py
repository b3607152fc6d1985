"""Disk-space quota: how many bytes a log may write before it must reserve more.

A `Log` counts its reservation down and reserves again when it is used up, so an append costs one comparison.
A standalone log asks `UnlimitedSpace`, a log of a store with a disk budget asks that.
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

        Called under the log's lock, so it must not block on a disk and must not call any log. Unused
        bytes are given back when the log is closed.

        Raises:
            DiskFullError: there is no room for ``needed`` bytes.
        """

    @abstractmethod
    def reclaim(self, needed: int) -> bool:
        """Delete old segments to free ``needed`` bytes; return whether to retry the append.

        Called after a `DiskFullError`, without any lock, in the thread that appends. May delete old
        segments of any log, as its owner's rules allow.
        """


class UnlimitedSpace(SpaceQuota):
    """The quota of a standalone log: the disk itself is the limit."""

    # A small number for Python: counting down a large one costs twice as much.
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
