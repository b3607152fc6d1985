"""One waiter for several logs: woken by any of them, by a bell, by the end of its time."""

from __future__ import annotations

import threading

import pytest

from logstore import Isolation, Log
from logstore.clock import SYSTEM_CLOCK
from logstore.io._notifier import Notifier
from logstore.log import ProducerStamp
from logstore.log.marks._watermark import Registration
from logstore.log.read import wait
from logstore.log.read.wait import OffsetListener
from logstore.records import Marker
from logstore.testing import ManualClock
from tests.kit.telling import Telling
from tests.kit.waiting import wait_for

ALL = Isolation.READ_UNCOMMITTED


@pytest.fixture
def logs(tmp_path):
    logs = [Log.open(tmp_path / f"t-{n}") for n in range(3)]
    yield logs
    for log in logs:
        log.close()


def ends(logs, isolation=ALL):
    return [(log, log.end_offset(isolation)) for log in logs]


def wait_for_any(places, isolation, notifier, clock, timeout_s):
    return OffsetListener(isolation, notifier, clock).wait(places, timeout_s)


def waiting(places, notifier, isolation=ALL, timeout_s=60):
    """A thread that waits, and the list that its answer goes into."""
    answers = []
    thread = threading.Thread(
        target=lambda: answers.append(wait_for_any(places, isolation, notifier, SYSTEM_CLOCK, timeout_s))
    )
    thread.start()
    return thread, answers


@pytest.mark.parametrize("number", [0, 1, 2])
def test_any_log_wakes_it(logs, number):
    notifier = Notifier()
    thread, answers = waiting(ends(logs), notifier)
    logs[number].append([b"v"])
    thread.join(300)
    assert answers == [True]
    # No append notifies a bell that has been removed.
    assert all(not log._end_mark(ALL).waiters for log in logs)
    assert not notifier.wait(0)


def test_what_has_come_before_is_not_waited_for(logs):
    places = ends(logs)
    logs[2].append([b"v"])
    assert wait_for_any(places, ALL, Notifier(), ManualClock(), None)


def test_a_truncation_is_news_too(logs):
    logs[0].append([b"v"])
    logs[0].append([b"w"])
    thread, answers = waiting(ends(logs), Notifier())
    logs[0].replica.truncate_to(1)
    thread.join(300)
    assert answers == [True]


def test_a_committed_reader_waits_for_the_end_of_the_transaction(logs):
    isolation = Isolation.READ_COMMITTED
    places = ends(logs, isolation)
    logs[1].append([b"v"], producer=ProducerStamp(1, 0, 0, transactional=True))
    clock = ManualClock()
    assert not wait_for_any(places, isolation, Notifier(clock=clock), clock, 5.0)
    assert clock.monotonic_s() == 5.0
    logs[1].replica.append_control(Marker.COMMIT, producer_id=1, producer_epoch=0)
    assert wait_for_any(places, isolation, Notifier(clock=clock), clock, 5.0)


def test_a_notification_wakes_it_and_is_kept_until_the_next_wait(logs):
    notifier = Notifier()
    thread, answers = waiting(ends(logs), notifier)
    notifier.notify()
    thread.join(300)
    assert answers == [True]
    notifier.notify()
    assert wait_for_any(ends(logs), ALL, notifier, SYSTEM_CLOCK, None)
    assert not notifier.wait(0)


def test_without_a_log_only_the_bell_counts():
    notifier, clock = Notifier(clock=ManualClock()), ManualClock()
    notifier.notify()
    assert wait_for_any([], ALL, notifier, clock, None)


@pytest.mark.parametrize("count", [1, 3])
def test_readers_beside_the_writer_are_woken_by_any_of_them(tmp_path, logs, count):
    readers = [Log.open(log.path, read_only=True) for log in logs]
    for number in range(count):
        thread, answers = waiting(ends(readers[:count]), Notifier())
        logs[number].append([b"v"])
        thread.join(300)
        assert answers == [True]
    clock = ManualClock()
    notifier = Notifier(clock=clock)
    assert not wait_for_any(ends(readers), ALL, notifier, clock, 0.5)
    assert clock.monotonic_s() == pytest.approx(0.5)
    notifier.notify()
    assert wait_for_any(ends(readers), ALL, notifier, clock, 0.5)
    for reader in readers:
        reader.close()


def test_a_listener_registers_once_with_each_log(logs, monkeypatch):
    """A consumer of thousands of partitions must not register with each of them at each poll."""
    made, armed = [], []

    class Counted:
        def __init__(self, mark, notifier):
            made.append(mark)
            self.inner = Registration(mark, notifier)

        def arm_while(self, offset):
            armed.append(offset)
            return self.inner.arm_while(offset)

    monkeypatch.setattr(wait, "Registration", Counted)
    notifier, clock = Notifier(), SYSTEM_CLOCK
    listener = OffsetListener(ALL, notifier, clock)
    for n in range(5):
        assert not listener.wait(ends(logs), 0)
        logs[n % 3].append([b"v"])
        assert notifier.wait(0)
    assert len(made) == 3
    assert [log._end_mark(ALL).waiters for log in logs] == [1, 0, 1]


def test_a_log_that_is_left_out_notifies_no_more(logs):
    notifier = Notifier()
    listener = OffsetListener(ALL, notifier, SYSTEM_CLOCK)
    assert listener.begin(ends(logs))
    assert listener.begin(ends(logs[:1]))
    assert [log._end_mark(ALL).waiters for log in logs] == [1, 0, 0]
    logs[1].append([b"v"])
    assert not notifier.wait(0)
    del listener
    assert logs[0]._end_mark(ALL).waiters == 0


def test_a_closed_log_ends_the_wait(logs):
    thread, answers = waiting(ends(logs), Notifier())
    wait_for(lambda: logs[2]._end_mark(ALL).waiters)
    logs[1].close()
    thread.join(300)
    assert answers == [True]
    assert wait_for_any([(logs[1], 0)], ALL, Notifier(), SYSTEM_CLOCK, None)


def appended_before_the_wait(listener, log):
    """Tell whether a record that came between the read at the end and the wait ends the wait."""
    places = ends([log])
    log.append([b"v"])
    return listener.wait(places, 0)


def test_a_record_between_the_read_and_the_wait_ends_the_wait(logs):
    assert appended_before_the_wait(OffsetListener(ALL, Notifier(), SYSTEM_CLOCK), logs[0])


def test_planted_a_listener_that_waits_from_the_end_of_its_own_look_is_found(logs):
    class Late(OffsetListener):
        def begin(self, places):
            return super().begin([(log, log.end_offset(ALL)) for log, _ in places])

    assert not appended_before_the_wait(Late(ALL, Notifier(), SYSTEM_CLOCK), logs[0])


def test_an_append_notifies_none_of_ten_thousand_that_wait_for_more(logs):
    log, notifier = logs[0], Telling()
    waiters = [Registration(log._end_mark(ALL), notifier.notifier) for _ in range(10_000)]
    assert all(waiter.arm_for(3 + n) for n, waiter in enumerate(waiters))
    log.append([b"v"])
    log.append([b"v"])
    assert notifier.count == 0
    log.append([b"v"])
    log.append([b"v", b"w"])
    assert notifier.count == 3
    assert log._end_mark(ALL).waiters == 9_997
