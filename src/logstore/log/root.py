"""The root directory above the partitions: its lock and Kafka's checkpoints of all of them.

Kafka stores recovery points, log start offsets and high watermarks of all partitions in three text files in the
root, and the ends of compactions in a fourth. An empty file marks a clean shutdown. While this process holds the
root, these facts are in memory. The mark and the recovery points are removed when the first log is open for
writing, and written again when the last log is closed. In between, the process may write checkpoints with lower
offsets than the logs have, never with higher ones: a truncation removes them first.

Recovery points that Kafka wrote may lower ours, since Kafka may have written the logs after us. Recovery points
that logstore wrote to the root before a crash must not lower them. They are older than those of the logs: recovery
would then truncate damaged bytes that were synced, instead of reporting them. ``logstore.checkpoints`` tells the
two apart. It has the CRC-32C of the file that logstore wrote last, and of the next one before it is written::

    logstore checkpoints 1
    1f9a2b44 0c81b7d2
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, NamedTuple, TypeVar

from logstore.batch._crc32c import crc32c
from logstore.clock import Clock
from logstore.dropped import release_all
from logstore.errors import CorruptRecordError, DirectoryLockedError, StorageError
from logstore.io._interrupts import guarded, held, shielded
from logstore.log.directory import files
from logstore.log.directory.files import Directory
from logstore.log.directory.lock import BRIEFLY_S, RootLock
from logstore.log.formats import checkpoints
from logstore.records import TopicPartition

_logger = logging.getLogger(__name__)

_R = TypeVar("_R")

#: Tells our recovery points from Kafka's.
CHECKPOINTS = "logstore.checkpoints"

#: Marks an adopted root (one that Kafka wrote). Kafka's metadata assign the leader epochs of its partitions.
ADOPTED = "logstore.adopted"
#: The directory of Kafka's metadata, in a root that holds them.
_CLUSTER_METADATA = "__cluster_metadata-0"

_MARK = re.compile(rb"logstore checkpoints 1\n([0-9a-f]{8}) ([0-9a-f]{8})\n")


class PartitionFacts(NamedTuple):
    """The root's facts about one partition; None for unknown."""

    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    clean_offset: int | None = None  #: the end of the compacted part; written for Kafka, never read


