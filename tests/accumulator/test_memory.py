"""Buffer memory: what may be reserved, and who waits for a release."""

from __future__ import annotations

import random
import threading

import pytest

from logstore.accumulator._memory import BufferMemory
from logstore.clock import SYSTEM_CLOCK
from logstore.testing import ManualClock
from tests.kit.waiting import wait_for


def test_bytes_are_reserved_up_to_the_limit_and_given_back() -> None:
    memory = BufferMemory(100, ManualClock())
    assert memory.try_reserve(60)
    assert memory.try_reserve(40)
    assert not memory.try_reserve(1)
    assert memory.reserved == 100
    memory.release(40)
    assert not memory.try_reserve(41)
    assert memory.try_reserve(40)
    memory.release(60)
    memory.release(40)
    assert memory.reserved == 0


def test_more_than_the_limit_is_reserved_only_while_nothing_else_is() -> None:
    memory = BufferMemory(100, ManualClock())
    assert memory.try_reserve(1)
    assert not memory.try_reserve(500)
    memory.release(1)
    assert memory.try_reserve(500)
    assert not memory.try_reserve(1)
    memory.release(500)
    assert memory.try_reserve(1)


def test_more_than_was_reserved_cannot_be_released() -> None:
    memory = BufferMemory(100, ManualClock())
    memory.try_reserve(10)
    with pytest.raises(AssertionError, match="more was released"):
        memory.release(11)
    assert memory.reserved == 10


def test_a_wait_ends_at_once_if_bytes_were_released_before_it() -> None:
    clock = ManualClock()
    memory = BufferMemory(100, clock)
    memory.try_reserve(100)
    seen = memory.reserved
    memory.release(1)
    memory.wait(seen, 5.0)
    assert clock.monotonic_s() == 0
    memory.wait(memory.reserved, 5.0)
    assert clock.monotonic_s() == 5


def test_a_release_wakes_every_thread_that_waits() -> None:
    memory = BufferMemory(100, SYSTEM_CLOCK)
    memory.try_reserve(100)
    threads = [threading.Thread(target=memory.wait, args=(100, 300.0), daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_for(lambda: memory.waiting == 3, 300)
    memory.release(100)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread that waited for memory was not woken"
    assert memory.waiting == 0


def test_a_wait_that_is_interrupted_no_longer_counts() -> None:
    class Broken(ManualClock):
        def wait(self, condition: threading.Condition, timeout_s: float | None) -> bool:
            raise KeyboardInterrupt

    memory = BufferMemory(100, Broken())
    memory.try_reserve(100)
    with pytest.raises(KeyboardInterrupt):
        memory.wait(100, 5.0)
    assert memory.waiting == 0
    memory.release(100)


def test_threads_that_reserve_wait_and_release_never_pass_the_limit_and_never_sleep_in_vain() -> None:
    """Each thread reserves as a sender does: it tries, and waits for less than what it has seen."""
    limit, each = 1_000, 1_500
    memory = BufferMemory(limit, SYSTEM_CLOCK)
    over: list[int] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(each):
            size = rng.randrange(1, 600)
            while not memory.try_reserve(size):
                seen = memory.reserved
                if memory.try_reserve(size):
                    break
                memory.wait(seen, 3_600.0)
            reserved = memory.reserved
            if reserved > limit:
                over.append(reserved)
            memory.release(size)

    threads = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive(), "a thread sleeps on though memory was released"
    assert over == []
    assert memory.reserved == memory.waiting == 0
