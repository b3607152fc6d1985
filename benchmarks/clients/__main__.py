"""Clients of a real Kafka side by side: ``make bench-clients``, or this beside ``tests.interop.broker``.

In each round every client does the same work in turn, each in a process of its own, so that what else the machine
does falls on all of them. The figures are medians of the rounds: records a second of CPU of the client, MB/s of the
wall clock, and the ratio of ours to each of the others.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from typing import Any

import logstore
from benchmarks.clients.contenders import SIZE, WORKS
from logstore.records import NewTopic

#: What is wanted of ours, as a ratio to a peer.
BARS = {
    ("produce", "logstore", "confluent-kafka"): 2.0,
    ("produce", "logstore", "aiokafka"): 5.0,
    ("consume", "logstore", "confluent-kafka"): 3.0,
    ("consume", "logstore, Arrow", "confluent-kafka"): 8.0,
}
#: Of a core, for a consumer that waits at the ends of `IDLE_PARTITIONS`.
IDLE_BAR_PERCENT = 1.0
IDLE_PARTITIONS = 1_000


def run(work: str, client: str, bootstrap: str, topic: str, count: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.clients.contenders", work, client, bootstrap, topic, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise SystemExit(f"{client}, {work}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--latencies", type=int, default=300)
    parser.add_argument("--idle-s", type=int, default=20)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--only", help="produce, consume, idle or latency; scan and login are for benchmarks.clients.tls"
    )
    given = parser.parse_args()
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    with logstore.connect(given.bootstrap) as cluster:
        for number in range(given.rounds):
            topics = []
            for work, client in WORKS:
                if given.only not in (None, work):
                    continue
                count = {"latency": given.latencies, "idle": given.idle_s}.get(work, given.records)
                partitions = {"latency": 1, "idle": IDLE_PARTITIONS}.get(work, given.partitions)
                topic = f"bench-{work}-{number}-{client.split(',')[0]}"
                if work in ("consume", "idle"):
                    topic = f"bench-{work}-{number}"
                if topic not in topics:
                    topics.append(topic)
                    made = cluster.create_topics([NewTopic(topic, partitions)])[0]
                    if work == "consume":
                        run("produce", "logstore", given.bootstrap, made.name, count)
                found.setdefault((work, client), []).append(run(work, client, given.bootstrap, topic, count))
            cluster.delete_topics(topics)
    for (work, client), rounds in found.items():
        if work == "latency":
            p50, p99 = (statistics.median(each[key] for each in rounds) * 1e3 for key in ("p50_s", "p99_s"))
            print(f"{work:8} {client:16} p50 {p50:.2f} ms, p99 {p99:.2f} ms from send to poll")
            continue
        if work == "idle":
            percent = statistics.median(100 * each["cpu_s"] / each["seconds"] for each in rounds)
            wanted = f" (wanted {IDLE_BAR_PERCENT:.0f})" if client == "logstore" else ""
            print(f"{work:8} {client:16} {IDLE_PARTITIONS:,} partitions: {percent:.2f} % of a core{wanted}")
            continue
        rate = statistics.median(each["records"] / each["cpu_s"] for each in rounds)
        wall = statistics.median(each["records"] * SIZE / each["seconds"] / 1e6 for each in rounds)
        peak = max(each["peak_mb"] for each in rounds)
        print(f"{work:8} {client:16} {rate / 1e3:8,.0f} k records/s of CPU, {wall:6.1f} MB/s, peak {peak:.0f} MB")
    for (work, ours, peer), bar in BARS.items():
        if (work, ours) in found and (work, peer) in found:
            pairs = zip(found[work, ours], found[work, peer], strict=True)
            ratio = statistics.median(peer["cpu_s"] / ours["cpu_s"] for ours, peer in pairs)
            print(f"{work:8} {ours} over {peer}: {ratio:.2f} (wanted {bar})")


if __name__ == "__main__":
    main()
