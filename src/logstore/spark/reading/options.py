"""Options of a read, parsed and checked together: topics, start and end, limits, columns.

They are parsed once from Spark's texts; planner and readers use only `ReadOptions`. Knows no Spark: imports the
vocabulary only. Any thread may use it.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from logstore.config.quantities import duration_ms
from logstore.errors import InvalidGroupError, SparkOptionError
from logstore.groups.offsets import check_group
from logstore.records import INT32_MAX, INT64_MAX, Isolation, TopicPartition
from logstore.spark.option_parser import (
    boolean_of,
    fields_of,
    list_of,
    number_of,
    option,
    parsers_of,
    size_of,
    take,
    text_of,
    word_of,
)

#: Offsets that stand for an end of the log, as in Spark's Kafka source.
LATEST, EARLIEST = -1, -2

# --- start and end -----------------------------------------------------------------------------


class Bound(NamedTuple):
    """One end of the range that a query reads.

    Either ``word`` (`EARLIEST` or `LATEST`), one ``timestamp_ms`` for all partitions, or offsets or times for each.
    """

    option: str
    word: int | None = None
    timestamp_ms: int | None = None
    offsets: Mapping[TopicPartition, int] | None = None
    times: Mapping[TopicPartition, int] | None = None


def partitions_json(value: str) -> dict[str, list[int]]:
    """Parse ``{"topic": [0, 1]}``, the option `assign`."""
    example = 'expected JSON such as {"flights": [0, 1]}'
    found = _json_object(value, example)
    for topic, numbers in found.items():
        if not isinstance(numbers, list) or not numbers or not all(_is_whole(number) for number in numbers):
            raise ValueError(f"{example}, found {json.dumps(numbers)} for topic {topic!r}")
    return {topic: sorted(set(numbers)) for topic, numbers in found.items()}


def offsets_json(value: str) -> dict[TopicPartition, int]:
    """Parse ``{"topic": {"0": 23, "1": -2}}``, -2 for earliest and -1 for latest."""
    example = 'expected JSON such as {"flights": {"0": 23, "1": -2}}, where -2 is earliest and -1 latest'
    return _by_partition(value, example, EARLIEST)


def times_json(value: str) -> dict[TopicPartition, int]:
    """Parse ``{"topic": {"0": 1000, "1": 2000}}``, milliseconds."""
    return _by_partition(value, 'expected JSON such as {"flights": {"0": 1357016400000}}, in milliseconds', 0)


def _by_partition(value: str, example: str, least: int) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic, numbers in _json_object(value, example).items():
        if not isinstance(numbers, dict):
            raise ValueError(f"{example}, found {json.dumps(numbers)} for topic {topic!r}")
        for partition, number in numbers.items():
            if not re.fullmatch(r"\d{1,9}", partition):
                raise ValueError(f"{example}, found the partition {partition!r} of topic {topic!r}")
            if not _is_whole(number) or not least <= number <= INT64_MAX:
                raise ValueError(f"{example}, found {json.dumps(number)} for partition {topic}-{partition}")
            found[TopicPartition(topic, int(partition))] = number
    return found


def _json_object(value: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(value)
    except ValueError as error:
        raise ValueError(f"{example}, found {value!r}: {error}") from None
    if not isinstance(found, dict) or not found:
        raise ValueError(f"{example}, found {value!r}")
    return found


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def bound_of(value: str) -> int | dict[TopicPartition, int]:
    """Parse earliest, latest or offsets as JSON."""
    word = value.strip().lower()
    if word in ("earliest", "latest"):
        return EARLIEST if word == "earliest" else LATEST
    try:
        return offsets_json(value)
    except ValueError as error:
        raise ValueError(str(error).replace("expected JSON", "expected earliest, latest or JSON", 1)) from None


def time_of(value: str) -> int:
    """Parse milliseconds since 1970."""
    try:
        return int(number_of(0)(value))
    except ValueError:
        raise ValueError(f"expected milliseconds since 1970, such as 1357016400000, found {value!r}") from None


def pattern_of(value: str) -> str:
    """Check a regular expression for whole names of topics."""
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"expected a regular expression, found {value!r}: {error}") from None
    return text_of(value)


def group_of(value: str) -> str:
    """Check the name of a group."""
    try:
        return check_group(text_of(value))
    except InvalidGroupError as error:
        raise ValueError(str(error)) from None


def schema_of(value: str) -> dict[str, Any]:
    """Parse the JSON that describes values; `logstore.spark.reading.schema` interprets it."""
    return _json_object(value, 'expected JSON such as {"delay": "int64", "tail": ["string", "/plane/tail"]}')


# --- reading -----------------------------------------------------------------------------------

DEFAULT_FETCH_BYTES = 4 << 20
DEFAULT_TRIGGER_DELAY_MS = 15 * 60_000


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Settings of a read: topics, range, limits and columns. Made of Spark's options by `of`; can be pickled."""

    path: str | None = option("path", text_of)
    bootstrap: str | None = option("bootstrap", text_of)
    subscribe: tuple[str, ...] | None = option("subscribe", list_of)
    pattern: str | None = option("subscribePattern", pattern_of)
    assign: Mapping[str, list[int]] | None = option("assign", partitions_json)
    start: Bound | None  #: None: earliest for a batch, latest for a stream
    end: Bound | None  #: None: latest
    #: for a starting time that no record has reached
    no_match: str = option("startingOffsetsByTimestampStrategy", word_of("error", "latest"), "error")
    max_offsets: int | None = option("maxOffsetsPerTrigger", number_of(1))
    min_offsets: int | None = option("minOffsetsPerTrigger", number_of(1))
    max_delay_ms: int = option("maxTriggerDelay", duration_ms, DEFAULT_TRIGGER_DELAY_MS)
    max_bytes: int | None = option("maxBytesPerTrigger", size_of)
    max_records: int | None = option("maxRecordsPerPartition", number_of(1))
    min_partitions: int | None = option("minPartitions", number_of(1, INT32_MAX))
    fail_on_data_loss: bool = option("failOnDataLoss", boolean_of, True)
    include_headers: bool = option("includeHeaders", boolean_of, False)
    columns: tuple[str, ...] | None = option("columns", list_of)
    value_schema: Mapping[str, Any] | None = option("valueSchema", schema_of)
    on_value_error: str = option("onValueError", word_of("raise", "null"), "raise")
    isolation: Isolation = Isolation.READ_COMMITTED
    fetch_bytes: int = option("fetchBytes", size_of, DEFAULT_FETCH_BYTES)
    commit_group: str | None = option("commitGroup", group_of)
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)  #: passwords may be among them

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ReadOptions:
        """Parse options as Spark gives them.

        Raises:
            SparkOptionError: options are unknown, malformed, missing or contradict each other; all are named.
        """
        problems: dict[str, str] = {}
        given, kafka = take(options, _READ, "consumer", problems)
        _one_of(given, problems)
        isolation, level = given.get("isolation"), kafka.get("isolation.level")
        if level is not None:
            word = level.strip().lower()
            if word not in _LEVELS:
                problems["kafka.isolation.level"] = f"expected read_committed or read_uncommitted, found {level!r}"
            elif isolation is not None and isolation != word:
                problems["isolation"] = f"{isolation}, but kafka.isolation.level is {level}; set one of them"
            isolation = word
        if problems:
            raise SparkOptionError(problems)
        return cls(
            start=_bound(given, "starting"),
            end=_bound(given, "ending"),
            isolation=Isolation(isolation or "read_committed"),
            kafka=kafka,
            **fields_of(cls, given),
        )

    def for_batch(self) -> ReadOptions:
        """Check these options for a batch query, which begins at the earliest offset by default; return them.

        Raises:
            SparkOptionError: it would begin at the latest offset, or end at the earliest.
        """
        problems = {}
        if self.start is not None and _has(self.start, LATEST):
            problems[self.start.option] = "a batch query cannot begin at the latest offset: nothing is behind it"
        if self.end is not None and _has(self.end, EARLIEST):
            problems[self.end.option] = "a batch query cannot end at the earliest offset: nothing is before it"
        if self.commit_group is not None:
            problems["commitGroup"] = "is for streams: a batch query has no progress to commit"
        if problems:
            raise SparkOptionError(problems)
        return self

    def for_stream(self) -> ReadOptions:
        """Check these options for a stream; return them.

        Raises:
            SparkOptionError: an end is given, or limits contradict each other.
        """
        problems = {}
        if self.end is not None:
            problems[self.end.option] = (
                "is for batch queries: a stream continues; to end at the records that exist now, use the trigger "
                "availableNow"
            )
        if self.min_offsets is not None and self.max_offsets is not None and self.min_offsets > self.max_offsets:
            problems["minOffsetsPerTrigger"] = (
                f"{self.min_offsets}, but maxOffsetsPerTrigger is {self.max_offsets}: no batch could be so large"
            )
        if problems:
            raise SparkOptionError(problems)
        return self


