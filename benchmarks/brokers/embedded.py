"""A broker in a process that does other work: ``python -m benchmarks.brokers.embedded``, or `print_figures`.

The process with the broker is this module with arguments. Round trips of one record are measured from outside while
it does nothing else, and while a thread of its runs Python without a pause. Appends of its own are counted while no
client writes, and while one writes 16 KiB batches to another topic as fast as it can.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import logstore
from benchmarks.brokers import load
from benchmarks.brokers.load import Connection
from logstore.broker import serve

APPENDING_S = 2.0
_ROUNDS = 3
_VALUE = bytes(load.SIZE)


class Embedder(NamedTuple):
    """A process with a store, a broker, and something else to do."""

    bootstrap: str
    pid: int
    process: subprocess.Popen[str]

    def appends(self) -> float:
        """Have it append records of 1 KiB for a while; return how many it does in a second."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("append\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


@contextlib.contextmanager
def embedder(directory: Path, *, is_busy: bool = False) -> Iterator[Embedder]:
    """Run a process that serves a store; with a thread that never waits, if it ``is_busy``."""
    command = [sys.executable, "-m", "benchmarks.brokers.embedded", str(directory), "busy" if is_busy else "idle"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Embedder(process.stdout.readline().strip(), process.pid, process)
        process.stdin.close()


def print_figures() -> None:
    """Measure both in turn, some rounds each, and print their medians."""
    trips: dict[bool, list[tuple[float, ...]]] = {False: [], True: []}
    rates: dict[bool, list[float]] = {False: [], True: []}
    clients: list[float] = []
    with tempfile.TemporaryDirectory(prefix="embedded-") as folder:
        for number in range(_ROUNDS):
            for is_busy in trips:
                with embedder(Path(folder) / f"{number}-{is_busy}", is_busy=is_busy) as found:
                    trips[is_busy].append(_round_trips(found))
            with embedder(Path(folder) / f"{number}-appends") as found:
                found.appends()  # warm
                rates[False].append(found.appends())
                rate, megabytes = _appends_beside_a_client(found)
                rates[True].append(rate)
                clients.append(megabytes)
    for is_busy, each in trips.items():
        mean, p50, p99 = (statistics.median(column) * 1e3 for column in zip(*each, strict=True))
        what = "a thread of its process that runs Python" if is_busy else "nothing"
        print(f"logstore  round trip beside {what}: mean {mean:.2f} ms, p50 {p50:.2f} ms, p99 {p99:.2f} ms")
    alone, beside = (statistics.median(each) for each in rates.values())
    client = statistics.median(clients)
    print(
        f"logstore  appends in the broker's process: {alone:,.0f} a second; beside a client {beside:,.0f}, "
        f"while that writes {client:.0f} MB/s"
    )


def _round_trips(found: Embedder) -> tuple[float, ...]:
    connection = Connection(found.bootstrap)
    connection.create("trips")
    frames = [load.produce_frame("trips", batch) for batch in load.batches(1)]
    load.round_trips(connection, frames, 100)
    times = load.round_trips(connection, frames, 1_000)
    connection.close()
    return statistics.mean(times), times[len(times) // 2], times[len(times) * 99 // 100]


def _appends_beside_a_client(found: Embedder) -> tuple[float, float]:
    ended, written = threading.Event(), [0]
    connection = Connection(found.bootstrap)
    connection.create("client")
    frames = [load.produce_frame("client", batch) for batch in load.batches(16)]

    def write() -> None:
        while not ended.is_set():
            written[0] += load.produce(connection, load.repeated(frames, 200), 16, found.pid).size

    client = threading.Thread(target=write)
    client.start()
    began = time.perf_counter()
    try:
        rate = found.appends()
        return rate, written[0] / (time.perf_counter() - began) / 1e6
    finally:
        ended.set()
        client.join()
        connection.close()


def main() -> None:
    """Be the process with the broker: ``DIRECTORY idle|busy``. Without arguments, measure."""
    if len(sys.argv) < 3:
        print_figures()
        return
    if sys.argv[2] == "busy":
        threading.Thread(target=_run_python, daemon=True).start()
    with logstore.open(sys.argv[1]) as store, serve(store, "127.0.0.1:0") as broker:
        topic = store.create_topic("own")
        print(broker.bootstrap, flush=True)
        for _ in sys.stdin:
            count, began = 0, time.perf_counter()
            while time.perf_counter() - began < APPENDING_S:
                for _ in range(100):
                    topic.append(_VALUE)
                count += 100
            print(count / (time.perf_counter() - began), flush=True)


def _run_python() -> None:
    while True:
        sum(range(1_000))


if __name__ == "__main__":
    main()
