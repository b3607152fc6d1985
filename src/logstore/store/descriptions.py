"""A topic described: its partitions with their offsets and sizes, and its settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from logstore.client.backend.source import Opened
from logstore.config.log import LogConfig
from logstore.store.catalog.topic_list import TopicEntry
from logstore.store.catalog.topics import is_retention_unrecorded
from logstore.topic_names import INTERNAL


class PartitionDescription(NamedTuple):
    """State of one partition. Offsets as of one moment; ``size`` is bytes of segments, without indexes."""

    partition: int
    log_start_offset: int
    high_watermark: int
    log_end_offset: int
    size: int
    segment_count: int


class TopicDescription(NamedTuple):
    """A topic as it is now: ``settings`` are its own, ``config`` all that hold for its logs."""

    name: str
    id: str
    partitions: tuple[PartitionDescription, ...]
    settings: Mapping[str, str]
    config: LogConfig
    internal: bool
    created_ms: int
    #: False for a topic made before retention was recorded, which is kept for ever: set ``retention.ms``.
    retention_recorded: bool = True


def describe(name: str, entry: TopicEntry, config: LogConfig, logs: Iterable[Opened]) -> TopicDescription:
    """Describe a topic by its entry in the catalogue and its logs, in order."""
    partitions = (
        PartitionDescription(
            number,
            log.log_start_offset,
            log.high_watermark,
            log.log_end_offset,
            log.maintenance.size,
            log.maintenance.segment_count,
        )
        for number, log in enumerate(logs)
    )
    return TopicDescription(
        name,
        entry.id,
        tuple(partitions),
        dict(entry.settings),
        config,
        name in INTERNAL,
        entry.created_ms,
        not is_retention_unrecorded(name, entry, config),
    )
