"""`logstore doctor --bootstrap` at a real, secured Kafka: ports, logins, certificates and ACLs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logstore.client.backend.findings import Finding, Level
from logstore.remote.client import Client, NewTopic
from logstore.remote.diagnosis.diagnosis import IntendedUse, diagnose
from logstore.remote.diagnosis.rights import Purpose
from tests.interop.secured import MECHANISMS, Secured
from tests.interop.secured import secured as secured_cluster
from tests.kit.waiting import wait_for
from tests.remote.fake_security import Authority

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def secured(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = secured_cluster(tmp_path_factory.mktemp("doctor") / "cluster", racks=["alone"])
    with made.cluster:
        yield made


ANYTHING = IntendedUse()


def look(place: str, wanted: IntendedUse = ANYTHING, **settings: Any) -> list[Finding]:
    found = list(diagnose(place, settings, wanted))
    assert not any("\n" in str(each) for each in found)
    return [each for each in found if each.level is not Level.INFO]


def settings_of(secured: Secured, protocol: str, mechanism: str = "", user: str = "alice") -> dict[str, Any]:
    given: dict[str, Any] = {"security.protocol": protocol, **(secured.tls() if "SSL" in protocol else {})}
    return {**given, **(secured.login(mechanism, user) if mechanism else {})}


@pytest.mark.parametrize(
    ("listener", "protocol", "mechanism", "name", "meaning"),
    [
        ("PLAINTEXT", "PLAINTEXT", "", "", ""),
        ("SSL", "SSL", "", "", ""),
        ("SASL_SSL", "SASL_SSL", "SCRAM-SHA-512", "", ""),
        ("SSL", "PLAINTEXT", "", "wrong-protocol", "speaks TLS"),
        ("MTLS", "PLAINTEXT", "", "wrong-protocol", "speaks TLS"),
        ("SASL_SSL", "SASL_PLAINTEXT", "PLAIN", "wrong-protocol", "speaks TLS"),
        ("PLAINTEXT", "SSL", "", "wrong-protocol", "speaks no TLS"),
        ("SASL_PLAINTEXT", "SASL_SSL", "PLAIN", "wrong-protocol", "speaks no TLS"),
        ("SASL_PLAINTEXT", "PLAINTEXT", "", "wrong-protocol", "asks for a login"),
        ("SASL_SSL", "SSL", "", "wrong-protocol", "asks for a login"),
        ("SSL", "SASL_SSL", "PLAIN", "wrong-protocol", "asks for no login"),
        ("MTLS", "SSL", "", "certificate", "refuses this client's certificate, or wants one"),
    ],
)
def test_each_listener_with_each_protocol(
    secured: Secured, listener: str, protocol: str, mechanism: str, name: str, meaning: str
) -> None:
    place = secured.broker.bootstrap if listener == "PLAINTEXT" else secured.broker.address(listener)
    found = look(place, **settings_of(secured, protocol, mechanism))
    assert [each.name for each in found] == ([name] if name else [])
    assert all(meaning in each.what for each in found), found
    if meaning == "asks for a login":
        assert all(each in found[0].advice for each in MECHANISMS), found


def test_a_wrong_password_and_a_strange_authority(secured: Secured) -> None:
    wrong = settings_of(secured, "SASL_SSL", "SCRAM-SHA-256")
    wrong["sasl.jaas.config"] = wrong["sasl.jaas.config"].replace('password="', 'password="wr0ng-')
    (found,) = look(secured.broker.address("SASL_SSL"), **wrong)
    assert (found.name, "wr0ng" in str(found)) == ("login", False)
    strange: dict[str, Any] = {"security.protocol": "SSL", "ssl.truststore.certificates": Authority("x").pem}
    (found,) = look(secured.broker.address("SSL"), **strange)
    assert found.name == "certificate"
    elsewhere = secured.broker.address("SSL").replace("127.0.0.1", "localhost")
    (found,) = look(elsewhere, **settings_of(secured, "SSL"))
    assert (found.name, "is not for the host localhost" in found.what) == ("certificate", True)


def test_acls_are_missing_until_what_the_line_says_is_permitted(secured: Secured) -> None:
    place = secured.broker.address("SASL_SSL")
    with Client(secured.broker.bootstrap) as administrator:
        administrator.create_topics([NewTopic("orders")])
    mine = settings_of(secured, "SASL_SSL", "PLAIN", "bob")
    wanted = IntendedUse(("orders",), ("report",), (Purpose.PRODUCE, Purpose.CONSUME, Purpose.MANAGE))
    found = {each.name: each for each in look(place, wanted, **mine)}
    assert set(found) == {"missing-acl-topic", "missing-acl-group", "missing-acl-cluster"}
    for kind, each in (("topic", "orders"), ("group", "report"), ("cluster", "kafka-cluster")):
        words = shlex.split(found[f"missing-acl-{kind}"].advice.split("run: ")[1])
        assert words[:3] == ["kafka-acls.sh", "--bootstrap-server", place]
        assert words[words.index("--allow-principal") + 1] == "User:bob"
        operations = [words[at + 1] for at, word in enumerate(words) if word == "--operation"]
        secured.cluster.allow("bob", *operations, **{kind: each})
    wait_for(lambda: look(place, wanted, **mine) == [], 60)


def test_a_certificate_is_known_by_its_subject(secured: Secured, tmp_path: Path) -> None:
    own = secured.authority.issue(name="eve")
    mine = settings_of(secured, "SSL") | {"ssl.keystore.location": str(own.write(tmp_path / "own.pem"))}
    (found,) = look(secured.broker.address("MTLS"), IntendedUse(("orders",)), **mine)
    assert found.name == "missing-acl-topic"
    assert "--allow-principal User:CN=eve" in found.advice, "before ssl.principal.mapping.rules of the brokers"
