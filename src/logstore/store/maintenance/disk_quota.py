"""Disk-space quota of a store: how many bytes it may use, and which records are deleted first at the limit.

The budget counts what all logs take on the disk: segments with their preallocated space, indexes, snapshots. It is
measured at intervals. Between two measurements, the bytes that logs have reserved are added (`log.space_quota`):
each log reserves some space ahead and counts it down.

``logstore.disk.budget`` is a number of bytes or a share of the file system, ``logstore.disk.reserve`` the space
that stays free for others. The lower of the two limits counts. At the limit space is reclaimed in this order:

1. records that retention deletes anyway (`LogMaintenance.retain`), in every topic;
2. then the oldest segment by record time, of all topics that delete old records at all, again and
   again, until there is space. The active segment counts only if it is larger than a sixteenth of the
   limit: otherwise the newest records would be deleted where segments are large.

Never deleted are records of topics whose own settings keep them for ever (``retention.ms`` and ``retention.bytes``
set to -1, not left at the default), of compacted topics without deletion, and of the store's own topics. Records at
or above a high watermark stay too. If that is not enough, appends get `DiskBudgetError` and reads continue; the
next append finds by itself whether there is space again. The store's own topics are counted and never refused:
committed offsets are small, and consumers must be able to continue.

An append that finds no space reclaims it, without any lock of a log. Maintenance reclaims ahead of time, so
that few appends ever wait for it. Lock order: `_making`, then a log's, then `_lock`.
"""

from __future__ import annotations

import contextlib
import heapq
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from logstore.config.log import LogConfig
from logstore.errors import (
    DiskBudgetError,
    InvalidSettingError,
    LogClosedError,
    OffsetOutOfRangeError,
    StorageError,
)
from logstore.io._interrupts import held
from logstore.log import Log
from logstore.log.directory import files
from logstore.log.directory.files import Directory
from logstore.log.space_quota import SpaceQuota
from logstore.records import TopicPartition
from logstore.store.catalog.layout import partition_directory
from logstore.store.maintenance.scheduler import Interrupted
from logstore.topic_names import INTERNAL

if TYPE_CHECKING:
    from logstore.clock import Clock
    from logstore.store.maintenance.tasks import MaintenanceTasks

_logger = logging.getLogger(__name__)

#: How much a log reserves ahead, where there is plenty.
GRANT_BYTES: Final = 1 << 20

#: How much space is kept free ahead of need: a share of the limit, and at most so many bytes.
_SLACK_SHARE, _SLACK_BYTES = 16, 64 << 20

#: A refused append measures the disk again after so long, even if nothing seems to have changed.
_PATIENCE_S = 1.0


class Limits(NamedTuple):
    """Limits of a store: bytes, or a share such as ``80%``; -1 for no budget, 0 for no reserve."""

    budget: int | str = -1
    reserve: int | str = 0

    @property
    def is_set(self) -> bool:
        return self.budget != -1 or self.reserve not in (0, -1)

    def of(self, taken: int, total: int, free: int) -> int:
        """Return the bytes that logs may take in all, where they take ``taken`` now."""
        reserved = max(_bytes_of(self.reserve, total), 0)
        available = max(taken + free - reserved, 0)
        budget = _bytes_of(self.budget, total)
        return available if budget < 0 else min(available, budget)


def _bytes_of(limit: int | str, total: int) -> int:
    return int(total * float(limit.rstrip("%")) / 100) if isinstance(limit, str) else limit


def may_go(topic: str, config: LogConfig, *, chosen: bool) -> bool:
    """Return whether old records of a topic may be deleted for lack of space.

    Not where it was ``chosen`` to keep them for ever; where that is the default, the limit that was set counts.
    """
    keeps = chosen and config.retention_ms < 0 and config.retention_bytes < 0
    return topic not in INTERNAL and config.deletes and not config.compacts and not keeps


