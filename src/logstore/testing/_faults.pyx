# cython: language_level=3
"""Table of file operations with planned faults, for tests of full or broken disks.

`FaultyFiles` wraps another table (libc), counts every call that reaches it, can record the calls, and
fails those that a test has named. Unlike `Files.call_counts`, which counts requested operations, it
sees each system call: a write that is continued after a short count is two.

Plans, counts and events are kept in C under a mutex, since the callbacks run without the GIL.
"""

import errno as _errno
import os

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset, strdup, strncpy, strstr

from logstore.io cimport _file_ops as table
from logstore.io._file_ops cimport FileInfo, FileOps, SpaceInfo, iovec, name_sink
from logstore.io._files cimport Files
from logstore.testing._disk cimport grow

from logstore.io._files import OP_NAMES as _NAMES

cdef extern from "<time.h>" nogil:
    struct timespec:
        long tv_sec
        long tv_nsec
    int nanosleep(const timespec *wanted, timespec *left)

cdef extern from "<fcntl.h>" nogil:
    enum: O_CREAT
    enum: O_TRUNC

cdef enum:
    ANY_CHANGE = -2

#: Operations that change files or names, or make a change durable; calls of `open` if they create or truncate.
CHANGES = frozenset({
    "open", "pwrite", "pwritev", "fdatasync", "ftruncate", "fallocate", "rename", "unlink", "link", "mkdir",
    "rmdir", "fsync_dir",
})
cdef uint32_t _CHANGES = sum(1 << _NAMES.index(name) for name in CHANGES)


# --- decisions ---------------------------------------------------------------------------------

cdef struct Verdict:                # on one call
    bint is_made                    # it reaches the table behind
    int error                       # reported in place of its success; 0: none
    int64_t part                    # the most bytes that it transfers


cdef inline bint _changes(int op, int flags) noexcept nogil:
    return _CHANGES >> op & 1 and (op != table.OP_OPEN or flags & (O_CREAT | O_TRUNC) != 0)


cdef inline bint _matches(Plan *plan, int op, bint changes, const char *path, const char *other) noexcept nogil:
    if plan.op != op and not (plan.op == ANY_CHANGE and changes):
        return False
    if plan.path[0] == 0:
        return True
    if path != NULL and strstr(path, plan.path) != NULL:
        return True
    return other != NULL and strstr(other, plan.path) != NULL


cdef Verdict _decide(Faults *faults, int op, int flags, const char *path, const char *other) noexcept nogil:
    """Count one call and return its planned result."""
    cdef bint changes = _changes(op, flags), is_decided = False
    cdef Verdict verdict = Verdict(True, 0, INT64_MAX)
    cdef int i
    cdef Plan *plan
    faults.counts[op] += 1
    if faults.is_watched and faults.watched == pthread_self():
        faults.watched_calls += 1
    if changes:
        faults.changes += 1
    for i in range(faults.plan_count):
        plan = &faults.plans[i]
        if not _matches(plan, op, changes, path, other):
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
            if path != NULL:
                strncpy(plan.fired_on, path, PATH_ROOM - 1)
            if plan.part >= 0 and (plan.torn or plan.part > 0):
                verdict = Verdict(True, plan.error if plan.torn else 0, plan.part)
                plan.owed = not plan.torn and plan.error != 0
                is_decided = True
                continue
        verdict = Verdict(False, plan.error, 0)
        is_decided = True
    return verdict


cdef inline const char *_path_of(Faults *faults, int fd) noexcept nogil:
    return faults.paths[fd] if 0 <= fd < faults.path_room else NULL


cdef Verdict _ask(Faults *faults, int op, int fd, const char *path, const char *other, int flags) noexcept nogil:
    """Call `_decide` for an operation on a descriptor or, with a descriptor of -1, on names; delay it first."""
    cdef Verdict verdict
    cdef timespec wanted
    if faults.delays_ns[op] > 0:
        wanted.tv_sec = faults.delays_ns[op] // 1_000_000_000
        wanted.tv_nsec = faults.delays_ns[op] % 1_000_000_000
        nanosleep(&wanted, NULL)
    pthread_mutex_lock(&faults.guard)
    verdict = _decide(faults, op, flags, path if fd < 0 else _path_of(faults, fd), other)
    pthread_mutex_unlock(&faults.guard)
    return verdict


