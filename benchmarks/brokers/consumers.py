"""Produce and fetch at once: the latency of a batch by load, and a producer's rate beside slow consumers.

Full load is the highest pace that client and broker hold. It is below the rate that they reach without a pace: then
several batches wait at any time, and each turn of both takes them together. The client shares the machine with the
broker. The slow consumers are this module's own `main`, in a process of their own.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import statistics
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator

import numpy as np
import pytest

from benchmarks.brokers import load
from benchmarks.brokers.load import Connection

_RECORDS = 16  # of a batch: 16 KiB, Kafka's default of ``batch.size``
_PAUSE_S = 0.5  #: of a slow consumer between two fetches
_SLOW_BYTES = 64 << 10  #: what it fetches
_BESIDE_SLOW = 40_000  #: batches of a producer
_NO_PACE = 1e9  #: batches a second
_HELD_S = 0.05  #: a pace is held if half of its batches take no longer
_STEP = 0.9  #: from a pace that is not held to the next one
LOADS = (0.05, 0.2, 0.5)  #: shares of the full load


class PacedLoad:
    """One thread with two connections: one sends batches when they are due, one fetches at the end.

    The broker numbers the batches of a topic of its own in the order in which they were sent, so an offset tells
    when its batch was sent. A batch that is late for its turn counts from its turn on.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._sending, self._fetching = Connection(bootstrap), Connection(bootstrap)
        self._frames = [load.produce_frame(topic, batch) for batch in load.batches(_RECORDS)]
        self._fetch, self._at = load.fetch_frame(topic)
        self._topic = topic
        load.wait_until_taken(self._sending, self._frames[0])
        self._sent, self._offset = 1, _RECORDS

    def latencies(self, batches_a_second: float, count: int) -> np.ndarray:
        """Return the seconds from each batch's turn to the answer with it, in rising order."""
        took = np.zeros(count)
        sockets = [self._sending.fileno(), self._fetching.fileno()]
        sent = answered = fetched = 0
        self._ask()
        began = time.perf_counter()
        while fetched < count:
            due = min(int((time.perf_counter() - began) * batches_a_second) + 1, count)
            while sent < due and sent - answered < load.IN_FLIGHT:
                self._sending.send(self._frames[sent % len(self._frames)])
                sent += 1
            left_s = began + sent / batches_a_second - time.perf_counter() if sent == due < count else 1.0
            for ready in select.select(sockets, [], [], max(left_s, 0.0))[0]:
                if ready == sockets[0]:
                    load.check_produced(self._sending.receive())
                    answered += 1
                    continue
                before = fetched
                self._offset, _ = load.fetched(self._fetching.receive(), self._topic, self._offset)
                fetched = self._offset // _RECORDS - self._sent
                now = time.perf_counter() - began
                took[before:fetched] = now - np.arange(before, fetched) / batches_a_second
                if fetched < count:
                    self._ask()
        while answered < sent:
            load.check_produced(self._sending.receive())
            answered += 1
        self._sent += count
        return np.sort(took)

    def _ask(self) -> None:
        struct.pack_into(">q", self._fetch, self._at, self._offset)
        self._fetching.send(self._fetch)

    def close(self) -> None:
        self._sending.close()
        self._fetching.close()


def latencies_by_load(bootstrap: str, number: int, seconds: float = 3.0) -> list[tuple[float, float, np.ndarray]]:
    """Return shares of the full load, each with its bytes of records a second and the latencies of its batches."""
    connection, topic = Connection(bootstrap), f"load-{number}"
    connection.create(topic)
    paced, found = PacedLoad(bootstrap, topic), []
    try:
        paced.latencies(_NO_PACE, 5_000)  # warm
        began = time.perf_counter()
        paced.latencies(_NO_PACE, 10_000)
        full = 10_000 / (time.perf_counter() - began)
        while np.median(paced.latencies(full, int(full * seconds))) > _HELD_S:
            full *= _STEP
        for share in LOADS:
            rate = full * share
            found.append((share, rate * _RECORDS * load.SIZE, paced.latencies(rate, int(rate * seconds))))
    finally:
        paced.close()
    connection.delete(topic)
    connection.close()
    return found


@pytest.mark.row("N1")
def print_latencies(name: str, bootstrap: str, number: int) -> None:
    for share, rate, found in latencies_by_load(bootstrap, number):
        p50, p99, most = (found[int(len(found) * part)] * 1e3 for part in (0.5, 0.99, 0.999))
        wanted = " (wanted p99 10 ms)" if share == LOADS[-1] else ""
        print(
            f"{name:9} {share:.0%} load, {rate / 1e6:.0f} MB/s in batches of 16 KiB, from produce to fetch: "
            f"p50 {p50:.2f} ms, p99 {p99:.2f} ms, p99.9 {most:.2f} ms of {len(found)}{wanted}"
        )


@pytest.mark.row("P14")
def print_beside_slow(name: str, bootstrap: str, rounds: int) -> None:
    """Print a producer's rate beside 1 and 10 slow consumers over its rate without any."""
    found: dict[int, list[float]] = {0: [], 1: [], 10: []}
    connection = Connection(bootstrap)
    for number in range(rounds):
        for count in itertools.islice(itertools.cycle(found), number, number + len(found)):  # each comes first once
            topic = f"beside-{count}-slow-{number}"
            connection.create(topic)
            frames = [load.produce_frame(topic, batch) for batch in load.batches(_RECORDS)]
            load.wait_until_taken(connection, frames[0])
            load.produce(connection, load.repeated(frames, 1_000), _RECORDS, os.getpid())
            with _slow_consumers(bootstrap, topic, count):
                took = load.produce(connection, load.repeated(frames, _BESIDE_SLOW), _RECORDS, os.getpid())
            found[count].append(took.size / took.wall_s)
            connection.delete(topic)
    connection.close()
    rates = ", ".join(f"{statistics.median(each) / 1e6:.0f}" for each in found.values())
    ratios = (
        statistics.median(beside / alone for beside, alone in zip(found[count], found[0], strict=True))
        for count in (1, 10)
    )
    one, ten = ratios
    print(
        f"{name:9} produce beside 0, 1 and 10 slow consumers: {rates} MB/s; over none {one:.2f} and {ten:.2f} "
        "(wanted 0.95)"
    )


@contextlib.contextmanager
def _slow_consumers(bootstrap: str, topic: str, count: int) -> Iterator[None]:
    if not count:
        yield
        return
    command = [sys.executable, "-m", "benchmarks.brokers.consumers", bootstrap, topic, str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield
            assert process.poll() is None, "the slow consumers have ended"
        finally:
            process.terminate()


def main() -> None:
    """Fetch a topic with slow consumers, each a connection with an offset of its own: ``HOST:PORT TOPIC COUNT``."""
    bootstrap, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    frame, at = load.fetch_frame(topic, _SLOW_BYTES)
    turns: deque[tuple[Connection, int]] = deque((Connection(bootstrap), 0) for _ in range(count))
    for number in itertools.count():
        connection, offset = turns.popleft()
        struct.pack_into(">q", frame, at, offset)
        connection.send(frame)
        offset, _ = load.fetched(connection.receive(), topic, offset)
        turns.append((connection, offset))
        if number == count:
            print("ready", flush=True)
        time.sleep(_PAUSE_S / count)


if __name__ == "__main__":
    main()
