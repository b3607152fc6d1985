"""The back end over a real Kafka, held to the contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from logstore.testing.conformance import BackendConformance, ProducerConformance
from logstore.testing.conformance.backends import BackendUnderTest
from tests.interop.broker import Broker
from tests.remote.backend.clients_under_test import ClientsUnderTest

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def kafka(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka") / "broker") as broker:
        yield broker


class TestKafka(BackendConformance, ProducerConformance):
    @pytest.fixture(autouse=True)
    def _broker(self, kafka: Broker) -> None:
        self.bootstrap = kafka.bootstrap

    @contextmanager
    def under_test(self) -> Iterator[BackendUnderTest]:
        scene = ClientsUnderTest(self.bootstrap)
        try:
            yield scene
        finally:
            for group in ("crew", "ground"):
                scene.backend.offsets.delete(group)
            scene.other.delete_topics(scene.backend.topics())
            scene.close()
