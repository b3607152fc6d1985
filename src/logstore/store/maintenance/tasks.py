"""The recurring work of a store: retention, compaction, expiry of producers, checkpoints of the root.

This module iterates over the partitions and calls each log's part of the work; `maintenance.scheduler` is
responsible for the time. Logs that have not been used since the store was opened are opened for it, one after the
other, where there is anything to do: a log from which retention deletes nothing yet is looked at by a reader, and
then left alone until it does. A partition that cannot be opened or worked on is reported once and skipped: the
others continue.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from logstore.config.log import LogConfig
from logstore.errors import LogClosedError, LogstoreError, PolicyViolationError, TopicError
from logstore.log import Log
from logstore.log.cleanup import retention
from logstore.metrics import Taken
from logstore.records import TopicPartition
from logstore.store.maintenance.scheduler import Interrupted, Run, Scheduler

if TYPE_CHECKING:
    from logstore.config.store import StoreConfig
    from logstore.log.compaction.compaction import Compacted
    from logstore.log.root import StoreLock
    from logstore.store.catalog.partitions import Partitions
    from logstore.store.catalog.topic_list import TopicEntry
    from logstore.store.catalog.topics import Topics

_logger = logging.getLogger(__name__)

T = TypeVar("T")


def lets_go(config: LogConfig) -> bool:
    """Return whether a log of these settings deletes old records by itself."""
    limited = config.retention_ms >= 0 or config.retention_bytes >= 0
    return config.compacts or (config.deletes and limited)


class _Rest(NamedTuple):
    """What a look at a log that is not open has found; ends when it is opened, or its topic changes."""

    entry: TopicEntry
    until_ms: int  #: from then on `retain` has something to delete


class MaintenanceTasks:
    """Works through the logs of one store. Its methods are run one at a time."""

    def __init__(
        self,
        topics: Topics,
        partitions: Partitions,
        hold: StoreLock,
        config: StoreConfig,
        scheduler: Scheduler,
    ) -> None:
        self._topics = topics
        self._partitions = partitions
        self._hold = hold
        self._config = config
        self._scheduler = scheduler
        self._reported: dict[TopicPartition, str] = {}
        self._failed: set[TopicPartition] = set()  #: logs that could not be compacted in this round

    def schedule(self) -> None:
        """Add every task of this module to the scheduler."""
        config = self._config
        checkpoint_ms = min(
            config.log_flush_offset_checkpoint_interval_ms, config.log_flush_start_offset_checkpoint_interval_ms
        )
        # Kafka has a period of its own for the expiry of producers; here `LogMaintenance.retain` expires them.
        retention_ms = min(config.log_retention_check_interval_ms, config.producer_id_expiration_check_interval_ms)
        self._scheduler.add("retention", retention_ms, self.retain)
        self._scheduler.add("checkpoints", max(checkpoint_ms, 1), self.checkpoint)
        if config.log_cleaner_enable and config.log_cleaner_threads:
            period_ms = max(config.log_cleaner_backoff_ms, 1)
            self._scheduler.add("compaction", period_ms, self.compact_dirtiest, self.compactions)

    # -- logs

    def logs(self, wanted: Callable[[str, LogConfig], bool]) -> Iterator[Log]:
        """Iterate over the logs of every topic whose settings are ``wanted``, opened where they are not.

        A log that cannot be opened is skipped, and reported once. Ends early, with `Interrupted`, if
        the store is being closed.
        """
        for name, _entry, _config in self._names(wanted):
            log = self._log(name)
            if log is not None:
                yield log

    def _names(
        self, wanted: Callable[[str, LogConfig], bool]
    ) -> Iterator[tuple[TopicPartition, TopicEntry, LogConfig]]:
        for topic in self._topics.names(internal=True):
            try:
                entry, config = self._topics.entry(topic), self._topics.config_of(topic)
            except TopicError:
                # Deleted meanwhile.
                continue
            if wanted(topic, config):
                for number in range(entry.partitions):
                    self._scheduler.check()
                    yield TopicPartition(topic, number), entry, config

    def _log(self, name: TopicPartition) -> Log | None:
        try:
            log = self._partitions.get(name)
        except PolicyViolationError as error:
            # The store's default would compact it, and it has records without a key.
            self._report(name, error)
        except (LogClosedError, TopicError):
            pass
        except LogstoreError as error:
            self._report(name, error)
        else:
            return log if isinstance(log, Log) else None
        return None

    def opened(self) -> Iterator[Log]:
        """Iterate over the logs that are open now."""
        return (log for log in self._partitions.opened() if isinstance(log, Log))

    def is_retention_chosen(self, topic: str) -> bool:
        """Return whether a topic's retention was set; else it is the default."""
        return self._topics.is_retention_chosen(topic)

    def _report(self, name: TopicPartition, error: LogstoreError) -> None:
        # Reported once: a damaged partition would repeat the same line every minute.
        text = f"{type(error).__name__}: {error}"
        if self._reported.get(name) != text:
            self._reported[name] = text
            _logger.error("housekeeping passes over a partition: log=%s error=%s", name, text)

    def _ask(self, log: Log, work: Callable[[Log], T]) -> T | None:
        """Return the result of ``work`` on a log; None, and a line in the program's log, if it fails."""
        self._scheduler.check()
        try:
            return work(log)
        except Interrupted:
            raise
        except LogClosedError:
            # The topic was deleted meanwhile, or the store is closed.
            return None
        except LogstoreError as error:
            self._report(log.name, error)
            return None

    # -- tasks

    def retain(self) -> None:
        """Delete the records that the settings of each topic allow to delete, by age and by size.

        Idle segments are sealed, and producers that have long been silent are expired.
        """
        for name, entry, config in self._names(lambda topic, config: lets_go(config)):
            if not self._rests(name, entry, config):
                log = self._log(name)
                if log is not None:
                    self._ask(log, lambda log: log.maintenance.retain())
        for log in self.opened():
            # Nothing of these may be deleted, but their segments and producers may be idle.
            if not lets_go(log._config):
                self._ask(log, lambda log: log.maintenance.retain())

    def _rests(self, name: TopicPartition, entry: TopicEntry, config: LogConfig) -> bool:
        """Return whether a log is not open, and `retain` would delete nothing of it now."""
        if self._partitions.found(name) is not None:
            return False
        now_ms = self._scheduler.clock.now_ms()
        known = self._partitions.resting.get(name)
        if not isinstance(known, _Rest) or known.entry is not entry:
            try:
                known = _Rest(entry, self._until(name, config, now_ms))
            except LogstoreError:
                return False  # opening it says what is wrong
            self._partitions.resting[name] = known
            if self._partitions.found(name) is not None:
                # Opened during the look: opening removes what is noted before it, not what is noted afterwards.
                self._partitions.resting.pop(name, None)
                return False
        return now_ms < known.until_ms

    def _until(self, name: TopicPartition, config: LogConfig, now_ms: int) -> int:
        reader = self._partitions.at_rest(name)
        if reader is None:
            return retention.NEVER
        with reader:
            segments = reader.maintenance.segments
            return retention.rests_until(config, segments, reader.log_start_offset, reader.high_watermark, now_ms)

    def compact_dirtiest(self) -> bool:
        """Compact the log that needs it most; return True if there was one, so that the next has its turn."""
        due = self._due()
        if not due:
            self._failed.clear()
            return False
        self._compact_one(*due[0])
        return True

    def compactions(self) -> list[Run]:
        """Return one compaction of each log that needs it now, the dirtiest first, however fast it is written."""
        self._failed.clear()
        return [functools.partial(self._compact_one, *each) for each in self._due()]

    def _due(self) -> list[tuple[float, TopicPartition, Log]]:
        due = []
        for log in self.logs(lambda topic, config: config.compacts):
            if log._config.compacts and log.name not in self._failed:
                found = self._ask(log, lambda log: log.maintenance.cleanable())
                if found is not None and found.is_due:
                    due.append((found.dirty_ratio, log.name, log))
        return sorted(due, key=lambda entry: entry[:2], reverse=True)

    def _compact_one(self, ratio: float, name: TopicPartition, log: Log) -> None:
        done = self._ask(log, self._compact)
        if done is None:
            # Not before the next round: retried at once, it would keep other dirty logs waiting.
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
        return log.maintenance.compact(
            map_bytes=config.log_cleaner_dedupe_buffer_size,
            throttle=Throttle(self._scheduler, config.log_cleaner_io_max_bytes_per_second, self._partitions.taken),
        )

    def checkpoint(self) -> None:
        """Write Kafka's checkpoints of the root, so that an open after a crash has less to recover."""
        token = self._hold.root.checkpoint_token()
        facts = {}
        for log in self.opened():
            found = self._ask(log, lambda log: log.maintenance.facts())
            if found is not None:
                facts[log.name] = found
        self._hold.root.checkpoint(facts, token)


