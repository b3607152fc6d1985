"""A process whose main thread is interrupted in the middle of what it does: `test_interrupts` runs it.

``lines`` raises KeyboardInterrupt at every line of the package that an action runs, one after the other, as a
debugger would. ``storm`` has real signals, alone and in bursts, come out of the package's code, while other threads
use the same log. After each interrupt nothing may have failed, no lock may be left, every thread goes on, and what
was acknowledged is there. A process that hangs says where, and ends. The last line says how many came.

    python -m tests.crash.interrupts lines DIRECTORY SEED COUNT
    python -m tests.crash.interrupts storm DIRECTORY SEED SECONDS
"""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import itertools
import random
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import logstore
from logstore import Log
from logstore.batch._encode import encode
from logstore.errors import CorruptRecordError, DirectoryLockedError, FencedLeaderEpochError, StorageFailedError
from logstore.io._files import LIBC
from logstore.log.directory.next_segment import name_after
from logstore.testing import FaultyFiles
from tests.kit.inside import failure_of, is_closed
from tests.kit.logs import at
from tests.kit.striking import PACKAGE, Lines, at_line
from tests.kit.waiting import wait_for

PATIENCE_S = 300
THREADS = 7

#: The leader epoch that an interrupted call begins, and the offset at which a log restarts.
EPOCH, RESTART = 5, 100
#: What is done on a table of file operations that fail.
FAULTY = ("full", "failed_sync")
#: Parts of a run that may be there, where it is not all five: a batch that no segment takes is refused, and the one
#: behind it has an answer of its own; a bad one ends a run.
TAKEN = {"large": (0, 2), "bad_run": (0, 1, 2), "falling_epoch": (0, 1, 2)}
#: Between two batches of a run: an offset of a segment's index has 31 bits.
WIDE = 1 << 32


class Struck(BaseException):
    """What the handler raises."""


class Unfair(Exception):
    """A promise was broken."""


def check(holds: bool, what: str) -> None:
    if not holds:
        if "for ever" in what:
            faulthandler.dump_traceback(all_threads=True)
        raise Unfair(what)


def beside(act: Callable[[], Any]) -> Any:
    """What ``act`` returns in another thread, which has to come to its end."""
    answer: list[Any] = []

    def run() -> None:
        try:
            answer.append(act())
        except BaseException as error:  # noqa: BLE001  raised again below
            answer.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    check(not thread.is_alive(), "another thread waits for ever")
    if isinstance(answer[0], BaseException):
        raise answer[0]
    return answer[0]


# --- one interrupt, at each line ----------------------------------------------------------------


