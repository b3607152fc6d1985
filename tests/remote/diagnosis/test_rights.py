"""Rights by bits, and the line that adds a missing one."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from logstore.config.remote import WireConfig
from logstore.remote.diagnosis.rights import Operation, Purpose, Resource, acl_line, lacking, missing, principal_of
from tests.remote.fake_security import Authority


def config(**settings: Any) -> WireConfig:
    return WireConfig.of({"bootstrap.servers": "kafka-1:9092, kafka-2:9092"}, **settings)


SASL: dict[str, Any] = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "al ice",
                        "sasl_password": "s3cr3t"}  # fmt: skip


def test_what_a_purpose_needs_is_kafkas_table() -> None:
    topic, group, cluster = Resource("topic", "t"), Resource("group", "g"), Resource("cluster")
    assert topic.needed([Purpose.PRODUCE, Purpose.CONSUME]) == (Operation.WRITE, Operation.READ)
    assert group.needed([Purpose.PRODUCE]) == ()
    assert group.needed([Purpose.CONSUME, Purpose.CONSUME]) == (Operation.READ,)
    assert cluster.needed([Purpose.CONSUME]) == ()
    assert cluster.needed([Purpose.MANAGE]) == (Operation.CREATE, Operation.DESCRIBE)


def test_an_operation_is_missing_unless_its_bit_is_set_or_the_broker_does_not_tell() -> None:
    needed = [Operation.READ, Operation.ALTER_CONFIGS]
    assert missing(needed, 0) == needed
    assert missing(needed, 1 << 3 | 1 << 8) == [Operation.ALTER_CONFIGS]
    assert missing(needed, 1 << 3 | 1 << 11) == []
    assert missing(needed, -(1 << 31)) == []


def test_the_line_is_one_of_a_shell() -> None:
    line = acl_line(
        Resource("topic", "a b"), [Operation.READ, Operation.DESCRIBE_CONFIGS], config(**SASL), "User:al ice"
    )
    assert shlex.split(line) == [
        "kafka-acls.sh", "--bootstrap-server", "kafka-1:9092,kafka-2:9092", "--command-config", "ADMIN.properties",
        "--add", "--allow-principal", "User:al ice", "--operation", "Read", "--operation", "DescribeConfigs",
        "--topic", "a b",
    ]  # fmt: skip
    line = acl_line(Resource("cluster"), [Operation.CREATE], config(), "User:ANONYMOUS")
    assert line == (
        "kafka-acls.sh --bootstrap-server kafka-1:9092,kafka-2:9092 --add --allow-principal User:ANONYMOUS "
        "--operation Create --cluster"
    )


def test_nothing_is_said_where_nothing_is_missing() -> None:
    assert list(lacking(Resource("topic", "t"), [], config(), "User:x")) == []
    (found,) = lacking(Resource("group", "g"), [Operation.READ], config(), "User:x")
    assert (found.name, found.where) == ("missing-acl-group", "group 'g'")
    assert found.advice.endswith("--operation Read --group g")


@pytest.mark.parametrize(
    ("settings", "principal"),
    [
        ({}, "User:ANONYMOUS"),
        ({"security_protocol": "SSL"}, "User:ANONYMOUS"),
        (SASL, "User:al ice"),
        ({**SASL, "sasl_username": "{env:WHOSE_IT_IS}"}, "User:bob"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER",
             "sasl_oauthbearer_token_endpoint_url": "file:/nowhere"},
            "User:SUBJECT",
        ),
    ],
)  # fmt: skip
def test_the_principal_is_that_of_kafkas_defaults(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], principal: str
) -> None:
    monkeypatch.setenv("WHOSE_IT_IS", "bob")
    assert principal_of(config(**settings)) == principal


def test_the_principal_of_a_certificate_is_its_subject() -> None:
    own = Authority().issue(name="alice")
    settings = {
        "security_protocol": "SSL",
        "ssl_keystore_key": own.key_pem(),
        "ssl_keystore_certificate_chain": own.chain,
    }
    assert principal_of(config(**settings)) == "User:CN=alice"
