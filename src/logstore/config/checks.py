"""Dangerous combinations of settings: each setting is valid, but together they lose data or have no effect.

`check` is responsible for all of them. Its caller passes the settings, the lag of groups and the size of the disk.
The only I/O is one read of ``findings.toml``, which holds the texts. Each finding names the row of docs/rows.md
whose tests show the effect.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from logstore.config import kafka_keys
from logstore.config.client import ConsumerConfig, ProducerConfig
from logstore.config.log import LogConfig
from logstore.config.store import StoreConfig
from logstore.records import INT64_MAX


class Severity(enum.StrEnum):
    """Severity of a finding. The first is the worst."""

    DANGER = "danger"  #: acknowledged records can be lost, or deleted before they were read
    WARNING = "warning"  #: a call will be refused, or a setting does not have the effect that its name suggests
    NOTE = "note"  #: a choice that should be deliberate


class ConfigFinding(NamedTuple):
    """One combination that was found."""

    name: str  #: of the combination, such as ``acks-one``
    severity: Severity
    row: str  #: of docs/rows.md
    where: str  #: ``store``, ``producer``, ``consumer``, ``topic NAME``, ``group NAME``
    keys: tuple[str, ...]
    meaning: str  #: what can happen
    advice: str  #: what to set instead

    def __str__(self) -> str:
        about = f"{', '.join(self.keys)}; {self.row}"
        return f"{self.severity.value}: {self.where}: {self.meaning} {self.advice} [{about}]"


class GroupLag(NamedTuple):
    """Lag of a group in one topic: the age of the oldest record that it has not read."""

    group: str
    topic: str
    lag_ms: int


@dataclass(frozen=True, kw_only=True)
class Case:
    """Input of all checks."""

    config: StoreConfig = field(default_factory=StoreConfig)
    topics: Mapping[str, LogConfig] = field(default_factory=dict)  #: empty: the store's defaults are checked
    lags: Collection[GroupLag] = ()
    producer: ProducerConfig | None = None
    consumer: ConsumerConfig | None = None
    keyless: Collection[str] = ()  #: topics that hold records without a key
    disk_bytes: int | None = None  #: the size of the file system

    @property
    def replicas(self) -> int:
        return self.config.default_replication_factor

    @property
    def logs(self) -> Mapping[str, LogConfig]:
        return self.topics or {"": self.config.log}


def check(
    config: StoreConfig | None = None,
    topics: Mapping[str, LogConfig] | None = None,
    lags: Iterable[GroupLag] = (),
    *,
    producer: ProducerConfig | None = None,
    consumer: ConsumerConfig | None = None,
    keyless: Collection[str] = (),
    disk_bytes: int | None = None,
) -> list[ConfigFinding]:
    """Return every dangerous combination in these settings, the worst first.

    ``topics`` are the settings of each topic; without any, those of a new topic are checked.
    ``keyless`` names topics that hold records without a key, ``disk_bytes`` is the size of
    the file system. Checks whose input is not given are skipped.

    >>> [finding.name for finding in check(producer=ProducerConfig(acks="0")) if finding.severity == "danger"]
    ['acks-none']
    """
    case = Case(
        config=config or StoreConfig(),
        topics=topics or {},
        lags=tuple(lags),
        producer=producer,
        consumer=consumer,
        keyless=keyless,
        disk_bytes=disk_bytes,
    )
    found = [finding for rule in _RULES for finding in rule(case)]
    return sorted(found, key=lambda finding: list(Severity).index(finding.severity))


Rule = Callable[[Case], Iterator[ConfigFinding]]


@functools.cache
def _texts() -> Mapping[str, Mapping[str, Any]]:
    return kafka_keys.package_toml("findings.toml")


def _found(name: str, where: str, *, severity: Severity | None = None, **values: object) -> ConfigFinding:
    """Return a finding of ``findings.toml`` with the values of its text."""
    about = _texts()[name]
    return ConfigFinding(
        name,
        severity or Severity(about["severity"]),
        about["row"],
        where,
        tuple(about["keys"]),
        about["meaning"].format(**values),
        about["advice"],
    )


def _topic(name: str) -> str:
    return f"topic {name}" if name else "topic defaults"


# --- copies and acknowledgements ---------------------------------------------------------------


def _replication(case: Case) -> Iterator[ConfigFinding]:
    if case.replicas == 1:
        yield _found("one-replica", "store")
    for name, log in case.logs.items():
        least = log.min_insync_replicas
        if least > case.replicas:
            yield _found("min-insync-above-replicas", _topic(name), least=least, replicas=case.replicas)
        elif least == 1 < case.replicas:
            yield _found("min-insync-one", _topic(name))
        if log.unclean_leader_election_enable:
            yield _found("unclean-election", _topic(name))


def _acknowledgement(case: Case) -> Iterator[ConfigFinding]:
    producer = case.producer
    if producer is None:
        return
    if producer.acks == "0":
        yield _found("acks-none", "producer")
    if producer.acks == "1":
        # Without replicas the leader's copy is the only one in any case.
        yield _found("acks-one", "producer", severity=None if case.replicas > 1 else Severity.NOTE)
    if producer.retries == 0:
        yield _found("no-retries", "producer")
    elif not producer.enable_idempotence:
        yield _found("retries-without-idempotence", "producer")
    if producer.linger_ms and not producer.batch_size:
        yield _found("linger-without-batches", "producer")
    if producer.delivery_timeout_ms <= producer.linger_ms:
        yield _found("delivery-timeout-below-linger", "producer")


def _sizes(case: Case) -> Iterator[ConfigFinding]:
    producer = case.producer
    for name, log in case.logs.items():
        if log.max_message_bytes > log.segment_bytes:
            yield _found("message-above-segment", _topic(name))
        if producer is not None and max(producer.batch_size, producer.max_request_size) > log.max_message_bytes:
            yield _found("request-above-message", _topic(name))


# --- the disk ----------------------------------------------------------------------------------


def _flushing(case: Case) -> Iterator[ConfigFinding]:
    for name, log in case.logs.items():
        flushes = log.flush_messages != INT64_MAX or log.flush_ms != INT64_MAX
        asked = case.producer.ack if case.producer is not None else "topic"
        if (log.ack if asked == "topic" else asked) == "synced":
            if log.visible_after == "append":
                yield _found("visible-before-synced", _topic(name))
        elif log.tail == "memory":
            yield _found("tail-in-memory", _topic(name))
        elif not flushes and case.replicas == 1:
            yield _found("no-flush", _topic(name))


def _disk(case: Case) -> Iterator[ConfigFinding]:
    total = case.disk_bytes
    config = case.config
    if total is not None:
        budget, reserve = config.budget_bytes(total), config.reserve_bytes(total)
        if budget is not None and budget + reserve > total:
            yield _found("budget-above-disk", "store", total=total, budget=budget, reserve=reserve)
    if config.disk_budget == -1:
        for name, log in case.logs.items():
            if not log.compacts and log.retention_ms == -1 and log.retention_bytes == -1:
                yield _found("kept-until-full", _topic(name))


# --- retention and compaction ------------------------------------------------------------------


def _retention(case: Case) -> Iterator[ConfigFinding]:
    for name, log in case.logs.items():
        if not log.deletes:
            continue
        if 0 <= log.retention_ms < log.segment_ms:
            yield _found("segment-outlives-retention", _topic(name))
        if 0 <= log.retention_bytes < log.segment_bytes:
            yield _found("segment-above-retention", _topic(name))
        if log.compacts and log.retention_ms != -1:
            yield _found("compacted-and-deleted", _topic(name))


def _lags(case: Case) -> Iterator[ConfigFinding]:
    for lag in case.lags:
        log = case.topics.get(lag.topic)
        if log is None:
            continue
        where = f"group {lag.group}"
        behind: dict[str, Any] = {"topic": lag.topic, "lag_ms": lag.lag_ms}
        if log.deletes and 0 <= log.retention_ms <= lag.lag_ms:
            yield _found("retention-below-lag", where, retention_ms=log.retention_ms, **behind)
        if log.compacts and log.delete_retention_ms <= lag.lag_ms:
            yield _found("tombstones-below-lag", where, stay_ms=log.delete_retention_ms, **behind)


def _compaction(case: Case) -> Iterator[ConfigFinding]:
    compacted = [name for name, log in case.logs.items() if log.compacts]
    for name in compacted:
        if name in case.keyless:
            yield _found("compacted-without-keys", _topic(name))
    if compacted and not (case.config.log_cleaner_enable and case.config.log_cleaner_threads):
        yield _found("compacted-without-cleaner", _topic(compacted[0]))


# --- groups ------------------------------------------------------------------------------------


def _offsets(case: Case) -> Iterator[ConfigFinding]:
    forgotten_ms = case.config.offsets_retention_minutes * 60_000
    for name, log in case.logs.items():
        if log.retention_ms == -1 or log.retention_ms > forgotten_ms:
            yield _found("offsets-forgotten-first", _topic(name))
    consumer = case.consumer
    if consumer is not None and consumer.group_id and consumer.auto_offset_reset == "latest":
        yield _found("reset-to-latest", "consumer")


def _creation(case: Case) -> Iterator[ConfigFinding]:
    if case.config.auto_create_topics_enable:
        yield _found("topics-made-by-mistake", "store")


_RULES: tuple[Rule, ...] = (
    _replication,
    _acknowledgement,
    _flushing,
    _retention,
    _lags,
    _compaction,
    _sizes,
    _disk,
    _offsets,
    _creation,
)
