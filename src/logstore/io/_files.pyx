# cython: language_level=3
"""C table of file operations: the only interface between logstore and the operating system.

`Files` holds a table (libc by default; tests pass another), counts its calls and keeps at most `descriptor_limit`
descriptors open. A `File` whose descriptor was evicted opens it again at its next use. A file with unsynced writes
is synced before its descriptor is closed, because a failed write-back is reported to open descriptors only. The
`File` then stores the failure and raises it at its next sync. This module never decides what to create, rename or
remove: `log.directory.files` does.

Every method may be called from any thread; system calls that may block run without the GIL.
"""

import errno
import os
import resource
import threading

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EINTR, EAGAIN, EACCES, EINVAL, EMFILE, ENFILE, ENOENT
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from logstore.io._libc cimport call_libc

from logstore.errors import DiskFullError, ReadOnlyError, StorageError, StorageFailedError, TooManyFilesError

cdef extern from *:
    """
    #include <fcntl.h>
    #include <pthread.h>
    #include <stdint.h>

    #include <sys/resource.h>
    #include <time.h>

    static volatile uint64_t logstore_forks = 0;
    static _Thread_local int logstore_is_sparing = 0;
    static int logstore_spares(void) { return logstore_is_sparing; }
    static void logstore_spare(void) { logstore_is_sparing = 1; }
    static void logstore_in_child(void) { logstore_forks++; }
    static int logstore_watch_forks(void) { return pthread_atfork(NULL, NULL, logstore_in_child); }

    /* The time of the last tick of the kernel, 1 to 10 ms ago: 5 ns, where the exact time takes 30. */
    static int64_t logstore_coarse_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
        return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    }
    /* How often the calling thread has waited for something: not counted is the processor's time for others. */
    static int64_t logstore_switches(void) {
        struct rusage usage;
        return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nvcsw : -1;
    }
    """
    int64_t logstore_coarse_ns() nogil
    int64_t logstore_switches() nogil
    uint64_t logstore_forks
    bint logstore_spares() nogil
    void logstore_spare() nogil
    int logstore_watch_forks()
    enum: O_RDONLY
    enum: O_RDWR
    enum: O_CREAT
    enum: O_EXCL
    enum: O_TRUNC
    enum: O_CLOEXEC


#: The kernel's id of its run; see random(4).
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


# --- leaves over a table ----------------------------------------------------------------------

cdef int write_all(FileOps *ops, int fd, const uint8_t *data, int64_t size, int64_t position) noexcept nogil:
    """Write all of data at position; return 0, or the negative errno, when an unknown part is written."""
    cdef int64_t done = 0, count
    while done < size:
        count = on_file(ops, OP_PWRITE, fd, data + done, size - done, position + done)
        if count == -EINTR:
            continue
        if count < 0:
            return <int>count
        if count == 0:
            return -EINVAL
        done += count
    return 0


cdef int64_t read_upto(FileOps *ops, int fd, uint8_t *data, int64_t size, int64_t position) noexcept nogil:
    """Read until size bytes or the end of the file; return the count, or the negative errno."""
    cdef int64_t done = 0, count
    while done < size:
        count = on_file(ops, OP_PREADV, fd, data + done, size - done, position + done)
        if count == -EINTR:
            continue
        if count < 0:
            return count
        if count == 0:
            break
        done += count
    return done


_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
_REFUSED = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


cdef int raise_status(int64_t status, str action, str path, object position=None) except -1:
    """Raise the error of a negative status; return for 0 or a count."""
    if status >= 0:
        return 0
    number = <int>-status
    cause = OSError(number, os.strerror(number), path)
    if number in _FULL:
        raise DiskFullError(
            f"the disk has no space to {action}: {cause.strerror}; free some space and try again",
            path=path, position=position) from cause
    if number in _REFUSED:
        raise ReadOnlyError(
            f"the process may not {action}: {cause.strerror}; check the owner and mode of the directory",
            path=path, position=position) from cause
    if number in _NO_DESCRIPTOR:
        raise TooManyFilesError.to(action, cause, path=path, position=position) from cause
    advice = ""
    if number == errno.EIO:
        advice = "; the device has reported an error: look into the kernel's log"
    raise StorageError(
        f"the attempt to {action} failed: {cause.strerror}{advice}", path=path, position=position) from cause