#: Beside appends at full speed, a compaction pauses this many times as long as it works. It reads and writes its
#: map at random places, and a concurrent append takes more than twice as long: see docs/benchmarks.md.
REST: Final = 11

#: Time that one append takes of a core, without its bytes. Six times less on the machine of docs/benchmarks.md: on
#: a slower one, appends at full speed must not look like few appends.
APPEND_S: Final = 50e-6

#: Least bytes a second of a disk and a core, whatever the compaction measured: for a small log the measured time
#: is mostly that of its syncs.
LEAST_SPEED: Final = 16 << 20

#: Appends are measured after so much work, and so many times as long as measuring takes: it asks every open log.
_LOOK_S = 0.002
_LOOKS_APART = 50

#: Upper bound of the time carried over: a sync is counted when it ends, and may have begun before the last look.
_MOST_CARRIED_S = 1.0


class Throttle:
    """Rate limit of a compaction in bytes a second; raises once the store is being closed.

    Records that are being appended come first, by the share of the time that they take. Beside appends at full
    speed a compaction pauses `REST` times as long as it works, beside a tenth of that a tenth as long, beside few
    appends hardly at all. ``taken`` returns what all appends have taken. The time for their bytes is estimated
    from the compaction's own speed, on the same disk and core.
    """

    def __init__(
        self, scheduler: Scheduler, bytes_per_second: float, taken: Callable[[], Taken] = lambda: Taken(0, 0, 0.0)
    ) -> None:
        self._scheduler = scheduler
        self._rate = bytes_per_second
        self._taken = taken
        self._owed_s = 0.0
        self._size = 0  # bytes that passed, in the time that was worked
        self._worked_s = 0.0
        self._unpaced_s = 0.0  # of that, since the last look
        self._look_after_s = _LOOK_S
        self._carried_s = 0.0  # taken by appends, and not yet made up for
        # Set by the first call: the log's work before it, such as a sync of appended records, was no compaction.
        self._seen: Taken | None = None
        self._looked_s = self._since_s = 0.0

    def __call__(self, byte_count: int) -> None:
        """Count bytes that were read or written; block while they are more than allowed."""
        self._scheduler.check()
        if self._rate > 0:
            self._owed_s += byte_count / self._rate
        now_s = self._scheduler.clock.monotonic_s()
        if self._seen is None:
            self._seen, self._looked_s = self._taken(), now_s
        else:
            self._size += byte_count
            self._worked_s += now_s - self._since_s
            self._unpaced_s += now_s - self._since_s
            if self._unpaced_s >= self._look_after_s:
                self._owed_s += REST * self._unpaced_s * self._share(now_s, self._seen)
                self._unpaced_s = 0.0
                self._look_after_s = max(_LOOK_S, _LOOKS_APART * (self._scheduler.clock.monotonic_s() - now_s))
        # Shorter waits are inexact, and cost more than they hold back.
        if self._owed_s > 0.01:
            owed, self._owed_s = self._owed_s, 0.0
            self._scheduler.wait(owed)
        self._since_s = self._scheduler.clock.monotonic_s()

    def _share(self, now_s: float, before: Taken) -> float:
        """Return the share of the time since the last look, rests included, that appends have taken: 0 to 1."""
        passed_s, self._looked_s = now_s - self._looked_s, now_s
        taken = self._seen = self._taken()
        speed = max(self._size / self._worked_s, LEAST_SPEED)
        taken_s = (
            (taken.appends - before.appends) * APPEND_S
            + (taken.size - before.size) / speed
            + (taken.sync_s - before.sync_s)
        )
        # Negative where a log has been closed since the last look.
        self._carried_s += max(taken_s, 0.0)
        counted_s = min(self._carried_s, passed_s)
        self._carried_s = min(self._carried_s - counted_s, _MOST_CARRIED_S)
        return counted_s / passed_s
