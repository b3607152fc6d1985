"""Kafka and a store take turns on one directory, and each is killed in its own: a group reads every record once.

A killed writer of ours may raise no leader epoch over those of Kafka's metadata: Kafka leads with its own next one,
and its consumers wait for ever where a commit names a later one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import logstore
from logstore.batch._encode import Encoder
from logstore.log.directory.files import Directory
from logstore.log.formats.leader_epochs import Epochs
from logstore.store.admin import kafka_metadata
from logstore.store.commit.ingest import Ingested
from logstore.store.commit.staged_writer import Manifest, StagedFileWriter
from tests.interop.broker import Broker
from tests.interop.clients import JavaClient, Row
from tests.interop.killed_store import live

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

TOPIC, GROUP = "flights", "readers"
START_MS = 1_700_000_000_000


def values(numbers: range) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def epochs_of(root: Path) -> tuple[int, int]:
    """The newest leader epoch in the log, and the newest that Kafka has given out."""
    cluster = kafka_metadata.read(Directory(root / "__cluster_metadata-0"))
    latest = Epochs.load(Directory(root / f"{TOPIC}-0")).latest
    return latest.epoch, cluster.leader_epochs[cluster.ids[TOPIC], 0]


def kafkas_turn(broker: Broker, numbers: range, *, kill: bool) -> list[bytes]:
    """The group goes on, records come, and it goes on again; what it has read."""
    broker.start()
    try:
        with JavaClient(broker.bootstrap, broker.directory / "client.log") as java:
            if numbers.start == 0:
                java.create(TOPIC, retention_ms=-1)
            read = java.consume(TOPIC, GROUP)
            java.open("writer", enable_idempotence="true")
            java.send("writer", TOPIC, [Row(START_MS, b"k", value) for value in values(numbers)])
            java.close("writer")
            read += java.consume(TOPIC, GROUP)
    finally:
        broker.kill() if kill else broker.stop()
    return [each.row.value for each in read]


def test_a_group_reads_each_record_once_while_either_side_is_killed_in_turns(
    kafka_jars: Path, tmp_path: Path
) -> None:
    broker = Broker(tmp_path / "broker")
    root, at = broker.data, 0
    read: list[bytes] = []
    for turn in range(4):
        read += kafkas_turn(broker, range(at, at + 10), kill=turn % 2 == 1)
        at += 10
        logstore.adopt_kafka_directory(root)
        for _ in range(3):
            read += live(root, TOPIC, GROUP, range(at, at + 10))
            at += 10
        if turn % 2:
            # Recovered and closed, else handed back as the killed process left it.
            with logstore.open(root) as store:
                assert store[TOPIC][0].log_end_offset == at
        ours, kafkas = epochs_of(root)
        assert ours <= kafkas
        logstore.release_to_kafka(root)
    read += kafkas_turn(broker, range(at, at + 10), kill=False)
    assert read == values(range(at + 10))
    with logstore.open(root, read_only=True) as store:
        assert [bytes(record.value) for record in store[TOPIC][0].scan()] == values(range(at + 10))


def test_epochs_that_an_earlier_version_has_raised_are_lowered_when_the_directory_goes_back(
    kafka_jars: Path, tmp_path: Path
) -> None:
    broker = Broker(tmp_path / "broker")
    root = broker.data
    read = kafkas_turn(broker, range(10), kill=False)
    logstore.adopt_kafka_directory(root)
    for first in (10, 20, 30):
        read += live(root, TOPIC, GROUP, range(first, first + 10), as_before=True)
    ours, kafkas = epochs_of(root)
    assert ours > kafkas
    logstore.release_to_kafka(root)
    assert epochs_of(root)[0] <= kafkas
    read += kafkas_turn(broker, range(40, 50), kill=True)
    assert read == values(range(50))
    logstore.adopt_kafka_directory(root)
    with logstore.open(root) as store:
        epochs = [batch.leader_epoch for batch in store[TOPIC][0].read(0).batches()]
        assert epochs == sorted(epochs)
        assert [bytes(record.value) for record in store[TOPIC][0].scan()] == values(range(50))


def test_a_batch_of_a_sink_that_is_in_is_known_after_kafka_had_the_directory(
    kafka_jars: Path, tmp_path: Path
) -> None:
    broker = Broker(tmp_path / "broker")
    root = broker.data
    read = kafkas_turn(broker, range(10), kill=False)
    for turn in range(2):
        first = 10 + 20 * turn
        logstore.adopt_kafka_directory(root)
        with logstore.open(root) as store:
            if turn:
                assert sink(store, 0, values(range(10, 20))).duplicate
            assert not sink(store, turn, values(range(first, first + 10))).duplicate
        logstore.release_to_kafka(root)
        read += kafkas_turn(broker, range(first + 10, first + 20), kill=turn == 0)
        # It had nothing to move aside.
        assert not list(root.glob("*-stray"))
    logstore.adopt_kafka_directory(root)
    with logstore.open(root) as store:
        assert sink(store, 1, values(range(30, 40))).duplicate
        everything = [bytes(record.value) for record in store[TOPIC][0].scan(isolation="read_committed")]
    assert read == everything == values(range(50))


def sink(store: logstore.Store, batch: int, lines: list[bytes]) -> Ingested:
    """Commit a batch as Spark's sink does."""
    topic_id = store[TOPIC].id
    file = StagedFileWriter.create(store.path, TOPIC, topic_id, 0, query="q", batch=batch, attempt=0)
    encoder = Encoder().begin(timestamp_ms=START_MS)
    encoder.add_all(lines)
    file.write(encoder.finish())
    return store._host.ingest(Manifest("q", batch, "exactly_once", (file.close(),)))
