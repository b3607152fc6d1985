"""Waiting until any of several logs has moved, by a thread or an event loop.

The watermarks of logs of this process notify the waiter, which registers with each once. Logs that another process
writes are polled every 10 ms. If all are such logs, inotify ends a wait sooner when the first of them changes.
`must_look` tells an event loop to poll.
"""

from __future__ import annotations

from collections.abc import Sequence

from logstore.clock import Clock, SystemClock
from logstore.io._notifier import Notifier
from logstore.log.marks._watermark import Registration
from logstore.log.read.live_reader import POLL_S, LogReader
from logstore.log.read.reader import Readable
from logstore.records import Isolation


class OffsetListener:
    """The wait of one reader for the ends of many logs. Used by one thread at a time.

    A log that has not moved costs a wait one comparison: its registration stays armed from one wait to the next.
    The registrations end with the listener.
    """

    #: The polling period of logs without notification.
    LOOK_S = POLL_S

    def __init__(self, isolation: Isolation, notifier: Notifier, clock: Clock) -> None:
        self._isolation = isolation
        self._notifier = notifier
        self._clock = clock
        self._registrations: dict[Readable, Registration] = {}
        self._readers: list[tuple[LogReader, int]] = []

    @property
    def must_look(self) -> bool:
        """Whether another process writes one of the logs of the last `begin`, so that the caller has to poll."""
        return bool(self._readers)

    def begin(self, places: Sequence[tuple[Readable, int]]) -> bool:
        """Have the notifier notified once the end of a log of this process differs from the offset beside it.

        An end that a truncation has lowered differs, too. Returns False if one differs now, or a log is closed.
        Does no I/O. Logs of an earlier call that are not among these notify no more.
        """
        known = self._registrations
        self._readers = [(log, offset) for log, offset in places if isinstance(log, LogReader)]
        for log, offset in places:
            registration = known.get(log)
            if registration is None:
                if isinstance(log, LogReader):
                    continue
                registration = Registration(log._end_mark(self._isolation), self._notifier)
                known[log] = registration
            if not registration.arm_while(offset):
                return False
        if len(known) > len(places) - len(self._readers):
            named = {log for log, _ in places}
            self._registrations = {log: each for log, each in known.items() if log in named}
        return True

    def wait(self, places: Sequence[tuple[Readable, int]], timeout_s: float | None = None) -> bool:
        """Block until the end of one log differs from the offset beside it, or the notifier is notified.

        Returns False if ``timeout_s`` passes first.
        """
        deadline = self._clock.deadline_s(timeout_s)
        if not self.begin(places):
            return True
        if not self._readers:
            return self._notifier.wait(self._left_s(deadline))
        while not any(log.end_offset(self._isolation) != offset for log, offset in self._readers):
            left = self._left_s(deadline)
            if left is not None and left <= 0:
                return False
            if self._look_later(POLL_S if left is None else min(left, POLL_S)):
                return True
        return True

    def _look_later(self, step_s: float) -> bool:
        """Wait for a part of the polling period; return whether the notifier was notified."""
        if self._registrations or not isinstance(self._clock, SystemClock):
            # Only the notifier waits by the given clock, such as that of a test.
            return self._notifier.wait(step_s)
        if self._notifier.wait(0):
            return True
        self._readers[0][0]._wait_for_writer(step_s)
        return False

    def _left_s(self, deadline: float | None) -> float | None:
        return None if deadline is None else deadline - self._clock.monotonic_s()
