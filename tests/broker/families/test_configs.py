"""Settings described and changed: of a topic, of the node, and of what has none."""

from __future__ import annotations

from typing import Any

import pytest

from logstore.broker import Broker
from logstore.broker.families.described import of_broker, of_topic
from logstore.config import kafka_keys
from logstore.config.log import DEFAULTS, LogConfig
from logstore.config.store import StoreConfig
from logstore.protocol.generated.messages import (
    AlterConfigsRequest,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    MetadataRequest,
)
from logstore.store import Store
from tests.broker.wire import Wire

TOPIC, NODE = 2, 4
OF_TOPIC, OF_NODE, DEFAULT = 1, 4, 5


def _describe(
    wire: Wire, kind: int, name: str, keys: list[str] | None = None, *, version: int = 4, everything: bool = True
) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=everything)
    if version >= 3:
        request.include_documentation = everything
    found: Any = wire.ask(request, version)
    (result,) = found.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def _settings(wire: Wire, kind: int, name: str, keys: list[str] | None = None) -> dict[str, Any]:
    result = _describe(wire, kind, name, keys)
    assert result.error_code == 0
    return {each.name: each for each in result.configs}


# --- described ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topic_has_every_key_in_every_version(store: Store, wire: Wire, version: int) -> None:
    store.create_topic("flights", retention_ms=1000)
    result = _describe(wire, TOPIC, "flights", version=version)
    found = {each.name: each for each in result.configs}
    kafkas = {key for key, facts in kafka_keys.keys("topic").items() if not facts.internal}
    assert set(found) == kafkas | set(DEFAULTS)
    assert not any(each.read_only or each.is_sensitive for each in found.values())
    kept = found["retention.ms"]
    assert (kept.value, kept.config_source) == ("1000", OF_TOPIC)
    assert [(each.name, each.value, each.source) for each in kept.synonyms] == [
        ("retention.ms", "1000", OF_TOPIC),
    ]
    assert [(each.name, each.value, each.source) for each in found["retention.bytes"].synonyms] == [
        ("log.retention.bytes", "-1", DEFAULT),
    ]
    assert (found["cleanup.policy"].value, found["cleanup.policy"].config_source) == ("delete", DEFAULT)
    assert found["message.timestamp.type"].value == "CreateTime"
    if version >= 3:
        assert (kept.config_type, found["cleanup.policy"].config_type, found["preallocate"].config_type) == (
            5,
            7,
            1,
        )
        assert all(each.documentation for each in found.values())


def test_the_node_has_every_key_of_a_broker_read_only(store: Store, wire: Wire) -> None:
    found = _settings(wire, NODE, "1")
    assert {key for key, facts in kafka_keys.keys("broker").items() if not facts.internal} <= set(found)
    assert all(each.read_only for each in found.values())
    values = {name: each.value for name, each in found.items()}
    assert (values["num.partitions"], values["default.replication.factor"]) == ("1", "1")
    assert (values["log.cleanup.policy"], values["min.insync.replicas"]) == ("delete", "1")
    # As Kafka tells them: what the topics get that clients make.
    assert (values["log.retention.ms"], values["log.retention.hours"]) == (None, "168")
    assert values["log.dirs"] == store._host.path
    assert values["advertised.listeners"] == "PLAINTEXT://{}:{}".format(*wire.socket.getpeername()[:2])
    assert (values["auto.create.topics.enable"], found["auto.create.topics.enable"].config_source) == (
        "true",
        OF_NODE,
    )
    assert {name for name, each in found.items() if each.is_sensitive} >= {"ssl.key.password", "sasl.jaas.config"}
    assert not any(each.value for each in found.values() if each.is_sensitive)


def test_what_the_store_was_given_is_the_nodes() -> None:
    config = StoreConfig.of({"log.retention.hours": 2, "segment.bytes": 5000})
    names = ["log.retention.hours", "log.retention.minutes", "log.retention.ms", "log.segment.bytes"]
    found = {each.name: (each.value, each.source) for each in of_broker(config, {}, names)}
    assert found == {
        "log.retention.hours": ("2", OF_NODE),
        "log.retention.minutes": ("120", OF_NODE),
        "log.retention.ms": ("7200000", OF_NODE),
        "log.segment.bytes": ("5000", OF_NODE),
    }
    names = ["retention.ms"]
    (kept,) = of_topic({}, config.log, config, names, recorded={"retention.ms": "604800000"})
    assert (kept.value, kept.source) == ("7200000", OF_NODE)
    # Recorded when the topic was made, and neither its own nor the store's.
    (kept,) = of_topic({}, config.log.replace(retention_ms=5), config, names, recorded={"retention.ms": "5"})
    assert (kept.value, kept.source) == ("5", OF_TOPIC)


