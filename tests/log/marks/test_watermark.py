"""An offset that rises and can be waited for."""

from __future__ import annotations

import gc
import signal
import threading
import weakref
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logstore.io._notifier import Notifier, NotifierGroup
from logstore.log.marks._watermark import LogLock, Registration, Watermark
from logstore.testing import ManualClock
from tests.kit.telling import Telling
from tests.kit.waiting import is_readable


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


# --- registrations


def test_a_registration_is_notified_once_and_again_when_it_is_armed_again():
    mark, notifier = Watermark(0), Telling()
    waiter = Registration(mark, notifier.notifier)
    assert waiter.arm_for(2)
    mark.advance(1)
    assert (notifier.count, mark.waiters) == (0, 1)
    mark.advance(2)
    mark.advance(3)
    assert (notifier.count, mark.waiters, waiter.is_armed) == (1, 0, False)
    assert not waiter.arm_for(3)
    assert waiter.arm_for(4)
    assert waiter.arm_for(5)
    mark.advance(4)
    assert notifier.count == 1
    waiter.disarm()
    mark.advance(5)
    assert notifier.count == 1


def test_a_registration_is_armed_only_while_the_offset_is_not_there():
    mark = Watermark(5)
    waiter = Registration(mark, Notifier())
    assert not waiter.arm_while(4)
    assert waiter.arm_while(5)
    # It does not stay armed for what was waited for before.
    assert not waiter.arm_while(6)
    assert mark.waiters == 0
    mark.close()
    assert not waiter.arm_while(5)
    assert not waiter.arm_for(9)


@pytest.mark.parametrize("move", [lambda mark: mark.reset(2), lambda mark: mark.reset(5), Watermark.close])
def test_a_fall_and_the_end_notify_every_waiter(move):
    mark, notifier = Watermark(5), Telling()
    waiters = [Registration(mark, notifier.notifier) for _ in range(20)]
    assert all(waiter.arm_for(6 + n) for n, waiter in enumerate(waiters))
    move(mark)
    assert (notifier.count, mark.waiters) == (20, 0)


def test_a_registration_that_is_dropped_waits_no_more():
    mark, notifier = Watermark(0), Telling()
    waiters = [Registration(mark, notifier.notifier) for _ in range(5)]
    assert all(waiter.arm_for(1) for waiter in waiters)
    del waiters[1:4]
    assert mark.waiters == 2
    mark.advance(1)
    assert notifier.count == 2


def test_a_mark_with_waiters_is_freed_with_them():
    lock = LogLock()
    mark = Watermark(0, lock=lock)
    waiter = Registration(mark, Notifier())
    assert waiter.arm_for(1)
    gone = weakref.ref(waiter.notifier)
    del mark, waiter, lock
    gc.collect()
    assert gone() is None


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["arm_for", "arm_while", "disarm", "drop", "advance", "reset"]),
        st.integers(0, 7),
        st.integers(0, 30),
    ),
    max_size=60,
)


@given(STEPS)
def test_it_notifies_as_a_list_of_all_waiters_would(steps):
    """The model: every waiter is looked at at every move."""
    mark, value = Watermark(10), 10
    waiters: dict[int, Registration] = {}
    wanted: dict[int, int] = {}
    counts = [Telling() for _ in range(8)]
    expected = [0] * 8
    for step, number, offset in steps:
        if step in ("arm_for", "arm_while"):
            waiter = waiters.setdefault(number, Registration(mark, counts[number].notifier))
            is_there = value >= offset if step == "arm_for" else value != offset
            assert getattr(waiter, step)(offset) is not is_there
            wanted.pop(number, None)
            if not is_there:
                wanted[number] = offset if step == "arm_for" else offset + 1
        elif step == "disarm" and number in waiters:
            waiters[number].disarm()
            wanted.pop(number, None)
        elif step == "drop":
            waiters.pop(number, None)
            waiter = None
            wanted.pop(number, None)
        elif step in ("advance", "reset"):
            due = [n for n, least in wanted.items() if step == "reset" or (offset > value and least <= offset)]
            value = offset if step == "reset" else max(value, offset)
            getattr(mark, step)(offset)
            for each in due:
                expected[each] += 1
                del wanted[each]
        assert mark.waiters == len(wanted)
        assert [notifier.count for notifier in counts] == expected


# --- after the log's lock


def notified_in(mark: Watermark, lock: LogLock) -> list[str]:
    """Move a mark under a lock; return in which moments its waiter was notified."""
    moments: list[str] = []

    watching = Telling(lambda: moments.append("locked" if lock.locked() else "free"))
    waiter = Registration(mark, watching.notifier)
    for move in (lambda: mark.advance(mark.value + 1), lambda: mark.reset(0), mark.close):
        assert waiter.arm_while(mark.value)
        with lock:
            move()
        moments.append("released")
    return moments


AFTER = ["free", "released"] * 3


