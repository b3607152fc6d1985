"""The right to write below a root: whether its directories are ours to write, and the lock that keeps others out.

The lock is an fcntl lock on the root's ``.lock``, the same file and kind as Kafka's, so that the two exclude each
other. Who takes it says in the file who it is, and whether it is only for a moment (``brief=1``), as a commit of
staged files is: then others wait for it instead of failing.

Who has it is asked without taking it, which would keep out an owner that starts at this moment. That is the one
place that looks at a lock past the table of file operations: what is asked is the machine, and no simulated disk
has processes.
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

#: How long one waits for who has the lock for a moment.
BRIEFLY_S: Final = 10.0
#: Who has just taken it has not yet said so: what is in the file is another's.
_UNSAID_S: Final = 0.2
_LOOK_S: Final = 0.005
_LONGEST_LOOK_S: Final = 0.1

_TOLD_BYTES: Final = 4096
_PID = re.compile(r"pid=(\d+) ")
_BRIEF: Final = " brief=1"

#: struct flock of Linux on 64 bits: type, whence, start, length, pid.
_FLOCK = struct.Struct("@hhqqi4x")


class _HeldError(Exception):
    """Another process has the lock, and may give it back within ``patience_s``."""

    def __init__(self, owner: int, told: str) -> None:
        super().__init__(owner, told)
        self.owner = owner
        self.told = told

    @property
    def patience_s(self) -> float:
        if self.told.endswith(_BRIEF):
            return BRIEFLY_S
        said = _PID.match(self.told)
        return _UNSAID_S if said is not None and self.owner > 0 and int(said[1]) != self.owner else 0.0


def check_place(root: Directory, directory: Directory, *, create: bool) -> None:
    """Refuse a directory that is not ours to write, before anything is changed.

    Raises:
        NotALogError: it is missing, holds foreign files, or was written by Kafka.
    """
    names = directory.names_if_there()
    # With 10 000 partitions each look at all of them is long: only the first log of the root takes it.
    around = None if RootLock.is_held(root) else root.names_if_there() or []
    if names is None:
        files.refuse_file(directory)
        if not create:
            raise NotALogError("there is no log here; open it with create=True to begin one", path=directory.path)
        files.refuse_incomplete(root, root.names() if around is None else around)
        root.create_durably()
        names = []
    elif files.INCOMPLETE in around if around is not None else root.read(files.INCOMPLETE) is not None:
        files.refuse_incomplete(root, [files.INCOMPLETE])
    foreign = files.foreign_names(names)
    if foreign:
        raise NotALogError(
            f"the directory holds files that belong to no log: {', '.join(foreign[:5])}; choose another, or move "
            "them away",
            path=directory.path,
        )
    if files.base_offsets(names) and not files.is_ours(names) and not files.is_ours(root.names()):
        raise NotALogError(
            "Kafka wrote this log; open it with read_only=True, or adopt its root first", path=directory.path
        )
    strangers = files.foreign_among(root, around or [])
    if strangers:
        raise NotALogError(
            f"the root above the log holds directories that are no partitions: {', '.join(strangers[:5])}; give "
            "logs a root of their own",
            path=root.path,
        )


class RootLock:
    """The right of this process to write below one root.

    All logs of one root in this process share one lock, and a partition is open for writing once at a time.
    """

    _held: ClassVar[dict[tuple[str, int], RootLock]] = {}
    _guard = threading.Lock()

    def __init__(self, root: Directory, file: File, *, brief: bool) -> None:
        self.root = root
        self._file = file
        self.is_brief = brief  #: held for a moment only
        self._pid = os.getpid()
        self._partitions: set[str] = set()

    @classmethod
    def acquire(
        cls, root: Directory, partition: str, clock: Clock, *, brief: bool = False, patient: bool = True
    ) -> RootLock:
        """Lock the root for one partition of it; ``brief`` if it will be given back soon.

        Who is ``patient`` waits up to `BRIEFLY_S` for another process that has it briefly.

        Raises:
            DirectoryLockedError: another process holds the root (its pid and host are named), or
                this one has the partition open already.
            ReadOnlyError: the root cannot be written.
        """
        began_s = clock.monotonic_s()
        never = Condition()
        while True:
            try:
                return cls._acquire(root, partition, clock, brief)
            except _HeldError as found:
                if not patient or clock.monotonic_s() >= began_s + found.patience_s:
                    who = _shown(f"pid {found.owner}" if found.owner > 0 else "another process", found)
                    raise DirectoryLockedError(
                        f"locked by {who}; only one process writes a root: stop it, or open the log with "
                        "read_only=True",
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
            told = _told_in(file)
            file.close()
            raise _HeldError(owner, told)
        with contextlib.suppress(StorageError):
            # A full disk must not keep the owner of the lock from opening, and making room.
            text = f"pid={os.getpid()} host={os.uname().nodename} started_ms={clock.now_ms()}{_BRIEF * brief}\n"
            # Never empty in between, as Kafka leaves it.
            file.write(text.encode(), 0)
            file.truncate(len(text.encode()))
        return file

    @classmethod
    def forget(cls) -> None:
        """In a forked child: a thread of the parent may have held the guard, and will never give it back."""
        cls._guard = threading.Lock()

    @classmethod
    def mine(cls, root: Directory) -> RootLock | None:
        """The lock by which this process writes below the root already."""
        lock = cls._held.get(_lock_key(root))
        # One that was inherited over a fork is the parent's: fcntl locks do not cross it.
        return lock if lock is not None and lock._pid == os.getpid() else None

    @classmethod
    def is_held(cls, root: Directory) -> bool:
        """Whether this process writes below the root already."""
        return cls.mine(root) is not None

    @classmethod
    def told(cls, root: Directory) -> str:
        """What this process has written into the file of a lock that it holds, read without closing that file."""
        return _told_in(cls._held[_lock_key(root)]._file)

    @classmethod
    def is_taken(cls, root: Directory, partition: str) -> bool:
        """Whether this process writes a certain partition already, or what goes by its name."""
        lock = cls.mine(root)
        return lock is not None and partition in lock._partitions

    def is_last(self, partition: str) -> bool:
        """Whether nobody else of this process writes below the root."""
        return self._partitions <= {partition}

    def release(self, partition: str) -> bool:
        """Give one partition back; True if it was the last and the root is free again."""
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
        """Hold off other opens and closes in this process while the root's own files are rewritten."""
        return held(cls._guard)


