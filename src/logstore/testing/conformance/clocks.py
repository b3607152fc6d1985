"""Conformance suite of `Clock`."""

from __future__ import annotations

import threading
from abc import abstractmethod

from logstore.clock import Clock

#: How long a thread may take that has nothing to wait for; only a wrong clock reaches it.
_PATIENCE_S = 30.0


class ClockConformance:
    """The suite for `logstore.clock.Clock`."""

    @abstractmethod
    def make_clock(self) -> Clock:
        """Return the clock to test, a new one for every test."""

    def test_the_wall_clock_gives_whole_milliseconds(self) -> None:
        now = self.make_clock().now_ms()
        assert isinstance(now, int)
        assert not isinstance(now, bool)
        assert now >= 0

    def test_monotonic_time_never_goes_back(self) -> None:
        clock = self.make_clock()
        seen = [clock.monotonic_s() for _ in range(1_000)]
        assert all(isinstance(moment, float) for moment in seen)
        assert seen == sorted(seen), "monotonic time went back"

    def test_a_wait_of_no_time_is_over_and_holds_the_lock_again(self) -> None:
        clock, condition = self.make_clock(), threading.Condition()
        with condition:
            assert clock.wait(condition, 0) is False, "a wait of no time said that it was notified"
            assert not _can_be_taken(condition)
        assert _can_be_taken(condition)

    def test_a_wait_without_a_notification_is_over_with_its_timeout(self) -> None:
        clock, condition = self.make_clock(), threading.Condition()
        before = clock.monotonic_s()
        with condition:
            assert clock.wait(condition, 0.001) is False
        assert clock.monotonic_s() >= before + 0.001

    def test_a_waiting_thread_lets_go_of_the_lock_and_is_woken(self) -> None:
        self._wake_a_waiter(3_600.0)

    def test_a_wait_without_a_timeout_lasts_until_it_is_notified(self) -> None:
        answers = self._wake_a_waiter(None)
        assert answers
        assert all(answers), "a wait without a timeout was over without having been notified"

    def _wake_a_waiter(self, timeout_s: float | None) -> list[bool]:
        """Return the results of a thread's waits until it was notified."""
        clock, condition = self.make_clock(), threading.Condition()
        ready, told = threading.Event(), threading.Event()
        answers: list[bool] = []

        def wait() -> None:
            with condition:
                ready.set()
                # A wait may end early: without a loop the thread would miss the notification.
                while not told.is_set() and len(answers) < 100_000:
                    answers.append(clock.wait(condition, timeout_s))

        waiter = threading.Thread(target=wait, daemon=True)
        waiter.start()
        ready.wait()
        assert condition.acquire(timeout=_PATIENCE_S), "the waiter has not released the lock"
        told.set()
        condition.notify_all()
        condition.release()
        waiter.join(_PATIENCE_S)
        assert not waiter.is_alive(), "a wait that was notified has not ended"
        return answers

    def test_several_threads_may_ask_at_once(self) -> None:
        clock = self.make_clock()
        found: list[int] = []
        threads = [threading.Thread(target=lambda: found.append(clock.now_ms())) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8


def _can_be_taken(condition: threading.Condition) -> bool:
    """Return whether another thread can take the lock."""
    taken: list[bool] = []

    def take() -> None:
        if condition.acquire(blocking=False):
            condition.release()
            taken.append(True)

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return bool(taken)
