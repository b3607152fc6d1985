"""The settings of one log, by Kafka's names.

Every field of `LogConfig` is a key of Kafka's topic configuration with its dots as underscores;
our own keys begin with ``logstore.``. A key belongs to one of three classes: honoured (a field
here), Kafka's but without effect here (`WITHOUT_EFFECT`), or unknown, which is refused with all
wrong keys named and the nearest known one. Ranges and defaults are those of Kafka 4.3's topic
configuration reference except where a comment says otherwise. No I/O.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from logstore.errors import ConfigError, InvalidSettingError, UnknownSettingError
from logstore.records import Ack, Codec, TimestampType

_logger = logging.getLogger(__name__)

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

Setting = str | int | float | bool | None


class Rule(NamedTuple):
    """What a key accepts: a range of whole numbers, or one of some words."""

    least: int | float | None = None
    most: int | float | None = None
    words: tuple[str, ...] = ()
    several: bool = False  #: a comma-separated list of the words
    boolean: bool = False

    def parse(self, value: Setting) -> int | float | bool | str:
        """The value in its own type; ValueError says what is allowed."""
        if self.boolean:
            return self._boolean(value)
        if self.words:
            return self._words(value)
        return self._number(value)

    def _boolean(self, value: Setting) -> bool:
        if isinstance(value, bool):
            return value
        word = str(value).strip().lower()
        if word in ("true", "false"):
            return word == "true"
        raise ValueError(f"expected true or false, found {value!r}")

    def _words(self, value: Setting) -> str:
        word = str(value).strip().lower()
        parts = [part.strip() for part in word.split(",")] if self.several else [word]
        if not all(part in self.words for part in parts) or (self.several and not word):
            raise ValueError(f"expected one of {', '.join(self.words)}, found {value!r}")
        return ",".join(parts)

    def _number(self, value: Setting) -> int | float:
        floating = isinstance(self.most, float)
        try:
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise ValueError
            number: int | float
            if floating:
                number = float(value)
                if number != number:  # not a number, which no bound would stop
                    raise ValueError
            elif isinstance(value, float):
                number = int(value)
                if number != value:
                    raise ValueError
            else:
                number = int(value)
        except (ValueError, OverflowError):
            raise ValueError(f"expected a {'' if floating else 'whole '}number, found {value!r}") from None
        if (self.least is not None and number < self.least) or (self.most is not None and number > self.most):
            raise ValueError(f"expected {self.least} to {self.most}, found {value!r}")
        return number


def _number(default: int, least: int, most: int, key: str = "") -> Any:
    return field(default=default, metadata={"rule": Rule(least, most), "key": key})


def _float(default: float, least: float, most: float) -> Any:
    return field(default=default, metadata={"rule": Rule(float(least), float(most)), "key": ""})


def _word(default: str, *words: str, several: bool = False, key: str = "") -> Any:
    return field(default=default, metadata={"rule": Rule(words=words, several=several), "key": key})


def _boolean(default: bool) -> Any:
    return field(default=default, metadata={"rule": Rule(boolean=True), "key": ""})


_FOREVER = INT64_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Settings of one log. Each field is Kafka's topic config of the same name.

    >>> LogConfig(segment_bytes=1 << 20).segment_bytes
    1048576
    >>> LogConfig.of({"log.flush.interval.messages": "1"}).flush_messages
    1

    Raises:
        UnknownSettingError, InvalidSettingError: naming every key that is wrong.
    """

    # -- segments and their indexes
    segment_bytes: int = _number(1 << 30, 61, INT32_MAX)  #: roll before a segment grows past this
    segment_ms: int = _number(604_800_000, 1, _FOREVER)  #: roll a segment older than this
    segment_jitter_ms: int = _number(0, 0, _FOREVER)  #: taken off segment.ms at random, at most
    segment_index_bytes: int = _number(10 << 20, 4, INT32_MAX)  #: size of an index file; full rolls
    index_interval_bytes: int = _number(4096, 0, INT32_MAX)  #: bytes of log between index entries
    preallocate: bool = _boolean(False)  #: reserve room ahead, whatever logstore.write.strategy says
    file_delete_delay_ms: int = _number(60_000, 0, _FOREVER)

    # -- what may enter
    max_message_bytes: int = _number(1_048_588, 0, INT32_MAX)  #: the largest batch
    message_timestamp_type: str = _word("createtime", "createtime", "logappendtime")
    message_timestamp_before_max_ms: int = _number(_FOREVER, 0, _FOREVER)
    message_timestamp_after_max_ms: int = _number(3_600_000, 0, _FOREVER)
    compression_type: str = _word("producer", "producer", "uncompressed", "none", "gzip", "snappy", "lz4", "zstd")
    compression_gzip_level: int = _number(-1, -1, 9)
    compression_lz4_level: int = _number(9, 1, 17)  #: 9 is Kafka's default and means the fast mode
    compression_zstd_level: int = _number(3, -131_072, 22)
    min_insync_replicas: int = _number(1, 1, INT32_MAX)

    # -- flushing
    flush_messages: int = _number(_FOREVER, 1, _FOREVER)  #: fdatasync after this many records
    flush_ms: int = _number(_FOREVER, 0, _FOREVER)  #: fdatasync at least this often

    # -- retention and compaction
    cleanup_policy: str = _word("delete", "delete", "compact", several=True)
    retention_ms: int = _number(604_800_000, -1, _FOREVER)  #: -1 keeps for ever
    retention_bytes: int = _number(-1, -1, _FOREVER)  #: -1 keeps all
    delete_retention_ms: int = _number(86_400_000, 0, _FOREVER)
    min_cleanable_dirty_ratio: float = _float(0.5, 0, 1)
    min_compaction_lag_ms: int = _number(0, 0, _FOREVER)
    max_compaction_lag_ms: int = _number(_FOREVER, 1, _FOREVER)

    # -- replication
    unclean_leader_election_enable: bool = _boolean(False)

    # -- a broker's setting in Kafka, a log's here
    producer_id_expiration_ms: int = _number(86_400_000, 1, INT32_MAX)

    # -- our own
    ack: str = _word("written", "written", "synced", key="logstore.ack")  #: default of every append
    visible_after: str = _word("append", "append", "flush", key="logstore.visible.after")
    tail: str = _word("file", "file", "memory", key="logstore.tail")  #: memory keeps the tail until a flush
    tail_bytes: int = _number(16 << 20, 1, INT32_MAX, key="logstore.tail.bytes")  #: flush a memory tail at
    write_strategy: str = _word(
        "preallocate", "preallocate", "extend", "chunked", key="logstore.write.strategy"
    )  #: how a segment's file grows
    linger_ms: int = _number(5, 0, INT32_MAX, key="logstore.linger.ms")  #: of the buffered appender
    batch_bytes: int = _number(65_536, 1, INT32_MAX, key="logstore.batch.bytes")  #: of the buffered appender
    decompressed_max_bytes: int = _number(64 << 20, 1, INT32_MAX, key="logstore.decompressed.max.bytes")

    def __post_init__(self) -> None:
        problems = {}
        for spec in _fields():
            try:
                value = spec.metadata["rule"].parse(getattr(self, spec.name))
            except ValueError as error:
                problems[_key_of(spec)] = str(error)
            else:
                object.__setattr__(self, spec.name, value)
        if problems:
            raise InvalidSettingError(problems)

    @classmethod
    def of(cls, settings: Mapping[str, Setting] | LogConfig | None = None, /, **fields: Setting) -> LogConfig:
        """Settings from dotted keys (Kafka's topic or broker names) and fields by name.

        Kafka keys without effect here are accepted and logged once. ``fields`` win over
        ``settings``.

        >>> LogConfig.of({"segment.bytes": 4096}, retention_ms=-1).retention_ms
        -1

        Raises:
            UnknownSettingError: a key is unknown; all such keys are named, with the nearest known, and
                so is every value outside its range.
            InvalidSettingError: a value is outside its range; all such keys are named.
        """
        if isinstance(settings, LogConfig):
            settings = settings.changed()
        values: dict[str, Setting] = {}
        unknown: dict[str, str] = {}
        ignored = []
        for key, value in {**(settings or {}), **fields}.items():
            name = _NAMES.get(key)
            if name is not None:
                values[name] = value
            elif key in WITHOUT_EFFECT:
                ignored.append(key)
            else:
                unknown[key] = "unknown" + _nearest(key)
        if unknown:
            try:
                cls(**values)  # type: ignore[arg-type]  # __post_init__ parses every value
            except InvalidSettingError as error:
                unknown |= error.problems
            raise UnknownSettingError(unknown)
        if ignored:
            _logger.info("settings without effect here: %s", ", ".join(sorted(ignored)))
        return cls(**values)  # type: ignore[arg-type]  # __post_init__ parses every value

    def items(self) -> Iterator[tuple[str, int | float | bool | str]]:
        """Every key with its value, in the order of this page."""
        for spec in _fields():
            yield _key_of(spec), getattr(self, spec.name)

    def changed(self) -> dict[str, int | float | bool | str]:
        """The keys that differ from their defaults."""
        return {key: value for key, value in self.items() if value != DEFAULTS[key]}

    def replace(self, **fields: Setting) -> LogConfig:
        """A copy with some fields or keys changed; raises as `of` does."""
        return LogConfig.of({**self.changed(), **{_key_or_same(name): v for name, v in fields.items()}})

    # -- what the words mean

    @property
    def default_ack(self) -> Ack:
        return Ack(self.ack)

    @property
    def timestamp_type(self) -> TimestampType:
        return (
            TimestampType.LOG_APPEND_TIME
            if self.message_timestamp_type == "logappendtime"
            else TimestampType.CREATE_TIME
        )

    @property
    def codec(self) -> Codec | None:
        """The codec that the log imposes, or None to keep the producer's."""
        if self.compression_type == "producer":
            return None
        word = "none" if self.compression_type == "uncompressed" else self.compression_type
        return Codec[word.upper()]

    def level_of(self, codec: Codec) -> int:
        """The configured compression level of a codec; 0 for codecs without levels."""
        levels = {
            Codec.GZIP: self.compression_gzip_level,
            Codec.LZ4: self.compression_lz4_level,
            Codec.ZSTD: self.compression_zstd_level,
        }
        return levels.get(codec, 0)

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy.split(",")


