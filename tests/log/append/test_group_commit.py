"""Group commit: threads that want the disk share one sync."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from logstore.errors import StorageError
from logstore.log.append._group_commit import GroupCommit, Rounds
from tests.kit.striking import Struck
from tests.kit.waiting import wait_for


class MadeRounds(Rounds):
    """Rounds of two functions."""

    def __init__(self, is_done: Callable[[int], bool], sync: Callable[[], object]) -> None:
        self._is_done, self._sync = is_done, sync

    def is_done(self, offset: int) -> bool:
        return self._is_done(offset)

    def sync(self, commit: GroupCommit) -> None:
        self._sync()


class Disk(Rounds):
    """A log as a group commit sees it: a count of what is written, and of that what is on disk.

    A round takes the time until `go_on`, unless it is not held.
    """

    def __init__(self, *, is_held: bool = False) -> None:
        self.written = self.synced = self.running = 0
        self.rounds: list[int] = []
        self.leaders: list[threading.Thread] = []
        self.is_held = is_held
        self.entered = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)
        self.before: Callable[[], object] = lambda: None  #: called in the next round, as its leader
        self.lock = threading.Lock()

    def is_done(self, offset: int) -> bool:
        return self.synced >= offset

    def sync(self, commit: GroupCommit) -> None:
        with self.lock:
            self.running += 1
            assert self.running == 1, "two syncs at a time"
            target = self.written
        self.rounds.append(target)
        self.leaders.append(threading.current_thread())
        if self.is_held:
            self.entered.release()
            assert self.go_on.acquire(timeout=300)
        before, self.before = self.before, lambda: None
        with self.lock:
            self.running -= 1
        before()
        self.synced = max(self.synced, target)


class Thread(threading.Thread):
    """A thread that writes and waits for the disk, or waits for an offset; `error` is what it got."""

    def __init__(self, commit: GroupCommit, disk: Disk | None = None, offset: int = 0) -> None:
        super().__init__(daemon=True)
        self.commit, self.disk, self.offset = commit, disk, offset
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        if self.disk is not None:
            with self.disk.lock:
                self.disk.written += 1
                self.offset = self.disk.written
        try:
            self.commit.run(self.offset)
        except BaseException as error:  # noqa: BLE001  looked at by the test
            self.error = error

    def ends(self) -> Thread:
        self.join(300)
        assert not self.is_alive(), "a thread waits for ever"
        return self


@contextlib.contextmanager
def long_turns() -> Iterator[None]:
    """Let a thread keep the GIL until it waits for something or ends."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(100)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def waits(commit: GroupCommit, count: int) -> None:
    wait_for(lambda: commit.waiting == count, 300, lambda: f"{commit.waiting} threads wait, not {count}")


def led_and_waiting(commit: GroupCommit, disk: Disk, count: int) -> list[Thread]:
    """Return a thread that leads a held round, and behind it those that wait, in their order."""
    threads = [Thread(commit, disk)]
    assert disk.entered.acquire(timeout=300)
    for waiting in range(1, count + 1):
        threads.append(Thread(commit, disk))
        waits(commit, waiting)
    return threads


def test_nothing_is_synced_that_is_synced_already():
    GroupCommit(MadeRounds(lambda _: True, lambda: pytest.fail("synced"))).run(5)


def test_a_thread_that_waits_while_another_syncs_is_served_by_the_next_round():
    disk = Disk(is_held=True)
    commit = GroupCommit(disk)
    first = Thread(commit, disk)
    assert disk.entered.acquire(timeout=300)
    # These write while the first round is under way: its sync may not count for them.
    late = [Thread(commit, disk) for _ in range(5)]
    waits(commit, 5)
    disk.go_on.release()
    assert disk.entered.acquire(timeout=300)
    assert disk.synced == 1
    assert all(thread.is_alive() for thread in late)
    disk.go_on.release()
    for thread in (first, *late):
        assert thread.ends().error is None
    assert disk.rounds == [1, 6]
    assert not commit.is_led


def test_at_most_one_sync_runs_at_a_time_and_all_are_served():
    disk = Disk()
    commit = GroupCommit(disk)
    early: list[int] = []

    def work() -> None:
        for _ in range(100):
            with disk.lock:
                disk.written += 1
                mine = disk.written
            commit.run(mine)
            if disk.synced < mine:
                early.append(mine)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    assert early == []
    assert disk.synced == disk.written == 800
    assert len(disk.rounds) <= 800
    assert not commit.is_led


