"""Settings as Kafka's DescribeConfigs tells them: value, source, synonyms, type, meaning and marks of every key.

A topic has the keys of `LogConfig` and Kafka's other keys of a topic, a broker those of `StoreConfig` and Kafka's
other keys of a broker. Kafka's key without effect here has Kafka's default, and its description says so. Pure
functions; any thread.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from logstore.config import kafka_keys
from logstore.config import log as log_config
from logstore.config.broker import SERVED_DEFAULTS
from logstore.config.kafka_keys import KafkaKey
from logstore.config.log import LogConfig
from logstore.config.schema import Rule, defaults_of, fields_of, key_of, keys_of
from logstore.config.secrets import Secret
from logstore.config.store import DEFAULTS, KAFKA_RETENTION_MS, ConfigLayer, StoreConfig
from logstore.records import INT32_MAX

#: Kafka's numbers for the source of a value.
OF_TOPIC = 1
STATIC_BROKER = 4
DEFAULT = 5

#: Kafka's numbers for the type of a key.
_TYPES = {
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}
_LIST = _TYPES["list"]
_PASSWORD = _TYPES["password"]

_WITHOUT_EFFECT = "A key of Kafka without effect here: any value is accepted, and Kafka's default is shown."


class SettingSynonym(NamedTuple):
    """A name by which the value of a setting is given, or would be."""

    name: str
    value: str | None
    source: int


class DescribedSetting(NamedTuple):
    """One setting of a topic or broker. A sensitive one has no value."""

    name: str
    value: str | None
    type: int
    documentation: str
    #: In falling precedence: the first of them is the source of the value.
    synonyms: tuple[SettingSynonym, ...]
    is_read_only: bool

    @property
    def source(self) -> int:
        return self.synonyms[0].source if self.synonyms else DEFAULT

    @property
    def is_sensitive(self) -> bool:
        return self.type == _PASSWORD


class _Key(NamedTuple):
    """What is known of a key without any value."""

    name: str
    type: int
    documentation: str
    words: Mapping[str, str]  #: words in small letters, as Kafka writes them
    default: str | None  #: of a key without effect
    broker_names: Sequence[str] = ()  #: of a topic's key: the broker's keys for it


def topic_keys() -> Mapping[str, _Key]:
    """Return every key that a topic may have."""
    return _keys("topic")


def is_list(name: str) -> bool:
    """Return whether a topic's key holds a list, which values are added to and taken from."""
    key = topic_keys().get(name)
    return key is not None and key.type == _LIST


def of_topic(
    own: Mapping[str, str],
    config: LogConfig,
    store: StoreConfig,
    names: Sequence[str] | None = None,
    *,
    recorded: Mapping[str, str],
) -> list[DescribedSetting]:
    """Describe the settings of a topic, of which ``own`` are its own and ``config`` are those in effect.

    ``recorded`` are the defaults of when the topic was made. Where one is in effect and is Kafka's, it is a default
    as Kafka tells it; any other that is not the store's is the topic's own. ``names`` chooses keys; a name that a
    topic does not have is left out.
    """
    effective, common = dict(config.items()), dict(store.log.items())
    defaults = defaults_of(LogConfig) | _kafkas_of(recorded)
    found = []
    for key in _chosen(topic_keys(), names):
        name = key.name
        synonyms = []
        if name in effective:
            value = _text(effective[name], key)
            is_kafkas = defaults[name] == effective[name] and name in recorded
            is_own = name in own or (effective[name] != common[name] and not is_kafkas)
            common_name = _broker_name_of(name)
            synonyms = [
                SettingSynonym(common_name, _shown(_text(each, key), key), source)
                for each, source in _values_of(
                    name, defaults[name] if is_kafkas else common[name], defaults[name], store
                )
                if source != DEFAULT or _has_default(common_name)
            ]
        else:
            value, is_own = own.get(name, key.default), name in own
            synonyms = [SettingSynonym(each, key.default, DEFAULT) for each in key.broker_names[:1]]
        if is_own:
            synonyms.insert(0, SettingSynonym(name, _shown(value, key), OF_TOPIC))
        found.append(_described(key, value, synonyms, is_read_only=False))
    return found


def of_broker(
    store: StoreConfig,
    facts: Mapping[str, str],
    names: Sequence[str] | None = None,
    *,
    recorded: Mapping[str, str] = MappingProxyType({}),
    served: Mapping[str, object] = MappingProxyType({}),
) -> list[DescribedSetting]:
    """Describe the settings of a broker. ``facts`` are values that the running broker has, whatever was configured.

    ``recorded`` are the defaults that the topics get which clients make; the store's own go before them. ``served``
    are the settings that have Kafka's default while the store is served, with their values.
    All are read-only: they are those that the store was opened with.
    """
    own = {key: getattr(store, name) for key, name in _fields_of_store().items()}
    defaults = defaults_of(LogConfig) | _kafkas_of(recorded)
    common = dict(store.log.items()) | _kafkas_of(recorded)
    found = []
    for key in _chosen(_keys("broker"), names):
        name = key.name
        if name in facts:
            value: str | None = facts[name]
            synonyms = [SettingSynonym(name, _shown(value, key), STATIC_BROKER)]
        elif name in own:
            now = served.get(name, own[name])
            default = (SERVED_DEFAULTS if name in served else DEFAULTS)[name]
            value = _text(now, key)
            synonyms = [
                SettingSynonym(name, _shown(_text(each, key), key), source)
                for each, source in _values_of(name, now, default, store)
            ]
        elif (topic_key := _topic_key_of(name)) is not None:
            to, scale = topic_key
            value = _scaled(common[to], scale, key)
            synonyms = [
                SettingSynonym(name, _shown(_scaled(each, scale, key), key), source)
                for each, source in _values_of(to, common[to], defaults[to], store)
                if source != DEFAULT or _has_default(name)
            ]
            if not synonyms:
                value = None  # as Kafka's ``log.retention.ms``: the hours have the default
        else:
            value = key.default
            synonyms = [] if value is None else [SettingSynonym(name, _shown(value, key), DEFAULT)]
        found.append(_described(key, value, synonyms, is_read_only=True))
    return found