class SyncedNames:
    """Which logs of a root have their directories' names on disk: those opened before its last sync began."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # held by a sync, so that one is made for all that wait for it
        self.newest = 0  #: the number of the log that was opened last
        self.synced = 0  #: logs up to this number are on disk


class NameInRoot(Directory):
    """The root directory as one log syncs it: to have the name of its own directory on disk.

    One sync serves every log that is open when it begins. Closing thousands costs one, not one each.
    """

    def __init__(self, root: Directory, names: SyncedNames) -> None:
        super().__init__(root.path, root.files)
        self._names = names
        self._number: int | None = None

    def exists_now(self) -> None:
        """Note that the directory of the log exists: syncs that begin from now on make its name durable."""
        with RootLock.guarded():
            self._names.newest += 1
            self._number = self._names.newest

    def sync(self) -> None:
        names, number = self._names, self._number
        with held(names.lock):
            if number is not None and number <= names.synced:
                return
            newest = names.newest
            super().sync()
            names.synced = newest


class _Shared:
    """The state of a root, shared by all logs of this process below it. Guarded by `RootLock.guarded`."""

    def __init__(self, directory: Directory) -> None:
        names = directory.names()
        self.facts, self.facts_are_ours = _read(directory, names)
        #: Whether the root was shut down cleanly before: then partitions that were not opened since are whole.
        self.was_clean = checkpoints.CLEAN_SHUTDOWN in names
        self.names = names
        self.begun = False
        self.unclean = False
        self.closed: set[TopicPartition] = set()  #: partitions that this process has closed cleanly
        self.has_checkpoint = False
        #: The number of changes (deletions, truncations) that make facts gathered earlier invalid.
        self.changes = 0
        self.synced_names = SyncedNames()

    def found(self, name: TopicPartition) -> PartitionFacts:
        """Return the facts about a partition, for its log that is being opened."""
        facts = self.facts.get(name, PartitionFacts())
        return facts._replace(recovery_point=None) if self.facts_are_ours else facts


class Root:
    """The root as one log uses it. All logs of this process below the root share its lock and facts."""

    _shared: ClassVar[dict[RootLock, _Shared]] = {}

    def __init__(
        self, directory: Directory, lock: RootLock | None, facts: PartitionFacts, names: SyncedNames | None = None
    ) -> None:
        self._files = directory
        self.directory = NameInRoot(directory, SyncedNames() if names is None else names)
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
        """Lock the root for one of its partitions. Until `begin`, only the lock file is changed.

        Raises:
            DirectoryLockedError, ReadOnlyError: as `RootLock.acquire`.
        """
        if RootLock.is_taken(directory, str(name)):
            # A dropped log may still hold the root. The wait is bounded: its release may wait for the caller.
            shielded(release_all, BRIEFLY_S)
        lock = RootLock.acquire(directory, str(name), clock, brief=brief, patient=patient)
        try:
            with RootLock.guarded():
                if lock not in cls._shared:
                    cls._shared[lock] = _Shared(directory)
                shared = cls._shared[lock]
                facts = shared.found(name)
        except BaseException:
            lock.release(str(name))
            raise
        return cls(directory, lock, facts, shared.synced_names)

    @classmethod
    def open_for_reading(cls, directory: Directory, name: TopicPartition) -> Root:
        """Read the root's facts about one of its partitions, without the lock."""
        return cls(directory, None, _Shared(directory).found(name))

    def is_kafkas(self) -> bool:
        """Return whether Kafka's metadata, and no log here, assign the leader epochs."""
        return is_kafkas(self._files)

    def begin(self) -> None:
        """Remove the clean shutdown mark and the recovery points, once the log is recovered and may change.

        It must not be called before: if recovery refuses the log, the root stays as it was.
        """
        lock = self._lock
        assert lock is not None
        with RootLock.guarded():
            shared = self._shared[lock]
            if not shared.begun:
                # The names were listed when the root was locked: only the lock's holder writes these files.
                _take_away(self._files, shared.names)
                shared.begun = True
        self._is_begun = True
        self.directory.exists_now()

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
        """Remove the facts of partitions that are about to be deleted. Durable on return.

        Otherwise, after a crash, a later partition of the same name could get the log start offset of the old one.
        """
        with RootLock.guarded():
            if self._lock is None:
                return
            shared = self._shared[self._lock]
            shared.changes += 1
            for name in names:
                # Until the files are written without it, as when this call fails on a full disk and is repeated.
                shared.has_checkpoint = shared.facts.pop(name, None) is not None or shared.has_checkpoint
                shared.closed.discard(name)
            if shared.has_checkpoint:
                _forget(self._files, shared.facts)
                shared.has_checkpoint = False

    def withdraw(self) -> None:
        """Remove the recovery points written since `begin`, before a log is truncated. Durable on return.

        Kafka does not check bytes below a recovery point. So it would trust what is later written in place of
        the truncated bytes.
        """
        with RootLock.guarded():
            if self._lock is None:
                return
            shared = self._shared[self._lock]
            shared.changes += 1
            if shared.has_checkpoint:
                if not _take_away(self._files):
                    # An earlier call removed them and failed at its sync.
                    self._files.sync()
                shared.has_checkpoint = False

    def lower_high_watermark(self, name: TopicPartition, offset: int) -> None:
        """Lower a partition's high watermark before its log is truncated below it. Durable on return.

        Otherwise, after a crash, records that are appended later would count as replicated.
        """
        with RootLock.guarded():
            if self._lock is None:
                return
            shared = self._shared[self._lock]
            shared.changes += 1
            known = shared.facts.get(name, PartitionFacts())
            if shared.has_checkpoint or (known.high_watermark or 0) > offset:
                shared.facts[name] = known._replace(high_watermark=offset)
                _write_high_watermarks(self._files, shared.facts)

    def checkpoint_token(self) -> int:
        """Return a token for `checkpoint`. Call this before the facts for it are gathered."""
        with RootLock.guarded():
            return -1 if self._lock is None else self._shared[self._lock].changes

    def checkpoint(self, facts: Mapping[TopicPartition, PartitionFacts], token: int) -> bool:
        """Write the checkpoints while logs are open; return whether they were written.

        ``facts`` are those of open logs; the known facts of other logs stay. Nothing is written if a log was
        truncated or deleted since `checkpoint_token`: the facts may then be too high.
        """
        with RootLock.guarded():
            shared = None if self._lock is None else self._shared[self._lock]
            if shared is None or not shared.begun or shared.changes != token:
                return False
            shared.has_checkpoint = True
            _write(self._files, {**shared.facts, **facts}, whole=True)
            return True

    def _write_checkpoints(self, shared: _Shared) -> None:
        try:
            _write(self._files, shared.facts, whole=False)
            if not shared.unclean and (shared.was_clean or _all_clean(self._files, shared.closed)):
                with contextlib.suppress(StorageError):
                    checkpoints.mark_clean_shutdown(self._files)
        except StorageError as error:
            # Not fatal: checkpoints are hints for a quick start, and without them the next open scans.
            _logger.warning("checkpoints not written: root=%s error=%s", self._files.path, error)