def test_waiters_are_notified_after_the_lock_is_released():
    lock = LogLock()
    assert notified_in(Watermark(5, lock=lock), lock) == AFTER
    assert not lock.locked()


def test_planted_a_notification_under_the_lock_is_found():
    assert notified_in(Watermark(5), LogLock()) != AFTER


def test_planted_a_release_that_notifies_no_waiter_is_found():
    assert notified_in(Watermark(5, lock=LogLock()), LogLock()) != AFTER


def test_the_lock_is_a_lock():
    lock = LogLock()
    assert lock.acquire()
    assert lock.locked()
    assert not lock.acquire(False)
    assert not lock.acquire(True, 0.001)
    other = threading.Thread(target=lock.acquire)
    other.start()
    lock.release()
    other.join()
    lock.release()
    with pytest.raises(RuntimeError):
        lock.release()


def test_a_wait_for_the_lock_ends_with_the_exception_of_a_signal_handler():
    lock = LogLock()
    assert lock.acquire()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012  the interrupt may come early
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            lock.acquire()
        assert lock.locked()
        lock.release()
        assert not lock.locked()
        assert lock.acquire(False)
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("timeout", [(True, -2.0), (False, 1.0)])
def test_a_timeout_that_means_nothing_is_refused(timeout):
    with pytest.raises(ValueError, match="timeout"):
        LogLock().acquire(*timeout)


# --- notifiers


def kept_until_waited_for(notifier: Notifier, wait: Callable[[Notifier, float], bool] = Notifier.wait) -> bool:
    """Tell whether a notification between the look at a mark and the wait ends the wait."""
    mark = Watermark(0)
    waiter = Registration(mark, notifier)
    assert waiter.arm_for(1)
    mark.advance(1)
    return wait(notifier, 0) and not wait(notifier, 0)


@pytest.mark.parametrize("clock", [None, ManualClock()])
def test_a_notification_before_the_wait_ends_it(clock):
    assert kept_until_waited_for(Notifier() if clock is None else Notifier(clock))


def test_planted_a_notifier_that_wakes_only_a_waiting_thread_is_found():
    def forgetful(notifier: Notifier, timeout_s: float) -> bool:
        notifier.wait(0)
        return notifier.wait(timeout_s)

    assert not kept_until_waited_for(Notifier(), forgetful)


def test_no_code_of_a_caller_runs_where_a_mark_notifies():
    """An append would wait for it, and fail with it: a class with another `notify` is refused."""
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Loud", (Notifier,), {"notify": lambda self: None})
    with pytest.raises(TypeError):
        Notifier.notify = lambda self: None
    notifier = Notifier()
    with pytest.raises(AttributeError):
        notifier.notify = lambda: None

    class Alike:
        def notify(self) -> None: ...

    with pytest.raises(TypeError):
        Registration(Watermark(0), Alike())


def test_a_notifier_can_be_waited_for_again_and_again():
    """Also where a notification comes at the end of the time: the next wait has to wait."""
    notifier = Notifier()
    stop = threading.Event()

    def notify_often() -> None:
        while not stop.is_set():
            notifier.notify()

    ringing = threading.Thread(target=notify_often)
    ringing.start()
    for _ in range(2_000):
        notifier.wait(0.000_01)
    stop.set()
    ringing.join()
    notifier.wait(0)
    assert not notifier.wait(0.001)
    notifier.notify()
    assert notifier.wait(0)


# --- event loops


def test_one_eventfd_tells_of_every_notifier_of_a_loop_and_each_once():
    group = NotifierGroup()
    notifiers = [Notifier(group=group) for _ in range(3)]
    marks = [Watermark(0) for _ in range(50)]
    waiters = [Registration(mark, notifiers[n % 3]) for n, mark in enumerate(marks)]
    assert all(waiter.arm_for(1) for waiter in waiters)
    assert not is_readable(group)
    for mark in marks[:2] + marks[3:5]:
        mark.advance(1)
    assert is_readable(group)
    assert group.take() == notifiers[:2]
    assert not is_readable(group)
    assert group.take() == []
    marks[6].advance(1)
    assert is_readable(group)
    assert group.take() == notifiers[:1]


def test_a_group_that_is_closed_is_written_no_more():
    group = NotifierGroup()
    notifier = Notifier(group=group)
    group.close()
    group.close()
    assert group.fileno() == -1
    notifier.notify()
    assert notifier.wait(0)


def test_no_notification_is_lost_between_two_looks_of_a_loop():
    """A thread that answers each rise; one lost notification and neither would end."""
    group = NotifierGroup()
    asked, answered = Watermark(0), Watermark(0)
    waiter = Registration(asked, Notifier(group=group))

    def answer() -> None:
        while answered.value < 2_000:
            if waiter.arm_while(answered.value):
                assert is_readable(group, timeout_s=60)
                group.take()
            answered.advance(asked.value)

    thread = threading.Thread(target=answer)
    thread.start()
    for n in range(1, 2_001):
        asked.advance(n)
        assert answered.wait_for(n)
    thread.join()
