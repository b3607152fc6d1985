"""What security costs, on one real Kafka: ``python -m benchmarks.clients.tls``.

Connections with and without a login are made in turn, each with one request. Then each round scans the same topic
by the plain listener and by the one with TLS, in turn. Beside the ratio of the two speeds stands what a GB of
records takes of the CPU, of this client and of the broker: whichever of them is busy all of the time is the limit.

The same bytes are also received by a bare loop over blocking sockets, which only looks for the last offset of each
batch: what it loses by TLS is the broker's and OpenSSL's, and no client loses less.
"""

from __future__ import annotations

import argparse
import socket
import ssl
import statistics
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

import pyarrow as pa

import logstore
from benchmarks.clients.contenders import CHUNK, SIZE, cpu_s, values
from benchmarks.processes import cpu_of
from logstore.protocol.frames import decode_response, encode_request
from logstore.protocol.generated.messages import FetchRequest
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


class BareLoop:
    """One blocking socket a partition, each read by a thread of its own. Owns: the sockets."""

    VERSION = 12
    FETCH_BYTES = 1 << 20
    BASE, LENGTH, DELTA = Struct(">q"), Struct(">i"), Struct(">i")

    def __init__(self, address: str, partitions: int, context: ssl.SSLContext | None) -> None:
        host, port = address.rsplit(":", 1)
        self._files: list[socket.socket] = []
        for _ in range(partitions):
            file = socket.create_connection((host, int(port)))
            file.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._files.append(file if context is None else context.wrap_socket(file, server_hostname=host))

    def scanned(self, topic: str, ends: list[int], pid: int) -> Took:
        """Receive each partition up to its end."""
        wall, client, broker = time.perf_counter(), cpu_s(), cpu_of(pid)
        threads = [
            threading.Thread(target=self._receive, args=(file, topic, number, end))
            for number, (file, end) in enumerate(zip(self._files, ends, strict=True))
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        return Took(time.perf_counter() - wall, cpu_s() - client, cpu_of(pid) - broker)

    def _receive(self, file: socket.socket, topic: str, number: int, end: int) -> None:
        R = FetchRequest
        memory = memoryview(bytearray(2 * self.FETCH_BYTES))
        offset = 0
        while offset < end:
            part = R.FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=self.FETCH_BYTES)
            request = R(
                max_wait_ms=500,
                min_bytes=1,
                isolation_level=1,
                topics=[R.FetchTopic(topic=topic, partitions=[part])],
            )
            file.sendall(encode_request(request, self.VERSION, 1, "bare"))
            self._fill(file, memory[:4])
            frame = memory[: int.from_bytes(memory[:4], "big")]
            self._fill(file, frame)
            answer = decode_response(R.API_KEY, self.VERSION, frame).message
            data, at = answer.responses[0].partitions[0].records, 0
            while at + 61 <= len(data) and at + 12 + self.LENGTH.unpack_from(data, at + 8)[0] <= len(data):
                offset = self.BASE.unpack_from(data, at)[0] + self.DELTA.unpack_from(data, at + 23)[0] + 1
                at += 12 + self.LENGTH.unpack_from(data, at + 8)[0]

    @staticmethod
    def _fill(file: socket.socket, memory: memoryview) -> None:
        filled = 0
        while filled < len(memory):
            read = file.recv_into(memory[filled:])
            assert read, "the broker has closed the connection"
            filled += read

    def close(self) -> None:
        for each in self._files:
            each.close()


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
                    ends = [plain[topic][number].end_offset() for number in range(given.partitions)]
                    context = ssl.create_default_context(cafile=str(made.folder / "ca.pem"))
                    bare = BareLoop(brokers.bootstrap, given.partitions, None)
                    bare_tls = BareLoop(brokers.address("SSL"), given.partitions, context)
                    pid, count = made.broker.pid, given.records
                    works = {
                        "plain": partial(scanned, plain, topic, count, pid),
                        "TLS": partial(scanned, tls, topic, count, pid),
                        "bare plain": partial(bare.scanned, topic, ends, pid),
                        "bare TLS": partial(bare_tls.scanned, topic, ends, pid),
                    }
                    found: dict[str, list[Took]] = {name: [] for name in works}
                    for number in range(given.rounds + 1):
                        for name, work in works.items():
                            took = work()
                            if number:  # the first one warms both sides
                                found[name].append(took)
                    for name, rounds in found.items():
                        print(f"scan     {codec:4} {name:10} {told(rounds, gigabytes)}")
                    for of, bar in (("", f" (wanted {BAR})"), ("bare ", "")):
                        pairs = zip(found[f"{of}plain"], found[f"{of}TLS"], strict=True)
                        ratio = statistics.median(one.wall_s / other.wall_s for one, other in pairs)
                        print(f"scan     {codec:4} {of}TLS over plain: {ratio:.2f}{bar}")
                    bare.close()
                    bare_tls.close()


if __name__ == "__main__":
    main()
