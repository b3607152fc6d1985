"""Time, passed as an argument so that a test can control it.

A `Clock` returns wall-clock milliseconds, which are stored in records and may jump either way, and
monotonic seconds, which drive waiting. Nothing in logstore reads the time elsewhere.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from typing import Protocol


def seconds_of(timeout_s: float | None, name: str = "timeout_s") -> float | None:
    """Check how long a call may wait: seconds, or None for a wait without end. Infinity becomes None.

    A negative number is a time that has passed: the call does not wait.

    >>> seconds_of(1), seconds_of(float("inf"))
    (1.0, None)

    Raises:
        InvalidSettingError: NaN, a bool, or not a number. No comparison with NaN is true, so a wait for it
            would never end.
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
    # A lock refuses to wait longer than TIMEOUT_MAX, which is centuries.
    return None if seconds > threading.TIMEOUT_MAX else seconds


def retry_pause_ms(count: int, first_ms: float, longest_ms: float, rng: SourceOfChance) -> float:
    """Return the next pause before a retry in milliseconds, after ``count`` pauses.

    It doubles each time, up to ``longest_ms``, and is then changed at random by up to a fifth.
    """
    # Without the random part, clients that fail together would retry together. Kafka's clients use a fifth, too.
    return min(first_ms * 2.0 ** min(count, 30), longest_ms) * rng.uniform(0.8, 1.2)


class SourceOfChance(Protocol):
    """A `random.Random`, or the module `random`."""

    def uniform(self, a: float, b: float) -> float: ...


class Clock(ABC):
    """A source of time. Safe from any thread."""

    @abstractmethod
    def now_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC. May go back."""

    @abstractmethod
    def monotonic_s(self) -> float:
        """Return seconds from an unspecified start. Never goes back."""

    def deadline_s(self, timeout_s: float | None, name: str = "timeout_s") -> float | None:
        """Return when a wait that begins now ends, by `monotonic_s`; None if never. Checked by `seconds_of`."""
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
