"""Appends of several threads, and those beside readers that wait."""

from __future__ import annotations

import functools
import statistics
import threading
from collections.abc import Callable
from typing import Any

import pytest
import records
from interleave import Bar, Runner, Target, race
from runners import COPY_AND_SUM, Ours, log_bytes, raw_writing

from logstore import Isolation
from logstore.io._files import File, Files
from logstore.io._notifier import Notifier
from logstore.log.append._group_commit import GroupCommit, Rounds
from logstore.log.marks._watermark import Registration
from logstore.testing._slow_sync import SlowSyncFiles

SIZE = 100


@pytest.mark.row("S6")
def test_append_beside_waiting_readers(benchmark: Any, places: Any) -> None:
    """10,000 readers wait for records that do not come; beside it no reader, and one woken each time."""
    count, waiting = 10_000, 10_000
    values = [[value] for (value,) in records.groups(SIZE, 1, count)]

    def appending_beside(readers: int, first_wanted: int, every: int) -> Runner:
        def prepare() -> tuple[Ours, Notifier, list[Registration]]:
            log, notifier = Ours(places()), Notifier()
            mark = log.log._end_mark(Isolation.READ_COMMITTED)
            registrations = [Registration(mark, notifier) for _ in range(readers)]
            for number, registration in enumerate(registrations):
                assert registration.arm_for(first_wanted + number * every)
            return log, notifier, registrations

        def work(state: tuple[Ours, Notifier, list[Registration]]) -> None:
            append = state[0].log.append
            for value in values:
                append(value)

        def check(state: tuple[Ours, Notifier, list[Registration]], _result: None) -> None:
            assert state[1].wait(0) is (first_wanted <= count and readers > 0)
            assert state[0].scan() == count
            state[0].close()

        return Runner(work, check, prepare, parts=COPY_AND_SUM)

    race(
        benchmark,
        appending_beside(waiting, count + 1, 1),
        {
            "no reader waits": appending_beside(0, 0, 0),
            "each append wakes one of them": appending_beside(waiting, 1, 1),
        },
        workload=f"append {SIZE} B x 1, {waiting:,} readers wait for others",
        records=count,
        size=count * SIZE,
        bars={"no reader waits": Bar(0.95)},
        codec="none",
    )


@pytest.mark.row("S4", "S6")
def test_durable_single_appends_of_eight_threads(benchmark: Any, places: Any) -> None:
    """Each append returns when its record is on disk; threads that wait share one fdatasync."""
    threads, each = 8, 100
    total = threads * each
    singles = records.groups(SIZE, 1, total)
    pieces = log_bytes(places, singles)
    per_sync: list[float] = []

    def prepare(count: int) -> Any:
        files = Files()
        log = Ours(places(), files=files)
        log.append(singles[0])
        log.flush()
        start = threading.Barrier(count + 1)
        errors: list[BaseException] = []

        def append(mine: list[list[bytes]]) -> None:
            start.wait()
            try:
                for values in mine:
                    log.append(values, ack="synced")
            except BaseException as error:  # noqa: BLE001  raised by the check
                errors.append(error)

        workers = [threading.Thread(target=append, args=(singles[n::count],)) for n in range(count)]
        for worker in workers:
            worker.start()
        return log, files.call_counts()["fdatasync"], files, start, workers, errors

    def work(state: Any) -> None:
        state[3].wait()
        for worker in state[4]:
            worker.join()

    def check(state: Any, _result: None) -> None:
        log, before, files, _, workers, errors = state
        syncs = files.call_counts()["fdatasync"] - before
        if len(workers) == threads:
            per_sync.append(total / syncs)
        assert not errors, errors
        assert log.log.synced_end == total + 1
        assert log.scan() == total + 1
        log.close()

    race(
        benchmark,
        Runner(work, check, lambda: prepare(threads), parts=COPY_AND_SUM),
        {
            "one thread, raw write + fdatasync each": raw_writing(places, pieces, sync_each=True),
            "one thread of ours": Runner(work, check, lambda: prepare(1), parts=COPY_AND_SUM),
        },
        workload=f"{threads} threads, durable single {SIZE} B appends",
        records=total,
        size=total * SIZE,
        bars={"one thread, raw write + fdatasync each": Bar(3, 6)},
        targets=lambda _: [
            Target(
                "appends per fdatasync", statistics.median(per_sync), "", 5, 8, at_most=False, reference="limit 8"
            )
        ],
        codec="none",
        output_bytes=sum(map(len, pieces)),
    )


