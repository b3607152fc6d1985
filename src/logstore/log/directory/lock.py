"""Lock of a root directory, and the checks that logstore may write in a directory.

The lock is an fcntl lock on the root's ``.lock``, the same file and kind as Kafka's, so that the two exclude each
other. The holder writes its identity into the file, with ``brief=1`` if it holds the lock only briefly, as a commit
of staged files does. Other processes then wait for the lock instead of failing.

`holder_of` asks for the holder without locking: locking would keep out an owner that starts at this moment. Only
this call bypasses the table of file operations, because the machine is asked and simulated disks have no processes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import struct
import threading
from typing import ClassVar, Final, NamedTuple

from logstore.clock import Clock
from logstore.errors import (
    DirectoryLockedError,
    NotALogError,
    ReadOnlyError,
    StorageError,
    TooManyFilesError,
)
from logstore.io._files import LIBC, File, Files
from logstore.io._interrupts import Condition, held
from logstore.log.directory import files
from logstore.log.directory.files import LOCK, Directory

#: Longest wait for a process that holds the lock briefly.
BRIEFLY_S: Final = 10.0
#: A new holder may not have written its identity yet: until then the file is empty or names the previous holder.
_UNSAID_S: Final = 1.0
_LOOK_S: Final = 0.005
_LONGEST_LOOK_S: Final = 0.1

_TOLD_BYTES: Final = 4096
_PID = re.compile(r"pid=(\d+) ")
_BRIEF: Final = " brief=1"

#: struct flock of Linux on 64 bits: type, whence, start, length, pid.
_FLOCK = struct.Struct("@hhqqi4x")


class _HeldError(Exception):
    """Another process holds the lock, and may release it within ``patience_s``."""

    def __init__(self, holder: Holder) -> None:
        super().__init__(holder)
        self.holder = holder

    @property
    def patience_s(self) -> float:
        pid, told = self.holder
        if self.holder.is_brief:
            return BRIEFLY_S
        said = _PID.match(told)
        if said is None:
            return 0.0 if told else _UNSAID_S
        return _UNSAID_S if pid > 0 and int(said[1]) != pid else 0.0


def check_place(root: Directory, directory: Directory, *, create: bool) -> None:
    """Refuse a directory that logstore must not write, before anything is changed.

    Raises:
        NotALogError: it is missing, holds foreign files, or was written by Kafka.
    """
    names = files.refuse_file(directory)
    # Listing a root of 10 000 partitions for each log would be slow: only the first log of the root does it.
    around = None if RootLock.is_held(root) else root.names_if_there() or []
    if names is None and not create:
        raise NotALogError(
            "the directory holds no log; Log.open(path, create=True) creates one", path=directory.path
        )
    # The first log of a root has looked for the rest of what makes it incomplete.
    is_incomplete = root.read(files.INCOMPLETE) is not None if around is None else files.INCOMPLETE in around
    if is_incomplete:
        files.refuse_incomplete(root, [files.INCOMPLETE])
    if names is None:
        if around is not None:
            files.refuse_incomplete(root, around)
        if around == []:
            root.create_durably()
        names = []
    foreign = files.foreign_names(names)
    if foreign:
        raise NotALogError(
            f"the directory holds files that belong to no log: {', '.join(foreign[:5])}; choose another, or move "
            "them away",
            path=directory.path,
        )
    if files.base_offsets(names) and not files.is_ours(names) and not files.is_ours(root.names()):
        raise NotALogError(
            "Kafka wrote this log; open it with read_only=True, or call adopt_kafka_directory() for its root first",
            path=directory.path,
        )
    strangers = files.foreign_directories(root, around or [])
    if strangers:
        raise NotALogError(
            f"the root above the log holds directories that are no partitions: {', '.join(strangers[:5])}; give "
            "logs a root of their own",
            path=root.path,
        )


class RootLock:
    """Lock by which this process writes below one root.

    All logs of one root in this process share one lock, and a partition is open for writing once at a time.
    """

    _held: ClassVar[dict[tuple[str, int], RootLock]] = {}
    _guard = threading.Lock()

    def __init__(self, root: Directory, file: File, *, brief: bool) -> None:
        self.root = root
        self._file = file
        self.is_brief = brief  #: held only briefly
        self._pid = os.getpid()
        self._partitions: set[str] = set()

    @classmethod
    def acquire(
        cls, root: Directory, partition: str, clock: Clock, *, brief: bool = False, patient: bool = True
    ) -> RootLock:
        """Lock the root for one partition of it; ``brief`` if the lock will be released soon.

        With ``patient``, wait up to `BRIEFLY_S` for another process that holds it briefly.

        Raises:
            DirectoryLockedError: another process holds the root (its pid and host are named), or
                this process has the partition open already.
            ReadOnlyError: the root cannot be written.
        """
        began_s = clock.monotonic_s()
        never = Condition()
        while True:
            try:
                return cls._acquire(root, partition, clock, brief)
            except _HeldError as found:
                if not patient or clock.monotonic_s() >= began_s + found.patience_s:
                    holder = found.holder.shown("another process")
                    raise DirectoryLockedError(
                        f"the root is locked by {holder}; only one process writes a root: stop it, or open "
                        "the log with read_only=True",
                        path=root.path,
                    ) from None
            with held(never):
                clock.wait(never, _LOOK_S)

    @classmethod
    def _acquire(cls, root: Directory, partition: str, clock: Clock, brief: bool) -> RootLock:
        key = _lock_key(root)
        with held(cls._guard):
            lock = cls.mine(root)
            if lock is None:
                lock = cls(root, cls._lock_file(root, clock, brief), brief=brief)
                cls._held[key] = lock
            if partition in lock._partitions:
                raise DirectoryLockedError(
                    "the partition is already open for writing in this process; share that Log, or open "
                    "this one with read_only=True",
                    path=root.join(partition),
                )
            lock._partitions.add(partition)
            return lock

    @staticmethod
    def _lock_file(root: Directory, clock: Clock, brief: bool) -> File:
        try:
            file = root.open(LOCK, create=True, writable=True)
        except ReadOnlyError as error:
            raise ReadOnlyError(
                "the root cannot be written; open the log with read_only=True", path=root.path
            ) from error
        owner = file.lock()
        if owner:
            with file:
                raise _HeldError(Holder(max(owner, 0), _told_in(file)))
        with contextlib.suppress(StorageError):
            # A full disk would keep the lock's owner from opening the store and deleting records to free space.
            text = f"pid={os.getpid()} host={os.uname().nodename} started_ms={clock.now_ms()}{_BRIEF * brief}\n"
            # Written before the truncation: a reader in between would find the file empty.
            file.write(text.encode(), 0)
            file.truncate(len(text.encode()))
        return file

    @classmethod
    def forget(cls) -> None:
        """Replace the guard in a forked child: a thread of the parent may hold it, and would never release it."""
        cls._guard = threading.Lock()

    @classmethod
    def mine(cls, root: Directory) -> RootLock | None:
        """Return the lock that this process holds on the root, or None."""
        lock = cls._held.get(_lock_key(root))
        # A lock inherited over a fork is the parent's: children do not inherit fcntl locks.
        return lock if lock is not None and lock._pid == os.getpid() else None

    @classmethod
    def is_held(cls, root: Directory) -> bool:
        """Return whether this process holds the lock of the root."""
        return cls.mine(root) is not None

    @classmethod
    def told(cls, root: Directory) -> str:
        """Return the text in the file of a lock that this process holds, read without closing that file."""
        return _told_in(cls._held[_lock_key(root)]._file)

    @classmethod
    def is_taken(cls, root: Directory, partition: str) -> bool:
        """Return whether this process has locked ``partition``, or another use of the root under that name."""
        lock = cls.mine(root)
        return lock is not None and partition in lock._partitions

    def is_last(self, partition: str) -> bool:
        """Return whether this process has no other partition open for writing below the root."""
        return self._partitions <= {partition}

    def release(self, partition: str) -> bool:
        """Release one partition; True if it was the last and the root is unlocked."""
        with held(self._guard):
            self._partitions.discard(partition)
            if self._partitions:
                return False
            if self._pid == os.getpid():
                self._file.unlock()
            if self._held.get(_lock_key(self.root)) is self:
                del self._held[_lock_key(self.root)]
            return True

    @classmethod
    def guarded(cls) -> held:
        """Block other opens and closes in this process while the root's own files are rewritten."""
        return held(cls._guard)


