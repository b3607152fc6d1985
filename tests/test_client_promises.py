"""Kafka's client settings: what would promise something that is not kept here is refused, the rest is taken."""

from __future__ import annotations

import logging

import pytest

import logstore
from logstore import ConsumerConfig, ProducerConfig
from logstore.config import kafka_keys
from logstore.config.remote import WireConfig
from logstore.errors import InvalidSettingError, UnknownSettingError

_CLASSES = "org.apache.kafka.common.serialization."

SECURITY = {
    "security.protocol": "SASL_SSL",
    "security.providers": "a.Provider",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": "PlainLoginModule required password=hush;",
    "sasl.oauthbearer.token.endpoint.url": "https://x",
    "ssl.truststore.location": "/etc/trust.jks",
    "ssl.protocol": "TLSv1.2",
}
CODE = {"interceptor.classes": "a.Interceptor", "config.providers": "file"}
PRODUCER = {
    "transactional.id": "t",
    "transaction.two.phase.commit.enable": "true",
    "key.serializer": _CLASSES + "StringSerializer",
    "value.serializer": "io.confluent.kafka.serializers.KafkaAvroSerializer",
}
DESERIALIZERS = {"key.deserializer": _CLASSES + "StringDeserializer", "value.deserializer": "a.AvroDeserializer"}
MEMBERSHIP = {
    "group.instance.id": "one",
    "group.protocol": "consumer",
    "group.remote.assignor": "uniform",
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
    "share.acknowledgement.mode": "explicit",
}
REFUSED = [
    *((ProducerConfig, each) for each in (SECURITY | CODE | PRODUCER).items()),
    *((ConsumerConfig, each) for each in (SECURITY | CODE | DESERIALIZERS | MEMBERSHIP).items()),
    *((WireConfig, each) for each in (CODE | PRODUCER | DESERIALIZERS).items()),
]


@pytest.mark.parametrize(("kind", "setting"), REFUSED, ids=lambda each: getattr(each, "__name__", str(each)[:40]))
def test_what_promises_something_that_is_not_kept_is_refused(kind, setting):
    key, value = setting
    for given in ({key: value}, {key.replace(".", "_"): value}):
        with pytest.raises(InvalidSettingError, match="leave it out") as raised:
            kind.of(given)
        assert list(raised.value.problems) == list(given)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize("kind", [ProducerConfig, ConsumerConfig])
def test_every_default_of_kafkas_may_be_given(kind):
    (scope,) = kind.SCOPES
    others = {
        key: facts.default
        for key, facts in kafka_keys.keys(scope).items()
        if key not in dict(kind().items()) and facts.default is not None
    }
    assert len(others) > 40
    kind.of(others)
    kind.of(dict.fromkeys(others))


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (ProducerConfig, {"security.protocol": "plaintext", "transactional.id": ""}),
        (
            ProducerConfig,
            {"value.serializer": _CLASSES + "ByteArraySerializer", "key.serializer": "BytesSerializer"},
        ),
        (ConsumerConfig, {"value.deserializer": _CLASSES + "ByteArrayDeserializer", "group.instance.id": ""}),
        (ConsumerConfig, {"allow.auto.create.topics": "false", "client.rack": "a", "check.crcs": "false"}),
        (WireConfig, {"security.protocol": "PLAINTEXT", "ssl.truststore.location": "/x", "group.instance.id": "g"}),
    ],
)
def test_a_value_that_asks_for_what_is_done_anyway_is_taken(kind, given):
    kind.of(given)


def test_what_only_tunes_is_taken_and_named_once(caplog):
    with caplog.at_level(logging.INFO, "logstore.config.client"):
        ConsumerConfig.of({"receive.buffer.bytes": 1, "metadata.max.age.ms": 5, "session.timeout.ms": 6_000})
    (record,) = caplog.records
    said = "settings without effect here: metadata.max.age.ms, receive.buffer.bytes, session.timeout.ms"
    assert record.getMessage() == said


def test_all_that_is_wrong_is_named_together():
    with pytest.raises(InvalidSettingError) as raised:
        ProducerConfig.of({"transactional.id": "t", "batch.size": -1})
    assert set(raised.value.problems) == {"transactional.id", "batch.size"}
    with pytest.raises(UnknownSettingError) as unknown:
        ProducerConfig.of({"transactional.id": "t", "batch.sise": 1})
    assert set(unknown.value.problems) == {"transactional.id", "batch.sise"}


def test_a_store_gives_no_client_that_breaks_a_promise(tmp_path):
    with logstore.open(tmp_path) as store:
        with pytest.raises(InvalidSettingError, match="transactions are not there yet"):
            store.producer({"transactional.id": "t"})
        with pytest.raises(InvalidSettingError, match="assign"):
            store.consumer(group="g", group_instance_id="one")
