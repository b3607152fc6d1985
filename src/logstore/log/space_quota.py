"""Disk-space quota: how many bytes a log may write before it must reserve more.

A `Log` counts down what it has reserved and asks again when that is used up, so an append costs one
comparison. It asks `UnlimitedSpace` if it stands alone, and the disk budget of its store if there is one.
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

        Called under the log's lock, so it must not block on a disk and must not call any log. What is
        reserved and not used is given back when the log is closed.

        Raises:
            DiskFullError: there is no room for so much.
        """

    @abstractmethod
    def reclaim(self, needed: int) -> bool:
        """Delete what may be deleted to free ``needed`` bytes; return whether to try the append again.

        Called after a `DiskFullError`, without any lock, in the thread that appends. May delete old
        segments of any log, as its owner's rules allow.
        """


class UnlimitedSpace(SpaceQuota):
    """The quota of a log that stands alone: the disk itself says when it is full."""

    # A small number for Python: counting down a large one costs twice as much.
    _PLENTY = 1 << 29

    def reserve(self, needed: int) -> int:
        return max(needed, self._PLENTY)

    def reclaim(self, needed: int) -> bool:
        return False


def with_room(quota: SpaceQuota, needed: int, write: Callable[[], _Answer]) -> _Answer:
    """What ``write`` returns; it is called once more if there was no room and the quota could reclaim some.

    For who holds no lock: making room takes those of other logs.
    """
    try:
        return write()
    except DiskFullError:
        if not quota.reclaim(needed):
            raise
    return write()
