"""Kafka's own tools of administration against our broker: each is a client in Java."""

from __future__ import annotations

import json
import subprocess
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


def test_records_are_typed_in_and_printed_by_the_console_tools(store: Store, ours: Broker) -> None:
    store.create_topic("typed")
    lines = "n:1,again:,n:2\tk1\tone\nn:3\tk2\t-\n"
    run_tool(
        f"{TOOLS}.ConsoleProducer",
        *("--bootstrap-server", ours.bootstrap, "--topic", "typed", "--compression-codec", "zstd"),
        *("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"),
        *("--reader-property", "null.marker=-", "--command-property", "enable.idempotence=true"),
        typed=lines,
    )
    found = [(each.key, each.value, each.headers) for each in store["typed"].log(0).read(0)]
    assert found == [
        (b"k1", b"one", (("n", b"1"), ("again", b""), ("n", b"2"))),
        (b"k2", None, (("n", b"3"),)),
    ]
    shown = ("key", "headers", "offset", "partition")
    said = run_tool(
        f"{TOOLS}.consumer.ConsoleConsumer",
        *("--bootstrap-server", ours.bootstrap, "--topic", "typed", "--partition", "0", "--offset", "earliest"),
        *("--max-messages", "2", "--command-property", "enable.auto.commit=false"),
        *(word for name in shown for word in ("--formatter-property", f"print.{name}=true")),
    )
    assert "Partition:0\tOffset:0\tn:1,again:,n:2\tk1\tone\n" in said
    assert "Partition:0\tOffset:1\tn:3\tk2\tnull\n" in said


def test_versions_and_the_cluster_are_told(store: Store, ours: Broker) -> None:
    said = _run(ours, f"{TOOLS}.BrokerApiVersionsCommand")
    assert "Produce(0): 0 to 13" in said
    assert "OffsetCommit(8): UNSUPPORTED" in said
    said = run_tool(f"{TOOLS}.ClusterTool", "cluster-id", "--bootstrap-server", ours.bootstrap)
    assert f"Cluster ID: {store._host.cluster_id}" in said
    said = run_tool(f"{TOOLS}.ClusterTool", "list-endpoints", "--bootstrap-server", ours.bootstrap)
    host, _, port = ours.bootstrap.rpartition(":")
    assert any(line.split()[:3] == ["1", host, port] for line in said.splitlines())


@pytest.mark.parametrize(
    "words",
    [
        (f"{TOOLS}.consumer.group.ConsumerGroupCommand", "--list"),
        (f"{TOOLS}.MetadataQuorumCommand", "describe", "--status"),
        (f"{TOOLS}.TransactionsCommand", "list"),
        (f"{TOOLS}.AclCommand", "--list"),
        (f"{TOOLS}.ConsumerPerformance", "--topic", "flights", "--num-records", "1"),
    ],
    ids=lambda words: words[0].rpartition(".")[2],
)
def test_a_tool_of_what_is_not_served_says_so_and_ends(ours: Broker, words: tuple[str, ...]) -> None:
    """ConsumerPerformance reads as a group. Some of the tools fail, others tell of the error alone."""
    assert "does not support" in _said(ours, *words)


def _said(broker: Broker, *words: str) -> str:
    """What a tool prints, whether it fails or not."""
    try:
        return _run(broker, *words)
    except subprocess.CalledProcessError as error:
        return error.output.decode(errors="replace")


def test_a_record_is_read_by_the_tool_that_has_written_it(store: Store, ours: Broker) -> None:
    """It commits at its end, when it has read everything and shown the times: that alone is refused."""
    store.create_topic("there-and-back")
    said = _said(
        ours,
        f"{TOOLS}.EndToEndLatency",
        *("--topic", "there-and-back", "--num-records", "200"),
        *("--producer-acks", "all", "--record-size", "100", "--record-key-size", "8", "--num-headers", "2"),
        *("--record-header-key-size", "4", "--record-header-size", "6"),
    )
    assert "Percentiles: 50th" in said
    found = list(store["there-and-back"].log(0).read(0))
    assert len(found) == 200
    assert {(len(each.key or b""), len(each.value or b""), len(each.headers)) for each in found} == {(8, 100, 2)}


def test_a_verifiable_producer_is_told_each_offset(store: Store, ours: Broker) -> None:
    store.create_topic("verified")
    said = run_tool(
        f"{TOOLS}.VerifiableProducer",
        *("--bootstrap-server", ours.bootstrap, "--topic", "verified", "--max-messages", "300", "--acks", "-1"),
    )
    told = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    sent = {each["offset"]: each["value"] for each in told if each["name"] == "producer_send_success"}
    assert sent == {n: str(n) for n in range(300)}
    assert [each.value for each in store["verified"].log(0).read(0)] == [b"%d" % n for n in range(300)]


def test_topics_and_settings_are_filtered_and_deleted(store: Store, ours: Broker) -> None:
    topics = f"{TOOLS}.TopicCommand"
    store.create_topic("short", 3, retention_ms=60_000)
    assert "short" in _run(ours, topics, "--list").split()
    assert "Topic: short" in _run(ours, topics, "--describe", "--topics-with-overrides")
    for what in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"):
        assert _run(ours, topics, "--describe", what).strip() == "", what
    wanted = str(store.describe_topic("short").id)
    assert f"TopicId: {wanted}" in _run(ours, topics, "--describe", "--topic-id", wanted)
    said = _run(ours, "kafka.admin.ConfigCommand", "--describe", "--entity-type", "topics")
    assert "Dynamic configs for topic short are:" in said
    _run(ours, topics, "--create", "--if-not-exists", "--topic", "short")
    _run(ours, topics, "--delete", "--topic", "short")
    assert "short" not in store
    _run(ours, topics, "--delete", "--if-exists", "--topic", "short")


def test_offsets_are_told_for_each_special_time(store: Store, ours: Broker) -> None:
    topic = store.create_topic("timed", retention_ms=-1)
    for when in (1_000, 3_000, 2_000):
        topic.append(b"AA", timestamp=when)
    wanted = {"-1": 3, "-2": 0, "-3": 1, "-4": 0, "max-timestamp": 1, "earliest-local": 0, "1500": 1}
    found = {
        when: _run(ours, f"{TOOLS}.GetOffsetShell", "--topic", "timed", "--time", when).strip().splitlines()[-1]
        for when in wanted
    }
    assert found == {when: f"timed:0:{offset}" for when, offset in wanted.items()}