class DiskQuota:
    """The disk budget of one store that is open for writing. Any thread."""

    def __init__(self, limits: Limits, root: Directory, tasks: MaintenanceTasks, clock: Clock) -> None:
        self.limits = limits
        self._root = root
        self._tasks = tasks
        self._clock = clock
        self._lock = threading.Lock()
        self._making = threading.Lock()
        self.limit_bytes = 0  #: bytes that the logs may take in all
        self.used_bytes = 0  #: bytes that the logs take on the disk or have reserved, as far as known now
        self._granted = 0  #: bytes reserved while a measurement is under way
        self._sizes: dict[TopicPartition, dict[str, int]] = {}
        self._refused: tuple[object, float] | None = None  #: state and time when there was no space

    def may_go(self, topic: str, config: LogConfig) -> bool:
        """Return whether old records of a topic may be deleted for lack of space."""
        return may_go(topic, config, chosen=self._tasks.is_retention_chosen(topic))

    def quota(self, name: TopicPartition) -> SpaceQuota:
        """Return the quota of one log."""
        return _LogGate(self, name, refuses=name.topic not in INTERNAL)

    def change(self, limits: Limits) -> None:
        """Apply other limits from now on.

        Raises:
            InvalidSettingError: records that may not be deleted exceed it. Nothing was changed.
        """
        before, self.limits = self.limits, limits
        try:
            self.measure()
            self.check_pinned(self.may_go)
        except BaseException:
            self.limits = before
            self.measure()
            raise

    def open(self) -> None:
        """Measure, and refuse a budget that is far below what must be kept.

        A store that has filled its budget holds a little more, in indexes and in the last blocks of files. It
        opens, so that its user can free space.

        Raises:
            InvalidSettingError: records that may not be deleted exceed it by a quarter.
        """
        self.measure()
        self.check_pinned(self.may_go, slack=0.25)

    def check_alter(self, topic: str, config: LogConfig, is_retention_chosen: bool) -> None:
        """Raise if records that may not be deleted would exceed the budget once a topic had these settings.

        Raises:
            InvalidSettingError: they would.
        """
        if self.limits.is_set:
            self.check_pinned(
                lambda name, settings: (
                    may_go(topic, config, chosen=is_retention_chosen)
                    if name == topic
                    else self.may_go(name, settings)
                )
            )

    def check_pinned(self, goes: Callable[[str, LogConfig], bool], *, slack: float = 0.0) -> None:
        """Raise if records that may not be deleted would exceed the budget.

        Raises:
            InvalidSettingError: they would.
        """
        total, _ = self._root.files.space(self._root.path)
        budget = _bytes_of(self.limits.budget, total)
        if budget < 0 or self.used_bytes <= budget:
            return
        deletable = sum(log.metrics().size for log in self._tasks.logs(goes))
        pinned = self.used_bytes - deletable
        if pinned > budget * (1 + slack):
            raise InvalidSettingError(
                {
                    "logstore.disk.budget": f"{budget} bytes are less than the {pinned} that must be kept, in "
                    "topics that keep for ever or are compacted; raise the budget, set retention.ms for a topic, "
                    "or delete one"
                }
            )

    # -- counting

    def measure(self, *, all_files: bool = False) -> None:
        """Measure taken and free space; with ``all_files`` also files that no longer change."""
        with held(self._making):
            self._measure_locked(all_files=all_files)

    def _measure_locked(self, *, all_files: bool = False) -> None:
        with held(self._lock):
            self._granted = 0
        root = self._root
        # Before the files: bytes written meanwhile are counted twice then, instead of not at all.
        rooms = sum(log.maintenance.reserved_bytes for log in self._tasks.opened())
        known = {} if all_files else self._sizes
        self._sizes = {name: self._sizes_of(name, known.get(name, {})) for name in files.partitions_below(root)}
        taken = sum(sum(sizes.values()) for sizes in self._sizes.values())
        total, free = root.files.space(root.path)
        with held(self._lock):
            self.used_bytes = taken + rooms + self._granted
            self.limit_bytes = self.limits.of(taken, total, free)

    def _measure_one_locked(self, name: TopicPartition) -> None:
        """Measure one log after a deletion from it: with many partitions, measuring all of them takes long."""
        before = self._sizes.get(name, {})
        after = self._sizes[name] = self._sizes_of(name, before)
        with held(self._lock):
            # Free space has grown by as much, so the limit stays the same.
            self.used_bytes -= sum(before.values()) - sum(after.values())

    def _sizes_of(self, name: TopicPartition, known: dict[str, int]) -> dict[str, int]:
        directory = partition_directory(self._root, name)
        found: dict[str, int] = {}
        try:
            names = directory.names()
        except StorageError:
            return found
        bases = files.base_offsets(names)
        # Sealed files keep their size, except where a compaction replaces them; `all_files` finds that.
        active = files.segment_file(bases[-1], "") if bases else ""
        for file_name in names:
            size = known.get(file_name)
            if size is None or not files.belongs_to_a_segment(file_name) or file_name[:20] >= active:
                size = _size_on_disk(directory, file_name)
            found[file_name] = size
        return found

    def left(self) -> int:
        """Return the bytes that may still be reserved; negative if too much is taken."""
        return self.limit_bytes - self.used_bytes

    def slack(self) -> int:
        """Return how much space is kept free ahead of need."""
        return min(self.limit_bytes // _SLACK_SHARE, _SLACK_BYTES)

    # -- reserving, under a log's lock

    def reserve(self, name: TopicPartition, needed: int, *, refuses: bool) -> int:
        """Reserve space for a log, see `SpaceQuota.reserve`."""
        with held(self._lock):
            left = self.limit_bytes - self.used_bytes
            if refuses and needed > left:
                raise DiskBudgetError(
                    f"{name}: no room for {needed} bytes: the store takes {self.used_bytes} of the "
                    f"{self.limit_bytes} that it may, and nothing more can be deleted; delete records or a topic, "
                    "shorten a retention.ms, or raise logstore.disk.budget",
                    path=self._root.path,
                )
            granted = max(needed, min(GRANT_BYTES, left // 16))
            self.used_bytes += granted
            self._granted += granted
            return granted

    # -- reclaiming space, without any lock of a log

    def reclaim(self, needed: int) -> bool:
        """Delete in the stated order until ``needed`` bytes are free, and some ahead; return whether they are."""
        look = self._look()
        refused = self._refused
        if refused is not None and refused[0] == look and self._clock.monotonic_s() - refused[1] < _PATIENCE_S:
            return False
        with held(self._making):
            self._refused = None
            self._measure_locked()
            with contextlib.suppress(Interrupted):
                self._free_space_locked(needed)
            if self.left() >= needed:
                return True
            self._refused = (self._look(), self._clock.monotonic_s())
            return False

    def measure_and_reclaim(self) -> None:
        """Measure everything, and reclaim space ahead of need: for rare calls."""
        self.measure(all_files=True)
        self.reclaim_ahead()

    def reclaim_ahead(self) -> None:
        """Reclaim space ahead of need, by what is known: for frequent calls."""
        if self.left() < self.slack():
            self.reclaim(0)

    def _look(self) -> object:
        """Return a value that changes when records are deleted or limits changed."""
        starts = tuple((log.name, log.log_start_offset) for log in self._tasks.opened())
        return self.limits, starts

    def _free_space_locked(self, needed: int) -> None:
        wanted = max(needed, self.slack())
        if self.left() >= wanted:
            return
        self._tasks.retain()
        self._measure_locked(all_files=True)
        active_bytes = max(self.limit_bytes // _SLACK_SHARE, 1)
        heap: list[tuple[int, TopicPartition, Log]] = []
        # Records written from here on are left: a fast writer would keep this loop busy for ever.
        ends: dict[TopicPartition, int] = {}
        looked_again: set[TopicPartition] = set()

        def push(log: Log) -> None:
            if log.log_start_offset >= ends.setdefault(log.name, log.log_end_offset):
                return
            with contextlib.suppress(LogClosedError, StorageError):
                oldest = log.maintenance.oldest_segment(active_bytes)
                if oldest is not None:
                    heapq.heappush(heap, (oldest.timestamp_ms, log.name, log))

        if self.left() >= wanted:
            return
        for log in self._tasks.logs(self.may_go):
            push(log)
        while heap and self.left() < wanted:
            timestamp_ms, name, log = heapq.heappop(heap)
            try:
                oldest = log.maintenance.oldest_segment(active_bytes)
                if oldest is None:
                    continue
                if oldest.timestamp_ms != timestamp_ms and name not in looked_again:
                    # The segment is younger now, so another may be older. Once: an active one may be at any look.
                    looked_again.add(name)
                    push(log)
                    continue
                if not self.may_go(name.topic, log._config):
                    # Altered since, perhaps to be kept for ever.
                    continue
                log.delete_before(oldest.end_offset)
            except (LogClosedError, StorageError, OffsetOutOfRangeError) as error:
                _logger.warning("no room could be made: log=%s error=%s", name, error)
                continue
            _logger.warning(
                "deleted for want of room: log=%s log_start_offset=%d bytes=%d newest_ms=%d",
                name,
                oldest.end_offset,
                oldest.size,
                oldest.timestamp_ms,
            )
            self._measure_one_locked(name)
            push(log)


class _LogGate(SpaceQuota):
    """The quota of one log of a store."""

    def __init__(self, budget: DiskQuota, name: TopicPartition, *, refuses: bool) -> None:
        self._disk_quota = budget
        self._name = name
        self._refuses = refuses

    def reserve(self, needed: int) -> int:
        return self._disk_quota.reserve(self._name, needed, refuses=self._refuses)

    def reclaim(self, needed: int) -> bool:
        return self._disk_quota.reclaim(needed)


def _size_on_disk(directory: Directory, name: str) -> int:
    try:
        file = directory.open(name)
    except StorageError:
        # Deleted meanwhile.
        return 0
    with file:
        # Written bytes may have no blocks yet; preallocated ones are beyond the size.
        return max(file.size(), file.allocated_bytes())
