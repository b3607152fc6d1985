"""The timer thread: which members it ticks, when it wakes, and how long it rests between two passes.

Nearly every test has a ticker with a clock of its own: its loop runs in the thread of the test, in virtual time. So
ticks and wakes are counted, and none is timed.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import heapq
import math
import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import logstore
from logstore import Log
from logstore.accumulator import _alarms, timer
from logstore.accumulator._alarms import NEVER, Alarms
from logstore.accumulator.replicated_batcher import ReplicatedBatcher
from logstore.clock import SYSTEM_CLOCK
from logstore.log._partition_log import Counters
from logstore.log.append.flush import Flusher
from logstore.testing import ManualClock
from logstore.testing._faults import FaultyFiles
from tests.accumulator.test_replicated_batcher import Setup
from tests.crash.planted import must_break
from tests.kit.waiting import wait_for

HOUR_S = 3_600.0


class _Over(Exception):
    """The virtual time of a run is over."""


class Virtual(timer.Ticker):
    """A ticker without a thread, whose sleeps take virtual time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = ManualClock()
        super().__init__(self.clock)
        self.wakes = 0
        self.rests: list[float] = []
        self.used_s = 0.0
        for module in ("logstore.log.append.flush", "logstore.log.append.appender", "logstore.client.producer"):
            monkeypatch.setattr(f"{module}.TICKER", self)
        monkeypatch.setattr(timer, "time", SimpleNamespace(thread_time=lambda: self.used_s, sleep=self._rest))

    @property
    def now_s(self) -> float:
        return self.clock.monotonic_s()

    def _rest(self, seconds: float) -> None:
        self.rests.append(seconds)
        self.clock.advance(seconds * 1000)

    def _sleep_until(self, due_s: float) -> None:
        if max(due_s, self.now_s) > self._until_s:
            raise _Over
        self.wakes += 1
        # A microsecond more: a rounded sum may lie just before the time.
        self.clock.advance(max(due_s - self.now_s, 0.0) * 1000 + 0.001)

    def run(self, seconds: float = HOUR_S) -> float:
        """Run the loop of the thread for so long; return the time of the next alarm."""
        self._until_s = self.now_s + seconds
        with contextlib.suppress(_Over):
            self._run()
        return self._members.begin_sleep()


@pytest.fixture
def ticker(monkeypatch: pytest.MonkeyPatch) -> Virtual:
    return Virtual(monkeypatch)


class Member:
    """Counts its ticks, and does in each of them what a test says."""

    def __init__(self, work: Callable[[], object] = lambda: None) -> None:
        self.work = work
        self.ticks = 0
        self._tick_waits = False

    def tick(self) -> None:
        self.ticks += 1
        self.work()


# -- the loop


@pytest.mark.parametrize("takes_s, rest_s", [(0.0, timer.PERIOD_S), (0.001, timer.PERIOD_S), (0.25, 0.25)])
def test_the_timer_rests_as_long_as_its_pass_has_taken(ticker: Virtual, takes_s: float, rest_s: float) -> None:
    """Else it takes a core of its own, beside a thread that sends to thousands of partitions."""

    def work() -> None:
        ticker.used_s += takes_s
        if worker.ticks < 3:
            alarm.set(ticker.now_s)

    worker = Member(work)
    alarm = ticker.add(worker, ticker.clock)
    alarm.set(1.0)
    assert ticker.run() == math.inf
    assert ticker.rests == pytest.approx([rest_s] * 3)


def test_a_member_is_ticked_at_the_earliest_time_it_has_asked_for(ticker: Virtual) -> None:
    at: list[float] = []
    member = Member(lambda: at.append(ticker.now_s))
    alarm = ticker.add(member, ticker.clock)
    for due_s in (9.0, 4.0, 7.0):
        alarm.set(due_s)
    ticker.run(100)
    assert at == pytest.approx([4.0], abs=0.001)
    alarm.set(7.0)
    assert ticker.run(100) == math.inf
    assert len(at) == 2


def test_a_member_with_another_clock_is_left_to_its_user(ticker: Virtual) -> None:
    alarm = ticker.add(Member(), ManualClock())
    alarm.set(0.0)
    assert alarm is NEVER
    assert (alarm.due_s, len(ticker._members)) == (-math.inf, 0)


def test_a_member_that_fails_or_leaves_keeps_no_other_waiting(ticker: Virtual) -> None:
    def fail() -> None:
        raise RuntimeError("a tick that fails")

    failing, leaving, last = Member(fail), Member(), Member()
    leaving.work = lambda: ticker.remove(leaving)
    alarms = [ticker.add(each, ticker.clock) for each in (failing, leaving, last)]
    for _ in range(3):
        for alarm in alarms:
            alarm.set(ticker.now_s + 1)
        ticker.run()
    assert [each.ticks for each in (failing, leaving, last)] == [1, 1, 3]
    assert [alarm.due_s for alarm in alarms] == [-math.inf, -math.inf, math.inf]


