"""The recurring work of a store: retention, compaction, expiry of producers, checkpoints of the root.

This module goes through the partitions and asks each log to do its part; when that happens is
`maintenance.scheduler`'s business. Logs that nobody has used since the store was opened are opened for it, one
after the other, where their settings ask for anything. A partition that cannot be opened or worked on is
reported once and passed over: the others go on.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from logstore.config.log import LogConfig
from logstore.errors import LogClosedError, LogstoreError, PolicyViolationError, TopicError
from logstore.log import Log
from logstore.metrics import Taken
from logstore.records import TopicPartition
from logstore.store.maintenance.scheduler import Interrupted, Run, Scheduler

if TYPE_CHECKING:
    from logstore.config.store import StoreConfig
    from logstore.log.compaction.compaction import Compacted
    from logstore.log.root import RootHold
    from logstore.store.catalog.partitions import Partitions
    from logstore.store.catalog.topics import Topics

_logger = logging.getLogger(__name__)

T = TypeVar("T")


def lets_go(config: LogConfig) -> bool:
    """Whether a log of these settings lets go of old records by itself."""
    limited = config.retention_ms >= 0 or config.retention_bytes >= 0
    return config.compacts or (config.deletes and limited)


class MaintenanceTasks:
    """Works through the logs of one store. Its methods are run one at a time."""

    def __init__(
        self,
        topics: Topics,
        partitions: Partitions,
        hold: RootHold,
        config: StoreConfig,
        keeper: Scheduler,
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
            throttle=Throttle(self._keeper, config.log_cleaner_io_max_bytes_per_second, self._partitions.taken),
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


#: Beside appends at full speed, a compaction rests so many times as long as it works. Its map is read and written
#: all over, and an append takes more than twice as long meanwhile: see docs/benchmarks.md.
REST: Final = 11

#: What one append takes of a core, without its bytes. Six times less on the machine of docs/benchmarks.md: on a
#: slower one, appends at full speed must not look like a trickle.
APPEND_S: Final = 50e-6

#: A disk and a core take so many bytes a second at least, whatever the compaction got: of a small log it has
#: measured little but its syncs.
LEAST_SPEED: Final = 16 << 20

#: Appends are looked at after so much work, and so many times as long as a look takes: it asks every open log.
_LOOK_S = 0.002
_LOOKS_APART = 50

#: A sync is counted when it ends, and may have been under way for longer than since the last look.
_MOST_CARRIED_S = 1.0


class Throttle:
    """Lets at most so many bytes a second pass, and nothing once the store is being closed.

    Records that are being appended come first, by the share of the time that they take: beside appends at full
    speed a compaction rests `REST` times as long as it works, beside a tenth of that a tenth as long, beside a
    trickle hardly at all. ``taken`` says what all appends have taken. How long their bytes take is told from the
    compaction's own speed, on the same disk and core.
    """

    def __init__(
        self, keeper: Scheduler, bytes_per_second: float, taken: Callable[[], Taken] = lambda: Taken(0, 0, 0.0)
    ) -> None:
        self._keeper = keeper
        self._rate = bytes_per_second
        self._taken = taken
        self._owed_s = 0.0
        self._size = 0  # bytes that passed, in the time that was worked
        self._worked_s = 0.0
        self._unpaced_s = 0.0  # of that, since the last look
        self._look_after_s = _LOOK_S
        self._carried_s = 0.0  # taken by appends, and not yet made up for
        # Set by the first call: what the log did before, such as a sync of what was appended, was no compaction.
        self._seen: Taken | None = None
        self._looked_s = self._since_s = 0.0

    def __call__(self, byte_count: int) -> None:
        """Take note of bytes that were read or written; blocks while they are more than may be."""
        self._keeper.check()
        if self._rate > 0:
            self._owed_s += byte_count / self._rate
        now_s = self._keeper.clock.monotonic_s()
        if self._seen is None:
            self._seen, self._looked_s = self._taken(), now_s
        else:
            self._size += byte_count
            self._worked_s += now_s - self._since_s
            self._unpaced_s += now_s - self._since_s
            if self._unpaced_s >= self._look_after_s:
                self._owed_s += REST * self._unpaced_s * self._share(now_s, self._seen)
                self._unpaced_s = 0.0
                self._look_after_s = max(_LOOK_S, _LOOKS_APART * (self._keeper.clock.monotonic_s() - now_s))
        # Shorter waits are inexact, and cost more than they hold back.
        if self._owed_s > 0.01:
            owed, self._owed_s = self._owed_s, 0.0
            self._keeper.wait(owed)
        self._since_s = self._keeper.clock.monotonic_s()

    def _share(self, now_s: float, before: Taken) -> float:
        """Which share of the time since the last look, rests and all, appends have taken: 0 to 1."""
        passed_s, self._looked_s = now_s - self._looked_s, now_s
        taken = self._seen = self._taken()
        speed = max(self._size / self._worked_s, LEAST_SPEED)
        taken_s = (
            (taken.appends - before.appends) * APPEND_S
            + (taken.size - before.size) / speed
            + (taken.sync_s - before.sync_s)
        )
        # Less than before where a log has been closed.
        self._carried_s += max(taken_s, 0.0)
        counted_s = min(self._carried_s, passed_s)
        self._carried_s = min(self._carried_s - counted_s, _MOST_CARRIED_S)
        return counted_s / passed_s


__all__ = ["MaintenanceTasks", "Throttle", "lets_go"]
