"""Options of a write with ``format("logstore")``, parsed and checked together.

Uses `option_parser`. Knows no Spark: imports the vocabulary only. Any thread may use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from logstore.config.client import ProducerConfig
from logstore.config.quantities import duration_ms
from logstore.config.store import StoreConfig
from logstore.errors import ConfigError, SparkOptionError, StorageError
from logstore.records import Codec
from logstore.spark.option_parser import (
    KAFKA_PREFIX,
    SECURITY,
    boolean_of,
    fields_of,
    number_of,
    option,
    parsers_of,
    take,
    text_of,
    word_of,
)
from logstore.spark.writing.rows import BY_KEY, Keyless

DEFAULT_COMMIT_TIMEOUT_S = 60.0

_CODECS = ("none", "uncompressed", "gzip", "snappy", "lz4", "zstd")


def seconds_of(value: str) -> float:
    """Parse seconds, or a time as Spark writes it: 30, 2.5, 30s, 2m."""
    try:
        seconds = float(value)
    except ValueError:
        seconds = duration_ms(value) / 1000
    if not 0 < seconds <= 86_400:
        raise ValueError(f"expected seconds, more than 0 and at most a day, found {value!r}")
    return seconds


def store_config_of(value: str) -> StoreConfig:
    """Load the settings of a store from a file."""
    try:
        return StoreConfig.load(value)
    except (ConfigError, StorageError) as error:
        raise ValueError(str(error)) from None


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """Settings of a write: its destination and guarantees. Made of Spark's options by `of`; can be pickled."""

    path: str | None = option("path", text_of)
    bootstrap: str | None = option("bootstrap", text_of)
    topic: str | None = option("topic", text_of)  #: None: the column topic names it
    exactly_once: bool = option("exactlyOnce", boolean_of)
    replay: bool = option("replay", boolean_of, False)
    codec: Codec | None = None  #: None: the topic's own, else no compression
    keyless: Keyless = BY_KEY
    commit_timeout_s: float = option("commitTimeout", seconds_of, DEFAULT_COMMIT_TIMEOUT_S)
    settings: StoreConfig | None = None  #: those of the store
    #: the query whose micro-batch a job writes; None: the job belongs to no query
    query: str | None = option("query", text_of)
    batch: int = option("batch", number_of(0), 0)  #: the number of that micro-batch
    #: the producer's settings for ``bootstrap``; passwords may be among them
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> WriteOptions:
        """Parse options as Spark gives them.

        Raises:
            SparkOptionError: options are unknown, malformed, missing or contradict each other; all are named.
        """
        problems: dict[str, str] = {}
        given, kafka = take(options, _WRITE, "producer", problems)
        bootstrap = given["bootstrap"]
        kafka.pop("bootstrap.servers", None)
        # The client of brokers checks the settings of security, which a store refuses.
        checked = kafka if bootstrap is None else {k: v for k, v in kafka.items() if not k.startswith(SECURITY)}
        config = _producer(checked, problems)
        word = given.get("compression")
        imposed = kafka.get("compression.type")
        codec = None if word is None else Codec["NONE" if word == "uncompressed" else word.upper()]
        if codec is not None and imposed is not None and config is not None and codec is not config.codec:
            problems["compression"] = f"{word}, but kafka.compression.type is {imposed}; set one of them"
        exactly_once = given.setdefault("exactlyOnce", bootstrap is None)
        if bootstrap is not None:
            if exactly_once:
                problems["exactlyOnce"] = (
                    "is for path only until the broker has transactions; leave it out to write at least once"
                )
            problems |= {name: f"is for path only{why}" for name, why in _PATH_ONLY.items() if given.get(name)}
        if ("query" in given) != ("batch" in given) and "batch" not in problems:
            problems["query"] = "goes with batch: they say which micro-batch of which query a job writes"
        elif "query" in given and not exactly_once and "exactlyOnce" not in problems:
            problems["query"] = "is for path with exactlyOnce only"
        if problems:
            raise SparkOptionError(problems)
        assert config is not None
        if codec is None and imposed is not None:
            codec = config.codec
        keyless = Keyless(
            ignore_keys=config.partitioner_ignore_keys or config.partitioner_class in ("sticky", "roundrobin"),
            in_turn=config.partitioner_class == "roundrobin",
        )
        settings = given.get("settings")
        return cls(codec=codec, keyless=keyless, settings=settings, kafka=kafka, **fields_of(cls, given))

    @property
    def mode(self) -> str:
        """Return the write mode, as a manifest names it."""
        return "replay" if self.replay else "exactly_once" if self.exactly_once else "at_least_once"


_WRITE = parsers_of(WriteOptions) | {
    "includeHeaders": boolean_of,  # as in Spark's Kafka sink; no effect: a column headers is always written
    "compression": word_of(*_CODECS),
    "settings": store_config_of,
}


#: Options without effect through a broker, each with the reason.
_PATH_ONLY = {
    "replay": ": a broker gives offsets itself",
    "commitTimeout": "; see kafka.delivery.timeout.ms",
    "settings": ": a broker has its own",
}


def _producer(kafka: Mapping[str, str], problems: dict[str, str]) -> ProducerConfig | None:
    """Check Kafka's settings of a producer; return None if one is refused."""
    try:
        config = ProducerConfig.of(kafka)
    except ConfigError as error:
        problems |= {f"{KAFKA_PREFIX}{key}": what for key, what in error.problems.items()}
        return None
    if config.partitioner_class == "random":
        problems[f"{KAFKA_PREFIX}partitioner.class"] = (
            "expected default, murmur2, sticky or roundrobin, found 'random'"
        )
        return None
    return config
