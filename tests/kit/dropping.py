"""Drops every public object in reference cycles under load: ``python -m tests.kit.dropping COUNT DIRECTORY``.

A program of its own, so that a hang takes no test run along: where nothing moves for `QUIET_S` it prints the stacks
of all threads and ends. It prints one line of JSON for each kind of object; what it finds wrong is an error.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import json
import logging
import random
import shutil
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import logstore
from logstore import Log, TopicPartition, aio
from logstore.accumulator.timer import TICKER
from logstore.batch._encode import encode
from logstore.dropped import release_all
from logstore.log.directory.lock import RootLock
from logstore.remote.client import Client
from logstore.remote.producer import IdempotentProducer
from tests.kit.inside import dropped_appenders_of
from tests.kit.waiting import wait_for
from tests.remote.fake_cluster import FakeCluster

#: Nothing was dropped for so long: the program hangs.
QUIET_S = 120

#: Objects of a kind that are looked at, and their directories removed, at a time.
ROUND = 100


class Load:
    """Threads that append, flush, read and collect, and remember what was acknowledged."""

    def __init__(self, store: logstore.Store, solo: Log) -> None:
        self.store = store
        self.solo = solo
        self.errors: list[BaseException] = []
        self.acknowledged: list[set[bytes]] = []
        self._stopping = threading.Event()
        works = [self._append, self._append, self._send, self._flush, self._read, self._collect]
        self._threads = [threading.Thread(target=self._run, args=(work,), daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def _run(self, work: Callable[[set[bytes], int], None]) -> None:
        mine: set[bytes] = set()
        self.acknowledged.append(mine)
        turn = 0
        try:
            # With a pause: the interpreter is for the drops, too.
            while not self._stopping.wait(0.002):
                work(mine, turn)
                turn += 1
        except BaseException as error:  # noqa: BLE001  told by `check`
            self.errors.append(error)

    def _append(self, mine: set[bytes], turn: int) -> None:
        value = f"{threading.get_ident()} {turn}".encode()
        self.store["load"].append(value, ack="synced" if turn % 8 == 0 else "written")
        self.solo.append([value])
        mine.add(value)

    def _send(self, mine: set[bytes], turn: int) -> None:
        with self.store.producer(linger_ms=1) as producer:
            values = [f"sent {turn} {n}".encode() for n in range(5)]
            for future in [producer.send("load", value) for value in values]:
                future.result(60)
        mine.update(values)

    def _flush(self, mine: set[bytes], turn: int) -> None:
        self.store.flush()

    def _read(self, mine: set[bytes], turn: int) -> None:
        with self.store.consumer(group="readers", auto_offset_reset="latest") as consumer:
            consumer.assign_topics(["load"])
            consumer.poll(0.01)

    def _collect(self, mine: set[bytes], turn: int) -> None:
        gc.collect(turn % 3)

    def check(self) -> None:
        """Raise what went wrong in a thread."""
        if self.errors:
            raise self.errors[0]

    def stop(self) -> set[bytes]:
        """End the threads; every value that was acknowledged to one of them."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self.check()
        return set().union(*self.acknowledged)


