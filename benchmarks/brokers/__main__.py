"""Our broker beside a real Kafka with default settings: ``make bench-brokers``.

In each round both get the same requests in turn, on one connection, while the other one is idle. The figures are
medians of the rounds: MB/s of the wall clock, CPU of the broker for a GB of records or for a request, and the ratio
of Kafka's to ours. A fetch stands beside a bare loop of sendfile over the same file.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.brokers import bare, consumers, embedded, load, rolls, sessions
from benchmarks.brokers.load import Connection, Took
from benchmarks.processes import rss_mb
from logstore.protocol.generated.messages import InitProducerIdRequest, InitProducerIdResponse
from logstore.records import Codec
from tests.interop import broker as kafka


class Work(NamedTuple):
    """Batches of so many records of 1 KiB, in so many requests a round; what is wanted of Kafka's CPU over ours."""

    name: str
    record_count: int
    requests: int
    codec: Codec = Codec.NONE
    cpu_bar: float | None = None
    speed_bar: float | None = None
    is_numbered: bool = False  #: by an idempotent producer
    is_distinct: bool = False  #: each request has bytes of its own, as those of an idempotent producer have
    topics: int = 1  #: in turn


WORKS = (
    Work("one record", 1, 30_000, cpu_bar=3, speed_bar=2),
    Work("16 KiB", 16, 12_000, cpu_bar=2, speed_bar=1.5),
    Work("512 KiB", 512, 400, speed_bar=1.1),
    Work("16 KiB, lz4", 16, 12_000, Codec.LZ4, cpu_bar=2.5),
    Work("16 KiB, zstd", 16, 12_000, Codec.ZSTD, cpu_bar=2),
    Work("16 KiB, no two alike", 16, 12_000, is_distinct=True),
    Work("16 KiB, idempotent", 16, 12_000, is_numbered=True),
    Work("16 KiB, 1,000 topics", 16, 12_000, topics=1_000),
)
FETCHED = ("one record", "16 KiB", "512 KiB")
#: In a round, by reading a topic more than once: the CPU of a process is counted in hundredths of a second.
FETCHED_BYTES = 1 << 30


def topic_of(work: Work, number: int) -> str:
    """Return the topic, or the first one, of one round of a work."""
    return topics_of(work, number)[0]


def topics_of(work: Work, number: int) -> list[str]:
    """Return the topics of one round of a work."""
    name = f"{work.name.replace(', ', '-').replace(',', '').replace(' ', '-')}-{number}"
    return [name] if work.topics == 1 else [f"{name}-{each}" for each in range(work.topics)]


class Peer(NamedTuple):
    """A broker that runs."""

    name: str
    bootstrap: str
    pid: int
    data: Path
    start_s: float  #: from its start to the answer to the first batch
    idle_mb: float


@contextlib.contextmanager
def ours(directory: Path) -> Iterator[Peer]:
    began = time.perf_counter()
    command = [sys.executable, "-m", "logstore", "serve", str(directory), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            bootstrap = process.stdout.readline().split()[-1]
            yield _began("logstore", bootstrap, process.pid, directory, began)
        finally:
            process.terminate()


@contextlib.contextmanager
def theirs(directory: Path) -> Iterator[Peer]:
    began = time.perf_counter()
    with kafka.Broker(directory) as broker:
        yield _began("Kafka", broker.bootstrap, broker.pid, broker.data, began)


def _began(name: str, bootstrap: str, pid: int, data: Path, began: float) -> Peer:
    connection = Connection(bootstrap)
    connection.create("first")
    connection.send(load.produce_frame("first", load.batches(1)[0]))
    connection.receive()
    start_s = time.perf_counter() - began
    connection.close()
    return Peer(name, bootstrap, pid, data, start_s, rss_mb(pid))


def produced(peer: Peer, work: Work, number: int) -> Took:
    """One round of a work, on a topic of its own, which stays for the fetches."""
    connection, topic = Connection(peer.bootstrap), topic_of(work, number)
    connection.create(*topics_of(work, number))
    made = load.batches(work.record_count, work.codec)
    if work.is_numbered:
        answer = connection.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 1)
        assert isinstance(answer, InitProducerIdResponse)
        frames = load.numbered(topic, made, work.requests, work.record_count, answer.producer_id)
        found = load.produce(connection, frames, work.record_count, peer.pid)
    elif work.topics > 1:
        ready = [load.produce_frame(each, made[n % len(made)]) for n, each in enumerate(topics_of(work, number))]
        load.produce(connection, ready, work.record_count, peer.pid)  # their logs are opened
        found = load.produce(connection, load.repeated(ready, work.requests), work.record_count, peer.pid)
    else:
        count = work.requests if work.is_distinct else len(made)
        ready = [load.produce_frame(topic, made[n % len(made)]) for n in range(count)]
        found = load.produce(connection, load.repeated(ready, work.requests), work.record_count, peer.pid)
    connection.close()
    return found


