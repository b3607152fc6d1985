"""The root directory above the partitions: its lock and Kafka's checkpoints of all of them.

Kafka keeps recovery points, log start offsets and high watermarks of all partitions in three text
files in the root, and marks a clean shutdown there. While this process holds the root, these facts
stand in memory; the mark and the recovery points are taken away when the first log is open for
writing, and written anew when the last log is closed. Between, whoever keeps the root may write
checkpoints that are behind the truth but never before it: a truncation takes them away first.

Kafka's recovery points make ours more careful, since Kafka may have written after us. Our own from
before a crash must not: they are old, and would have a recovery look again at what is known to be
on disk, and cut there instead of speaking of damage. ``logstore.checkpoints`` tells the two apart: it
holds the CRC-32C of the file that we wrote last, and of the one that we are about to write::

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

#: Tells recovery points of ours from Kafka's.
CHECKPOINTS = "logstore.checkpoints"

#: In a root that was adopted: Kafka's metadata name the leader epochs of what lies below, wherever they are.
ADOPTED = "logstore.adopted"
#: Those metadata, where they are in the root.
_CLUSTER_METADATA = "__cluster_metadata-0"

_MARK = re.compile(rb"logstore checkpoints 1\n([0-9a-f]{8}) ([0-9a-f]{8})\n")


class PartitionFacts(NamedTuple):
    """What the root says of one partition; None where it says nothing."""

    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    clean_offset: int | None = None  #: how far it is compacted; written for Kafka, never read


class _Shared:
    """What all logs of this process that share a root's lock know of it. Guarded by `RootLock.guarded`."""

    def __init__(self, directory: Directory) -> None:
        names = directory.names()
        self.facts, self.facts_are_ours = _read(directory, names)
        #: At rest when it was locked: what nobody has opened since is whole.
        self.was_clean = checkpoints.CLEAN_SHUTDOWN in names
        self.names = names
        self.begun = False
        self.unclean = False
        self.closed: set[TopicPartition] = set()  #: cleanly, by this process
        self.has_checkpoint = False
        #: Counts what makes facts that were gathered before it wrong.
        self.changes = 0

    def found(self, name: TopicPartition) -> PartitionFacts:
        """What a log that is opened now shall be told."""
        facts = self.facts.get(name, PartitionFacts())
        return facts._replace(recovery_point=None) if self.facts_are_ours else facts


class Root:
    """One root as the logs of this process share it."""

    _shared: ClassVar[dict[RootLock, _Shared]] = {}

    def __init__(self, directory: Directory, lock: RootLock | None, facts: PartitionFacts) -> None:
        self.directory = directory
        self.found = facts  #: what the root said of the partition when it was opened
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
        """Lock the root for one of its partitions. Nothing but the lock's file is changed before `begin`.

        Raises:
            DirectoryLockedError, ReadOnlyError: as `RootLock.acquire`.
        """
        if RootLock.is_taken(directory, str(name)):
            # Perhaps by what was dropped. Not for ever: what is released may wait for the caller.
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
        """Read what the root says of one of its partitions, without the lock."""
        return cls(directory, None, _Shared(directory).found(name))

    def is_kafkas(self) -> bool:
        """Whether Kafka's metadata, and no log here, say which leader epochs there are."""
        return is_kafkas(self.directory)

    def begin(self) -> None:
        """Take away what says that the root is at rest: the partition's log is whole and will change.

        Not earlier: a log that recovery refuses leaves its root as it was.
        """
        lock = self._lock
        assert lock is not None
        with RootLock.guarded():
            shared = self._shared[lock]
            if not shared.begun:
                # Nobody else writes these files while the lock is held.
                _take_away(self.directory, shared.names)
                shared.begun = True
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
        """Say no more of partitions that are about to be removed. Durable on return.

        Else one of the same name that is made later could be taken, after a crash, to begin where the
        old one did.
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
        """Take away the recovery points that were written since: a log is about to be cut below one.

        Durable on return. Kafka would believe bytes that are written in their place without looking.
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
        """To be asked for before facts are gathered for `checkpoint`."""
        with RootLock.guarded():
            return -1 if self._lock is None else self._shared[self._lock].changes

    def checkpoint(self, facts: Mapping[TopicPartition, PartitionFacts], token: int) -> bool:
        """Write the checkpoints while logs are open; False, and nothing is, if facts have become too high.

        ``facts`` are those of open logs; what is known of the others stays.
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
            # Hints for a quick start: without them the next open scans.
            _logger.warning("checkpoints not written: root=%s error=%s", self.directory.path, error)


class RootHold:
    """The right of this process to write below a root, for as long as a store is open.

    Between, its logs come and go as they are used; the root stays locked, and is at rest again, with
    its checkpoints written, when the hold is given back last.
    """

    #: Where a log has its partition's name among those who share the lock; no topic is called "".
    _NAME = TopicPartition("", 0)

    def __init__(self, directory: Directory, root: Root) -> None:
        self.directory = directory
        self._root = root

    @classmethod
    def acquire(cls, directory: Directory, clock: Clock, *, brief: bool = False, patient: bool = True) -> RootHold:
        """Lock the root; see `RootLock.acquire`.

        Raises:
            DirectoryLockedError: another process writes below it, or another store of this one.
            ReadOnlyError: it cannot be written.
        """
        name = str(cls._NAME)
        if RootLock.is_taken(directory, name):
            # Perhaps by a store that was dropped.
            shielded(release_all, BRIEFLY_S)
        if RootLock.is_taken(directory, name):
            raise DirectoryLockedError(
                f"pid {os.getpid()}, this process, has the store open for writing already; share that Store, or "
                "open this one with read_only=True",
                path=directory.path,
            )
        return cls(directory, Root.open_for_writing(directory, cls._NAME, clock, brief=brief, patient=patient))

    def forget(self, names: Iterable[TopicPartition]) -> None:
        """Say no more of partitions in the checkpoints: they are being removed. Durable on return."""
        self._root.forget(names)

    def checkpoint_token(self) -> int:
        """To be asked for before facts are gathered for `checkpoint`."""
        return self._root.checkpoint_token()

    def checkpoint(self, facts: Mapping[TopicPartition, PartitionFacts], token: int) -> bool:
        """Write Kafka's checkpoints while logs are open; see `Root.checkpoint`."""
        return self._root.checkpoint(facts, token)

    def release(self) -> None:
        """Give the right back. The logs are closed before, each with what it knows."""
        self._root.release(self._NAME, None)


