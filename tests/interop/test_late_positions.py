"""A consumer reads on where a broker of its partitions is killed or frozen before their beginnings are known."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import logstore
from logstore.records import TopicPartition
from tests.interop.cluster import Cluster

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

PARTITIONS, RECORDS = 6, 20


@pytest.fixture(scope="module")
def cluster(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


def _polled(consumer: Any, got: Counter[int], total: int) -> None:
    while sum(got.values()) < total:
        got.update(record.partition for record in consumer.poll(5))


@pytest.mark.parametrize("loss", ["killed", "frozen"])
@pytest.mark.parametrize("group", [None, "crew"])
def test_partitions_of_living_brokers_are_read_while_one_is_lost(
    cluster: Cluster, loss: str, group: str | None
) -> None:
    topic = f"flights-{loss}-{group}"
    with logstore.connect(cluster.bootstrap) as writer:
        writer.create_topic(topic, PARTITIONS, replication_factor=1)
        for number in range(PARTITIONS):
            writer[topic].append_many([b"%d" % n for n in range(RECORDS)], partition=number)
    # Not the coordinator of the group, without which no member learns where it begins.
    coordinator = cluster.coordinator(group) if group else 0
    led = Counter(cluster.leader(topic, number) for number in range(PARTITIONS))
    lost = next(node for node in led if node != coordinator)
    living = (PARTITIONS - led[lost]) * RECORDS
    broker = cluster.brokers[lost]
    with logstore.connect(cluster.bootstrap) as store:
        consumer = store.consumer(group=group, auto_offset_reset="earliest", enable_auto_commit=False)
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        if loss == "killed":
            cluster.kill(lost)
        else:
            os.kill(broker.pid, signal.SIGSTOP)
        got: Counter[int] = Counter()
        try:
            _polled(consumer, got, living)
            assert all(cluster.leader(topic, number) != lost or loss == "frozen" for number in got)
            assert sum(got.values()) == living
        finally:
            if loss == "killed":
                cluster.start(lost)
            else:
                os.kill(broker.pid, signal.SIGCONT)
        _polled(consumer, got, PARTITIONS * RECORDS)
        assert set(got.values()) == {RECORDS}
