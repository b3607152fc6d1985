"""A topic described: its partitions with their offsets and sizes, and its settings."""

from __future__ import annotations

from collections.abc import Iterable

from logstore.client.backend.facts import PartitionDescription, TopicDescription
from logstore.client.backend.source import Opened
from logstore.config.log import LogConfig
from logstore.store.catalog.topic_list import TopicEntry
from logstore.store.catalog.topics import is_retention_unrecorded
from logstore.topic_names import INTERNAL


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
