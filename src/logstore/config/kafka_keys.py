"""Kafka's settings as data: which keys exist, their types, defaults and ranges.

``kafka_keys.json`` holds what Kafka's own jars say of the keys of topics, brokers, producers and
consumers; ``meanings.toml`` says in our words what the keys do that are honoured here. Both are read
when they are first asked for: when a key is met that no class of settings knows, and by
``logstore config``. No key ever names code to load. Any thread may use it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple


class KafkaKey(NamedTuple):
    """What Kafka says of one key in one scope."""

    key: str
    scope: str  #: topic, broker, producer or consumer
    type: str
    default: str | None
    valid: str | None
    synonyms: tuple[str, ...]  #: of a topic's key: the broker's keys behind it, first wins
    required: bool
    internal: bool


#: Keys of earlier Kafka versions that old files still hold. They had to do with old formats and
#: protocols, or with ZooKeeper, and change nothing here.
REMOVED = frozenset(
    {
        "broker.id.generation.enable",
        "control.plane.listener.name",
        "controlled.shutdown.max.retries",
        "controlled.shutdown.retry.backoff.ms",
        "inter.broker.protocol.version",
        "leader.imbalance.per.broker.percentage",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "log.message.timestamp.difference.max.ms",
        "message.downconversion.enable",
        "message.format.version",
        "offsets.commit.required.acks",
        "password.encoder.secret",
        "reserved.broker.max.id",
        "zookeeper.clientCnxnSocket",
        "zookeeper.connect",
        "zookeeper.connection.timeout.ms",
        "zookeeper.max.in.flight.requests",
        "zookeeper.metadata.migration.enable",
        "zookeeper.session.timeout.ms",
        "zookeeper.set.acl",
    }
)

#: Families whose keys carry a name of the user's.
PREFIXES = ("listener.name.", "rlmm.config.", "rsm.config.", "sasl.oauthbearer.", "zookeeper.ssl.")


def _package_file(name: str) -> str:
    import pkgutil  # finds it in a zipped package, too

    data = pkgutil.get_data(__package__, name)
    assert data is not None
    return data.decode()


@functools.cache
def _data() -> dict[str, Any]:
    import json  # not when the package is imported

    found: dict[str, Any] = json.loads(_package_file("kafka_keys.json"))
    return found


def version() -> str:
    """The version of Kafka whose keys these are."""
    return str(_data()["version"])


@functools.cache
def keys(scope: str) -> Mapping[str, KafkaKey]:
    """Kafka's keys of one scope: ``topic``, ``broker``, ``producer`` or ``consumer``."""
    return {
        key: KafkaKey(
            key,
            scope,
            facts["type"],
            facts.get("default"),
            facts.get("valid"),
            tuple(facts.get("synonyms", ())),
            facts.get("required", False),
            facts.get("internal", False),
        )
        for key, facts in _data()[scope].items()
    }


def is_kafkas(key: str, *scopes: str) -> bool:
    """Whether Kafka knows, or once knew, a key in one of the scopes."""
    return key in REMOVED or key.startswith(PREFIXES) or any(key in keys(scope) for scope in scopes)


@functools.cache
def meanings() -> Mapping[str, str]:
    """Key -> what it does here, in a sentence; of every key that is honoured."""
    import tomllib

    found = tomllib.loads(_package_file("meanings.toml"))
    return {key: str(meaning) for key, meaning in found.items()}