def test_no_thread_waits_for_more_than_two_syncs_and_each_leads_at_most_two():
    """New threads come during each round: none of them may keep an older one from its round."""
    disk = Disk(is_held=True)
    commit = GroupCommit(disk)
    threads = [Thread(commit, disk)]
    assert disk.entered.acquire(timeout=300)
    for nth in range(12):
        came_before = list(threads)
        waiting = commit.waiting
        threads += [Thread(commit, disk), Thread(commit, disk)]
        waits(commit, waiting + 2)
        disk.go_on.release()
        assert disk.entered.acquire(timeout=300)
        # A round has begun that serves all, and the one before it has served all that came before that.
        assert disk.rounds[-1] == len(threads), f"round {nth}"
        for thread in came_before:
            if thread is not disk.leaders[-1]:
                assert thread.ends().error is None
    disk.is_held = False
    disk.go_on.release()
    for thread in threads:
        assert thread.ends().error is None
    assert max(map(disk.leaders.count, disk.leaders)) <= 2
    assert disk.leaders[0] == disk.leaders[1]
    assert not commit.is_led


def test_an_error_is_raised_in_its_leader_and_the_next_one_may_lead():
    done: list[int] = []
    errors: list[BaseException] = [OSError("no disk")]

    def sync() -> None:
        if errors:
            raise errors.pop()
        done.append(1)

    commit = GroupCommit(MadeRounds(lambda _: bool(done), sync))
    with pytest.raises(OSError, match="no disk"):
        commit.run(1)
    assert not commit.is_led
    commit.run(1)
    assert done == [1]


def test_each_waiter_of_a_failed_round_leads_or_asks_and_none_is_told_that_all_is_well():
    """The first sync fails, every later one claims success: a log that has failed says so to each thread."""
    disk = Disk(is_held=True)
    failed: list[BaseException] = []

    class Failing(Rounds):
        def is_done(self, offset: int) -> bool:
            if disk.is_done(offset):
                return True
            if failed:
                raise StorageError("the log has failed")
            return False

        def sync(self, commit: GroupCommit) -> None:
            disk.before = fail
            disk.sync(commit)

    def fail() -> None:
        failed.append(StorageError("a sync has failed"))
        raise failed[0]

    commit = GroupCommit(Failing())
    threads = [Thread(commit, disk)]
    assert disk.entered.acquire(timeout=300)
    threads += [Thread(commit, disk) for _ in range(4)]
    waits(commit, 4)
    disk.go_on.release()
    assert sorted(str(thread.ends().error) for thread in threads) == [
        "a sync has failed",
        *["the log has failed"] * 4,
    ]
    assert disk.rounds == [1]
    assert disk.synced == 0
    assert not commit.is_led


def test_an_error_of_a_round_for_others_is_not_raised_in_the_leader_that_was_served():
    disk = Disk(is_held=True)
    commit = GroupCommit(disk)
    first = Thread(commit, disk)
    assert disk.entered.acquire(timeout=300)
    other = Thread(commit, disk)
    waits(commit, 1)
    disk.go_on.release()
    assert disk.entered.acquire(timeout=300)

    def fail() -> None:
        raise StorageError("no disk for the others")

    disk.before = fail
    disk.go_on.release()
    assert first.ends().error is None
    # The other leads now, and is served by its own round.
    assert disk.entered.acquire(timeout=300)
    disk.go_on.release()
    assert other.ends().error is None
    assert disk.rounds == [1, 2, 2]


def test_a_leader_waits_for_as_many_threads_as_the_last_round_had():
    """Three share a round; the first to come back does not sync until the others are there, too."""
    disk = Disk(is_held=True)
    commit = GroupCommit(disk, patience=1e9)
    threads = [Thread(commit, disk)]
    assert disk.entered.acquire(timeout=300)
    threads += [Thread(commit, disk), Thread(commit, disk)]
    waits(commit, 2)
    disk.is_held = False
    disk.go_on.release()
    for thread in threads:
        thread.ends()
    assert disk.rounds == [1, 3]
    threads = [Thread(commit, disk)]
    wait_for(lambda: commit.is_led, 300)
    threads.append(Thread(commit, disk))
    waits(commit, 1)
    threads.append(Thread(commit, disk))
    for thread in threads:
        assert thread.ends().error is None
    assert disk.rounds == [1, 3, 6]


def test_a_thread_alone_waits_for_no_other():
    disk = Disk()
    commit = GroupCommit(disk, patience=1e9)
    for _ in range(5):
        disk.written += 1
        commit.run(disk.written)
    assert disk.rounds == [1, 2, 3, 4, 5]


