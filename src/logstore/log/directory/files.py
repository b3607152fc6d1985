"""Names in a log's directory: the only module that creates, renames or removes a file.

A partition is a directory ``topic-N`` below a root. Beside Kafka's files it holds plain files named
``logstore.*``; any of them, there or in the root, marks the directory as logstore's. A change of
names is durable once `Directory.sync` has returned. Every call uses the table of file operations
that the caller passes.
"""

from __future__ import annotations

import errno
import functools
import os
import re
from collections.abc import Collection, Container, Iterable, Sequence
from typing import Final

from logstore.errors import CorruptRecordError, DiskFullError, NotALogError, StorageError
from logstore.io._files import LIBC, File, Files, errno_of
from logstore.paths import local_path
from logstore.records import INT32_MAX, INT64_MAX, TopicPartition

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
SNAPSHOT: Final = ".snapshot"
ABORTED_INDEX: Final = ".txnindex"
SEGMENT_SUFFIXES: Final = (LOG, OFFSET_INDEX, TIME_INDEX, SNAPSHOT, ABORTED_INDEX)

#: Being deleted: nothing reads the file any more (Kafka's suffix).
DELETED: Final = ".deleted"
#: Being written by a compaction or a rewrite; not used until it is renamed (Kafka's suffix).
CLEANED: Final = ".cleaned"
#: Complete, about to replace old segments (Kafka's suffix).
SWAP: Final = ".swap"
TEMPORARY: Final = ".tmp"
#: Prepared for the segment after the one whose base offset follows; see `next_segment`.
NEXT: Final = "logstore.after-"

LOCK: Final = ".lock"
OURS: Final = "logstore."
LOST_AND_FOUND: Final = "lost+found"
META_PROPERTIES: Final = "meta.properties"

_SEGMENT_FILE = re.compile(r"(\d{20})\.(log|index|timeindex|snapshot|txnindex)", re.ASCII)
_PARTITION = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,10})", re.ASCII)
#: Files that Kafka keeps in a root besides partitions.
KAFKA_ROOT_FILES: Final = frozenset(
    {
        META_PROPERTIES,
        "bootstrap.checkpoint",
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "cleaner-offset-checkpoint",
        ".kafka_cleanshutdown",
    }
)
#: Names in a root that are not examined: for each of these common files, it would cost an open that fails.
_NO_STRANGERS: Final = KAFKA_ROOT_FILES | {
    LOST_AND_FOUND,
    LOCK,
    OURS + "checkpoints",
    OURS + "topics",
    OURS + "newest",
    OURS + "reserve",
}
_COPY_BYTES: Final = 1 << 20
#: Twenty digits can hold more than an offset can.

#: Marks a root that a snapshot is still writing: it opens for no reader and no writer.
INCOMPLETE: Final = OURS + "incomplete"
#: Ends the name of such a root, which briefly has no mark: before it is written, and after it is removed.
PARTIAL: Final = ".partial"

PARTITION_METADATA: Final = "partition.metadata"
_KAFKA_FILES = frozenset({"leader-epoch-checkpoint", PARTITION_METADATA})


def segment_file(base_offset: int, suffix: str) -> str:
    """Return the name of a segment's file: the base offset in twenty digits, so that names sort as offsets.

    >>> segment_file(2600, LOG)
    '00000000000000002600.log'
    """
    return f"{base_offset:020d}{suffix}"


def parse_partition(path: str) -> TopicPartition:
    """Parse topic and partition number from the name of a partition's directory.

    Raises:
        NotALogError: the name is not ``topic-N``.

    >>> parse_partition("/data/flights-0")
    TopicPartition(topic='flights', partition=0)
    """
    name = os.path.basename(local_path(path))
    found = _partition_of(name)
    if found is None:
        raise NotALogError(
            f"{name!r} is no partition: a log's directory is named topic-N, with letters, digits, "
            "dots, dashes and underscores in the topic",
            path=path,
        )
    return found


def _partition_of(name: str) -> TopicPartition | None:
    match = _PARTITION.fullmatch(name)
    if match is None or match[1] in (".", "..") or int(match[2]) > INT32_MAX:
        return None
    return TopicPartition(match[1], int(match[2]))


