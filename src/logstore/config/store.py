"""Settings of a store: defaults of all its logs, and settings of the store itself.

A `StoreConfig` is a `LogConfig`, the default of every topic, with those keys of Kafka's broker that a directory of
many logs can honour. Our own keys begin with ``logstore.``. Values come from arguments, the environment, a file,
and the defaults, in that order; `StoreConfig.source` returns the origin of a value. A key has an effect here, is a
key of Kafka without effect (accepted, and named in one log line), or is refused by name. A file is read only by
`StoreConfig.load`; there is no other I/O.
"""

from __future__ import annotations

import enum
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeVar

from logstore.config import broker as config_broker
from logstore.config import kafka_keys
from logstore.config import log as log_config
from logstore.config import text as config_text
from logstore.config.log import LogConfig
from logstore.config.quantities import is_in_words
from logstore.config.schema import (
    BYTES,
    MINUTES,
    BaseConfig,
    Collector,
    Refusal,
    Rule,
    Setting,
    Value,
    boolean,
    check_settings,
    defaults_of,
    duration,
    fields_of,
    key_of,
    names_of,
    nearest,
    number,
    setting,
    size,
    size_or_share,
    sort_out,
    text,
    word,
)
from logstore.errors import InvalidSettingError, StorageError
from logstore.paths import local_path
from logstore.records import BATCH_HEADER_BYTES, INT32_MAX, INT64_MAX

_logger = logging.getLogger(__name__)

#: Kafka's default of ``retention.ms``, for topics created with its ``server.properties``.
KAFKA_RETENTION_MS = 604_800_000

#: Settings that decide which records of a topic are deleted; stored with each topic when it is created.
KEEPING = ("cleanup.policy", "retention.bytes", "retention.ms")

MAX_FLOAT = 1.7976931348623157e308


COPIES = "there is one copy of each record, on this disk; keep others with Store.snapshot()"
PROTECTED_BY = (
    "users are not authenticated and nothing is encrypted, since nothing goes over a network; protect the "
    "directory by its permissions"
)
_NO_CLASS = "no class of Java is loaded here"

#: Kafka's keys for protections that a broker gives and a store does not: a warning names them.
UNKEPT = (
    Refusal("authorizer.class.name", PROTECTED_BY),
    Refusal("delegation.token.secret.key", PROTECTED_BY),
    Refusal("principal.builder.class", PROTECTED_BY),
    Refusal("sasl.", PROTECTED_BY),
    Refusal("security.inter.broker.protocol", PROTECTED_BY, ("PLAINTEXT",)),
    Refusal("security.providers", PROTECTED_BY),
    Refusal("ssl.", PROTECTED_BY, ("none",)),
    Refusal("alter.config.policy.class.name", _NO_CLASS),
    Refusal("client.quota.callback.class", _NO_CLASS),
    Refusal("config.providers", _NO_CLASS),
    Refusal("create.topic.policy.class.name", _NO_CLASS),
    Refusal("remote.log.storage.system.enable", COPIES, ("false",)),
    Refusal("remote.storage.enable", COPIES, ("false",)),
    *(
        Refusal(key, COPIES, ("1", "-1"))
        for key in (
            "offsets.topic.replication.factor",
            "share.coordinator.state.topic.min.isr",
            "share.coordinator.state.topic.replication.factor",
            "transaction.state.log.min.isr",
            "transaction.state.log.replication.factor",
        )
    ),
)
#: Keys that ask for copies by values above 1. They are fields: they will have an effect once logs are replicated.
UNKEPT_FIELDS = ("default.replication.factor", "min.insync.replicas")
LISTENERS = ("advertised.listeners", "listeners")
_PROTOCOLS = "listener.security.protocol.map"