class BareFile(Rounds):
    """The limit of a group commit: bytes that are ready, one file, nothing but its end to keep."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.end = self.synced = 0
        self.commit = GroupCommit(self)

    def is_done(self, offset: int) -> bool:
        return self.synced >= offset

    def sync(self, commit: GroupCommit) -> None:
        end = self.end
        self.file.sync()
        self.synced = end

    def append(self, piece: bytes) -> None:
        position, self.end = self.end, self.end + len(piece)
        self.file.write(piece, position)
        self.commit.run(position + len(piece))


#: Threads, what lets them begin, and their errors.
Threads = tuple[threading.Barrier, list[threading.Thread], list[BaseException]]


def run_in_threads(calls: list[Callable[[], object]]) -> Threads:
    """Threads that make one call each, once `finish` has let them begin."""
    start = threading.Barrier(len(calls) + 1)
    errors: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        start.wait()
        try:
            call()
        except BaseException as error:  # noqa: BLE001  raised by `finish`
            errors.append(error)

    workers = [threading.Thread(target=run, args=(call,)) for call in calls]
    for worker in workers:
        worker.start()
    return start, workers, errors


def finish(threads: Threads) -> None:
    threads[0].wait()
    for worker in threads[1]:
        worker.join()
    assert not threads[2], threads[2]


@pytest.mark.row("S4", "S6")
@pytest.mark.parametrize("sync_us, each, bar", [(120, 200, Bar(3, 3.6)), (1_000, 60, Bar(5, 5.6))])
def test_durable_appends_by_the_time_of_a_sync(
    benchmark: Any, places: Any, sync_us: int, each: int, bar: Bar
) -> None:
    """A sync takes a set time here, so that the figure is that of the group commit, not of a shared disk."""
    threads = 8
    total = threads * each
    singles = records.groups(SIZE, 1, total)
    pieces = log_bytes(places, singles)

    def slow_files() -> SlowSyncFiles:
        files = SlowSyncFiles()
        files.sync_us = sync_us
        return files

    def appending_each(append: Callable[[Any], object], items: list[Any]) -> Callable[[], None]:
        def work() -> None:
            for item in items:
                append(item)

        return work

    def prepare(count: int) -> Any:
        log = Ours(places(), files=slow_files())
        log.append(singles[0])
        log.flush()
        append = functools.partial(log.append, ack="synced")
        return run_in_threads([appending_each(append, singles[n::count]) for n in range(count)]), log

    def check(state: Any, _result: None) -> None:
        log = state[1]
        assert log.log.synced_end == total + 1
        assert log.scan() == total + 1
        log.close()

    def prepare_bare(count: int) -> Any:
        bare = BareFile(slow_files().open(str(places() / "bare"), create=True, writable=True))
        return run_in_threads([appending_each(bare.append, pieces[n::count]) for n in range(count)]), bare

    def check_bare(state: Any, _result: None) -> None:
        assert state[1].synced == state[1].file.size() == sum(map(len, pieces))
        state[1].file.close()

    def bare(count: int) -> Runner:
        return Runner(lambda state: finish(state[0]), check_bare, lambda: prepare_bare(count))

    race(
        benchmark,
        Runner(lambda state: finish(state[0]), check, lambda: prepare(threads), parts=COPY_AND_SUM),
        {
            "one thread, write and sync each": bare(1),
            f"limit: {threads} threads, bare writes, group commit": bare(threads),
            "one thread of ours": Runner(
                lambda state: finish(state[0]), check, lambda: prepare(1), parts=COPY_AND_SUM
            ),
        },
        workload=f"{threads} threads, durable single {SIZE} B appends, a sync takes {sync_us:,} us",
        records=total,
        size=total * SIZE,
        bars={"one thread, write and sync each": bar},
        codec="none",
        output_bytes=sum(map(len, pieces)),
    )


@pytest.mark.row("S6")
def test_appends_of_eight_threads_to_logs_of_their_own(benchmark: Any, places: Any) -> None:
    """Not synced: what the threads share is the interpreter, so they are at best as fast as one."""
    threads, each = 8, 2_000
    total = threads * each
    singles = records.groups(SIZE, 1, total)

    def prepare(count: int) -> Any:
        logs = [Ours(places()) for _ in range(threads)]

        def work(mine: list[Ours]) -> None:
            for log in mine:
                append = log.append
                for values in singles[:each]:
                    append(values)

        return run_in_threads([functools.partial(work, logs[n::count]) for n in range(count)]), logs

    def check(state: Any, _result: None) -> None:
        for log in state[1]:
            assert log.scan() == each
            log.close()

    def of(count: int) -> Runner:
        return Runner(lambda state: finish(state[0]), check, lambda: prepare(count), parts=COPY_AND_SUM)

    race(
        benchmark,
        of(threads),
        {"one thread, the same logs": of(1)},
        workload=f"{threads} threads, single {SIZE} B appends to logs of their own, no sync",
        records=total,
        size=total * SIZE,
        bars={"one thread, the same logs": Bar(0.9, 1)},
        codec="none",
    )