class Patience:
    """Waits of one caller, between its tries to open a store, for another process to close it.

    There is no queue: the first process that asks for the free lock gets it. A store that this process has open
    is not waited for, unless another thread holds it briefly.
    """

    def __init__(self, clock: Clock, wait_s: float | None, files: Files = LIBC) -> None:
        """Wait at most ``wait_s`` seconds (None: for ever) from now on."""
        self._clock = clock
        self._files = files
        self._deadline_s = clock.deadline_s(wait_s, "wait_s")
        self._brief_until_s = clock.monotonic_s() + BRIEFLY_S
        self._pause_s = _LOOK_S

    def pause_s(self, error: DirectoryLockedError) -> float:
        """Return the seconds to wait before the next try, after one that was refused with ``error``.

        Raises:
            DirectoryLockedError: ``error``; the time is over, or this process has the root open itself.
        """
        now_s = self._clock.monotonic_s()
        left_s = self._pause_s if self._deadline_s is None else self._deadline_s - now_s
        mine = None if error.path is None else RootLock.mine(Directory(error.path, self._files))
        if mine is not None:
            left_s = max(left_s, self._brief_until_s - now_s) if mine.is_brief else 0.0
        if left_s <= 0:
            raise error
        found_s = min(self._pause_s, left_s)
        self._pause_s = min(self._pause_s * 1.5, _LONGEST_LOOK_S)
        return found_s


