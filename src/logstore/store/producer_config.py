"""The settings of a producer, by the names of Kafka's producer configuration.

Three classes of keys, as for a log: honoured (a field here), Kafka's but without effect where a producer
writes into files of its own process (`WITHOUT_EFFECT`), or unknown, which is refused with all wrong ones
named. Defaults are those of Kafka 4.3 except where a comment says otherwise. No I/O.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from logstore.config import Rule, Setting
from logstore.errors import InvalidSettingError, UnknownSettingError
from logstore.records import Ack, Codec
from logstore.store.partitioners import Partitioner, partitioner_of

_logger = logging.getLogger(__name__)

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

_ACKS = {"0": "0", "1": "1", "-1": "all", "all": "all"}

_RULES: dict[str, Rule] = {
    "batch_size": Rule(0, INT32_MAX),
    "linger_ms": Rule(0, INT64_MAX),
    "buffer_memory": Rule(0, INT64_MAX),
    "max_block_ms": Rule(0, INT64_MAX),
    "max_request_size": Rule(0, INT32_MAX),
    "delivery_timeout_ms": Rule(0, INT32_MAX),
    "retry_backoff_ms": Rule(0, INT64_MAX),
    "retries": Rule(0, INT32_MAX),
    "compression_type": Rule(words=("none", "gzip", "snappy", "lz4", "zstd")),
    "compression_gzip_level": Rule(-1, 9),
    "compression_lz4_level": Rule(1, 17),
    "compression_zstd_level": Rule(-131_072, 22),
    "partitioner_ignore_keys": Rule(boolean=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """Settings of a producer. Each field is Kafka's producer config of the same name.

    >>> ProducerConfig.of({"linger.ms": "20"}, batch_size=4096).linger_ms
    20

    Raises:
        UnknownSettingError, InvalidSettingError: naming every key that is wrong.
    """

    #: Bytes at which a batch is written, before compression; 0 writes every record by itself.
    #: Kafka's 16384 saves memory that it takes in advance; here a batch takes what it holds.
    batch_size: int = 65_536
    linger_ms: int = 5  #: how long a batch waits for more records; 0 waits only for the write before it
    buffer_memory: int = 33_554_432  #: bytes of records that may wait to be written
    max_block_ms: int = 60_000  #: how long `send` waits for room there
    max_request_size: int = 1_048_576  #: the largest record, by key and value
    compression_type: str = "none"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    #: "0": nobody is told of a failure; "1": written; "all": what the topic's logstore.ack says.
    acks: str = "all"
    #: logstore.ack: "written" or "synced" whatever ``acks`` and the topic say.
    ack: Ack | str | None = None
    enable_idempotence: bool | None = None  #: true unless ``acks`` or ``retries`` rules it out
    retries: int = INT32_MAX  #: how often a batch that found no room is tried again
    retry_backoff_ms: int = 100
    delivery_timeout_ms: int = 120_000  #: how long it is tried
    partitioner: str | Partitioner | Callable[..., int] | None = None  #: see `partitioners`
    partitioner_ignore_keys: bool = False
    client_id: str = ""

    def __post_init__(self) -> None:
        problems: dict[str, str] = {}
        for name, rule in _RULES.items():
            try:
                object.__setattr__(self, name, rule.parse(getattr(self, name)))
            except ValueError as error:
                problems[_key_of(name)] = str(error)
        acks = _ACKS.get(str(self.acks).strip().lower())
        if acks is None:
            problems["acks"] = f"expected 0, 1, all or -1, found {self.acks!r}"
        else:
            object.__setattr__(self, "acks", acks)
        if self.ack is not None:
            try:
                object.__setattr__(self, "ack", Ack(self.ack))
            except InvalidSettingError as error:
                problems["logstore.ack"] = error.problems["ack"]
        try:
            partitioner_of(self.partitioner)
        except InvalidSettingError as error:
            problems.update(error.problems)
        self._settle_idempotence(problems)
        if problems:
            raise InvalidSettingError(problems)

    def _settle_idempotence(self, problems: dict[str, str]) -> None:
        """As Kafka does: on by default, off where it cannot be, refused where that contradicts what was asked."""
        if self.enable_idempotence is None:
            possible = self.acks == "all" and self.retries != 0
        else:
            try:
                possible = bool(Rule(boolean=True).parse(self.enable_idempotence))
            except ValueError as error:
                problems["enable.idempotence"] = str(error)
                return
            if possible and self.acks != "all":
                problems["enable.idempotence"] = f"needs acks=all, found acks={self.acks}"
            if possible and self.retries == 0:
                problems["enable.idempotence"] = "needs retries above 0"
        object.__setattr__(self, "enable_idempotence", possible)

    @classmethod
    def of(
        cls, settings: Mapping[str, Any] | ProducerConfig | None = None, /, **named: Setting | Partitioner | Any
    ) -> ProducerConfig:
        """Settings from Kafka's dotted keys and fields by name; ``named`` win.

        Keys of Kafka's that only a connection could need are accepted and logged once.

        Raises:
            UnknownSettingError: a key is unknown; all such keys are named, with the nearest known.
            InvalidSettingError: a value is outside its range; all such keys are named.
        """
        if isinstance(settings, ProducerConfig):
            settings = {spec.name: getattr(settings, spec.name) for spec in fields(settings)}
        values: dict[str, Any] = {}
        unknown: dict[str, str] = {}
        ignored = []
        for key, value in {**(settings or {}), **named}.items():
            name = _NAMES.get(key)
            if name is not None:
                values[name] = value
            elif key.replace("_", ".") in REFUSED:
                unknown[key] = REFUSED[key.replace("_", ".")]
            elif key.replace("_", ".") in _SERIALIZERS:
                if str(value).endswith(("ByteArraySerializer", "ByteBufferSerializer", "BytesSerializer")):
                    ignored.append(key)
                else:
                    unknown[key] = "keys and values are bytes here: encode them before send()"
            elif key.replace("_", ".") in WITHOUT_EFFECT or key.startswith(_CONNECTION):
                ignored.append(key)
            else:
                near = difflib.get_close_matches(key, [*_NAMES, *WITHOUT_EFFECT], n=1, cutoff=0.5)
                unknown[key] = "unknown" + (f"; did you mean {near[0]}?" if near else "")
        if unknown:
            try:
                cls(**values)
            except InvalidSettingError as error:
                unknown |= error.problems
            raise UnknownSettingError(unknown)
        if ignored:
            _logger.info("producer settings without effect here: %s", ", ".join(sorted(ignored)))
        return cls(**values)

    # -- what the words mean

    @property
    def codec(self) -> Codec:
        return Codec[self.compression_type.upper()]

    def level_of(self, codec: Codec) -> int:
        """The compression level of a codec; 0 for codecs without levels."""
        levels = {
            Codec.GZIP: self.compression_gzip_level,
            Codec.LZ4: self.compression_lz4_level,
            Codec.ZSTD: self.compression_zstd_level,
        }
        return levels.get(codec, 0)

    @property
    def settled_ack(self) -> Ack | None:
        """What a record must reach; None leaves it to its topic."""
        if self.ack is not None:
            return Ack(self.ack)
        return None if self.acks == "all" else Ack.WRITTEN

    @property
    def reports_failures(self) -> bool:
        """Whether somebody is told that a record was not written."""
        return self.acks != "0"


def _key_of(name: str) -> str:
    return _KEYS.get(name, name.replace("_", "."))


_KEYS = {"ack": "logstore.ack", "partitioner": "partitioner.class"}

_NAMES: dict[str, str] = {spec.name: spec.name for spec in fields(ProducerConfig)}
_NAMES |= {_key_of(name): name for name in list(_NAMES)}

#: What begins the name of a setting about connections, of which there are none.
_CONNECTION = ("ssl.", "sasl.", "ssl_", "sasl_", "socket.", "socket_", "reconnect.", "reconnect_", "metric", "interceptor")

#: Keys of Kafka's producers that are accepted and change nothing here.
WITHOUT_EFFECT: frozenset[str] = frozenset(
    {
        "bootstrap.servers",
        "client.dns.lookup",
        "compression.level",
        "connections.max.idle.ms",
        "enable.metrics.push",
        "max.in.flight.requests.per.connection",
        "metadata.max.age.ms",
        "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "receive.buffer.bytes",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "security.protocol",
        "security.providers",
        "send.buffer.bytes",
    }
)

_SERIALIZERS = ("key.serializer", "value.serializer")

#: Keys of Kafka's that would promise what a producer in this process does not do.
REFUSED: dict[str, str] = {
    "transactional.id": "transactions need a served store",
    "transaction.timeout.ms": "transactions need a served store",
    "transaction.two.phase.commit.enable": "transactions need a served store",
}