def test_the_retention_that_a_client_has_not_chosen_is_a_default(store: Store, wire: Wire) -> None:
    """As with Kafka: else a tool that compares settings, such as Terraform, would want to remove it each time."""
    store.create_topic("kept")
    _create(wire, 7, name="made")
    _create(wire, 7, name="chosen", settings={"retention.ms": "604800000"})
    wire.ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="asked-for")]), 12)
    kept = {name: _settings(wire, TOPIC, name, ["retention.ms"])["retention.ms"] for name in store.topics()}
    assert {
        name: (each.value, each.config_source, [one.name for one in each.synonyms]) for name, each in kept.items()
    } == {
        "asked-for": ("604800000", DEFAULT, []),
        "chosen": ("604800000", OF_TOPIC, ["retention.ms"]),
        "kept": ("-1", DEFAULT, []),
        "made": ("604800000", DEFAULT, []),
    }
    assert store.describe_topic("made").settings == {}
    # What is reset has the default again.
    assert _alter(wire, ("retention.ms", 0, "5"), name="made") == (0, None)
    assert store["made"].config.retention_ms == 5
    assert _alter(wire, ("retention.ms", 1, None), name="made") == (0, None)
    assert store["made"].config.retention_ms == 604_800_000


def test_keys_that_are_named_are_described_alone(store: Store, wire: Wire) -> None:
    store.create_topic("flights")
    assert set(_settings(wire, TOPIC, "flights", ["retention.ms", "no.such.key"])) == {"retention.ms"}
    assert set(_settings(wire, NODE, "1", ["num.partitions"])) == {"num.partitions"}
    assert _settings(wire, TOPIC, "flights", []).keys() == _settings(wire, TOPIC, "flights", None).keys()
    told = _describe(wire, TOPIC, "flights", ["retention.ms"], everything=False).configs[0]
    assert (list(told.synonyms), told.documentation) == ([], None)


def test_a_resource_that_is_named_many_times_is_described_once(store: Store, wire: Wire) -> None:
    store.create_topic("flights")
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=TOPIC, resource_name="flights", configuration_keys=None
    )
    found: Any = wire.ask(DescribeConfigsRequest(resources=[resource] * 1000), 4)
    assert [each.resource_name for each in found.results] == ["flights"]


def test_the_default_of_all_brokers_has_no_setting(wire: Wire) -> None:
    assert _settings(wire, NODE, "") == {}


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "missing", 3),
        (TOPIC, "a/b", 17),
        (TOPIC, "", 17),
        (NODE, "2", 42),
        (NODE, "one", 42),
        (NODE, "1" * 5000, 42),
        (8, "1", 42),
        (16, "metrics", 42),
        (32, "group", 42),
        (0, "", 42),
    ],
)
def test_what_is_not_described_has_an_error_of_its_own(
    store: Store, wire: Wire, kind: int, name: str, code: int
) -> None:
    result = _describe(wire, kind, name)
    assert (result.error_code, list(result.configs)) == (code, [])


@pytest.mark.parametrize("version", range(2))
def test_resources_are_listed_by_their_types(store: Store, wire: Wire, version: int) -> None:
    store.create_topic("flights")
    found: Any = wire.ask(ListConfigResourcesRequest(), version)
    listed = [(each.resource_type, each.resource_name) for each in found.config_resources]
    assert (found.error_code, listed) == (0, [] if version == 0 else [(TOPIC, "flights"), (NODE, "1")])


def test_resources_of_some_types_are_listed_alone(store: Store, wire: Wire) -> None:
    found: Any = wire.ask(ListConfigResourcesRequest(resource_types=[NODE, 16]), 1)
    assert [each.resource_name for each in found.config_resources] == ["1"]
    found = wire.ask(ListConfigResourcesRequest(resource_types=[3]), 1)
    assert (found.error_code, list(found.config_resources)) == (35, [])


# --- changed -----------------------------------------------------------------------------------


def _alter(
    wire: Wire, *changes: tuple[str, int, str | None], name: str = "flights", kind: int = TOPIC, **fields: Any
) -> tuple[int, str | None]:
    version = fields.pop("version", 1)
    R = IncrementalAlterConfigsRequest
    configs = [R.AlterableConfig(name=key, config_operation=what, value=value) for key, what, value in changes]
    resource = R.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    found: Any = wire.ask(R(resources=[resource], **fields), version)
    (result,) = found.responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result.error_code, result.error_message


