"""The root directory above the partitions: its lock and Kafka's checkpoints of all of them.

Kafka stores recovery points, log start offsets and high watermarks of all partitions in three text files in the
root. It also marks a clean shutdown there. While this process holds the root, these facts are in memory. The mark
and the recovery points are removed when the first log is open for writing, and written again when the last log is
closed. In between, the root's holder may write checkpoints that are behind the truth but never ahead of it: a
truncation removes them first.

Kafka's recovery points may lower ours, since Kafka may have written after us. Our own from before a crash must
not. They are old, and recovery would truncate below the recovery point instead of reporting damage.
``logstore.checkpoints`` tells the two apart. It holds the CRC-32C of the file that we wrote last, and of the next
one before it is written::

    logstore checkpoints 1
    1f9a2b44 0c81b7d2
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, NamedTuple, TypeVar

from logstore.batch._crc32c import crc32c
from logstore.clock import Clock
from logstore.dropped import release_all
from logstore.errors import CorruptRecordError, DirectoryLockedError, StorageError
from logstore.io._interrupts import guarded, shielded
from logstore.log.directory import files
from logstore.log.directory.files import Directory
from logstore.log.directory.lock import BRIEFLY_S, RootLock
from logstore.log.formats import checkpoints
from logstore.records import TopicPartition

_logger = logging.getLogger(__name__)

_R = TypeVar("_R")

#: Tells our recovery points from Kafka's.
CHECKPOINTS = "logstore.checkpoints"

#: In an adopted root: Kafka's metadata, wherever they are stored, assign the leader epochs of its partitions.
ADOPTED = "logstore.adopted"
#: Kafka's metadata, where they are stored in the root.
_CLUSTER_METADATA = "__cluster_metadata-0"

_MARK = re.compile(rb"logstore checkpoints 1\n([0-9a-f]{8}) ([0-9a-f]{8})\n")


class PartitionFacts(NamedTuple):
    """The root's facts about one partition; None for unknown."""

    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    clean_offset: int | None = None  #: the end of the compacted part; written for Kafka, never read


class _Shared:
    """The state of a root, shared by all logs of this process below it. Guarded by `RootLock.guarded`."""

    def __init__(self, directory: Directory) -> None:
        names = directory.names()
        self.facts, self.facts_are_ours = _read(directory, names)
        #: The root was shut down cleanly when it was locked: partitions not opened since are whole.
        self.was_clean = checkpoints.CLEAN_SHUTDOWN in names
        self.names = names
        self.begun = False
        self.unclean = False
        self.closed: set[TopicPartition] = set()  #: cleanly, by this process
        self.has_checkpoint = False
        #: Counts the changes that invalidate facts gathered before them.
        self.changes = 0

    def found(self, name: TopicPartition) -> PartitionFacts:
        """Return the facts for a log that is opened now."""
        facts = self.facts.get(name, PartitionFacts())
        return facts._replace(recovery_point=None) if self.facts_are_ours else facts