def canonical(settings: Mapping[str, Setting]) -> dict[str, str]:
    """Settings by their dotted topic keys, as text: what a catalogue keeps.

    Keys may be Kafka's topic or broker names or field names; those without effect here are kept.

    >>> canonical({"log.retention.ms": 1000, "segment_bytes": 4096})
    {'retention.ms': '1000', 'segment.bytes': '4096'}

    Raises:
        UnknownSettingError, InvalidSettingError: as `LogConfig.of`.
    """
    LogConfig.of(settings)
    kept = {}
    for key, value in settings.items():
        name = _NAMES.get(key)
        text = str(value).lower() if isinstance(value, bool) else str(value)
        kept[key if name is None else _KEYS[name]] = text
    return kept


def canonical_keys(keys: Iterable[str]) -> list[str]:
    """The dotted topic keys behind names of settings; raises as `canonical` for those that are none."""
    names = list(keys)
    unknown = {
        name: "unknown" + _nearest(name) for name in names if name not in _NAMES and name not in WITHOUT_EFFECT
    }
    if unknown:
        raise UnknownSettingError(unknown)
    return [_KEYS.get(_NAMES.get(name, ""), name) for name in names]


def _fields() -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(LogConfig)


def _key_of(spec: dataclasses.Field[Any]) -> str:
    return str(spec.metadata["key"]) or spec.name.replace("_", ".")


