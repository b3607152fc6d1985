"""Keys land on the partitions that Kafka's Java client picks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import logstore
from logstore.batch._key_hash import partition_of
from tests.interop.broker import Broker, java

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

FIXTURE = Path(__file__).parents[1] / "fixtures" / "partitions-4.3.1.csv"


def run(jars: Path, *arguments: object) -> str:
    """What the Java program prints."""
    source = str(Path(__file__).with_name("Partitions.java"))
    command = [java(), "-Xmx512m", "-cp", f"{jars}/*", source, *map(str, arguments)]
    # What it says of an error is shown with the test.
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


@pytest.mark.row("P4")
def test_100_000_keys_land_where_the_java_client_sends_them(
    broker: Broker, kafka_jars: Path, tmp_path: Path
) -> None:
    lines = run(kafka_jars, 11, 100_000, broker.bootstrap, "hashed", 16).splitlines()
    sent = [(bytes.fromhex(key), int(partition)) for key, _, partition in (line.split(",") for line in lines)]
    assert len(sent) == 100_000
    with logstore.open(tmp_path / "data") as store:
        store.create_topic("hashed", partitions=16)
        with store.producer() as producer:
            futures = [producer.send("hashed", b"", key) for key, _ in sent]
        assert [future.result().partition for future in futures] == [partition for _, partition in sent]
        results = store["hashed"].append_many([(key, b"") for key, _ in sent])
    expected = [sum(partition == number for _, partition in sent) for number in range(16)]
    assert [results[number].last_offset - results[number].first_offset + 1 for number in range(16)] == expected


@pytest.mark.row("P4")
def test_the_fixture_is_what_the_java_client_says(kafka_jars: Path) -> None:
    printed = run(kafka_jars, 7, 2_000)
    assert printed == FIXTURE.read_text()
    for line in printed.splitlines():
        key, count, partition = line.split(",")
        assert partition_of(bytes.fromhex(key), int(count)) == int(partition)