class StoreLock:
    """The lock of an open store: the right of this process to write below the root.

    The logs of the store are opened and closed as they are used; the root stays locked. The store releases this
    lock after its logs are closed. The checkpoints are written then, and the mark if all logs are clean.
    """

    #: Used in place of a partition's name in the list of the lock's users; no topic is named "".
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
            # A dropped store may still hold the lock.
            shielded(release_all, BRIEFLY_S)
        if RootLock.is_taken(directory, name):
            raise DirectoryLockedError(
                f"pid {os.getpid()}, this process, already has the store open for writing; share that Store, or "
                "open this one with read_only=True",
                path=directory.path,
            )
        return cls(directory, Root.open_for_writing(directory, cls._NAME, clock, brief=brief, patient=patient))

    def release(self) -> None:
        """Release the root. The caller has closed the logs; each has recorded its facts."""
        self.root.release(self._NAME, None)


def under_lock(directory: Directory, clock: Clock, step: Callable[[], _R]) -> _R:
    """Call a step while the root is locked for this process; an interrupt anywhere releases the lock.

    Raises:
        DirectoryLockedError, ReadOnlyError: as `StoreLock.acquire`.
    """
    taken: list[StoreLock] = []

    def locked() -> _R:
        # In one step: an interrupt between the two would leave the root locked.
        shielded(lambda: taken.append(StoreLock.acquire(directory, clock)))
        return step()

    def free() -> None:
        for hold in taken:
            shielded(hold.release)

    return guarded(locked, free)


def is_kafkas(root: Directory) -> bool:
    """Return whether Kafka's metadata assign the leader epochs below a root: it was adopted, or holds them.

    The root is not listed: after a crash, each log that is opened asks this.
    """
    metadata = Directory(root.join(_CLUSTER_METADATA), root.files)
    return root.read(ADOPTED) is not None or metadata.exists()


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
            # Not fatal: such a file can only lower a recovery point, and each partition has its own recovery file.
            _logger.warning("checkpoint passed over: %s", error)
            columns.append({})
    recovery, starts, watermarks = columns
    facts = {
        name: PartitionFacts(recovery.get(name), starts.get(name), watermarks.get(name))
        for name in {*recovery, *starts, *watermarks}
    }
    return facts, ours


def _marked(directory: Directory) -> tuple[int, ...]:
    """Return the checksums of the recovery points that logstore has written, or was about to write."""
    match = _MARK.fullmatch(directory.read(CHECKPOINTS) or b"")
    return () if match is None else (int(match[1], 16), int(match[2], 16))


def _all_clean(directory: Directory, closed: set[TopicPartition]) -> bool:
    """Return whether every partition is clean, including those that this process has not opened.

    After an unclean stop, opening and closing one log proves nothing about the others. If the root has the mark of
    a clean shutdown, Kafka checks no log.
    """
    for name in files.partition_names(directory.names(), closed):
        partition = Directory(directory.join(name), directory.files)
        with files.passing(errno.ENOTDIR):  # a file that is named as a partition
            point = checkpoints.decode_slots(partition.read(checkpoints.RECOVERY) or b"")
            # A partition that is clean is not listed.
            if (point is None or not point.clean) and files.base_offsets(partition.names_if_there() or []):
                return False
    return True


def _take_away(directory: Directory, names: list[str] | None = None) -> bool:
    """Remove the mark and the checkpoints that may be too high; return whether any was there.

    Without ``names`` each is asked for by its own name: a listing costs more, the more partitions there are.
    """
    # A cleaner offset that is too high after a truncation would let Kafka bring deleted keys back.
    ours = (checkpoints.CLEAN_SHUTDOWN, checkpoints.RECOVERY_POINTS, checkpoints.CLEANER_OFFSETS)
    removed = [directory.remove(name) for name in ours if names is None or name in names]
    # A name that was listed, and is gone now, was removed by an earlier call that failed at its sync.
    was_there = any(removed) if names is None else bool(removed)
    if was_there:
        directory.sync()
    return was_there


def _forget(directory: Directory, facts: Mapping[TopicPartition, PartitionFacts]) -> None:
    """Rewrite the checkpoints with the facts of the other partitions."""
    # The recovery points are removed, not rewritten: those of open logs may be too high by now.
    _take_away(directory)
    starts = {name: f.log_start_offset for name, f in facts.items() if f.log_start_offset is not None}
    directory.replace(checkpoints.LOG_START_OFFSETS, checkpoints.write_offsets(starts), durable=False, whole=True)
    _write_high_watermarks(directory, facts)


def _write_high_watermarks(directory: Directory, facts: Mapping[TopicPartition, PartitionFacts]) -> None:
    marks = {name: f.high_watermark for name, f in facts.items() if f.high_watermark is not None}
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
            # `logstore.checkpoints` has both checksums: after a crash the old or the new file is there, both ours.
            before = crc32c(directory.read(name) or b"")
            before = before if before in _marked(directory) else crc32c(data)
            mark = b"logstore checkpoints 1\n%08x %08x\n" % (before, crc32c(data))
            directory.replace(CHECKPOINTS, mark, durable=False, whole=whole)
        directory.replace(name, data, durable=False, whole=whole)