def _key_or_same(name: str) -> str:
    return next((_key_of(spec) for spec in _fields() if spec.name == name), name)


DEFAULTS: dict[str, Any] = {_key_of(spec): spec.default for spec in _fields()}

#: Kafka's broker-wide names of the same settings (Kafka broker configuration reference).
SYNONYMS: dict[str, str] = {
    "log.segment.bytes": "segment.bytes",
    "log.roll.ms": "segment.ms",
    "log.roll.jitter.ms": "segment.jitter.ms",
    "log.index.size.max.bytes": "segment.index.bytes",
    "log.index.interval.bytes": "index.interval.bytes",
    "log.preallocate": "preallocate",
    "log.segment.delete.delay.ms": "file.delete.delay.ms",
    "message.max.bytes": "max.message.bytes",
    "log.message.timestamp.type": "message.timestamp.type",
    "log.message.timestamp.before.max.ms": "message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms": "message.timestamp.after.max.ms",
    "log.flush.interval.messages": "flush.messages",
    "log.flush.interval.ms": "flush.ms",
    "log.cleanup.policy": "cleanup.policy",
    "log.retention.ms": "retention.ms",
    "log.retention.bytes": "retention.bytes",
    "log.cleaner.delete.retention.ms": "delete.retention.ms",
    "log.cleaner.min.cleanable.ratio": "min.cleanable.dirty.ratio",
    "log.cleaner.min.compaction.lag.ms": "min.compaction.lag.ms",
    "log.cleaner.max.compaction.lag.ms": "max.compaction.lag.ms",
}

#: Keys of Kafka's topics that are accepted and change nothing in a log of ours.
WITHOUT_EFFECT: frozenset[str] = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "message.downconversion.enable",
        "message.format.version",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
    }
)

_KEYS: dict[str, str] = {spec.name: _key_of(spec) for spec in _fields()}
_NAMES: dict[str, str] = {spec.name: spec.name for spec in _fields()}
_NAMES |= {_key_of(spec): spec.name for spec in _fields()}
_NAMES |= {synonym: _NAMES[key] for synonym, key in SYNONYMS.items()}


def _nearest(key: str) -> str:
    import difflib  # only on the way to an error, and a share of the cost of `import logstore`

    near = difflib.get_close_matches(key, [*DEFAULTS, *SYNONYMS, *WITHOUT_EFFECT], n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else ""


__all__ = ["DEFAULTS", "SYNONYMS", "WITHOUT_EFFECT", "ConfigError", "LogConfig", "Rule"]
