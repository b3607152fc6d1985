"""Group commit: threads that want the disk share one sync."""

from __future__ import annotations

import contextlib
import threading

import pytest

from logstore.clock import SystemClock
from logstore.errors import StorageError
from logstore.log.append.group_commit import GroupCommit, _Waiter


def test_nothing_is_synced_that_is_synced_already():
    GroupCommit().run(lambda: True, lambda: pytest.fail("synced"))


def test_a_thread_that_waits_while_another_syncs_is_served_by_the_next_round():
    commit = GroupCommit()
    written, synced, rounds = [0], [0], []
    entered, go_on = threading.Event(), threading.Event()

    def sync():
        target = written[0]
        rounds.append(target)
        entered.set()
        assert go_on.wait(300)
        synced[0] = target

    def append():
        written[0] += 1
        mine = written[0]
        commit.run(lambda: synced[0] >= mine, sync)
        assert synced[0] >= mine

    first = threading.Thread(target=append)
    first.start()
    assert entered.wait(300)
    # These write while the first round is under way: its sync may not count for them.
    written[0] += 5
    late = [threading.Thread(target=lambda: commit.run(lambda: synced[0] >= 6, sync)) for _ in range(5)]
    for thread in late:
        thread.start()
    go_on.set()
    for thread in (first, *late):
        thread.join()
    assert rounds == [1, 6]


def test_at_most_one_sync_runs_at_a_time_and_all_are_served():
    commit = GroupCommit()
    lock = threading.Lock()
    state = {"written": 0, "synced": 0, "running": 0, "rounds": 0}

    def sync():
        with lock:
            state["running"] += 1
            assert state["running"] == 1
            target = state["written"]
        with lock:
            state["synced"] = max(state["synced"], target)
            state["rounds"] += 1
            state["running"] -= 1

    def work():
        for _ in range(100):
            with lock:
                state["written"] += 1
                mine = state["written"]
            commit.run(lambda mine=mine: state["synced"] >= mine, sync)
            assert state["synced"] >= mine

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state["synced"] == state["written"] == 800
    assert state["rounds"] <= 800


def test_an_error_is_raised_in_its_leader_and_the_next_one_may_lead():
    commit = GroupCommit()

    def fail():
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        commit.run(lambda: False, fail)
    done = []
    commit.run(lambda: bool(done), lambda: done.append(1))
    assert done == [1]


def test_a_waiter_of_a_failed_round_leads_the_next():
    commit = GroupCommit()
    entered, go_on = threading.Event(), threading.Event()
    failures: list[str] = []

    def fail_slowly():
        entered.set()
        assert go_on.wait(300)
        raise OSError("first")

    def fail_at_once():
        raise OSError("second")

    def run(sync):
        try:
            commit.run(lambda: False, sync)
        except OSError as error:
            failures.append(str(error))

    first = threading.Thread(target=run, args=(fail_slowly,))
    first.start()
    assert entered.wait(300)
    second = threading.Thread(target=run, args=(fail_at_once,))
    second.start()
    go_on.set()
    first.join()
    second.join()
    assert sorted(failures) == ["first", "second"]


class SlowDisk(SystemClock):
    """A clock on which each sync takes ``sync_s``, and which says how long a leader was ready to wait."""

    def __init__(self, sync_s: float) -> None:
        self.now = 0.0
        self.sync_s = sync_s
        self.waits: list[float] = []

    def monotonic_s(self) -> float:
        return self.now

    def sync(self) -> None:
        self.now += self.sync_s

    def wait(self, condition, timeout_s):
        self.waits.append(timeout_s)
        return condition.wait(300)


