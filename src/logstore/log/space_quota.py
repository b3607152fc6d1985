"""Who says how much a log may still write, when a disk is shared: the gate of a log.

A `Log` counts down what it was granted and asks again when that is used up, so an append costs one
comparison. It asks `OpenGate` if it stands alone, and the disk budget of its store if there is one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from logstore.errors import DiskFullError

_Answer = TypeVar("_Answer")


class Gate(ABC):
    """Grants bytes to one log."""

    @abstractmethod
    def grant(self, needed: int) -> int:
        """At least ``needed`` bytes more that the log may write.

        Called under the log's lock, so it must not block on a disk and must not call any log. What is
        granted and not used goes back when the log is closed.

        Raises:
            DiskFullError: there is no room for so much.
        """

    @abstractmethod
    def make_room(self, needed: int) -> bool:
        """Try to make room for ``needed`` bytes; whether another try to append is worth while.

        Called after a `DiskFullError`, without any lock, in the thread that appends. May delete old
        segments of any log, as its owner's rules allow.
        """


class OpenGate(Gate):
    """The gate of a log that stands alone: the disk itself says when it is full."""

    # A small number for Python: counting down a large one costs twice as much.
    _PLENTY = 1 << 29

    def grant(self, needed: int) -> int:
        return max(needed, self._PLENTY)

    def make_room(self, needed: int) -> bool:
        return False


def with_room(gate: Gate, needed: int, write: Callable[[], _Answer]) -> _Answer:
    """What ``write`` returns; it is called once more if there was no room and the gate could make some.

    For who holds no lock: making room takes those of other logs.
    """
    try:
        return write()
    except DiskFullError:
        if not gate.make_room(needed):
            raise
    return write()
