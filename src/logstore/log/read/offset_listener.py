"""Hearing that any of several logs has moved on, without a thread that waits: for an event loop.

Marks of this process call back the moment they move, from whichever thread moves them; a log that another
process writes has to be looked at again, which `must_look` says. `waiting` is the same for threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from logstore.log.read.live_reader import POLL_S, LogReader
from logstore.log.read.reader import Readable
from logstore.log.watermark import Bell
from logstore.records import Isolation


class _Call(Bell):
    """A bell that nobody waits at: it calls."""

    __slots__ = ("_ring",)

    def __init__(self, ring: Callable[[], None]) -> None:
        super().__init__()
        self._ring = ring

    def ring(self) -> None:
        self._ring()


class Listening:
    """Calls ``ring()`` whenever one of the logs moves, from `begin` to `end`. ``ring`` must not block.

    After `begin`, look once whether there is news already (`is_there`): what came before is not heard.
    """

    #: How often to look where nobody calls.
    LOOK_S = POLL_S

    def __init__(
        self, places: Sequence[tuple[Readable, int]], isolation: Isolation, ring: Callable[[], None]
    ) -> None:
        self._bell = _Call(ring)
        self._isolation = isolation
        self._logs = [(log, offset) for log, offset in places if not isinstance(log, LogReader)]
        self._marks = [log._end_mark(isolation) for log, _ in self._logs]
        #: Whether another process writes one of the logs, so that nobody calls.
        self.must_look = len(self._logs) < len(places)

    def begin(self) -> None:
        for mark in self._marks:
            mark.attach(self._bell)

    def is_there(self) -> bool:
        """Whether a log of this process ends elsewhere than where it was last read. Does no I/O."""
        return any(log.end_offset(self._isolation) != offset for log, offset in self._logs)

    def end(self) -> None:
        for mark in self._marks:
            mark.detach(self._bell)
