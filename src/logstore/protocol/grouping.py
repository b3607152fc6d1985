"""Partitions in the form in which messages name them: topic by topic. No I/O."""

from __future__ import annotations

from collections.abc import Iterable

from logstore.records import TopicPartition


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic, topics in the order in which they first stand there."""
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found
