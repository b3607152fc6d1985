"""One client doing one piece of work, in this process: ``python -m benchmarks.clients.contenders CLIENT WORK ...``.

Each is driven as its users drive it for throughput: many records for each call where the client has such a call,
lz4, idempotence, 5 ms of linger, CRC checks and ``read_committed``. Batches hold up to 128 KiB; librdkafka's own
default is 1 MB. What is printed is JSON: records, seconds, and seconds of CPU of this process, user and system, all
threads.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Callable

SIZE = 100
LINGER_MS = 5
CHUNK = 10_000
QUIET_S = 60.0


class _Began:
    """When the work began: imports, records and connections are made before."""

    wall = 0.0
    cpu = 0.0


def begin() -> None:
    _Began.cpu, _Began.wall = cpu_s(), time.perf_counter()


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def values(count: int) -> list[bytes]:
    """Values of 100 B that lz4 makes smaller by about a half, as JSON of events does."""
    text = b'{"flight":"%07d","carrier":"AA","from":"JFK","to":"LAX","delay":%05d,"at":"2026-11-27T%06d"}'
    return [(text % (n, n * 7919 % 100_000, n % 86_400)).ljust(SIZE, b" ") for n in range(count)]


# -- producing


def produce_logstore(bootstrap: str, topic: str, count: int) -> int:
    import logstore

    some = values(CHUNK)
    with (
        logstore.connect(bootstrap) as cluster,
        cluster.producer(linger_ms=LINGER_MS, compression_type="lz4", batch_size=131_072) as producer,
    ):
        send = producer.send
        begin()
        for _ in range(count // CHUNK):
            for value in some:
                send(topic, value)
        producer.flush()
    return count


def produce_confluent(bootstrap: str, topic: str, count: int) -> int:
    from confluent_kafka import Producer

    some = values(CHUNK)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": LINGER_MS,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    producer.list_topics(topic)
    send = producer.produce
    begin()
    for _ in range(count // CHUNK):
        for value in some:
            while True:
                try:
                    send(topic, value)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(QUIET_S) == 0
    return count


def produce_aiokafka(bootstrap: str, topic: str, count: int) -> int:
    from aiokafka import AIOKafkaProducer

    async def main() -> None:
        some = values(CHUNK)
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            enable_idempotence=True,
            compression_type="lz4",
            linger_ms=LINGER_MS,
            max_batch_size=131_072,
        )
        await producer.start()
        try:
            await producer.partitions_for(topic)
            begin()
            for _ in range(count // CHUNK):
                for value in some:
                    await producer.send(topic, value)
            await producer.flush()
        finally:
            await producer.stop()

    asyncio.run(main())
    return count


# -- consuming


def consume_logstore(bootstrap: str, topic: str, count: int) -> int:
    import lz4.frame  # noqa: F401  the peers' codecs are loaded with them, before the work begins

    import logstore

    seen = 0
    with (
        logstore.connect(bootstrap) as cluster,
        cluster.consumer(
            auto_offset_reset="earliest", isolation_level="read_committed", enable_auto_commit=False
        ) as consumer,
    ):
        begin()
        consumer.assign_topics(topic)
        while seen < count:
            for record in consumer.poll(QUIET_S, CHUNK):
                seen += len(record.value) == SIZE
    return seen


def consume_arrow(bootstrap: str, topic: str, count: int) -> int:
    import lz4.frame  # noqa: F401  as above
    import pyarrow as pa

    import logstore
    import logstore.columns._export  # loaded by the first scan

    seen = 0
    with logstore.connect(bootstrap) as cluster:
        begin()
        scan = cluster[topic].scan(isolation="read_committed", columns=["value"])
        for batch in pa.RecordBatchReader.from_stream(scan):
            seen += batch.num_rows
    return seen


def consume_confluent(bootstrap: str, topic: str, count: int) -> int:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "check.crcs": True,
            # By default it pauses for a second once 64 MB are fetched ahead. The CPU of a record is the same.
            "fetch.queue.backoff.ms": 10,
        }
    )
    found = consumer.list_topics(topic).topics[topic].partitions
    begin()
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in found])
    seen = 0
    while seen < count:
        for message in consumer.consume(CHUNK, QUIET_S):
            seen += len(message.value()) == SIZE
    consumer.close()
    return seen


def consume_aiokafka(bootstrap: str, topic: str, count: int) -> int:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def main() -> int:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, isolation_level="read_committed", check_crcs=True, enable_auto_commit=False
        )
        await consumer.start()
        try:
            await consumer._client.force_metadata_update()
            numbers = await _partitions(consumer, topic)
            begin()
            consumer.assign([TopicPartition(topic, number) for number in numbers])
            await consumer.seek_to_beginning()
            seen = 0
            while seen < count:
                found = await consumer.getmany(timeout_ms=1_000, max_records=CHUNK)
                for messages in found.values():
                    for message in messages:
                        seen += len(message.value) == SIZE
            return seen
        finally:
            await consumer.stop()

    async def _partitions(consumer: AIOKafkaConsumer, topic: str) -> list[int]:
        found = None
        while not found:
            await consumer.topics()
            found = consumer.partitions_for_topic(topic)
        return sorted(found)

    return asyncio.run(main())


# -- from produce to consume


def latency_logstore(bootstrap: str, topic: str, count: int) -> list[float]:
    import logstore

    took = []
    with (
        logstore.connect(bootstrap) as cluster,
        cluster.producer(linger_ms=0) as producer,
        cluster.consumer(auto_offset_reset="latest", enable_auto_commit=False) as consumer,
    ):
        consumer.assign_topics(topic)
        consumer.poll(0.5)
        for number in range(count):
            began = time.perf_counter()
            producer.send(topic, b"%d" % number, partition=0)
            while not consumer.poll(5.0):
                pass
            took.append(time.perf_counter() - began)
    return took


def latency_confluent(bootstrap: str, topic: str, count: int) -> list[float]:
    from confluent_kafka import OFFSET_END, Consumer, Producer, TopicPartition

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
    consumer.poll(1.0)
    took = []
    for number in range(count):
        began = time.perf_counter()
        producer.produce(topic, b"%d" % number, partition=0)
        producer.poll(0)
        while consumer.poll(5.0) is None:
            pass
        took.append(time.perf_counter() - began)
    producer.flush()
    consumer.close()
    return took


def latency_bare(bootstrap: str, topic: str, count: int) -> list[float]:
    """One thread, two sockets, and requests that were made before: the rest is the broker's and the system's."""
    import socket

    from logstore.batch._encode import encode
    from logstore.protocol.frames import encode_request
    from logstore.protocol.generated.messages import FetchRequest as F
    from logstore.protocol.generated.messages import ProduceRequest as P

    version, now_ms = 12, int(time.time() * 1_000)
    host, port = bootstrap.rsplit(":", 1)

    def connected() -> socket.socket:
        made = socket.create_connection((host, int(port)))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def produce(number: int) -> bytes:
        records = bytes(encode([b"%d" % number], timestamp_ms=now_ms))
        data = [P.TopicProduceData(name=topic, partition_data=[P.PartitionProduceData(index=0, records=records)])]
        return encode_request(P(acks=-1, timeout_ms=30_000, topic_data=data), version, number, "bare")

    def fetch(number: int) -> bytes:
        part = F.FetchPartition(partition=0, fetch_offset=number, partition_max_bytes=1 << 20)
        topics = [F.FetchTopic(topic=topic, partitions=[part])]
        return encode_request(F(max_wait_ms=5_000, min_bytes=1, topics=topics), version, number, "bare")

    def receive(file: socket.socket) -> None:
        """Take one answer; nothing comes behind it."""
        got = file.recv(1 << 16)
        while len(got) < 4 or len(got) < 4 + int.from_bytes(got[:4], "big"):
            more = file.recv(1 << 16)
            assert more, "the broker has closed the connection"
            got += more

    requests = [(produce(number), fetch(number)) for number in range(count)]
    took = []
    with connected() as producing, connected() as fetching:
        for produced, fetched in requests:
            fetching.sendall(fetched)
            time.sleep(0.001)  # until it waits at the broker
            began = time.perf_counter()
            producing.sendall(produced)
            receive(fetching)
            took.append(time.perf_counter() - began)
            receive(producing)
    return took


# -- waiting for records that do not come


def idle_logstore(bootstrap: str, topic: str, count: int) -> int:
    """Wait so many seconds at the ends of all partitions."""
    import logstore

    with (
        logstore.connect(bootstrap) as cluster,
        cluster.consumer(auto_offset_reset="latest", enable_auto_commit=False) as consumer,
    ):
        consumer.assign_topics(topic)
        assert not consumer.poll(5.0)
        begin()
        assert not consumer.poll(float(count))
    return count


def idle_confluent(bootstrap: str, topic: str, count: int) -> int:
    from confluent_kafka import OFFSET_END, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    found = consumer.list_topics(topic).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, OFFSET_END) for number in found])
    assert consumer.poll(5.0) is None
    begin()
    assert consumer.poll(float(count)) is None
    # Not closed: what that takes is no part of a wait.
    return count


WORKS: dict[tuple[str, str], Callable[[str, str, int], int | list[float]]] = {
    ("produce", "logstore"): produce_logstore,
    ("produce", "confluent-kafka"): produce_confluent,
    ("produce", "aiokafka"): produce_aiokafka,
    ("consume", "logstore"): consume_logstore,
    ("consume", "logstore, Arrow"): consume_arrow,
    ("consume", "confluent-kafka"): consume_confluent,
    ("consume", "aiokafka"): consume_aiokafka,
    ("idle", "logstore"): idle_logstore,
    ("idle", "confluent-kafka"): idle_confluent,
    ("latency", "logstore"): latency_logstore,
    ("latency", "confluent-kafka"): latency_confluent,
    ("latency", "bare-sockets"): latency_bare,
}


def main() -> None:
    work, client, bootstrap, topic, count = sys.argv[1:]
    run = WORKS[work, client]
    begin()
    found = run(bootstrap, topic, int(count))
    seconds, cpu = time.perf_counter() - _Began.wall, cpu_s() - _Began.cpu
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    took = sorted(found) if isinstance(found, list) else []
    records = len(took) if took else found
    assert records == int(count), (records, count)
    p50, p99 = (took[len(took) // 2], took[len(took) * 99 // 100]) if took else (None, None)
    print(
        json.dumps(
            {
                "records": records,
                "seconds": seconds,
                "cpu_s": cpu,
                "p50_s": p50,
                "p99_s": p99,
                "peak_mb": peak_mb,
            }
        )
    )


if __name__ == "__main__":
    main()
