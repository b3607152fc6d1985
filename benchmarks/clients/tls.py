"""What security costs, on one real Kafka: ``python -m benchmarks.clients.tls``.

Connections with and without a login are made in turn, each with one request. Then each round scans the same topic
by the plain listener and by the one with TLS, in turn. Beside the ratio of the two speeds stands what a GB of
records takes of the CPU, of this client and of the broker: whichever of them is busy all of the time is the limit.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

import logstore
from benchmarks.clients.contenders import CHUNK, SIZE, cpu_s, values
from benchmarks.processes import cpu_of
from logstore.records import NewTopic
from logstore.remote.client import Client
from tests.interop.secured import LISTENERS, Secured, secured

#: What is wanted of a scan over TLS, as a ratio to the plain one.
BAR = 0.7
#: What a login with SCRAM may add to a connection.
LOGIN_BAR_MS = 20
CONNECTIONS = 40


class Took(NamedTuple):
    """Seconds of one scan: of the wall clock, and of the CPU of both sides."""

    wall_s: float
    client_s: float
    broker_s: float


def scanned(cluster: Any, topic: str, count: int, pid: int) -> Took:
    wall, client, broker = time.perf_counter(), cpu_s(), cpu_of(pid)
    stream = cluster[topic].scan(isolation="read_committed", columns=["value"])
    assert sum(each.num_rows for each in pa.RecordBatchReader.from_stream(stream)) == count
    return Took(time.perf_counter() - wall, cpu_s() - client, cpu_of(pid) - broker)


def told(rounds: list[Took], gigabytes: float) -> str:
    """Return the medians of some scans, for each GB of values."""
    wall_s, client_s, broker_s = (statistics.median(each) / gigabytes for each in zip(*rounds, strict=True))
    speed = f"{1e3 / wall_s:6.0f} MB/s; a GB takes {wall_s:.2f} s"
    return f"{speed}; CPU: client {client_s:.2f} s, broker {broker_s:.2f} s"


def connected_ms(bootstrap: str, settings: dict[str, Any]) -> float:
    """Return how long a new client takes until its first answer."""
    began = time.perf_counter()
    with Client(bootstrap, settings) as client:
        client.metadata()
        return 1e3 * (time.perf_counter() - began)


def logins(made: Secured) -> None:
    """Print what SCRAM adds to a connection, plain and over TLS."""
    addresses = {name: made.cluster.address(name) for name in LISTENERS} | {"PLAINTEXT": made.cluster.bootstrap}
    for open_to_all, protocol in (("PLAINTEXT", "SASL_PLAINTEXT"), ("SSL", "SASL_SSL")):
        tls = made.tls() if "SSL" in open_to_all else {}
        bare = {"security.protocol": open_to_all, **tls}
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            login = {"security.protocol": protocol, **tls, **made.login(mechanism)}
            found: dict[str, list[float]] = {open_to_all: [], protocol: []}
            for number in range(CONNECTIONS + 1):
                for name, settings in ((open_to_all, bare), (protocol, login)):
                    took_ms = connected_ms(addresses[name], settings)
                    if number:  # the first one warms both sides
                        found[name].append(took_ms)
            without, within = (statistics.median(found[name]) for name in (open_to_all, protocol))
            print(
                f"login    {mechanism} {protocol:14} {within:.1f} ms, {open_to_all} {without:.1f} ms: "
                f"{within - without:.1f} ms more (wanted {LOGIN_BAR_MS})"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", help="scan, login, or a work of benchmarks.clients: then nothing is done")
    given, _ = parser.parse_known_args()  # the others are for benchmarks.clients
    if given.only not in (None, "scan", "login"):
        return
    some, gigabytes = values(CHUNK), given.records * SIZE / 1e9
    with tempfile.TemporaryDirectory(prefix="kafka-") as folder:
        made = secured(Path(folder) / "cluster", racks=["alone"])
        with made.cluster as brokers:
            brokers.allow("ANONYMOUS", "All", topic="*")
            brokers.allow("alice", "All", topic="*")
            if given.only in (None, "login"):
                logins(made)
            if given.only == "login":
                return
            settings = {"security.protocol": "SSL", **made.tls()}
            with (
                logstore.connect(brokers.bootstrap) as plain,
                logstore.connect(brokers.address("SSL"), settings) as tls,
            ):
                for codec in ("none", "lz4"):
                    topic = f"scanned-{codec}"
                    plain.create_topics([NewTopic(topic, given.partitions)])
                    with plain.producer(linger_ms=5, compression_type=codec, batch_size=131_072) as producer:
                        for _ in range(given.records // CHUNK):
                            for value in some:
                                producer.send(topic, value)
                    found: dict[str, list[Took]] = {"plain": [], "TLS": []}
                    for number in range(given.rounds + 1):
                        for name, cluster in (("plain", plain), ("TLS", tls)):
                            took = scanned(cluster, topic, given.records, made.broker.pid)
                            if number:  # the first one warms both sides
                                found[name].append(took)
                    for name, rounds in found.items():
                        print(f"scan     {codec:4} {name:5} {told(rounds, gigabytes)}")
                    pairs = zip(found["plain"], found["TLS"], strict=True)
                    ratio = statistics.median(one.wall_s / other.wall_s for one, other in pairs)
                    print(f"scan     {codec:4} TLS over plain: {ratio:.2f} (wanted {BAR})")


if __name__ == "__main__":
    main()
