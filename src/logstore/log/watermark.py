"""Watermark: an offset that a thread can read and wait for; and the policy that decides the high watermark.

Readers wait here for new records, so a log needs no callbacks. The value of a watermark is read without a lock. It
is set after the bytes below it have been written. A `Log` does not decide its own high watermark, but asks its
policy: `StandalonePolicy` for a log without followers, a policy of the replication layer for one with followers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.config.log import LogConfig
from logstore.io._interrupts import Condition, held


class Notifier:
    """Wakes one waiting thread, for several watermarks and for other threads that call `notify`.

    A notification is kept until the next `wait`, so none is missed between a check and the wait that follows it.
    """

    __slots__ = ("_changed", "_clock", "_rung")

    def __init__(self, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._changed = Condition()
        self._rung = False

    def notify(self) -> None:
        """Wake the waiter, or let the next `wait` return at once."""
        with held(self._changed):
            self._rung = True
            self._changed.notify_all()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until notified; return False on timeout."""
        deadline = self._clock.deadline_s(timeout_s)
        with held(self._changed):
            while not self._rung:
                left = None if deadline is None else deadline - self._clock.monotonic_s()
                if left is not None and left <= 0:
                    return False
                self._clock.wait(self._changed, left)
            self._rung = False
            return True


class Watermark:
    """An offset that only its owner moves. Any thread may read it and wait for it.

    >>> mark = Watermark(5)
    >>> mark.advance(8)
    True
    >>> mark.wait_for(8, timeout_s=0)
    True
    """

    __slots__ = ("_changed", "_clock", "_closed", "_notifiers", "_waiters", "value")

    def __init__(self, value: int, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.value = value  #: the offset; only `advance` and `reset` set it, and it falls only by `reset`
        self._clock = clock
        self._changed = Condition()
        self._waiters = 0
        self._closed = False
        self._notifiers: tuple[Notifier, ...] = ()

    def advance(self, value: int) -> bool:
        """Raise the offset to ``value`` and return whether it rose; a lower ``value`` changes nothing."""
        if value <= self.value:
            return False
        self.value = value
        # No wakeup is missed: a waiter counts itself before it reads the value, so one of the two sees the other.
        if self._waiters:
            self.wake()
        return True

    def reset(self, value: int) -> None:
        """Set the offset, even to a lower value, after a truncation."""
        self.value = value
        self.wake()

    def wait_for(self, value: int, timeout_s: float | None = None) -> bool:
        """Block until the offset is at least ``value``; return False on timeout or if the watermark is closed."""
        return self.value >= value or self._wait(lambda now: now >= value, timeout_s)

    def wait_while(self, value: int, timeout_s: float | None = None) -> bool:
        """Block until the offset differs from ``value``, higher or lower; return False as `wait_for`.

        For a reader at the log's end: a truncation must wake this reader, too.
        """
        return self.value != value or self._wait(lambda now: now != value, timeout_s)

    def _wait(self, is_reached: Callable[[int], bool], timeout_s: float | None) -> bool:
        deadline = self._clock.deadline_s(timeout_s)
        with held(self._changed):
            self._waiters += 1
            try:
                while not is_reached(self.value):
                    left = None if deadline is None else deadline - self._clock.monotonic_s()
                    if self._closed or (left is not None and left <= 0):
                        return False
                    self._clock.wait(self._changed, left)
                return True
            finally:
                self._waiters -= 1

    def attach(self, notifier: Notifier) -> None:
        """Notify ``notifier`` whenever the offset changes, until `detach`; for a thread that waits on several."""
        with held(self._changed):
            self._notifiers += (notifier,)
            self._waiters += 1

    def detach(self, notifier: Notifier) -> None:
        """Stop notifying ``notifier``."""
        with held(self._changed):
            if notifier in self._notifiers:
                self._notifiers = tuple(other for other in self._notifiers if other is not notifier)
                self._waiters -= 1

    def close(self) -> None:
        """Wake every waiter; no later wait blocks."""
        self._closed = True
        self.wake()

    def wake(self) -> None:
        """Make every waiter check the offset again: needed after an interrupt in `advance`."""
        with held(self._changed):
            self._changed.notify_all()
        # Outside this lock: `notify` acquires the notifier's own lock, and the two need not be held together.
        for notifier in self._notifiers:
            notifier.notify()

    def __repr__(self) -> str:
        return f"<Watermark {self.value}>"


class HighWatermarkPolicy(ABC):
    """The policy that decides the high watermark of one log."""

    @abstractmethod
    def high_watermark(self, log_end_offset: int, synced_end: int, current: int) -> int:
        """Return the high watermark that the log should have now.

        Called under the log's lock after each append and each flush, so it must not block and must
        not call the log. ``synced_end`` is the offset below which everything is on disk. A result
        below ``current`` changes nothing; one above ``log_end_offset`` is lowered to it. A policy
        that learns of progress at other times calls `LogReplica.advance_high_watermark`.
        """


class StandalonePolicy(HighWatermarkPolicy):
    """The policy of a log without replicas: records are visible once written, or once synced.

    With ``logstore.visible.after=flush`` or ``logstore.tail=memory``, a record is visible only once it is on disk,
    as in Kafka's paper of 2011.
    """

    def __init__(self, config: LogConfig) -> None:
        self._after_flush = config.visible_after == "flush" or config.tail == "memory"

    def high_watermark(self, log_end_offset: int, synced_end: int, current: int) -> int:
        return synced_end if self._after_flush else log_end_offset
