"""Time, handed in by argument so that a test can own it.

A `Clock` tells wall-clock milliseconds, which go into records and may jump either way, and a
monotonic second count, which drives waiting. Nothing in logstore reads the time elsewhere.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod


class Clock(ABC):
    """What time it is. Safe from any thread."""

    @abstractmethod
    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC. May go back."""

    @abstractmethod
    def monotonic_s(self) -> float:
        """Seconds from an unspecified start. Never goes back."""

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
