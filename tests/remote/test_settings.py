"""Kafka's client settings: what is honoured, what is only taken, what is refused; and Kafka's error codes."""

from __future__ import annotations

import logging
import pickle

import pytest

from logstore import errors
from logstore.config.client import ConsumerConfig, ProducerConfig
from logstore.config.remote import WireConfig
from logstore.errors import (
    BrokerError,
    InvalidSettingError,
    LogstoreError,
    UnknownSettingError,
)
from logstore.protocol import codes
from logstore.records import Codec, Isolation
from logstore.remote.client import Client


def test_settings_by_kafkas_names_and_by_keyword() -> None:
    config = WireConfig.of(
        {"bootstrap.servers": "a:1, b ,[::1]:3,PLAINTEXT://c:4", "isolation.level": "read_committed"},
        compression_type="zstd",
        compression_zstd_level=5,
    )
    assert config.addresses == [("a", 1), ("b", 9092), ("::1", 3), ("c", 4)]
    assert config.isolation is Isolation.READ_COMMITTED
    assert (config.codec, config.level) == (Codec.ZSTD, 5)
    assert WireConfig.of(config, client_id="x").addresses == config.addresses


def test_settings_without_effect_are_listed_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        WireConfig.of(
            {
                "key.deserializer": "ByteArrayDeserializer",
                "group.id": "g",
                "client.id": "c",
            }
        )
    (message,) = [record.getMessage() for record in caplog.records]
    assert message == "settings without effect here: group.id, key.deserializer"


def test_unknown_settings_are_named_with_the_nearest() -> None:
    with pytest.raises(UnknownSettingError) as caught:
        WireConfig.of({"fetch.max.wait": 1, "lingr.ms": 2, "request.timeout.ms": 0})
    assert set(caught.value.problems) == {"fetch.max.wait", "lingr.ms", "request.timeout.ms"}
    assert "the nearest name is fetch.max.wait.ms" in str(caught.value)
    assert "the nearest name is linger.ms" in str(caught.value)


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "sasl_ssl"])
def test_servers_may_name_the_protocol(protocol: str) -> None:
    config = WireConfig.of({"security.protocol": protocol, "bootstrap.servers": f"{protocol}://a:1,b:2"})
    assert config.addresses == [("a", 1), ("b", 2)]
    with pytest.raises(InvalidSettingError, match=f"is not for security.protocol={protocol.upper()}"):
        _ = config.replace(bootstrap_servers="PLAINTEXT://a:1").addresses


@pytest.mark.parametrize(
    "servers", ["", " , ", "a:b", "a:0", "a:65536", ":9092", "a:1:2", "SSL://a:1", "[::1", "[::1]x", "a:-1"]
)
def test_servers_that_are_none_are_named(servers: str) -> None:
    with pytest.raises(InvalidSettingError, match=r"bootstrap\.servers.*host:port"):
        Client(servers)


def test_more_in_flight_than_a_broker_remembers_is_refused() -> None:
    with pytest.raises(InvalidSettingError, match=r"at most 5 with enable\.idempotence"):
        WireConfig(max_in_flight_requests_per_connection=6)
    WireConfig(max_in_flight_requests_per_connection=6, enable_idempotence=False)


def test_the_other_clients_settings_are_as_they_were() -> None:
    assert ProducerConfig.of({"acks": "-1"}).acks == "all"
    with pytest.raises(UnknownSettingError, match=r"the nearest name is group\.id"):
        ConsumerConfig.of({"group.ids": "a"})


# --- error codes ---------------------------------------------------------------------------------


def test_every_code_has_a_name_and_an_error() -> None:
    assert codes.name_of(0) == "NONE"
    assert codes.name_of(133) == "SHARE_SESSION_LIMIT_REACHED"
    assert codes.name_of(-1) == "UNKNOWN_SERVER_ERROR"
    assert codes.name_of(9999) == "ERROR_9999"
    for number, code in codes.CODES.items():
        error = codes.error_of(number, "a fetch", "as it said")
        assert isinstance(error, LogstoreError)
        assert str(error).startswith(f"a fetch: {code.name} ({number}): as it said")
        assert error.retriable == code.retriable
    assert codes.is_retriable(6)
    assert not codes.is_retriable(9999)


def test_codes_that_callers_act_upon_have_their_classes() -> None:
    for number, cls in {
        1: errors.OffsetOutOfRangeError,
        3: errors.UnknownTopicError,
        10: errors.RecordTooLargeError,
        36: errors.TopicExistsError,
        47: errors.ProducerFencedError,
    }.items():
        assert type(codes.error_of(number, "x")) is cls


def test_a_brokers_error_crosses_processes() -> None:
    error = pickle.loads(pickle.dumps(codes.error_of(29, "fetch")))
    assert isinstance(error, BrokerError)
    assert (error.code, error.name, error.retriable) == (29, "TOPIC_AUTHORIZATION_FAILED", False)
    assert "ACLs" in str(error)