_LEVELS = ("read_committed", "read_uncommitted")
_READ = parsers_of(ReadOptions) | {
    "startingOffsets": bound_of,
    "endingOffsets": bound_of,
    "startingTimestamp": time_of,
    "endingTimestamp": time_of,
    "startingOffsetsByTimestamp": times_json,
    "endingOffsetsByTimestamp": times_json,
    "isolation": word_of(*_LEVELS),
    "groupIdPrefix": text_of,  # no effect: a query has no group
}

_CHOICES = ("subscribe", "subscribePattern", "assign")


def _one_of(given: Mapping[str, Any], problems: dict[str, str]) -> None:
    found = [name for name in _CHOICES if name in given]
    if len(found) > 1:
        problems[found[0]] = f"given beside {' and '.join(found[1:])}; topics are chosen by one of them"
    elif not found and not set(_CHOICES) & set(problems):
        problems["subscribe"] = f"missing: name topics by one of {', '.join(_CHOICES)}"


def _bound(given: Mapping[str, Any], which: str) -> Bound | None:
    """Return one end; precedence as in Spark's Kafka source: a time for all, times for each, offsets."""
    if (name := f"{which}Timestamp") in given:
        return Bound(name, timestamp_ms=given[name])
    if (name := f"{which}OffsetsByTimestamp") in given:
        return Bound(name, times=given[name])
    if (name := f"{which}Offsets") in given:
        value = given[name]
        return Bound(name, word=value) if isinstance(value, int) else Bound(name, offsets=value)
    return None


def _has(bound: Bound, word: int) -> bool:
    return bound.word == word or (bound.offsets is not None and word in bound.offsets.values())


def utc_text(timestamp_ms: int) -> str:
    """Format a time for a message."""
    try:
        return datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"


def names(partitions: Iterable[TopicPartition]) -> str:
    """Format partitions for a message: the first few of them."""
    ordered = sorted(partitions)
    more = f" and {len(ordered) - 8} more" if len(ordered) > 8 else ""
    return ", ".join(map(str, ordered[:8])) + more
