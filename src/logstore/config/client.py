"""Settings of an embedded producer and an embedded consumer, by Kafka's names.

Fields are the keys that apply without a network. Kafka's other client keys that only tune (connections, buffers,
timeouts of a group) are accepted without effect and named in one log line. Keys for unsupported features are
refused, unless their value is Kafka's default or describes what logstore does. These features are transactions,
encryption, serializers and interceptors named by class, and partitions assigned by a group. No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, Self

from logstore.config import kafka_keys
from logstore.config.schema import (
    Collector,
    Compression,
    OneLevelConfig,
    Refusal,
    Rule,
    Setting,
    Value,
    boolean,
    defaults_of,
    duration,
    nearest,
    number,
    setting,
    size,
    text,
    word,
)
from logstore.errors import InvalidSettingError
from logstore.records import INT32_MAX, INT64_MAX, Ack, Codec, Isolation

_KAFKAS = "org.apache.kafka.clients.producer."

_NO_JAVA = "no class of Java is loaded here; leave it out, and {}"
_NO_NETWORK = (
    "the store is a directory of this process, and nothing goes over a network; leave it out, and protect the "
    "directory by its permissions"
)
_NO_MEMBERS = "a group assigns no partitions here; leave it out, and give each consumer its partitions by assign()"
_NO_TRANSACTIONS = (
    "transactions are not there yet; leave it out. logstore.DatabaseOffsets stores offsets together with the "
    "effects of records, and enable.idempotence drops repeated batches"
)

#: Refused keys of producers and consumers, with or without a network.
CODE = (
    Refusal("interceptor.classes", _NO_JAVA.format("do their work where records are sent or read")),
    Refusal("config.providers", _NO_JAVA.format("give each value itself instead of a ${...} variable")),
)
_SECURITY = (
    Refusal("security.protocol", _NO_NETWORK, ("PLAINTEXT",)),
    Refusal("security.providers", _NO_NETWORK),
    Refusal("sasl.", _NO_NETWORK),
    Refusal("ssl.", _NO_NETWORK),
)
_BYTES_OUT = ("ByteArraySerializer", "BytesSerializer", "ByteBufferSerializer")
_BYTES_IN = ("ByteArrayDeserializer", "BytesDeserializer", "ByteBufferDeserializer")
PRODUCER_PROMISES = (
    Refusal("transactional.id", _NO_TRANSACTIONS),
    Refusal("transaction.two.phase.commit.enable", _NO_TRANSACTIONS),
    Refusal("key.serializer", _NO_JAVA.format("send bytes, such as text.encode()"), _BYTES_OUT),
    Refusal("value.serializer", _NO_JAVA.format("send bytes, such as text.encode()"), _BYTES_OUT),
)
CONSUMER_PROMISES = (
    Refusal("key.deserializer", _NO_JAVA.format("decode record.key, such as by bytes.decode"), _BYTES_IN),
    Refusal("value.deserializer", _NO_JAVA.format("decode record.value, such as by bytes.decode"), _BYTES_IN),
)
NO_SHARES = (
    Refusal("share.acknowledgement.mode", _NO_MEMBERS),
    Refusal("share.acquire.mode", _NO_MEMBERS),
)
_MEMBERSHIP = (
    Refusal("group.instance.id", _NO_MEMBERS),
    Refusal("group.protocol", _NO_MEMBERS),
    Refusal("group.remote.assignor", _NO_MEMBERS),
    Refusal("partition.assignment.strategy", _NO_MEMBERS),
    *NO_SHARES,
)


class ClientConfig(OneLevelConfig):
    """Base of client settings."""

    __slots__ = ()

    #: Kafka's clients whose keys are accepted, even without effect here.
    SCOPES: ClassVar[tuple[str, ...]] = ()
    #: Keys among them that ask for unsupported features.
    REFUSED: ClassVar[tuple[Refusal, ...]] = ()

    @classmethod
    def _take_other(cls, key: str, value: Setting, found: Collector) -> None:
        scopes = cls.SCOPES
        if not (kafka_keys.is_kafkas(key, *scopes) or kafka_keys.is_kafkas(key.replace("_", "."), *scopes)):
            kafkas = (name for scope in scopes for name in kafka_keys.keys(scope))
            names = cls._names()
            found.unknown[key] = nearest(key, [*names, *kafkas], names)
        elif (problem := cls.refusal(key, value)) is not None:
            found.problems[key] = problem
        else:
            found.ignored.add(key)

    @classmethod
    def refusal(cls, key: str, value: Setting) -> str | None:
        """Return what to do instead of setting a key of Kafka that is not ours; None if it is accepted."""
        dotted = key if "." in key else key.replace("_", ".")
        facts: kafka_keys.KafkaKey | None = None
        for scope in cls.SCOPES:
            facts = facts or kafka_keys.keys(scope).get(dotted)
        default = None if facts is None else facts.default
        for each in cls.REFUSED:
            if each.refuses(dotted, value, default):
                shown = "" if facts is not None and facts.type == "password" else f" (found {value})"
                return each.instead + shown
        return None


class ProducerCompression(Compression):
    """Part of a producer's settings: the codec of its batches and its level."""

    __slots__ = ()

    compression_type: str

    @property
    def codec(self) -> Codec:
        return Codec["NONE" if self.compression_type == "uncompressed" else self.compression_type.upper()]

    @property
    def level(self) -> int:
        """The compression level of the codec; 0 for codecs without levels."""
        return self.level_of(self.codec)