class Root:
    """One log's share of a root that the logs of this process share."""

    _shared: ClassVar[dict[RootLock, _Shared]] = {}

    def __init__(self, directory: Directory, lock: RootLock | None, facts: PartitionFacts) -> None:
        self.directory = directory
        self.found = facts  #: the root's facts about the partition when it was opened
        self._lock = lock
        self._is_begun = False

    @classmethod
    def open_for_writing(
        cls,
        directory: Directory,
        name: TopicPartition,
        clock: Clock,
        *,
        brief: bool = False,
        patient: bool = True,
    ) -> Root:
        """Lock the root for one of its partitions. Only the lock's file is changed before `begin`.

        Raises:
            DirectoryLockedError, ReadOnlyError: as `RootLock.acquire`.
        """
        if RootLock.is_taken(directory, str(name)):
            # A dropped log may still hold it. The wait is bounded: a release may itself wait for the caller.
            shielded(release_all, BRIEFLY_S)
        lock = RootLock.acquire(directory, str(name), clock, brief=brief, patient=patient)
        try:
            with RootLock.guarded():
                if lock not in cls._shared:
                    cls._shared[lock] = _Shared(directory)
                facts = cls._shared[lock].found(name)
        except BaseException:
            lock.release(str(name))
            raise
        return cls(directory, lock, facts)

    @classmethod
    def open_for_reading(cls, directory: Directory, name: TopicPartition) -> Root:
        """Read the root's facts about one of its partitions, without the lock."""
        return cls(directory, None, _Shared(directory).found(name))

    def is_kafkas(self) -> bool:
        """Return whether Kafka's metadata, and no log here, assign the leader epochs."""
        return is_kafkas(self.directory)

    def begin(self) -> None:
        """Remove the clean shutdown mark and the recovery points: the log is recovered and will change.

        Not earlier: a log that recovery refuses leaves its root as it was.
        """
        lock = self._lock
        assert lock is not None
        with RootLock.guarded():
            shared = self._shared[lock]
            if not shared.begun:
                # The names are those found at locking: only the lock's holder writes these files.
                _take_away(self.directory, shared.names)
                shared.begun = True
        self._is_begun = True

    def release(self, name: TopicPartition, facts: PartitionFacts | None) -> None:
        """Release the root; ``facts`` are those of a log that was closed cleanly, else None.

        The last log of the process to release it writes the checkpoints.
        """
        lock = self._lock
        if lock is None:
            return
        self._lock = None
        with RootLock.guarded():
            shared = self._shared.get(lock)
            if shared is not None:
                if facts is not None:
                    shared.facts[name] = facts
                    shared.closed.add(name)
                elif self._is_begun:
                    shared.unclean = True
                    shared.facts.pop(name, None)
                    shared.closed.discard(name)
                if lock.is_last(str(name)):
                    if shared.begun:
                        self._write_checkpoints(shared)
                    del self._shared[lock]
        lock.release(str(name))

    def forget(self, names: Iterable[TopicPartition]) -> None:
        """Remove the facts of partitions that are about to be removed. Durable on return.

        Otherwise, after a crash, a later partition of the same name could appear to begin at the old
        one's log start offset.
        """
        with RootLock.guarded():
            if self._lock is None:
                return
            shared = self._shared[self._lock]
            shared.changes += 1
            known = False
            for name in names:
                known = shared.facts.pop(name, None) is not None or known
                shared.closed.discard(name)
            if known or shared.has_checkpoint:
                _forget(self.directory, shared.facts)
                shared.has_checkpoint = False

    def withdraw(self) -> None:
        """Remove the recovery points written since `begin`: a log is about to be truncated below one.

        Durable on return. Kafka would trust bytes that are written in place of the truncated ones unchecked.
        """
        with RootLock.guarded():
            if self._lock is None:
                return
            shared = self._shared[self._lock]
            shared.changes += 1
            if shared.has_checkpoint:
                _take_away(self.directory, self.directory.names())
                shared.has_checkpoint = False

    def checkpoint_token(self) -> int:
        """Return the token for `checkpoint`; to be called before its facts are gathered."""
        with RootLock.guarded():
            return -1 if self._lock is None else self._shared[self._lock].changes

    def checkpoint(self, facts: Mapping[TopicPartition, PartitionFacts], token: int) -> bool:
        """Write the checkpoints while logs are open; return False, unwritten, if facts may have become too high.

        ``facts`` are those of open logs; the known facts of the others stay.
        """
        with RootLock.guarded():
            shared = None if self._lock is None else self._shared[self._lock]
            if shared is None or not shared.begun or shared.changes != token:
                return False
            shared.has_checkpoint = True
            _write(self.directory, {**shared.facts, **facts}, whole=True)
            return True

    def _write_checkpoints(self, shared: _Shared) -> None:
        try:
            _write(self.directory, shared.facts, whole=False)
            if not shared.unclean and (shared.was_clean or _all_clean(self.directory, shared.closed)):
                with contextlib.suppress(StorageError):
                    checkpoints.mark_clean_shutdown(self.directory)
        except StorageError as error:
            # Not fatal: checkpoints are hints for a quick start, and without them the next open scans.
            _logger.warning("checkpoints not written: root=%s error=%s", self.directory.path, error)


class StoreLock:
    """The right of this process to write below a root, for as long as a store is open.

    Meanwhile its logs are opened and closed as they are used; the root stays locked. It is shut down
    cleanly, with its checkpoints written, when the hold is released last.
    """

    #: Stands for the partition's name among the sharers of the lock; no topic is called "".
    _NAME = TopicPartition("", 0)

    def __init__(self, directory: Directory, root: Root) -> None:
        self.directory = directory
        self.root = root

    @classmethod
    def acquire(cls, directory: Directory, clock: Clock, *, brief: bool = False, patient: bool = True) -> StoreLock:
        """Lock the root; see `RootLock.acquire`.

        Raises:
            DirectoryLockedError: another process writes below the root, or another store of this process.
            ReadOnlyError: the root cannot be written.
        """
        name = str(cls._NAME)
        if RootLock.is_taken(directory, name):
            # A dropped store may still hold it.
            shielded(release_all, BRIEFLY_S)
        if RootLock.is_taken(directory, name):
            raise DirectoryLockedError(
                f"pid {os.getpid()}, this process, already has the store open for writing; share that Store, or "
                "open this one with read_only=True",
                path=directory.path,
            )
        return cls(directory, Root.open_for_writing(directory, cls._NAME, clock, brief=brief, patient=patient))

    def release(self) -> None:
        """Release the root. The logs are closed before, each with its own facts."""
        self.root.release(self._NAME, None)