@pytest.mark.parametrize("version", range(2))
def test_settings_are_set_deleted_appended_and_subtracted(store: Store, wire: Wire, version: int) -> None:
    topic = store.create_topic("flights", retention_ms=1000)
    assert _alter(wire, ("retention.ms", 0, "2000"), ("segment.bytes", 0, "4096"), version=version) == (0, None)
    assert (topic.config.retention_ms, topic.config.segment_bytes) == (2000, 4096)
    assert _alter(wire, ("retention.ms", 1, None), version=version) == (0, None)
    assert topic.config.retention_ms == -1
    # The topic has no policy of its own: it is appended to the default.
    assert _alter(wire, ("cleanup.policy", 2, "compact,compact"), version=version) == (0, None)
    assert topic.config.cleanup_policy == "delete,compact"
    assert _alter(wire, ("cleanup.policy", 3, "delete,other"), version=version) == (0, None)
    assert topic.config.cleanup_policy == "compact"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        pytest.param([("retention.ms", 0, "soon")], 40, id="no number"),
        pytest.param([("retention.ms", 0, "5"), ("segment.bytes", 0, "1")], 40, id="one of two out of range"),
        pytest.param([("no.such.key", 0, "1")], 40, id="unknown key"),
        pytest.param([("log.retention.hours", 0, "1")], 40, id="the broker's name of a key"),
        pytest.param([("retention.ms", 2, "1")], 40, id="appended to a number"),
        pytest.param([("cleanup.policy", 3, "delete")], 40, id="nothing left"),
        pytest.param([("retention.ms", 4, "1")], 42, id="unknown operation"),
        pytest.param([("retention.ms", -1, "1")], 42, id="negative operation"),
        pytest.param([("retention.ms", 0, None)], 42, id="no value"),
        pytest.param([("retention.ms", 0, "1"), ("retention.ms", 0, "2")], 42, id="key twice"),
        pytest.param([("logstore.tail", 0, "memory")], 40, id="cannot change while the log is open"),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_a_refused_change_changes_nothing(
    store: Store, wire: Wire, changes: list[tuple[str, int, str | None]], code: int, validate_only: bool
) -> None:
    topic = store.create_topic("flights")
    topic.append(b"opens the log")
    found = _alter(wire, *changes, validate_only=validate_only)
    assert found[0] == code
    assert found[1]
    assert dict(store.describe_topic("flights").settings) == {}


def test_a_change_that_is_only_validated_changes_nothing(store: Store, wire: Wire) -> None:
    topic = store.create_topic("flights")
    assert _alter(wire, ("retention.ms", 0, "5"), validate_only=True) == (0, None)
    assert topic.config.retention_ms == -1


def test_compaction_is_refused_while_a_record_has_no_key(store: Store, wire: Wire) -> None:
    store.create_topic("flights").append(b"no key")
    assert _alter(wire, ("cleanup.policy", 0, "compact"))[0] == 44


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "missing", 3),
        (TOPIC, "a/b", 17),
        (TOPIC, "", 42),
        (NODE, "1", 42),
        (NODE, "", 42),
        (NODE, "2", 42),
        (32, "group", 42),
    ],
)
def test_what_is_not_changed_has_an_error_of_its_own(wire: Wire, kind: int, name: str, code: int) -> None:
    assert _alter(wire, ("retention.ms", 0, "5"), kind=kind, name=name)[0] == code


def test_each_resource_answers_for_itself_and_none_twice(store: Store, wire: Wire) -> None:
    R = IncrementalAlterConfigsRequest
    store.create_topic("flights")
    store.create_topic("twice")
    change = [R.AlterableConfig(name="retention.ms", config_operation=0, value="5")]
    resources = [
        R.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=change)
        for name in ("twice", "missing", "flights", "twice")
    ]
    found: Any = wire.ask(R(resources=resources), 1)
    assert [each.error_code for each in found.responses] == [42, 3, 0, 42]
    assert (store["flights"].config.retention_ms, store["twice"].config.retention_ms) == (5, -1)


def _change_between(
    store: Store, broker: Broker, monkeypatch: pytest.MonkeyPatch, *change: tuple[str, int, str | None]
) -> None:
    """Let another client make a change while that of the next request is looked at."""
    topics = store._host.topics_table
    check = topics.check_alter

    def check_after_another_change(*args: Any) -> LogConfig:
        monkeypatch.setattr(topics, "check_alter", check)
        with Wire(broker) as other:
            assert _alter(other, *change) == (0, None)
        return check(*args)

    monkeypatch.setattr(topics, "check_alter", check_after_another_change)