class _Numbering(Protocol):
    @property
    def acks(self) -> str: ...
    @property
    def enable_idempotence(self) -> bool: ...
    @property
    def retries(self) -> int: ...


def check_idempotence(config: _Numbering, given: Collection[str]) -> None:
    """Refuse ``enable.idempotence`` that was asked for and cannot be; by default it is only off then, as in Kafka.

    Raises:
        InvalidSettingError: it is among the fields that were given, with acks or retries that do not go with it.
    """
    if not config.enable_idempotence or "enable_idempotence" not in given:
        return
    problems = {}
    if config.acks != "all":
        problems["acks"] = f"expected all with enable.idempotence=true, found {config.acks}"
    if not config.retries:
        problems["retries"] = "expected more than 0 with enable.idempotence=true, found 0"
    if problems:
        raise InvalidSettingError(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ProducerCompression, ClientConfig):
    """Settings of one producer. Each field is Kafka's producer config of the same name.

    >>> ProducerConfig.of({"batch.size": 65_536, "acks": "-1"}, linger_ms=20).acks
    'all'
    """

    SCOPES: ClassVar[tuple[str, ...]] = ("producer",)
    REFUSED: ClassVar[tuple[Refusal, ...]] = (*CODE, *_SECURITY, *PRODUCER_PROMISES)

    # -- batches
    batch_size: int = size(16_384, 0, INT32_MAX)  #: bytes; 0 sends each record in a batch of its own
    linger_ms: int = duration(5, 0, INT64_MAX)  #: how long a batch waits for more
    compression_type: str = word("none", "none", "uncompressed", "gzip", "snappy", "lz4", "zstd")
    compression_gzip_level: int = number(-1, -1, 9)
    compression_lz4_level: int = number(9, 1, 17)  #: 9 is Kafka's default and means the fast mode
    compression_zstd_level: int = number(3, -131_072, 22)
    max_request_size: int = size(1_048_576, 0, INT32_MAX)  #: the largest record, in bytes

    # -- back-pressure
    buffer_memory: int = size(33_554_432, 0, INT64_MAX)  #: bytes that wait to be written
    max_block_ms: int = duration(60_000, 0, INT64_MAX)  #: how long `send` waits for space

    # -- delivery
    acks: str = setting("all", Rule(words=("all", "1", "0"), aliases=(("-1", "all"),)))
    ack: str = word("topic", "topic", "written", "synced", key="logstore.ack")  #: topic: the topic's setting
    enable_idempotence: bool = boolean(True)
    delivery_timeout_ms: int = duration(120_000, 0, INT32_MAX)  #: until a record that cannot be written fails
    retries: int = number(INT32_MAX, 0, INT32_MAX)  #: after retriable errors, such as a full disk
    retry_backoff_ms: int = duration(100, 0, INT64_MAX)

    # -- partitioning
    partitioner_class: str = setting(
        "default",
        Rule(
            words=("default", "murmur2", "sticky", "roundrobin", "random"),
            aliases=(
                (_KAFKAS + "RoundRobinPartitioner", "roundrobin"),
                (_KAFKAS + "UniformStickyPartitioner", "sticky"),
                (_KAFKAS + "internals.DefaultPartitioner", "default"),
            ),
        ),
    )  #: default: by key, and without a key to one partition until a batch is full
    partitioner_ignore_keys: bool = boolean(False)

    def _check_given(self, given: Collection[str]) -> None:
        check_idempotence(self, given)

    @property
    def default_ack(self) -> Ack | None:
        """The ack of each append; None: the topic's ``logstore.ack``."""
        return None if self.ack == "topic" else Ack(self.ack)

    @property
    def is_idempotent(self) -> bool:
        """Whether batches have sequences; ``acks`` 0 or 1, or ``retries`` 0, turn that off."""
        return bool(self.enable_idempotence and self.acks == "all" and self.retries)


