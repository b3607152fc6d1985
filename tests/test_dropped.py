"""What is dropped without close() is released by a thread of its own: nothing hangs, nothing is lost."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import logstore
from logstore import Log, dropped
from logstore.accumulator.timer import TICKER
from logstore.dropped import hand_over, release_all
from logstore.log.directory.lock import RootLock
from tests.kit.inside import locks_of
from tests.kit.logs import values_of

#: Of each kind of public object; make soak drops 10,000.
DROPS = int(os.environ.get("LOGSTORE_DROPS", "40"))

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def unwarned() -> Iterator[None]:
    """For tests that ask for something else than the warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()
        release_all()


def run(program: str, *arguments: object, **options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options.values(), "-c", textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )


def test_every_public_object_may_be_dropped_in_a_cycle_under_load(ram_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.kit.dropping", str(DROPS), str(ram_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "kind, held",
    [
        *(("log", held) for held in ("ticker", "root", "log")),
        *(("appender", held) for held in ("ticker", "log", "records")),
        *(("producer", held) for held in ("ticker", "log", "store", "records")),
        *(("store", held) for held in ("ticker", "root", "log", "store")),
    ],
)
def test_a_finalizer_waits_for_no_lock_of_its_own_thread(
    ram_path: Path, unwarned: None, kind: str, held: str
) -> None:
    """The collector of cycles runs in the middle of anything, perhaps of what holds the very lock."""
    store = logstore.open(ram_path / "data", {"flush.ms": 3_600_000})
    topic = store.create_topic("flights")
    topic.append(b"first")
    solo = Log.open(ram_path / "solo" / "t-0")
    producer = store.producer(linger_ms=60_000)
    producer.send("flights", b"sent")
    appender = solo.appender(linger_ms=60_000)
    appender.append(b"sent")
    log = solo if kind in ("log", "appender") else topic.log(0)
    in_hand = {
        "ticker": TICKER._lock,
        "root": RootLock._guard,
        "log": locks_of(log)["append"],
        "store": store._host.lifecycle._lock,
        "records": appender._batcher._writing if kind == "appender" else producer._batchers[0]._writing,
    }[held]
    things = {"log": [solo, appender], "appender": [appender], "producer": [producer], "store": [store, producer]}
    kept = {"log": [store], "appender": [store, solo], "producer": [store], "store": []}[kind]
    cycle: list[object] = things[kind]
    cycle.append(cycle)
    del things, log, solo, appender, producer, topic, store
    last, dead = [cycle], threading.Event()
    del cycle

    def drop() -> None:
        with in_hand:
            last.clear()
            gc.collect()
        dead.set()

    threading.Thread(target=drop, daemon=True).start()
    assert dead.wait(300), "the thread waits for itself"
    release_all()
    for each in kept:
        each.close()
    with logstore.open(ram_path / "data") as store, Log.open(ram_path / "solo" / "t-0") as log:
        flights = [record.value for record in store["flights"].read()]
        assert flights == [b"first", b"sent"]
        assert values_of(log) == [b"sent"]