def test_a_member_that_is_always_due_takes_its_turn_with_the_others(ticker: Virtual) -> None:
    greedy = Member(lambda: always.set(0.0))
    modest = Member()
    always, once = ticker.add(greedy, ticker.clock), ticker.add(modest, ticker.clock)
    always.set(0.0)
    once.set(ticker.now_s + 1)
    ticker.run(2)
    assert modest.ticks == 1
    assert greedy.ticks <= 2 / timer.PERIOD_S + 2


def test_alarms_that_were_set_earlier_leave_nothing_behind(ticker: Virtual) -> None:
    """A far alarm is set again and again, and a near one before it each time."""

    def work() -> None:
        alarm.set(ticker.now_s + 120)

    member = Member(work)
    alarm = ticker.add(member, ticker.clock)
    for _ in range(5_000):
        alarm.set(ticker.now_s)
        ticker.run(0.001)
    assert member.ticks == 5_000
    assert len(gc.get_referrers(alarm)) < 200


# -- sleep and wake


def test_an_alarm_that_is_set_while_the_thread_goes_to_sleep_wakes_it() -> None:
    alarms, member = Alarms(), Member()
    alarm = alarms.add(member)
    alarm.set(9.0)
    assert alarms.begin_sleep() == 9.0
    # Between the two steps of the thread.
    setter = threading.Thread(target=lambda: alarm.set(5.0))
    setter.start()
    setter.join()
    assert alarms.sleep(0.0), "the wake-up is lost"
    assert alarms.take(4.0) == []
    assert alarms.begin_sleep() == 5.0
    assert alarms.take(5.0) == [alarm]
    # While its thread is awake, an alarm costs an entry in a list, and no wake-up is left for later.
    alarm.set(3.0)
    assert alarms.begin_sleep() == 3.0
    assert not alarms.sleep(0.0)


def test_the_thread_sleeps_through_no_alarm_that_is_set_right_before_its_sleep() -> None:
    ready, ticked = threading.Event(), threading.Event()

    class Late(timer.Ticker):
        def _sleep_until(self, due_s: float) -> None:
            assert ready.wait(60)
            if not ticked.is_set():
                # As another thread may, once this one has said until when it sleeps.
                alarm.set(SYSTEM_CLOCK.monotonic_s())
            super()._sleep_until(due_s)

    ticker, member = Late(), Member(ticked.set)
    alarm = ticker.add(member, SYSTEM_CLOCK)
    ready.set()
    assert ticked.wait(20), "the wake-up is lost"
    ticker.remove(member)