def test_a_waiter_that_is_interrupted_leaves_at_once_and_the_others_in_peace(strike):
    disk = Disk(is_held=True)
    commit = GroupCommit(disk)
    first = Thread(commit, disk)
    assert disk.entered.acquire(timeout=300)
    others = [Thread(commit, disk)]
    waits(commit, 1)

    def come_and_strike() -> None:
        waits(commit, 2)
        others.append(Thread(commit, disk))
        waits(commit, 3)
        strike()

    striking = threading.Thread(target=come_and_strike)
    striking.start()
    disk.written += 1
    with pytest.raises(Struck):
        commit.run(disk.written)
    # The sync is still under way: the wait has ended without it.
    assert disk.synced == 0
    striking.join()
    assert commit.waiting == 2
    disk.is_held = False
    disk.go_on.release()
    for thread in (first, *others):
        assert thread.ends().error is None
    assert not commit.is_led


@pytest.mark.parametrize("nth", range(20))
def test_a_waiter_that_is_interrupted_as_it_becomes_the_leader_hands_over(strike, nth):
    """The signal and the end of the round come at the same time: the others slept for ever."""
    disk = Disk(is_held=True)
    commit = GroupCommit(disk)
    first = Thread(commit, disk)
    assert disk.entered.acquire(timeout=300)

    def come() -> None:
        waits(commit, 1)
        others.extend(Thread(commit, disk) for _ in range(2))
        waits(commit, 3)
        disk.is_held = False
        # Fails, so that the leader leaves and hands over to the one that has waited longest: the main thread.
        disk.before = fail
        disk.go_on.release()
        if nth % 2:
            first.join(300)
        strike()

    def fail() -> None:
        raise OSError("no disk")

    others: list[Thread] = []
    coming = threading.Thread(target=come)
    coming.start()
    disk.written += 1
    with contextlib.suppress(Struck):
        commit.run(disk.written)
    with contextlib.suppress(Struck):
        coming.join()
    assert str(first.ends().error) == "no disk"
    for thread in others:
        assert thread.ends().error is None
    assert not commit.is_led
    assert commit.waiting == 0


@pytest.mark.parametrize("came_before", range(4))
@pytest.mark.parametrize("nth", range(5))
def test_a_served_waiter_that_is_interrupted_wakes_those_behind_it(strike, came_before, nth):
    """The first one that is woken is interrupted, or one that the thread before it has not woken yet."""
    disk = Disk(is_held=True)
    threads: list[Thread] = []

    class Waking(Rounds):
        def is_done(self, offset: int) -> bool:
            return disk.is_done(offset)

        def sync(self, commit: GroupCommit) -> None:
            disk.sync(commit)
            if disk.synced < 2:
                return
            strike()
            # The first is woken, the others are served; none of them runs before this thread waits or ends.
            commit.wake_served()

    commit = GroupCommit(Waking())
    first = Thread(commit, disk)
    assert disk.entered.acquire(timeout=300)
    for count in range(came_before):
        threads.append(Thread(commit, disk))
        waits(commit, count + 1)

    def come() -> None:
        waits(commit, came_before + 1)
        for count in range(3):
            threads.append(Thread(commit, disk))
            waits(commit, came_before + 2 + count)
        # The first round serves none of them, and its leader leads the second.
        disk.go_on.release()
        assert disk.entered.acquire(timeout=300)
        disk.is_held = False
        disk.go_on.release()

    coming = threading.Thread(target=come)
    coming.start()
    disk.written += 1
    with contextlib.suppress(Struck), long_turns():
        commit.run(disk.written)
    with contextlib.suppress(Struck):
        coming.join()
    for thread in (first, *threads):
        assert thread.ends().error is None
    assert not commit.is_led
    assert commit.waiting == 0


def test_each_served_thread_wakes_the_next_one_though_its_own_wait_has_ended(strike):
    """A handler runs while the leader wakes its thread; what it raises ends the wait, not the chain."""
    disk = Disk(is_held=True)
    threads: list[Thread] = []
    is_woken = threading.Event()

    def handle(number: int, frame: object) -> None:
        disk.is_held = False
        disk.go_on.release()
        assert is_woken.wait(300)
        raise Struck

    class Waking(Rounds):
        def is_done(self, offset: int) -> bool:
            return disk.is_done(offset)

        def sync(self, commit: GroupCommit) -> None:
            disk.sync(commit)
            commit.wake_served()
            if disk.synced > 1:
                is_woken.set()

    signal.signal(signal.SIGUSR1, handle)
    commit = GroupCommit(Waking())
    first = Thread(commit, disk)
    assert disk.entered.acquire(timeout=300)

    def come() -> None:
        waits(commit, 1)
        for count in range(3):
            threads.append(Thread(commit, disk))
            waits(commit, 2 + count)
        disk.go_on.release()
        assert disk.entered.acquire(timeout=300)
        strike()

    coming = threading.Thread(target=come)
    coming.start()
    disk.written += 1
    with pytest.raises(Struck):
        commit.run(disk.written)
    coming.join()
    for thread in (first, *threads):
        assert thread.ends().error is None
    assert not commit.is_led
    assert commit.waiting == 0


