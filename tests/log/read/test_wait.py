"""One waiter for several logs: woken by any of them, by a bell, by the end of its time."""

from __future__ import annotations

import threading

import pytest

from logstore import Isolation, Log
from logstore.clock import SYSTEM_CLOCK
from logstore.log import ProducerStamp
from logstore.log._partition_log import Notifier, Watermark
from logstore.log.read.wait import wait_for_any
from logstore.records import Marker
from logstore.testing import ManualClock

ALL = Isolation.READ_UNCOMMITTED


@pytest.fixture
def logs(tmp_path):
    logs = [Log.open(tmp_path / f"t-{n}") for n in range(3)]
    yield logs
    for log in logs:
        log.close()


def ends(logs, isolation=ALL):
    return [(log, log.end_offset(isolation)) for log in logs]


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


def test_a_mark_rings_only_the_bells_that_are_attached():
    mark, first, second = Watermark(0), Notifier(), Notifier()
    mark.attach(first)
    mark.attach(second)
    mark.detach(first)
    mark.detach(first)
    mark.advance(1)
    assert (first.wait(0), second.wait(0)) == (False, True)
    mark.detach(second)
    mark.advance(2)
    assert not second.wait(0)