class passing:
    """Suppress `StorageError` of these error codes, such as that of a file that was deleted meanwhile."""

    def __init__(self, *codes: int) -> None:
        self._codes = codes

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        return isinstance(error, StorageError) and errno_of(error) in self._codes


class Directory:
    """Directory of a log, or the root above it.

    >>> Directory("/data/flights-0").join("logstore.recovery")
    '/data/flights-0/logstore.recovery'
    """

    def __init__(self, path: str | os.PathLike[str], files: Files = LIBC) -> None:
        self.path = local_path(path)
        self.files = files

    def join(self, name: str) -> str:
        """Return the path of a file in the directory."""
        return f"{self.path}/{name}"

    @functools.cached_property
    def real_path(self) -> str:
        """The path without symbolic links, as it was at the first use of this property."""
        return os.path.realpath(self.path)

    def exists(self) -> bool:
        """Return whether the directory exists; StorageError if that cannot be determined."""
        return self.names_if_there() is not None

    def names_if_there(self) -> list[str] | None:
        """Return the sorted names in the directory; None if it is missing.

        Raises StorageError if that cannot be determined.
        """
        with passing(errno.ENOENT, errno.ENOTDIR):
            return self.names()
        return None

    def create(self) -> None:
        """Create the directory and its parents; their names are not yet durable."""
        try:
            self.files.mkdir(self.path)
        except StorageError as error:
            if errno_of(error) == errno.ENOENT:
                Directory(os.path.dirname(self.path), self.files).create()
                self.files.mkdir(self.path)
            elif errno_of(error) != errno.EEXIST:
                raise

    def create_durably(self) -> None:
        """Create the directory and its parents, where they are missing; their names are durable on return.

        Each name is synced before the next directory is created. So an earlier crash can have left only the
        last name unsynced, and that directory empty: then its name is synced now.
        """
        above = Directory(os.path.dirname(self.path), self.files)
        names = None
        with passing(errno.ENOENT):
            names = self.names()
        if names is None:
            above.create_durably()
            self.create()
        elif names or above.path == self.path:
            return
        # A parent that may be entered but not read cannot be synced.
        with passing(errno.EACCES, errno.EPERM):
            above.sync()

    def names(self) -> list[str]:
        """Return the names in the directory, sorted."""
        return sorted(self.files.listdir(self.path))

    def open(
        self,
        name: str,
        *,
        create: bool = False,
        writable: bool = False,
        truncate: bool = False,
        hint: bool = False,
    ) -> File:
        """Open a file in the directory; writes to a ``hint`` may be lost when its descriptor is closed."""
        return self.files.open(self.join(name), create=create, writable=writable, truncate=truncate, hint=hint)

    def read(self, name: str, names: Collection[str] | None = None) -> bytes | None:
        """Return the bytes of a small file, or None if there is none of that name.

        ``names`` are those in the directory, if they are known: an open that fails costs more.
        """
        if names is not None and name not in names:
            return None
        with passing(errno.ENOENT), self.open(name) as file:
            return bytes(file.read(0, file.size()))
        return None

    def replace(self, name: str, data: bytes, *, durable: bool, whole: bool = False) -> None:
        """Replace a file by ``data``: a reader that opens it sees the old bytes or the new ones.

        With ``durable`` the new bytes survive power loss when this returns; with ``whole`` the old or the
        new ones do. With neither, both may be lost: the name can reach the disk before the bytes.
        """
        temporary = name + TEMPORARY
        with self.open(temporary, create=True, writable=True, truncate=True) as file:
            file.write(data, 0)
            if durable or whole:
                file.sync()
        self.files.rename(self.join(temporary), self.join(name))
        if durable:
            self.sync()

    def rename(self, old: str, new: str) -> None:
        """Rename a file atomically; an existing file of the new name is replaced."""
        self.files.rename(self.join(old), self.join(new))

    def remove(self, name: str) -> bool:
        """Remove a file; False if there is none of that name."""
        with passing(errno.ENOENT):
            self.files.unlink(self.join(name))
            return True
        return False

    def remove_tree(self) -> None:
        """Remove the directory and everything in it; durable once the parent is synced.

        May be called again after a failure half way.
        """
        for name in self.names_if_there() or ():
            if not self.remove_if_file(name):
                Directory(self.join(name), self.files).remove_tree()
        with passing(errno.ENOENT):
            self.files.rmdir(self.path)

    def remove_if_file(self, name: str) -> bool:
        """Remove a file, if there is one of that name; False if it is a directory."""
        with passing(errno.EISDIR, errno.EPERM):  # of a directory, by Linux and by POSIX
            self.remove(name)
            return True
        return False

    def sync(self) -> None:
        """Make the names in the directory durable."""
        self.files.sync_directory(self.path)

    def __repr__(self) -> str:
        return f"<Directory {self.path!r}>"


