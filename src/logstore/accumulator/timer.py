"""Timer thread: one for all timed work of the process.

The thread runs only while a log with ``flush.ms``, a producer or a buffered appender is open. It sleeps until the
first alarm of these members (`_alarms`), for ever while none is set. An object with a clock other than the
machine's is not ticked by the thread: its user calls `tick`. With a clock of its own, a `Ticker` has no thread, and
its owner calls `tick_due`.

Members are ticked one after the other, each at most once in a pass. A tick that may wait for a sync is left to
another thread (`Ticking._tick_waits`), so that it delays no other member: the timer only looks who is due. Each
member is ticked by one thread at a time.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from functools import partial
from typing import Protocol

from logstore.accumulator._alarms import NEVER, Alarm, Alarms
from logstore.accumulator.task_threads import TaskThreads
from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.io._interrupts import held

_logger = logging.getLogger(__name__)

#: The shortest time from one pass to the next, and after which a member looks again at what it could not do.
PERIOD_S = 0.005

#: Ticks that wait for syncs at the same time.
_WAITING_TICKS = 16


class Ticking(Protocol):
    """A flusher, producer or appender with timed work."""

    @property
    def _tick_waits(self) -> bool:
        """Whether `tick` may wait for a sync."""

    def tick(self) -> None:
        """Do what is due, and set the alarm for what is left."""


class Ticker:
    """Calls `tick` of every member whose alarm is due."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._members = Alarms()
        self._thread: threading.Thread | None = None
        self._threads = TaskThreads("logstore-ticks", _WAITING_TICKS)
        # Of ticks that were left to another thread, and have not ended: whether the member is due once more.
        self._left: dict[Alarm, bool] = {}

    def add(self, member: Ticking, clock: Clock) -> Alarm:
        """Return the alarm of a member, to be set whenever it has something to do.

        A member with another clock than the ticker's is not ticked: its alarm does nothing.
        """
        if clock is not self._clock:
            return NEVER
        with held(self._lock):
            alarm = self._members.add(member)
            # Threads do not survive a fork: a child starts its own.
            if clock is SYSTEM_CLOCK and (self._thread is None or not self._thread.is_alive()):
                self._thread = threading.Thread(target=self._run, name="logstore-ticker", daemon=True)
                self._thread.start()
        return alarm

    def remove(self, member: Ticking) -> None:
        """Stop ticking a member; the thread ends when no member is left."""
        with held(self._lock):
            self._members.discard(member)

    def _run(self) -> None:
        while True:
            began_s = time.thread_time()
            if self.tick_due():
                # At most half of a core: beside a thread that sends to a thousand partitions it would take all of
                # it to write batches of few records, and make more of them.
                time.sleep(max(PERIOD_S, time.thread_time() - began_s))
            with held(self._lock):
                if not len(self._members):
                    self._thread = None
                    return
            self._sleep_until(self._members.begin_sleep())

    def _sleep_until(self, due_s: float) -> None:
        self._members.sleep(due_s - self._clock.monotonic_s())

    def tick_due(self) -> int:
        """Tick the members that are due; return their number."""
        due = self._members.take(self._clock.monotonic_s())
        for alarm in due:
            if self._clock is SYSTEM_CLOCK and self._waits(alarm):
                self._leave(alarm)
            else:
                self._tick(alarm)
        return len(due)

    def _waits(self, alarm: Alarm) -> bool:
        member = alarm.member()
        return alarm in self._left or (member is not None and member._tick_waits)

    def _leave(self, alarm: Alarm) -> None:
        """Have another thread tick a member, or the one that ticks it now do so once more."""
        with held(self._lock):
            is_ticked = alarm in self._left
            self._left[alarm] = is_ticked
        if not is_ticked:
            self._threads.submit(partial(self._tick_left, alarm))

    def _tick_left(self, alarm: Alarm) -> None:
        while True:
            self._tick(alarm)
            with held(self._lock):
                if not self._left.pop(alarm, False):
                    return
                self._left[alarm] = False

    # A function of its own: a reference that its caller keeps would keep a dropped member alive while it sleeps.
    def _tick(self, alarm: Alarm) -> None:
        member = alarm.member()
        if member is None:
            return
        try:
            member.tick()
        except Exception:
            # The member has failed or is closed: the next call to it raises the error.
            _logger.warning("a timed flush failed", exc_info=True)
            self.remove(member)
        except BaseException:
            # As of `sys.exit()` in a callback of a user: it ends no thread of ours.
            _logger.warning("a callback has ended a timed flush", exc_info=True)
            alarm.set(self._clock.monotonic_s() + PERIOD_S)

    def forget(self) -> None:
        """Reset in a forked child: the members are the parent's, and a thread of the parent may hold the lock."""
        self._lock = threading.Lock()
        self._members = Alarms()
        self._thread = None
        self._threads.forget()
        self._left = {}


TICKER = Ticker()
os.register_at_fork(after_in_child=TICKER.forget)
