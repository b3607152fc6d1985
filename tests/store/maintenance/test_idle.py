"""An idle store of ten thousand partitions: how often its threads wake, and what a wake does.

Wakes are counted in virtual time: a clock whose waits take no time runs the housekeeping thread through an hour.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping

import logstore
from logstore.testing import ManualClock, SimDisk
from tests.crash.planted import must_break
from tests.kit.waiting import wait_for

HOUR_S = 3_600
PARTITIONS = 10_000


class CountedWakes(ManualClock):
    """A clock whose waits end at once, which counts them, and ends them all after an hour."""

    def __init__(self) -> None:
        super().__init__()
        self.wakes = 0
        self.end: Callable[[], object] = lambda: None

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> bool:
        self.wakes += 1
        if self.monotonic_s() >= HOUR_S:
            self.end()
        # Whole milliseconds: of a sum of fractions, the end of a wait could come a little too early, for ever.
        return super().wait(condition, None if timeout_s is None else math.ceil(timeout_s * 1_000) / 1_000)


def wakes_in_an_hour(
    settings: Mapping[str, object], partitions: int, prepare: Callable[[logstore.Store], object] = lambda _: None
) -> tuple[float, int, int]:
    """Return wakes a second of a store's thread in an idle hour, and the logs and descriptors open after it."""
    clock, files = CountedWakes(), SimDisk(seed=1)
    with logstore.open("/data", settings, clock=clock, files=files) as store:
        store.create_topic("flights", partitions)
        prepare(store)
        scheduler = store._host.scheduler
        clock.end = scheduler.stop
        scheduler.start()
        scheduler._thread.join(300)
        assert not scheduler._thread.is_alive()
        assert clock.monotonic_s() >= HOUR_S
        return clock.wakes / clock.monotonic_s(), len(list(store._host.partitions.opened())), files.open_descriptors


def check_wakes_rarely(
    settings: Mapping[str, object],
    most: float,
    partitions: int = PARTITIONS,
    **given: Callable[[logstore.Store], object],
) -> None:
    few, _, _ = wakes_in_an_hour(settings, 1, **given)
    wakes, logs, descriptors = wakes_in_an_hour(settings, partitions, **given)
    assert wakes <= most, f"{wakes} wakes a second"
    # Nothing is due for a partition: each wake is one of the store.
    assert wakes == few
    assert logs == 0
    assert descriptors < 20


def test_it_wakes_once_in_ten_seconds_and_opens_no_log():
    """Most often for a compaction that may be due, after log.cleaner.backoff.ms."""
    check_wakes_rarely({}, most=0.11)


def test_with_retention_it_opens_no_log_either():
    check_wakes_rarely({"log.retention.hours": 168}, most=0.11)


def test_with_a_disk_budget_it_wakes_once_a_second():
    """Space is reclaimed ahead of need: a comparison of two numbers. Once a minute all files are measured."""
    check_wakes_rarely({"logstore.disk.budget": 1 << 40}, most=1.01, partitions=1_000)


def test_planted_a_task_that_goes_round_all_partitions_in_five_minutes_is_found():
    def go_round(store: logstore.Store) -> None:
        partitions = store._host.partition_count("flights")
        store._host.scheduler.add("planted", 300_000 // partitions, lambda: None)

    must_break("wakes a second", lambda: check_wakes_rarely({}, most=0.11, prepare=go_round))


def test_planted_a_thread_that_looks_whether_there_is_work_is_found(monkeypatch):
    honest = CountedWakes.wait
    monkeypatch.setattr(CountedWakes, "wait", lambda *args: honest(*args[:2], min(args[2], 0.1)))
    must_break("wakes a second", lambda: check_wakes_rarely({}, most=0.11))


def test_it_has_two_threads_of_which_one_waits_for_a_connection_alone(tmp_path):
    before = set(threading.enumerate())
    with logstore.open(tmp_path / "data", environ={}) as store:
        topic = store.create_topic("flights", 4, {"segment.bytes": 1_000})
        for n in range(40):
            topic.append(bytes(200), partition=n % 4)
        host = store._host
        # Threads that finish rolls end with the last one; without a producer or flush.ms there is no timer.
        wait_for(lambda: set(threading.enumerate()) - before == {host.scheduler._thread, host.requests._thread})
        # Without a timeout, and so without a wake, until another process connects.
        assert host.requests._listener.gettimeout() is None
