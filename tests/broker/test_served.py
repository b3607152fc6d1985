"""What a broker serves: a directory, by one process, in topics that change while it serves them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin
import psutil
import pytest

import logstore
from logstore.broker import Broker, serve
from logstore.store import Store
from tests.broker.process import served_process


def test_a_topic_that_is_deleted_meanwhile_is_left_out(
    store: Store, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create_topic("flights")
    monkeypatch.setattr(store._host, "topics", lambda **_: ["deleted", "flights"])
    assert [name for name, _ in broker._served.topics()] == ["flights"]


@pytest.mark.row("Z9", part="served by logstore")
def test_a_served_directory_needs_one_process_and_one_port(tmp_path: Path) -> None:
    with served_process(tmp_path / "data") as served:
        with logstore.connect(served.bootstrap) as cluster:
            cluster.create_topic("flights").append(b"one")
        assert served.usage.children() == []
        found = [each for each in served.usage.net_connections() if each.status == psutil.CONN_LISTEN]
        assert [each.laddr.port for each in found] == [served.address[1]]


@pytest.mark.row("M2", part="served by logstore")
def test_each_of_256_partitions_takes_and_returns_its_records(store: Store, broker: Broker) -> None:
    store.create_topic("flights", 256)
    with logstore.connect(broker.bootstrap) as cluster:
        with cluster.producer() as producer:
            for n in range(51_200):
                producer.send("flights", b"%d" % n, partition=n % 256)
        with cluster.consumer(auto_offset_reset="earliest") as consumer:
            consumer.assign_topics("flights")
            counted: Counter[int] = Counter()
            while counted.total() < 51_200:
                found = consumer.poll(20, 10_000)
                assert found
                for record in found:
                    # In the order of its partition.
                    assert record.value == b"%d" % (record.partition + 256 * counted[record.partition])
                    counted[record.partition] += 1
    assert counted == Counter(dict.fromkeys(range(256), 200))


@pytest.mark.row("F16", part="served by logstore")
def test_partitions_are_added_while_a_client_produces(store: Store, broker: Broker) -> None:
    """From 3 to 6: what old keys have written stays, and the producer finds the new partitions."""
    topic = store.create_topic("flights", 3)
    keys = [b"%d" % n for n in range(100)]
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "metadata.max.age.ms": 200})
    errors: list[object] = []

    def told(error: object, _: object) -> None:
        if error is not None:
            errors.append(error)

    def write(turn: int) -> None:
        for key in keys:
            producer.produce("flights", b"%d" % turn, key, on_delivery=told)
        assert producer.flush(20) == 0

    write(0)
    old = {key: partition for partition in range(3) for key in (r.key for r in topic.log(partition).read(0))}
    assert old.keys() == set(keys)
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": broker.bootstrap})
    (made,) = admin.create_partitions([confluent_kafka.admin.NewPartitions("flights", 6)]).values()
    turn = 1
    write(turn)
    made.result(20)
    while not all(topic.log(partition).log_end_offset for partition in range(6)):
        turn += 1
        write(turn)
    assert errors == []
    written = Counter(each.key for n in range(6) for chunk in topic.log(n).scan().chunks() for each in chunk)
    assert written == Counter(dict.fromkeys(keys, turn + 1))
    for key, partition in old.items():
        assert (key, b"0") in {(r.key, r.value) for r in topic.log(partition).read(0)}


@pytest.mark.row("P11", part="served by logstore")
def test_a_producer_that_lingers_sends_fewer_requests(store: Store) -> None:
    store.create_topic("flights")
    counted = {}
    for linger_ms in (0, 50):
        with serve(store, "127.0.0.1:0") as broker, logstore.connect(broker.bootstrap) as cluster:
            with cluster.producer(linger_ms=linger_ms) as producer:
                producer.send("flights", b"the connection is made").result(20)
                before = broker.metrics()["requests"]
                for n in range(20):
                    sent = producer.send("flights", b"%d" % n)
                    if not linger_ms:
                        sent.result(20)
                producer.flush()
                counted[linger_ms] = broker.metrics()["requests"] - before
    assert counted[50] < 10 < 20 <= counted[0]
