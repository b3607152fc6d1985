"""Waiting until any of several logs has moved, by a thread (`wait_for_any`) or an event loop (`OffsetListener`).

The watermarks of logs of this process notify the waiter. Logs that another process writes are polled every 10 ms.
If all are such logs, inotify ends a wait sooner when the first of them changes. `must_look` tells an event loop
to poll.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from logstore.clock import Clock, SystemClock
from logstore.log._partition_log import Notifier
from logstore.log.read.live_reader import POLL_S, LogReader
from logstore.log.read.reader import Readable
from logstore.records import Isolation


def wait_for_any(
    places: Sequence[tuple[Readable, int]],
    isolation: Isolation,
    notifier: Notifier,
    clock: Clock,
    timeout_s: float | None = None,
) -> bool:
    """Block until the end of one log differs from the offset beside it, or ``notifier`` is notified.

    An end that a truncation has lowered differs, too. Returns False if ``timeout_s`` passes first.
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
                # Only the notifier waits by the given clock, such as that of a test.
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
    """A notifier that calls a function instead of waking a waiter."""

    __slots__ = ("_notify",)

    def __init__(self, notify: Callable[[], None]) -> None:
        super().__init__()
        self._notify = notify

    def notify(self) -> None:
        self._notify()


class OffsetListener:
    """Calls ``notify()`` whenever one of the logs moves, from `begin` to `end`. ``notify`` must not block.

    After `begin`, check `is_there` once: changes before `begin` are not notified.
    """

    #: The polling period of logs without notification.
    LOOK_S = POLL_S

    def __init__(
        self, places: Sequence[tuple[Readable, int]], isolation: Isolation, notify: Callable[[], None]
    ) -> None:
        self._notifier = _Call(notify)
        self._isolation = isolation
        self._logs = [(log, offset) for log, offset in places if not isinstance(log, LogReader)]
        self._marks = [log._end_mark(isolation) for log, _ in self._logs]
        #: Whether another process writes one of the logs, so that the caller has to poll.
        self.must_look = len(self._logs) < len(places)

    def begin(self) -> None:
        for mark in self._marks:
            mark.attach(self._notifier)

    def is_there(self) -> bool:
        """Return whether the end of a log of this process differs from its offset. Does no I/O."""
        return any(log.end_offset(self._isolation) != offset for log, offset in self._logs)

    def end(self) -> None:
        for mark in self._marks:
            mark.detach(self._notifier)