def test_a_woken_thread_whose_bytes_are_no_longer_on_disk_wakes_the_next_one_all_the_same():
    """A truncation comes between, and appends after it: the thread waits for another round."""
    disk = Disk(is_held=True)
    withdrawn = [2]

    class Withdrawing(Rounds):
        def is_done(self, offset: int) -> bool:
            if offset in withdrawn and disk.is_done(offset) and threading.current_thread() is not disk.leaders[-1]:
                withdrawn.clear()
                return False
            return disk.is_done(offset)

        def sync(self, commit: GroupCommit) -> None:
            disk.sync(commit)

    commit = GroupCommit(Withdrawing())
    threads = led_and_waiting(commit, disk, 3)
    for _ in range(2):
        disk.go_on.release()
        assert disk.entered.acquire(timeout=300)
    # The third round is that of the one that was woken first; the others do not wait for it.
    for thread in (threads[0], *threads[2:]):
        assert thread.ends().error is None
    assert threads[1].is_alive()
    assert not withdrawn
    disk.go_on.release()
    assert threads[1].ends().error is None
    assert not commit.is_led


def test_a_leader_that_is_interrupted_in_its_round_hands_over(strike):
    disk = Disk(is_held=True)
    commit = GroupCommit(disk)
    others: list[Thread] = []

    def come_and_strike() -> None:
        assert disk.entered.acquire(timeout=300)
        others.extend(Thread(commit, disk) for _ in range(3))
        waits(commit, 3)
        strike()

    coming = threading.Thread(target=come_and_strike)
    coming.start()
    disk.written += 1
    with pytest.raises(Struck):
        commit.run(disk.written)
    disk.running = 0
    disk.is_held = False
    coming.join()
    # One of them may have begun its round before the line above.
    disk.go_on.release()
    for thread in others:
        assert thread.ends().error is None
    assert disk.synced == 4
    assert not commit.is_led


def test_an_error_of_a_waiters_question_leaves_no_thread_waiting():
    """It is raised in each leader that asks for that waiter, too."""
    disk = Disk(is_held=True)
    odd = 3

    class Asked(Rounds):
        def is_done(self, offset: int) -> bool:
            if offset == odd and disk.synced:
                raise KeyboardInterrupt
            return disk.is_done(offset)

        def sync(self, commit: GroupCommit) -> None:
            disk.sync(commit)

    commit = GroupCommit(Asked())
    threads = led_and_waiting(commit, disk, 4)
    disk.is_held = False
    disk.go_on.release()
    for thread in threads:
        assert type(thread.ends().error) in (type(None), KeyboardInterrupt)
    assert isinstance(threads[odd - 1].error, KeyboardInterrupt)
    assert disk.synced == len(threads)
    assert not commit.is_led


def test_a_waiter_that_leaves_while_the_leader_looks_at_it_is_not_touched_again(strike):
    """`is_done` runs Python code, so another thread may leave in the middle of `wake_served`."""
    disk = Disk(is_held=True)
    main_offset = [0]

    class Asked(Rounds):
        def is_done(self, offset: int) -> bool:
            if offset == main_offset[0] and disk.synced and threading.current_thread() is not main:
                strike()
                wait_for(lambda: commit.waiting < 3, 300)
            return disk.is_done(offset)

        def sync(self, commit: GroupCommit) -> None:
            disk.sync(commit)

    main = threading.current_thread()
    commit = GroupCommit(Asked())
    first = Thread(commit, disk)
    assert disk.entered.acquire(timeout=300)
    others = [Thread(commit, disk)]
    waits(commit, 1)

    def come() -> None:
        waits(commit, 2)
        others.append(Thread(commit, disk))
        waits(commit, 3)
        disk.is_held = False
        disk.go_on.release()

    coming = threading.Thread(target=come)
    coming.start()
    disk.written += 1
    main_offset[0] = disk.written
    with pytest.raises(Struck):
        commit.run(disk.written)
    coming.join()
    for thread in (first, *others):
        assert thread.ends().error is None
    assert not commit.is_led