class Told(logging.Handler):
    """Counts the warnings about dropped objects, and keeps every error of the package's loggers."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.warned: Counter[str] = Counter()
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.errors.append(self.format(record))

    def show(self, message: Any, category: type[Warning], *_rest: Any) -> None:
        text = str(message)
        for word in ("<Producer", "an appender", "log /", "store /", "a producer of"):
            if category is ResourceWarning and text.startswith(word):
                self.warned[word] += 1


class Kinds:
    """Makes one object of a kind, uses it, and leaves it open. ``n`` tells one from another."""

    def __init__(self, store: logstore.Store, solo: Log, cluster: FakeCluster, root: Path) -> None:
        self.store, self.solo, self.cluster, self.root = store, solo, cluster, root
        self._loop = asyncio.new_event_loop()
        self._twin = aio.Store(store, aio.threads.Threads(4))  # type: ignore[attr-defined]
        self.futures: list[Any] = []

    def all(self) -> Iterator[tuple[str, Callable[[int], object]]]:
        """Every kind by its name."""
        for name in sorted(dir(self)):
            if name.startswith("make_"):
                yield name.removeprefix("make_"), getattr(self, name)

    def end(self) -> None:
        self._loop.close()
        self._twin._threads.end()

    def make_log(self, n: int) -> object:
        log = Log.open(self.root / f"{n}" / "t-0", flush_ms=1)
        log.append([b"v"])
        return log

    def make_appender(self, n: int) -> object:
        appender = self.solo.appender(linger_ms=random.choice([0, 1, 60_000]))
        appender.append(f"appended {n}".encode())
        return appender

    def make_log_with_appender(self, n: int) -> object:
        log = Log.open(self.root / f"{n}" / "t-0")
        appender = log.appender(linger_ms=60_000)
        appender.append(b"v")
        return log, appender

    def make_reader(self, n: int) -> object:
        reader = Log.open(self.solo.path, read_only=True)
        return reader, next(iter(reader.scan()))

    def make_scan(self, n: int) -> object:
        records = iter(self.solo.scan())
        return records, list(islice(records, 2)), self.solo.read(0), self.solo.replica.locate(0, max_bytes=1000)

    def make_topic(self, n: int) -> object:
        topic = self.store["load"]
        records = iter(topic.scan())
        return topic, records, list(islice(records, 2)), topic.scan().batches()

    def make_consumer(self, n: int) -> object:
        consumer = self.store.consumer(group=f"group {n % 7}", auto_offset_reset="earliest")
        consumer.assign_topics(["load"])
        records = consumer.records(0)
        return consumer, next(records), records

    def make_producer(self, n: int) -> object:
        calls_back = n % 2
        producer = self.store.producer(linger_ms=1 if calls_back else random.choice([0, 1, 60_000]))
        future = producer.send("dropped", f"sent {n}".encode())
        if calls_back:
            future.add_done_callback(lambda done: producer)  # a cycle of its own, until it is done
        else:
            self.futures.append(future)
        return producer

    def make_store(self, n: int) -> object:
        store = logstore.open(self.root / f"{n}", {"flush.ms": 1})
        store.create_topic("flights").append(b"v")
        return store

    def make_store_with_producer(self, n: int) -> object:
        store = logstore.open(self.root / f"{n}")
        store.create_topic("flights")
        producer = store.producer(linger_ms=60_000)
        self.futures.append(producer.send("flights", b"v"))
        return store, producer, store.consumer(group="group")

    def make_read_only_store(self, n: int) -> object:
        store = logstore.open(self.store.path, read_only=True)
        return store, next(iter(store["load"].scan()))

    def make_wire_client(self, n: int) -> object:
        client = Client(self.cluster.bootstrap)
        return client, client.fetch(TopicPartition("load", 0), 0)

    def make_wire_producer(self, n: int) -> object:
        client = Client(self.cluster.bootstrap)
        producer = IdempotentProducer(client)
        producer.submit(TopicPartition("load", 0), encode([b"v"], timestamp_ms=1))
        return client, producer

    def make_aio_store(self, n: int) -> object:
        async def make() -> object:
            store = await aio.open(self.root / f"{n}", threads=1)
            await store.create_topic("flights")
            return store

        return self._loop.run_until_complete(make())

    def make_aio_clients(self, n: int) -> object:
        async def make() -> object:
            producer = await self._twin.producer(linger_ms=60_000)
            future = await producer.send("dropped", f"awaited {n}".encode())
            consumer = await self._twin.consumer(auto_offset_reset="latest")
            await consumer.assign_topics(["load"])
            waiting = consumer.records()
            task = asyncio.ensure_future(anext(waiting))  # type: ignore[arg-type]
            await asyncio.sleep(0)
            task.cancel()
            return producer, future, consumer, waiting, task

        return self._loop.run_until_complete(make())


def drop(thing: object) -> None:
    """Leave a thing to the collector of cycles."""
    cycle = [thing]
    cycle.append(cycle)


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    wait_for(is_so, QUIET_S / 2, what, every_s=0.01)


def main(count: int, directory: Path) -> None:
    told = Told()
    logging.getLogger("logstore").addHandler(told)
    warnings.simplefilter("always")
    warnings.showwarning = told.show  # type: ignore[assignment]
    threading.excepthook = lambda args: load.errors.append(args.exc_value)  # type: ignore[arg-type,assignment]
    gc.set_threshold(100, 2, 2)
    sys.setswitchinterval(0.0005)
    store = logstore.open(directory / "store", {"flush.ms": 5})
    store.create_topic("load", partitions=2).append(b"first")
    store.create_topic("dropped")
    solo = Log.open(directory / "solo" / "t-0", flush_ms=5)
    solo.append([b"first", b"second"])
    held = len(RootLock._held)
    load = Load(store, solo)
    with FakeCluster() as cluster:
        (partition,) = cluster.topic("load")
        partition.add([b"one"])
        kinds = Kinds(store, solo, cluster, directory / "dropped")
        for kind, make in kinds.all():
            began = time.monotonic()
            for start in range(0, count, ROUND):
                (directory / "dropped").mkdir()
                for n in range(start, min(start + ROUND, count)):
                    faulthandler.dump_traceback_later(QUIET_S, exit=True)
                    drop(make(n))
                load.check()
                gc.collect()
                wait_until(lambda: (release_all(), len(RootLock._held))[1] == held, f"{kind}: a root is locked")
                for future in kinds.futures:
                    future.result(60)
                kinds.futures.clear()
                shutil.rmtree(directory / "dropped")
            line = {"kind": kind, "count": count, "s": round(time.monotonic() - began, 1)}
            print(json.dumps(line), flush=True)
        kinds.end()
    acknowledged = load.stop()
    wait_until(lambda: (gc.collect(), release_all(), not store._host.lifecycle._attached)[2], "a producer is left")
    assert not dropped_appenders_of(solo)
    store.close()
    solo.close()
    assert not RootLock._held
    wait_until(lambda: not len(TICKER._members), "something is ticked")
    ours = ("logstore-dropped", "logstore-ticker", "logstore-housekeeping", "logstore-syncing")
    wait_until(
        lambda: not [thread for thread in threading.enumerate() if thread.name.startswith(ours)],
        f"threads are left: {threading.enumerate()}",
    )
    assert not told.errors, told.errors[:3]
    with logstore.open(directory / "store") as again:
        found = {record.value for topic in ("load", "dropped") for record in again[topic].scan()}
        assert acknowledged <= found, f"lost: {sorted(acknowledged - found)[:5]}"
        assert {f"{word} {n}".encode() for word in ("sent", "awaited") for n in range(count)} <= found
    with Log.open(directory / "solo" / "t-0") as log:
        assert {f"appended {n}".encode() for n in range(count)} <= {record.value for record in log.scan()}
    expected = {"<Producer": 3 * count, "an appender": 2 * count, "log /": 2 * count, "store /": 3 * count}
    assert expected.items() <= told.warned.items(), told.warned
    assert told.warned["a producer of"], "a broker has answered every request before its producer was dropped"
    print(json.dumps({"acknowledged": len(acknowledged), "warned": told.warned}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
