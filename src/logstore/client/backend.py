"""What topics, producers and consumers need of the store that they belong to.

`Store` is one; they are written against this, so that they know nothing of how a store opens, locks or
ends, and a test may hand in something smaller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from logstore.clock import Clock
from logstore.config.log import LogConfig, Setting
from logstore.log import Log, LogReader

#: A partition's log: to be written, or of a store that is open read-only.
Opened = Log | LogReader


class Source(Protocol):
    """Where partitions come from. Any thread may call it."""

    @property
    def path(self) -> str:
        """The directory, for messages."""

    @property
    def clock(self) -> Clock: ...

    @property
    def read_only(self) -> bool:
        """Whether nothing can be appended."""

    def topics(self) -> list[str]:
        """The names of all topics, as they are now."""

    def partition_count(self, topic: str, topic_id: str | None = None) -> int:
        """How many partitions a topic has; with ``topic_id``, that very topic and none made later."""

    def added_from(self, topic: str, topic_id: str | None = None) -> int:
        """The number of the first partition that was added after the topic was made, whether it is there or not."""

    def topic_config(self, topic: str, topic_id: str | None = None) -> LogConfig:
        """The settings of a topic's logs."""

    def partition(self, topic: str, partition: int, *, topic_id: str | None = None) -> Opened:
        """One partition's log, which belongs to the store and keeps it open."""

    def _log_of(self, topic: str, partition: int, topic_id: str | None = None) -> Opened:
        """As `partition`, for callers that have the store in hand: it does not keep that open."""

    def _topics_known(self) -> object:
        """What is known of all topics: another object after each change."""

    def topic_id(self, topic: str) -> str:
        """What tells a topic from an earlier or later one of its name, in Kafka's text form; "" if it has none."""

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        settings: Mapping[str, Setting] | None = None,
        *,
        if_not_exists: bool = False,
    ) -> object:
        """Make a topic."""

    def next_producer_id(self) -> int:
        """A producer id that was never given before."""
