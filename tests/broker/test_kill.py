"""``kill -9`` of a broker under load: what was acknowledged is there, once and in order.

LOGSTORE_KILLS=200 for more of them.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import logstore
from tests.broker.process import ServedProcess
from tests.kit.waiting import wait_for

KILLS = int(os.environ.get("LOGSTORE_KILLS", "3"))
SEED = int(os.environ.get("LOGSTORE_SEED", "20"))
PARTITIONS = 3


class Ours:
    """The producer of `logstore.connect`, idempotent."""

    def __init__(self, bootstrap: str, told: Callable[[int, int], None]) -> None:
        self._cluster = logstore.connect(bootstrap)
        self._producer = self._cluster.producer(linger_ms=1)
        self._told = told

    def send(self, partition: int, number: int) -> None:
        future = self._producer.send("flights", b"%d" % number, partition=partition)
        future.add_done_callback(lambda done: None if done.exception() else self._told(partition, number))

    def poll(self) -> None:
        """Its own thread tells what is acknowledged."""

    def close(self) -> None:
        self._producer.flush()
        self._producer.close()
        self._cluster.close()


class Confluent:
    """confluent-kafka's producer, idempotent."""

    def __init__(self, bootstrap: str, told: Callable[[int, int], None]) -> None:
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        self._told = told

    def send(self, partition: int, number: int) -> None:
        def done(error: Any, _message: Any) -> None:
            if error is None:
                self._told(partition, number)

        self._producer.produce("flights", b"%d" % number, partition=partition, on_delivery=done)
        self._producer.poll(0)

    def poll(self) -> None:
        self._producer.poll(0)

    def close(self) -> None:
        assert self._producer.flush(60) == 0


@pytest.mark.parametrize("kind", [Ours, Confluent])
@pytest.mark.row("P5", "P7", part="a broker that is killed under load")
def test_a_broker_that_is_killed_under_load_keeps_its_promises(
    tmp_path: Path, kind: type[Ours | Confluent]
) -> None:
    rng = random.Random(SEED)
    served = ServedProcess(tmp_path / "data")
    with logstore.connect(served.bootstrap) as cluster:
        cluster.create_topic("flights", PARTITIONS)
    acknowledged: list[set[int]] = [set() for _ in range(PARTITIONS)]
    sent = [0] * PARTITIONS
    ends = threading.Event()
    producer = kind(served.bootstrap, lambda partition, number: acknowledged[partition].add(number))

    def pending() -> int:
        return sum(sent) - sum(map(len, acknowledged))

    def load() -> None:
        while not ends.is_set():
            if pending() > 2_000:
                # The broker is down.
                wait_for(lambda: producer.poll() or pending() <= 2_000 or ends.is_set(), timeout_s=60)
                continue
            partition = sum(sent) % PARTITIONS
            producer.send(partition, sent[partition])
            sent[partition] += 1

    thread = threading.Thread(target=load)
    thread.start()
    try:
        for _ in range(KILLS):
            before = sum(map(len, acknowledged))
            more = rng.randrange(200, 3_000)
            wait_for(lambda before=before, more=more: sum(map(len, acknowledged)) > before + more, timeout_s=60)
            served.kill()
            served.start()
    finally:
        ends.set()
        thread.join(60)
    producer.close()
    served.kill()
    with logstore.open(tmp_path / "data") as store:
        for partition in range(PARTITIONS):
            found = [int(bytes(record.value)) for record in store["flights"].log(partition)]
            # Everything was acknowledged in the end: each record is there once, in the order of the sends.
            assert found == list(range(sent[partition]))
            assert acknowledged[partition] == set(found)
