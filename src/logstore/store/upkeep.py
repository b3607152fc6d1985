"""The recurring work of a store: retention, compaction, expiry of producers, checkpoints of the root.

This module goes through the partitions and asks each log to do its part; when that happens is
`store.housekeeping`'s business. Logs that nobody has used since the store was opened are opened for it, one
after the other, where their settings ask for anything. A partition that cannot be opened or worked on is
reported once and passed over: the others go on.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from logstore.config import LogConfig
from logstore.errors import LogClosedError, LogstoreError, PolicyViolationError, TopicError
from logstore.log import Log
from logstore.records import TopicPartition
from logstore.store.housekeeping import Housekeeper, Interrupted, Run

if TYPE_CHECKING:
    from logstore.log.compaction import Compacted
    from logstore.log.root import RootHold
    from logstore.store.partitions import Partitions
    from logstore.store.topics import Topics
    from logstore.store_config import StoreConfig

_logger = logging.getLogger(__name__)

T = TypeVar("T")


def lets_go(config: LogConfig) -> bool:
    """Whether a log of these settings lets go of old records by itself."""
    limited = config.retention_ms >= 0 or config.retention_bytes >= 0
    return config.compacts or (config.deletes and limited)


class Upkeep:
    """Works through the logs of one store. Its methods are run one at a time."""

    def __init__(
        self,
        topics: Topics,
        partitions: Partitions,
        hold: RootHold,
        config: StoreConfig,
        keeper: Housekeeper,
    ) -> None:
        self._topics = topics
        self._partitions = partitions
        self._hold = hold
        self._config = config
        self._keeper = keeper
        self._reported: dict[TopicPartition, str] = {}
        self._failed: set[TopicPartition] = set()  #: could not be compacted in this round

    def schedule(self) -> None:
        """Enter everything that is done here with the housekeeper."""
        config = self._config
        checkpoint_ms = min(
            config.log_flush_offset_checkpoint_interval_ms, config.log_flush_start_offset_checkpoint_interval_ms
        )
        # Kafka has a period of its own for the expiry of producers; `Log.retain` sees to them.
        retention_ms = min(config.log_retention_check_interval_ms, config.producer_id_expiration_check_interval_ms)
        self._keeper.add("retention", retention_ms, self.retain)
        self._keeper.add("checkpoints", max(checkpoint_ms, 1), self.checkpoint)
        if config.log_cleaner_enable and config.log_cleaner_threads:
            period_ms = max(config.log_cleaner_backoff_ms, 1)
            self._keeper.add("compaction", period_ms, self.compact_dirtiest, self.compactions)

    # -- which logs

    def logs(self, wanted: Callable[[str, LogConfig], bool]) -> Iterator[Log]:
        """The logs of every topic whose settings are ``wanted``, opened where they are not.

        One that cannot be opened is passed over, and reported once. Ends early, with `Interrupted`, if
        the store is being closed.
        """
        for topic in self._topics.names(internal=True):
            try:
                entry = self._topics.entry(topic)
                if not wanted(topic, self._topics.config_of(topic)):
                    continue
            except TopicError:
                # Deleted meanwhile.
                continue
            for number in range(entry.partitions):
                self._keeper.check()
                name = TopicPartition(topic, number)
                try:
                    log = self._partitions.get(name)
                except PolicyViolationError as error:
                    # It would be compacted by the store's default, and has records without a key.
                    self._report(name, error)
                    continue
                except (LogClosedError, TopicError):
                    continue
                except LogstoreError as error:
                    self._report(name, error)
                    continue
                if isinstance(log, Log):
                    yield log

    def opened(self, topic: str | None = None) -> Iterator[Log]:
        """The logs that are open now, of one topic or of all."""
        for log in self._partitions.opened(topic):
            if isinstance(log, Log):
                yield log

    def _report(self, name: TopicPartition, error: LogstoreError) -> None:
        # Told once: a partition that is damaged stays so, and the same line every minute is read by nobody.
        text = f"{type(error).__name__}: {error}"
        if self._reported.get(name) != text:
            self._reported[name] = text
            _logger.error("housekeeping passes over a partition: log=%s error=%s", name, text)

    def _ask(self, log: Log, work: Callable[[Log], T]) -> T | None:
        """What a log answers; None, and a line in the logs, if it cannot."""
        self._keeper.check()
        try:
            return work(log)
        except Interrupted:
            raise
        except LogClosedError:
            # Its topic was deleted meanwhile, or the store is closed.
            return None
        except LogstoreError as error:
            self._report(log.name, error)
            return None

    # -- what is done

    def retain(self) -> None:
        """Delete what the settings of each topic let go of, by age and by size.

        Segments that lie idle are sealed, and producers that have long been silent forgotten.
        """
        for log in self.logs(lambda topic, config: lets_go(config)):
            self._ask(log, lambda log: log.retain())
        for log in self.opened():
            # Nothing of these may go, but they may lie idle, and so may their producers.
            if not lets_go(log.config):
                self._ask(log, lambda log: log.retain())

    def compact_dirtiest(self) -> bool:
        """Compact the log that needs it most; True if one was, so that the next has its turn."""
        due = self._due()
        if not due:
            self._failed.clear()
            return False
        self._compact_one(*due[0])
        return True

    def compactions(self) -> list[Run]:
        """One compaction of each log that needs it now, the dirtiest first, however fast it is written to."""
        self._failed.clear()
        return [functools.partial(self._compact_one, *each) for each in self._due()]

    def _due(self) -> list[tuple[float, TopicPartition, Log]]:
        due = []
        for log in self.logs(lambda topic, config: config.compacts):
            if log.config.compacts and log.name not in self._failed:
                found = self._ask(log, lambda log: log.cleanable())
                if found is not None and found.is_due:
                    due.append((found.dirty_ratio, log.name, log))
        return sorted(due, key=lambda entry: entry[:2], reverse=True)

    def _compact_one(self, ratio: float, name: TopicPartition, log: Log) -> None:
        done = self._ask(log, self._compact)
        if done is None:
            # Not before the next round: others are dirty too.
            self._failed.add(name)
        else:
            _logger.info(
                "compacted: log=%s dirty_ratio=%.2f bytes_read=%d bytes_kept=%d",
                name,
                ratio,
                done.bytes_read,
                done.bytes_kept,
            )

    def _compact(self, log: Log) -> Compacted:
        config = self._config
        return log.compact(
            map_bytes=config.log_cleaner_dedupe_buffer_size,
            throttle=Throttle(
                self._keeper, config.log_cleaner_io_max_bytes_per_second, self._partitions.log_end_sum
            ),
        )

    def checkpoint(self) -> None:
        """Write Kafka's checkpoints of the root, so that whoever opens it after a crash has less to look at."""
        token = self._hold.checkpoint_token()
        facts = {}
        for log in self.opened():
            found = self._ask(log, lambda log: log.facts())
            if found is not None:
                facts[log.name] = found
        self._hold.checkpoint(facts, token)


