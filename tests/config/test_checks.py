"""Dangerous combinations of settings: each is listed, and only where it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from logstore import ConsumerConfig, LogConfig, ProducerConfig, StoreConfig
from logstore.config import kafka_keys
from logstore.config.checks import GroupLag, Severity, check
from logstore.config.store import DEFAULTS

ROWS = Path(__file__).resolve().parent.parent.parent / "docs" / "rows.md"

#: Nothing to say against these, with three replicas.
SAFE = {"default.replication.factor": 3, "min.insync.replicas": 2}
DAY_MS = 86_400_000
SAFE_TOPIC = {"segment.ms": 3_600_000, "retention.ms": 7 * DAY_MS}

#: name, severity, what brings it about: settings of store, topic, producer, consumer, and facts.
COMBINATIONS = [
    ("one-replica", "warning", {"store": {"default.replication.factor": 1, "min.insync.replicas": 1}}),
    ("acks-none", "danger", {"producer": {"acks": 0}}),
    ("acks-one", "danger", {"producer": {"acks": 1}}),
    ("no-retries", "warning", {"producer": {"retries": 0}}),
    ("retries-without-idempotence", "warning", {"producer": {"enable.idempotence": False}}),
    ("linger-without-batches", "warning", {"producer": {"batch.size": 0, "linger.ms": 5}}),
    ("delivery-timeout-below-linger", "danger", {"producer": {"delivery.timeout.ms": 5, "linger.ms": 5}}),
    ("unclean-election", "danger", {"topic": {"unclean.leader.election.enable": True}}),
    ("min-insync-above-replicas", "warning", {"topic": {"min.insync.replicas": 4}}),
    ("min-insync-one", "warning", {"topic": {"min.insync.replicas": 1}}),
    ("no-flush", "warning", {"store": {"default.replication.factor": 1, "min.insync.replicas": 1}}),
    ("tail-in-memory", "danger", {"topic": {"logstore.tail": "memory"}}),
    ("visible-before-synced", "note", {"topic": {"logstore.ack": "synced"}}),
    ("segment-outlives-retention", "warning", {"topic": {"segment.ms": DAY_MS, "retention.ms": DAY_MS - 1}}),
    ("segment-above-retention", "warning", {"topic": {"retention.bytes": (1 << 30) - 1}}),
    ("compacted-and-deleted", "warning", {"topic": {"cleanup.policy": "compact,delete"}}),
    ("retention-below-lag", "danger", {"topic": {"retention.ms": DAY_MS}, "lag_ms": DAY_MS}),
    ("tombstones-below-lag", "danger", {"topic": {"cleanup.policy": "compact"}, "lag_ms": DAY_MS}),
    ("compacted-without-keys", "danger", {"topic": {"cleanup.policy": "compact"}, "keyless": ["flights"]}),
    (
        "compacted-without-cleaner",
        "warning",
        {"topic": {"cleanup.policy": "compact"}, "store": {"log.cleaner.enable": False}},
    ),
    ("message-above-segment", "warning", {"topic": {"max.message.bytes": 2 << 20, "segment.bytes": 1 << 20}}),
    ("request-above-message", "warning", {"topic": {"max.message.bytes": 16_383}, "producer": {}}),
    ("budget-above-disk", "warning", {"store": {"logstore.disk.budget": 1_001}, "disk_bytes": 1_000}),
    (
        "budget-above-disk",
        "warning",
        {"store": {"logstore.disk.budget": "90%", "logstore.disk.reserve": 200}, "disk_bytes": 1_000},
    ),
    ("kept-until-full", "note", {"topic": {"retention.ms": -1, "retention.bytes": -1}}),
    ("offsets-forgotten-first", "warning", {"store": {"offsets.retention.minutes": 60}}),
    ("reset-to-latest", "warning", {"consumer": {"group.id": "billing"}}),
    ("topics-made-by-mistake", "note", {"store": {"auto.create.topics.enable": True}}),
]


def findings(store=None, topic=None, producer=None, consumer=None, lag_ms=None, keyless=(), disk_bytes=None):
    config = StoreConfig.of({**SAFE, **(store or {})})
    return check(
        config,
        {"flights": config.topic_config({**SAFE_TOPIC, **(topic or {})})},
        [] if lag_ms is None else [GroupLag("billing", "flights", lag_ms)],
        producer=None if producer is None else ProducerConfig.of(producer),
        consumer=None if consumer is None else ConsumerConfig.of(consumer),
        keyless=keyless,
        disk_bytes=disk_bytes,
    )


@pytest.mark.row("O7")
@pytest.mark.parametrize(("name", "severity", "given"), COMBINATIONS)
def test_a_dangerous_combination_is_listed(name, severity, given):
    (found,) = [finding for finding in findings(**given) if finding.name == name]
    assert found.severity == severity
    assert found.meaning.endswith(".")
    assert found.advice.endswith(".")
    known = {*DEFAULTS, *kafka_keys.keys("producer"), *kafka_keys.keys("consumer")}
    assert set(found.keys) <= known
    assert re.search(rf"^\| {found.row} \|", ROWS.read_text(), re.MULTILINE)


@pytest.mark.row("O7")
def test_sound_settings_have_no_finding():
    assert findings(disk_bytes=1_000, lag_ms=DAY_MS - 1) == []
    sound = findings(
        store={"logstore.disk.budget": "80%", "logstore.disk.reserve": "20%"},
        topic={"cleanup.policy": "compact", "max.message.bytes": 1 << 20},
        producer={},
        consumer={"group.id": "billing", "auto.offset.reset": "earliest"},
        lag_ms=DAY_MS - 1,
        disk_bytes=1_000,
    )
    assert sound == []


@pytest.mark.row("O7")
def test_every_combination_that_is_known_is_in_the_list_of_this_test():
    source = Path(check.__code__.co_filename).read_text()
    known = re.findall(r'_found\("([a-z-]+)"', source)
    assert sorted(known) == sorted({name for name, _, _ in COMBINATIONS})
    assert sorted(known) == sorted(kafka_keys.package_toml("findings.toml"))


def test_the_worst_stands_first_and_says_where_it_is():
    found = findings(producer={"acks": 1, "retries": 0}, topic={"logstore.ack": "synced"})
    assert [finding.severity for finding in found] == [Severity.DANGER, Severity.WARNING, Severity.NOTE]
    assert str(found[0]) == (
        "danger: producer: With acks=1 a record that only the leader has is lost with the leader. Set acks=all. "
        "[acks; P8]"
    )


def test_without_topics_what_a_new_topic_would_get_is_looked_at():
    found = check(StoreConfig.of({"retention.ms": 5}))
    assert "segment-outlives-retention" in [finding.name for finding in found]
    assert any(finding.where == "topic defaults" for finding in found)
    other = {"flights": LogConfig(segment_ms=1, retention_ms=5)}
    assert "segment-outlives-retention" not in [
        finding.name for finding in check(StoreConfig.of({"retention.ms": 5}), other)
    ]


def test_acks_of_one_replica_is_only_a_note():
    found = check(producer=ProducerConfig(acks="1"))
    assert [finding.severity for finding in found if finding.name == "acks-one"] == [Severity.NOTE]
