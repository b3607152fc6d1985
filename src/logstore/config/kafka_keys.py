"""Kafka's settings as data: their keys, types, defaults and ranges.

``kafka_keys.json`` holds the keys of topics, brokers, producers and consumers from Kafka's own jars.
``meanings.toml`` describes the keys that are honoured here, for ``logstore config explain``. Each file is read
on first use; keys that are fields of a settings class are parsed without them. No key ever names code to load. Any
thread may use this module.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class KafkaKey(NamedTuple):
    """Kafka's definition of one key in one scope."""

    key: str
    scope: str  #: topic, broker, producer or consumer
    type: str
    default: str | None = None
    valid: str | None = None
    synonyms: Sequence[str] = ()  #: of a topic's key: the broker's keys for it; the first takes precedence
    required: bool = False
    internal: bool = False


#: Keys of earlier Kafka versions that old files still hold. They concern old formats and
#: protocols, or ZooKeeper, and change nothing here.
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

#: Prefixes of keys that contain a name chosen by the user.
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
    """Return the version of Kafka that the keys are from."""
    return str(_data()["version"])


@functools.cache
def keys(scope: str) -> Mapping[str, KafkaKey]:
    """Return Kafka's keys of one scope: ``topic``, ``broker``, ``producer`` or ``consumer``."""
    return {key: KafkaKey(key, scope, **facts) for key, facts in _data()[scope].items()}


def is_kafkas(key: str, *scopes: str) -> bool:
    """Return whether Kafka has, or once had, a key in one of the scopes."""
    return key in REMOVED or key.startswith(PREFIXES) or any(key in keys(scope) for scope in scopes)


def package_toml(name: str) -> dict[str, Any]:
    """Return the content of a TOML file of this package."""
    import tomllib

    return tomllib.loads(_package_file(name))


@functools.cache
def meanings() -> Mapping[str, str]:
    """Return the effect of every honoured key in a sentence, by key."""
    return package_toml("meanings.toml")
