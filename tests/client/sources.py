"""A directory of logs that is just what consumers and committed offsets need, and nothing more."""

from __future__ import annotations

import uuid
from pathlib import Path

from logstore import Log
from logstore.records import TopicPartition
from logstore.testing import ManualClock
from logstore.topic_names import CONSUMER_OFFSETS


class UnknownPartitionError(LookupError):
    """What this source says of a partition that it does not have."""


class Logs:
    """Topics of given partition counts below a root. ``topic_ids`` says which topics have an id.

    Owns: the logs; close it.
    """

    def __init__(self, root: Path, topics: dict[str, int], *, clock=None, read_only=False, **settings) -> None:
        self.root, self.topics, self.read_only, self.settings = Path(root), dict(topics), read_only, settings
        self.clock = ManualClock() if clock is None else clock
        self.topic_ids: dict[str, uuid.UUID] = {}
        self._open: dict[TopicPartition, Log] = {}
        if read_only and (self.root / f"{CONSUMER_OFFSETS}-0").exists():
            self.topics[CONSUMER_OFFSETS] = 1

    def partition(self, topic, partition):
        name = TopicPartition(topic, partition)
        if partition >= self.partitions_of(topic):
            raise UnknownPartitionError(f"there is no partition {name}")
        if name not in self._open:
            settings = {**self.settings, **({"cleanup_policy": "compact"} if topic == CONSUMER_OFFSETS else {})}
            self._open[name] = Log.open(
                self.root / str(name), read_only=self.read_only, clock=self.clock, **settings
            )
        return self._open[name]

    def partitions_of(self, topic):
        if self.read_only and topic == CONSUMER_OFFSETS and (self.root / f"{CONSUMER_OFFSETS}-0").exists():
            self.topics[topic] = 1
        return self.topics.get(topic, 0)

    def topic_id(self, partition):
        self.partition(*partition)
        return self.topic_ids.get(partition.topic)

    def create_offsets_topic(self):
        self.topics.setdefault(CONSUMER_OFFSETS, 1)

    def close(self):
        for log in self._open.values():
            log.close()
        self._open.clear()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
