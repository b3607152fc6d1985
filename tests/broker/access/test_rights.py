"""What an authorizer refuses is answered with Kafka's error, for exactly that resource, and not done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import logstore
from logstore.broker import AclOperation, Authorizer, Broker, ClientIdentity, Principal, ResourceType, serve
from logstore.broker.requests import API_VERSIONS, FAMILIES
from logstore.protocol.generated import messages as m
from logstore.store import Store
from tests.broker.rights import (
    BATCH,
    CASES,
    MAKING,
    OF_CLUSTER,
    OF_TOPIC,
    TOPICS,
    TRANSACTIONS,
    USERS,
    Case,
    TableAuthorizer,
)
from tests.broker.wire import Wire
from tests.kit.inside import state_of
from tests.kit.waiting import wait_for

DENIED = 29
_READ = AclOperation.READ
ALL_ON_TOPIC = sum(1 << each for each in OF_TOPIC)
ALL_ON_CLUSTER = sum(1 << each for each in OF_CLUSTER)
#: All to the topic ``own``, and nothing else.
OWNER = USERS["owner"]


@pytest.fixture
def authorizer() -> TableAuthorizer:
    return TableAuthorizer(OWNER)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with logstore.open(tmp_path / "data", {"auto.create.topics.enable": "true"}) as store:
        for name in TOPICS:
            store.create_topic(name, 1).append(b"first")
        yield store


@pytest.fixture
def broker(store: Store, authorizer: Authorizer) -> Iterator[Broker]:
    with serve(store, "WIDE://127.0.0.1:0", authorizer=authorizer) as broker:
        yield broker


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker) as wire:
        yield wire


def _ids(store: Store) -> dict[str, str]:
    return {name: store[name].id for name in TOPICS}


def _state(store: Store) -> object:
    """What a request could have changed."""
    return {
        name: (store[name].id, len(store[name]), store.describe_topic(name).settings, _ends(store, name))
        for name in sorted(store)
    }


def _ends(store: Store, name: str) -> tuple[int, int]:
    log = store[name].log(0)
    return log.log_start_offset, log.log_end_offset


each_case = pytest.mark.parametrize("case", [*CASES, TRANSACTIONS], ids=lambda case: f"{case.name} v{case.version}")


@pytest.mark.parametrize("key", sorted(set(FAMILIES) - {API_VERSIONS}))
def test_each_key_asks(store: Store, broker: Broker, authorizer: TableAuthorizer, key: int) -> None:
    """But for ApiVersions, which a client needs to log in."""
    ids = _ids(store)
    cases = [each for each in CASES if key == each.request(ids).API_KEY]
    assert cases, "a key that is served needs its requests in tests/broker/rights.py"
    for case in cases:
        authorizer.asked.clear()
        with Wire(broker) as wire:
            wire.ask(case.request(_ids(store)), case.version)
        assert authorizer.asked, case.name


@each_case
def test_a_question_names_the_client(store: Store, wire: Wire, authorizer: TableAuthorizer, case: Case) -> None:
    wire.ask(case.request(_ids(store)), case.version)
    for client, _, _, names in authorizer.asked:
        assert client == ClientIdentity(Principal("User", "ANONYMOUS"), "WIDE", "a test", "127.0.0.1")
        assert str(client.principal) == "User:ANONYMOUS"
        assert names


@each_case
def test_a_client_without_rights_changes_nothing(
    store: Store, wire: Wire, authorizer: TableAuthorizer, case: Case
) -> None:
    before = _state(store)
    authorizer.rules.clear()
    wire.ask(case.request(_ids(store)), case.version)
    assert _state(store) == before


@each_case
def test_an_authorizer_that_fails_ends_the_connection_and_nothing_else(
    store: Store, broker: Broker, authorizer: TableAuthorizer, case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    before = _state(store)
    authorizer.fails = True
    with Wire(broker) as wire:
        wire.send(case.request(_ids(store)), case.version)
        assert wire.frame() == b""
    assert _state(store) == before
    assert "authorizer failed" in caplog.text
    authorizer.fails = False
    with Wire(broker) as wire:
        wire.ask(case.request(_ids(store)), case.version)


@each_case
def test_an_authorizer_that_fails_at_any_question_has_changed_nothing(
    store: Store, broker: Broker, authorizer: TableAuthorizer, case: Case
) -> None:
    """All questions of a request come before anything of it is done."""
    authorizer.rules |= {(AclOperation.CREATE, ResourceType.TOPIC, "made")}
    before = _state(store)
    for number in range(1, 100):
        authorizer.asked.clear()
        authorizer.fails_at = number
        with Wire(broker) as wire:
            wire.send(case.request(_ids(store)), case.version)
            if wire.frame():
                break  # there are fewer questions
        assert _state(store) == before
    assert 1 < number < 99


def test_a_batch_that_is_in_a_log_is_not_asked_about_again(
    store: Store, broker: Broker, authorizer: TableAuthorizer
) -> None:
    authorizer.rules |= {(AclOperation.WRITE, ResourceType.TOPIC, "other")}
    data = [m.ProduceRequest.PartitionProduceData(index=0, records=BATCH)]
    topics = [m.ProduceRequest.TopicProduceData(name=name, partition_data=data) for name in TOPICS]
    with Wire(broker) as wire:
        authorizer.fails_at = 2
        with state_of(store["other"].log(0)).lock:
            wire.send(m.ProduceRequest(acks=1, timeout_ms=5000, topic_data=topics), 12)
            wait_for(lambda: store["own"].log(0).log_end_offset == 3)
        found = wire.receive(m.ProduceRequest, 12).responses
    assert [each.partition_responses[0].error_code for each in found] == [0, 0]
    assert len(authorizer.asked) == 1


# --- changes -------------------------------------------------------------------------------------


def _codes(found: Any) -> dict[str, int]:
    return {each.name: each.error_code for each in found}


def test_topics_are_made_and_deleted_as_far_as_rights_go(
    store: Store, wire: Wire, authorizer: TableAuthorizer
) -> None:
    C, D = m.CreateTopicsRequest, m.DeleteTopicsRequest
    authorizer.rules |= {(AclOperation.CREATE, ResourceType.TOPIC, "made")}
    new = [C.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("made", "secret")]
    found = wire.ask(C(topics=new, timeout_ms=5000), 7).topics
    assert _codes(found) == {"made": 0, "secret": DENIED}
    assert (found[0].topic_config_error_code, found[0].num_partitions, list(found[0].configs)) == (DENIED, -1, [])
    assert sorted(store) == ["made", "other", "own"]
    other = _ids(store)["other"]
    gone = wire.ask(D(topic_names=["own", "other", "secret"], timeout_ms=5000), 5).responses
    assert _codes(gone) == {"own": 0, "other": DENIED, "secret": DENIED}
    by_id = [D.DeleteTopicState(name=None, topic_id=other)]
    (kept,) = wire.ask(D(topics=by_id, timeout_ms=5000), 6).responses
    assert (kept.error_code, kept.name, kept.topic_id) == (DENIED, None, other)
    assert sorted(store) == ["made", "other"]


def test_partitions_settings_and_records_are_changed_as_far_as_rights_go(store: Store, wire: Wire) -> None:
    G, A, D = m.CreatePartitionsRequest, m.IncrementalAlterConfigsRequest, m.DeleteRecordsRequest
    more = [G.CreatePartitionsTopic(name=name, count=2, assignments=None) for name in TOPICS]
    assert _codes(wire.ask(G(topics=more, timeout_ms=5000), 3).results) == {"own": 0, "other": DENIED}
    setting = [A.AlterableConfig(name="retention.ms", config_operation=0, value="5000000")]
    wanted = [A.AlterConfigsResource(resource_type=2, resource_name=name, configs=setting) for name in TOPICS]
    changed = wire.ask(A(resources=wanted), 1).responses
    assert {each.resource_name: each.error_code for each in changed} == {"own": 0, "other": DENIED}
    part = [D.DeleteRecordsPartition(partition_index=0, offset=1)]
    asked = [D.DeleteRecordsTopic(name=name, partitions=part) for name in TOPICS]
    deleted = wire.ask(D(topics=asked, timeout_ms=5000), 2).topics
    assert {each.name: each.partitions[0].error_code for each in deleted} == {"own": 0, "other": DENIED}
    assert [len(store[name]) for name in TOPICS] == [2, 1]
    assert [_ends(store, name) for name in TOPICS] == [(1, 1), (0, 1)]
    assert "retention.ms" not in store.describe_topic("other").settings


def test_a_topic_is_not_made_for_one_that_may_only_describe_it(
    store: Store, wire: Wire, authorizer: TableAuthorizer
) -> None:
    asked = MAKING.request({})
    assert _codes(wire.ask(asked, MAKING.version).topics) == {"made": DENIED}
    authorizer.rules |= {(AclOperation.DESCRIBE, ResourceType.TOPIC, "made")}
    assert _codes(wire.ask(asked, MAKING.version).topics) == {"made": DENIED}
    assert "made" not in list(store)
    authorizer.rules |= {(AclOperation.CREATE, ResourceType.CLUSTER, "kafka-cluster")}
    assert _codes(wire.ask(asked, MAKING.version).topics) == {"made": 0}
    assert "made" in list(store)


# --- records -------------------------------------------------------------------------------------


def _produce(*names: str, acks: int = 1) -> m.ProduceRequest:
    P = m.ProduceRequest
    topics = [
        P.TopicProduceData(name=name, partition_data=[P.PartitionProduceData(index=0, records=BATCH)])
        for name in names
    ]
    return P(acks=acks, timeout_ms=5000, topic_data=topics)


def test_batches_are_appended_where_their_client_may_write(store: Store, wire: Wire) -> None:
    found = wire.ask(_produce("other", "own", "missing"), 9).responses
    assert {each.name: each.partition_responses[0].error_code for each in found} == {
        "own": 0,
        "other": DENIED,
        "missing": DENIED,
    }
    assert [_ends(store, name) for name in TOPICS] == [(0, 3), (0, 1)]


def test_an_allowed_batch_does_not_need_the_pool(
    broker: Broker, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker._served, "run", None)
    (found,) = wire.ask(_produce("own"), 9).responses
    assert (found.partition_responses[0].error_code, found.partition_responses[0].base_offset) == (0, 1)


def test_a_batch_without_acks_that_is_refused_closes_the_connection(store: Store, wire: Wire) -> None:
    wire.send(_produce("other", acks=0), 9)
    assert wire.frame() == b""
    assert _ends(store, "other") == (0, 1)


def test_a_right_that_is_taken_away_ends_a_fetch_session_of_before(wire: Wire, authorizer: TableAuthorizer) -> None:
    F = m.FetchRequest
    part = [F.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
    topics = [F.FetchTopic(topic=name, partitions=part) for name in TOPICS]
    asked = F(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_epoch=0, topics=topics)
    first = wire.ask(asked, 12)
    told = {each.topic: each.partitions[0] for each in first.responses}
    assert (told["own"].error_code, told["other"].error_code) == (0, DENIED)
    assert told["own"].records
    assert not told["other"].records
    authorizer.rules.clear()
    again = F(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_id=first.session_id, session_epoch=1)
    found = wire.ask(again, 12).responses
    assert {each.topic: each.partitions[0].error_code for each in found} == {"own": DENIED, "other": DENIED}


def _fetches(session: int, epoch: int, *names: str, offset: int = 0, wait_ms: int = 0) -> m.FetchRequest:
    F = m.FetchRequest
    part = [F.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)]
    topics = [F.FetchTopic(topic=name, partitions=part) for name in names]
    return F(
        max_wait_ms=wait_ms,
        min_bytes=int(wait_ms > 0),
        max_bytes=1 << 20,
        session_id=session,
        session_epoch=epoch,
        topics=topics,
    )


def _told(found: Any) -> dict[str, tuple[int, bool]]:
    return {
        each.topic: (each.partitions[0].error_code, bool(each.partitions[0].records)) for each in found.responses
    }


def test_an_allowed_fetch_takes_no_message_object_and_each_one_is_asked_about(
    store: Store, broker: Broker, wire: Wire, authorizer: TableAuthorizer
) -> None:
    quick = broker._requests._fetches.quick
    for number in range(1, 4):
        assert _told(wire.ask(_fetches(0, -1, "own"), 12)) == {"own": (0, True)}
        assert (quick.answered, len(authorizer.asked)) == (number, number)
        client, operation, kind, names = authorizer.asked[-1]
        assert (client.client_id, operation, kind, names) == ("a test", _READ, ResourceType.TOPIC, {"own"})
    assert _told(wire.ask(_fetches(0, -1, "own", "other"), 12)) == {"own": (0, True), "other": (DENIED, False)}
    # One that waits was asked about when it came.
    authorizer.asked.clear()
    wire.send(_fetches(0, -1, "own", offset=1, wait_ms=60_000), 12)
    wait_for(lambda: quick.parked)
    authorizer.rules.clear()
    store["own"].append(b"second")
    assert _told(wire.receive(m.FetchRequest, 12)) == {"own": (0, True)}
    assert (quick.answered, len(authorizer.asked)) == (4, 1)
    assert _told(wire.ask(_fetches(0, -1, "own"), 12)) == {"own": (DENIED, False)}
    assert _told(wire.ask(_fetches(0, -1, "own", offset=2, wait_ms=60_000), 12)) == {"own": (DENIED, False)}


def test_an_allowed_step_of_a_session_takes_no_message_object_and_each_one_is_asked_about(
    store: Store, broker: Broker, wire: Wire, authorizer: TableAuthorizer
) -> None:
    steps = broker._requests._fetches.steps
    session = wire.ask(_fetches(0, 0, "own"), 12).session_id
    authorizer.asked.clear()
    assert _told(wire.ask(_fetches(session, 1), 12)) == {"own": (0, True)}
    wire.send(_fetches(session, 2, "own", offset=1, wait_ms=60_000), 12)
    wait_for(lambda: steps.parked)
    assert [names for _, _, _, names in authorizer.asked] == [{"own"}] * 2
    store["own"].append(b"second")
    assert _told(wire.receive(m.FetchRequest, 12)) == {"own": (0, True)}
    assert (steps.answered, len(authorizer.asked)) == (2, 2)
    # A step that adds a topic is asked about with it.
    authorizer.rules |= {(_READ, ResourceType.TOPIC, "other")}
    assert _told(wire.ask(_fetches(session, 3, "other"), 12)) == {"own": (0, True), "other": (0, True)}
    assert authorizer.asked[-1][3] == {"own", "other"}
    assert steps.answered == 3
    authorizer.rules -= {(_READ, ResourceType.TOPIC, "other")}
    assert _told(wire.ask(_fetches(session, 4), 12)) == {"own": (0, True), "other": (DENIED, False)}
    authorizer.rules.clear()
    denied = {"own": (DENIED, False), "other": (DENIED, False)}
    assert _told(wire.ask(_fetches(session, 5, wait_ms=60_000), 12)) == denied


# --- operations told -----------------------------------------------------------------------------


def test_operations_are_told_when_they_are_asked_for(wire: Wire, authorizer: TableAuthorizer) -> None:
    asked = m.MetadataRequest(
        topics=None, include_topic_authorized_operations=True, include_cluster_authorized_operations=True
    )
    authorizer.rules |= {(AclOperation.READ, ResourceType.TOPIC, "other")}
    found = wire.ask(asked, 9)
    assert found.cluster_authorized_operations == 0
    bits = {each.name: each.topic_authorized_operations for each in found.topics}
    assert bits == {"own": ALL_ON_TOPIC, "other": 1 << AclOperation.READ | 1 << AclOperation.DESCRIBE}
    authorizer.rules |= {(AclOperation.DESCRIBE, ResourceType.CLUSTER, "kafka-cluster")}
    assert wire.ask(asked, 9).cluster_authorized_operations == 1 << AclOperation.DESCRIBE


def test_without_an_authorizer_all_operations_are_told(store: Store) -> None:
    asked = m.MetadataRequest(
        topics=None, include_topic_authorized_operations=True, include_cluster_authorized_operations=True
    )
    with serve(store, "127.0.0.1:0") as broker, Wire(broker) as wire:
        found = wire.ask(asked, 9)
        assert found.cluster_authorized_operations == ALL_ON_CLUSTER
        assert {each.topic_authorized_operations for each in found.topics} == {ALL_ON_TOPIC}