cdef inline int64_t _reported(const Verdict *verdict, int64_t status) noexcept nogil:
    """Return what a call reports that has ended with a status."""
    return -verdict.error if verdict.error and status >= 0 else status


cdef void _note(Faults *faults, int op, const char *path, int fd, int64_t position, int64_t size,
                int64_t status) noexcept nogil:
    """Record a call after it was made."""
    cdef char *noted = NULL
    if not faults.recording:
        return
    pthread_mutex_lock(&faults.guard)
    if grow(<void **>&faults.events, &faults.event_room, faults.event_count, sizeof(Event)) == 0:
        if path == NULL:
            path = _path_of(faults, fd)
        if path != NULL:
            noted = strdup(path)
        faults.events[faults.event_count] = Event(op, position, size, status, noted)
        faults.event_count += 1
    pthread_mutex_unlock(&faults.guard)


cdef void _remember(Faults *faults, int fd, const char *path) noexcept nogil:
    """Remember the path of a descriptor; with NULL forget it."""
    pthread_mutex_lock(&faults.guard)
    if path == NULL or grow(<void **>&faults.paths, &faults.path_room, fd, sizeof(char *)) == 0:
        if 0 <= fd < faults.path_room:
            free(faults.paths[fd])
            faults.paths[fd] = NULL
            if path != NULL:
                faults.paths[fd] = strdup(path)
    pthread_mutex_unlock(&faults.guard)


# --- the table ---------------------------------------------------------------------------------

cdef int f_open(void *context, const char *path, int flags, int mode) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef Verdict verdict = _ask(faults, table.OP_OPEN, -1, path, NULL, flags)
    cdef int status = -verdict.error
    if verdict.is_made:
        status = faults.inner.open(faults.inner.context, path, flags, mode)
        if status >= 0:
            _remember(faults, status, path)
    _note(faults, table.OP_OPEN, path, -1, flags, 0, status)
    return status


cdef int f_close(void *context, int fd) noexcept nogil:
    # A planned failure that did not close the descriptor would leak it.
    cdef Faults *faults = <Faults *>context
    cdef Verdict verdict = _ask(faults, table.OP_CLOSE, fd, NULL, NULL, 0)
    cdef int status
    _note(faults, table.OP_CLOSE, NULL, fd, 0, 0, 0)
    _remember(faults, fd, NULL)
    status = faults.inner.close(faults.inner.context, fd)
    return status if verdict.is_made else -verdict.error


cdef int f_fstat(void *context, int fd, FileInfo *out) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef Verdict verdict = _ask(faults, table.OP_FSTAT, fd, NULL, NULL, 0)
    return faults.inner.fstat(faults.inner.context, fd, out) if verdict.is_made else -verdict.error


cdef int64_t f_pwrite(void *context, int fd, const void *data, size_t size, int64_t position) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef Verdict verdict = _ask(faults, table.OP_PWRITE, fd, NULL, NULL, 0)
    cdef int64_t status = 0
    if verdict.is_made:
        size = min(size, <size_t>verdict.part)
        status = faults.inner.pwrite(faults.inner.context, fd, data, size, position)
    status = _reported(&verdict, status)
    _note(faults, table.OP_PWRITE, NULL, fd, position, <int64_t>size, status)
    return status


cdef int64_t f_pwritev(void *context, int fd, const iovec *parts, int count, int64_t position) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef Verdict verdict = _ask(faults, table.OP_PWRITEV, fd, NULL, NULL, 0)
    cdef int64_t status = 0, size = 0
    cdef int i
    for i in range(count):
        size += <int64_t>parts[i].iov_len
    if verdict.is_made:
        if verdict.part < INT64_MAX and count > 0:
            size = min(verdict.part, <int64_t>parts[0].iov_len)
            status = faults.inner.pwrite(faults.inner.context, fd, parts[0].iov_base, <size_t>size, position)
        else:
            status = faults.inner.pwritev(faults.inner.context, fd, parts, count, position)
    status = _reported(&verdict, status)
    _note(faults, table.OP_PWRITEV, NULL, fd, position, size, status)
    return status


