"""Clients of several makes on our broker, unchanged: Java, Go, librdkafka, aiokafka, kafka-python, Kafka's tools.

What each writes, every one reads: in each codec, with headers, nulls, large records and times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import logstore
from logstore.records import Codec
from tests.broker.process import ServedProcess, served_process
from tests.interop.broker import run_tool
from tests.interop.clients import (
    PYTHON_WRITERS,
    READERS,
    ClientError,
    JavaClient,
    Read,
    Row,
    read_with_sarama,
    write_with_kafkajs,
    write_with_sarama,
)
from tests.interop.make_fixtures import START_MS, several, words
from tests.interop.test_clients import ROWS

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300), pytest.mark.usefixtures("kafka_jars")]

TOOLS = "org.apache.kafka.tools"
WRITERS = {**PYTHON_WRITERS, "sarama": write_with_sarama}
ISOLATIONS = ("read_uncommitted", "read_committed")


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProcess]:
    """``logstore serve``, which keeps records of any time."""
    directory = tmp_path_factory.mktemp("unchanged")
    settings = directory / "server.properties"
    settings.write_text("log.retention.ms=-1\nauto.create.topics.enable=false\n")
    with served_process(directory / "data", ["--config", str(settings)]) as process:
        yield process


@pytest.fixture(scope="module")
def java(ours: ServedProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    with JavaClient(ours.bootstrap, tmp_path_factory.mktemp("java") / "client.log") as client:
        yield client


def _sent_by_java(java: JavaClient, topic: str, codec: str, rows: list[Row]) -> None:
    for name, idempotent in ((f"{topic}-1", "true"), (f"{topic}-2", "false")):
        java.open(name, enable_idempotence=idempotent, compression_type=codec)
    java.send(f"{topic}-1", topic, rows[:7])
    java.send(f"{topic}-2", topic, rows[7:])
    java.close(f"{topic}-1")
    java.close(f"{topic}-2")


def _read_by_logstore(bootstrap: str, topic: str, isolation: str) -> list[Read]:
    with logstore.connect(bootstrap) as cluster:
        records = cluster[topic].scan(isolation=isolation)
        return [Read(each.offset, Row(each.timestamp_ms, each.key, each.value, each.headers)) for each in records]


def _read_by_all(ours: ServedProcess, java: JavaClient, topic: str) -> dict[str, list[Read]]:
    readers: dict[str, Callable[[str], list[Read]]] = {
        name: lambda isolation, read=read: read(ours.bootstrap, topic, isolation)
        for name, read in {**READERS, "sarama": read_with_sarama}.items()
    }
    readers["java"] = lambda isolation: java.read(topic, isolation)
    readers["logstore"] = lambda isolation: _read_by_logstore(ours.bootstrap, topic, isolation)
    return {f"{name}, {isolation}": read(isolation) for name, read in readers.items() for isolation in ISOLATIONS}


@pytest.mark.row("O4")
@pytest.mark.row("S7", part="served by logstore")
@pytest.mark.row("M5", part="served by logstore")
@pytest.mark.row("M5", "S7")
@pytest.mark.parametrize("client", [*WRITERS, "java", "logstore"])
@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name.lower())
def test_what_a_client_writes_every_client_reads(
    ours: ServedProcess, java: JavaClient, codec: Codec, client: str
) -> None:
    topic, name = f"{client}-{codec.name.lower()}", codec.name.lower()
    java.create(topic)
    if client == "java":
        _sent_by_java(java, topic, name, ROWS)
    elif client == "logstore":
        with logstore.connect(ours.bootstrap) as cluster, cluster.producer(compression_type=name) as producer:
            for row in ROWS:
                producer.send(
                    topic, row.value, key=row.key, partition=0, timestamp=row.timestamp_ms, headers=row.headers
                )
    else:
        WRITERS[client](ours.bootstrap, topic, name, ROWS)
    wanted = [Read(n, row) for n, row in enumerate(ROWS)]
    for reader, found in _read_by_all(ours, java, topic).items():
        assert found == wanted, reader


@pytest.mark.row("M5")
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_kafkajs_creates_a_topic_writes_and_is_told_its_offsets(
    ours: ServedProcess, java: JavaClient, codec: str
) -> None:
    """It reads by groups alone, and has the other codecs by packages of others."""
    told = write_with_kafkajs(ours.bootstrap, f"kafkajs-{codec}", codec, ROWS)
    assert told == {"partition": 0, "offset": str(len(ROWS)), "high": str(len(ROWS)), "low": "0"}
    for reader, found in _read_by_all(ours, java, f"kafkajs-{codec}").items():
        assert found == [Read(n, row) for n, row in enumerate(ROWS)], reader


@pytest.mark.row("M5")
def test_java_finds_records_by_time_deletes_some_and_is_told_the_offsets(java: JavaClient) -> None:
    java.create("times", segment_bytes=20_000)
    java.open("times", enable_idempotence="true")
    for part in range(4):
        java.send("times", "times", [Row(START_MS + 10 * part + n, None, words(n, 3_000)) for n in range(5)])
    java.close("times")
    assert java.offsets("times") == (0, 20)
    assert java.times("times", [0, START_MS + 11, START_MS + 15, START_MS + 99]) == [
        (START_MS, 0),
        (START_MS + 11, 6),
        (START_MS + 20, 10),
        None,
    ]
    java.delete("times", 7)
    assert java.offsets("times") == (7, 20)
    assert [read.offset for read in java.read("times")] == list(range(7, 20))


def test_java_is_refused_what_is_not_served_yet_and_goes_on(java: JavaClient) -> None:
    java.create("refused")
    with pytest.raises(ClientError):
        java.open("transactional", transactional_id="t", max_block_ms=2_000)
    java.open("refused", enable_idempotence="true")
    assert [read.offset for read in java.send("refused", "refused", several(3, START_MS))] == [0, 1, 2]
    java.close("refused")


def test_kafkas_console_and_performance_tools_write_and_read(
    ours: ServedProcess, java: JavaClient, tmp_path: Path
) -> None:
    java.create("tools")
    said = run_tool(
        f"{TOOLS}.ProducerPerformance",
        *("--topic", "tools", "--num-records", "5000", "--record-size", "300", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={ours.bootstrap}", "compression.type=lz4"),
    )
    assert "5000 records sent" in said
    assert java.offsets("tools") == (0, 5_000)
    output = tmp_path / "read.txt"
    output.write_text(
        run_tool(
            f"{TOOLS}.consumer.ConsoleConsumer",
            *("--bootstrap-server", ours.bootstrap, "--topic", "tools", "--partition", "0", "--offset", "4990"),
            *("--max-messages", "10", "--consumer-property", "enable.auto.commit=false"),
        )
    )
    lines = output.read_text().splitlines()
    assert [len(line) for line in lines if "Processed" not in line and len(line) == 300] == [300] * 10
    assert "Processed a total of 10 messages" in lines[-1]
