"""`logstore.connect` on a real Kafka: the cases that it passes on brokers of the tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import logstore
from logstore.cli.main import cli
from logstore.remote.topics.store import RemoteStore
from tests.interop.broker import Broker
from tests.kit.waiting import wait_for
from tests.remote.topics.connected import ConnectedCases

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def kafka(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka") / "broker") as broker:
        yield broker


@pytest.fixture
def cluster(kafka: Broker) -> Iterator[RemoteStore]:
    with logstore.connect(kafka.bootstrap, metadata_max_age_ms=500) as store:
        store.delete_topics(store.topics())
        wait_for(lambda: not store.topics())
        yield store


class TestKafka(ConnectedCases):
    pass


def test_a_cluster_is_measured_and_left_as_it_was(kafka: Broker, cluster: RemoteStore) -> None:
    cluster.create_topic("mine")
    words = ["bench", "-n", "5000", "--syncs", "5", "--json", "--bootstrap", kafka.bootstrap]
    result = CliRunner().invoke(cli, words, prog_name="logstore")
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(rows) == 6
    assert all(row["seconds"] > 0 for row in rows)
    wait_for(lambda: cluster.topics() == ["mine"])