cdef int64_t f_preadv(void *context, int fd, const iovec *parts, int count, int64_t position) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef Verdict verdict = _ask(faults, table.OP_PREADV, fd, NULL, NULL, 0)
    cdef int64_t status = 0
    cdef iovec first
    if verdict.is_made:
        if verdict.part < INT64_MAX and count > 0:
            first = parts[0]
            first.iov_len = min(first.iov_len, <size_t>verdict.part)
            status = faults.inner.preadv(faults.inner.context, fd, &first, 1, position)
        else:
            status = faults.inner.preadv(faults.inner.context, fd, parts, count, position)
    status = _reported(&verdict, status)
    _note(faults, table.OP_PREADV, NULL, fd, position, 0, status)
    return status


cdef void _wait_at_gate(Faults *faults, int fd) noexcept nogil:
    """Block a sync while it is held, as on a slow disk."""
    cdef const char *path
    cdef bint held
    pthread_mutex_lock(&faults.guard)
    path = _path_of(faults, fd)
    held = faults.is_held and path != NULL and strstr(path, faults.held) != NULL
    faults.waiting += held
    pthread_mutex_unlock(&faults.guard)
    if held:
        pthread_mutex_lock(&faults.quota)
        pthread_mutex_unlock(&faults.quota)


cdef int f_fdatasync(void *context, int fd) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef Verdict verdict
    cdef int status
    _wait_at_gate(faults, fd)
    verdict = _ask(faults, table.OP_FDATASYNC, fd, NULL, NULL, 0)
    if verdict.is_made:
        status = faults.inner.fdatasync(faults.inner.context, fd)
    else:
        status = -verdict.error
        if verdict.error and faults.lose != NULL:
            faults.lose(faults.inner.context, fd)
    _note(faults, table.OP_FDATASYNC, NULL, fd, 0, 0, status)
    return status


cdef int f_ftruncate(void *context, int fd, int64_t size) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef Verdict verdict = _ask(faults, table.OP_FTRUNCATE, fd, NULL, NULL, 0)
    cdef int status = -verdict.error
    if verdict.is_made:
        status = faults.inner.ftruncate(faults.inner.context, fd, size)
    _note(faults, table.OP_FTRUNCATE, NULL, fd, 0, size, status)
    return status


cdef int f_fallocate(void *context, int fd, int mode, int64_t position, int64_t size) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef Verdict verdict = _ask(faults, table.OP_FALLOCATE, fd, NULL, NULL, 0)
    cdef int status = -verdict.error
    if verdict.is_made:
        status = faults.inner.fallocate(faults.inner.context, fd, mode, position, size)
    _note(faults, table.OP_FALLOCATE, NULL, fd, position, size, status)
    return status


cdef int _on_names(Faults *faults, int op, const char *old, const char *new, NamesCall call) noexcept nogil:
    """Rename or link; the record has the new path."""
    cdef Verdict verdict = _ask(faults, op, -1, old, new, 0)
    cdef int status = call(faults.inner.context, old, new) if verdict.is_made else -verdict.error
    _note(faults, op, new, -1, 0, 0, status)
    return status


cdef int _on_name(Faults *faults, int op, const char *path, NameCall call) noexcept nogil:
    cdef Verdict verdict = _ask(faults, op, -1, path, NULL, 0)
    cdef int status = call(faults.inner.context, path) if verdict.is_made else -verdict.error
    if op == table.OP_FSYNC_DIR and not verdict.is_made and verdict.error and faults.lose_names != NULL:
        faults.lose_names(faults.inner.context, path)
    _note(faults, op, path, -1, 0, 0, status)
    return status


