"""A cluster is diagnosed: each obstacle is named in one sentence with advice, in time, and without a secret."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from logstore.client.backend.findings import Finding, Level
from logstore.errors import InvalidSettingError
from logstore.protocol.generated import messages as m
from logstore.remote.diagnosis.diagnosis import IntendedUse, diagnose
from logstore.remote.diagnosis.rights import Operation, Purpose
from tests.remote import fake_cluster
from tests.remote.fake_acls import AclGuard
from tests.remote.fake_cluster import ALL, FakeCluster
from tests.remote.fake_security import Authority, Issued, SaslGuard, TlsGuard

Broker = m.MetadataResponse.MetadataResponseBroker
MARK = "s3cr3tmark"


ANYTHING = IntendedUse()


def look(
    bootstrap: str, wanted: IntendedUse = ANYTHING, *, timeout_s: float = 10.0, **settings: Any
) -> list[Finding]:
    """The findings that are no mere facts; each is one line, and none shows a password."""
    began = time.monotonic()
    found = list(diagnose(bootstrap, settings, wanted, timeout_s=timeout_s))
    assert time.monotonic() - began < timeout_s + 20, "the time-out and a slow machine"
    for each in found:
        assert "\n" not in str(each)
        assert MARK not in str(each)
        assert each.advice or each.level is Level.INFO, each
    return [each for each in found if each.level is not Level.INFO]


def one(bootstrap: str, name: str, **settings: Any) -> Finding:
    (found,) = look(bootstrap, **settings)
    assert found.level is Level.PROBLEM
    assert found.name == name, found
    return found


def test_a_cluster_in_order_has_no_finding() -> None:
    with FakeCluster(3) as cluster:
        cluster.topic("t", 3, leaders=(1, 2, 3))
        assert look(cluster.bootstrap) == []
        (fact,) = diagnose(cluster.bootstrap, {})
        assert "cluster fake of 3 brokers, with 1 topics" in str(fact)


# --- addresses -----------------------------------------------------------------------------------


def test_an_address_where_nothing_answers() -> None:
    found = one("127.0.0.1:1", "unreachable")
    assert str(found).startswith("problem: 127.0.0.1:1: Connection refused; check that the broker runs")


def test_a_name_that_does_not_resolve() -> None:
    found = one("no-such-host.invalid:9092", "unknown-host")
    assert "the host name cannot be resolved" in found.what


def test_each_bootstrap_server_is_asked() -> None:
    with FakeCluster() as cluster:
        found = look(f"127.0.0.1:1,{cluster.bootstrap},127.0.0.1:2")
        assert [(each.name, each.where) for each in found] == [
            ("unreachable", "127.0.0.1:1"), ("unreachable", "127.0.0.1:2")
        ]  # fmt: skip


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_an_advertised_address_that_cannot_be_reached(host: str) -> None:
    with FakeCluster(2) as cluster:
        port = cluster.brokers[1].port
        told = [Broker(node_id=1, host="127.0.0.1", port=port), Broker(node_id=2, host=host, port=1)]
        cluster.brokers[1].plan(m.MetadataRequest, {"brokers": told})
        found = one(f"127.0.0.1:{port}", "advertised-address")
        assert found.where == f"broker 2 ({host}:1)"
        assert f"the broker advertises {host}:1, which clients connect to after the bootstrap server" in found.what
        assert "correct advertised.listeners of the broker" in found.advice


def test_what_answers_is_no_broker() -> None:
    with FakeCluster() as cluster:
        cluster.brokers[1].plan(m.ApiVersionsRequest, *[fake_cluster.web_server] * 3)
        assert "does not speak Kafka's protocol" in one(cluster.bootstrap, "wrong-protocol").what


@pytest.mark.parametrize("request_kind", [m.ApiVersionsRequest, m.MetadataRequest, m.DescribeConfigsRequest])
def test_a_silent_broker_is_not_waited_for_beyond_the_time_out(request_kind: type[Any]) -> None:
    with FakeCluster() as cluster:
        cluster.topic("t")
        cluster.brokers[1].plan(request_kind, *[fake_cluster.silence] * 9)
        began = time.monotonic()
        found = list(diagnose(cluster.bootstrap, {}, timeout_s=0.5))
        assert time.monotonic() - began < 15, "and not for the 30 s of request.timeout.ms"
        assert {each.name for each in found} <= {"no-answer", "timed-out", "cluster"}
        assert found[-1].name in ("no-answer", "timed-out") or request_kind is m.DescribeConfigsRequest


def test_a_resolver_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def stuck(*_: object, **__: object) -> Any:
        ended.wait(120)
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", stuck)
    try:
        began = time.monotonic()
        found = one("kafka-1:9092", "timed-out", timeout_s=0.3)
        assert time.monotonic() - began < 60
    finally:
        ended.set()
    assert found.what == "the diagnosis was not done after 0.3 s, and waited for the answer of a bootstrap server"


# --- protocols, certificates and logins ----------------------------------------------------------


def test_a_plain_client_at_a_port_with_tls(issued: Issued, tmp_path: Path) -> None:
    with FakeCluster(guard=TlsGuard(issued, tmp_path)) as cluster:
        found = one(cluster.bootstrap, "wrong-protocol")
        assert found.what == "this listener speaks TLS, and security.protocol is PLAINTEXT"
        assert found.advice.startswith("set security.protocol to SSL or SASL_SSL")


def test_tls_at_a_plain_port(authority: Authority) -> None:
    with FakeCluster() as cluster:
        found = one(
            cluster.bootstrap, "wrong-protocol", security_protocol="SSL", ssl_truststore_certificates=authority.pem
        )
        assert found.what == "this listener speaks no TLS, and security.protocol is SSL"
        assert found.advice == "take the port of a listener with TLS, or set security.protocol to PLAINTEXT"


def test_a_login_that_is_needed_is_named_with_the_mechanisms() -> None:
    with FakeCluster(guard=SaslGuard({}, ("PLAIN", "SCRAM-SHA-512"))) as cluster:
        found = one(cluster.bootstrap, "wrong-protocol")
        assert found.what == "this listener asks for a login, and security.protocol is PLAINTEXT"
        assert found.advice == (
            "set security.protocol to SASL_PLAINTEXT, and sasl.mechanism to one that it offers: "
            "PLAIN, SCRAM-SHA-512"
        )


def login(mechanism: str = "PLAIN", **settings: Any) -> dict[str, Any]:
    given = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism, "sasl_username": "alice"}
    return {**given, "sasl_password": MARK, **settings}


def test_a_mechanism_that_is_not_offered() -> None:
    with FakeCluster(guard=SaslGuard({"alice": MARK}, ("SCRAM-SHA-512",))) as cluster:
        found = one(cluster.bootstrap, "mechanism", **login())
        assert "does not offer sasl.mechanism=PLAIN" in found.what
        assert found.advice == "this listener offers SCRAM-SHA-512"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_tried_once(mechanism: str) -> None:
    guard = SaslGuard({"alice": "another"})
    guard.echoes = f" for {MARK}"
    with FakeCluster(3, guard=guard) as cluster:
        found = one(cluster.bootstrap, "login", **login(mechanism))
        assert f"login of {mechanism} at" in found.what
        assert "check the user and the password" in found.advice
        assert guard.refused == 1, "brokers lock users: the other bootstrap servers are not asked"


@pytest.mark.parametrize(
    ("kind", "meaning"),
    [
        ("host", "is not for the host 127.0.0.1"),
        ("expired", "has expired"),
        ("self-signed", "is self-signed and not trusted"),
        ("stranger", "is of an authority that is not trusted"),
    ],
)
def test_certificates(authority: Authority, tmp_path: Path, kind: str, meaning: str) -> None:
    issued = {
        "host": lambda: authority.issue("broker.example"),
        "expired": lambda: authority.issue("127.0.0.1", first=-10),
        "self-signed": lambda: Authority("self").issued,
        "stranger": lambda: Authority("stranger").issue("127.0.0.1"),
    }[kind]()
    with FakeCluster(guard=TlsGuard(issued, tmp_path)) as cluster:
        found = one(
            cluster.bootstrap, "certificate", security_protocol="SSL", ssl_truststore_certificates=authority.pem
        )
        assert found.what == f"the broker's certificate {meaning}"


def test_settings_that_are_half_there_are_refused_before_a_connection() -> None:
    with FakeCluster() as cluster:
        with pytest.raises(InvalidSettingError, match=r"sasl\.mechanism"):
            look(cluster.bootstrap, security_protocol="SASL_SSL")
        assert cluster.brokers[1].accepted == 0


# --- versions and partitions -----------------------------------------------------------------------


def test_a_broker_that_is_too_old() -> None:
    old = ALL | {m.FetchRequest.API_KEY: (0, 1), m.ProduceRequest.API_KEY: (0, 1)}
    with FakeCluster(versions=old) as cluster:
        found = one(cluster.bootstrap, "old-broker")
        assert found.what == "the broker and this client have no version in common of Fetch, Produce"


def test_partitions_without_leaders_and_with_too_few_replicas() -> None:
    with FakeCluster() as cluster:
        offline, _ = cluster.topic("t", 2)
        offline.leader = -1
        cluster.topic("strict")
        cluster.topics["strict"].settings["min.insync.replicas"] = "2"
        found = look(cluster.bootstrap)
        assert [(each.name, each.where) for each in found] == [
            ("under-min-insync", "topic 'strict'"), ("no-leader", "topic 't'")
        ]  # fmt: skip


# --- rights ----------------------------------------------------------------------------------------


def test_missing_acls_are_named_with_the_line_that_adds_them() -> None:
    guard = AclGuard(SaslGuard({"alice": MARK}))
    with FakeCluster(guard=guard) as cluster:
        guard.cluster = cluster
        for name in ("read", "hidden", "both"):
            cluster.topic(name)
        guard.allow("topic", "read", Operation.READ)
        guard.allow("topic", "both", Operation.READ, Operation.WRITE)
        guard.allow("group", "mine", Operation.READ)
        guard.allow("group", "seen", Operation.DESCRIBE)
        assert look(cluster.bootstrap, **login()) == [], "of what was not named, no rights are missed"
        wanted = IntendedUse(("read", "hidden", "both"), ("mine", "seen", "theirs"))
        found = look(cluster.bootstrap, wanted, **login())
        line = (
            f"have an administrator run: kafka-acls.sh --bootstrap-server {cluster.bootstrap} --command-config "
            "ADMIN.properties --add --allow-principal User:alice "
        )
        assert [(each.where, each.advice.removeprefix(line)) for each in found] == [
            ("topic 'read'", "--operation Write --topic read"),
            ("topic 'hidden'", "--operation Write --operation Read --topic hidden"),
            ("group 'seen'", "--operation Read --group seen"),
            ("group 'theirs'", "--operation Read --group theirs"),
        ]
        assert found[0].what == "the brokers' ACLs do not permit Write to User:alice"
        assert look(cluster.bootstrap, IntendedUse(("read",), (), (Purpose.CONSUME,)), **login()) == []
        (lacks,) = look(cluster.bootstrap, IntendedUse(purposes=(Purpose.MANAGE,)), **login())
        assert lacks.advice.endswith("--operation Create --operation Describe --cluster")
        guard.allow("cluster", "", Operation.CREATE, Operation.DESCRIBE)
        assert look(cluster.bootstrap, IntendedUse(purposes=(Purpose.MANAGE,)), **login()) == []


def test_a_topic_that_is_not_there_is_no_missing_right() -> None:
    with FakeCluster() as cluster:
        (found,) = look(cluster.bootstrap, IntendedUse(("x",)))
        assert (found.name, found.where) == ("no-topic", "topic 'x'")
        assert not cluster.topics, "and it is not created"


def test_brokers_that_tell_no_rights_are_not_suspected() -> None:
    with FakeCluster(versions=ALL | {m.MetadataRequest.API_KEY: (0, 7)}) as cluster:
        cluster.topic("t")
        assert look(cluster.bootstrap, IntendedUse(("t",))) == []
