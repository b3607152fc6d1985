# cython: language_level=3
"""Table of file operations with planned faults, for tests of full or broken disks.

`FaultyFiles` wraps another table (libc), counts every call that reaches it, can record the calls, and
fails those that a test has planned. `Files.call_counts` counts requested operations; `FaultyFiles` counts
system calls. A write that is continued after a short count is two of these.

Calls arrive without the GIL and take it: the GIL guards plans, counts and records. A call runs no Python code of a
program, since an interrupt that is raised inside a call would be lost.
"""

import errno as _errno
import os

cimport cython
from libc.errno cimport ENOMEM
from libc.stdint cimport INT64_MAX, int64_t
from posix.fcntl cimport O_CREAT, O_TRUNC
from posix.time cimport nanosleep, timespec

from logstore.io._file_ops cimport (
    OP_CLOSE, OP_FDATASYNC, OP_FSTAT, OP_FSYNC_DIR, OP_LISTDIR, OP_LOCK, OP_MMAP_RO, OP_MUNMAP, OP_OPEN, OP_PREADV,
    OP_PWRITE, OP_RENAME, OP_SENDFILE, OP_STATVFS, OP_WRITEBACK, Call, FileOps,
)
from logstore.io._files cimport Files

from logstore.io._files import OP_NAMES as _NAMES

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident()

cdef enum:
    ANY_CHANGE = -2
    POLL_NS = 1_000_000         # pause between two checks whether a held sync is released

#: Operations that change files or names, or make a change durable; `open` counts if it may create or truncate.
CHANGES = frozenset({
    "open", "pwrite", "fdatasync", "ftruncate", "fallocate", "rename", "unlink", "link", "mkdir", "rmdir",
    "fsync_dir",
})
cdef frozenset _CHANGES = frozenset(_NAMES.index(name) for name in CHANGES)


@cython.final
cdef class _Plan:
    """Calls that fail."""

    cdef int op                 # an OP_ number, or ANY_CHANGE
    cdef int error              # 0: only a short count
    cdef int64_t first          # number of the first matching call that fails, from 1
    cdef int64_t times          # how many calls fail from `first` on; -1: all
    cdef int64_t part           # bytes that are transferred anyway; -1: none
    cdef bint torn              # the call that transfers the part fails itself
    cdef bint owed              # the part was reported as a short count: the next matching call fails
    cdef int64_t seen
    cdef int64_t fired
    cdef bytes path             # matches paths that contain it
    cdef bytes fired_on

    cdef bint matches(self, int op, bint changes, bytes path, bytes new_path) except -1:
        if self.op != op and not (self.op == ANY_CHANGE and changes):
            return False
        if not self.path:
            return True
        return (path is not None and self.path in path) or (new_path is not None and self.path in new_path)


cdef bint transfers(int op) noexcept nogil:
    return op == OP_PWRITE or op == OP_PREADV or op == OP_SENDFILE


cdef void pause(int64_t delay_ns) noexcept nogil:
    cdef timespec wanted
    wanted.tv_sec = delay_ns // 1_000_000_000
    wanted.tv_nsec = delay_ns % 1_000_000_000
    nanosleep(&wanted, NULL)


cdef int64_t answer(void *context, const Call *call) noexcept nogil:
    with gil:
        try:
            return (<FaultyFiles>context)._answer(call)
        except MemoryError:
            return -ENOMEM


