"""Waiting until any of several logs has moved on, by a thread (`wait_for_any`) or an event loop (`OffsetListener`).

Marks of this process notify the waiter; a log that another process writes is looked at again every 10 ms, sooner
where inotify speaks of the first of them; an event loop is told by `must_look` that it has to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from logstore.clock import Clock, SystemClock
from logstore.log.read.live_reader import POLL_S, LogReader
from logstore.log.read.reader import Readable
from logstore.log.watermark import Notifier
from logstore.records import Isolation


def wait_for_any(
    places: Sequence[tuple[Readable, int]],
    isolation: Isolation,
    notifier: Notifier,
    clock: Clock,
    timeout_s: float | None = None,
) -> bool:
    """Block until the end of one of the logs is another than the offset beside it, or ``notifier`` rings.

    An end that has fallen counts too: a truncation is news. False if ``timeout_s`` has passed first.
    """
    marks = [log._end_mark(isolation) for log, _ in places if not isinstance(log, LogReader)]
    readers = [(log, offset) for log, offset in places if isinstance(log, LogReader)]
    deadline = clock.deadline_s(timeout_s)
    for mark in marks:
        mark.attach(notifier)
    try:
        while not any(log.end_offset(isolation) != offset for log, offset in places):
            left = None if deadline is None else deadline - clock.monotonic_s()
            if left is not None and left <= 0:
                return False
            if not readers:
                if notifier.wait(left):
                    return True
                continue
            step = POLL_S if left is None else min(left, POLL_S)
            if marks or not isinstance(clock, SystemClock):
                # A clock that a test moves says itself how a wait passes.
                rung = notifier.wait(step)
            else:
                rung = notifier.wait(0)
                if not rung:
                    readers[0][0]._wait_for_writer(step)
            if rung:
                return True
        return True
    finally:
        for mark in marks:
            mark.detach(notifier)


class _Call(Notifier):
    """A notifier without a waiter: it calls."""

    __slots__ = ("_notify",)

    def __init__(self, notify: Callable[[], None]) -> None:
        super().__init__()
        self._notify = notify

    def notify(self) -> None:
        self._notify()


class OffsetListener:
    """Calls ``notify()`` whenever one of the logs moves, from `begin` to `end`. ``notify`` must not block.

    After `begin`, look once whether there is news already (`is_there`): what came before is not heard.
    """

    #: How often to look where nobody calls.
    LOOK_S = POLL_S

    def __init__(
        self, places: Sequence[tuple[Readable, int]], isolation: Isolation, notify: Callable[[], None]
    ) -> None:
        self._notifier = _Call(notify)
        self._isolation = isolation
        self._logs = [(log, offset) for log, offset in places if not isinstance(log, LogReader)]
        self._marks = [log._end_mark(isolation) for log, _ in self._logs]
        #: Whether another process writes one of the logs, so that nobody calls.
        self.must_look = len(self._logs) < len(places)

    def begin(self) -> None:
        for mark in self._marks:
            mark.attach(self._notifier)

    def is_there(self) -> bool:
        """Whether a log of this process ends elsewhere than where it was last read. Does no I/O."""
        return any(log.end_offset(self._isolation) != offset for log, offset in self._logs)

    def end(self) -> None:
        for mark in self._marks:
            mark.detach(self._notifier)