os.register_at_fork(after_in_child=RootLock.forget)


def _lock_key(root: Directory) -> tuple[str, int]:
    # A process has one fcntl lock for a file, whichever table took it; each simulated disk has its own namespace.
    return root.real_path, id(root.files.namespace)


def _told_in(file: File) -> str:
    return file.read(0, _TOLD_BYTES).decode(errors="replace").strip()


class Holder(NamedTuple):
    """Process that holds the lock of a root."""

    pid: int  #: 0 if it is in another pid namespace, as in a container
    told: str  #: text that it wrote into the lock's file: pid, host, start time

    @property
    def is_brief(self) -> bool:
        """Return whether it will release the lock soon."""
        return self.told.endswith(_BRIEF)

    def shown(self, unknown: str) -> str:
        """Format the process and its text; a pid in the text is shown only if it is another namespace's."""
        said = _PID.match(self.told)
        told = self.told[said.end() :] if said is not None and int(said[1]) == self.pid else self.told
        holder = f"pid {self.pid}" if self.pid else unknown
        return f"{holder} ({told})" if told else holder

    def __str__(self) -> str:
        return self.shown("pid unknown")


def holder_of(root: Directory) -> Holder | None:
    """Return the process that holds the lock of a root now, or None. It may be this process."""
    # A thread of this process that locked the root meanwhile would lose its lock at the close below.
    with RootLock.guarded():
        if RootLock.is_held(root):
            # Closing any descriptor of the file, even one that was only read, would release this process's lock.
            return Holder(os.getpid(), RootLock.told(root))
        try:
            descriptor = os.open(root.join(LOCK), os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                # None would mean that the root is free, but another process may hold its lock.
                raise TooManyFilesError.to("ask for the lock", error, path=root.join(LOCK)) from error
            return None
        try:
            asked = fcntl.fcntl(descriptor, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
            told = os.pread(descriptor, _TOLD_BYTES, 0).decode(errors="replace").strip()
        finally:
            os.close(descriptor)
    kind, _whence, _start, _length, pid = _FLOCK.unpack(asked)
    return None if kind == fcntl.F_UNLCK else Holder(max(pid, 0), told)
