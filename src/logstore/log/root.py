"""The root directory above the partitions: its lock and Kafka's checkpoints of all of them.

Kafka keeps recovery points, log start offsets and high watermarks of all partitions in three text
files in the root, and marks a clean shutdown there. While this process holds the root, these facts
stand in memory; the files are taken away when the first log is open for writing, so that a crash
leaves "unknown" and never something stale, and written anew when the last log is closed.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections import deque
from typing import ClassVar, NamedTuple

from logstore.clock import Clock
from logstore.errors import CorruptRecordError, DirectoryLockedError, StorageError
from logstore.log import checkpoint
from logstore.log.files import Directory, RootLock
from logstore.records import TopicPartition

_logger = logging.getLogger(__name__)


class PartitionFacts(NamedTuple):
    """What the root says of one partition; None where it says nothing."""

    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    clean_offset: int | None = None  #: how far it is compacted; written for Kafka, never read


class Root:
    """One root as the logs of this process share it."""

    _facts: ClassVar[dict[RootLock, dict[TopicPartition, PartitionFacts]]] = {}
    _unclean: ClassVar[set[RootLock]] = set()
    _begun: ClassVar[set[RootLock]] = set()
    _dropped: ClassVar[deque[tuple[Root, TopicPartition]]] = deque()

    def __init__(self, directory: Directory, lock: RootLock | None, facts: PartitionFacts) -> None:
        self.directory = directory
        self.found = facts  #: what the root said of the partition when it was opened
        self._lock = lock
        self._is_begun = False

    @classmethod
    def open_for_writing(cls, directory: Directory, name: TopicPartition, clock: Clock) -> Root:
        """Lock the root for one of its partitions. Nothing but the lock's file is changed before `begin`.

        Raises:
            DirectoryLockedError, ReadOnlyError: as `RootLock.acquire`.
        """
        cls._release_dropped()
        lock = RootLock.acquire(directory, str(name), clock)
        try:
            with RootLock.guarded():
                if lock not in cls._facts:
                    cls._facts[lock] = _read(directory)
                facts = cls._facts[lock].get(name, PartitionFacts())
        except BaseException:
            lock.release(str(name))
            raise
        return cls(directory, lock, facts)

    @classmethod
    def open_for_reading(cls, directory: Directory, name: TopicPartition) -> Root:
        """Read what the root says of one of its partitions, without the lock."""
        return cls(directory, None, _read(directory).get(name, PartitionFacts()))

    def begin(self) -> None:
        """Take away what says that the root is at rest: the partition's log is whole and will change.

        Not earlier: a log that recovery refuses leaves its root as it was.
        """
        lock = self._lock
        assert lock is not None
        with RootLock.guarded():
            if lock not in self._begun:
                _take_away(self.directory)
                self._begun.add(lock)
        self._is_begun = True

    def release(self, name: TopicPartition, facts: PartitionFacts | None) -> None:
        """Give the root back; ``facts`` of a log that was closed cleanly, None of one that was not.

        The last log of the process to go writes the checkpoints.
        """
        lock = self._lock
        if lock is None:
            return
        self._lock = None
        with RootLock.guarded():
            known = self._facts.get(lock, {})
            if facts is not None:
                known[name] = facts
            elif self._is_begun:
                self._unclean.add(lock)
                known.pop(name, None)
            if lock.is_last(str(name)):
                if lock in self._begun:
                    self._write_checkpoints(known, clean=lock not in self._unclean)
                self._facts.pop(lock, None)
                self._unclean.discard(lock)
                self._begun.discard(lock)
        lock.release(str(name))
        self._release_dropped()

    def forget(self, name: TopicPartition) -> None:
        """Take a partition out of what will be written, which is about to be removed."""
        with RootLock.guarded():
            if self._lock is not None:
                self._facts.get(self._lock, {}).pop(name, None)

    def drop(self, name: TopicPartition) -> None:
        """As `release` for a log that was never closed; may be called from the collector of cycles.

        That runs in the middle of anything, perhaps of an open or a close in this very thread: then
        the root is given back by whoever opens or closes the next log.
        """
        self._dropped.append((self, name))
        if not RootLock.is_guarded():
            self._release_dropped()

    @classmethod
    def _release_dropped(cls) -> None:
        while cls._dropped:
            with contextlib.suppress(IndexError):  # another thread has taken it
                root, name = cls._dropped.popleft()
                root.release(name, None)

    def _write_checkpoints(self, known: dict[TopicPartition, PartitionFacts], *, clean: bool) -> None:
        try:
            _write(self.directory, known, clean=clean)
        except StorageError as error:
            # Hints for a quick start: without them the next open scans.
            _logger.warning("checkpoints not written: root=%s error=%s", self.directory.path, error)


class RootHold:
    """The right of this process to write below a root, for as long as a store is open.

    Between, its logs come and go as they are used; the root stays locked, and is at rest again, with
    its checkpoints written, when the hold is given back last.
    """

    #: Where a log has its partition's name among those who share the lock.
    _NAME = TopicPartition("", -1)

    def __init__(self, directory: Directory, root: Root) -> None:
        self.directory = directory
        self._root = root

    @classmethod
    def acquire(cls, directory: Directory, clock: Clock) -> RootHold:
        """Lock the root.

        Raises:
            DirectoryLockedError: another process writes below it, or another store of this one.
            ReadOnlyError: it cannot be written.
        """
        if RootLock.is_taken(directory, str(cls._NAME)):
            raise DirectoryLockedError(
                f"pid {os.getpid()}, this process, has the store open for writing already; share that Store, or "
                "open this one with read_only=True",
                path=directory.path,
            )
        return cls(directory, Root.open_for_writing(directory, cls._NAME, clock))

    def forget(self, name: TopicPartition) -> None:
        """Say no more of a partition in the checkpoints: it is being removed."""
        self._root.forget(name)

    def release(self) -> None:
        """Give the right back. The logs are closed before, each with what it knows."""
        self._root.release(self._NAME, None)


def _read(directory: Directory) -> dict[TopicPartition, PartitionFacts]:
    columns = []
    for name in (checkpoint.RECOVERY_POINTS, checkpoint.LOG_START_OFFSETS, checkpoint.HIGH_WATERMARKS):
        columns.append(_column(directory, name))
    recovery, starts, watermarks = columns
    return {
        name: PartitionFacts(recovery.get(name), starts.get(name), watermarks.get(name))
        for name in {*recovery, *starts, *watermarks}
    }


def _column(directory: Directory, name: str) -> dict[TopicPartition, int]:
    data = directory.read(name)
    if data is None:
        return {}
    try:
        return checkpoint.read_offsets(data, directory.join(name))
    except CorruptRecordError as error:
        # These files may only make a recovery more careful; each partition has its own promises.
        _logger.warning("checkpoint passed over: %s", error)
        return {}


def _take_away(directory: Directory) -> None:
    found = set(directory.names())
    # A clean offset that a truncation has made too high would let Kafka bring deleted keys back.
    ours = (checkpoint.CLEAN_SHUTDOWN, checkpoint.RECOVERY_POINTS, checkpoint.CLEANER_OFFSETS)
    stale = [name for name in ours if name in found]
    for name in stale:
        directory.remove(name)
    if stale:
        directory.sync()


def _write(directory: Directory, facts: dict[TopicPartition, PartitionFacts], *, clean: bool) -> None:
    columns = (
        (checkpoint.RECOVERY_POINTS, {n: f.recovery_point for n, f in facts.items()}),
        (checkpoint.LOG_START_OFFSETS, {n: f.log_start_offset for n, f in facts.items()}),
        (checkpoint.HIGH_WATERMARKS, {n: f.high_watermark for n, f in facts.items()}),
        (checkpoint.CLEANER_OFFSETS, {n: f.clean_offset for n, f in facts.items()}),
    )
    for name, column in columns:
        known = {partition: offset for partition, offset in column.items() if offset is not None}
        if known or name != checkpoint.CLEANER_OFFSETS:
            directory.replace(name, checkpoint.write_offsets(known), durable=False)
    if clean:
        with contextlib.suppress(StorageError):
            checkpoint.mark_clean_shutdown(directory)
