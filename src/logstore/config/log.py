"""Settings of one log, by Kafka's names.

Every field of `LogConfig` is a key of Kafka's topic configuration with its dots as underscores;
our own keys begin with ``logstore.``. A key has an effect (a field here), is accepted without effect
(`WITHOUT_EFFECT`), or is unknown. Unknown keys are refused; the error names each one and the nearest known key.
Ranges and defaults are those of Kafka 4.3's topic configuration reference, with two exceptions. The minimum of
``segment.bytes`` is the size of one batch (Kafka: one mebibyte), and ``retention.ms`` keeps records for ever
(Kafka: 7 days). No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from logstore.config.quantities import is_in_words
from logstore.config.schema import (
    Collector,
    Compression,
    Name,
    OneLevelConfig,
    Rule,
    boolean,
    defaults_of,
    duration,
    fields_of,
    key_of,
    names_of,
    nearest,
    number,
    ratio,
    size,
    sort_out,
    word,
)
from logstore.config.schema import Setting as Setting
from logstore.errors import InvalidRecordError, InvalidSettingError, InvalidTimestampError, UnknownSettingError
from logstore.records import BATCH_HEADER_BYTES, INT32_MAX, INT64_MAX, Ack, Codec, TimestampType

_FOREVER = INT64_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig(Compression, OneLevelConfig):
    """Settings of one log. Each field is Kafka's topic config of the same name.

    >>> LogConfig(segment_bytes=1 << 20).segment_bytes
    1048576
    >>> LogConfig.of({"log.flush.interval.messages": "1"}).flush_messages
    1
    >>> LogConfig.of({"log.retention.hours": 2, "segment.bytes": 4096}, segment_bytes=8192).changed()
    {'segment.bytes': 8192, 'retention.ms': 7200000}

    Raises:
        UnknownSettingError, InvalidSettingError: naming every key that is wrong.
    """

    # -- segments and indexes
    segment_bytes: int = size(1 << 30, BATCH_HEADER_BYTES, INT32_MAX)  #: roll before a segment grows past this
    segment_ms: int = duration(604_800_000, 1, _FOREVER)  #: roll a segment older than this
    segment_jitter_ms: int = duration(0, 0, _FOREVER)  #: largest random reduction of segment.ms
    segment_index_bytes: int = size(10 << 20, 4, INT32_MAX)  #: size of an index file; a full one rolls
    index_interval_bytes: int = size(4096, 0, INT32_MAX)  #: bytes of log between index entries
    preallocate: bool = boolean(False)  #: preallocate, overriding logstore.write.strategy

    # -- batches
    max_message_bytes: int = size(1_048_588, 0, INT32_MAX)  #: the largest batch
    message_timestamp_type: str = word("createtime", "createtime", "logappendtime")
    message_timestamp_before_max_ms: int = duration(_FOREVER, 0, _FOREVER)
    message_timestamp_after_max_ms: int = duration(3_600_000, 0, _FOREVER)
    compression_type: str = word("producer", "producer", "uncompressed", "none", "gzip", "snappy", "lz4", "zstd")
    compression_gzip_level: int = number(-1, -1, 9)
    compression_lz4_level: int = number(9, 1, 17)  #: 9 is Kafka's default and means the fast mode
    compression_zstd_level: int = number(3, -131_072, 22)
    min_insync_replicas: int = number(1, 1, INT32_MAX)

    # -- flushing
    flush_messages: int = number(_FOREVER, 1, _FOREVER)  #: fdatasync after this many records
    flush_ms: int = duration(_FOREVER, 0, _FOREVER)  #: fdatasync at least this often

    # -- retention and compaction
    cleanup_policy: str = word("delete", "delete", "compact", several=True)
    #: -1 keeps for ever. Kafka's default of 7 days applies with a ``server.properties`` (`StoreConfig.load`).
    retention_ms: int = duration(-1, -1, _FOREVER)
    retention_bytes: int = size(-1, -1, _FOREVER)  #: -1 keeps all
    delete_retention_ms: int = duration(86_400_000, 0, _FOREVER)
    min_cleanable_dirty_ratio: float = ratio(0.5, 0, 1)
    min_compaction_lag_ms: int = duration(0, 0, _FOREVER)
    max_compaction_lag_ms: int = duration(_FOREVER, 1, _FOREVER)

    # -- replication
    unclean_leader_election_enable: bool = boolean(False)

    # -- broker settings in Kafka
    producer_id_expiration_ms: int = duration(86_400_000, 1, INT32_MAX)

    # -- our own
    ack: str = word("written", "written", "synced", key="logstore.ack")  #: default of every append
    visible_after: str = word("append", "append", "flush", key="logstore.visible.after")
    tail: str = word("file", "file", "memory", key="logstore.tail")  #: memory keeps the tail until a flush
    tail_bytes: int = size(16 << 20, 1, INT32_MAX, key="logstore.tail.bytes")  #: flush a memory tail of this size
    write_strategy: str = word(
        "preallocate", "preallocate", "extend", "chunked", key="logstore.write.strategy"
    )  #: how a segment's file grows
    linger_ms: int = duration(5, 0, INT32_MAX, key="logstore.linger.ms")  #: of the buffered appender
    batch_bytes: int = size(65_536, 1, INT32_MAX, key="logstore.batch.bytes")  #: of the buffered appender
    #: The log is a replica: its node moves its high watermark and says whether clients may append.
    replicated: bool = boolean(False, key="logstore.replicated")
    offset_mode: str = word(
        "logical", "logical", "bytes", key="logstore.offset.mode"
    )  #: bytes: an offset is a position
    decompressed_max_bytes: int = size(64 << 20, 1, INT32_MAX, key="logstore.decompressed.max.bytes")

    def __post_init__(self) -> None:
        # super() would fail: `dataclass(slots=True)` creates a second class.
        OneLevelConfig.__post_init__(self)
        problems = {}
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            problems["min.compaction.lag.ms"] = (
                f"expected at most max.compaction.lag.ms={self.max_compaction_lag_ms}"
            )
        if self.compression_gzip_level == 0:
            problems["compression.gzip.level"] = "expected -1 or 1 to 9, found 0"
        if self.offset_mode == "bytes":
            if self.compacts:
                problems["cleanup.policy"] = (
                    "a log whose offsets are positions (logstore.offset.mode=bytes) cannot be compacted"
                )
            if self.codec not in (None, Codec.NONE):
                problems["compression.type"] = (
                    "a log whose offsets are positions (logstore.offset.mode=bytes) holds no compressed batches; "
                    "set uncompressed"
                )
            if self.tail == "memory":
                problems["logstore.tail"] = (
                    "a log whose offsets are positions (logstore.offset.mode=bytes) has no tail in memory; set file"
                )
        if self.replicated:
            if self.tail == "memory":
                problems["logstore.tail"] = "a replica has its records in the file (logstore.replicated); set file"
            if self.visible_after == "flush":
                problems["logstore.visible.after"] = (
                    "a replica's high watermark rises with the other replicas (logstore.replicated); set append"
                )
            if self.offset_mode == "bytes":
                problems["logstore.offset.mode"] = (
                    "a replica has logical offsets (logstore.replicated); set logical"
                )
        if problems:
            raise InvalidSettingError(problems)

    @classmethod
    def _names(cls) -> Mapping[str, Name]:
        return NAMES

    @classmethod
    def _take_other(cls, key: str, value: Setting, found: Collector) -> None:
        if key in WITHOUT_EFFECT:
            found.ignored.add(key)
        else:
            found.unknown[key] = nearest(key, _KNOWN, NAMES)

    # -- derived values

    @property
    def batch_limits(self) -> tuple[tuple[str, int], ...]:
        """The settings that limit a batch, each with its bytes."""
        return ("max.message.bytes", self.max_message_bytes), ("segment.bytes", self.segment_bytes)

    @property
    def batch_limit(self) -> int:
        """The largest batch in bytes."""
        return min(self.max_message_bytes, self.segment_bytes)

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
            # A compressed batch may have fewer bytes than records, so offsets could not be positions.
            return Codec.NONE if self.offset_mode == "bytes" else None
        word = "none" if self.compression_type == "uncompressed" else self.compression_type
        return Codec[word.upper()]

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy.split(",")

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy.split(",")


def check_timestamps(least_ms: int, most_ms: int, config: LogConfig, now_ms: int) -> None:
    """Compare the timestamps of an append with the bounds of the log.

    Raises:
        InvalidTimestampError: one is too far behind or ahead of the clock.
    """
    if now_ms - least_ms > config.message_timestamp_before_max_ms:
        raise InvalidTimestampError(
            f"timestamp {least_ms} is {now_ms - least_ms} ms old, message.timestamp.before.max.ms allows "
            f"{config.message_timestamp_before_max_ms}"
        )
    if most_ms - now_ms > config.message_timestamp_after_max_ms:
        raise InvalidTimestampError(
            f"timestamp {most_ms} is {most_ms - now_ms} ms in the future, message.timestamp.after.max.ms allows "
            f"{config.message_timestamp_after_max_ms}"
        )


def check_keys(null_keys: int, config: LogConfig) -> None:
    """Raise if records of a compacted log have no key: it keeps the newest record of each key.

    Raises:
        InvalidRecordError: a record has no key.
    """
    if null_keys and config.compacts:
        raise InvalidRecordError(
            f"{null_keys} records without key in a log with cleanup.policy=compact; give each a key"
        )


def canonical(settings: Mapping[str, Setting]) -> dict[str, str]:
    """Return settings by their dotted topic keys, as text, to be stored in a catalogue.

    Keys may be Kafka's topic or broker names or field names; those without effect here are kept.

    >>> canonical({"log.retention.hours": 1, "segment_bytes": "4KiB"})
    {'retention.ms': '3600000', 'segment.bytes': '4096'}

    Raises:
        UnknownSettingError, InvalidSettingError: as `LogConfig.of`.
    """
    parsed = LogConfig.of(settings)
    found = sort_out(settings, NAMES)
    # An earlier version or Kafka would not understand words such as 7d: they are stored as numbers.
    kept = {
        _KEYS[name]: getattr(parsed, name) if is_in_words(value) and RULES[name].unit else value
        for name, value in found.fields.items()
    } | {key: settings[key] for key in found.others}
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in kept.items()}


def canonical_keys(keys: Iterable[str]) -> list[str]:
    """Return the dotted topic keys of setting names; raises as `canonical` for unknown names."""
    names = list(keys)
    unknown = {
        name: nearest(name, _KNOWN, NAMES) for name in names if name not in NAMES and name not in WITHOUT_EFFECT
    }
    if unknown:
        raise UnknownSettingError(unknown)
    return [_KEYS[NAMES[name].field] if name in NAMES else name for name in names]


DEFAULTS = defaults_of(LogConfig)

_HOUR_MS = 3_600_000

#: Broker-wide name -> the topic's key, and the factor of its value. If several names of one setting are given, the
#: first of them here takes precedence (Kafka's `ServerTopicConfigSynonyms`).
_SYNONYMS: dict[str, tuple[str, int]] = {
    "log.segment.bytes": ("segment.bytes", 1),
    "log.roll.ms": ("segment.ms", 1),
    "log.roll.hours": ("segment.ms", _HOUR_MS),
    "log.roll.jitter.ms": ("segment.jitter.ms", 1),
    "log.roll.jitter.hours": ("segment.jitter.ms", _HOUR_MS),
    "log.index.size.max.bytes": ("segment.index.bytes", 1),
    "log.index.interval.bytes": ("index.interval.bytes", 1),
    "log.preallocate": ("preallocate", 1),
    "message.max.bytes": ("max.message.bytes", 1),
    "log.message.timestamp.type": ("message.timestamp.type", 1),
    "log.message.timestamp.before.max.ms": ("message.timestamp.before.max.ms", 1),
    "log.message.timestamp.after.max.ms": ("message.timestamp.after.max.ms", 1),
    "log.flush.interval.messages": ("flush.messages", 1),
    "log.flush.interval.ms": ("flush.ms", 1),
    "log.flush.scheduler.interval.ms": ("flush.ms", 1),
    "log.cleanup.policy": ("cleanup.policy", 1),
    "log.retention.ms": ("retention.ms", 1),
    "log.retention.minutes": ("retention.ms", 60_000),
    "log.retention.hours": ("retention.ms", _HOUR_MS),
    "log.retention.bytes": ("retention.bytes", 1),
    "log.cleaner.delete.retention.ms": ("delete.retention.ms", 1),
    "log.cleaner.min.cleanable.ratio": ("min.cleanable.dirty.ratio", 1),
    "log.cleaner.min.compaction.lag.ms": ("min.compaction.lag.ms", 1),
    "log.cleaner.max.compaction.lag.ms": ("max.compaction.lag.ms", 1),
}

#: Broker-wide name -> the topic's key, where both take the same value.
SYNONYMS: dict[str, str] = {synonym: key for synonym, (key, scale) in _SYNONYMS.items() if scale == 1}

#: Broker-wide name -> the topic's key, and the factor of its value, where that is not 1.
SCALED: dict[str, tuple[str, int]] = {name: to for name, to in _SYNONYMS.items() if to[1] != 1}

#: Keys of Kafka's topics that are accepted and change nothing in a log.
WITHOUT_EFFECT: frozenset[str] = frozenset(
    {
        # A segment is deleted at once; its readers keep its file open.
        "file.delete.delay.ms",
        "log.segment.delete.delay.ms",
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

_KEYS: dict[str, str] = {spec.name: key_of(spec) for spec in fields_of(LogConfig)}

#: The accepted values of each field.
RULES: dict[str, Rule] = {spec.name: spec.metadata["rule"] for spec in fields_of(LogConfig)}

#: All names of the settings of a log.
NAMES = names_of(LogConfig, _SYNONYMS)

#: Candidates to suggest for a misspelt key.
_KNOWN = (*DEFAULTS, *_SYNONYMS, *WITHOUT_EFFECT)