class Patience:
    """The waits of one caller for another process to close a store, between its tries to open it.

    There is no line: the first to ask once the lock is free gets it. What this process has open is not waited for,
    unless another thread has it for a moment.
    """

    def __init__(self, clock: Clock, wait_s: float | None, files: Files = LIBC) -> None:
        """For ``wait_s`` seconds (None: for ever) from now on."""
        self._clock = clock
        self._files = files
        self._deadline_s = clock.deadline_s(wait_s, "wait_s")
        self._brief_until_s = clock.monotonic_s() + BRIEFLY_S
        self._pause_s = _LOOK_S

    def pause_s(self, error: DirectoryLockedError) -> float:
        """How long to wait before the next try, after one that was refused with ``error``.

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
    # fcntl locks are one for a process, whichever table took them; a simulated disk is a world of its own.
    return root.real_path, id(root.files.namespace)


def _told_in(file: File) -> str:
    return file.read(0, _TOLD_BYTES).decode(errors="replace").strip()


def _shown(who: str, found: _HeldError) -> str:
    """A process and what it has said of itself, its pid once; another pid is shown, as of another namespace."""
    said = _PID.match(found.told)
    told = found.told[said.end() :] if said is not None and int(said[1]) == found.owner else found.told
    return f"{who} ({told})" if told else who


class Holder(NamedTuple):
    """The process that has the lock of a root."""

    pid: int  #: 0 if it is in another pid namespace, as behind a container's wall
    told: str  #: what it wrote into the lock's file: pid, host, start time

    def __str__(self) -> str:
        return _shown(f"pid {self.pid or 'unknown'}", _HeldError(self.pid, self.told))


def holder_of(root: Directory) -> Holder | None:
    """The process that writes below a root now, or None. May be this one."""
    # Guarded, so that nobody in this process takes the lock between the question and the end of it.
    with RootLock.guarded():
        if RootLock.is_held(root):
            # To close any descriptor of the file, also one that was only read, would give this process's lock away.
            return Holder(os.getpid(), RootLock.told(root))
        try:
            descriptor = os.open(root.join(LOCK), os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                # Not opened is not free: a process may well write there.
                raise TooManyFilesError.to("ask for the lock", error, path=root.join(LOCK)) from error
            return None
        try:
            asked = fcntl.fcntl(descriptor, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
            told = os.pread(descriptor, _TOLD_BYTES, 0).decode(errors="replace").strip()
        finally:
            os.close(descriptor)
    kind, _whence, _start, _length, pid = _FLOCK.unpack(asked)
    return None if kind == fcntl.F_UNLCK else Holder(max(pid, 0), told)


__all__ = ["BRIEFLY_S", "Holder", "Patience", "RootLock", "check_place", "holder_of"]