def unkept(given: Mapping[str, Setting]) -> dict[str, str]:
    """Return the keys that ask for a protection which a store does not give, each with what applies instead."""
    found = {}
    is_replicated = str(given.get("logstore.replicated", "")).strip().lower() == "true"
    for key, value in given.items():
        for each in UNKEPT:
            if each.is_about(key):
                # Kafka's default number of copies is more than a store keeps: it needs the warning, too.
                facts = None if each.instead is COPIES else kafka_keys.keys("broker").get(key)
                if each.refuses(key, value, None if facts is None else facts.default):
                    found[key] = each.instead
        if is_replicated and key == "min.insync.replicas":
            continue
        if key in UNKEPT_FIELDS and str(value).strip() not in ("", "1"):
            found[key] = COPIES
        if key.startswith("listener.name.") and any(f".{what}." in key for what in ("sasl", "ssl")):
            found[key] = PROTECTED_BY
    protocols = dict(
        part.strip().upper().rpartition(":")[::2] for part in str(given.get(_PROTOCOLS) or "").split(",")
    )
    for key in LISTENERS:
        names = [part.strip().upper().partition(":")[0] for part in str(given.get(key) or "").split(",")]
        if any(protocols.get(name, name).startswith(("SSL", "SASL")) for name in names):
            found[key] = PROTECTED_BY
    return found


def warn_of_unkept(given: Mapping[str, Setting]) -> None:
    """Log one warning that names the keys found by `unkept`."""
    reasons: dict[str, list[str]] = {}
    for key, reason in sorted(unkept(given).items()):
        reasons.setdefault(reason, []).append(key)
    if reasons:
        _logger.warning(
            "settings that promise what is not kept here: %s",
            "; ".join(f"{', '.join(keys)} ({reason})" for reason, keys in reasons.items()),
        )


class ConfigLayer(enum.IntEnum):
    """Kind of source of a value; a greater one takes precedence."""

    DEFAULT = 0
    FILE = 1
    ENVIRONMENT = 2
    ARGUMENT = 3


