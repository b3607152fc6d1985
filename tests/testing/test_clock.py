"""The clock that tests move."""

from __future__ import annotations

import threading

import pytest

from logstore.log.marks._watermark import Watermark
from logstore.testing import ManualClock


def test_both_times_pass_together_and_only_when_moved():
    clock = ManualClock(5_000)
    clock.advance(1_500)
    assert (clock.now_ms(), clock.monotonic_s()) == (6_500, 1.5)
    assert (clock.now_ms(), clock.monotonic_s()) == (6_500, 1.5)


def test_parts_of_a_millisecond_add_up():
    clock = ManualClock(0)
    for _ in range(4):
        clock.advance(0.25)
    assert clock.now_ms() == 1


def test_the_wall_clock_may_go_back_and_monotonic_time_does_not():
    clock = ManualClock(5_000)
    clock.advance(10)
    clock.set_now_ms(1_000)
    assert (clock.now_ms(), clock.monotonic_s()) == (1_000, 0.01)
    with pytest.raises(ValueError, match="set_now_ms"):
        clock.advance(-1)


def test_a_wait_without_a_notification_moves_time_to_its_end():
    clock = ManualClock(0)
    assert not Watermark(0, clock=clock).wait_for(1, timeout_s=3_600)
    assert clock.now_ms() == 3_600_000


def test_without_skipping_a_wait_lasts_until_time_is_moved_past_it():
    clock = ManualClock(0, skip_waits=False)
    mark = Watermark(0, clock=clock)
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(mark.wait_for(1, timeout_s=60)))
    waiter.start()
    while waiter.is_alive():
        # Until the waiter is listed no waiter is woken; each step is short of what it waits for, all are not.
        clock.advance(1_000)
    waiter.join()
    assert answers == [False]
    assert clock.now_ms() >= 60_000


def test_without_skipping_a_notified_wait_ends_at_once():
    clock = ManualClock(0, skip_waits=False)
    mark = Watermark(0, clock=clock)
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(mark.wait_for(1, timeout_s=60)))
    waiter.start()
    mark.advance(1)
    waiter.join()
    assert answers == [True]
    assert clock.now_ms() == 0
