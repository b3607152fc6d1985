"""The same requests of users with the same rights to a real broker with ACLs and to ours: the answers are alike.

What may differ stands in `OWN`, with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import logstore
from logstore.broker import serve
from logstore.protocol.generated import messages as m
from tests.broker.rights import CASES, MAKING, TOPICS, TRANSACTIONS, USERS, Case, TableAuthorizer
from tests.broker.wire import Wire
from tests.interop.broker import Broker
from tests.interop.test_administration import _leads, plain
from tests.kit.waiting import wait_for

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

#: Words, ids, addresses, times and sizes are each broker's own; the settings of both are compared elsewhere.
OWN = frozenset(
    {
        "brokers",
        "cluster_id",
        "config_resources",
        "controller_id",
        "eligible_leader_replicas",  # null or empty
        "error_message",
        "last_known_elr",
        "leader_epoch",  # of a log that is not open yet, ours is not known
        "log_dir",
        "producer_id",
        "throttle_time_ms",
        "topic_id",
        "total_bytes",
        "usable_bytes",
    }
)


class Sides(NamedTuple):
    """A connection of each user to Kafka, one of anyone to us, and the ids of topics at both."""

    kafka: dict[str, Wire]
    ours: Wire
    authorizer: TableAuthorizer
    ids: tuple[dict[str, str], dict[str, str]]


def _at(address: str) -> Wire:
    host, _, port = address.rpartition(":")
    place: Any = SimpleNamespace(address=(host, int(port)))
    return Wire(place)


def _login(address: str, user: str) -> Wire:
    wire = _at(address)
    assert wire.ask(m.SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
    words = f"\0{user}\0{user}".encode()
    assert wire.ask(m.SaslAuthenticateRequest(auth_bytes=words), 2).error_code == 0
    return wire


@pytest.fixture(scope="module")
def sides(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    directory = tmp_path_factory.mktemp("rights")
    known = " ".join(f'user_{user}="{user}"' for user in USERS)
    login = "listener.name.users"
    properties: dict[str, object] = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        f"{login}.sasl.enabled.mechanisms": "PLAIN",
        f"{login}.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {known};"
        ),
        "auto.create.topics.enable": "true",
    }
    authorizer = TableAuthorizer()
    with (
        Broker(directory / "kafka", listeners={"USERS": "SASL_PLAINTEXT"}, properties=properties) as kafka,
        logstore.open(directory / "ours", {"log.retention.ms": -1, "auto.create.topics.enable": True}) as store,
        serve(store, "127.0.0.1:0", authorizer=authorizer) as ours,
        _at(kafka.bootstrap) as tool,
        Wire(ours) as wire,
    ):
        C = m.CreateTopicsRequest
        new = [C.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in TOPICS]
        made = tool.ask(C(topics=new, timeout_ms=5000), 7).topics
        at_kafka = {each.name: each.topic_id for each in made}
        at_ours = {name: store.create_topic(name, 1).id for name in TOPICS}
        A = m.CreateAclsRequest
        acls = [
            A.AclCreation(
                resource_type=kind,
                resource_name=name,
                principal=f"User:{user}",
                host="*",
                operation=operation,
                permission_type=3,
            )
            for user, rules in USERS.items()
            for operation, kind, name in rules
        ]
        assert {each.error_code for each in tool.ask(A(creations=acls), 3).results} == {0}
        wires = {user: _login(kafka.address("USERS"), user) for user in USERS}
        wait_for(lambda: all(_leads(tool, name, 0) for name in TOPICS))
        listed = m.DescribeLogDirsRequest(topics=None)
        wait_for(lambda: wires["operator"].ask(listed, 4).error_code == 0)
        # A new broker asks for its producer ids first.
        first = m.InitProducerIdRequest(transactional_id=None)
        wait_for(lambda: tool.ask(first, 4).error_code == 0)
        yield Sides(wires, wire, authorizer, (at_kafka, at_ours))
        for each in wires.values():
            each.socket.close()


def _sorted(value: Any) -> Any:
    """Return lists in one order: Kafka shuffles some. Settings are there or not."""
    if isinstance(value, dict):
        return {key: bool(each) if key == "configs" else _sorted(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((_sorted(each) for each in value), key=repr)
    return bytes(value) if isinstance(value, memoryview) else value


def _asked(sides: Sides, user: str, case: Case) -> list[Any]:
    sides.authorizer.rules = set(USERS[user])
    found = []
    for wire, ids in zip((sides.kafka[user], sides.ours), sides.ids, strict=True):
        answer = wire.ask(case.request(ids), case.version)
        if case.name == "log directories":
            answer = SimpleNamespace(code=answer.error_code, found=bool(answer.results)).__dict__
            found.append(answer)
            continue
        named = {value: name for name, value in ids.items()}
        found.append(_sorted(plain(_with_names(answer, named), OWN)))
    return found


def _with_names(answer: Any, named: dict[str, str]) -> Any:
    """Put the name of a topic where an answer has an id that both brokers gave, to see that it is the same."""
    for attribute in ("topics", "responses"):
        for each in getattr(answer, attribute, None) or ():
            key = "topic" if hasattr(each, "topic") else "name"
            if getattr(each, "topic_id", "") in named and getattr(each, key, None) == "":
                setattr(each, key, named[each.topic_id])
    return answer


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name} v{case.version}")
def test_answers_are_alike(sides: Sides, case: Case, user: str) -> None:
    if case.name == "fetch of a follower" and user == "operator":
        pytest.skip("Kafka looks for the follower among its nodes; a lone node of ours has none")
    kafkas, ours = _asked(sides, user, case)
    assert ours == kafkas


@pytest.mark.parametrize(("user", "case"), [("viewer", MAKING), ("nothing", MAKING), ("nothing", TRANSACTIONS)])
def test_what_may_not_be_made_is_refused_alike(sides: Sides, case: Case, user: str) -> None:
    kafkas, ours = _asked(sides, user, case)
    assert ours == kafkas