class ConfigSource(NamedTuple):
    """Source of one value, and the name that it was given by."""

    origin: ConfigLayer = ConfigLayer.DEFAULT
    name: str = ""  #: the key, or the environment's variable
    path: str = ""  #: of the file

    def __str__(self) -> str:
        if self.origin is ConfigLayer.FILE:
            return f"file {self.path} ({self.name})"
        if self.origin is ConfigLayer.ENVIRONMENT:
            return f"environment {self.name}"
        return self.origin.name.lower() + (f" ({self.name})" if self.name else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig(BaseConfig):
    """Settings of one store. Each field is Kafka's broker config of the same name.

    >>> config = StoreConfig.of({"log.retention.hours": 1, "num.partitions": 4})
    >>> config.log.retention_ms, config.num_partitions
    (3600000, 4)
    """

    log: LogConfig = field(default_factory=LogConfig)  #: the default of every topic

    # -- topics
    num_partitions: int = number(1, 1, INT32_MAX)  #: of a topic created without a number of partitions
    default_replication_factor: int = number(1, 1, 32_767)  #: no effect yet; a warning names a value above 1
    # Kafka's default is true, which would create a topic for each misspelt name.
    auto_create_topics_enable: bool = boolean(False)
    delete_topic_enable: bool = boolean(True)

    # -- identity and directory
    node_id: int = number(0, 0, INT32_MAX)  #: Kafka has no default
    log_dirs: str = text("")  #: the store's directory where no path is given; only one

    # -- committed offsets
    offsets_topic_num_partitions: int = number(1, 1, INT32_MAX)  #: Kafka's default is 50; fixed at creation
    offsets_topic_segment_bytes: int = size(104_857_600, BATCH_HEADER_BYTES, INT32_MAX)
    offsets_retention_minutes: int = duration(10_080, 1, INT32_MAX, unit=MINUTES)
    offsets_retention_check_interval_ms: int = duration(600_000, 1, INT64_MAX)
    offset_metadata_max_bytes: int = size(4_096, 0, INT32_MAX)

    # -- maintenance
    log_retention_check_interval_ms: int = duration(300_000, 1, INT64_MAX)
    log_flush_offset_checkpoint_interval_ms: int = duration(60_000, 0, INT32_MAX)
    log_flush_start_offset_checkpoint_interval_ms: int = duration(60_000, 0, INT32_MAX)
    producer_id_expiration_check_interval_ms: int = duration(600_000, 1, INT32_MAX)
    log_cleaner_enable: bool = boolean(True)
    log_cleaner_threads: int = number(1, 0, INT32_MAX)
    log_cleaner_dedupe_buffer_size: int = size(134_217_728, 1, INT64_MAX)  #: bytes of the key map of a compaction
    log_cleaner_io_max_bytes_per_second: float = setting(MAX_FLOAT, Rule(0.0, MAX_FLOAT, unit=BYTES))
    log_cleaner_backoff_ms: int = duration(15_000, 0, INT64_MAX)

    # -- our own
    housekeeping: str = word(
        "thread", "thread", "manual", key="logstore.housekeeping"
    )  #: manual: `Store.housekeep`
    disk_budget: int | str = size_or_share(-1, "logstore.disk.budget")  #: size of all logs; -1 for no limit
    disk_reserve: int | str = size_or_share(0, "logstore.disk.reserve")  #: free space kept on the file system

    sources: Mapping[str, ConfigSource] = field(default_factory=dict, repr=False, compare=False)
    broker_file: str = field(
        default="", repr=False, compare=False
    )  #: path of the ``server.properties`` that was loaded

    # -- constructors

    @classmethod
    def of(cls, settings: Mapping[str, Setting] | Self | None = None, /, **fields: Setting) -> Self:
        """Make settings from dotted keys (Kafka's topic or broker names) and fields by name.

        ``fields`` take precedence over ``settings``. Kafka keys without effect here are accepted and named in one
        log line. A warning names those that ask for a protection (copies, encryption, users). The environment is
        not read; see `layered`.

        Raises:
            UnknownSettingError: a key is unknown; all such keys are named, with the nearest known key.
            InvalidSettingError: a value is outside its range; all such keys are named.
        """
        return cls.layered(settings, arguments=fields)

    @classmethod
    def layered(
        cls,
        settings: Mapping[str, Setting] | Self | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        arguments: Mapping[str, Setting] | None = None,
    ) -> Self:
        """Make settings from all sources: arguments take precedence over the environment, then the file.

        ``settings`` may be the result of `load`: then ``environ`` takes precedence over the file.

        >>> StoreConfig.layered({"retention.ms": 5}, environ={"LOGSTORE_RETENTION_MS": "6"}).log.retention_ms
        5

        Raises:
            UnknownSettingError, InvalidSettingError: as `of`.
        """
        check_settings(settings)
        build = _Builder()
        if isinstance(settings, StoreConfig):
            build.take_config(settings)
        elif settings is not None:
            build.take(settings, ConfigLayer.ARGUMENT)
        if environ is not None:
            build.take_environment(environ)
        build.take(arguments or {}, ConfigLayer.ARGUMENT)
        return build.config(cls)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Make settings from environment variables: ``LOGSTORE_RETENTION_MS`` is ``retention.ms``.

        The name is ``LOGSTORE_`` and a key in capitals with underscores for its dots. Our own keys have no
        second ``LOGSTORE_``. Variables in `config_text.NOT_SETTINGS` are skipped. A warning in the log names a
        variable that is not similar to any setting, such as an application's own ``LOGSTORE_HOME``.

        Raises:
            UnknownSettingError: a variable is similar to a setting, which is named.
            InvalidSettingError: as `of`, naming the variables.
        """
        return cls.layered(environ=environ)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load settings from a file: TOML, or an unchanged ``server.properties`` of Kafka.

        The format is chosen by the file's ending, else by its content. Retention from a ``server.properties``
        applies to topics created with it; if the file sets none, Kafka's default (7 days) applies to them. Such a
        file is read as Kafka reads it: for Kafka's keys, words such as ``7d`` are refused.

        Raises:
            StorageError: the file cannot be read.
            UnknownSettingError, InvalidSettingError: as `of`; or the file has neither format.
        """
        name = local_path(path)
        try:
            with open(name, "rb") as file:
                data = file.read()
        except OSError as error:
            raise StorageError(f"settings cannot be read: {error.strerror}", path=name) from error
        build = _Builder()
        build.broker_file = "" if config_text.is_toml(data, name) else name
        given = config_text.read_settings(data, name)
        if build.broker_file:
            build.found.problems |= _in_words(given)
        build.take(given, ConfigLayer.FILE, path=name)
        return build.config(cls)

    # -- values

    def items(self) -> Iterator[tuple[str, Value]]:
        """Yield every key with its value: those of a store, then those of its logs by their topic names."""
        yield from BaseConfig.items(self)
        yield from self.log.items()

    def said_of_logs(self) -> dict[str, Value]:
        """Return the settings given for all logs, by topic keys, without retention from a ``server.properties``.

        A store opened with such a file changes no existing topic.
        """
        said = self.log.changed() | {key: value for key, value in self.log.items() if key in self.sources}
        if not self.broker_file:
            return said
        overridden = {key for key in KEEPING if self.source(key).origin > ConfigLayer.FILE}
        return {key: value for key, value in said.items() if key not in KEEPING or key in overridden}

    def source(self, key: str) -> ConfigSource:
        """Return the source of the value of a key."""
        return self.sources.get(key, ConfigSource())

    def topic_config(self, settings: Mapping[str, Setting] | None = None) -> LogConfig:
        """Return the settings of a topic: these defaults and the topic's own settings.

        Raises:
            UnknownSettingError, InvalidSettingError: as `LogConfig.of`.
        """
        return self.log.replace(**settings) if settings else self.log

    def directory(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the directory of the store: ``path``, else ``log.dirs``.

        A ``log.dirs`` from an argument must agree with ``path``; ``path`` overrides one from a file or the
        environment.

        Raises:
            InvalidSettingError: neither is given, they disagree, or ``log.dirs`` names several.
            NotALogError: the path is empty, or a URL other than ``file:``.
        """
        named = [part.strip() for part in self.log_dirs.split(",") if part.strip()]
        if path is not None:
            given = local_path(path)
            differs = [part for part in named if local_path(part) != given]
            if differs and self.source("log.dirs").origin in (ConfigLayer.ARGUMENT, ConfigLayer.DEFAULT):
                raise InvalidSettingError({"log.dirs": f"names {self.log_dirs}, but the path given is {given}"})
            return given
        if len(named) != 1:
            what = (
                f"names {len(named)} directories, a store has one" if named else "is not set, and no path is given"
            )
            raise InvalidSettingError({"log.dirs": what})
        return local_path(named[0])

    def budget_bytes(self, total_bytes: int) -> int | None:
        """Return ``logstore.disk.budget`` in bytes on a file system of that size; None for no limit."""
        return _bytes_of(self.disk_budget, total_bytes)

    def reserve_bytes(self, total_bytes: int) -> int:
        """Return ``logstore.disk.reserve`` in bytes on a file system of that size."""
        return _bytes_of(self.disk_reserve, total_bytes) or 0


def _bytes_of(value: int | str, total_bytes: int) -> int | None:
    if isinstance(value, str):
        return int(total_bytes * float(value.removesuffix("%")) / 100)
    return None if value < 0 else value


def _in_words(given: Mapping[str, Setting]) -> dict[str, str]:
    """Return the keys of Kafka whose values are in words, which Kafka refuses."""
    problems = {}
    for key, value in given.items():
        rule = _RULES[_NAMES[key].field] if key in _NAMES else None
        if rule is not None and rule.unit and is_in_words(value) and not key.startswith("logstore."):
            problems[key] = (
                f"expected a number, found {value!r}: words are for TOML, variables and arguments; Kafka takes "
                "numbers only, and has to be able to read its server.properties"
            )
    return problems


#: Least similarity (of `difflib`) at which a variable counts as a misspelt setting.
_SLIP = 0.65


_S = TypeVar("_S", bound=StoreConfig)


class _Builder:
    """Collector of values, from the weakest source to the strongest, and of all their problems."""

    def __init__(self) -> None:
        self.found = Collector()  # of the store's own fields and those of its logs; their names differ
        self.sources: dict[str, ConfigSource] = {}
        self.foreign: list[str] = []  # variables that are not settings
        self.given: dict[str, Setting] = {}  # by Kafka's keys, as given here; not those of another config
        self.broker_file = ""

    def take_config(self, config: StoreConfig) -> None:
        self.broker_file = config.broker_file
        changed = config.changed()
        changed |= {key: value for key, value in config.items() if key in config.sources}
        if config.broker_file and "retention.ms" not in config.sources:
            del changed["retention.ms"]  # Kafka's default, which `config` gives again
        for key, value in changed.items():
            self.found.fields[_NAMES[key].field] = value
            self.sources[key] = config.sources.get(key, ConfigSource(ConfigLayer.ARGUMENT))

    def take_environment(self, environ: Mapping[str, str]) -> None:
        found = config_text.read_environment(environ)
        variables = {name: variable for name, (variable, _) in found.items()}
        self.take({name: value for name, (_, value) in found.items()}, ConfigLayer.ENVIRONMENT, variables=variables)

    def take(
        self,
        given: Mapping[str, Setting],
        origin: ConfigLayer,
        *,
        path: str = "",
        variables: Mapping[str, str] | None = None,
    ) -> None:
        shown = variables or {}
        found = sort_out(given, _NAMES)
        for name, value in found.fields.items():
            key, as_given = _KEYS[name], found.given_as[name]
            if self.sources.get(key, ConfigSource()).origin <= origin:
                self.found.fields[name] = self.given[key] = value
                self.sources[key] = ConfigSource(origin, shown.get(as_given, as_given), path)
        self.found.problems |= {shown.get(name, name): what for name, what in found.problems.items()}
        for key in found.others:
            self._take_other(key, shown.get(key, key), given[key], is_variable=variables is not None)

    def _take_other(self, key: str, shown: str, value: Setting, *, is_variable: bool) -> None:
        if key in _with_underscores() if is_variable else kafka_keys.is_kafkas(key, "topic", "broker"):
            if key not in config_broker.KEYS:  # those have an effect once the store is served
                self.found.ignored.add(shown)
            self.given[key.replace("_", ".") if is_variable else key] = value
            return
        if is_variable:
            # A misspelt setting that is ignored could make a store less durable.
            own = key.removeprefix("logstore_")
            said = nearest(own, [name for name in _NAMES if "." not in name], cutoff=_SLIP)
            head, mark, name = said.partition("the nearest name is ")
            if mark:
                self.found.unknown[shown] = f"{head}{mark}{config_text.PREFIX}{name.upper()}"
            else:
                self.foreign.append(shown)
        else:
            broker = [*kafka_keys.keys("broker"), *kafka_keys.keys("topic")]
            known = [name for name in _NAMES if "." in name or "_" in key] + broker
            self.found.unknown[shown] = nearest(key, known, _NAMES)

    def config(self, cls: type[_S]) -> _S:
        """Return the collected settings, or raise all problems in one error."""
        if self.broker_file:
            self.found.fields.setdefault("retention_ms", KAFKA_RETENTION_MS)
        logs = {name: value for name, value in self.found.fields.items() if name in log_config.RULES}
        own = {name: value for name, value in self.found.fields.items() if name not in logs}
        made: list[Any] = []
        for kind, fields in ((LogConfig, logs), (cls, own)):
            try:
                made.append(kind(**fields))
            except InvalidSettingError as error:
                for key, what in error.problems.items():
                    source = self.sources.get(key, ConfigSource())
                    self.found.problems.setdefault(source.name or key, what)
        self.found.check(__name__)
        if self.foreign:
            _logger.warning(
                "variables that are no settings have no effect: %s; what begins with %s sets a store's settings",
                ", ".join(sorted(self.foreign)),
                config_text.PREFIX,
            )
        warn_of_unkept(self.given)
        log, _ = made
        return cls(log=log, sources=self.sources, broker_file=self.broker_file, **own)


def _with_underscores() -> set[str]:
    """Return every key of Kafka's brokers and topics in the form used in a variable's name."""
    every = [*kafka_keys.keys("broker"), *kafka_keys.keys("topic"), *kafka_keys.REMOVED]
    return {key.replace(".", "_").lower() for key in every}


_SYNONYMS = {"broker.id": ("node.id", 1), "log.dir": ("log.dirs", 1)}
#: All names of the settings of a store and of its logs; key and accepted values of each field.
_NAMES = names_of(StoreConfig, _SYNONYMS) | log_config.NAMES
_KEYS = {spec.name: key_of(spec) for kind in (StoreConfig, LogConfig) for spec in fields_of(kind)}
_RULES: dict[str, Rule] = {spec.name: spec.metadata["rule"] for spec in fields_of(StoreConfig)} | log_config.RULES

#: Every key that a store honours, with its default.
DEFAULTS = defaults_of(StoreConfig)
