# cython: language_level=3
"""Table of file operations with planned faults, for tests of full or broken disks.

`FaultyFiles` wraps another table (libc), counts every call that reaches it, can record the calls, and
fails those that a test has named. Unlike `Files.call_counts`, which counts requested operations, it
sees each system call: a write that is continued after a short count is two.

Plans, counts and events are kept in C under a mutex, since the callbacks run without the GIL.
"""

import errno as _errno
import os

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset, strdup, strncpy, strstr

from logstore.io._files cimport (
    OP_CLOSE,
    OP_COUNT,
    OP_FALLOCATE,
    OP_FDATASYNC,
    OP_FSTAT,
    OP_FSYNC_DIR,
    OP_FTRUNCATE,
    OP_LINK,
    OP_LISTDIR,
    OP_LOCK,
    OP_MKDIR,
    OP_MMAP_RO,
    OP_MUNMAP,
    OP_OPEN,
    OP_PREADV,
    OP_PWRITE,
    OP_PWRITEV,
    OP_RENAME,
    OP_RMDIR,
    OP_SENDFILE,
    OP_STATVFS,
    OP_UNLINK,
    OP_WRITEBACK,
    FileInfo,
    FileOps,
    Files,
    SpaceInfo,
    iovec,
    name_sink,
)

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
    PASS = 0
    FAIL = 1
    PART = 2

# In the order of the enum in `_files.pxd`.
_NAMES = (
    "open", "close", "fstat", "pwrite", "pwritev", "preadv", "fdatasync", "ftruncate", "fallocate",
    "rename", "unlink", "link", "mkdir", "rmdir", "listdir", "fsync_dir", "statvfs", "writeback",
    "mmap_ro", "munmap", "lock", "sendfile",
)
assert len(_NAMES) == OP_COUNT

#: Operations that change files or names, or make a change durable; calls of `open` if they create or truncate.
CHANGES = frozenset({
    "open", "pwrite", "pwritev", "fdatasync", "ftruncate", "fallocate", "rename", "unlink", "link", "mkdir",
    "rmdir", "fsync_dir",
})


# --- decisions ---------------------------------------------------------------------------------

cdef inline bint _changes(int op, int flags) noexcept nogil:
    if op == OP_OPEN:
        return (flags & (O_CREAT | O_TRUNC)) != 0
    return (op == OP_PWRITE or op == OP_PWRITEV or op == OP_FDATASYNC or op == OP_FTRUNCATE or op == OP_FALLOCATE
            or op == OP_RENAME or op == OP_UNLINK or op == OP_LINK or op == OP_MKDIR or op == OP_RMDIR
            or op == OP_FSYNC_DIR)


cdef inline bint _matches(Plan *plan, int op, bint changes, const char *path, const char *other) noexcept nogil:
    if plan.op != op and not (plan.op == ANY_CHANGE and changes):
        return False
    if plan.path[0] == 0:
        return True
    if path != NULL and strstr(path, plan.path) != NULL:
        return True
    return other != NULL and strstr(other, plan.path) != NULL


cdef int _decide(Faults *faults, int op, int flags, const char *path, const char *other, int64_t *part,
                 int *error) noexcept nogil:
    """Count one call and return its outcome: PASS, FAIL with error, or PART with both."""
    cdef bint changes = _changes(op, flags)
    cdef int i, verdict = PASS
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
        if verdict != PASS:
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
                part[0] = plan.part
                error[0] = plan.error if plan.torn else 0
                plan.owed = not plan.torn and plan.error != 0
                verdict = PART
                continue
        error[0] = plan.error
        verdict = FAIL
    return verdict


cdef inline const char *_path_of(Faults *faults, int fd) noexcept nogil:
    return faults.paths[fd] if 0 <= fd < faults.path_room else NULL


cdef void _dawdle(Faults *faults, int op) noexcept nogil:
    cdef timespec wanted
    if faults.delays_ns[op] > 0:
        wanted.tv_sec = faults.delays_ns[op] // 1_000_000_000
        wanted.tv_nsec = faults.delays_ns[op] % 1_000_000_000
        nanosleep(&wanted, NULL)


cdef int _ask(Faults *faults, int op, int fd, int64_t *part, int *error) noexcept nogil:
    """Call `_decide` for an operation on a descriptor."""
    cdef int verdict
    _dawdle(faults, op)
    pthread_mutex_lock(&faults.guard)
    verdict = _decide(faults, op, 0, _path_of(faults, fd), NULL, part, error)
    pthread_mutex_unlock(&faults.guard)
    return verdict