def test_an_alarm_that_is_set_while_the_heap_is_made_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a finalizer: on Python 3.11 a new object may run the collector of garbage."""
    alarms = Alarms()
    members = Member(), Member()
    first, second = map(alarms.add, members)

    def push(heap: list[Any], entry: Any) -> None:
        second.set(3.0)
        heapq.heappush(heap, entry)

    first.set(9.0)
    monkeypatch.setattr(_alarms, "heappush", push)
    assert alarms.begin_sleep() == alarms.sleeps_until_s == 3.0


def test_a_callback_that_ends_its_thread_ends_no_timer(ticker: Virtual) -> None:
    def leave() -> None:
        if member.ticks < 3:
            sys.exit()

    member, other = Member(leave), Member()
    for each in (member, other):
        ticker.add(each, ticker.clock).set(1.0)
    assert ticker.run() == math.inf
    assert (member.ticks, other.ticks) == (3, 1)


def test_a_later_alarm_wakes_nothing_while_the_thread_sleeps() -> None:
    alarms, members = Alarms(), [Member() for _ in range(100)]
    first, *others = [alarms.add(each) for each in members]
    first.set(1.0)
    assert alarms.begin_sleep() == 1.0
    for other in others:
        other.set(1.0)
    assert not alarms.sleep(0.0)
    assert alarms.take(1.0) == [first, *others]


def test_the_thread_sees_every_alarm_of_many_threads() -> None:
    """Each thread sets its alarm again as soon as it is ticked: one that is lost would end the test."""
    ticker, rounds = timer.Ticker(), 100
    done: list[Member] = []

    def use() -> None:
        ticked = threading.Event()
        member = Member(ticked.set)
        alarm = ticker.add(member, SYSTEM_CLOCK)
        for _ in range(rounds):
            alarm.set(SYSTEM_CLOCK.monotonic_s())
            assert ticked.wait(60), "an alarm is lost"
            ticked.clear()
        done.append(member)
        ticker.remove(member)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [member.ticks for member in done] == [rounds] * 8


@pytest.mark.parametrize("leave", ["removed", "dropped", "dropped in a cycle"])
def test_the_sleeping_thread_ends_with_the_last_member(leave: str) -> None:
    ticker, member = timer.Ticker(), Member()
    ticker.add(member, SYSTEM_CLOCK)
    thread = ticker._thread
    assert thread is not None
    if leave == "removed":
        ticker.remove(member)
    elif leave == "dropped in a cycle":
        member.work = partial(Member.tick, member)
    del member
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()
    assert (ticker._thread, len(ticker._members)) == (None, 0)


# -- logs with flush.ms


def test_ten_thousand_used_logs_are_ticked_once_each(ticker: Virtual) -> None:
    """And then never: what an idle log costs does not grow with time."""

    def flush(counter: Counters) -> None:
        counter.take_unflushed()
        counter.ask_flush()

    members: list[Member] = []
    counters: list[Counters] = []
    for n in range(10_000):
        counter, member = Counters(ticker.clock), Member()
        member.work = partial(flush, counter)
        counter.flush_within(ticker.add(member, ticker.clock), 1.0)
        members.append(member)
        counters.append(counter)
        if n % 100 == 0:
            ticker.clock.advance(1)
    assert ticker.run() == math.inf
    assert ticker.wakes == 0
    for counter in counters:
        counter.count(3, 1, 100)
        counter.count(3, 1, 100)
    assert ticker.run() == math.inf
    assert Counter(member.ticks for member in members) == {1: 10_000}
    assert ticker.wakes <= 100
    woken = ticker.wakes
    assert ticker.run(24 * HOUR_S) == math.inf
    assert ticker.wakes == woken


def logs_of(ticker: Virtual, path: Path, count: int, **settings: Any) -> list[Log]:
    return [Log.open(path / f"t-{n}", clock=ticker.clock, **settings) for n in range(count)]


@pytest.mark.row("S4", "K1")
def test_a_log_is_flushed_within_flush_ms_of_its_first_unflushed_record(
    ticker: Virtual, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks: Counter[object] = Counter()
    tick = Flusher.tick
    monkeypatch.setattr(Flusher, "tick", lambda flusher: (ticks.update([flusher]), tick(flusher)))
    logs = logs_of(ticker, tmp_path, 6, flush_ms=100)
    try:
        assert ticker.run() == math.inf
        assert not ticks, "an unused log is ticked"
        for log in logs:
            log.flush()
        rng, unflushed = random.Random(7), dict[int, float]()
        for _ in range(150):
            n = rng.randrange(4)  # the others stay idle
            if rng.random() < 0.1:
                logs[n].flush()
            else:
                logs[n].append([b"x"])
                unflushed.setdefault(n, ticker.now_s)
            ticker.run(rng.choice((0.0, 0.001, 0.03, 0.15)))
            for each in range(4):
                if logs[each].synced_end == logs[each].log_end_offset:
                    unflushed.pop(each, None)
            # A pass may begin a rest later.
            assert all(ticker.now_s - since <= 0.1 + 2 * timer.PERIOD_S for since in unflushed.values())
        assert ticker.run() == math.inf
        assert all(log.synced_end == log.log_end_offset for log in logs)
        assert len(ticks) <= 4, "an idle log was ticked"
    finally:
        for log in logs:
            log.close()
    assert not len(ticker._members)


def test_a_flush_for_which_no_descriptor_was_free_is_tried_again(
    ticker: Virtual, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [log] = logs_of(ticker, tmp_path, 1, flush_ms=100)
    with log:
        log.flush()
        log.append([b"x"])
        refusals = 3
        sync_to = Flusher.sync_to

        def refuse(flusher: Flusher, offset: int) -> None:
            nonlocal refusals
            if refusals:
                refusals -= 1
                raise logstore.errors.TooManyFilesError("no descriptor is free")
            sync_to(flusher, offset)

        monkeypatch.setattr(Flusher, "sync_to", refuse)
        assert ticker.run() == math.inf
        assert (refusals, log.synced_end) == (0, 1)


def test_a_log_whose_unflushed_records_were_cut_off_is_idle(ticker: Virtual, tmp_path: Path) -> None:
    [log] = logs_of(ticker, tmp_path, 1, flush_ms=100)
    with log:
        log.append([b"kept"], ack="synced")
        log.append([b"cut off"] * 3)
        log.replica.truncate_to(1)
        assert ticker.run() == math.inf
        assert ticker.wakes <= 2
        log.append([b"next"])
        assert ticker.run() == math.inf
        assert log.synced_end == 2


def test_an_append_looks_at_no_clock_of_a_program_before_its_end_has_risen(tmp_path: Path) -> None:
    """An interrupt in it would leave bytes behind the end."""

    class Watched(ManualClock):
        def monotonic_s(self) -> float:
            if watches:
                looks.append((os.path.getsize(path), log.log_end_offset))
            return super().monotonic_s()

    looks: list[tuple[int, int]] = []
    watches = False
    with Log.open(tmp_path / "t-0", clock=Watched(), flush_ms=60_000, write_strategy="extend") as log:
        path = log.maintenance.segments[-1].path
        log.append([b"first"], ack="synced")
        size, end = os.path.getsize(path), log.log_end_offset
        watches = True
        log.append([b"second"])
        watches = False
        assert all((each == (size, end)) or each[1] > end for each in looks), looks


def test_flush_ms_that_is_set_later_holds_for_records_that_were_there_before(
    ticker: Virtual, tmp_path: Path
) -> None:
    [log] = logs_of(ticker, tmp_path, 1)
    with log:
        log.append([b"x"])
        assert (ticker.run(), log.synced_end) == (math.inf, 0)
        log.maintenance.reconfigure(flush_ms=50)
        assert (ticker.run(), log.synced_end) == (math.inf, 1)
        log.maintenance.reconfigure()
        assert not len(ticker._members)
        log.append([b"y"])
        assert (ticker.run(), log.synced_end) == (math.inf, 1)


# -- producers and appenders


@pytest.mark.parametrize("linger_ms", [0, 20])
def test_an_idle_producer_never_wakes_the_thread(ticker: Virtual, tmp_path: Path, linger_ms: int) -> None:
    with logstore.open(tmp_path / "data", clock=ticker.clock, rng=random.Random(5)) as store:
        store.create_topic("flights", partitions=4)
        with store.producer(linger_ms=linger_ms) as producer:
            assert ticker.run() == math.inf
            assert ticker.wakes == 0
            futures = [producer.send("flights", b"x", partition=n % 4) for n in range(40)]
            assert ticker.run() == math.inf
            assert all(future.done() for future in futures)
            # Once; without a linger to look for what an interrupt would have left.
            assert ticker.wakes == 1
            assert ticker.run() == math.inf
            assert ticker.wakes == 1
    assert not len(ticker._members)


def test_an_idle_appender_never_wakes_the_thread(ticker: Virtual, tmp_path: Path) -> None:
    [log] = logs_of(ticker, tmp_path, 1)
    with log, log.appender(linger_ms=20) as appender:
        assert (ticker.run(), ticker.wakes) == (math.inf, 0)
        appender.append(b"x")
        appender.append(b"y")
        assert ticker.run() == math.inf
        assert (ticker.wakes, log.log_end_offset) == (1, 2)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["producer", "appender"])
def test_whatever_is_gathered_is_written_without_another_call(
    ticker: Virtual, tmp_path: Path, kind: str, seed: int
) -> None:
    """Full disks, short lingers and long ones, records that fill a batch: no batch is left without an alarm."""
    rng, files = random.Random(seed), FaultyFiles()
    with logstore.open(tmp_path / "data", clock=ticker.clock, files=files, rng=rng) as store:
        topic = store.create_topic("flights", partitions=3)
        linger_ms = rng.choice((0, 1, 7, 300))
        if kind == "producer":
            producer: Any = store.producer(linger_ms=linger_ms, batch_size=2_000)
            send: Callable[[bytes], Any] = partial(producer.send, "flights")
        else:
            producer = topic.log(0).appender(linger_ms=linger_ms, batch_bytes=2_000)
            send = producer.submit
        with producer:
            for _ in range(150):
                if rng.random() < 0.1:
                    files.fail("pwrite", 1, errno.ENOSPC, times=-1, path_contains=".log")
                futures = []
                for _ in range(rng.randrange(3)):
                    try:
                        futures.append(send(b"x" * rng.choice((10, 10, 900, 2_500))))
                    except logstore.errors.DiskFullError:
                        assert kind == "appender"
                ticker.run(rng.choice((0.0, 0.002, 0.4)))
                files.heal()
                assert ticker.run() == math.inf
                assert all(future.done() for future in futures)


@pytest.mark.parametrize("sizes", [[2_500], [900, 900, 900]], ids=["one large", "several"])
@pytest.mark.parametrize("kind", ["producer", "appender"])
def test_a_full_batch_does_not_wait_for_its_linger(
    ticker: Virtual, tmp_path: Path, kind: str, sizes: list[int]
) -> None:
    with logstore.open(tmp_path / "data", clock=ticker.clock, rng=random.Random(5)) as store:
        topic = store.create_topic("flights", partitions=3)
        if kind == "producer":
            producer: Any = store.producer(linger_ms=3_600_000, batch_size=2_000)
            send: Callable[[bytes], Any] = partial(producer.send, "flights", partition=0)
        else:
            producer = topic.log(0).appender(linger_ms=3_600_000, batch_bytes=2_000)
            send = producer.append
        with producer:
            for size in sizes:
                send(b"x" * size)
            ticker.run(2 * timer.PERIOD_S)
            assert topic.log(0).log_end_offset == len(sizes)


def test_an_answer_that_comes_while_another_thread_writes_is_taken_soon(
    ticker: Virtual, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread of the answers finds the partition taken, and leaves the answer to the timer."""
    with logstore.open(tmp_path, clock=ticker.clock, rng=random.Random(3)) as store:
        setup = Setup(store, ticker.clock)
        write_later = ReplicatedBatcher._write_later

        def answer_late(batcher: ReplicatedBatcher, force: bool, turn: Any) -> None:
            write_later(batcher, force, turn)
            setup.replicas.acknowledge(1)

        with store.producer(linger_ms=0) as producer:
            monkeypatch.setattr(ReplicatedBatcher, "_write_later", answer_late)
            future = producer.send("t", b"a")
            assert not future.done()
            monkeypatch.undo()
            ticker.run(2 * timer.PERIOD_S)
            assert future.done()
        store._host.replicas = None