cdef int f_rename(void *context, const char *old, const char *new) noexcept nogil:
    return _on_names(<Faults *>context, table.OP_RENAME, old, new, (<Faults *>context).inner.rename)


cdef int f_link(void *context, const char *old, const char *new) noexcept nogil:
    return _on_names(<Faults *>context, table.OP_LINK, old, new, (<Faults *>context).inner.link)


cdef int f_unlink(void *context, const char *path) noexcept nogil:
    return _on_name(<Faults *>context, table.OP_UNLINK, path, (<Faults *>context).inner.unlink)


cdef int f_rmdir(void *context, const char *path) noexcept nogil:
    return _on_name(<Faults *>context, table.OP_RMDIR, path, (<Faults *>context).inner.rmdir)


cdef int f_fsync_dir(void *context, const char *path) noexcept nogil:
    return _on_name(<Faults *>context, table.OP_FSYNC_DIR, path, (<Faults *>context).inner.fsync_dir)


cdef int f_mkdir(void *context, const char *path, int mode) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef Verdict verdict = _ask(faults, table.OP_MKDIR, -1, path, NULL, 0)
    cdef int status = faults.inner.mkdir(faults.inner.context, path, mode) if verdict.is_made else -verdict.error
    _note(faults, table.OP_MKDIR, path, -1, 0, 0, status)
    return status


cdef int f_listdir(void *context, const char *path, name_sink emit, void *sink) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef Verdict verdict = _ask(faults, table.OP_LISTDIR, -1, path, NULL, 0)
    return faults.inner.listdir(faults.inner.context, path, emit, sink) if verdict.is_made else -verdict.error


cdef int f_statvfs(void *context, const char *path, SpaceInfo *out) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef Verdict verdict = _ask(faults, table.OP_STATVFS, -1, path, NULL, 0)
    return faults.inner.statvfs(faults.inner.context, path, out) if verdict.is_made else -verdict.error


cdef int f_writeback(void *context, int fd, int64_t position, int64_t size) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef Verdict verdict = _ask(faults, table.OP_WRITEBACK, fd, NULL, NULL, 0)
    return faults.inner.writeback(faults.inner.context, fd, position, size) if verdict.is_made else -verdict.error


cdef int f_mmap_ro(void *context, int fd, size_t size, const uint8_t **out) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef Verdict verdict = _ask(faults, table.OP_MMAP_RO, fd, NULL, NULL, 0)
    return faults.inner.mmap_ro(faults.inner.context, fd, size, out) if verdict.is_made else -verdict.error


cdef int f_munmap(void *context, const uint8_t *data, size_t size) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    _ask(faults, table.OP_MUNMAP, -1, NULL, NULL, 0)
    return faults.inner.munmap(faults.inner.context, data, size)


cdef int f_lock(void *context, int fd, int *owner_pid) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef Verdict verdict = _ask(faults, table.OP_LOCK, fd, NULL, NULL, 0)
    return faults.inner.lock(faults.inner.context, fd, owner_pid) if verdict.is_made else -verdict.error


cdef int64_t f_sendfile(void *context, int out_fd, int in_fd, int64_t position, size_t size) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef Verdict verdict = _ask(faults, table.OP_SENDFILE, in_fd, NULL, NULL, 0)
    cdef int64_t status = -verdict.error
    if verdict.is_made:
        size = min(size, <size_t>verdict.part)
        status = faults.inner.sendfile(faults.inner.context, out_fd, in_fd, position, size)
    _note(faults, table.OP_SENDFILE, NULL, in_fd, position, <int64_t>size, status)
    return status


# --- the Python class --------------------------------------------------------------------------