# The garbage collector's clear would drop the plans before a mapping of the same cycle makes its last call.
@cython.no_gc_clear
cdef class FaultyFiles(Files):
    """`Files` with planned faults. Pass it to `Log.open(..., files=FaultyFiles())`.

    While ``spares`` is True, no planned failure takes place, and the plans count no calls: a test looks at files
    that are about to fail.

    Owns: the plans, counts, events and paths of open descriptors.
    Threads: any.

    >>> import errno
    >>> files = FaultyFiles()
    >>> files.fail("fdatasync", 2, errno.EIO)
    >>> files.counts()["fdatasync"]
    0
    """

    def __cinit__(self, *, descriptor_limit=None):
        self._plans = []
        self._paths = {}
        self._behind = self.ops
        self.ops = FileOps(<void *>self, answer)

    cdef int64_t _answer(self, const Call *call) except? -1:
        """Count a call, pass it on or fail it, and record it."""
        cdef int op = call.op
        cdef int64_t status = 0
        cdef Call made = call[0]
        cdef Verdict verdict
        cdef bytes path = self._paths.get(call.fd), new_path = None
        if call.path != NULL:
            path = call.path
        if call.new_path != NULL:
            new_path = call.new_path
        self._wait(op, path)
        verdict = self._decide(call, path, new_path)
        if op == OP_CLOSE:
            # Before the call: afterwards another thread may have opened the same descriptor.
            self._paths.pop(call.fd, None)
        if verdict.is_made or op == OP_CLOSE or op == OP_MUNMAP:
            # A planned failure that did not close the descriptor would leak it.
            if verdict.is_made and transfers(op):
                made.size = min(made.size, verdict.part)
            status = self._pass_on(&made)
        elif verdict.error and (op == OP_FDATASYNC or op == OP_FSYNC_DIR):
            self._lose(call)
        if verdict.error and status >= 0:
            status = -verdict.error
        if op == OP_OPEN and status >= 0 and verdict.is_made:
            self._paths[status] = path
        elif op == OP_RENAME and status == 0 and verdict.is_made:
            # A plan for a name counts the calls on a file that was opened under its former one, too.
            self._paths.update([(fd, new_path) for fd, known in self._paths.items() if known == path])
        if self._events is not None and op not in (
                OP_FSTAT, OP_LISTDIR, OP_STATVFS, OP_WRITEBACK, OP_MMAP_RO, OP_MUNMAP, OP_LOCK):
            self._events.append((op, new_path or path or b"", made.flags if op == OP_OPEN else made.position,
                                 made.size, status))
        return status

    cdef int _wait(self, int op, bytes path) except -1:
        """Wait at a held sync, and for the delay of an operation, as on a slow disk."""
        cdef int64_t releases = self._releases, delay_ns = self._delays_ns[op]
        if op == self._held_op and self._held is not None and path is not None and self._held in path and (
                self._held_thread == 0 or self._held_thread == PyThread_get_thread_ident()):
            self._waiting += 1
            while releases == self._releases:
                with nogil:
                    pause(POLL_NS)
        if delay_ns > 0:
            with nogil:
                pause(delay_ns)
        return 0

    cdef Verdict _decide(self, const Call *call, bytes path, bytes new_path) except *:
        """Count one call and return what is done with it."""
        cdef int op = call.op
        cdef bint changes = op in _CHANGES and (op != OP_OPEN or call.flags & (O_CREAT | O_TRUNC) != 0)
        cdef bint is_decided = False
        cdef Verdict verdict = Verdict(True, 0, INT64_MAX)
        cdef _Plan plan
        self._counts[op] += 1
        self._changes += changes
        self._watched_calls += self._watched == PyThread_get_thread_ident()
        if self.spares:
            return verdict
        for plan in self._plans:
            if not plan.matches(op, changes, path, new_path):
                continue
            plan.seen += 1
            if is_decided:
                continue
            if plan.owed:
                plan.owed = False
            elif plan.seen < plan.first or (plan.times >= 0 and plan.fired >= plan.times):
                continue
            else:
                plan.fired += 1
                plan.fired_on = path or plan.fired_on
                if plan.part >= 0 and (plan.torn or plan.part > 0):
                    verdict = Verdict(True, plan.error if plan.torn and transfers(op) else 0, plan.part)
                    plan.owed = not plan.torn and plan.error != 0
                    is_decided = True
                    continue
            verdict = Verdict(False, plan.error, 0)
            is_decided = True
        return verdict

    cdef int64_t _pass_on(self, const Call *call) except? -1:
        """Make a call through the wrapped table."""
        cdef int64_t status
        with nogil:
            status = self._behind.make(self._behind.context, call)
        return status

    cdef int _lose(self, const Call *call) except -1:
        """Lose unsynced changes after a planned failure of a sync. Does nothing here; `SimFiles` overrides it."""
        return 0

    def fail(
            self, str op not None: str, int64_t nth: int = 1, int errno: int = _errno.EIO, *,
            int64_t times: int = 1, path_contains: str | None = None, int64_t short: int = -1,
            int64_t torn: int = -1) -> None:
        """Fail the ``nth`` call of an operation from now on, and the ``times - 1`` calls after it (-1: all).

        ``op`` is an operation of `counts`, or "change" for every call that changes files or names or
        makes a change durable. With ``path_contains`` only calls count whose path contains it. The call
        fails with ``errno`` and does nothing. With ``short=n`` a write (or read) first transfers n
        bytes and reports them, as on a disk that becomes full. The next matching call fails
        (errno 0: succeeds). With ``torn=n`` the call that fails has transferred n bytes.

        With ``times=1`` a sync fails once: the next one reports success for pages that never
        reached the disk, as kernels do.
        """
        cdef _Plan plan = _Plan()
        if op != "change" and op not in _NAMES:
            raise ValueError(f"op= is 'change' or one of {', '.join(_NAMES)}, found {op!r}")
        if nth < 1:
            raise ValueError(f"nth= is from 1 on, found {nth}")
        plan.op = ANY_CHANGE if op == "change" else _NAMES.index(op)
        plan.error = errno
        plan.first = nth
        plan.times = times
        plan.part = torn if torn >= 0 else short
        plan.torn = torn >= 0
        plan.path = os.fsencode(path_contains or "")
        plan.fired_on = b""
        self._plans.append(plan)

    def heal(self) -> None:
        """Remove all planned faults."""
        self._plans = []

    def delay(self, str op not None: str, double delay_ms: float) -> None:
        """Delay every call of an operation from now on, as on a slow disk; 0 ends it.

        The calling thread sleeps without the GIL. The operations are those of `counts`.
        """
        if op not in _NAMES:
            raise ValueError(f"op= names an operation of {', '.join(_NAMES)}, found {op!r}")
        if not 0 <= delay_ms < 1e9:
            raise ValueError(f"a delay is 0 ms or more, found {delay_ms}")
        self._delays_ns[<int>_NAMES.index(op)] = <int64_t>(delay_ms * 1e6)

    def watch_thread(self) -> None:
        """Count the calls of the calling thread from now on.

        A test can so prove that an event loop makes no file operation.
        """
        self._watched = PyThread_get_thread_ident()
        self._watched_calls = 0

    def watched_calls(self) -> int:
        """Return how many calls the thread of `watch_thread` has made."""
        return self._watched_calls

    def hold_syncs(self, path_contains: str = "") -> None:
        """Make each sync of a file whose path contains ``path_contains`` wait until `release_syncs`."""
        self._hold(OP_FDATASYNC, path_contains, 0)

    def hold_reads(self, path_contains: str = "") -> None:
        """Make each read by the calling thread of such a file wait, before it reads, until `release_syncs`."""
        self._hold(OP_PREADV, path_contains, PyThread_get_thread_ident())

    cdef int _hold(self, int op, str path_contains, unsigned long thread) except -1:
        if self._held is not None:
            raise ValueError("the syncs are held already")
        self._waiting = 0
        self._held_op, self._held_thread = op, thread
        self._held = os.fsencode(path_contains)
        return 0

    def held_syncs(self) -> int:
        """Return how many calls have reached `hold_syncs` or `hold_reads`."""
        return self._waiting

    def release_syncs(self) -> None:
        """Release the waiting calls, and hold no further ones."""
        self._held = None
        self._releases += 1

    def fired(self) -> list[tuple[str, str, int]]:
        """Return (operation, path of the last such call, how often) of each plan that has affected a call."""
        cdef _Plan plan
        return [("change" if plan.op == ANY_CHANGE else _NAMES[plan.op], os.fsdecode(plan.fired_on), plan.fired)
                for plan in self._plans if plan.fired]

    def counts(self) -> dict[str, int]:
        """Return how many calls of each operation have reached the table, including failed ones."""
        return {name: self._counts[op] for op, name in enumerate(_NAMES)}

    @property
    def changes(self):
        """The number of calls that changed files or names, made a change durable, or failed to."""
        return self._changes

    def record(self) -> None:
        """Record every call from now on, and forget the earlier record."""
        self._events = []

    def recorded(self) -> list[tuple[str, str, int, int, int]]:
        """Return (operation, path, position, size, status) of each recorded call, in order.

        Not recorded are fstat, statvfs, listdir, mmap, munmap, lock and writeback. A rename or link has its new
        path. The position of an `open` holds its flags.
        """
        return [(_NAMES[op], os.fsdecode(path), position, size, status)
                for op, path, position, size, status in self._events or ()]