# -- ticks that wait for a sync


def a_slow_sync_delays_no_other_member(path: Path, appender_of: Callable[[Log], Any] | None = None) -> None:
    files = FaultyFiles()
    with contextlib.ExitStack() as stack:
        slow = stack.enter_context(Log.open(path / "slow-0", files=files, flush_ms=20))
        other = stack.enter_context(Log.open(path / "other-0", flush_ms=20))
        gathering = stack.enter_context(other.appender(linger_ms=20))
        appender = stack.enter_context(appender_of(slow) if appender_of else contextlib.nullcontext(slow))
        stack.callback(files.release_syncs)
        files.hold_syncs(".log")
        appender.append([b"x"] if appender is slow else b"x")
        wait_for(lambda: files.held_syncs() == 1, 60)
        for n in range(3):
            other.append([b"x"])
            gathering.append(b"y")
            wait_for(partial(other.replica.wait_for, 2 * n + 1, timeout_s=2), 3, "delayed by another log's sync")
            wait_for(lambda: other.synced_end == other.log_end_offset, 2, "delayed by another log's sync")
        assert files.held_syncs() == 1, "two ticks of one member at once"


def test_a_slow_sync_of_one_log_delays_no_other_member(ram_path: Path) -> None:
    a_slow_sync_delays_no_other_member(ram_path)