cdef class FaultyFiles(Files):
    """`Files` with planned faults. Pass it to `Log.open(..., files=FaultyFiles())`.

    Owns: the plans, counts, events and paths of open descriptors.
    Threads: any.

    >>> import errno
    >>> files = FaultyFiles()
    >>> files.fail("fdatasync", 2, errno.EIO)
    >>> files.counts()["fdatasync"]
    0
    """

    def __cinit__(self, *, descriptor_limit=None):
        self._faults = <Faults *>calloc(1, sizeof(Faults))
        if self._faults == NULL:
            raise MemoryError
        pthread_mutex_init(&self._faults.guard, NULL)
        pthread_mutex_init(&self._faults.quota, NULL)
        self._faults.inner = self.ops
        self.ops = FileOps(
            context=<void *>self._faults, open=f_open, close=f_close, fstat=f_fstat, pwrite=f_pwrite,
            pwritev=f_pwritev, preadv=f_preadv, fdatasync=f_fdatasync, ftruncate=f_ftruncate,
            fallocate=f_fallocate, rename=f_rename, unlink=f_unlink, link=f_link, mkdir=f_mkdir, rmdir=f_rmdir,
            listdir=f_listdir, fsync_dir=f_fsync_dir, statvfs=f_statvfs, writeback=f_writeback, mmap_ro=f_mmap_ro,
            munmap=f_munmap, lock=f_lock, sendfile=f_sendfile)

    def __dealloc__(self):
        cdef int i
        if self._faults == NULL:
            return
        for i in range(self._faults.path_room):
            free(self._faults.paths[i])
        free(self._faults.paths)
        self._forget_events()
        free(self._faults.events)
        pthread_mutex_destroy(&self._faults.guard)
        pthread_mutex_destroy(&self._faults.quota)
        free(self._faults)

    def fail(
            self, str op not None: str, int64_t nth: int = 1, int errno: int = _errno.EIO, *,
            int64_t times: int = 1, path_contains: str | None = None, int64_t short: int = -1,
            int64_t torn: int = -1) -> None:
        """Fail the ``nth`` call of an operation from now on, and the ``times - 1`` calls after it (-1: all).

        ``op`` is a name of the table, or "change" for every call that changes files or names or
        makes a change durable. With ``path_contains`` only calls on such paths count. The call
        fails with ``errno`` and does nothing. With ``short=n`` a write (or read) first transfers n
        bytes and reports them, as on a disk that runs full, and the call that continues it fails
        (errno 0: succeeds). With ``torn=n`` n bytes are written by the call that fails.

        A sync that fails here fails once, unless ``times`` is greater: the next one reports success
        for pages that never reached the disk, as kernels do.
        """
        cdef Faults *faults = self._faults
        cdef Plan plan
        cdef bytes path = os.fsencode(path_contains or "")
        if op != "change" and op not in _NAMES:
            raise ValueError(f"op= is 'change' or one of {', '.join(_NAMES)}, found {op!r}")
        if nth < 1 or len(path) >= PATH_ROOM or faults.plan_count == PLAN_COUNT:
            raise ValueError(f"nth= is from 1 on, a path below {PATH_ROOM} bytes, at most {PLAN_COUNT} plans")
        memset(&plan, 0, sizeof(plan))
        plan.op = ANY_CHANGE if op == "change" else _NAMES.index(op)
        plan.error = errno
        plan.first = nth
        plan.times = times
        plan.part = torn if torn >= 0 else short
        plan.torn = torn >= 0
        strncpy(plan.path, path, PATH_ROOM - 1)
        pthread_mutex_lock(&faults.guard)
        faults.plans[faults.plan_count] = plan
        faults.plan_count += 1
        pthread_mutex_unlock(&faults.guard)

    def heal(self) -> None:
        """Forget all plans."""
        pthread_mutex_lock(&self._faults.guard)
        self._faults.plan_count = 0
        pthread_mutex_unlock(&self._faults.guard)

    def delay(self, str op not None: str, double delay_ms: float) -> None:
        """Delay every call of an operation from now on, as on a slow disk; 0 ends it.

        The calling thread sleeps without the GIL. The operations are those of `counts`.
        """
        if op not in _NAMES:
            raise ValueError(f"op= names an operation of {', '.join(_NAMES)}, found {op!r}")
        if not 0 <= delay_ms < 1e9:
            raise ValueError(f"a delay is 0 ms or more, found {delay_ms}")
        self._faults.delays_ns[_NAMES.index(op)] = <int64_t>(delay_ms * 1e6)

    def watch_thread(self) -> None:
        """Count the calls of the calling thread from now on; a loop that never blocks makes none."""
        pthread_mutex_lock(&self._faults.guard)
        self._faults.watched = pthread_self()
        self._faults.is_watched = True
        self._faults.watched_calls = 0
        pthread_mutex_unlock(&self._faults.guard)

    def watched_calls(self) -> int:
        """Return how many calls that thread has made."""
        return self._guarded(&self._faults.watched_calls)

    def hold_syncs(self, path_contains: str = "") -> None:
        """Make every sync of such a file wait from now on until `release_syncs`, called by the same thread."""
        cdef bytes path = os.fsencode(path_contains)
        if self._faults.is_held or len(path) >= PATH_ROOM:
            raise ValueError(f"the syncs are held already, or the path has {PATH_ROOM} bytes and more")
        pthread_mutex_lock(&self._faults.quota)
        pthread_mutex_lock(&self._faults.guard)
        strncpy(self._faults.held, path, PATH_ROOM - 1)
        self._faults.waiting = 0
        self._faults.is_held = True
        pthread_mutex_unlock(&self._faults.guard)

    def held_syncs(self) -> int:
        """Return how many syncs have reached `hold_syncs`."""
        return self._guarded(&self._faults.waiting)

    def release_syncs(self) -> None:
        """Release the waiting syncs, and hold no more."""
        cdef bint was_held
        pthread_mutex_lock(&self._faults.guard)
        was_held = self._faults.is_held
        self._faults.is_held = False
        pthread_mutex_unlock(&self._faults.guard)
        if was_held:
            pthread_mutex_unlock(&self._faults.quota)

    def fired(self) -> list[tuple[str, str, int]]:
        """Return (operation, path, how often) of each plan that has failed a call."""
        found = []
        for i in range(self._faults.plan_count):
            if self._faults.plans[i].fired:
                op = self._faults.plans[i].op
                found.append(("change" if op == ANY_CHANGE else _NAMES[op],
                              os.fsdecode(<bytes>self._faults.plans[i].fired_on), self._faults.plans[i].fired))
        return found

    def counts(self) -> dict[str, int]:
        """Return how many calls of each operation have reached the table, including failed ones."""
        return {name: self._guarded(&self._faults.counts[op]) for op, name in enumerate(_NAMES)}

    @property
    def changes(self):
        """The number of calls that changed files or names, made a change durable, or failed to."""
        return self._guarded(&self._faults.changes)

    cdef int64_t _guarded(self, const int64_t *count) noexcept:
        """Read a count that calls in other threads may be changing."""
        cdef int64_t found
        pthread_mutex_lock(&self._faults.guard)
        found = count[0]
        pthread_mutex_unlock(&self._faults.guard)
        return found

    def record(self) -> None:
        """Record every call from now on, and forget the earlier record."""
        pthread_mutex_lock(&self._faults.guard)
        self._forget_events()
        self._faults.recording = True
        pthread_mutex_unlock(&self._faults.guard)

    def recorded(self) -> list[tuple[str, str, int, int, int]]:
        """Return (operation, path, position, size, status) of each call in order, without stat, list and map.

        A rename has its new path. The position of an `open` holds its flags.
        """
        found = []
        cdef int64_t i
        pthread_mutex_lock(&self._faults.guard)
        try:
            for i in range(self._faults.event_count):
                path = ""
                if self._faults.events[i].path != NULL:
                    path = os.fsdecode(<bytes>self._faults.events[i].path)
                found.append((_NAMES[self._faults.events[i].op], path, self._faults.events[i].position,
                              self._faults.events[i].size, self._faults.events[i].status))
        finally:
            pthread_mutex_unlock(&self._faults.guard)
        return found

    cdef void _forget_events(self) noexcept:
        cdef int64_t i
        for i in range(self._faults.event_count):
            free(self._faults.events[i].path)
        self._faults.event_count = 0
