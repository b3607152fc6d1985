"""Kafka's clients for these tests: Java, Go and three of Python, each for whole partitions.

A record here is a `Row`, so that what one client wrote can be compared with what another read.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tests.interop.broker import die_with_parent, fetch, go_reader, go_sarama, java, kafkajs

READ_S = 60

Headers = tuple[tuple[str, bytes | None], ...]


class Row(NamedTuple):
    """A record as it was sent, or as it was read."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Read(NamedTuple):
    """A record as a consumer saw it."""

    offset: int
    row: Row


class ClientError(RuntimeError):
    """The Java client answered with an exception."""


class JavaClient:
    """Kafka's Java client: one process that takes commands as long as it is open.

    Owns: the process, which ends with it.
    """

    def __init__(self, bootstrap: str, log: Path) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    java(),
                    "-Xmx256m",
                    "-cp",
                    f"{fetch()}/*",
                    str(Path(__file__).with_name("Client.java")),
                    bootstrap,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                preexec_fn=die_with_parent,
            )

    def __enter__(self) -> JavaClient:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._process.poll() is not None:
            return
        try:
            self._process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def kill(self) -> None:
        """End the client as a crash would: what it has open stays open."""
        self._process.kill()
        self._process.communicate()

    def _do(self, what: str, **command: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": what, **command}).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise ClientError("the Java client ended")
        answer = json.loads(line)
        if "error" in answer:
            raise ClientError(f"{what}: {answer['error']}")
        return answer["result"]

    def create(self, topic: str, **config: str | int) -> None:
        """Create a topic of one partition, with settings whose dots are underscores."""
        self._do("create", topic=topic, config=_dotted(config))

    def open(self, producer: str, **config: str | int) -> None:
        """Begin a producer; it lingers until its records are flushed, so each `send` is one batch."""
        self._do("open", producer=producer, config=_dotted(config))

    def close(self, producer: str) -> None:
        self._do("close", producer=producer)

    def begin(self, producer: str) -> None:
        self._do("begin", producer=producer)

    def commit(self, producer: str) -> None:
        self._do("commit", producer=producer)

    def abort(self, producer: str) -> None:
        self._do("abort", producer=producer)

    def send(self, producer: str, topic: str, rows: Iterable[Row]) -> list[Read]:
        """Send rows to partition 0 and wait for their offsets."""
        rows = list(rows)
        offsets = self._do("send", producer=producer, topic=topic, records=[_fields_of(row) for row in rows])
        return [Read(offset, row) for offset, row in zip(offsets, rows, strict=True)]

    def consume(self, topic: str, group: str, patience_s: int = READ_S) -> list[Read]:
        """What a group has not read yet of partition 0, and commit it; what came of it if that takes too long."""
        found = self._do("consume", topic=topic, group=group, patience=1_000 * patience_s)
        return [_read_of(fields) for fields in found]

    def delete(self, topic: str, before: int) -> None:
        self._do("delete", topic=topic, before=before)

    def offsets(self, topic: str) -> tuple[int, int]:
        """(log start offset, high watermark)."""
        found = self._do("offsets", topic=topic)
        return found["start"], found["end"]

    def times(self, topic: str, times: Iterable[int]) -> list[tuple[int, int] | None]:
        """For each time (timestamp, offset) of the first record from it on, or None."""
        found = self._do("times", topic=topic, times=list(times))
        return [None if first is None else (first[0], first[1]) for first in found]

    def read(self, topic: str, isolation: str = "read_uncommitted") -> list[Read]:
        """Everything in partition 0 that a consumer of this isolation sees."""
        return [_read_of(fields) for fields in self._do("read", topic=topic, isolation=isolation)]


def _read_of(fields: list[Any]) -> Read:
    """A record as the clients in other languages print it."""
    offset, ms, key, value, headers, *_ = fields
    return Read(offset, Row(ms, data(key), data(value), tuple((name, data(each)) for name, each in headers)))


def _fields_of(row: Row) -> list[Any]:
    """A row as the clients in other languages take it."""
    return [row.timestamp_ms, text(row.key), text(row.value), [[name, text(each)] for name, each in row.headers]]


def text(value: bytes | None) -> str | None:
    """Bytes as base64; None as it is."""
    return None if value is None else base64.b64encode(value).decode()


def data(value: str | None) -> bytes | None:
    """The bytes of `text`."""
    return None if value is None else base64.b64decode(value)


def _dotted(config: dict[str, str | int]) -> dict[str, str]:
    return {name.replace("_", "."): str(value) for name, value in config.items()}


# --- consumers ---------------------------------------------------------------------------------


def read_with_aiokafka(bootstrap: str, topic: str, isolation: str = "read_uncommitted") -> list[Read]:
    """Everything in partition 0, read by aiokafka."""
    import aiokafka

    async def run() -> list[Read]:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level=isolation,
            auto_offset_reset="none",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            partition = aiokafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            end = (await consumer.end_offsets([partition]))[partition]
            await consumer.seek_to_beginning(partition)
            found: list[Read] = []
            until = time.monotonic() + READ_S
            while await consumer.position(partition) < end:
                assert time.monotonic() < until, f"stuck behind {len(found)} records"
                for records in (await consumer.getmany(partition, timeout_ms=500)).values():
                    found += [Read(r.offset, Row(r.timestamp, r.key, r.value, tuple(r.headers))) for r in records]
            return found
        finally:
            await consumer.stop()

    return asyncio.run(run())


def read_with_kafka_python(bootstrap: str, topic: str, isolation: str = "read_uncommitted") -> list[Read]:
    """Everything in partition 0, read by kafka-python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own deprecations
        import kafka

        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level=isolation,
            auto_offset_reset="none",
            enable_auto_commit=False,
        )
        try:
            partition = kafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            end = consumer.end_offsets([partition])[partition]
            consumer.seek_to_beginning(partition)
            found: list[Read] = []
            until = time.monotonic() + READ_S
            while consumer.position(partition) < end:
                assert time.monotonic() < until, f"stuck behind {len(found)} records"
                for records in consumer.poll(500).values():
                    found += [Read(r.offset, Row(r.timestamp, r.key, r.value, tuple(r.headers))) for r in records]
            return found
        finally:
            consumer.close()


def read_with_confluent(bootstrap: str, topic: str, isolation: str = "read_uncommitted") -> list[Read]:
    """Everything in partition 0, read by librdkafka through confluent-kafka."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "interop",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "check.crcs": True,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
        found: list[Read] = []
        until = time.monotonic() + READ_S
        while True:
            assert time.monotonic() < until, f"stuck behind {len(found)} records"
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is not None and error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                return found
            assert error is None, error
            row = Row(message.timestamp()[1], message.key(), message.value(), tuple(message.headers() or ()))
            found.append(Read(message.offset(), row))
    finally:
        consumer.close()


def read_with_franz_go(bootstrap: str, topic: str, isolation: str = "read_uncommitted") -> list[Read]:
    """Everything in partition 0, read by franz-go."""
    return _printed([str(go_reader()), bootstrap, topic, isolation])


def read_with_sarama(bootstrap: str, topic: str, isolation: str = "read_uncommitted") -> list[Read]:
    """Everything in partition 0, read by sarama."""
    return _printed([str(go_sarama()), "read", bootstrap, topic, isolation])


def _printed(command: list[str]) -> list[Read]:
    return [_read_of(json.loads(line)) for line in _run(command).splitlines()]


def _run(command: list[str], rows: Iterable[Row] = ()) -> bytes:
    """What a client prints that gets rows on its input."""
    done = subprocess.run(
        command,
        input="".join(f"{json.dumps(_fields_of(row))}\n" for row in rows).encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


Reader = Callable[[str, str, str], list[Read]]

READERS: dict[str, Reader] = {
    "aiokafka": read_with_aiokafka,
    "kafka-python": read_with_kafka_python,
    "confluent-kafka": read_with_confluent,
    "franz-go": read_with_franz_go,
}


# --- producers of other languages --------------------------------------------------------------


def write_with_sarama(bootstrap: str, topic: str, codec: str, rows: list[Row]) -> None:
    """Send rows to partition 0 with sarama, idempotent."""
    _run([str(go_sarama()), "write", bootstrap, topic, codec], rows)


def write_with_kafkajs(bootstrap: str, topic: str, codec: str, rows: list[Row]) -> dict[str, Any]:
    """Create a topic and send rows to its partition 0 with kafkajs; what it is told of the offsets."""
    [told] = json.loads(_run([*kafkajs(), bootstrap, topic, codec], rows))
    return dict(told)


# --- producers of Python -----------------------------------------------------------------------


def write_with_aiokafka(bootstrap: str, topic: str, codec: str, rows: list[Row]) -> None:
    """Send rows to partition 0 with aiokafka, as few batches as it makes of them."""
    import aiokafka

    async def run() -> None:
        compression = None if codec == "none" else codec
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=compression,
            linger_ms=100,
            max_batch_size=1 << 19,
            max_request_size=1 << 20,
        )
        async with producer:
            for row in rows:
                await producer.send(
                    topic, row.value, row.key, partition=0, timestamp_ms=row.timestamp_ms, headers=list(row.headers)
                )

    asyncio.run(run())


def write_with_kafka_python(bootstrap: str, topic: str, codec: str, rows: list[Row]) -> None:
    """Send rows to partition 0 with kafka-python, as few batches as it makes of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own deprecations
        import kafka

        compression = None if codec == "none" else codec
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, compression_type=compression, linger_ms=100, batch_size=1 << 19
        )
        for row in rows:
            producer.send(
                topic, row.value, row.key, list(row.headers), partition=0, timestamp_ms=row.timestamp_ms
            ).add_errback(_fail)
        producer.close()


def _fail(error: Exception) -> None:
    raise error


def write_with_confluent(bootstrap: str, topic: str, codec: str, rows: list[Row]) -> None:
    """Send rows to partition 0 with librdkafka, as few batches as it makes of them."""
    import confluent_kafka

    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "linger.ms": 100,
            "batch.size": 1 << 19,
            "enable.idempotence": True,
        }
    )
    for row in rows:
        producer.produce(
            topic, row.value, row.key, partition=0, timestamp=row.timestamp_ms, headers=list(row.headers)
        )
    assert producer.flush(READ_S) == 0


PYTHON_WRITERS: dict[str, Callable[[str, str, str, list[Row]], None]] = {
    "aiokafka": write_with_aiokafka,
    "kafka-python": write_with_kafka_python,
    "confluent-kafka": write_with_confluent,
}