class LogCase:
    """A log with some records, something done to it, and what has to hold afterwards."""

    settings: dict[str, Any] = {"segment_bytes": 400}  # noqa: RUF012

    def __init__(self, path: Path, name: str) -> None:
        self.path = path / "t-0"
        self.name = name
        self.others: list[threading.Thread] = []
        self.files = FaultyFiles()
        self.log = Log.open(self.path, self.settings_of(name), files=self.files if name in FAULTY else LIBC)
        self.known = [b"%d" % n * 20 for n in range(4)]
        for value in self.known:
            self.log.append([value])
        if not name.endswith("tail"):
            self.log.flush()
        self.appender = self.log.appender(linger_ms=3_600_000, ack="synced" if name == "buffered_synced" else None)
        self.epoch = 0  # of the log after the interrupt
        self.buffered = 0  # records that the appender has taken
        self.rolled: list[bytes] = []  # given to the log one by one, until one is refused

    def settings_of(self, name: str) -> dict[str, Any]:
        return {**self.settings, "logstore.tail": "memory"} if name.endswith("tail") else self.settings

    def act(self) -> Any:
        return getattr(self, "do_" + self.name)()

    def do_append(self) -> Any:
        return self.log.append([b"new"])

    def do_many(self) -> Any:
        return self.log.append([b"many %d" % n * 10 for n in range(9)])

    def do_synced(self) -> Any:
        return self.log.append([b"new"], ack="synced")

    def do_group(self) -> Any:
        """Others wait for the same disk, and must be served whatever becomes of this thread."""
        self.others = [threading.Thread(target=self.append_some, args=(n,), daemon=True) for n in range(3)]
        for thread in self.others:
            thread.start()
        for _ in range(3):
            self.log.append([b"group"], ack="synced")

    def append_some(self, thread: int) -> None:
        for _ in range(3):
            self.log.append([b"from %d" % thread], ack="synced")

    def do_tail(self) -> Any:
        return self.log.append([b"new"], ack="synced")

    def do_buffered(self) -> Any:
        self.appender.append(b"new")
        self.buffered += 1
        return self.appender.flush()

    do_buffered_synced = do_buffered_tail = do_buffered

    def do_produced(self) -> Any:
        from logstore.log.append.append import ProducerStamp

        return self.log.append([b"new"], producer=ProducerStamp(7, 0, 0))

    def do_run(self) -> Any:
        return self.log.replica.append_run(bytearray(encode([b"new"])), max_timestamp_ms=0)

    def do_batch(self) -> Any:
        return self.log.replica.append_batch(encode([b"new"]))

    def do_turn(self) -> Any:
        """Of clients that each have their own answer: the batches that are there are the first ones."""
        return self.log.replica.append_turn([encode([self.part(n)]) for n in range(5)])

    def do_replicated(self) -> Any:
        """As a leader has stored them; more than a segment takes."""
        run = [at(encode([self.part(n)]), len(self.known) + n) for n in range(5)]
        return self.log.replica.append_replicated(b"".join(run))

    def do_bad_run(self) -> Any:
        """The batches before the bad one may be there, no other."""
        run = [at(encode([self.part(n)]), len(self.known) + n) for n in range(5)]
        run[3] = run[3][:-1] + b"!"
        with contextlib.suppress(CorruptRecordError):
            self.log.replica.append_replicated(b"".join(run))
            raise Unfair("a bad batch was taken")

    def do_gap(self) -> Any:
        """The offsets between two batches need more than 31 bits."""
        run = [at(encode([self.part(n)]), len(self.known) + n * WIDE) for n in range(3)]
        return self.log.replica.append_replicated(b"".join(run), is_contiguous=False)

    def do_large(self) -> Any:
        """One of the batches is larger than a segment."""
        return self.log.replica.append_turn([encode([self.part(n)] * (1, 40, 1)[n]) for n in range(3)])

    def do_full(self) -> Any:
        """The disk is full after some batches of a turn."""
        self.files.fail("pwrite", 2, errno.ENOSPC, times=-1, path_contains=".log")
        results = self.do_turn()
        self.files.heal()
        return results

    def do_failed_sync(self) -> None:
        """The sync of a sealed segment fails in the background of a roll: the next append says so."""
        self.files.fail("fdatasync", 1, errno.EIO, path_contains=".log")
        with contextlib.suppress(StorageFailedError):
            for n in range(9):
                self.rolled.append(b"rolled %d" % n * 10)
                self.log.append([self.rolled[-1]])
            raise Unfair("an append after the failed sync was taken")

    def do_falling_epoch(self) -> None:
        """A leader epoch that has begun falls, in a call and within a run."""
        replica = self.log.replica
        replica.begin_epoch(EPOCH)
        with contextlib.suppress(FencedLeaderEpochError):
            replica.begin_epoch(EPOCH - 1)
            raise Unfair("a lower epoch has begun")
        epochs = (EPOCH, EPOCH, EPOCH, EPOCH - 1, EPOCH)
        run = [at(encode([self.part(n)]), len(self.known) + n, epoch) for n, epoch in enumerate(epochs)]
        with contextlib.suppress(FencedLeaderEpochError):
            replica.append_replicated(b"".join(run))
            raise Unfair("a batch of an older epoch was taken")

    @staticmethod
    def part(n: int) -> bytes:
        return b"part %d " % n * 12

    def do_epoch(self) -> Any:
        self.log.replica.begin_epoch(EPOCH)

    def do_restart(self) -> Any:
        self.log.replica.restart_at(RESTART)

    def do_flush(self) -> Any:
        self.log.append([b"new"])
        return self.log.flush()

    def do_roll(self) -> Any:
        return self.log.maintenance.roll()

    def do_truncate(self) -> Any:
        return self.log.replica.truncate_to(3)

    def do_delete(self) -> Any:
        return self.log.delete_before(2)

    def do_retain(self) -> Any:
        return self.log.maintenance.retain(now_ms=2**50)

    def do_close(self) -> Any:
        self.log.close()

    def do_reopen(self) -> Any:
        self.log.close()
        with Log.open(self.path, self.settings) as log:
            return log.append([b"new"])

    def do_prepared(self) -> Any:
        """A process was killed that had prepared the next segment."""
        self.log.close()
        (self.path / name_after(0)).write_bytes(bytes(10))
        return self.do_reopen()

    def verify(self, where: str) -> None:
        log, fired = self.log, self.files.fired()
        self.files.heal()
        for thread in filter(lambda thread: thread.ident, self.others):
            thread.join(PATIENCE_S)
            check(not thread.is_alive(), "a thread that shared the sync waits for ever")
        if fired and self.name == "failed_sync":
            self.verify_failed(where)
        elif self.name not in ("close", "reopen", "prepared"):
            # In this thread and in another, before anything is opened again.
            self.appender.close()
            check(failure_of(log) is None, f"the log has failed: {failure_of(log)}")
            beside(lambda: log.append([b"other"], ack="synced"))
            mine = log.append([b"mine"], ack="synced")
            check(log.high_watermark == mine.last_offset + 1, "what is acknowledged is not seen")
            self.epoch = log.replica.leader_epoch
        beside(log.close)
        with Log.open(self.path, self.settings) as log:
            found = [(record.offset, record.value) for record in log.scan()]
            self.verify_epoch(log)
            check(log.append([b"again"], ack="synced").first_offset == log.high_watermark - 1, "wrong end")
        offsets = [offset for offset, _ in found]
        if self.name == "gap":
            gaps = [after - before for before, after in itertools.pairwise(offsets) if after != before + 1]
            check(gaps in ([], [WIDE], [WIDE, WIDE]), f"{offsets}")
        else:
            check(offsets == list(range(offsets[0], offsets[0] + len(offsets))) if offsets else True, f"{offsets}")
        values = [value for _, value in found]
        new = [value for value in values if value.startswith(b"many")]
        check(len(new) in (0, 9), f"part of an append is there: {new}")
        parts = [value for value in values if value.startswith(b"part")]
        taken = [self.part(n) for n in TAKEN.get(self.name, range(5))]
        check(parts == taken[: len(parts)], f"not the first batches of a run: {parts}")
        rolled = [value for value in values if value.startswith(b"rolled")]
        # The last one was refused, or was interrupted.
        check(rolled in (self.rolled, self.rolled[:-1]), f"an append is lost: {rolled}")
        check(self.buffered <= values.count(b"new") <= 1, f"an append is lost, or there twice: {values}")
        for n, thread in enumerate(self.others):
            check(thread.ident is None or values.count(b"from %d" % n) == 3, "what was acknowledged is lost")
        if self.name == "restart":
            # Empty from the first step on, and at the end where it has to begin.
            check(offsets[0] in (0, RESTART), f"begins at {offsets[0]}")
            check(offsets[0] == 0 or not set(self.known) & set(values), "records of before the restart are there")
        kept = {"truncate": self.known[:3], "delete": self.known[2:], "retain": []}.get(self.name, self.known)
        if self.name == "restart" and not set(self.known) & set(values):
            kept = []
        check([value for value in kept if value not in values] == [], f"lost: {where} {values}")

    def verify_failed(self, where: str) -> None:
        """Whatever was interrupted, a failed sync has failed the log, and nothing is promised above it."""
        log = self.log
        check(failure_of(log) is not None, f"a sync has failed, and the log goes on: {where}")
        check(log.synced_end == len(self.known), f"synced up to {log.synced_end}")
        for act in (lambda: log.append([b"refused"]), log.flush):
            with contextlib.suppress(StorageFailedError):
                beside(act)
                raise Unfair("a failed log takes writes")

    def verify_epoch(self, log: Log) -> None:
        """The epoch has begun or has not, in the open log and for every later one."""
        epoch = log.replica.leader_epoch
        if self.name in ("reopen", "prepared", "failed_sync") and epoch:
            # The log has failed, or was dropped before its `close` began: after an unclean stop the epoch rises.
            check(epoch == 1 and not log.maintenance.was_clean, f"leader epoch {epoch} after a clean stop")
            return
        check(epoch in ((0, EPOCH) if self.name.endswith("epoch") else (0,)), f"leader epoch {epoch}")
        check(epoch == self.epoch, f"leader epoch {epoch} after the close, {self.epoch} before")
        starts = {entry.epoch for entry in log.replica.epochs.entries}
        check(epoch in starts, f"leader epoch {epoch} is in no file: {starts}")


