"""The recurring work of a store: retention, compaction, expiry of producers, checkpoints of the root.

This module goes through the partitions and asks each log to do its part; when that happens is
`store.housekeeping`'s business. Logs that nobody has used since the store was opened are opened for it, one
after the other, where their settings ask for anything. A partition that cannot be opened or worked on is
reported once and passed over: the others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from logstore.config import LogConfig
from logstore.errors import LogClosedError, LogstoreError, TopicError
from logstore.log import Log
from logstore.log.root import PartitionFacts
from logstore.records import TopicPartition
from logstore.store.housekeeping import Interrupted

if TYPE_CHECKING:
    from logstore.log.root import RootHold
    from logstore.store.partitions import Partitions
    from logstore.store.topics import Topics

_logger = logging.getLogger(__name__)


def deletes(config: LogConfig) -> bool:
    """Whether a log of these settings lets go of old records by itself."""
    by_limit = config.retention_ms >= 0 or config.retention_bytes >= 0
    return by_limit and "delete" in config.cleanup_policy.split(",")


class Upkeep:
    """Works through the logs of one store. Its methods are run one at a time."""

    def __init__(
        self, topics: Topics, partitions: Partitions, hold: RootHold, check: Callable[[], None]
    ) -> None:
        self._topics = topics
        self._partitions = partitions
        self._hold = hold
        self._check = check
        self._reported: dict[TopicPartition, str] = {}

    # -- which logs

    def logs(self, wanted: Callable[[LogConfig], bool]) -> Iterator[Log]:
        """The logs of every topic whose settings are ``wanted``, opened where they are not.

        One that cannot be opened is passed over, and reported once. Ends early, with `Interrupted`, if
        the store is being closed.
        """
        for topic in self._topics.names(internal=True):
            entry = self._topics.find(topic)
            if entry is None or not wanted(self._topics.config_of(topic)):
                continue
            for number in range(entry.partitions):
                self._check()
                name = TopicPartition(topic, number)
                try:
                    log = self._partitions.get(name)
                except (LogClosedError, TopicError):
                    continue
                except LogstoreError as error:
                    self._report(name, error)
                    continue
                if isinstance(log, Log):
                    yield log

    def opened(self) -> Iterator[Log]:
        """The logs that are open now."""
        for log in self._partitions.opened():
            if isinstance(log, Log):
                yield log

    def _report(self, name: TopicPartition, error: LogstoreError) -> None:
        # Told once: a partition that is damaged stays so, and the same line every minute is read by nobody.
        text = f"{type(error).__name__}: {error}"
        if self._reported.get(name) != text:
            self._reported[name] = text
            _logger.error("housekeeping passes over a partition: log=%s error=%s", name, text)

    def _each(self, logs: Iterator[Log], work: Callable[[Log], object]) -> None:
        for log in logs:
            try:
                work(log)
            except Interrupted:
                raise
            except LogClosedError:
                # Deleted meanwhile.
                continue
            except LogstoreError as error:
                self._report(log.name, error)

    # -- what is done

    def retain(self) -> None:
        """Delete what the settings of each topic let go of: by age, by size; and seal segments that lie idle."""
        self._each(self.logs(deletes), lambda log: log.retain())

    def expire_producers(self) -> None:
        """Forget producers that have written nothing for ``producer.id.expiration.ms``."""
        self._each(self.opened(), lambda log: log.expire_producers())

    def checkpoint(self) -> None:
        """Write Kafka's checkpoints of the root, so that whoever opens it after a crash has less to look at."""
        token = self._hold.checkpoint_token()
        facts: dict[TopicPartition, PartitionFacts] = {}
        for log in self.opened():
            try:
                facts[log.name] = self._facts_of(log)
            except LogClosedError:
                continue
        self._hold.checkpoint(facts, token)

    @staticmethod
    def _facts_of(log: Log) -> PartitionFacts:
        marks = log.metrics()
        return PartitionFacts(marks.recovery_point, marks.log_start_offset, marks.high_watermark)

__all__ = ["Upkeep", "deletes"]
