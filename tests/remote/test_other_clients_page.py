"""The page for users of other clients: each of our lines in its tables is run, on brokers of this process."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import logstore
from logstore.client.producer import Producer
from logstore.config.client import ProducerConfig
from logstore.config.remote import ClusterConsumerConfig, WireConfig
from logstore.config.schema import keys_of
from logstore.records import TopicPartition
from tests.remote.fake_cluster import FakeCluster

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "howto" / "other-clients.md"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="no source tree around the tests")


def rows(chapter: str) -> list[str]:
    """The last cells of a chapter's table, without its head."""
    text = PAGE.read_text("utf-8").split(f"## {chapter}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert all(line.count(" | ") == 2 or line.startswith("| | |") for line in lines), lines
    return [re.findall(r"`([^`]+)` \|$", line)[0] for line in lines[1:]]


def test_each_of_our_lines_runs() -> None:
    told: list[Any] = []
    with FakeCluster(2, long_polls=True) as brokers:
        brokers.topic("flights", 2, leaders=(1, 2))
        names: dict[str, Any] = {"logstore": logstore, "TopicPartition": TopicPartition, "print_them": told.append}
        found: dict[str, Any] = {}
        for line in [*rows("Producer"), *rows("Consumer and groups"), *rows("Administration")]:
            code = line.replace("kafka-1:9092", brokers.bootstrap)
            try:
                try:
                    found[line] = eval(code, names)
                except SyntaxError:
                    exec(code, names)
            except Exception as error:
                raise AssertionError(f"{line}: {error}") from error
    assert isinstance(names["producer"], Producer)
    assert [sorted(map(str, each)) for each in told] == [["flights-0", "flights-1"]] * 2, "assigned and revoked"
    values = [each[0] for line, result in found.items() if "each.key" in line for each in result]
    values += [each for line, result in found.items() if "timeout_s=0.2" in line for each in result]
    assert sorted(values) == [b"AA 1", b"AA 2", b"AA 3"]
    assert found["cluster.topics()"] == ["flights", "gates"]
    assert found["cluster.offsets.groups()"] == ["report"]
    assert set(brokers.topics) == {"flights"}


def test_each_of_our_settings_is_one() -> None:
    known = {
        *keys_of(WireConfig),
        *keys_of(ProducerConfig),
        *keys_of(ClusterConsumerConfig),
        "oauth_token",
        "metrics",
    }
    assert [key for key in rows("Settings") if key not in known] == []