#: ``by_duration:P1DT2H``: that long ago, parsed as Java's `Duration.parse`, which counts days as 24 hours.
_DURATION = re.compile(
    r"by_duration:P(?=[\dT])(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """Settings of one consumer. Each field is Kafka's consumer config of the same name.

    >>> ConsumerConfig.of({"group.id": "billing", "auto.offset.reset": "earliest"}).group_id
    'billing'
    """

    SCOPES: ClassVar[tuple[str, ...]] = ("consumer",)
    REFUSED: ClassVar[tuple[Refusal, ...]] = (*CODE, *_SECURITY, *CONSUMER_PROMISES, *_MEMBERSHIP)

    group_id: str = text("")  #: empty: no committed offsets
    auto_offset_reset: str = setting(
        "latest", Rule(words=("latest", "earliest", "none"), pattern=f"(?i:{_DURATION.pattern})")
    )  #: where to begin without a committed offset, or with a deleted one
    enable_auto_commit: bool = boolean(True)
    auto_commit_interval_ms: int = duration(5_000, 0, INT32_MAX)
    max_poll_records: int = number(500, 1, INT32_MAX)
    fetch_max_bytes: int = size(52_428_800, 0, INT32_MAX)  #: read ahead, all partitions together
    max_partition_fetch_bytes: int = size(1_048_576, 0, INT32_MAX)
    isolation_level: str = word("read_uncommitted", "read_uncommitted", "read_committed")
    #: The fields that were given: the settings of a connection do not hold for these, also where one is a default.
    _given: frozenset[str] = field(init=False, repr=False, compare=False)

    def __new__(cls, **fields: object) -> Self:
        # super() would fail: `dataclass(slots=True)` creates a second class.
        made = object.__new__(cls)
        object.__setattr__(made, "_given", frozenset(fields))
        return made

    def _said(self) -> dict[str, Value]:
        changed = self.changed()
        return {key: value for key, value in self.items() if key in changed or key.replace(".", "_") in self._given}

    @property
    def isolation(self) -> Isolation:
        return Isolation(self.isolation_level)

    @property
    def reset_age_ms(self) -> int | None:
        """The age at which ``auto.offset.reset=by_duration:…`` begins, else None."""
        found = _DURATION.fullmatch(self.auto_offset_reset)
        if found is None:
            return None
        days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
        return int(((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1_000)


#: Every key that a producer or a consumer honours, with its default.
DEFAULTS = {cls.SCOPES[0]: defaults_of(cls) for cls in (ProducerConfig, ConsumerConfig)}