def under_lock(directory: Directory, clock: Clock, step: Callable[[], _R]) -> _R:
    """Call a step while the root is locked for this process; the lock is free again wherever an interrupt comes.

    Raises:
        DirectoryLockedError, ReadOnlyError: as `RootHold.acquire`.
    """
    taken: list[RootHold] = []

    def locked() -> _R:
        # In one step: an interrupt between the two would lose the hold.
        shielded(lambda: taken.append(RootHold.acquire(directory, clock)))
        return step()

    def free() -> None:
        for hold in taken:
            shielded(hold.release)

    return guarded(locked, free)


def is_kafkas(root: Directory) -> bool:
    """Whether Kafka's metadata say which leader epochs there are below a root: it was adopted."""
    names = root.names()
    return ADOPTED in names or _CLUSTER_METADATA in names


def _read(directory: Directory, names: list[str]) -> tuple[dict[TopicPartition, PartitionFacts], bool]:
    """What the root says of its partitions, and whether it was us who said it last."""
    columns = []
    ours = False
    for name in (checkpoints.RECOVERY_POINTS, checkpoints.LOG_START_OFFSETS, checkpoints.HIGH_WATERMARKS):
        data = directory.read(name, names) or b""
        if name == checkpoints.RECOVERY_POINTS:
            ours = name in names and crc32c(data) in _marked(directory)
        try:
            columns.append(checkpoints.read_offsets(data, directory.join(name)))
        except CorruptRecordError as error:
            # These files may only make a recovery more careful; each partition has its own promises.
            _logger.warning("checkpoint passed over: %s", error)
            columns.append({})
    recovery, starts, watermarks = columns
    facts = {
        name: PartitionFacts(recovery.get(name), starts.get(name), watermarks.get(name))
        for name in {*recovery, *starts, *watermarks}
    }
    return facts, ours


def _marked(directory: Directory) -> tuple[int, ...]:
    """The checksums of recovery points that we have written, or were about to write."""
    match = _MARK.fullmatch(directory.read(CHECKPOINTS) or b"")
    return () if match is None else (int(match[1], 16), int(match[2], 16))


def _all_clean(directory: Directory, closed: set[TopicPartition]) -> bool:
    """Whether every partition is at rest, also those that this process has not opened.

    After an unclean stop, opening and closing one log says nothing of the others; and with the mark of a clean
    shutdown Kafka would look at none.
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
    """Leave in the checkpoints what is known of others."""
    # Of logs that are open their last word is not here: their recovery points may be too high by now.
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
            # Both stand in the mark until the new file does: whichever of the two a crash leaves, it is ours.
            before = crc32c(directory.read(name) or b"")
            before = before if before in _marked(directory) else crc32c(data)
            mark = b"logstore checkpoints 1\n%08x %08x\n" % (before, crc32c(data))
            directory.replace(CHECKPOINTS, mark, durable=False, whole=whole)
        directory.replace(name, data, durable=False, whole=whole)