def test_an_append_adds_to_what_another_client_has_set_meanwhile(
    store: Store, broker: Broker, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = store.create_topic("flights")
    _change_between(store, broker, monkeypatch, ("cleanup.policy", 0, "compact"))
    assert _alter(wire, ("cleanup.policy", 2, "delete")) == (0, None)
    assert topic.config.cleanup_policy == "compact,delete"


def test_the_older_request_resets_what_another_client_has_set_meanwhile(
    store: Store, broker: Broker, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    R = AlterConfigsRequest
    store.create_topic("flights", segment_bytes=4096)
    _change_between(store, broker, monkeypatch, ("retention.ms", 0, "1000"))
    kept = R.AlterConfigsResource(
        resource_type=TOPIC, resource_name="flights", configs=[R.AlterableConfig(name="segment.ms", value="5")]
    )
    (found,) = wire.ask(R(resources=[kept]), 1).responses
    assert (found.error_code, dict(store.describe_topic("flights").settings)) == (0, {"segment.ms": "5"})


@pytest.mark.parametrize("version", range(3))
def test_the_older_request_replaces_all_settings_of_a_topic(store: Store, wire: Wire, version: int) -> None:
    R = AlterConfigsRequest
    store.create_topic("flights", retention_ms=1000, segment_bytes=4096)

    def alter(value: str | None, *, validate_only: bool = False) -> int:
        configs = [R.AlterableConfig(name="retention.ms", value=value)]
        resource = R.AlterConfigsResource(resource_type=TOPIC, resource_name="flights", configs=configs)
        found: Any = wire.ask(R(resources=[resource], validate_only=validate_only), version)
        return int(found.responses[0].error_code)

    assert alter("2000", validate_only=True) == 0
    assert dict(store.describe_topic("flights").settings) == {"retention.ms": "1000", "segment.bytes": "4096"}
    assert alter("2000") == 0
    assert dict(store.describe_topic("flights").settings) == {"retention.ms": "2000"}
    assert (alter(None), alter("soon")) == (42, 40)


# --- topics that are created -------------------------------------------------------------------


def _create(wire: Wire, version: int, *, validate_only: bool = False, **fields: Any) -> Any:
    R = CreateTopicsRequest
    settings = fields.pop("settings", {})
    configs = [R.CreatableTopicConfig(name=key, value=value) for key, value in settings.items()]
    topic = R.CreatableTopic(
        **{"name": "flights", "num_partitions": -1, "replication_factor": -1, "configs": configs} | fields
    )
    found: Any = wire.ask(R(topics=[topic], validate_only=validate_only), version)
    return found.topics[0]


@pytest.mark.parametrize("version", range(2, 8))
@pytest.mark.parametrize("validate_only", [False, True])
def test_a_created_topic_is_told_with_all_its_settings(
    store: Store, wire: Wire, version: int, validate_only: bool
) -> None:
    made = _create(wire, version, validate_only=validate_only, settings={"retention.ms": "5"})
    assert (made.error_code, made.error_message) == (0, None)
    assert ("flights" in store) is not validate_only
    if version >= 5:
        assert (made.num_partitions, made.replication_factor) == (1, 1)
        told = {each.name: (each.value, each.config_source) for each in made.configs}
        assert set(told) == {
            *DEFAULTS,
            *(key for key, facts in kafka_keys.keys("topic").items() if not facts.internal),
        }
        assert (told["retention.ms"], told["cleanup.policy"]) == (("5", OF_TOPIC), ("delete", DEFAULT))
    if version >= 7 and not validate_only:
        assert made.topic_id == store["flights"].id


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"num_partitions": 0}, 37),
        ({"num_partitions": -2}, 37),
        ({"replication_factor": 0}, 38),
        ({"replication_factor": 2}, 38),
        ({"name": "a/b"}, 17),
        ({"settings": {"retention.ms": "soon"}}, 40),
        ({"settings": {"retention.ms": None}}, 40),
        ({"settings": {"log.retention.hours": "1"}}, 40),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_a_topic_that_is_refused_is_not_created(
    store: Store, wire: Wire, fields: dict[str, Any], code: int, validate_only: bool
) -> None:
    assert _create(wire, 7, validate_only=validate_only, **fields).error_code == code
    assert store.topics() == []
