"""The future of a send is a `concurrent.futures.Future`: what takes one of those takes it, and it costs no more."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import random
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Iterator
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION, Future
from pathlib import Path

import pytest

import logstore
from logstore.errors import DiskFullError
from logstore.records import RecordMetadata
from logstore.testing import ManualClock
from tests.kit.waiting import wait_for

#: What an answer must come within, however busy the machine is.
WATCHDOG_S = 60


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[logstore.Store]:
    with logstore.open(tmp_path / "data", clock=clock, rng=random.Random(5), environ={}) as opened:
        opened.create_topic("flights")
        opened.create_topic("weather")
        yield opened


@pytest.fixture
def producer(store: logstore.Store) -> Iterator[logstore.Producer]:
    with store.producer(linger_ms=1_000) as made:
        yield made


def in_thread(*calls: object) -> list[threading.Thread]:
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    return threads


def joined(threads: list[threading.Thread]) -> bool:
    for thread in threads:
        thread.join(WATCHDOG_S)
    return not any(thread.is_alive() for thread in threads)


def test_it_is_one_and_runs_until_it_is_done(producer: logstore.Producer) -> None:
    future = producer.send("flights", b"AA 1141")
    assert isinstance(future, Future)
    assert issubclass(type(future), Future)
    assert (future.done(), future.running(), future.cancelled()) == (False, True, False)
    assert not future.cancel(), "a record that was sent cannot be taken back"
    producer.flush()
    assert (future.done(), future.running(), future.cancelled()) == (True, False, False)
    assert not future.cancel()
    assert future.result() == RecordMetadata("flights", 0, 0, future.result().timestamp_ms)
    assert future.exception() is None


def test_wait_returns_once_all_are_done(producer: logstore.Producer) -> None:
    futures = [producer.send(topic, b"v") for topic in ("flights", "weather") for _ in range(3)]
    done, left = concurrent.futures.wait(futures, timeout=0)
    assert (done, left) == (set(), set(futures))
    producer.flush()
    done, left = concurrent.futures.wait(futures, timeout=WATCHDOG_S)
    assert (done, left) == (set(futures), set())


@pytest.mark.parametrize("until", [ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION])
def test_wait_is_woken_by_the_answer(producer: logstore.Producer, until: str) -> None:
    futures = [producer.send("flights", b"v") for _ in range(3)]
    found: list[int] = []
    threads = in_thread(lambda: found.append(len(concurrent.futures.wait(futures, None, until).done)))
    until_waited_for(futures[-1])
    producer.flush()
    assert joined(threads)
    assert 1 <= found[0] <= 3
    assert found == [3] or until == FIRST_COMPLETED


def until_waited_for(future: Future[RecordMetadata]) -> None:
    wait_for(lambda: future._waiters)


def test_wait_ends_at_the_first_that_fails(producer: logstore.Producer) -> None:
    fine = producer.send("weather", b"v")
    producer.flush()
    other: Future[int] = Future()
    lost = producer.send("flights", b"v")
    threads = in_thread(lambda: concurrent.futures.wait([fine, lost, other], None, FIRST_EXCEPTION))
    until_waited_for(lost)
    producer._batchers[-1].abandon(DiskFullError("no room"))
    assert joined(threads)
    assert isinstance(lost.exception(), DiskFullError)
    done, left = concurrent.futures.wait([fine, lost, other], WATCHDOG_S, FIRST_EXCEPTION)
    assert (done, left) == ({fine, lost}, {other})


def test_as_completed_gives_each_once_as_it_is_done(producer: logstore.Producer) -> None:
    first = producer.send("flights", b"v")
    producer.flush()
    futures = [first, *(producer.send("weather", b"v") for _ in range(3))]
    found = []
    for future in concurrent.futures.as_completed(futures, timeout=WATCHDOG_S):
        if not found:
            assert future is first
            producer.flush()
        found.append(future.result().topic)
    assert found == ["flights", "weather", "weather", "weather"]
    with pytest.raises(TimeoutError):
        list(concurrent.futures.as_completed([producer.send("flights", b"v")], timeout=0))


def test_it_can_be_waited_for_beside_those_of_an_executor(producer: logstore.Producer) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        sent = producer.send("flights", b"v")
        flushed = executor.submit(producer.flush)
        assert concurrent.futures.wait([sent, flushed], WATCHDOG_S).not_done == set()


def test_a_wait_that_begins_while_the_answer_is_told_counts_each_once(producer: logstore.Producer) -> None:
    """One that was seen done and told again would be counted twice, and the wait would end too early."""
    for _ in range(100):
        futures = [producer.send(topic, b"v") for topic in ("flights", "weather") for _ in range(2)]
        other: Future[None] = Future()
        answered = threading.Event()

        early: list[set[Future[RecordMetadata] | Future[None]]] = []

        def wait(
            futures: list[Future[RecordMetadata]] = futures,
            other: Future[None] = other,
            early: list[set[Future[RecordMetadata] | Future[None]]] = early,
        ) -> None:
            early.append(concurrent.futures.wait([*futures, other], WATCHDOG_S).not_done)

        threads = in_thread(wait, lambda answered=answered: (producer.flush(), answered.set()))
        assert answered.wait(WATCHDOG_S)
        other.set_result(None)
        assert joined(threads)
        assert early == [set()]


def test_many_threads_wait_for_the_same_futures_in_any_order(producer: logstore.Producer) -> None:
    """Each future has a lock of its own, which are taken in one order: shared ones would block each other."""
    futures = [producer.send(topic, b"v") for _ in range(20) for topic in ("flights", "weather")]
    found: list[int] = []

    def wait(number: int) -> None:
        mine = random.Random(number).sample(futures, 30)
        found.append(len(concurrent.futures.wait(mine, WATCHDOG_S).done))
        found.append(len(list(concurrent.futures.as_completed(mine, WATCHDOG_S))))

    threads = in_thread(*(lambda number=number: wait(number) for number in range(8)))
    producer.flush()
    assert joined(threads)
    assert found == [30] * 16


def test_asyncio_wraps_it(producer: logstore.Producer) -> None:
    async def main() -> int:
        wrapped = asyncio.wrap_future(producer.send("flights", b"v"))
        dropped = asyncio.wrap_future(producer.send("flights", b"v"))
        dropped.cancel()  # of the wait; the record is written
        lost = asyncio.wrap_future(producer.send("weather", b"v"))
        await asyncio.to_thread(producer._batchers[-1].abandon, DiskFullError("no room"))
        await asyncio.to_thread(producer.flush)
        with pytest.raises(DiskFullError):
            await asyncio.wait_for(lost, WATCHDOG_S)
        return (await asyncio.wait_for(wrapped, WATCHDOG_S)).offset

    assert asyncio.run(main()) == 0


def test_only_its_producer_answers_it(producer: logstore.Producer) -> None:
    future = producer.send("flights", b"v")
    with pytest.raises(concurrent.futures.InvalidStateError):
        future.set_result(RecordMetadata("flights", 0, 0, 0))
    with pytest.raises(concurrent.futures.InvalidStateError):
        future.set_exception(ValueError())
    with pytest.raises(concurrent.futures.InvalidStateError):
        future.set_running_or_notify_cancel()
    assert not future.done()


def test_one_that_no_producer_made_says_so() -> None:
    from logstore.accumulator._batcher import SendFuture

    with pytest.raises(TypeError, match=r"comes from Producer\.send"):
        SendFuture()
    made = SendFuture.__new__(SendFuture)
    with pytest.raises(TypeError, match=r"comes from Producer\.send"):
        made.done()


def test_it_takes_attributes_and_weak_references(producer: logstore.Producer) -> None:
    future = producer.send("flights", b"v")
    assert vars(future) == {}
    future.trace = "t-1"
    reference = weakref.ref(future)
    assert (vars(future), reference()) == ({"trace": "t-1"}, future)
    del future
    assert reference() is None


def test_a_watched_future_goes_with_its_batch(producer: logstore.Producer) -> None:
    future = producer.send("flights", b"v")
    concurrent.futures.wait([future], timeout=0)
    reference = weakref.ref(future)
    producer.flush()
    del future
    assert reference() is None


def test_a_future_is_one_piece_of_memory_that_the_collector_does_not_see(producer: logstore.Producer) -> None:
    """As light as one that is nothing else: no lock, list or dict before one is asked for; memory is used again."""
    kept = [producer.send("flights", b"v") for _ in range(10)]
    assert not any(gc.is_tracked(future) for future in kept)
    assert all(sys.getsizeof(future) <= 80 for future in kept)
    del kept
    before = sys.getallocatedblocks()
    for _ in range(10_000):
        producer.send("weather", b"v")
    assert sys.getallocatedblocks() - before < 500  # a batch, not a future each
    kept = [producer.send("weather", b"v") for _ in range(100)]
    tracemalloc.start()
    try:
        kept = [producer.send("flights", b"v") for _ in range(1_000)]
        assert tracemalloc.get_traced_memory()[0] / len(kept) < 80 + 8 + 40
    finally:
        tracemalloc.stop()
