"""Requests that Kafka refuses for a reason that another one could hide: see `tests/interop/test_request_twins`."""

from __future__ import annotations

from typing import Any

import pytest

from logstore.protocol.generated import messages as m
from logstore.store import Store
from tests.broker.wire import Wire

INVALID_REQUEST, INVALID_TOPIC, TOPIC_EXISTS = 42, 17, 36


def test_a_topic_that_is_named_twice_is_not_deleted(store: Store, wire: Wire) -> None:
    D = m.DeleteTopicsRequest
    topic_id = store.create_topic("flights").id
    store.create_topic("other")

    def codes(*states: tuple[str | None, str]) -> list[tuple[str | None, str, int]]:
        topics = [D.DeleteTopicState(name=name, topic_id=each) for name, each in states]
        found: Any = wire.ask(D(topics=topics, timeout_ms=5_000), 6).responses
        return [(each.name, each.topic_id, each.error_code) for each in found]

    assert codes(("flights", ""), ("flights", "")) == [("flights", "", INVALID_REQUEST)]
    assert codes((None, topic_id), (None, topic_id)) == [(None, topic_id, INVALID_REQUEST)]
    other = store["other"].id
    assert codes((None, topic_id), ("flights", ""), ("other", "")) == [
        ("flights", topic_id, INVALID_REQUEST),
        ("other", other, 0),
    ]
    assert codes(("missing", ""), (None, "")) == [
        ("missing", "", 3),
        (None, "", INVALID_REQUEST),
    ]  # neither has an id
    assert store.topics() == ["flights"]
    found: Any = wire.ask(D(topic_names=["flights", "flights"], timeout_ms=5_000), 5).responses
    assert [each.error_code for each in found] == [INVALID_REQUEST]
    assert codes((None, topic_id)) == [("flights", topic_id, 0)]


def test_a_name_is_looked_at_before_replicas_and_settings(store: Store, wire: Wire) -> None:
    C = m.CreateTopicsRequest
    store.create_topic("flights")
    wrong = [C.CreatableTopicConfig(name="no.such.key", value="1")]
    new = [
        C.CreatableTopic(name="..", num_partitions=1, replication_factor=2),
        C.CreatableTopic(name="flights", num_partitions=1, replication_factor=1, configs=wrong),
    ]
    found: Any = wire.ask(C(topics=new, timeout_ms=5_000), 7).topics
    assert [each.error_code for each in found] == [INVALID_TOPIC, TOPIC_EXISTS]


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 3)])
def test_a_producer_id_without_its_epoch_is_refused(wire: Wire, producer_id: int, epoch: int) -> None:
    request = m.InitProducerIdRequest(transactional_id=None, producer_id=producer_id, producer_epoch=epoch)
    found: Any = wire.ask(request, 4)
    assert (found.error_code, found.producer_epoch) == (INVALID_REQUEST, -1)


def test_nothing_is_described_beside_a_resource_of_an_unknown_type(store: Store, wire: Wire) -> None:
    R = m.DescribeConfigsRequest
    store.create_topic("flights")
    resources = [R.DescribeConfigsResource(resource_type=each, resource_name="flights") for each in (2, 3)]
    found: Any = wire.ask(R(resources=resources), 4).results
    assert [(each.error_code, list(each.configs)) for each in found] == [(INVALID_REQUEST, [])] * 2


@pytest.mark.parametrize(("endpoint", "code"), [(2, 114), (3, 115)])
def test_an_endpoint_that_is_no_brokers_is_refused(wire: Wire, endpoint: int, code: int) -> None:
    found: Any = wire.ask(m.DescribeClusterRequest(endpoint_type=endpoint), 1)
    assert found.error_code == code