def _described(
    key: _Key, value: str | None, synonyms: Sequence[SettingSynonym], *, is_read_only: bool
) -> DescribedSetting:
    return DescribedSetting(
        key.name, _shown(value, key), key.type, key.documentation, tuple(synonyms), is_read_only=is_read_only
    )


def _chosen(keys: Mapping[str, _Key], names: Sequence[str] | None) -> list[_Key]:
    return list(keys.values()) if names is None else [keys[name] for name in names if name in keys]


def _values_of(name: str, value: object, default: object, store: StoreConfig) -> list[tuple[object, int]]:
    """Return the value of a store's key with its source, if it was given, and the default."""
    is_given = store.source(name).origin is not ConfigLayer.DEFAULT or value != default
    return [*([(value, STATIC_BROKER)] if is_given else []), (default, DEFAULT)]


def _kafkas_of(recorded: Mapping[str, str]) -> dict[str, object]:
    """Return the recorded defaults that are Kafka's."""
    is_kafkas = recorded.get("retention.ms") == str(KAFKA_RETENTION_MS)
    return {"retention.ms": KAFKA_RETENTION_MS} if is_kafkas else {}


def _shown(value: str | None, key: _Key) -> str | None:
    return None if key.type == _PASSWORD else value


def _text(value: object, key: _Key) -> str | None:
    """Return a value as Kafka writes it."""
    if isinstance(value, Secret):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value).replace("e+", "E").upper()
    return key.words.get(str(value), str(value))


def _scaled(value: object, scale: int, key: _Key) -> str | None:
    """Return a value in a broker's unit, such as hours; None if it is no whole number of them."""
    if scale == 1 or not isinstance(value, int):
        return _text(value, key)
    if value < 0:
        return str(value)
    whole, rest = divmod(value, scale)
    return None if rest or whole > INT32_MAX else str(whole)


# --- the keys ----------------------------------------------------------------------------------


@functools.cache
def _keys(scope: str) -> Mapping[str, _Key]:
    """Return every key of a topic or a broker, sorted by name."""
    kafkas, meanings = kafka_keys.keys(scope), kafka_keys.meanings()
    honoured = dict(keys_of(LogConfig))
    if scope == "broker":
        names = {*log_config.SYNONYMS, *log_config.SCALED} | {name for name in honoured if name in kafkas}
        # Each of these names has a topic's key, which mypy cannot know.
        honoured = {name: honoured[_topic_key_of(name)[0]] for name in names}  # type: ignore[index]
        honoured |= keys_of(StoreConfig)
    found = {}
    for name in sorted({*kafkas, *honoured}):
        kafka = kafkas.get(name)
        if kafka is not None and kafka.internal:
            continue
        to = name if scope == "topic" else (_topic_key_of(name) or (name, 1))[0]
        meaning = meanings.get(name) or meanings.get(to) or _WITHOUT_EFFECT if name in honoured else _WITHOUT_EFFECT
        found[name] = _Key(
            name,
            _type_of(kafka, honoured.get(name)),
            meaning,
            _words_of(kafka),
            None if kafka is None else kafka.default,
            () if kafka is None else kafka.synonyms,
        )
    return found


def _type_of(kafka: KafkaKey | None, rule: Rule | None) -> int:
    if kafka is not None:
        return _TYPES.get(kafka.type, 0)
    assert rule is not None
    if rule.boolean:
        return _TYPES["boolean"]
    if rule.secret:
        return _PASSWORD
    if rule.several:
        return _LIST
    if rule.words or rule.text or rule.share:
        return _TYPES["string"]
    if isinstance(rule.most, float):
        return _TYPES["double"]
    return _TYPES["long" if rule.most is None or rule.most > INT32_MAX else "int"]


def _words_of(kafka: KafkaKey | None) -> Mapping[str, str]:
    """Return the words of a key by their small letters: settings are stored here without capitals."""
    if kafka is None or kafka.type != "string" or not kafka.valid:
        return {}
    return {word.lower(): word for word in re.findall(r"[A-Za-z]+", kafka.valid)}


def _topic_key_of(name: str) -> tuple[str, int] | None:
    """Return the topic's key of which a broker's key is the default, and the factor of its value; None: of none."""
    if name in log_config.SYNONYMS:
        return log_config.SYNONYMS[name], 1
    if name in log_config.SCALED:
        return log_config.SCALED[name]
    return (name, 1) if name in log_config.DEFAULTS else None


def _broker_name_of(name: str) -> str:
    """Return the broker's key for a topic's key: the one that Kafka prefers."""
    return next((synonym for synonym, key in log_config.SYNONYMS.items() if key == name), name)


def _has_default(name: str) -> bool:
    """Return whether a broker's key has a default: ``log.retention.hours`` has one, ``log.retention.ms`` has none.

    Kafka lists no synonym for one without.
    """
    kafka = kafka_keys.keys("broker").get(name)
    return kafka is None or kafka.default is not None


@functools.cache
def _fields_of_store() -> Mapping[str, str]:
    """Return the field of each key of a store that is no setting of its logs."""
    return {key_of(spec): spec.name for spec in fields_of(StoreConfig)}
