"""Commands with ``--bootstrap``: they do to a cluster what they do to a store."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import logstore
from logstore.protocol.generated import messages as m
from tests.cli.commands.cluster_cases import ClusterCommandCases, commands_on
from tests.cli.conftest import Line
from tests.remote.fake_cluster import FakeCluster
from tests.remote.fake_security import SaslGuard


@pytest.fixture
def brokers() -> Iterator[FakeCluster]:
    with FakeCluster(2, long_polls=True) as cluster:
        yield cluster


@pytest.fixture
def there(run: Line, brokers: FakeCluster) -> Line:
    """Commands on a cluster with topic ``flights`` of two partitions, three records in each."""
    return commands_on(run, brokers.bootstrap)


class TestBrokersOfThisProcess(ClusterCommandCases):
    pass


def test_a_profile_has_the_settings_of_the_connection(there, tmp_path):
    profile = tmp_path / "client.properties"
    profile.write_text("client.id=report\nsecurity.protocol=PLAINTEXT\n")
    assert "flights" in there("topic", "list", "--profile", profile)
    profile.write_text("security.protocol=SASL_SSL\n")
    assert "sasl.mechanism" in there.error("topic", "list", "--profile", profile, status=2)
    profile.write_text("colour=red\n")
    assert "colour" in there.error("topic", "list", "--profile", profile, status=2)
    there._runner.env["LOGSTORE_BOOTSTRAP"] = None
    assert "give --bootstrap HOST:PORT too" in there.error("topic", "list", "--profile", profile, status=2)


def test_the_doctor_of_a_cluster(there, brokers, tmp_path):
    assert there("doctor") == ""
    (fact,) = there.json("doctor", "-a")
    assert (fact["level"], fact["name"], fact["advice"]) == ("info", "cluster", "")
    out = there("doctor", "-t", "nowhere", status=1)
    assert "the cluster has no topic of this name; check the name, or create it with `logstore topic create`" in out
    brokers.brokers[2].stop()
    rows = there.json("doctor", "--timeout", "5", status=1)
    assert [row["name"] for row in rows] == ["unreachable", "advertised-address"]
    brokers.brokers[2].restart()
    profile = tmp_path / "client.properties"
    profile.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=a\nsasl.password=s3cr3t\n"
    )
    result = there.result("doctor", "--profile", profile)
    assert result.exit_code == 1
    assert "this listener asks for no login" in result.stdout
    assert "s3cr3t" not in result.stdout + result.stderr


def test_the_doctor_takes_a_directory_or_a_cluster(there, run, tmp_path):
    assert "--deep reads the files of a store" in there.error("doctor", "--deep", status=2)
    with logstore.open(tmp_path / "store", environ={}) as store:
        store.create_topic("t")
    assert there("doctor", tmp_path / "store") == "", "a directory on the line wins over the environment"
    there._runner.env.update({"LOGSTORE_BOOTSTRAP": None, "LOGSTORE_DIR": str(tmp_path / "store")})
    assert "are for a cluster; give --bootstrap" in there.error("doctor", "--topic", "t", status=2)
    profile = tmp_path / "client.properties"
    profile.write_text("")
    assert "give --bootstrap HOST:PORT too" in there.error("doctor", "--profile", profile, status=2)


def test_the_topic_of_a_measurement_is_deleted_after_an_error(there, brokers):
    brokers.brokers[1].plan(m.ProduceRequest, 29)
    brokers.brokers[2].plan(m.ProduceRequest, 29)
    assert "TOPIC_AUTHORIZATION_FAILED" in there.error("bench", "-n", "1000")
    assert list(brokers.topics) == ["flights"]


def test_no_broker_is_said_in_one_line(there):
    said = there.error(
        "topic", "list", "--bootstrap", "127.0.0.1:1", "--set", "socket.connection.setup.timeout.ms=200"
    )
    assert "127.0.0.1:1" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("how", ["a password", "a token"])
def test_commands_show_no_password_and_no_token_of_a_profile(
    run: Line, tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """All commands that reach a cluster, logging at DEBUG; then with what the brokers refuse."""
    secret, wrong = "s3cr3tmark", "wr0ngmark"
    profile = tmp_path / "alice.properties"
    guard = SaslGuard({"alice": secret}, tls=None, tokens=(secret,))

    def write(said: str) -> None:
        lines = {"security.protocol": "SASL_PLAINTEXT", "default.api.timeout.ms": "2000"}
        if how == "a token":
            (tmp_path / "token").write_text(said)
            lines["sasl.mechanism"] = "OAUTHBEARER"
            lines["sasl.oauthbearer.token.endpoint.url"] = (tmp_path / "token").as_uri()
        else:
            jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required"
            lines["sasl.mechanism"] = "SCRAM-SHA-512"
            lines["sasl.jaas.config"] = f'{jaas} username="alice" password="{said}";'
        profile.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    commands = [
        ("topic", "create", "flights"),
        ("topic", "list"),
        ("topic", "describe", "flights"),
        ("produce", "flights"),
        ("consume", "flights", "-e", "-o", "beginning"),
        ("offsets", "set", "report", "flights:0=1"),
        ("offsets", "list", "report"),
        ("offsets", "lag", "report"),
        ("export", "flights"),
        ("doctor",),
    ]
    with FakeCluster(2, guard=guard, long_polls=True) as brokers, caplog.at_level(logging.DEBUG):
        run._runner.env.update({"LOGSTORE_DIR": None, "LOGSTORE_BOOTSTRAP": brokers.bootstrap})
        run._runner.env.update({"LOGSTORE_PROFILE": str(profile)})
        shown = []
        for said in (secret, wrong):
            write(said)
            for words in commands:
                found = run.result("-vv", *words, input="a\nb\n")
                shown += [found.stdout, found.stderr]
                if words[0] != "doctor":
                    assert (found.exit_code == 0) is (said == secret), (words, found.stderr)
    for text in (*shown, caplog.text):
        assert secret not in text
        assert wrong not in text
    assert any("login" in text for text in shown)
