"""One Spark for all tests of a process, and a store for it to read.

A test that asks for ``spark`` shares the session with all others: it leaves no query behind, and settings as they
were.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import logstore
import logstore.spark
from logstore.errors import SparkNotReadyError
from logstore.spark import jvm
from tests.spark import sessions, stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: A session starts in seconds, on a busy machine in minutes.
TIMEOUT_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need a session come last, the others tell sooner what is wrong; and they may take their time."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
    items.sort(key=lambda item: "spark" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session, ``local[2]``; stopped after the last test. For `make interop` it has Spark's Kafka connector."""
    try:
        jvm.check()
    except SparkNotReadyError as error:
        pytest.fail(str(error), pytrace=False)
    more = {}
    if request.config.option.markexpr == "interop":
        more["spark.jars"] = ",".join(map(str, connector()))
    session = sessions.start(tmp_path_factory.mktemp("spark"), **more)
    logstore.spark.register(session)
    try:
        yield session
    finally:
        for query in session.streams.active:
            query.stop()
        session.stop()


def connector() -> list[Path]:
    """The jars of Spark's own Kafka connector."""
    from tests.interop.broker import MissingToolError, fetch_connector

    try:
        return fetch_connector()
    except MissingToolError as error:
        # Asked for by `make interop`: that something is missing is no reason to pass.
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with topic ``events``, as `stores.fill` makes it; closed, so that anybody may open it."""
    path = tmp_path / "store"
    with logstore.open(path, environ={}) as store:
        stores.fill(store)
    return path
