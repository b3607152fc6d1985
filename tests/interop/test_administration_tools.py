"""Kafka's own tools of administration against our broker: each is a client in Java."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import logstore
from logstore.broker import Broker, serve
from logstore.store import Store
from tests.interop.broker import run_tool

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.usefixtures("kafka_jars")]

TOOLS = "org.apache.kafka.tools"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with logstore.open(tmp_path_factory.mktemp("tools") / "data") as store:
        store.create_topic("flights", 2).append_many([b"1", b"2"], partition=0)
        yield store


@pytest.fixture(scope="module")
def ours(store: Store) -> Iterator[Broker]:
    with serve(store, "127.0.0.1:0") as broker:
        yield broker


def _run(broker: Broker, tool: str, *arguments: str | Path) -> str:
    return run_tool(tool, "--bootstrap-server", broker.bootstrap, *arguments)


def test_topics_are_created_grown_and_described(store: Store, ours: Broker) -> None:
    topics = f"{TOOLS}.TopicCommand"
    _run(ours, topics, "--create", "--topic", "made", "--partitions", "3", "--config", "retention.ms=5")
    _run(ours, topics, "--alter", "--topic", "made", "--partitions", "4")
    said = _run(ours, topics, "--describe", "--topic", "made")
    assert "PartitionCount: 4\tReplicationFactor: 1\tConfigs: retention.ms=5" in said
    assert "Topic: made\tPartition: 3\tLeader: 1\tReplicas: 1\tIsr: 1" in said
    assert (len(store["made"]), store["made"].config.retention_ms) == (4, 5)


def test_settings_are_changed_and_described(store: Store, ours: Broker) -> None:
    store.create_topic("kept", retention_ms=5)
    tool, of_topic = "kafka.admin.ConfigCommand", ("--entity-type", "topics", "--entity-name", "kept")
    changes = "cleanup.policy=[compact,delete],segment.bytes=5000000"
    _run(ours, tool, "--alter", *of_topic, "--add-config", changes, "--delete-config", "retention.ms")
    said = _run(ours, tool, "--describe", *of_topic)
    assert "DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete" in said
    assert "retention.ms" not in said
    said = _run(ours, tool, "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all")
    assert "  num.partitions=1 sensitive=false" in said


def test_records_are_deleted_and_offsets_and_sizes_told(store: Store, ours: Broker, tmp_path: Path) -> None:
    wanted = tmp_path / "offsets.json"
    wanted.write_text('{"partitions": [{"topic": "flights", "partition": 0, "offset": 1}], "version": 1}')
    said = _run(ours, f"{TOOLS}.DeleteRecordsCommand", "--offset-json-file", wanted)
    assert "partition: flights-0\tlow_watermark: 1" in said
    offsets = f"{TOOLS}.GetOffsetShell"
    assert "flights:0:1\nflights:1:0" in _run(ours, offsets, "--topic", "flights", "--time", "earliest")
    assert "flights:0:2\nflights:1:0" in _run(ours, offsets, "--topic", "flights", "--time", "latest")
    said = _run(ours, f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", "flights")
    (broker,) = json.loads(said[said.index('{"brokers"') :].splitlines()[0])["brokers"]
    sizes = {each["partition"]: each["size"] for each in broker["logDirs"][0]["partitions"]}
    assert sizes == {"flights-0": store["flights"].log(0).maintenance.size, "flights-1": 0}


def test_leaders_moves_and_producers_are_asked_for(store: Store, ours: Broker) -> None:
    _run(ours, f"{TOOLS}.LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    assert "No partition reassignments found" in _run(ours, f"{TOOLS}.reassign.ReassignPartitionsCommand", "--list")
    said = _run(
        ours, f"{TOOLS}.TransactionsCommand", "describe-producers", "--topic", "flights", "--partition", "0"
    )
    assert said.startswith("ProducerId")
