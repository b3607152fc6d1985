"""An offset that rises and can be waited for."""

from __future__ import annotations

import threading

from logstore.log._partition_log import Watermark
from logstore.testing import ManualClock


def test_it_rises_and_tells_whether_it_did():
    mark = Watermark(5)
    assert mark.advance(8)
    assert not mark.advance(8)
    assert not mark.advance(3)
    assert mark.value == 8


def test_only_a_reset_lowers_it():
    mark = Watermark(5)
    mark.reset(2)
    assert mark.value == 2
    assert mark.advance(3)


def test_what_is_reached_is_not_waited_for():
    mark = Watermark(5)
    assert mark.wait_for(5)
    assert mark.wait_for(0, timeout_s=0)
    assert not mark.wait_for(6, timeout_s=0)


def test_a_wait_ends_with_its_time():
    clock = ManualClock()
    mark = Watermark(0, clock=clock)
    assert not mark.wait_for(1, timeout_s=2.5)
    assert clock.monotonic_s() == 2.5


def test_every_waiter_goes_on_when_its_value_is_reached_and_no_other():
    mark = Watermark(0)
    reached: list[int] = []
    threads = []
    for value in range(1, 6):
        thread = threading.Thread(
            target=lambda value=value: reached.append(value) if mark.wait_for(value) else None
        )
        thread.start()
        threads.append(thread)
    for value, thread in enumerate(threads, 1):
        mark.advance(value)
        thread.join()
        assert sorted(reached) == list(range(1, value + 1))


def test_a_thread_that_waits_at_a_value_goes_on_when_it_rises_and_when_it_falls():
    clock = ManualClock()
    mark = Watermark(5, clock=clock)
    assert mark.wait_while(4)
    assert not mark.wait_while(5, timeout_s=2.5)
    assert clock.monotonic_s() == 2.5
    mark = Watermark(5)
    for move in (lambda: mark.advance(6), lambda: mark.reset(2)):
        before = mark.value
        thread = threading.Thread(target=lambda before=before: mark.wait_while(before))
        thread.start()
        move()
        thread.join()
    mark.close()
    assert not mark.wait_while(2)


def test_no_wake_up_is_lost_between_look_and_wait():
    """Two threads hand a token to and fro; one lost wake-up and neither would end."""
    here, there = Watermark(0), Watermark(0)

    def answer():
        for n in range(1, 2_001):
            assert here.wait_for(n)
            there.advance(n)

    thread = threading.Thread(target=answer)
    thread.start()
    for n in range(1, 2_001):
        here.advance(n)
        assert there.wait_for(n)
    thread.join()


def test_closing_lets_every_waiter_go():
    mark = Watermark(0)
    answers: list[bool] = []
    threads = [threading.Thread(target=lambda: answers.append(mark.wait_for(1))) for _ in range(3)]
    for thread in threads:
        thread.start()
    mark.close()
    for thread in threads:
        thread.join()
    assert answers == [False] * 3
    assert not mark.wait_for(1)
    assert mark.wait_for(0)
