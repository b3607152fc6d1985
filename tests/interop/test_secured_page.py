"""The page on secured clusters is run at a real Kafka: its addresses, user, password and files are the test's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import pytest

import logstore.errors
from logstore.config.remote import WireConfig
from logstore.config.schema import keys_of
from logstore.records import NewTopic
from logstore.remote.client import Client
from logstore.remote.topics.store import RemoteStore
from logstore.spark.reading.fetches import backend_of
from logstore.spark.reading.options import ReadOptions
from logstore.spark.reading.plan import plan_batch
from tests.interop.secured import USERS, Secured
from tests.interop.secured import secured as secured_cluster

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "howto" / "secured-clusters.md"

#: What a program has on its machine, by the words of the page.
USER_VARIABLE, PASSWORD_FILE, CA_FILE = "KAFKA_USER", "/run/secrets/kafka", "/etc/kafka/ca.pem"


class RecordedSpark:
    """A Spark session as far as the page needs one: it takes the options of a stream."""

    def __init__(self) -> None:
        self.options_of: dict[str, str] = {}

    @property
    def readStream(self) -> Self:
        return self

    def format(self, name: str) -> Self:
        assert name == "logstore"
        return self

    def options(self, **given: str) -> Self:
        self.options_of |= given
        return self

    def load(self) -> Mapping[str, str]:
        return self.options_of


@pytest.fixture(scope="module")
def secured(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = secured_cluster(tmp_path_factory.mktemp("page") / "cluster", racks=["alone"])
    with made.cluster as cluster:
        cluster.allow("alice", "All", topic="*")
        yield made


@pytest.fixture
def blocks(secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The blocks of the page by their headings, for the brokers and files of the test."""
    (tmp_path / "password").write_text(USERS["alice"])
    monkeypatch.setenv(USER_VARIABLE, "alice")
    # The page's first program trusts the system's authorities; OpenSSL takes these from here.
    monkeypatch.setenv("SSL_CERT_FILE", str(secured.folder / "ca.pem"))
    words = {
        "broker-1:9093": secured.broker.address("SSL"),
        "broker-1:9094": secured.broker.address("SASL_SSL"),
        PASSWORD_FILE: str(tmp_path / "password"),
        CA_FILE: str(secured.folder / "ca.pem"),
        'username="spark"': 'username="alice"',
    }
    found: dict[str, str] = {}
    used: set[str] = set()
    for heading, text in re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.M | re.S):
        for block in re.findall(r"^```text\n(.*?)^```$", text, re.M | re.S):
            used |= {word for word in words if word in block}
            for word, meant in words.items():
                block = block.replace(word, meant)
            assert heading not in found, "one block under a heading"
            found[heading] = block
    assert used == words.keys()
    return found


def run(block: str, **names: Any) -> dict[str, Any]:
    exec(block, names)
    return names


def write_and_read(cluster: RemoteStore, topic: str) -> None:
    with cluster:
        cluster.create_topic(topic)
        cluster[topic].append(b"AA 1141")
        assert [record.value for record in cluster[topic].scan()] == [b"AA 1141"]


def test_every_block_is_run(blocks: dict[str, str]) -> None:
    assert set(blocks) == {"TLS", "User and password", "Spark"}


def test_a_program_by_tls(secured: Secured, blocks: dict[str, str]) -> None:
    write_and_read(run(blocks["TLS"])["cluster"], "by-tls")


def test_a_program_by_user_and_password(blocks: dict[str, str]) -> None:
    write_and_read(run(blocks["User and password"], logstore=logstore)["cluster"], "by-password")


def test_the_options_of_spark(secured: Secured, blocks: dict[str, str]) -> None:
    """Spark itself reads with them in `tests/spark`; here its planning does, by what the page gives it."""
    with Client(secured.broker.bootstrap) as client:
        client.create_topics([NewTopic("orders")])
    given = run(blocks["Spark"], spark=RecordedSpark())["orders"]
    assert not any(USERS["alice"] in value for value in given.values())
    options = ReadOptions.of(given).for_batch()
    assert plan_batch(options, backend_of(options)) == []


def test_what_the_page_names_is_there() -> None:
    text = PAGE.read_text("utf-8")
    known = {*keys_of(WireConfig)}
    named = set(re.findall(r"`((?:ssl|sasl|security)\.[a-z.]+[a-z])(?:=[^`]*)?`", text))
    assert len(named) > 15
    assert named - known == set()
    errors = re.findall(r"`([A-Z][A-Za-z]+Error)`", text)
    assert errors
    assert all(hasattr(logstore.errors, each) for each in errors)
