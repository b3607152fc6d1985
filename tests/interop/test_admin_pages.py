"""The calls of Kafka's Java Admin that web consoles make, on our broker: kafka-ui, AKHQ, Redpanda Console.

Each answer is judged by what is true of the store. What is not served fails in the client at once, by its version.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import logstore
from logstore.broker import Broker, serve
from logstore.store import Store
from tests.interop.broker import run_java

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600), pytest.mark.usefixtures("kafka_jars")]

TIME = 1_500

#: Calls of keys that are absent from ApiVersions.
NOT_SERVED = (
    "listConsumerGroups",
    "listGroups",
    "describeConsumerGroups",
    "listConsumerGroupOffsets",
    "deleteConsumerGroups",
    "describeMetadataQuorum",
    "listTransactions",
    "describeTransactions",
    "describeAcls",
    "describeClientQuotas",
    "describeUserScramCredentials",
    "describeDelegationToken",
    "describeShareGroups",
)

RIGHTS_OF_CLUSTER = {
    "CREATE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
}
RIGHTS_OF_TOPIC = {"READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with logstore.open(tmp_path_factory.mktemp("pages") / "data", {"log.retention.ms": -1}) as store:
        store.create_topic("__consumer_offsets", cleanup_policy="compact")
        store.create_topic("flights", 2, retention_ms=9_000_000_000_000)
        yield store


@pytest.fixture(scope="module")
def ours(store: Store) -> Iterator[Broker]:
    with serve(store, "127.0.0.1:0") as broker:
        with logstore.connect(broker.bootstrap) as cluster:
            for when in (1_000, 3_000, 2_000, 2_500):
                cluster["flights"].append(b"AA", partition=0, timestamp=when)
            cluster["flights"].delete_records({0: 1})
        yield broker


@pytest.fixture(scope="module")
def told(kafka_jars: Path, ours: Broker) -> dict[str, dict[str, Any]]:
    """What each call came to."""
    printed = run_java(Path(__file__).with_name("AdminPages.java"), ours.bootstrap, "flights", str(TIME))
    lines = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    return {line["call"]: line for line in lines}


def _result(told: dict[str, dict[str, Any]], call: str) -> Any:
    assert "result" in told[call], told[call]
    return told[call]["result"]


def test_the_cluster_is_described(store: Store, ours: Broker, told: dict[str, dict[str, Any]]) -> None:
    for call in ("describeCluster", "describeClusterFenced"):
        found = _result(told, call)
        assert (found["id"], found["controller"]) == (store._host.cluster_id, 1)
        assert found["nodes"] == [f"1 {ours.bootstrap}"]
    assert set(_result(told, "describeCluster")["rights"]) == RIGHTS_OF_CLUSTER
    assert _result(told, "describeClusterFenced")["rights"] == []
    assert _result(told, "describeFeatures") == {"finalized": 0, "supported": 0}


def test_topics_are_listed_and_described(store: Store, told: dict[str, dict[str, Any]]) -> None:
    assert _result(told, "listTopicsInternal") == {"__consumer_offsets": True, "flights": False}
    assert _result(told, "listTopics") == {"flights": False}
    found = _result(told, "describeTopics")
    assert (found["name"], found["id"], found["internal"]) == ("flights", store.describe_topic("flights").id, False)
    assert found["partitions"] == [{"partition": n, "leader": 1, "replicas": 1, "isr": 1} for n in range(2)]
    assert set(found["rights"]) == RIGHTS_OF_TOPIC
    assert _result(told, "describeTopicsById") == found
    assert told["describeTopicsUnknown"]["error"] == "UnknownTopicOrPartitionException"


def test_settings_are_told_with_their_sources(store: Store, told: dict[str, dict[str, Any]]) -> None:
    topic = _result(told, "topicConfigs")
    assert topic["retention.ms"] == {
        "value": "9000000000000",
        "source": "DYNAMIC_TOPIC_CONFIG",
        "type": "LONG",
        "readOnly": False,
        "synonyms": 2,  # its own, the broker's
        "documented": True,
    }
    assert topic["cleanup.policy"]["source"] == "DEFAULT_CONFIG"
    broker = _result(told, "brokerConfigs")
    assert {key: broker[key]["value"] for key in ("num.partitions", "delete.topic.enable", "log.retention.ms")} == {
        "num.partitions": "1",
        "delete.topic.enable": "true",
        "log.retention.ms": "-1",
    }
    assert broker["log.retention.ms"]["source"] == "STATIC_BROKER_CONFIG"
    assert all(each["documented"] for name, each in (topic | broker).items() if not name.startswith("logstore."))
    assert _result(told, "defaultBrokerConfigs") == {}
    assert told["loggerConfigs"]["error"] == "InvalidRequestException"
    assert set(_result(told, "listConfigResources")) == {"TOPIC flights", "TOPIC __consumer_offsets", "BROKER 1"}


def test_sizes_are_those_of_the_files(store: Store, told: dict[str, dict[str, Any]]) -> None:
    (found,) = _result(told, "describeLogDirs")
    size = store["flights"].log(0).maintenance.size
    assert found["path"] == store._host.path
    assert found["sizes"] == {"flights-0": size, "flights-1": 0, "__consumer_offsets-0": 0}
    assert size > 0
    assert found["total"] > found["usable"] > 0
    assert _result(told, "describeReplicaLogDirs") == {"path": store._host.path, "lag": 0}


def test_offsets_are_told_for_each_way_to_ask(told: dict[str, dict[str, Any]]) -> None:
    wanted = {
        "earliest": (1, -1),
        "latest": (4, -1),
        "latestCommitted": (4, -1),
        "maxTimestamp": (1, 3_000),
        "forTimestamp": (1, 3_000),
        "earliestLocal": (1, -1),
        "latestTiered": (-1, -1),  # nothing is tiered
        "earliestPendingUpload": (-1, -1),
    }
    found = {call: _result(told, call) for call in wanted}
    assert {call: (each["offset"], each["timestamp"]) for call, each in found.items()} == wanted


def test_producers_and_moves_are_told(store: Store, told: dict[str, dict[str, Any]]) -> None:
    (producer,) = _result(told, "describeProducers")
    assert {key: producer[key] for key in ("epoch", "sequence", "timestamp", "transaction")} == {
        "epoch": 0,
        "sequence": 3,
        "timestamp": 2_500,
        "transaction": -1,
    }
    (known,) = store["flights"].log(0).replica.active_producers()
    assert producer["id"] == known.producer_id
    assert _result(told, "listPartitionReassignments") == {"count": 0}


@pytest.mark.parametrize("call", NOT_SERVED)
def test_what_is_not_served_fails_by_its_version(told: dict[str, dict[str, Any]], call: str) -> None:
    assert told[call].get("error") == "UnsupportedVersionException", told[call]


def test_no_call_is_left_unjudged(told: dict[str, dict[str, Any]]) -> None:
    failed = {call for call, line in told.items() if "error" in line}
    assert failed == {*NOT_SERVED, "describeTopicsUnknown", "loggerConfigs"}
