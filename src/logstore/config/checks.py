"""Dangerous combinations of settings: each setting is valid, together they lose data or have no effect.

`check` is responsible for all of them. Its caller passes the settings, the lag of groups and the size of
the disk: no I/O. Each finding names the row of docs/rows.md whose tests show the effect.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from logstore.config.client import ConsumerConfig, ProducerConfig
from logstore.config.log import LogConfig
from logstore.config.store import StoreConfig
from logstore.records import INT64_MAX


class Severity(enum.StrEnum):
    """Severity of a finding. The first is the worst."""

    DANGER = "danger"  #: acknowledged records can be lost, or deleted before they were read
    WARNING = "warning"  #: a call will be refused, or a setting has not the effect it seems to have
    NOTE = "note"  #: a choice that should be deliberate


class Finding(NamedTuple):
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
) -> list[Finding]:
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


Rule = Callable[[Case], Iterator[Finding]]
_DANGER, _WARNING, _NOTE = Severity.DANGER, Severity.WARNING, Severity.NOTE


def _topic(name: str) -> str:
    return f"topic {name}" if name else "topic defaults"


# --- copies and acknowledgements ---------------------------------------------------------------


def _replication(case: Case) -> Iterator[Finding]:
    if case.replicas == 1:
        yield Finding(
            "one-replica",
            _WARNING,
            "F1",
            "store",
            ("default.replication.factor",),
            "There is one copy of every record: what the disk loses is lost.",
            "Take snapshots, or replicate.",
        )
    for name, log in case.logs.items():
        least = log.min_insync_replicas
        if least > case.replicas:
            yield Finding(
                "min-insync-above-replicas",
                _WARNING,
                "F9",
                _topic(name),
                ("min.insync.replicas", "default.replication.factor"),
                f"{least} replicas must be in sync and there are {case.replicas}: a cluster refuses every append "
                "with acks=all.",
                "Lower min.insync.replicas or add replicas.",
            )
        elif least == 1 < case.replicas:
            yield Finding(
                "min-insync-one",
                _WARNING,
                "F9",
                _topic(name),
                ("min.insync.replicas",),
                "acks=all is content with one replica when the others have fallen behind.",
                "Set min.insync.replicas to 2.",
            )
        if log.unclean_leader_election_enable:
            yield Finding(
                "unclean-election",
                _DANGER,
                "F13",
                _topic(name),
                ("unclean.leader.election.enable",),
                "A replica that was not in sync may lead: acknowledged records that it lacks are cut away.",
                "Set it to false.",
            )


def _acknowledgement(case: Case) -> Iterator[Finding]:
    producer = case.producer
    if producer is None:
        return
    if producer.acks == "0":
        yield Finding(
            "acks-none",
            _DANGER,
            "P7",
            "producer",
            ("acks",),
            "acks=0 waits for nothing: a record that was refused counts as sent.",
            "Set acks=all.",
        )
    if producer.acks == "1":
        yield Finding(
            "acks-one",
            _DANGER if case.replicas > 1 else _NOTE,
            "P8",
            "producer",
            ("acks",),
            "With acks=1 a record that only the leader has is lost with the leader.",
            "Set acks=all.",
        )
    if producer.retries == 0:
        yield Finding(
            "no-retries",
            _WARNING,
            "P10",
            "producer",
            ("retries",),
            "Without retries a record is dropped at the first full disk: at most once.",
            "Leave retries at its default and bound the time by delivery.timeout.ms.",
        )
    elif not producer.enable_idempotence:
        yield Finding(
            "retries-without-idempotence",
            _WARNING,
            "P13",
            "producer",
            ("enable.idempotence", "retries"),
            "A batch that is tried again may be written twice.",
            "Set enable.idempotence=true.",
        )
    if producer.linger_ms and not producer.batch_size:
        yield Finding(
            "linger-without-batches",
            _WARNING,
            "P11",
            "producer",
            ("linger.ms", "batch.size"),
            "Every record waits for others and is then written alone.",
            "Set batch.size, or linger.ms=0.",
        )
    if producer.delivery_timeout_ms <= producer.linger_ms:
        yield Finding(
            "delivery-timeout-below-linger",
            _DANGER,
            "P10",
            "producer",
            ("delivery.timeout.ms", "linger.ms"),
            "A record's time to be delivered is over before its batch is written.",
            "Make delivery.timeout.ms larger than linger.ms.",
        )


def _sizes(case: Case) -> Iterator[Finding]:
    for name, log in case.logs.items():
        if log.max_message_bytes > log.segment_bytes:
            yield Finding(
                "message-above-segment",
                _WARNING,
                "S1",
                _topic(name),
                ("max.message.bytes", "segment.bytes"),
                "A batch that max.message.bytes allows may not fit into a segment, and is refused.",
                "Make segment.bytes the larger one.",
            )
        producer = case.producer
        if producer is not None and max(producer.batch_size, producer.max_request_size) > log.max_message_bytes:
            yield Finding(
                "request-above-message",
                _WARNING,
                "P11",
                _topic(name),
                ("batch.size", "max.request.size", "max.message.bytes"),
                "The producer takes records and makes batches that the topic refuses.",
                "Make max.message.bytes the largest of the three.",
            )


# --- the disk ----------------------------------------------------------------------------------


def _flushing(case: Case) -> Iterator[Finding]:
    for name, log in case.logs.items():
        flushes = log.flush_messages != INT64_MAX or log.flush_ms != INT64_MAX
        asked = case.producer.ack if case.producer is not None else "topic"
        acked = log.ack if asked == "topic" else asked
        if acked == "synced":
            if log.visible_after == "append":
                yield Finding(
                    "visible-before-synced",
                    _NOTE,
                    "C17",
                    _topic(name),
                    ("logstore.visible.after", "logstore.ack"),
                    "Readers see a record before it is on the disk: after a power cut they may have seen one that "
                    "is gone.",
                    "Set logstore.visible.after=flush where that matters.",
                )
            continue
        if log.tail == "memory":
            yield Finding(
                "tail-in-memory",
                _DANGER,
                "S20",
                _topic(name),
                ("logstore.tail", "logstore.ack"),
                "Acknowledged records lie in memory only: they go with the process.",
                "Set logstore.ack=synced, or logstore.tail=file.",
            )
        elif not flushes and case.replicas == 1:
            yield Finding(
                "no-flush",
                _WARNING,
                "S4",
                _topic(name),
                ("logstore.ack", "flush.messages", "flush.ms"),
                "An acknowledged record survives the process, but not a power cut: nothing brings it to the disk "
                "in time, and there is no other copy.",
                "Set logstore.ack=synced, or flush.ms to what may be lost.",
            )


def _disk(case: Case) -> Iterator[Finding]:
    total = case.disk_bytes
    config = case.config
    if total is not None:
        budget, reserve = config.budget_bytes(total), config.reserve_bytes(total)
        if budget is not None and budget + reserve > total:
            yield Finding(
                "budget-above-disk",
                _WARNING,
                "O14",
                "store",
                ("logstore.disk.budget", "logstore.disk.reserve"),
                f"The disk has {total} bytes and is full before the budget of {budget} and the reserve of "
                f"{reserve} are.",
                "Lower them, or give a share such as 80%.",
            )
    if config.disk_budget == -1:
        for name, log in case.logs.items():
            if not log.compacts and log.retention_ms == -1 and log.retention_bytes == -1:
                yield Finding(
                    "kept-until-full",
                    _NOTE,
                    "R4",
                    _topic(name),
                    ("retention.ms", "retention.bytes", "logstore.disk.budget"),
                    "Everything is kept: writing stops when the disk is full.",
                    "Set retention, or logstore.disk.budget.",
                )


# --- retention and compaction ------------------------------------------------------------------


def _retention(case: Case) -> Iterator[Finding]:
    for name, log in case.logs.items():
        if "delete" not in log.cleanup_policy:
            continue
        if 0 <= log.retention_ms < log.segment_ms:
            yield Finding(
                "segment-outlives-retention",
                _WARNING,
                "R1",
                _topic(name),
                ("segment.ms", "retention.ms"),
                "Only whole segments are deleted: records may stay for segment.ms longer than retention.ms.",
                "Make segment.ms a fraction of retention.ms.",
            )
        if 0 <= log.retention_bytes < log.segment_bytes:
            yield Finding(
                "segment-above-retention",
                _WARNING,
                "R2",
                _topic(name),
                ("segment.bytes", "retention.bytes"),
                "Only whole segments are deleted: the log may grow by segment.bytes beyond retention.bytes.",
                "Make segment.bytes a fraction of retention.bytes.",
            )
        if log.compacts and log.retention_ms != -1:
            yield Finding(
                "compacted-and-deleted",
                _WARNING,
                "R3",
                _topic(name),
                ("cleanup.policy", "retention.ms"),
                "With compact,delete the newest value of a key is deleted too when it is older than retention.ms.",
                "Set cleanup.policy=compact, or retention.ms=-1, if keys must stay.",
            )


def _lags(case: Case) -> Iterator[Finding]:
    for lag in case.lags:
        log = case.topics.get(lag.topic)
        if log is None:
            continue
        if "delete" in log.cleanup_policy and 0 <= log.retention_ms <= lag.lag_ms:
            yield Finding(
                "retention-below-lag",
                _DANGER,
                "R6",
                f"group {lag.group}",
                ("retention.ms",),
                f"Records of topic {lag.topic} that it has yet to read are {lag.lag_ms} ms old, but retention.ms "
                f"is {log.retention_ms}: they are deleted unread.",
                "Raise retention.ms until the group has caught up.",
            )
        if log.compacts and log.delete_retention_ms <= lag.lag_ms:
            yield Finding(
                "tombstones-below-lag",
                _DANGER,
                "R3",
                f"group {lag.group}",
                ("delete.retention.ms",),
                f"It is {lag.lag_ms} ms behind in topic {lag.topic}, whose tombstones stay for "
                f"{log.delete_retention_ms} ms: it may never learn of a deletion.",
                "Raise delete.retention.ms.",
            )


def _compaction(case: Case) -> Iterator[Finding]:
    compacted = [name for name, log in case.logs.items() if log.compacts]
    for name in compacted:
        if name in case.keyless:
            yield Finding(
                "compacted-without-keys",
                _DANGER,
                "R3",
                _topic(name),
                ("cleanup.policy",),
                "It holds records without a key, which compaction drops; new ones are refused.",
                "Give every record a key, or set cleanup.policy=delete.",
            )
    if compacted and not (case.config.log_cleaner_enable and case.config.log_cleaner_threads):
        yield Finding(
            "compacted-without-cleaner",
            _WARNING,
            "R3",
            _topic(compacted[0]),
            ("log.cleaner.enable", "log.cleaner.threads", "cleanup.policy"),
            "Compaction is switched off: the topic only grows.",
            "Set log.cleaner.enable=true and log.cleaner.threads=1.",
        )


# --- groups ------------------------------------------------------------------------------------


def _offsets(case: Case) -> Iterator[Finding]:
    forgotten_ms = case.config.offsets_retention_minutes * 60_000
    for name, log in case.logs.items():
        if log.retention_ms == -1 or log.retention_ms > forgotten_ms:
            yield Finding(
                "offsets-forgotten-first",
                _WARNING,
                "C11",
                _topic(name),
                ("offsets.retention.minutes", "retention.ms"),
                "A group that rests is forgotten before the records are: it begins anew, at the end or from the "
                "start.",
                "Raise offsets.retention.minutes.",
            )
    consumer = case.consumer
    if consumer is not None and consumer.group_id and consumer.auto_offset_reset == "latest":
        yield Finding(
            "reset-to-latest",
            _WARNING,
            "C15",
            "consumer",
            ("auto.offset.reset", "group.id"),
            "A group whose position was deleted or forgotten skips to the end, without an error.",
            "Set auto.offset.reset to earliest or none.",
        )


def _creation(case: Case) -> Iterator[Finding]:
    if case.config.auto_create_topics_enable:
        yield Finding(
            "topics-made-by-mistake",
            _NOTE,
            "M1",
            "store",
            ("auto.create.topics.enable",),
            "A misspelt topic is created instead of refused.",
            "Set it to false.",
        )


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

__all__ = ["Case", "Finding", "GroupLag", "Severity", "check"]