def test_a_slow_sync_of_an_appender_delays_no_other_member(ram_path: Path) -> None:
    def appender_of(log: Log) -> Any:
        log.maintenance.reconfigure(flush_ms=1 << 40)
        return log.appender(linger_ms=5, ack="synced")

    a_slow_sync_delays_no_other_member(ram_path, appender_of)


def test_planted_syncs_in_the_timers_own_thread_are_found(ram_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer.Ticker, "_waits", lambda self, alarm: False)
    must_break("delayed by another log's sync", lambda: a_slow_sync_delays_no_other_member(ram_path))


def test_a_member_that_is_due_while_it_is_ticked_is_ticked_once_more_by_the_same_thread() -> None:
    ticker, entered, goes_on = timer.Ticker(), threading.Semaphore(0), threading.Semaphore(0)
    by: list[int] = []

    def work() -> None:
        by.append(threading.get_ident())
        entered.release()
        assert goes_on.acquire(timeout=60)

    member = Member(work)
    member._tick_waits = True
    alarm = ticker.add(member, SYSTEM_CLOCK)
    alarm.set(0.0)
    assert entered.acquire(timeout=60)
    for _ in range(3):
        # It is due again and again meanwhile.
        alarm.set(0.0)
        wait_for(lambda: alarm.due_s == math.inf, 60)
    assert member.ticks == 1
    goes_on.release(2)
    assert entered.acquire(timeout=60)
    wait_for(lambda: not ticker._threads.is_busy, 60)
    assert member.ticks == 2
    assert by[0] == by[1] != threading.get_ident()
    ticker.remove(member)