def copy_bytes(source: File, target: Directory, name: str, start: int, end: int) -> int:
    """Copy the bytes ``[start, end)`` of a file to a new one, and sync it; return their count.

    Raises:
        CorruptRecordError: the file is shorter.
    """
    with target.open(name, create=True, writable=True, truncate=True) as copy:
        position = start
        while position < end:
            data = source.read(position, min(_COPY_BYTES, end - position))
            if not data:
                raise CorruptRecordError(
                    f"the file ends at {position}, and its bytes up to {end} were to be copied",
                    path=source.path,
                    position=position,
                )
            copy.write(data, position - start)
            position += len(data)
        copy.sync()
    return end - start


# --- contents of a directory ------------------------------------------------------------------


def base_offsets(names: Iterable[str], suffix: str = LOG) -> list[int]:
    """Return the base offsets of all files with a suffix, in rising order.

    >>> base_offsets(["00000000000000000007.log", "00000000000000000007.index"])
    [7]
    """
    found = []
    for name in names:
        match = _SEGMENT_FILE.fullmatch(name)
        if match is not None and name.endswith(suffix) and int(match[1]) <= INT64_MAX:
            found.append(int(match[1]))
    return sorted(found)


def is_ours(names: list[str]) -> bool:
    """Return whether one of the names marks the directory as logstore's."""
    return any(name.startswith(OURS) for name in names)


def segments_in(directory: Directory, names: Sequence[str] | None = None) -> list[int]:
    """Return the base offsets of the segments in a partition's directory; ``names`` are those in it, if known.

    Raises:
        NotALogError: there are none.
    """
    found = base_offsets(directory.names() if names is None else names)
    if not found:
        raise NotALogError("the directory holds no segments; name that of a partition", path=directory.path)
    return found


def has_log(names: list[str]) -> bool:
    """Return whether a directory named as a partition has files that Kafka or logstore puts into each partition.

    >>> has_log(["org.freedesktop.conf"]), has_log(["partition.metadata"])
    (False, True)
    """
    return any(name in _KAFKA_FILES or name.startswith(OURS) or belongs_to_a_segment(name) for name in names)


def belongs_to_a_segment(name: str) -> bool:
    """Return whether a name is that of a segment's file, in use, being swapped in or being deleted.

    >>> belongs_to_a_segment("00000000000000000007.log.swap"), belongs_to_a_segment("partition.metadata.swap")
    (True, False)
    """
    match = _SEGMENT_FILE.fullmatch(_stem(name))
    return match is not None and int(match[1]) <= INT64_MAX


def foreign_names(names: list[str]) -> list[str]:
    """Return the names in a partition's directory that neither Kafka nor logstore gives."""
    foreign = []
    for name in names:
        stem = _stem(name)
        known = belongs_to_a_segment(name) or stem in _KAFKA_FILES or stem.startswith(OURS)
        if not known and name not in (".staging", ".repaired"):
            foreign.append(name)
    return foreign


def _stem(name: str) -> str:
    for suffix in (DELETED, CLEANED, SWAP, TEMPORARY):
        name = name.removesuffix(suffix)
    return name


def foreign_directories(root: Directory, names: list[str] | None = None) -> list[str]:
    """Return the directories below a root that are no partitions; Kafka would refuse to start with them.

    ``names`` are those in the root, if they are known.
    """
    return [
        name
        for name in (root.names() if names is None else names)
        if name not in _NO_STRANGERS and _PARTITION.fullmatch(name) is None and _is_directory(root, name)
    ]


