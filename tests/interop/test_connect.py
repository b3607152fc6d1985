"""`logstore.connect` on a real Kafka: the cases that it passes on brokers of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import logstore
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