def test_an_appender_that_is_dropped_is_flushed_and_warns(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0") as log:
        appender = log.appender(linger_ms=60_000)
        appender.append(b"v")
        with pytest.warns(ResourceWarning, match="an appender of .* was dropped without close"):  # noqa: PT031
            del appender
            release_all()
        assert values_of(log) == [b"v"]


def test_the_end_of_a_log_waits_for_its_dropped_appenders(tmp_path: Path, unwarned: None) -> None:
    log = Log.open(tmp_path / "t-0")
    with dropped._turn:  # the thread of dropped objects is busy with another one
        appender = log.appender(linger_ms=60_000)
        appender.append(b"v")
        del appender
        log.close()
    with Log.open(tmp_path / "t-0") as log:
        assert values_of(log) == [b"v"]


def test_the_end_of_a_store_waits_for_its_dropped_producers(tmp_path: Path, unwarned: None) -> None:
    store = logstore.open(tmp_path / "data")
    store.create_topic("flights")
    with dropped._turn:
        producer = store.producer(linger_ms=60_000)
        future = producer.send("flights", b"v")
        cycle: list[object] = [producer]
        cycle.append(cycle)
        del producer, cycle
        gc.collect()
        store.close()
    assert future.result(0).offset == 0


def test_what_was_dropped_can_be_opened_again_at_once(tmp_path: Path, unwarned: None) -> None:
    for value in (b"0", b"1", b"2"):
        store = logstore.open(tmp_path / "data")
        store.create_topic("flights", if_not_exists=True)
        producer = store.producer(linger_ms=60_000)
        producer.send("flights", value)
        del store, producer
    log = Log.open(tmp_path / "data" / "flights-0")
    assert values_of(log) == [b"0", b"1", b"2"]
    del log
    logstore.open(tmp_path / "data").close()


#: Without threads of its own, which hold the store for a moment now and then.
ALONE = {"logstore.housekeeping": "manual"}

#: What a program may keep of a store of one line, with a use of it: a count of records.
KEPT: dict[str, tuple[Callable[[logstore.Store], Any], Callable[[Any], int]]] = {
    "topic": (lambda store: store["flights"], lambda topic: topic.scan().count()),
    "scan": (lambda store: store["flights"].scan(), lambda scan: scan.count()),
    "records of a scan": (lambda store: iter(store["flights"].scan()), lambda records: len(list(records))),
    "chunks of a scan": (lambda store: store["flights"].scan().chunks(), lambda chunks: len(list(chunks))),
    "arrow stream": (lambda store: store["flights"].scan().batches(), lambda batches: len(list(batches))),
    "log": (lambda store: store["flights"][0], lambda log: log.scan().count()),
    "log by its number": (lambda store: store["flights"][0], lambda log: len(list(log.read(0)))),
    "logs": (lambda store: store["flights"].partitions, lambda logs: logs[0].high_watermark),
    "scan of a log": (lambda store: store["flights"][0].scan(), lambda scan: len(list(scan))),
    "consumer": (
        lambda store: store.consumer(auto_offset_reset="earliest"),
        lambda consumer: consumer.assign_topics("flights") or len(consumer.poll()),
    ),
}


@pytest.mark.parametrize("read_only", [False, True], ids=["writer", "reader"])
@pytest.mark.parametrize("kind", KEPT)
def test_what_comes_from_a_store_keeps_it_open(tmp_path: Path, unwarned: None, kind: str, read_only: bool) -> None:
    with logstore.open(tmp_path / "data") as store:
        store.create_topic("flights").append(b"v")
    take, count = KEPT[kind]
    kept = take(logstore.open(tmp_path / "data", ALONE, read_only=read_only))
    gc.collect()
    release_all()
    assert count(kept) == 1
    if not read_only:
        del kept
        if kind == "consumer":
            gc.collect()  # it holds the offsets of its store, which hold that
        release_all()
        # Nothing refers to it any more: it is closed, and its place is free.
        logstore.open(tmp_path / "data").close()


def test_a_log_in_the_hands_of_a_user_takes_appends_and_keeps_them(tmp_path: Path, unwarned: None) -> None:
    log = logstore.open(tmp_path / "data", ALONE).create_topic("flights").log(0)
    log.append([b"0"])
    appender = log.appender(linger_ms=60_000)
    del log
    appender.append(b"1")
    del appender
    release_all()
    with logstore.open(tmp_path / "data") as store:
        assert values_of(store["flights"].log(0)) == [b"0", b"1"]


def test_settings_that_a_user_gives_a_log_outlive_what_the_user_holds(tmp_path: Path) -> None:
    with logstore.open(tmp_path / "data") as store:
        topic = store.create_topic("flights")
        topic.log(0).maintenance.reconfigure(flush_ms=1)
        gc.collect()
        assert topic[0].maintenance.config.flush_ms == 1
        assert len(TICKER._members) == 1  # which flushes it
    assert not TICKER._members


def test_a_store_that_only_a_scan_refers_to_says_so_when_that_is_dropped(tmp_path: Path) -> None:
    scan = logstore.open(tmp_path / "data", ALONE).create_topic("flights").scan()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        release_all()
        assert scan.count() == 0
    with pytest.warns(ResourceWarning, match="was left open: it has been flushed and closed"):  # noqa: PT031
        del scan
        release_all()


def test_a_child_forgets_what_its_parent_has_dropped(tmp_path: Path, unwarned: None) -> None:
    with logstore.open(tmp_path / "data", {"logstore.housekeeping": "manual"}) as store:
        store.create_topic("flights")
        with dropped._turn:
            producer = store.producer(linger_ms=60_000)
            producer.send("flights", b"v")
            del producer
            child = os.fork()
            if not child:
                status = 1
                try:
                    # Neither is a lock of the parent waited for, nor its record written.
                    status = 0 if not dropped._queue and release_all(0) else 2
                finally:
                    os._exit(status)
            assert os.waitpid(child, 0)[1] == 0
        release_all()
        assert [record.value for record in store["flights"].read()] == [b"v"]


def test_what_fails_is_told_as_the_error_of_a_thread_and_the_next_is_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told, released = [], threading.Event()
    monkeypatch.setattr(threading, "excepthook", told.append)

    def fail() -> None:
        raise ResourceWarning("as filters have it")

    hand_over(fail)
    hand_over(released.set)
    assert released.wait(300)
    assert [error.exc_type for error in told] == [ResourceWarning]


PROGRAM = """
    import gc, sys, logstore
    store = logstore.open(sys.argv[1])
    store.create_topic("flights", if_not_exists=True)
    producer = store.producer(linger_ms=60_000)
    producer.send("flights", b"v")
    appender = logstore.Log.open(sys.argv[1] + "-solo/t-0").appender(linger_ms=60_000)
    appender.append(b"v")
    if sys.argv[2] == "dropped":
        cycle = [store, producer, appender]
        cycle.append(cycle)
        del store, producer, appender, cycle
        gc.collect()
"""


@pytest.mark.parametrize("left", ["dropped", "open"])
@pytest.mark.parametrize("option", ["-Walways", "-Werror"])
def test_what_is_left_at_the_end_of_the_program_is_flushed(tmp_path: Path, left: str, option: str) -> None:
    """A warning that filters make an error of keeps nothing from being flushed."""
    done = run(PROGRAM, tmp_path / "data", left, option=option)
    assert "was left open: it has been flushed and closed" in done.stderr
    with logstore.open(tmp_path / "data") as store:
        assert [record.value for record in store["flights"].read()] == [b"v"]
    if left == "dropped":
        with Log.open(tmp_path / "data-solo" / "t-0") as log:
            assert values_of(log) == [b"v"]


def test_a_program_that_closes_what_it_opens_has_no_thread_for_it(tmp_path: Path) -> None:
    program = """
        import gc, sys, threading, logstore
        with logstore.Log.open(sys.argv[1]) as log:
            log.append([b"v"])
        gc.collect()
        print([thread.name for thread in threading.enumerate()])
    """
    assert run(program, tmp_path / "t-0").stdout.strip() == "['MainThread']"