def test_a_leader_waits_for_the_threads_of_the_last_round():
    """Two share a round; the first to come back does not sync until the second is there too."""
    clock = SlowDisk(sync_s=8.0)
    commit = GroupCommit(clock)
    first_began, first_may_end = threading.Event(), threading.Event()
    rounds = []
    done = {"a": False, "b": False}

    def sync():
        rounds.append(sorted(name for name, is_done in done.items() if not is_done))
        if len(rounds) == 1:
            first_began.set()
            assert first_may_end.wait(300)
        clock.sync()
        done.update(a=True, b=True)

    a = threading.Thread(target=commit.run, args=(lambda: done["a"], sync))
    a.start()
    assert first_began.wait(300)
    b = threading.Thread(target=commit.run, args=(lambda: done["b"], sync))
    b.start()
    while not commit._waiting:
        pass
    first_may_end.set()
    a.join()
    b.join()
    done.update(a=False, b=False)
    a = threading.Thread(target=commit.run, args=(lambda: done["a"], sync))
    a.start()
    while not clock.waits:
        pass
    assert clock.waits == [1.0]
    assert len(rounds) == 1
    commit.run(lambda: done["b"], sync)
    a.join()
    assert rounds[1:] == [["a", "b"]]


def test_no_thread_waits_on_a_fast_disk_or_alone():
    clock = SlowDisk(sync_s=0.0)
    commit = GroupCommit(clock)
    commit._gathered = 5
    done = []
    commit.run(lambda: bool(done), lambda: done.append(1))
    clock.sync_s = 8.0
    for _ in range(3):
        done.clear()
        commit.run(lambda: bool(done), lambda: (clock.sync(), done.append(1)))
    assert clock.waits == []


def test_a_leader_serves_later_threads_and_hands_over_after_a_few_rounds():
    commit = GroupCommit()
    leaders: list[int] = []
    done: set[int] = set()
    begun: list[threading.Thread] = []

    def append(number: int) -> None:
        commit.run(lambda: number in done, lambda: sync(number))

    def sync(leader: int) -> None:
        """Serves the oldest that is not done, and while it does another one comes."""
        leaders.append(leader)
        if len(begun) < 10:
            before = len(commit._waiting)
            begun.append(threading.Thread(target=append, args=(len(begun) + 1,)))
            begun[-1].start()
            while len(commit._waiting) <= before:
                pass
        done.add(len(done))

    append(0)
    for thread in begun:
        thread.join()
    assert done == set(range(11))
    assert len(leaders) == 11
    assert max(map(leaders.count, leaders)) == 4
    assert commit._leader is None


def test_an_error_of_a_round_for_others_is_not_raised_in_the_leader_that_was_served():
    commit = GroupCommit()
    done: set[str] = set()
    failures: list[str] = []

    def wait() -> None:
        try:
            commit.run(lambda: "b" in done, fail)
        except OSError as error:
            failures.append(str(error))

    def fail() -> None:
        raise OSError("no disk")

    other = threading.Thread(target=wait)

    def sync() -> None:
        if "a" in done:
            raise StorageError("no disk for the others")
        other.start()
        while not commit._waiting:
            pass
        done.add("a")

    commit.run(lambda: "a" in done, sync)
    other.join()
    assert failures == ["no disk"]
    assert commit._leader is None


def test_a_waiter_that_is_interrupted_leaves_the_others_in_peace():
    commit = GroupCommit()
    done: set[str] = set()

    class Interrupted(_Waiter):
        def __init__(self, is_done):
            super().__init__(is_done)
            self.lock = self

        def acquire(self):
            raise KeyboardInterrupt

    def sync() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("logstore.log.append.group_commit._Waiter", Interrupted)
            with pytest.raises(KeyboardInterrupt):
                commit.run(lambda: False, lambda: pytest.fail("led"))
        assert commit._waiting == []
        done.add("a")

    commit.run(lambda: "a" in done, sync)
    assert commit._leader is None


def test_an_error_of_a_waiters_question_costs_no_other_waiter():
    commit = GroupCommit()
    done: set[str] = set()
    threads: list[threading.Thread] = []

    def ask(name: str) -> bool:
        if name == "odd" and "a" in done:
            raise KeyboardInterrupt
        return name in done

    def wait(name: str) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            commit.run(lambda: ask(name), lambda: done.update(("b", "c")))

    def sync() -> None:
        for name in ("b", "odd", "c"):
            threads.append(threading.Thread(target=wait, args=(name,)))
            threads[-1].start()
            while len(commit._waiting) < len(threads):
                pass
        done.add("a")

    with pytest.raises(KeyboardInterrupt):
        commit.run(lambda: "a" in done, sync)
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    assert commit._leader is None