cdef int _ask_path(Faults *faults, int op, int flags, const char *path, const char *other) noexcept nogil:
    """Return 0, or the negative errno with which an operation on names fails."""
    cdef int64_t part = -1
    cdef int error = 0, verdict
    _dawdle(faults, op)
    pthread_mutex_lock(&faults.guard)
    verdict = _decide(faults, op, flags, path, other, &part, &error)
    pthread_mutex_unlock(&faults.guard)
    return -error if verdict == FAIL else 0


cdef void _note(Faults *faults, int op, const char *path, int fd, int64_t position, int64_t size,
                int64_t status) noexcept nogil:
    """Record a call after it was made."""
    cdef Event *grown
    cdef int64_t room
    if not faults.recording:
        return
    pthread_mutex_lock(&faults.guard)
    if faults.event_count == faults.event_room:
        room = faults.event_room * 2 + 256
        grown = <Event *>realloc(faults.events, <size_t>room * sizeof(Event))
        if grown == NULL:
            pthread_mutex_unlock(&faults.guard)
            return
        faults.events = grown
        faults.event_room = room
    if path == NULL:
        path = _path_of(faults, fd)
    faults.events[faults.event_count].op = op
    faults.events[faults.event_count].position = position
    faults.events[faults.event_count].size = size
    faults.events[faults.event_count].status = status
    faults.events[faults.event_count].path = strdup(path) if path != NULL else NULL
    faults.event_count += 1
    pthread_mutex_unlock(&faults.guard)


cdef void _remember(Faults *faults, int fd, const char *path) noexcept nogil:
    cdef char **grown
    cdef int room
    pthread_mutex_lock(&faults.guard)
    if fd >= faults.path_room:
        room = fd * 2 + 64
        grown = <char **>realloc(faults.paths, <size_t>room * sizeof(char *))
        if grown != NULL:
            memset(grown + faults.path_room, 0, <size_t>(room - faults.path_room) * sizeof(char *))
            faults.paths = grown
            faults.path_room = room
    if fd < faults.path_room:
        free(faults.paths[fd])
        faults.paths[fd] = strdup(path)
    pthread_mutex_unlock(&faults.guard)


# --- the table ---------------------------------------------------------------------------------

cdef int f_open(void *context, const char *path, int flags, int mode) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef int status = _ask_path(faults, OP_OPEN, flags, path, NULL)
    if status == 0:
        status = faults.inner.open(faults.inner.context, path, flags, mode)
        if status >= 0:
            _remember(faults, status, path)
    _note(faults, OP_OPEN, path, -1, flags, 0, status)
    return status


cdef int f_close(void *context, int fd) noexcept nogil:
    # A planned failure that did not close the descriptor would leak it.
    cdef Faults *faults = <Faults *>context
    cdef int64_t part = -1
    cdef int error = 0, status
    cdef int verdict = _ask(faults, OP_CLOSE, fd, &part, &error)
    _note(faults, OP_CLOSE, NULL, fd, 0, 0, 0)
    pthread_mutex_lock(&faults.guard)
    if 0 <= fd < faults.path_room:
        free(faults.paths[fd])
        faults.paths[fd] = NULL
    pthread_mutex_unlock(&faults.guard)
    status = faults.inner.close(faults.inner.context, fd)
    return -error if verdict == FAIL else status


cdef int f_fstat(void *context, int fd, FileInfo *out) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef int64_t part = -1
    cdef int error = 0
    if _ask(faults, OP_FSTAT, fd, &part, &error) == FAIL:
        return -error
    return faults.inner.fstat(faults.inner.context, fd, out)


cdef int64_t f_pwrite(void *context, int fd, const void *data, size_t size, int64_t position) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef int64_t part = -1, status
    cdef int error = 0
    cdef int verdict = _ask(faults, OP_PWRITE, fd, &part, &error)
    if verdict == FAIL:
        status = -error
    else:
        if verdict == PART and part < <int64_t>size:
            size = <size_t>part
        status = faults.inner.pwrite(faults.inner.context, fd, data, size, position)
        if verdict == PART and error and status >= 0:
            status = -error
    _note(faults, OP_PWRITE, NULL, fd, position, <int64_t>size, status)
    return status


cdef int64_t f_pwritev(void *context, int fd, const iovec *parts, int count, int64_t position) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef int64_t part = -1, status, size = 0
    cdef int error = 0, i
    cdef int verdict = _ask(faults, OP_PWRITEV, fd, &part, &error)
    for i in range(count):
        size += <int64_t>parts[i].iov_len
    if verdict == FAIL:
        status = -error
    elif verdict == PART and count > 0:
        size = min(part, <int64_t>parts[0].iov_len)
        status = faults.inner.pwrite(faults.inner.context, fd, parts[0].iov_base, <size_t>size, position)
        if error and status >= 0:
            status = -error
    else:
        status = faults.inner.pwritev(faults.inner.context, fd, parts, count, position)
    _note(faults, OP_PWRITEV, NULL, fd, position, size, status)
    return status