#: While somebody appends, a compaction rests so many times as long as it works. Its map is read and written
#: all over, and beside that an append takes more than twice as long: see docs/benchmarks.md.
REST: Final = 11


class Throttle:
    """Lets at most so many bytes a second pass, and nothing once the store is being closed.

    While records are being appended, most of the time is left to them: ``appended`` gives a number that
    any append changes.
    """

    def __init__(
        self, keeper: Housekeeper, bytes_per_second: float, appended: Callable[[], int] = lambda: 0
    ) -> None:
        self._keeper = keeper
        self._rate = bytes_per_second
        self._appended = appended
        self._seen = appended()
        self._owed_s = 0.0
        self._since_s = keeper.clock.monotonic_s()

    def __call__(self, byte_count: int) -> None:
        """Take note of bytes that were read or written; blocks while they are more than may be."""
        self._keeper.check()
        if self._rate > 0:
            self._owed_s += byte_count / self._rate
        seen = self._appended()
        if seen != self._seen:
            self._seen = seen
            self._owed_s += REST * (self._keeper.clock.monotonic_s() - self._since_s)
        # Shorter waits are inexact, and cost more than they hold back.
        if self._owed_s > 0.01:
            owed, self._owed_s = self._owed_s, 0.0
            self._keeper.wait(owed)
        self._since_s = self._keeper.clock.monotonic_s()


__all__ = ["Throttle", "Upkeep", "lets_go"]