def fetched(peer: Peer, work: Work, number: int) -> tuple[Took, Took, Took]:
    """Read what a round has produced: by a broker, by a bare loop over the same file, by one that sends memory."""
    connection, topic = Connection(peer.bootstrap), topic_of(work, number)
    records = work.requests * work.record_count
    times = -(-FETCHED_BYTES // (records * load.SIZE))
    found = load.fetch(connection, topic, records, times, peer.pid)
    connection.close()
    path = sorted((peer.data / f"{topic}-0").glob("*.log"))[0]
    size = min(path.stat().st_size, found.size // times)
    least = []
    for options in ([], ["--memory"]):
        command = [sys.executable, "-m", "benchmarks.brokers.bare", str(path), *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            least.append(bare.read_all(port, size, times, process.pid))
    return found, least[0], least[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--share", type=float, default=1.0, help="of the requests of each work")
    parser.add_argument("--fetches", action="store_true", help="only our fetches, beside a bare loop of sendfile")
    parser.add_argument("--consumers", action="store_true", help="only produce and fetch at once")
    given = parser.parse_args()
    works = [work._replace(requests=max(int(work.requests * given.share), 10)) for work in WORKS]
    if given.fetches:
        _print_fetches([work for work in works if work.name in FETCHED], given.rounds)
        return
    with tempfile.TemporaryDirectory(prefix="brokers-") as folder, contextlib.ExitStack() as stack:
        peers = [stack.enter_context(each(Path(folder) / each.__name__)) for each in (ours, theirs)]
        for peer in peers:
            print(f"{peer.name:9} first batch {peer.start_s:.2f} s after its start, idle {peer.idle_mb:.0f} MB")
        if given.consumers:
            _print_with_consumers(peers, given.rounds)
            return
        for work in works:  # warm: a Java machine compiles what it runs often
            for peer in peers:
                produced(peer, work, 1000)
        found: dict[tuple[str, str], list[Took]] = {}
        for number in range(given.rounds):
            for work in works:
                for peer in peers:
                    found.setdefault((work.name, peer.name), []).append(produced(peer, work, number))
            for work in works:
                if work.name not in FETCHED:
                    continue
                for peer in peers:
                    took, least, network = fetched(peer, work, number)
                    found.setdefault((f"fetch, {work.name}", peer.name), []).append(took)
                    if peer.name == "logstore":
                        found.setdefault((f"fetch, {work.name}", "bare sendfile"), []).append(least)
                        found.setdefault((f"fetch, {work.name}", "bare network"), []).append(network)
            for peer in peers:
                connection = Connection(peer.bootstrap)
                connection.delete(*(topic for work in works for topic in topics_of(work, number)))
                connection.close()
        _print_works(works, found)
        _print_sessions(peers)
        _print_round_trips(peers)
        _print_beside_rolls(peers)
        _print_with_consumers(peers, given.rounds)
        embedded.print_figures()
        for peer in peers:
            print(f"{peer.name:9} loaded {rss_mb(peer.pid):.0f} MB")


def _print_fetches(works: list[Work], rounds: int) -> None:
    found: dict[tuple[str, str], list[Took]] = {}
    with tempfile.TemporaryDirectory(prefix="brokers-") as folder, ours(Path(folder)) as peer:
        for number in range(rounds):
            for work in works:
                produced(peer, work, number)
            for work in works:
                took, least, network = fetched(peer, work, number)
                found.setdefault((f"fetch, {work.name}", peer.name), []).append(took)
                found.setdefault((f"fetch, {work.name}", "bare sendfile"), []).append(least)
                found.setdefault((f"fetch, {work.name}", "bare network"), []).append(network)
    _print_beside_sendfile(found)


@pytest.mark.row("N2")
def _print_beside_sendfile(found: dict[tuple[str, str], list[Took]]) -> None:
    for name in FETCHED:
        _print(f"fetch, {name}", found, "bare sendfile", cpu_bar=1 / 1.25, speed_bar=0.9)
        _print(f"fetch, {name}", found, "bare network", speed_bar=0.8)


@pytest.mark.row("N1")
def _print_works(works: list[Work], found: dict[tuple[str, str], list[Took]]) -> None:
    for work in works:
        _print(work.name, found, "Kafka", cpu_bar=work.cpu_bar, speed_bar=work.speed_bar)
    plain, numbered = found["16 KiB, no two alike", "logstore"], found["16 KiB, idempotent", "logstore"]
    ratio = statistics.median(b.cpu_s / a.cpu_s for a, b in zip(plain, numbered, strict=True) if a.cpu_s)
    print(f"idempotent over plain, CPU: {ratio:.2f} (wanted at most 1.15)")
    one, many = found["16 KiB", "logstore"], found["16 KiB, 1,000 topics", "logstore"]
    ratio = statistics.median(b.cpu_s / a.cpu_s for a, b in zip(one, many, strict=True) if a.cpu_s)
    print(f"1,000 topics over one, CPU: {ratio:.2f} (wanted at most 1.5)")
    for name in FETCHED:
        _print(f"fetch, {name}", found, "Kafka")
    _print_beside_sendfile(found)


def _print(
    name: str,
    found: dict[tuple[str, str], list[Took]],
    peer: str,
    *,
    cpu_bar: float | None = None,
    speed_bar: float | None = None,
) -> None:
    pairs = list(zip(found[name, "logstore"], found[name, peer], strict=True))
    speed = statistics.median((own.size / own.wall_s) / (other.size / other.wall_s) for own, other in pairs)
    cpu = statistics.median((other.cpu_s / other.size) / max(own.cpu_s / own.size, 1e-12) for own, other in pairs)
    texts = []
    for which in (0, 1):
        rate = statistics.median(pair[which].size / pair[which].wall_s / 1e6 for pair in pairs)
        cost = statistics.median(pair[which].cpu_s / pair[which].size * 1e9 for pair in pairs)
        each = statistics.median(pair[which].cpu_s / pair[which].requests * 1e6 for pair in pairs)
        texts.append(f"{rate:6.0f} MB/s {cost:6.2f} s/GB {each:7.1f} us a request")
    wanted = [f"CPU {cpu_bar:.2g}" if cpu_bar else "", f"MB/s {speed_bar:.2g}" if speed_bar else ""]
    print(f"{name:19} logstore {texts[0]}; {peer} {texts[1]}")
    bars = ", ".join(filter(None, wanted)) or "-"
    print(f"{'':19} {peer}'s CPU over ours {cpu:.2f}, our MB/s over its {speed:.2f} (wanted {bars})")


def _print_sessions(peers: list[Peer]) -> None:
    for session in sessions.SESSIONS:
        for peer in peers:
            found = sessions.step_us(peer.bootstrap, session, 0, peer.pid)
            print(f"{peer.name:9} step of a fetch session, {session.name}: {found:.0f} us of CPU")


def _print_round_trips(peers: list[Peer]) -> None:
    for turn in range(3):
        for peer in peers:
            connection = Connection(peer.bootstrap)
            frames = [load.produce_frame("first", batch) for batch in load.batches(1)]
            times = load.round_trips(connection, frames, 3000)
            connection.close()
            if turn:
                p50, p99 = times[len(times) // 2] * 1e6, times[len(times) * 99 // 100] * 1e6
                print(f"{peer.name:9} produce round trip: p50 {p50:.0f} us, p99 {p99:.0f} us")


def _print_beside_rolls(peers: list[Peer]) -> None:
    for turn in range(3):
        for peer in peers:
            times = rolls.round_trips(peer.bootstrap, turn)
            p50, p99, most = (times[int(len(times) * share)] * 1e3 for share in (0.5, 0.99, 0.999))
            print(
                f"{peer.name:9} beside {rolls.ROLLS} rolls of 1 GiB: p50 {p50:.2f} ms, p99 {p99:.1f} ms, "
                f"p99.9 {most:.1f} ms, longest {times[-1] * 1e3:.0f} ms of {len(times)} (wanted p99.9 20 ms)"
            )


def _print_with_consumers(peers: list[Peer], rounds: int) -> None:
    for turn in range(3):
        for peer in peers:
            consumers.print_latencies(peer.name, peer.bootstrap, turn)
    for peer in peers:
        consumers.print_beside_slow(peer.name, peer.bootstrap, rounds)


if __name__ == "__main__":
    main()