class StoreCase:
    """A store in which a consumer commits, a producer writes, or topics come and go."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path / "s", name
        self.store = logstore.open(self.path, housekeeping="manual")
        self.store.create_topic("t").append(b"0")
        self.consumer = self.store.consumer(group="g", auto_offset_reset="earliest", enable_auto_commit=False)
        self.consumer.assign_topics(["t"])
        self.consumer.poll()
        self.consumer.commit()
        self.producer = self.store.producer(linger_ms=0)
        self.producer.send("t", b"1").result(PATIENCE_S)
        self.store.topic("t").append(b"2")

    def act(self) -> Any:
        return getattr(self, "do_" + self.name)()

    def do_poll(self) -> Any:
        return self.consumer.poll()

    def do_commit(self) -> Any:
        return self.consumer.commit()

    def do_append(self) -> Any:
        return self.store.topic("t").append(b"new")

    def do_send(self) -> Any:
        return self.producer.send("t", b"new").result(PATIENCE_S)

    def do_send_and_flush(self) -> Any:
        self.producer.send("t", b"new")
        self.producer.flush()

    def do_create(self) -> Any:
        return self.store.create_topic("u", partitions=2)

    def do_housekeep(self) -> Any:
        return self.store.housekeep()

    def do_shut(self) -> Any:
        self.store.close()

    def verify(self, where: str) -> None:
        store = self.store
        if self.name != "shut":
            beside(lambda: store.topic("t").append(b"other"))
            beside(lambda: store.offsets.commit("h", {("t", 0): 1}))  # type: ignore[dict-item]
            self.consumer.commit()
            self.producer.send("t", b"mine").result(PATIENCE_S)
            self.producer.flush()
            store.create_topic("v")
        beside(store.close)
        with logstore.open(self.path) as store:
            log = store["t"][0]
            values = [record.value for record in log.scan()]
            check(values[:3] == [b"0", b"1", b"2"], f"lost: {values}")
            check(values.count(b"new") <= 1, f"twice: {values}")
            check(store.offsets.committed("g")[("t", 0)].offset >= 1, "a commit is lost")  # type: ignore[index]


LOGS = [name[3:] for name in vars(LogCase) if name.startswith("do_")]
STORES = [name[3:] for name in vars(StoreCase) if name.startswith("do_")]


def lines(path: Path, seed: int, count: int) -> int:
    """Interrupt every line of every action, or ``count`` of them, chosen by ``seed``."""
    cases: list[tuple[type[LogCase | StoreCase], str]] = [(LogCase, name) for name in LOGS]
    cases += [(StoreCase, name) for name in STORES]
    numbers = itertools.count()
    places: list[tuple[type[LogCase | StoreCase], str, int]] = []
    for kind, name in cases:
        case = kind(path / str(next(numbers)), name)
        many = Lines(1 << 60)
        sys.settrace(many)
        case.act()
        sys.settrace(None)
        case.verify("nowhere")
        places += [(kind, name, nth) for nth in range(1, (1 << 60) - many.left + 1)]
    random.Random(seed).shuffle(places)
    done = 0
    for kind, name, nth in places[:count]:
        faulthandler.dump_traceback_later(3 * PATIENCE_S, exit=True)
        case = kind(path / str(next(numbers)), name)
        struck, where, _ = at_line(nth, case.act)
        done += struck
        try:
            case.verify(where)
        except BaseException as error:
            raise Unfair(f"{name}, line {nth}, {where}: {type(error).__name__}: {error}") from error
    faulthandler.cancel_dump_traceback_later()
    print(f"interrupted={done} lines={len(places)}")
    return done


# --- storms of signals ---------------------------------------------------------------------------


class Storm:
    """Signals at moments of chance, whose handler raises where the package's code runs."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.count = 0
        self.left = 0
        signal.signal(signal.SIGALRM, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self.left:
            return
        if _is_fair(frame):
            self.left -= 1
            self.count += 1
            if self.left:
                signal.setitimer(signal.ITIMER_REAL, self.rng.choice((1e-6, 2e-5, 2e-4)))
            raise Struck
        signal.setitimer(signal.ITIMER_REAL, 2e-5)

    def over(self, act: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """What ``act`` returns, or None if it was struck."""
        try:
            self.left = self.rng.choice((1, 1, 1, 2, 5))
            signal.setitimer(signal.ITIMER_REAL, self.rng.choice((1e-5, 1e-4, 1e-3)) * (0.1 + self.rng.random()))
            return act(*args, **options)
        except Struck:
            return None
        finally:
            self.left = 0


def _is_fair(frame: FrameType | None) -> bool:
    """Whether the package's code runs, and no finalizer: an error there reaches no caller."""
    while frame is not None and not frame.f_code.co_filename.startswith(PACKAGE):
        name = frame.f_code.co_filename
        if name in (__file__, weakref.__file__) or "importlib" in name:
            # What catches an interrupt must not be interrupted itself, and an import that is leaves Python's own
            # lock of all imports behind.
            return False
        frame = frame.f_back
    here = frame
    while frame is not None and frame.f_code.co_filename != __file__:
        if frame.f_code.co_name == "__del__" or frame.f_code.co_filename == weakref.__file__:
            return False
        frame = frame.f_back
    return here is not None


def opened(path: Path) -> Any:
    """A store that may have been opened a moment ago, and be closed by a finalizer just now."""
    stores: list[Any] = []

    def is_open() -> bool:
        with contextlib.suppress(DirectoryLockedError):
            stores.append(logstore.open(path, housekeeping="manual"))
        return bool(stores)

    wait_for(is_open, PATIENCE_S, "the directory stays locked")
    return stores[0]


class Writers:
    """Threads that append to a log, each its own values, and know what was acknowledged."""

    def __init__(self, log: Log, round: int = 0) -> None:
        self.log = log
        self.round = round
        self.acked: dict[int, bytes] = {}
        self.error: BaseException | None = None
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(THREADS)]
        for thread in self.threads:
            thread.start()

    def _run(self, number: int) -> None:
        try:
            for n in itertools.count():
                if self.stopping.wait(0.001):
                    return
                value = b"%d/%d/%d" % (self.round, number, n)
                self.acked[self.log.append([value], ack="synced" if n % 3 else "written").first_offset] = value
        except BaseException as error:  # noqa: BLE001  told by `stop`
            self.error = error

    def stop(self) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join(PATIENCE_S)
            check(not thread.is_alive(), "a thread waits for ever")
        check(self.error is None, f"a thread has failed: {self.error!r}")


def shared_log(path: Path, storm: Storm, until_s: float) -> None:
    """The main thread appends in every way, flushes, rolls and deletes in a log that other threads write."""
    rng = storm.rng
    settings = {"segment_bytes": 4_000, "cleanup.policy": "delete", "retention.ms": -1}
    log = Log.open(path / "t-0", settings)
    writers = Writers(log)
    acked: dict[int, bytes] = {}
    struck: list[list[bytes]] = []  # turns that were interrupted since the last deletion
    numbers = itertools.count()
    deleted = 0
    while time.monotonic() < until_s:
        faulthandler.dump_traceback_later(3 * PATIENCE_S, exit=True)
        values = [b"main/%d" % next(numbers) for _ in range(rng.choice((1, 1, 3, 60)))]
        ack = rng.choice(("written", "synced"))
        what = rng.randrange(16)
        if what < 8:
            result = storm.over(log.append, values, ack=ack)
            if result is not None:
                acked.update(enumerate(values, result.first_offset))
        elif what >= 14:
            result = storm.over(log.replica.append_batch, encode(values), ack=ack)
            if result is not None:
                acked.update(enumerate(values, result.first_offset))
        elif what >= 12:
            results = storm.over(log.replica.append_turn, [encode([value]) for value in values], ack=ack)
            if results is None:
                struck.append(values)
            else:
                acked.update({result.first_offset: value for result, value in zip(results, values, strict=True)})
        elif what == 8:
            storm.over(log.flush)
        elif what == 9:
            storm.over(log.maintenance.roll)
        elif what == 10:
            storm.over(log.maintenance.retain)
        elif log.high_watermark > log.log_start_offset + 2_000:
            deleted = log.high_watermark - 1_000
            struck.clear()
            storm.over(log.delete_before, deleted)
    writers.stop()
    check(failure_of(log) is None, f"the log has failed: {failure_of(log)}")
    while not is_closed(log):
        storm.over(log.close)
    with Log.open(path / "t-0", settings) as log:
        found = {record.offset: record.value for record in log.scan()}
    check(list(found) == list(range(min(found), max(found) + 1)), "offsets are missing")
    check(len(set(found.values())) == len(found), "an append is there twice")
    for offset, value in {**acked, **writers.acked}.items():
        check(offset < deleted or found.get(offset) == value, f"lost: {offset} {value!r}")
    values_found = {*found.values()}
    for values in struck:
        there = [value in values_found for value in values]
        check(there == sorted(there, reverse=True), f"not the first batches of a turn: {there}")


def append_as_turn(log: Log, records: list[tuple[bytes, bytes]]) -> Any:
    return log.replica.append_turn([encode([record]) for record in records])


def append_as_batch(log: Log, records: list[tuple[bytes, bytes]]) -> Any:
    return log.replica.append_batch(encode(records))


def append_as_follower(log: Log, records: list[tuple[bytes, bytes]]) -> Any:
    end, epoch = log.log_end_offset, log.replica.leader_epoch
    run = [at(encode([record]), end + n, epoch) for n, record in enumerate(records)]
    return log.replica.append_replicated(b"".join(run))


KEYED_APPENDS: tuple[Callable[[Log, list[tuple[bytes, bytes]]], Any], ...] = (
    lambda log, records: log.append(records),
    append_as_turn,
    append_as_batch,
    append_as_follower,
)


def own_logs(path: Path, storm: Storm, until_s: float) -> None:
    """Opened, written, cut, compacted and closed again and again, by the main thread alone."""
    rng = storm.rng
    settings = {"segment_bytes": 2_000, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.0}
    known: dict[bytes, bytes] = {}
    maybe: dict[bytes, set[bytes]] = {}
    numbers = itertools.count()
    while time.monotonic() < until_s:
        faulthandler.dump_traceback_later(3 * PATIENCE_S, exit=True)
        log = storm.over(Log.open, path / "c-0", settings)
        if log is None:
            # Nothing of it is left: it can be opened at once.
            log = Log.open(path / "c-0", settings)
        for _ in range(rng.randrange(20)):
            # Several keys of one call differ: of one key, the newest of them is what is left.
            keys = [b"%d" % key for key in rng.sample(range(50), rng.choice((1, 1, 4)))]
            records = [(key, b"%d" % next(numbers)) for key in keys]
            if storm.over(rng.choice(KEYED_APPENDS), log, records) is None:
                for key, value in records:
                    maybe.setdefault(key, set()).add(value)
            else:
                for key, value in records:
                    known[key] = value
                    maybe.pop(key, None)
        storm.over(log.maintenance.compact)
        check(failure_of(log) is None, f"the log has failed: {failure_of(log)}")
        cut = log.append([(b"cut", b"")]).first_offset
        if storm.over(log.replica.truncate_to, cut) is None:
            log.replica.truncate_to(cut)
        check(log.log_end_offset == cut, "not cut")
        newest = {record.key: record.value for record in log.scan()}
        for key, value in known.items():
            check(newest.get(key) in {value} | maybe.get(key, set()), f"lost: {key!r} {value!r}")
        while not is_closed(log):
            storm.over(log.close)
        del log


def sent_by(producer: Any, value: bytes) -> bool:
    producer.send("t", value).result(PATIENCE_S)
    return True


def delete(store: Any, name: str) -> None:
    if name in store:
        store.delete_topic(name)


def whole_store(path: Path, storm: Storm, until_s: float) -> None:
    """A producer, a consumer and topics of a store that is opened and closed again and again."""
    rng = storm.rng
    sent: set[bytes] = set()
    committed = 0
    numbers = itertools.count()
    while time.monotonic() < until_s:
        faulthandler.dump_traceback_later(3 * PATIENCE_S, exit=True)
        store = storm.over(logstore.open, path / "s", housekeeping="manual")
        store = store or opened(path / "s")
        store.create_topic("t", if_not_exists=True)
        producer = store.producer(linger_ms=0)
        consumer = store.consumer(group="g", auto_offset_reset="earliest", enable_auto_commit=False)
        consumer.assign_topics(["t"])
        others = Writers(store["t"][0], next(numbers))  # type: ignore[arg-type]
        for _ in range(rng.randrange(5, 40)):
            value = b"sent/%d" % next(numbers)
            what = rng.randrange(6)
            if what < 2:
                if storm.over(sent_by, producer, value):
                    sent.add(value)
            elif what == 2:
                storm.over(consumer.poll, 0.001)
            elif what == 3:
                stored = storm.over(consumer.commit)
                committed = max([committed, *(each.offset for each in (stored or {}).values())])
            elif what == 4:
                storm.over(store.housekeep)
            else:
                name = f"u{next(numbers)}"
                storm.over(store.create_topic, name, if_not_exists=True)
                storm.over(delete, store, name)
        others.stop()
        producer.flush()
        beside(partial(store.offsets.commit, "h", {("t", 0): 0}))  # type: ignore[dict-item]
        found = [record.value for record in store["t"][0].scan()]
        check(len(set(found)) == len(found), "a record is there twice")
        check({*others.acked.values()} <= {*found} and sent <= {*found}, "lost")
        at = store.offsets.committed("g").get(("t", 0))  # type: ignore[call-overload]
        check((at is not None and at.offset >= committed) or not committed, f"a commit is lost: {at} {committed}")
        while not store._host.closed:
            storm.over(store.close)


def storm(path: Path, seed: int, seconds: float) -> int:
    """One after the other, each for its share of the time."""
    storm = Storm(random.Random(seed))
    for act in (shared_log, own_logs, whole_store):
        act(path, storm, time.monotonic() + seconds / 3)
    signal.setitimer(signal.ITIMER_REAL, 0)
    faulthandler.cancel_dump_traceback_later()
    print(f"interrupted={storm.count}")
    return storm.count


def main() -> None:
    mode, path, seed, size = sys.argv[1:]
    faulthandler.enable()
    {"lines": lines, "storm": storm}[mode](Path(path), int(seed), int(size))


if __name__ == "__main__":
    main()