def partitions_below(root: Directory, names: list[str] | None = None) -> list[TopicPartition]:
    """Return every directory below a root that is named as a partition, sorted.

    ``names`` are those in the root, if they are known.
    """
    return sorted(
        found
        for name in (root.names() if names is None else names)
        if (found := _partition_of(name)) is not None and _is_directory(root, name)
    )


def partitions_named(names: list[str]) -> list[TopicPartition]:
    """Return the partitions that have these names, sorted. None is looked at: each may be a file, or gone."""
    return sorted(found for name in names if (found := _partition_of(name)) is not None)


def partition_names(names: list[str], besides: Container[TopicPartition]) -> list[str]:
    """Return those of the names that are a partition's, except the ones in ``besides``; there may be a file."""
    return [name for name in names if (found := _partition_of(name)) is not None and found not in besides]


def logs_below(
    root: Directory, names: list[str] | None = None, *, besides: Container[str] = ()
) -> list[TopicPartition]:
    """Return the directories below a root that are named as partitions and hold a log or parts of one, sorted.

    Those of topics in ``besides`` are left out, and not looked into. ``names`` are those in the root, if they
    are known.
    """
    return [
        each
        for each in partitions_named(root.names() if names is None else names)
        if each.topic not in besides and has_log(Directory(root.join(str(each)), root.files).names_if_there() or [])
    ]


def _is_directory(root: Directory, name: str) -> bool:
    return Directory(root.join(name), root.files).exists()


def refuse_file(directory: Directory) -> list[str] | None:
    """Raise if there is a file where the log's directory should be; else return the names in it, None without it.

    Raises:
        NotALogError: the path, or one above it, is a file.
        StorageError: that cannot be determined.
    """
    try:
        with passing(errno.ENOENT):
            return directory.names()
        return None
    except StorageError as error:
        if errno_of(error) == errno.ENOTDIR:
            raise NotALogError(
                "a file stands where the log's directory should be; choose another path", path=directory.path
            ) from error
        raise


def refuse_incomplete(root: Directory, names: list[str]) -> None:
    """Raise if a root is a snapshot that was interrupted.

    Raises:
        NotALogError: it is one.
    """
    marked = INCOMPLETE in names or INCOMPLETE + TEMPORARY in names
    if marked or (root.path.endswith(PARTIAL) and not set(names) - {LOCK}):
        raise NotALogError(
            "the directory is an unfinished snapshot; remove it, and call Store.snapshot() again", path=root.path
        )


def refuse_unfinished_swap(directory: Directory, names: Iterable[str]) -> None:
    """Raise if a segment swap is unfinished: a reader must not finish it, and old segments may be deleted already.

    ``names`` is the listing that the segments are taken from. An earlier listing may show no swap although this
    one shows the log between its old segments and its new one.

    Raises:
        NotALogError: there is a ``.swap`` of a segment.
    """
    for name in names:
        if name.endswith(LOG + SWAP):
            raise NotALogError(
                "a segment swap is in progress, or was interrupted; try again if a process writes the log, else "
                "open it once with logstore.open() (or let Kafka open it), which finishes the swap",
                path=directory.join(name),
            )


def put_aside(directory: Directory, doomed: Iterable[str], names: Collection[str]) -> list[str]:
    """Give those of the ``doomed`` files that are in the directory their ``.deleted`` names; return these.

    All files are renamed before the first is removed, so that a crash leaves no segment with a part of its files.
    """
    renamed = []
    for name in doomed:
        if name in names:
            try:
                directory.rename(name, name + DELETED)
                renamed.append(name + DELETED)
            except DiskFullError:
                # A longer name may need a new block of the directory, and a full disk would prevent deletion.
                directory.remove(name)
    return renamed


def remove_leftovers(directory: Directory, names: list[str]) -> list[str]:
    """Remove files that a crash left half written or half deleted, which are not used; return the other names."""
    left = []
    for name in names:
        if name.endswith((DELETED, CLEANED, TEMPORARY)) or name.startswith(NEXT):
            directory.remove(name)
        else:
            left.append(name)
    return left
