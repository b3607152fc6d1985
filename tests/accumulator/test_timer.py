"""The timer thread: how long it rests between two passes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from logstore.accumulator import timer
from logstore.clock import SYSTEM_CLOCK


class Worker:
    """A member whose ticks take a set time of a core."""

    def __init__(self, takes_s: float) -> None:
        self.takes_s = takes_s
        self.used_s = 0.0

    def tick(self) -> None:
        self.used_s += self.takes_s


class Rests(threading.Event):
    """Notes how long the timer rests, without the rest; no member is left after three of them."""

    def __init__(self, leave: Callable[[], None]) -> None:
        super().__init__()
        self.found: list[float | None] = []
        self._leave = leave

    def wait(self, timeout: float | None = None) -> bool:
        self.found.append(timeout)
        if len(self.found) == 3:
            self._leave()
        return True


@pytest.mark.parametrize("takes_s, rest_s", [(0.0, timer.PERIOD_S), (0.001, timer.PERIOD_S), (0.25, 0.25)])
def test_the_timer_rests_as_long_as_its_pass_has_taken(
    monkeypatch: pytest.MonkeyPatch, takes_s: float, rest_s: float
) -> None:
    """Else it takes a core of its own, beside a thread that sends to thousands of partitions."""
    worker, ticker = Worker(takes_s), timer.Ticker()
    monkeypatch.setattr(timer, "time", SimpleNamespace(thread_time=lambda: worker.used_s))
    rests = ticker._wake = Rests(lambda: ticker.remove(worker))
    ticker.add(worker, SYSTEM_CLOCK)
    thread = ticker._thread
    if thread is not None:
        thread.join(60)
        assert not thread.is_alive()
    assert rests.found == pytest.approx([timer.PERIOD_S, rest_s, rest_s])
