"""A broker, Kafka's Java client and the test programs that only `make interop` asks for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.broker import Broker, MissingToolError, fetch
from tests.interop.clients import JavaClient


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """The folder with Kafka's jars."""
    try:
        return fetch()
    except MissingToolError as error:
        # Asked for by `make interop`: that something is missing is no reason to pass.
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="module")
def broker(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that runs; one for the tests of a module."""
    with Broker(tmp_path_factory.mktemp("kafka") / "broker") as running:
        yield running


@pytest.fixture(scope="module")
def java(broker: Broker) -> Iterator[JavaClient]:
    """Kafka's Java client, connected to the broker."""
    with JavaClient(broker.bootstrap, broker.directory / "client.log") as client:
        yield client