cdef int raise_failed_sync(int64_t status, str action, str path) except -1:
    """Raise StorageFailedError, never a full disk to retry: the kernel has marked the lost pages clean."""
    cause = OSError(<int>-status, os.strerror(<int>-status), path)
    raise StorageFailedError(
        f"the attempt to {action} failed: {cause.strerror}; call close(), then Log.open() again",
        path=path) from cause


def spare_descriptors():
    """Have the calling thread never close a cached file to get its descriptor, until the thread ends.

    For background work that can wait: another user of the process may take the descriptor that it gives back, and
    the appends that come next would have none.
    """
    logstore_spare()


def errno_of(error):
    """Return the errno behind a StorageError, or 0."""
    cause = error.__cause__
    return (cause.errno or 0) if isinstance(cause, OSError) else 0


cpdef uint64_t fork_generation() noexcept:
    """Return the number of forks between the first import of logstore and this process."""
    return logstore_forks


if logstore_watch_forks() != 0:
    raise MemoryError("no room to watch for forks")


cdef enum:
    TRIES = 8                       # cached descriptors that are closed for one call before it is refused
    HELD_BYTES = 16_384             # of a write that may keep the GIL: 2 to 7 us
    SLOW_NS = 8_000_000             # two ticks of a coarse clock, and more than a thread waits for the GIL anyway
    WARM_NS = 1_000_000_000
    WARM_BYTES = 1 << 22            # at the end of a file that is written
    WATCHED_NS = 1_000_000_000
    RELEASED_TIMES = 100            # as long as a write has blocked

OP_NAMES = (
    "open", "close", "fstat", "pwrite", "preadv", "fdatasync", "ftruncate", "fallocate",
    "rename", "unlink", "link", "mkdir", "rmdir", "listdir", "fsync_dir", "statvfs", "writeback",
    "mmap_ro", "munmap", "lock", "sendfile", "cached",
)


