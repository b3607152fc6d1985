"""A clock that stands still until a test moves it.

It is the time of every object that it is passed to. Any thread may read it, move it and wait by it.
"""

from __future__ import annotations

import math
import threading

from logstore.clock import Clock

#: 2026-01-01 00:00 UTC: easy to recognize as a time in a failing test.
START_MS = 1_767_225_600_000


class ManualClock(Clock):
    """A clock that only a test moves; the machine's time has no effect on it.

    ``now_ms`` is the wall clock at the start. `advance` moves wall clock and monotonic time together;
    `set_now_ms` moves the wall clock alone, also back, as an operator or NTP may.

    A wait with a timeout returns at once. If no thread has notified the condition, both clocks move to the end
    of the wait: a test of a timeout takes no time. With ``skip_waits=False`` such a wait lasts until another
    thread notifies the condition or calls `advance`, even by less than the timeout. The wait returns False if
    its timeout has passed by then. A wait without a timeout always lasts until the condition is notified.

    >>> clock = ManualClock(1_000)
    >>> clock.advance(250)
    >>> clock.now_ms(), clock.monotonic_s()
    (1250, 0.25)
    """

    def __init__(self, now_ms: int = START_MS, *, skip_waits: bool = True) -> None:
        self._guard = threading.Lock()
        self._now_ms = now_ms
        self._passed_ms = 0.0
        self._skip_waits = skip_waits
        self._waiting: list[threading.Condition] = []

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return self._passed_ms / 1000

    def set_now_ms(self, now_ms: int) -> None:
        """Set the wall clock, forward or back. Monotonic time does not change."""
        with self._guard:
            self._now_ms = now_ms

    def advance(self, ms: float) -> None:
        """Advance both clocks by ``ms`` milliseconds, and wake the threads that wait with a timeout.

        Raises:
            ValueError: ``ms`` is negative, infinite or NaN; only `set_now_ms` moves a clock back.
        """
        if not 0 <= ms < math.inf:
            raise ValueError(f"the time passes forward, found {ms} ms; set_now_ms moves the wall clock back")
        with self._guard:
            before = int(self._passed_ms)
            self._passed_ms += ms
            self._now_ms += int(self._passed_ms) - before
            waiting = list(self._waiting)
        for condition in waiting:
            with condition:
                condition.notify_all()

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> bool:
        if timeout_s is None:
            return condition.wait()
        if self._skip_waits:
            # Even a wait of 0 s releases the lock: else a thread that is about to notify could never take it.
            if condition.wait(0):
                return True
            with self._guard:
                before = int(self._passed_ms)
                self._passed_ms += timeout_s * 1000
                self._now_ms += int(self._passed_ms) - before
            return False
        deadline = self.monotonic_s() + timeout_s
        with self._guard:
            self._waiting.append(condition)
        try:
            # An advance before the condition was listed did not notify it: this thread would sleep for ever.
            if self.monotonic_s() < deadline:
                condition.wait()
        finally:
            with self._guard:
                self._waiting.remove(condition)
        return self.monotonic_s() < deadline

    def __repr__(self) -> str:
        return f"<ManualClock {self._now_ms} ms>"