def under_lock(directory: Directory, clock: Clock, step: Callable[[], _R]) -> _R:
    """Call a step while the root is locked for this process; an interrupt anywhere releases the lock.

    Raises:
        DirectoryLockedError, ReadOnlyError: as `StoreLock.acquire`.
    """
    taken: list[StoreLock] = []

    def locked() -> _R:
        # In one step: an interrupt between acquiring and appending would lose the hold.
        shielded(lambda: taken.append(StoreLock.acquire(directory, clock)))
        return step()

    def free() -> None:
        for hold in taken:
            shielded(hold.release)

    return guarded(locked, free)


def is_kafkas(root: Directory) -> bool:
    """Return whether Kafka's metadata assign the leader epochs below a root: it was adopted."""
    names = root.names()
    return ADOPTED in names or _CLUSTER_METADATA in names


def _read(directory: Directory, names: list[str]) -> tuple[dict[TopicPartition, PartitionFacts], bool]:
    """Read the root's facts about its partitions, and whether logstore wrote them last."""
    columns = []
    ours = False
    for name in (checkpoints.RECOVERY_POINTS, checkpoints.LOG_START_OFFSETS, checkpoints.HIGH_WATERMARKS):
        data = directory.read(name, names) or b""
        if name == checkpoints.RECOVERY_POINTS:
            ours = name in names and crc32c(data) in _marked(directory)
        try:
            columns.append(checkpoints.read_offsets(data, directory.join(name)))
        except CorruptRecordError as error:
            # Not fatal: these files may only lower a recovery point; each partition has its own recovery file.
            _logger.warning("checkpoint passed over: %s", error)
            columns.append({})
    recovery, starts, watermarks = columns
    facts = {
        name: PartitionFacts(recovery.get(name), starts.get(name), watermarks.get(name))
        for name in {*recovery, *starts, *watermarks}
    }
    return facts, ours


def _marked(directory: Directory) -> tuple[int, ...]:
    """Return the checksums of recovery points that we have written, or were about to write."""
    match = _MARK.fullmatch(directory.read(CHECKPOINTS) or b"")
    return () if match is None else (int(match[1], 16), int(match[2], 16))


def _all_clean(directory: Directory, closed: set[TopicPartition]) -> bool:
    """Return whether every partition is clean, including those that this process has not opened.

    After an unclean stop, opening and closing one log proves nothing about the others. With the mark of a clean
    shutdown Kafka would check none.
    """
    for name in files.partitions_below(directory):
        if name not in closed:
            partition = Directory(directory.join(str(name)), directory.files)
            point = checkpoints.decode_slots(partition.read(checkpoints.RECOVERY) or b"")
            if (point is None or not point.clean) and files.base_offsets(partition.names()):
                return False
    return True


def _take_away(directory: Directory, names: list[str]) -> None:
    # A clean offset that a truncation has made too high would let Kafka bring deleted keys back.
    ours = (checkpoints.CLEAN_SHUTDOWN, checkpoints.RECOVERY_POINTS, checkpoints.CLEANER_OFFSETS)
    stale = [name for name in ours if name in names]
    for name in stale:
        directory.remove(name)
    if stale:
        directory.sync()


def _forget(directory: Directory, facts: Mapping[TopicPartition, PartitionFacts]) -> None:
    """Rewrite the checkpoints with the facts of the other partitions."""
    # Facts of open logs are out of date: their recovery points may be too high by now.
    _take_away(directory, directory.names())
    starts = {name: f.log_start_offset for name, f in facts.items() if f.log_start_offset is not None}
    marks = {name: f.high_watermark for name, f in facts.items() if f.high_watermark is not None}
    directory.replace(checkpoints.LOG_START_OFFSETS, checkpoints.write_offsets(starts), durable=False, whole=True)
    directory.replace(checkpoints.HIGH_WATERMARKS, checkpoints.write_offsets(marks), durable=True)


def _write(directory: Directory, facts: Mapping[TopicPartition, PartitionFacts], *, whole: bool) -> None:
    columns = (
        (checkpoints.RECOVERY_POINTS, {n: f.recovery_point for n, f in facts.items()}),
        (checkpoints.LOG_START_OFFSETS, {n: f.log_start_offset for n, f in facts.items()}),
        (checkpoints.HIGH_WATERMARKS, {n: f.high_watermark for n, f in facts.items()}),
        (checkpoints.CLEANER_OFFSETS, {n: f.clean_offset for n, f in facts.items()}),
    )
    for name, column in columns:
        known = {partition: offset for partition, offset in column.items() if offset is not None}
        if not known and name == checkpoints.CLEANER_OFFSETS:
            continue
        data = checkpoints.write_offsets(known)
        if name == checkpoints.RECOVERY_POINTS:
            # Both checksums are in the mark: a crash may leave either file, and both are ours.
            before = crc32c(directory.read(name) or b"")
            before = before if before in _marked(directory) else crc32c(data)
            mark = b"logstore checkpoints 1\n%08x %08x\n" % (before, crc32c(data))
            directory.replace(CHECKPOINTS, mark, durable=False, whole=whole)
        directory.replace(name, data, durable=False, whole=whole)