cdef class Files:
    """Table of file operations with its descriptor cache.

    Owns: the descriptors of the `File`s that it opened, through them.
    Threads: any; the list of open files is changed only under the GIL.
    """

    def __cinit__(self, *, descriptor_limit=None):
        self.ops = FileOps(NULL, call_libc)
        self.untold = set()
        memset(self.calls, 0, sizeof(self.calls))
        if descriptor_limit is None:
            soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            # Half is left for sockets, other libraries and slices that pin their file.
            unlimited = soft == resource.RLIM_INFINITY
            descriptor_limit = 65_536 if unlimited else max(16, min(soft // 2, 65_536))
        if descriptor_limit < 1:
            raise ValueError(f"descriptor_limit: expected at least 1, found {descriptor_limit}")
        self.descriptor_limit = descriptor_limit

    def open(self, str path not None, *, bint create=False, bint writable=False, bint exclusive=False,
             bint truncate=False, bint hint=False):
        """Open a `File` at once, so that a missing file is an error here.

        Writes to a ``hint`` may be lost: its descriptor is closed without a sync.
        """
        cdef File file = File(self, path)
        file._hint = hint
        if writable:
            file._flags = O_RDWR
        if create:
            file._flags |= O_CREAT
        if exclusive:
            file._flags |= O_EXCL
        if truncate:
            file._flags |= O_TRUNC
        file.acquire()
        file.release()
        # A reopened descriptor must not create or empty the file again.
        file._flags &= ~(O_CREAT | O_EXCL | O_TRUNC)
        return file

    def lazy(self, str path not None, *, bint writable=False, str renamed_to=None):
        """Return a `File` that is opened at its first use.

        ``renamed_to`` is the name that another process may give the file: used once there is none under ``path``.
        """
        cdef File file = File(self, path)
        file._renamed_to = renamed_to
        if writable:
            file._flags = O_RDWR
        return file

    def rename(self, str old not None, str new not None):
        self._path_call(OP_RENAME, "rename", old, new, NULL)

    def unlink(self, str path not None):
        self._path_call(OP_UNLINK, "remove", path, None, NULL)

    def link(self, str old not None, str new not None):
        self._path_call(OP_LINK, "link", old, new, NULL)

    def mkdir(self, str path not None):
        self._path_call(OP_MKDIR, "make directory", path, None, NULL)

    def rmdir(self, str path not None):
        self._path_call(OP_RMDIR, "remove directory", path, None, NULL)

    def sync_directory(self, str path not None):
        """Make the names in a directory durable."""
        self._path_call(OP_FSYNC_DIR, "sync directory", path, None, NULL)

    cdef int _path_call(self, int op, str action, str first, str second, void *data) except -1:
        cdef bytes path = os.fsencode(first)
        cdef bytes new_path = None if second is None else os.fsencode(second)
        cdef const char *p = PyBytes_AS_STRING(path)
        cdef const char *new = NULL if new_path is None else PyBytes_AS_STRING(new_path)
        cdef int64_t status
        cdef int tries = TRIES
        while True:
            self.calls[op] += 1
            with nogil:
                status = on_path(&self.ops, op, p, new, data, 0)
            if not self._gave_one_back(status, &tries):
                break
        # A directory that was not opened was not synced: nothing is lost, and the caller may retry.
        if status < 0 and op == OP_FSYNC_DIR and status != -ENOENT and -status not in _NO_DESCRIPTOR:
            return raise_failed_sync(status, action, first)
        return raise_status(status, action, first)

    def listdir(self, str path not None):
        """Return the names in a directory, unsorted."""
        cdef list names = []
        self._path_call(OP_LISTDIR, "list directory", path, None, <void *>names)
        return names

    def space(self, str path not None):
        """Return (total bytes, bytes free to this user) of the file system that holds path."""
        cdef SpaceInfo info
        self._path_call(OP_STATVFS, "read the free space", path, None, &info)
        return info.total_bytes, info.free_bytes

    def boot(self):
        """Return the id of this run of the machine, 16 bytes; empty if the system does not tell."""
        try:
            with open(_BOOT_ID) as text:
                return bytes.fromhex(text.read().strip().replace("-", ""))
        except (OSError, ValueError):
            return b""

    def call_counts(self):
        """Return the number of calls of each operation in this table, by its name."""
        return {name: self.calls[op] for op, name in enumerate(OP_NAMES)}

    cdef int _close_excess(self) except -1:
        """Close descriptors while the limit is reached.

        When every file is pinned the limit is exceeded, since refusing work would be worse.
        """
        while self.open_descriptors >= self.descriptor_limit:
            if not self._close_one():
                return 0
        return 0

    def clean_by(self, cleaner):
        """Have ``cleaner`` called when an eighth of the descriptors is left: it has another thread `sync_oldest`.

        So the file that is closed for another one is clean, and the thread that opens that one waits for no sync.
        It is called again when half of the files that were clean then have been closed.
        """
        self._cleaner = cleaner

    cdef int _ask_cleaner(self) except -1:
        if (self._cleaner is not None and not self._is_cleaning and self._left_clean <= 0
                and self.open_descriptors >= self.descriptor_limit - self.descriptor_limit // 8):
            self._is_cleaning = True
            try:
                self._cleaner()
            except BaseException:
                self._is_cleaning = False
                raise
        return 0

    def sync_oldest(self):
        """Sync the unsynced ones among the least recently used quarter of the files that may be open.

        A failure is stored in its file, whose next sync raises it.
        """
        cdef list oldest = []
        cdef File file = self._oldest
        cdef Py_ssize_t left = self.descriptor_limit // 4 + 1
        try:
            while file is not None and left:
                if file.dirty:
                    oldest.append(file)
                file = file._newer
                left -= 1
            self._left_clean = self.descriptor_limit // 8
            for file in oldest:
                file._sync_if_open()
        finally:
            self._is_cleaning = False

    def forget_cleaning(self):
        """Have the cleaner called again in a forked child, which has not the thread that it had asked."""
        self._is_cleaning = False
        self._left_clean = 0

    cdef bint _close_one(self) except -1:
        """Close the least recently used descriptor that is not pinned; False if all are.

        A clean file is closed before a dirty one, which must be synced first.
        """
        cdef File file = self._oldest, dirty = None
        while file is not None and (file._pins or file.dirty):
            if dirty is None and not file._pins:
                dirty = file
            file = file._newer
        if file is None:
            file = dirty
        if file is None:
            return False
        file._close_descriptor()
        # An unsynced one that is older: those that were synced are used up.
        self._left_clean = self._left_clean - 1 if dirty is None else 0
        return True

    cdef bint _gave_one_back(self, int64_t status, int *tries) except -1:
        """Return whether to retry a call that found no free descriptor: a cached one was closed for it.

        So the cache is a reserve: a log can open its files while sockets take all other descriptors.
        """
        if (status != -EMFILE and status != -ENFILE) or tries[0] == 0 or logstore_spares():
            return False
        tries[0] -= 1
        return self._close_one()

    cdef void _unlink_node(self, File file) noexcept:
        if file._older is not None:
            file._older._newer = file._newer
        else:
            self._oldest = file._newer
        if file._newer is not None:
            file._newer._older = file._older
        else:
            self._newest = file._older
        file._older = None
        file._newer = None
        file._listed = False

    cdef void _push_node(self, File file):
        file._older = self._newest
        file._newer = None
        if self._newest is not None:
            self._newest._newer = file
        else:
            self._oldest = file
        self._newest = file
        file._listed = True


cdef enum:
    PIECE_BYTES = 262_144             # some 0.1 ms to read and write


cdef class File:
    """File, with a descriptor while the cache grants it one.

    Owns: its descriptor. Reads and writes pin it; a closed `File` is never opened again.
    """

    def __cinit__(self, Files files not None, str path not None):
        # First: if the path cannot be encoded, `__del__` would close descriptor 0, which is not this file's.
        self._fd = -1
        self.files = files
        self.path = path
        self._path = os.fsencode(path)
        self._flags = O_RDONLY
        # Not created at first use: two threads would create two, and each sync under its own.
        self._sync_lock = threading.Lock()

    cdef int acquire(self) except -1:
        """Return the descriptor, pinned until `release`."""
        cdef int64_t fd
        cdef int tries = TRIES
        cdef Files files = self.files
        cdef bytes name
        cdef const char *path
        if self._fd >= 0:
            self._pins += 1
            if files._newest is not self:
                files._unlink_node(self)
                files._push_node(self)
            return self._fd
        if self._closed:
            raise StorageError("the file is closed", path=self.path)
        files._close_excess()
        name = self._path
        while True:
            path = PyBytes_AS_STRING(name)
            files.calls[OP_OPEN] += 1
            with nogil:
                fd = on_path(&files.ops, OP_OPEN, path, NULL, NULL, self._flags)
            if fd == -ENOENT and self._renamed_to is not None:
                self.path, self._renamed_to = self._renamed_to, None
                self._path = os.fsencode(self.path)
            if fd == -ENOENT and name is not self._path:
                # Renamed by its writer, as this thread or another has found.
                name = self._path
                continue
            if not files._gave_one_back(fd, &tries):
                break
        if self._fd >= 0:
            # Another thread opened it while the GIL was released.
            if fd >= 0:
                on_file(&files.ops, OP_CLOSE, <int>fd, NULL, 0, 0)
        elif self._closed:
            # Closed meanwhile, as before a rename over its path: the descriptor may be that of another file.
            if fd >= 0:
                on_file(&files.ops, OP_CLOSE, <int>fd, NULL, 0, 0)
            raise StorageError("the file is closed", path=self.path)
        elif fd < 0:
            raise_status(fd, "open", self.path)
        else:
            self._fd = <int>fd
            files.open_descriptors += 1
            files._push_node(self)
        self._pins += 1
        if files._cleaner is not None:
            try:
                files._ask_cleaner()
            except BaseException:
                self._pins -= 1
                raise
        return self._fd

    cdef void release(self) noexcept:
        self._pins -= 1
        if self._pins == 0 and self._closed and self._fd >= 0:
            self._drop_descriptor()

    cdef bint keeps_gil(self, int64_t size, Pace *pace) noexcept:
        """Return whether the next write to the page cache is to keep the GIL; `wrote` follows it.

        A small write takes 1 to 7 us. Releasing the GIL for it costs more than it gains: every other thread that
        wants the GIL is woken, and this one has to wait for it afterwards. Eight threads that append at once then
        get a third of the rate of one.

        A write that may block must release it, or it would stop every thread of the process. So the GIL is kept
        only where a write finds its pages: within a second of the last write to this file, since pages that are
        not in memory have to be read, and while no sync of the file runs, since that may hold its pages and the
        file system's journal. What is left (dirty pages are throttled, memory is short) shows in the time: once a
        write has taken 8 ms, each is looked at, and one that has blocked makes all writes of this table release
        the GIL for a hundred times as long. So a disk that stalls stops the process twice, at most for a hundredth
        of the time after that. Time that the processor gave to other processes does not count: on a busy
        machine that would look the same.
        """
        cdef Files files = self.files
        pace.began_ns = logstore_coarse_ns()
        pace.switches = -1
        if (size > HELD_BYTES or self._syncing or pace.began_ns > self._warm_until_ns
                or pace.began_ns < files._released_until_ns):
            return False
        if pace.began_ns < files._watched_until_ns:
            pace.switches = logstore_switches()
        files.held_writes += 1
        return True

    cdef void wrote(self, bint has_kept_gil, const Pace *pace, int64_t position, int64_t size) noexcept:
        """Learn from a write that has ended."""
        cdef Files files = self.files
        cdef int64_t now = logstore_coarse_ns(), took = now - pace.began_ns
        self._warm_until_ns = now + WARM_NS
        if position != self._written_end:
            self._written_from = position
        self._written_end = position + size
        if took < SLOW_NS or not has_kept_gil:
            return
        files._watched_until_ns = now + WATCHED_NS
        if pace.switches >= 0 and logstore_switches() != pace.switches:
            files._released_until_ns = now + RELEASED_TIMES * took
            files._watched_until_ns += RELEASED_TIMES * took

    cdef bint has_just_written(self, int64_t position) noexcept:
        """Return whether the bytes from a position on are those of writes up to the last second, and not many."""
        return (self._written_from <= position and self._written_end - position <= WARM_BYTES
                and logstore_coarse_ns() < self._warm_until_ns)

    cdef int put(self, const uint8_t *data, int64_t size, int64_t position) except -1:
        """Write as `write` does, for compiled callers; a small write may keep the GIL."""
        cdef FileOps *ops = &self.files.ops
        cdef int status, fd = self.acquire()
        cdef bint keeps_gil
        cdef Pace pace
        self.dirty = not self._hint
        self.files.calls[OP_PWRITE] += 1
        keeps_gil = self.keeps_gil(size, &pace)
        if keeps_gil:
            status = write_all(ops, fd, data, size, position)
        else:
            with nogil:
                status = write_all(ops, fd, data, size, position)
        self.wrote(keeps_gil, &pace, position, size)
        # Again: a concurrent sync may have started before the write, and cleared the mark.
        self.dirty = not self._hint
        self.release()
        raise_status(status, "write", self.path, position)
        return 0

    cdef int _close_descriptor(self) except -1:
        """Close the descriptor; unsynced writes are synced first."""
        if self._fd < 0:
            return 0
        if self.dirty:
            self._pins += 1
            try:
                with self._sync_lock:
                    self._sync()
            finally:
                self._pins -= 1
            if self._pins or self._fd < 0 or self.dirty:
                return 0
        self._drop_descriptor()
        return 0

    cdef void _drop_descriptor(self) noexcept:
        cdef int fd = self._fd
        self._fd = -1
        self.files.open_descriptors -= 1
        if self._listed:
            self.files._unlink_node(self)
        self.files.calls[OP_CLOSE] += 1
        on_file(&self.files.ops, OP_CLOSE, fd, NULL, 0, 0)

    cdef int _sync(self) except -1:
        """Call fdatasync; a failure is stored in the file and not raised here."""
        cdef int64_t status
        cdef Files files = self.files
        cdef int fd = self._fd
        # Cleared first: clearing it afterwards would hide a write that ends during the sync.
        self.dirty = False
        files.calls[OP_FDATASYNC] += 1
        self._syncing += 1
        with nogil:
            status = on_file(&files.ops, OP_FDATASYNC, fd, NULL, 0, 0)
        self._syncing -= 1
        if status < 0 and self._sync_errno == 0:
            self._sync_errno = <int>-status
        return 0

    cdef int _write_again(self) except -1:
        """Write the doubtful bytes again, in place; a failure is stored in the file as that of a sync.

        At the top of the loop the bytes before ``_doubtful_from`` are written. Each piece is read and written
        without releasing the GIL: a truncation in between would be undone.

        Raises:
            StorageError: no descriptor is free, or the file is gone. Nothing has failed: a later sync tries again.
        """
        cdef Files files = self.files
        cdef FileOps *ops = &files.ops
        cdef int64_t status = 0, size
        cdef int fd
        cdef File other = None
        cdef uint8_t *piece = <uint8_t *>malloc(PIECE_BYTES)
        if piece == NULL:
            raise MemoryError
        try:
            if not self._flags & O_RDWR:
                # A sealed segment is open for reading.
                other = files.open(self.path, writable=True)
            fd = self.acquire() if other is None else other.acquire()
            try:
                while self._doubtful_from < self._doubtful_end:
                    size = min(<int64_t>PIECE_BYTES, self._doubtful_end - self._doubtful_from)
                    files.calls[OP_PREADV] += 1
                    status = read_upto(ops, fd, piece, size, self._doubtful_from)
                    if status <= 0:
                        break
                    size = status
                    files.calls[OP_PWRITE] += 1
                    status = write_all(ops, fd, piece, size, self._doubtful_from)
                    if status < 0:
                        break
                    self._doubtful_from += size
                    with nogil:
                        pass  # another thread's turn
            finally:
                if other is None:
                    self.release()
                else:
                    other.release()
                    other.close()
        finally:
            free(piece)
        self.dirty = True
        if status < 0:
            self._sync_errno = <int>-status
        else:
            # Also behind the end of a file that is shorter by now.
            self._doubtful_from = self._doubtful_end
        return 0

    def _sync_if_open(self):
        """Sync the file unless its descriptor was closed meanwhile; a failure is raised by the next `sync`."""
        with self._sync_lock:
            if self._fd < 0 or not self.dirty or self._sync_errno:
                return
            self._pins += 1
            try:
                self._sync()
            finally:
                self.release()

    cpdef bint is_at_hand(self) noexcept:
        """Return whether the file has its descriptor, so that a write opens nothing and closes nothing."""
        return self._fd >= 0

    cpdef int sync(self) except -1:
        """Make every write so far durable. Blocks on the disk.

        Raises:
            StorageError: this or an earlier sync of the file failed. It is never retried, since
                the kernel has marked the lost pages clean.
        """
        # One at a time: a caller that finds the file clean would return while the sync that cleared the mark may
        # still fail.
        with self._sync_lock:
            if self._sync_errno == 0 and self._doubtful_from < self._doubtful_end:
                self._write_again()
            if self._sync_errno == 0 and self.dirty:
                self.acquire()
                try:
                    self._sync()
                finally:
                    self.release()
        if self._sync_errno:
            raise_failed_sync(-self._sync_errno, "sync", self.path)
        return 0

    cpdef int64_t size(self) except -1:
        """Return the number of bytes in the file."""
        return self._info().size

    cdef FileInfo _info(self, bint with_birth=False) except *:
        cdef FileInfo info
        cdef int64_t status
        cdef int fd = self.acquire()
        self.files.calls[OP_FSTAT] += 1
        status = on_file(&self.files.ops, OP_FSTAT, fd, &info, with_birth, 0)
        self.release()
        raise_status(status, "stat", self.path)
        return info

    def allocated_bytes(self):
        """Return the bytes that the file takes on the disk, which are fewer for a file with holes."""
        return self._info().allocated_bytes

    def identity(self):
        """Return (inode, time of creation in ns): a copy of the file has another; the time is 0 if unknown."""
        cdef FileInfo info = self._info(True)
        return info.inode, info.born_ns

    def modified_ms(self):
        """Return the time of the last write, in milliseconds since 1970."""
        return self._info().modified_ns // 1_000_000

    def read(self, int64_t position, Py_ssize_t size):
        """Read at most size bytes from position; fewer only at the end of the file."""
        cdef bytes data = PyBytes_FromStringAndSize(NULL, size)
        cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(data)
        cdef FileOps *ops = &self.files.ops
        cdef int64_t got
        cdef int fd = self.acquire()
        self.files.calls[OP_PREADV] += 1
        with nogil:
            got = read_upto(ops, fd, out, size, position)
        self.release()
        raise_status(got, "read", self.path, position)
        return data if got == size else data[:got]

    def write(self, data, int64_t position):
        """Write all of data at position.

        Raises:
            DiskFullError, StorageError: an unknown part of data has been written.
        """
        cdef Py_buffer view
        cdef int status
        cdef FileOps *ops = &self.files.ops
        cdef int fd = self.acquire()
        self.dirty = not self._hint
        self.files.calls[OP_PWRITE] += 1
        try:
            PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
            with nogil:
                status = write_all(ops, fd, <const uint8_t *>view.buf, view.len, position)
            PyBuffer_Release(&view)
        finally:
            # Again: a concurrent sync may have started before the write, and cleared the mark.
            self.dirty = not self._hint
            self.release()
        raise_status(status, "write", self.path, position)

    def truncate(self, int64_t size):
        """Truncate or extend the file to size bytes."""
        cdef int64_t status
        cdef FileOps *ops = &self.files.ops
        cdef int fd = self.acquire()
        self.dirty = True
        self._doubtful_end = min(self._doubtful_end, size)
        self.files.calls[OP_FTRUNCATE] += 1
        with nogil:
            status = on_file(ops, OP_FTRUNCATE, fd, NULL, size, 0)
        self.dirty = True
        self.release()
        raise_status(status, f"cut to {size} bytes", self.path)

    def begin_writeback(self, int64_t position, int64_t size):
        """Start the kernel's write-back of some pages, so that a later `sync` waits for fewer.

        Guarantees nothing: the file stays dirty, and its sync reports any failure.
        """
        cdef FileOps *ops = &self.files.ops
        cdef int fd = self.acquire()
        self.files.calls[OP_WRITEBACK] += 1
        with nogil:
            on_file(ops, OP_WRITEBACK, fd, NULL, size, position)
        self.release()

    def map(self):
        """Map the whole file read-only; None if it is empty.

        Only for files that are never truncated: reading past a truncation would be a bus error.
        """
        cdef Mapping mapping
        cdef int64_t status
        cdef int64_t size = self.size()
        if size == 0:
            return None
        mapping = Mapping.__new__(Mapping)
        mapping._files = self.files
        fd = self.acquire()
        self.files.calls[OP_MMAP_RO] += 1
        status = on_file(&self.files.ops, OP_MMAP_RO, fd, &mapping.data, size, 0)
        self.release()
        raise_status(status, "map", self.path)
        mapping.size = size
        return mapping

    def rename_to(self, str path not None):
        """Rename the file. It stays open; a reopened descriptor uses the new name."""
        # Pinned: another thread that opened it between the rename and the new name would find none.
        self.acquire()
        try:
            self.files.rename(self.path, path)
            self.path = path
            self._path = os.fsencode(path)
        finally:
            self.release()

    def mark_dirty(self):
        """Mark the file as unsynced: an earlier process may have written to it."""
        self.dirty = True

    def doubt(self, int64_t position, int64_t end):
        """Have the next `sync` write the bytes from ``position`` to ``end`` again first, as a read finds them.

        A sync of the process that wrote them may have failed, of which nothing tells any more. The kernel takes the
        pages that it lost for written then, and no sync but one after a write would bring them to the disk.
        """
        self._doubtful_from, self._doubtful_end = position, end

    def lock(self):
        """Take the write lock of the file; return 0, or the pid of its holder (-1: unknown)."""
        cdef int owner = -1
        cdef int64_t status
        cdef int fd = self.acquire()
        cdef Files files = self.files
        # Pinned until `unlock`: closing any descriptor of a locked file would release the lock.
        files.calls[OP_LOCK] += 1
        with nogil:
            status = on_file(&files.ops, OP_LOCK, fd, &owner, 0, 0)
        if status == 0:
            return 0
        self.release()
        if status == -EAGAIN or status == -EACCES:
            return owner
        raise_status(status, "lock", self.path)

    def unlock(self):
        """Release the lock by closing the file."""
        self.release()
        self.close()

    def close(self):
        """Close once no caller pins the descriptor any more. Unsynced writes are left to the kernel."""
        self._closed = True
        if self._fd >= 0 and self._pins == 0:
            self._drop_descriptor()

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    @property
    def closed(self):
        return self._closed

    @property
    def sync_failed(self):
        """Return whether a sync of this file has failed, at an eviction too."""
        return self._sync_errno != 0

    def __del__(self):
        # The list keeps a listed file alive, so one that is freed has no neighbours, or is freed with its
        # table. Not in __dealloc__: the garbage collector clears the table before that.
        cdef int fd = self._fd
        if fd >= 0 and self.files is not None:
            self._fd = -1
            self.files.open_descriptors -= 1
            on_file(&self.files.ops, OP_CLOSE, fd, NULL, 0, 0)

    def __repr__(self):
        return f"<File {self.path!r}{' closed' if self._closed else ''}>"


# The garbage collector's clear would drop the table before `__dealloc__` calls it.
@cython.no_gc_clear
cdef class Mapping:
    """Read-only mapping of a file.

    Owns: the mapping; it stays valid when the file is closed, renamed or removed.
    """

    def __dealloc__(self):
        if self.data != NULL:
            on_file(&self._files.ops, OP_MUNMAP, -1, self.data, self.size, 0)


#: Table of this process: libc, with one descriptor cache for all logs.
LIBC = Files()
