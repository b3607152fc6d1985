"""Time, handed in by argument so that a test can own it.

A `Clock` tells wall-clock milliseconds, which go into records and may jump either way, and a
monotonic second count, which drives waiting. Nothing in logstore reads the time elsewhere.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod

__all__ = ["SYSTEM_CLOCK", "Clock", "SystemClock", "seconds_of"]


def seconds_of(timeout_s: float | None, name: str = "timeout_s") -> float | None:
    """Check how long a call may wait: seconds, or None for a wait without end, which infinity is too.

    A negative number is a time that is over already: nothing is waited for.

    >>> seconds_of(1), seconds_of(float("inf"))
    (1.0, None)

    Raises:
        InvalidSettingError: not a number, a bool, or no number at all. No comparison with NaN is true, so that
            a wait for it would never end.
    """
    if timeout_s is None:
        return None
    try:
        if isinstance(timeout_s, bool | str | bytes):
            raise ValueError
        seconds = float(timeout_s)
        if seconds != seconds:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        from logstore.errors import InvalidSettingError  # the fixtures for pytest import nothing but this module

        raise InvalidSettingError({name: f"expected seconds, or None, found {timeout_s!r}"}) from None
    # Longer than a lock can wait, centuries, is without end.
    return None if seconds > threading.TIMEOUT_MAX else seconds


class Clock(ABC):
    """What time it is. Safe from any thread."""

    @abstractmethod
    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC. May go back."""

    @abstractmethod
    def monotonic_s(self) -> float:
        """Seconds from an unspecified start. Never goes back."""

    def deadline_s(self, timeout_s: float | None, name: str = "timeout_s") -> float | None:
        """When a wait that begins now is over, by `monotonic_s`; None if never. Checked by `seconds_of`."""
        seconds = seconds_of(timeout_s, name)
        return None if seconds is None else self.monotonic_s() + seconds

    @abstractmethod
    def wait(self, condition: threading.Condition, timeout_s: float | None) -> bool:
        """Wait on a condition that the caller holds; False if ``timeout_s`` passed first."""


class SystemClock(Clock):
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> bool:
        return condition.wait(timeout_s)


SYSTEM_CLOCK = SystemClock()