cdef int64_t f_preadv(void *context, int fd, const iovec *parts, int count, int64_t position) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef int64_t part = -1, status
    cdef int error = 0
    cdef iovec first
    cdef int verdict = _ask(faults, OP_PREADV, fd, &part, &error)
    if verdict == FAIL:
        status = -error
    elif verdict == PART and count > 0:
        first = parts[0]
        first.iov_len = min(first.iov_len, <size_t>part)
        status = faults.inner.preadv(faults.inner.context, fd, &first, 1, position)
        if error and status >= 0:
            status = -error
    else:
        status = faults.inner.preadv(faults.inner.context, fd, parts, count, position)
    _note(faults, OP_PREADV, NULL, fd, position, 0, status)
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
    cdef int64_t part = -1
    cdef int error = 0, status
    _wait_at_gate(faults, fd)
    if _ask(faults, OP_FDATASYNC, fd, &part, &error) == FAIL:
        status = -error
        if error and faults.lose != NULL:
            faults.lose(faults.inner.context, fd)
    else:
        status = faults.inner.fdatasync(faults.inner.context, fd)
    _note(faults, OP_FDATASYNC, NULL, fd, 0, 0, status)
    return status


cdef int f_ftruncate(void *context, int fd, int64_t size) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef int64_t part = -1
    cdef int error = 0, status
    if _ask(faults, OP_FTRUNCATE, fd, &part, &error) == FAIL:
        status = -error
    else:
        status = faults.inner.ftruncate(faults.inner.context, fd, size)
    _note(faults, OP_FTRUNCATE, NULL, fd, 0, size, status)
    return status


cdef int f_fallocate(void *context, int fd, int mode, int64_t position, int64_t size) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef int64_t part = -1
    cdef int error = 0, status
    if _ask(faults, OP_FALLOCATE, fd, &part, &error) == FAIL:
        status = -error
    else:
        status = faults.inner.fallocate(faults.inner.context, fd, mode, position, size)
    _note(faults, OP_FALLOCATE, NULL, fd, position, size, status)
    return status


cdef int f_rename(void *context, const char *old, const char *new) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef int status = _ask_path(faults, OP_RENAME, 0, old, new)
    if status == 0:
        status = faults.inner.rename(faults.inner.context, old, new)
    _note(faults, OP_RENAME, new, -1, 0, 0, status)
    return status


cdef int f_unlink(void *context, const char *path) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef int status = _ask_path(faults, OP_UNLINK, 0, path, NULL)
    if status == 0:
        status = faults.inner.unlink(faults.inner.context, path)
    _note(faults, OP_UNLINK, path, -1, 0, 0, status)
    return status


cdef int f_link(void *context, const char *old, const char *new) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef int status = _ask_path(faults, OP_LINK, 0, old, new)
    if status == 0:
        status = faults.inner.link(faults.inner.context, old, new)
    _note(faults, OP_LINK, new, -1, 0, 0, status)
    return status


cdef int f_mkdir(void *context, const char *path, int mode) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef int status = _ask_path(faults, OP_MKDIR, 0, path, NULL)
    if status == 0:
        status = faults.inner.mkdir(faults.inner.context, path, mode)
    _note(faults, OP_MKDIR, path, -1, 0, 0, status)
    return status


cdef int f_rmdir(void *context, const char *path) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef int status = _ask_path(faults, OP_RMDIR, 0, path, NULL)
    if status == 0:
        status = faults.inner.rmdir(faults.inner.context, path)
    _note(faults, OP_RMDIR, path, -1, 0, 0, status)
    return status


cdef int f_listdir(void *context, const char *path, name_sink emit, void *sink) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef int status = _ask_path(faults, OP_LISTDIR, 0, path, NULL)
    if status == 0:
        status = faults.inner.listdir(faults.inner.context, path, emit, sink)
    return status


cdef int f_fsync_dir(void *context, const char *path) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef int status
    cdef int64_t part = -1
    cdef int error = 0, verdict
    pthread_mutex_lock(&faults.guard)
    verdict = _decide(faults, OP_FSYNC_DIR, 0, path, NULL, &part, &error)
    pthread_mutex_unlock(&faults.guard)
    if verdict != FAIL:
        status = faults.inner.fsync_dir(faults.inner.context, path)
    else:
        status = -error
        if error and faults.lose_names != NULL:
            faults.lose_names(faults.inner.context, path)
    _note(faults, OP_FSYNC_DIR, path, -1, 0, 0, status)
    return status


