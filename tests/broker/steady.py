"""A producer and a consumer at a steady rate, each a process of its own: `test_steady` runs them.

A value is the number of its record in its partition, the time of its send and padding, 100 bytes in all. The
consumer checks that each number follows the one before, and prints the latencies as JSON.

    python -m tests.broker.steady produce BOOTSTRAP RATE SECONDS
    python -m tests.broker.steady consume BOOTSTRAP COUNT
"""

from __future__ import annotations

import itertools
import json
import struct
import sys
import threading
import time

import numpy as np

import logstore

TOPIC, PARTITIONS, VALUE_BYTES = "steady", 4, 100
#: Number, and nanoseconds of the machine's monotonic clock.
HEAD = struct.Struct(">QQ")
TICK_S = 0.005
PARTS = 10
IDLE_S = 60


def produce(bootstrap: str, rate: int, seconds: int) -> None:
    padding = bytes(VALUE_BYTES - HEAD.size)
    count = rate * seconds // PARTITIONS * PARTITIONS
    late = threading.Event()
    with logstore.connect(bootstrap) as cluster, cluster.producer(linger_ms=2, retries=10) as producer:
        began = time.monotonic()
        sent = 0
        while sent < count:
            due = min(int((time.monotonic() - began) * rate) // PARTITIONS * PARTITIONS, count)
            for n in range(sent // PARTITIONS, due // PARTITIONS):
                value = HEAD.pack(n, time.monotonic_ns()) + padding
                for partition in range(PARTITIONS):
                    producer.send(TOPIC, value, partition=partition)
            sent = max(sent, due)
            late.wait(TICK_S)
        producer.flush()
        print(json.dumps({"sent": sent, "seconds": time.monotonic() - began}))


def consume(bootstrap: str, count: int) -> None:
    latencies = np.zeros(count, np.int64)
    following = [itertools.count() for _ in range(PARTITIONS)]
    at = 0
    with logstore.connect(bootstrap) as cluster, cluster.consumer(auto_offset_reset="earliest") as consumer:
        consumer.assign([(TOPIC, n) for n in range(PARTITIONS)])
        print("ready", flush=True)
        until = time.monotonic() + IDLE_S
        while at < count:
            found = consumer.poll(1, 10_000)
            now = time.monotonic_ns()
            assert found or now / 1e9 < until, f"no record within {IDLE_S} s, behind {at} of {count}"
            for record in found:
                number, sent_ns = HEAD.unpack_from(record.value)
                assert number == next(following[record.partition]), (record.partition, record.offset, number)
                latencies[at] = now - sent_ns
                at += 1
            if found:
                until = now / 1e9 + IDLE_S
    parts = np.array_split(latencies / 1e6, PARTS)
    percentiles = [[float(np.percentile(part, q)) for q in (50, 99, 100)] for part in parts]
    print(json.dumps({"received": at, "p50, p99 and most in ms": percentiles}))


if __name__ == "__main__":
    what, bootstrap, *numbers = sys.argv[1:]
    {"produce": produce, "consume": consume}[what](bootstrap, *map(int, numbers))
