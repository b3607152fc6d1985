"""Maintenance calls of a log: rolling, retention, compaction, checkpoints, settings.

The tasks of `store.maintenance` call them periodically, and administrators by hand; `Log` has the calls of users.
A `LogMaintenance` is made at each use and owns nothing. Any thread may use it while its log is open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logstore.config.log import LogConfig, Setting
from logstore.config.schema import naming_arguments
from logstore.io._interrupts import held, shielded
from logstore.log._partition_log import READY_ATTEMPTS
from logstore.log.append.append import LogWriter
from logstore.log.cleanup import retention
from logstore.log.cleanup.retention import OldestSegment, Retained
from logstore.log.compaction import compaction, plan
from logstore.log.compaction.compaction import Compacted, Throttle
from logstore.log.compaction.plan import Cleanable
from logstore.log.directory.files import Directory
from logstore.log.read.maintenance import ReaderMaintenance
from logstore.log.read.reader import Readable
from logstore.log.root import PartitionFacts
from logstore.log.tools import checkpoint_copy
from logstore.log.tools.checkpoint_copy import Copied, LogCheckpoint
from logstore.metrics import Taken
from logstore.records import INT64_MAX

Settings = LogConfig | Mapping[str, Setting] | None


class LogMaintenance(ReaderMaintenance):
    """The maintenance calls of one open log."""

    __slots__ = ("_state", "_writer")
    log: Readable

    def __init__(self, log: Readable, writer: LogWriter) -> None:
        super().__init__(log)
        self._writer = writer
        self._state = writer.state

    # -- facts

    @property
    def was_clean(self) -> bool:
        """Whether the log was closed cleanly before this open; if not, its newest records may be lost."""
        return self._state.durability.was_clean

    def facts(self) -> PartitionFacts:
        """Return the offsets that the root's checkpoints may record now, with the recovery point last written."""
        state = self._state
        state.check_open()
        with held(state.lock):
            return state.facts_locked(state.recovery.point.recovery_point)

    @property
    def reserved_bytes(self) -> int:
        """Bytes that the log has reserved and not written yet."""
        return self._state.reserved_bytes

    @property
    def taken(self) -> Taken:
        """Disk and core usage of appends to this log since it was opened."""
        counters = self._state.counters
        return Taken(counters.appends, counters.appended_bytes, counters.sync_s)

    # -- segments

    def roll(self) -> None:
        """Seal the active segment and begin a new one, unless the active one is empty."""
        self._state.check_writable()
        shielded(self._roll)

    def _roll(self) -> None:
        state = self._state
        for left in reversed(range(READY_ATTEMPTS)):
            state.get_ready_to_roll()
            with held(state.lock):
                state.check_whole_locked()
                if left and not state.can_roll_locked():
                    continue  # an append has rolled in between, and has taken what was prepared
                with state.change():
                    state.drain_tail_locked()
                    if state.segments.active.size:
                        state.roll_locked()
                break
        state.rolls.ask()

    def tick(self) -> None:
        """Flush if ``flush.ms`` has passed; for a caller that moves the log's clock itself."""
        self._state.check_process()
        self._writer.flusher.tick()

    # -- retention and compaction

    def retain(self, now_ms: int | None = None) -> Retained:
        """Delete old or surplus segments, by ``retention.ms`` and ``retention.bytes``.

        Also seals an active segment that began more than ``segment.ms`` ago, and expires idle producers.
        The age of a segment is that of its newest record. With ``cleanup.policy=compact`` alone no segment is
        deleted. Deletions are as durable as those of `delete_before`. ``now_ms`` is the log's clock by default.

        Raises:
            DiskFullError, StorageFailedError: as `delete_before`.
        """
        return shielded(retention.retain, self._state, self._writer.flusher.sync_to, now_ms)

    def oldest_segment(self, active_bytes: int = INT64_MAX) -> OldestSegment | None:
        """Return the first segment if it could be deleted whole, else None.

        A segment that reaches above the high watermark cannot be deleted. The active segment is returned only if
        it is the first one and has at least ``active_bytes``.
        """
        self._state.check_open()
        return retention.oldest(self._state, active_bytes)

    def cleanable(self, now_ms: int | None = None) -> Cleanable:
        """Return the range that a compaction would clean, how dirty it is, and whether it is due."""
        return compaction.look(self._state, now_ms)

    def compact(
        self,
        *,
        map_bytes: int = compaction.MAP_BYTES,
        now_ms: int | None = None,
        throttle: Throttle | None = None,
    ) -> Compacted:
        """Keep only the newest record of each key in all sealed segments below the last stable offset.

        The call compacts even if no compaction is due (`cleanable`). Records younger than
        ``min.compaction.lag.ms`` stay. Offsets and order do not change; appends and reads run concurrently.
        Records without a key are deleted, as in Kafka. Memory is a few MiB and a map of keys of at most
        ``map_bytes``, with about 27 bytes for each key. If the keys do not all fit, several rounds are made. Only
        if the keys of a single batch do not fit, the map grows. ``throttle`` is called with each count of bytes
        read or written, and may block. Durable on return.

        Raises:
            CorruptRecordError: a batch is damaged; its position is named. `cleanable` reports the damage from
                now on. No newest record of a key was deleted.
            DiskFullError, StorageError: the new segments could not be written. The old ones are kept.
            InvalidSettingError: the log's ``cleanup.policy`` is not compact, or ``map_bytes`` is below 48.
            LogClosedError: the log was closed meanwhile. Finished work is kept.
            StorageFailedError: the swap of segments failed half way; opening the log again finishes it.
        """
        return compaction.compact(
            self._state, self._writer.flusher.sync_to, map_bytes=map_bytes, now_ms=now_ms, throttle=throttle
        )

    # -- checkpoints

    def checkpoint(self) -> LogCheckpoint:
        """Return the log as it is now, for `copy`."""
        return shielded(checkpoint_copy.checkpoint, self._state)

    def copy(self, taken: LogCheckpoint, target: Directory, *, link: bool = True) -> Copied:
        """Build the log of a checkpoint in an empty directory, by hard links where possible.

        Durable on return, except for the directory's own name. The copy is a log that was not closed: it is
        recovered when it is opened.

        Raises:
            CheckpointCopyError: segments were deleted or swapped meanwhile; take another checkpoint.
            StorageError: the copy could not be written.
        """
        return checkpoint_copy.copy(self._state, taken, target, link=link)

    @staticmethod
    def verify(taken: LogCheckpoint, target: Directory) -> int:
        """Check every batch of a copy; return their bytes.

        Raises:
            CorruptRecordError: a batch is not as it was written, or records are missing.
        """
        return checkpoint_copy.verify(taken, target)

    # -- settings

    @naming_arguments
    def reconfigure(self, config: Settings = None, *, drop_keyless: bool = False, **settings: Setting) -> None:
        """Apply new settings to the open log; existing segments do not change.

        ``cleanup.policy=compact`` is accepted only if every record has a key, including those appended during
        the call. ``drop_keyless`` accepts it in any case.

        Raises:
            InvalidSettingError: a setting cannot change while the log is open; every one is named, and
                nothing has changed.
            PolicyViolationError: compaction would delete records that have no key. Nothing has changed.
            ConfigError: as `open`.
        """
        shielded(self._reconfigure, LogConfig.of(config, **settings), drop_keyless)

    def check_reconfigure(self, config: LogConfig) -> None:
        """Check that the open log could take new settings; it keeps those that it has.

        Records without a key are not looked for.

        Raises:
            InvalidSettingError: a setting cannot change while the log is open; every one is named.
        """
        self._state.check_open()
        self._state.check_reconfigure(config)

    def _reconfigure(self, settled: LogConfig, drop_keyless: bool) -> None:
        before = self._state.config
        begins = settled.compacts and not before.compacts and not drop_keyless
        if begins:
            self.check_keys()
        self._state.reconfigure(settled)
        self._configure(settled)
        if begins:
            # A record without a key may have been appended before the new settings refused such appends.
            try:
                self.check_keys()
            except BaseException:
                self._state.reconfigure(before)
                self._configure(before)
                raise

    def _configure(self, config: LogConfig) -> None:
        self._writer.configure(config)
        log: Any = self.log  # the `Log`, which no module below it can name
        log._settle(config)

    def check_keys(self) -> None:
        """Check that every record appended since the last such call has a key.

        Raises:
            PolicyViolationError: a record has no key, so the log may not be compacted.
        """
        state = self._state
        if self.log.end_offset() < state.end.value:
            self._writer.flush()  # else a scan may not see all records: some settings show only synced ones
        generation, end = state.segments.generation, self.log.end_offset()
        start = max(state.log_start, state.cleaned.keyed_from(generation))
        if start < end:
            plan.refuse_keyless(state.name, self.log.scan(start, end, on_damage="skip").chunks(), start)
        state.cleaned.checked_keys(generation, end)
