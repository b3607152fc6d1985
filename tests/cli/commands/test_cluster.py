"""Commands with ``--bootstrap``: they do to a cluster what they do to a store."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import logstore
from logstore.protocol.generated import messages as m
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
    run._runner.env.update({"LOGSTORE_DIR": None, "LOGSTORE_BOOTSTRAP": brokers.bootstrap})
    with logstore.connect(brokers.bootstrap) as store:
        topic = store.create_topic("flights", partitions=2)
        for number in range(2):
            topic.append_many([(b"k%d" % each, b"%d-%d" % (number, each)) for each in range(3)], partition=number)
    return run


def test_topics_of_a_cluster(there):
    assert there.json("topic", "list") == [
        {"topic": "flights", "partitions": 2, "id": there.json("topic", "list")[0]["id"]}
    ]
    there("topic", "create", "new", "-p", "3", "-c", "retention.ms=7d")
    (described,) = there.json("topic", "describe", "new")
    assert described["settings"] == {"retention.ms": "604800000"}
    assert [each["high_watermark"] for each in described["partitions"]] == [0, 0, 0]
    assert (
        there("topic", "alter", "new", "retention.ms=1d", "--reset", "cleanup.policy") == "retention.ms=86400000\n"
    )
    there("topic", "add-partitions", "new", "4")
    assert there.json("topic", "trim", "flights", "--before", "2", "--yes") == [
        {"partition": 0, "log_start_offset": 2},
        {"partition": 1, "log_start_offset": 2},
    ]
    there("topic", "delete", "new", "--yes")
    assert [each["topic"] for each in there.json("topic", "list")] == ["flights"]


def test_records_of_a_cluster_are_produced_consumed_and_exported(there):
    there("produce", "flights", "-p", "1", input="a\nb\n")
    printed = there("consume", "flights", "-e", "-o", "beginning", "-f", "%p %o %s\\n").splitlines()
    assert sorted(printed) == ["0 0 0-0", "0 1 0-1", "0 2 0-2", "1 0 1-0", "1 1 1-1", "1 2 1-2", "1 3 a", "1 4 b"]
    assert there("consume", "flights", "-e", "-p", "1", "-o", "-1") == "b\n"
    lines = [json.loads(line) for line in there("export", "flights", "-p", "0").splitlines()]
    assert [(line["key"], line["value"]) for line in lines] == [("k0", "0-0"), ("k1", "0-1"), ("k2", "0-2")]
    there("import", "again", "--create", input="".join(json.dumps(line) + "\n" for line in lines))
    assert there("consume", "again", "-e", "-f", "%k=%s ") == "k0=0-0 k1=0-1 k2=0-2 "
    assert there("head", "flights", "-p", "0", "-n", "1") == "0-0\n"
    assert there("tail", "flights", "-p", "1", "-n", "1") == "b\n"


def test_offsets_and_lag_of_a_cluster(there):
    there("consume", "flights", "-e", "-c", "2", "-p", "0", "-g", "report")
    assert [(each["partition"], each["offset"]) for each in there.json("offsets", "list", "report")] == [(0, 2)]
    assert [each["records"] for each in there.json("offsets", "lag", "report")] == [1]
    there("offsets", "set", "report", "flights:1=end")
    assert [each["offset"] for each in there.json("offsets", "list", "report")] == [2, 3]
    there("offsets", "delete", "report", "flights:1")
    assert [each["partition"] for each in there.json("offsets", "list")] == [0]


def test_a_store_or_a_cluster_and_never_both(there, brokers, tmp_path):
    said = there.error("topic", "list", "--dir", tmp_path, "--bootstrap", brokers.bootstrap, status=2)
    assert "--dir and --bootstrap exclude each other; give one of them" in said
    # The command line wins over the environment.
    with logstore.open(tmp_path / "store", environ={}) as store:
        store.create_topic("of-the-store")
    assert "of-the-store" in there("topic", "list", "--dir", tmp_path / "store")
    there._runner.env.update({"LOGSTORE_DIR": str(tmp_path / "store"), "LOGSTORE_BOOTSTRAP": None})
    assert "flights" in there("topic", "list", "--bootstrap", brokers.bootstrap)
    assert "of-the-store" in there("topic", "list")


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


def test_what_is_of_files_is_refused(there, tmp_path):
    for words in (("consume", "flights", "--skip-damaged"), ("export", "flights", "--skip-damaged")):
        assert "reads the files of a store" in there.error(*words, status=2)
    assert "--drop-keyless is of a store" in there.error(
        "topic", "alter", "flights", "a=b", "--drop-keyless", status=2
    )
    (tmp_path / "flights-0").mkdir()
    assert "is imported into a store" in there.error("import", "flights", tmp_path / "flights-0", status=2)


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


def test_a_cluster_is_measured_in_a_topic_that_is_made_and_deleted(there, brokers):
    rows = there.json("bench", "-n", "2000", "--syncs", "3")
    assert [(row["what"], row["records"]) for row in rows] == [
        ("append in batches of 1,000", 2000),
        ("send by a producer", 2000),
        ("consume", 4000),
        ("count", 4000),
        ("append one by one, each acknowledged", 3),
        ("send one by one, each consumed", 3),
    ]
    assert all(row["seconds"] > 0 for row in rows)
    assert [row["p50_ms"] is not None for row in rows] == [False] * 4 + [True] * 2
    assert rows[-1]["p50_ms"] <= rows[-1]["p99_ms"]
    assert list(brokers.topics) == ["flights"]
    assert "p99_ms" in there("bench", "-n", "1000", "--syncs", "1", "-t", "mine")
    assert list(brokers.topics) == ["flights"]


def test_no_topic_of_the_user_is_measured_in(there, brokers):
    said = there.error("bench", "--topic", "flights", status=2)
    assert "--topic flights: the topic exists, and bench would fill and delete it; give a name that is new" in said
    assert [len(each.values()) for each in brokers.topics["flights"].partitions] == [3, 3]
    there._runner.env["LOGSTORE_BOOTSTRAP"] = None
    assert "--topic is for a cluster" in there.error("bench", "--topic", "flights", status=2)


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