cdef int f_statvfs(void *context, const char *path, SpaceInfo *out) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef int status = _ask_path(faults, OP_STATVFS, 0, path, NULL)
    return status if status else faults.inner.statvfs(faults.inner.context, path, out)


cdef int f_writeback(void *context, int fd, int64_t position, int64_t size) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef int64_t part = -1
    cdef int error = 0
    if _ask(faults, OP_WRITEBACK, fd, &part, &error) == FAIL:
        return -error
    return faults.inner.writeback(faults.inner.context, fd, position, size)


cdef int f_mmap_ro(void *context, int fd, size_t size, const uint8_t **out) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef int64_t part = -1
    cdef int error = 0
    if _ask(faults, OP_MMAP_RO, fd, &part, &error) == FAIL:
        return -error
    return faults.inner.mmap_ro(faults.inner.context, fd, size, out)


cdef int f_munmap(void *context, const uint8_t *data, size_t size) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef int64_t part = -1
    cdef int error = 0
    _ask(faults, OP_MUNMAP, -1, &part, &error)
    return faults.inner.munmap(faults.inner.context, data, size)


cdef int f_lock(void *context, int fd, int *owner_pid) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef int64_t part = -1
    cdef int error = 0
    if _ask(faults, OP_LOCK, fd, &part, &error) == FAIL:
        return -error
    return faults.inner.lock(faults.inner.context, fd, owner_pid)


cdef int64_t f_sendfile(void *context, int out_fd, int in_fd, int64_t position, size_t size) noexcept nogil:
    cdef Faults *faults = <Faults *>context
    cdef int64_t part = -1, status
    cdef int error = 0
    cdef int verdict = _ask(faults, OP_SENDFILE, in_fd, &part, &error)
    if verdict == FAIL:
        status = -error
    else:
        if verdict == PART:
            size = min(size, <size_t>part)
        status = faults.inner.sendfile(faults.inner.context, out_fd, in_fd, position, size)
    _note(faults, OP_SENDFILE, NULL, in_fd, position, <int64_t>size, status)
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

    def fail(self, str op not None, int64_t nth=1, int errno=_errno.EIO, *, int64_t times=1, path_contains=None,
             int64_t short=-1, int64_t torn=-1):
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

    def heal(self):
        """Forget all plans."""
        pthread_mutex_lock(&self._faults.guard)
        self._faults.plan_count = 0
        pthread_mutex_unlock(&self._faults.guard)

    def delay(self, str op not None, double delay_ms):
        """Delay every call of an operation from now on, as on a slow disk; 0 ends it.

        The calling thread sleeps without the GIL. The operations are those of `counts`.
        """
        if op not in _NAMES:
            raise ValueError(f"op= names an operation of {', '.join(_NAMES)}, found {op!r}")
        if not 0 <= delay_ms < 1e9:
            raise ValueError(f"a delay is 0 ms or more, found {delay_ms}")
        self._faults.delays_ns[_NAMES.index(op)] = <int64_t>(delay_ms * 1e6)

    def watch_thread(self):
        """Count the calls of the calling thread from now on; a loop that never blocks makes none."""
        pthread_mutex_lock(&self._faults.guard)
        self._faults.watched = pthread_self()
        self._faults.is_watched = True
        self._faults.watched_calls = 0
        pthread_mutex_unlock(&self._faults.guard)

    def watched_calls(self):
        """Return how many calls that thread has made."""
        return self._faults.watched_calls

    def hold_syncs(self, path_contains=""):
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

    def held_syncs(self):
        """Return how many syncs have reached `hold_syncs`."""
        return self._faults.waiting

    def release_syncs(self):
        """Release the waiting syncs, and hold no more."""
        if self._faults.is_held:
            self._faults.is_held = False
            pthread_mutex_unlock(&self._faults.quota)

    def fired(self):
        """Return (operation, path, how often) of each plan that has failed a call."""
        found = []
        for i in range(self._faults.plan_count):
            if self._faults.plans[i].fired:
                op = self._faults.plans[i].op
                found.append(("change" if op == ANY_CHANGE else _NAMES[op],
                              os.fsdecode(<bytes>self._faults.plans[i].fired_on), self._faults.plans[i].fired))
        return found

    def counts(self):
        """Return how many calls of each operation have reached the table, including failed ones."""
        return {name: self._faults.counts[op] for op, name in enumerate(_NAMES)}

    @property
    def changes(self):
        """The number of calls that changed files or names, made a change durable, or failed to."""
        return self._faults.changes

    def record(self):
        """Record every call from now on, and forget the earlier record."""
        pthread_mutex_lock(&self._faults.guard)
        self._forget_events()
        self._faults.recording = True
        pthread_mutex_unlock(&self._faults.guard)

    def recorded(self):
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
