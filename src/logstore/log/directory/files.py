"""Names in a log's directory: the only module that creates, renames or removes a file.

A partition is a directory ``topic-N`` below a root. Beside Kafka's files it holds plain files of
ours named ``logstore.*``; any of them, there or in the root, marks the directory as ours. A change
of names is durable once `Directory.sync` has returned. Every call goes through the table of file
operations that is handed in.
"""

from __future__ import annotations

import errno
import functools
import os
import re
from collections.abc import Collection, Iterable
from typing import Final

from logstore.errors import NotALogError, StorageError
from logstore.io._files import LIBC, File, Files, errno_of
from logstore.paths import local_path
from logstore.records import TopicPartition

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
SNAPSHOT: Final = ".snapshot"
ABORTED_INDEX: Final = ".txnindex"
SEGMENT_SUFFIXES: Final = (LOG, OFFSET_INDEX, TIME_INDEX, SNAPSHOT, ABORTED_INDEX)

#: On its way out: nothing reads it any more (Kafka's suffix).
DELETED: Final = ".deleted"
#: Being written by a compaction or a rewrite; worthless until it is renamed (Kafka's suffix).
CLEANED: Final = ".cleaned"
#: Whole, about to take its place (Kafka's suffix).
SWAP: Final = ".swap"
TEMPORARY: Final = ".tmp"

LOCK: Final = ".lock"
OURS: Final = "logstore."
LOST_AND_FOUND: Final = "lost+found"
META_PROPERTIES: Final = "meta.properties"

_SEGMENT_FILE = re.compile(r"(\d{20})\.(log|index|timeindex|snapshot|txnindex)", re.ASCII)
_PARTITION = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,10})", re.ASCII)
#: What Kafka keeps in a root besides partitions.
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
#: In a root. The files of every store are not looked at: each look costs an open that fails.
_NO_STRANGERS: Final = KAFKA_ROOT_FILES | {
    LOST_AND_FOUND,
    LOCK,
    OURS + "checkpoints",
    OURS + "topics",
    OURS + "newest",
    OURS + "reserve",
}
#: Twenty digits can say more than an offset can.
_LAST_OFFSET = 2**63 - 1
INT32_MAX = 2**31 - 1

#: Marks a root that a snapshot is still making: it opens for no reader and no writer.
INCOMPLETE: Final = OURS + "incomplete"
#: Ends the name of such a root, which for a moment has no mark yet, or no more.
PARTIAL: Final = ".partial"

PARTITION_METADATA: Final = "partition.metadata"
_KAFKA_FILES = frozenset({"leader-epoch-checkpoint", PARTITION_METADATA})


def segment_file(base_offset: int, suffix: str) -> str:
    """Name of a segment's file: the base offset in twenty digits, so that names sort as offsets.

    >>> segment_file(2600, LOG)
    '00000000000000002600.log'
    """
    return f"{base_offset:020d}{suffix}"


def parse_partition(path: str) -> TopicPartition:
    """Topic and partition number out of the name of a partition's directory.

    Raises:
        NotALogError: the name is not ``topic-N``.

    >>> parse_partition("/data/flights-0")
    TopicPartition(topic='flights', partition=0)
    """
    name = os.path.basename(local_path(path))
    match = _PARTITION.fullmatch(name)
    if match is None or match[1] in (".", "..") or int(match[2]) > INT32_MAX:
        raise NotALogError(
            f"{name!r} is no partition: a log's directory is named topic-N, with letters, digits, "
            "dots, dashes and underscores in the topic",
            path=path,
        )
    return TopicPartition(match[1], int(match[2]))


class Directory:
    """One directory of a log, or the root above it.

    >>> Directory("/data/flights-0").join("logstore.recovery")
    '/data/flights-0/logstore.recovery'
    """

    def __init__(self, path: str | os.PathLike[str], files: Files = LIBC) -> None:
        self.path = local_path(path)
        self.files = files

    def join(self, name: str) -> str:
        """The path of a file in here."""
        return f"{self.path}/{name}"

    @functools.cached_property
    def real_path(self) -> str:
        """The path without symbolic links, as it was when it was asked for first."""
        return os.path.realpath(self.path)

    def exists(self) -> bool:
        """Whether the directory is there; StorageError if that cannot be told."""
        return self.names_if_there() is not None

    def names_if_there(self) -> list[str] | None:
        """Names in the directory, sorted; None if it is not there, StorageError if that cannot be told."""
        try:
            return self.names()
        except StorageError as error:
            if errno_of(error) in (errno.ENOENT, errno.ENOTDIR):
                return None
            raise

    def create(self) -> None:
        """Make the directory and those above it; their own names are not yet durable."""
        try:
            self.files.mkdir(self.path)
        except StorageError as error:
            if errno_of(error) == errno.ENOENT:
                Directory(os.path.dirname(self.path), self.files).create()
                self.files.mkdir(self.path)
            elif errno_of(error) != errno.EEXIST:
                raise

    def create_durably(self) -> None:
        """Make the directory and those above it, where they are missing; their names are durable on return.

        Each is synced before the next one is made. So only the last may be left unsynced by a crash in
        here, and is still empty: then its name is synced now.
        """
        above = Directory(os.path.dirname(self.path), self.files)
        try:
            if self.names() or above.path == self.path:
                return
        except StorageError as error:
            if errno_of(error) != errno.ENOENT:
                raise
            above.create_durably()
            self.create()
        try:
            above.sync()
        except StorageError as error:
            # Of a directory that may be entered and not read, nobody can ask more.
            if errno_of(error) not in (errno.EACCES, errno.EPERM):
                raise

    def names(self) -> list[str]:
        """Names in the directory, sorted."""
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
        """A file in here; what is written to a ``hint`` may be lost when its descriptor is closed."""
        return self.files.open(self.join(name), create=create, writable=writable, truncate=truncate, hint=hint)

    def read(self, name: str, names: Collection[str] | None = None) -> bytes | None:
        """The bytes of a small file, or None if there is none of that name.

        ``names`` are those in the directory, if they are known: to look is dearer.
        """
        if names is not None and name not in names:
            return None
        try:
            file = self.open(name)
        except StorageError as error:
            if errno_of(error) == errno.ENOENT:
                return None
            raise
        try:
            return bytes(file.read(0, file.size()))
        finally:
            file.close()

    def replace(self, name: str, data: bytes, *, durable: bool, whole: bool = False) -> None:
        """Put ``data`` in the place of a file: whoever opens it sees the old bytes or the new ones.

        With ``durable`` the new bytes survive power loss when this returns; with ``whole`` the old or the
        new ones do. With neither it may be none: the name can reach the disk before the bytes.
        """
        temporary = name + TEMPORARY
        file = self.open(temporary, create=True, writable=True, truncate=True)
        try:
            file.write(data, 0)
            if durable or whole:
                file.sync()
        finally:
            file.close()
        self.files.rename(self.join(temporary), self.join(name))
        if durable:
            self.sync()

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in one step; a file of the new name is gone."""
        self.files.rename(self.join(old), self.join(new))

    def remove(self, name: str) -> bool:
        """Remove a file; False if there is none of that name."""
        try:
            self.files.unlink(self.join(name))
        except StorageError as error:
            if errno_of(error) != errno.ENOENT:
                raise
            return False
        return True

    def remove_tree(self) -> None:
        """Remove everything in here, and the directory. Its name is gone for good once the one above is synced.

        May be called again after a failure half way.
        """
        try:
            names = self.names()
        except StorageError as error:
            if errno_of(error) == errno.ENOENT:
                return
            raise
        for name in names:
            if not self.remove_if_file(name):
                Directory(self.join(name), self.files).remove_tree()
        self.files.rmdir(self.path)

    def remove_if_file(self, name: str) -> bool:
        """Remove a file, if there is one of that name; False if it is a directory."""
        try:
            self.remove(name)
        except StorageError as error:
            # What Linux and POSIX say of a directory.
            if errno_of(error) not in (errno.EISDIR, errno.EPERM):
                raise
            return False
        return True

    def sync(self) -> None:
        """Make the names in here durable."""
        self.files.sync_directory(self.path)

    def __repr__(self) -> str:
        return f"<Directory {self.path!r}>"


# --- what a directory holds -------------------------------------------------------------------


def base_offsets(names: Iterable[str], suffix: str = LOG) -> list[int]:
    """The base offsets of all files with a suffix, rising.

    >>> base_offsets(["00000000000000000007.log", "00000000000000000007.index"])
    [7]
    """
    found = []
    for name in names:
        match = _SEGMENT_FILE.fullmatch(name)
        if match is not None and name.endswith(suffix) and int(match[1]) <= _LAST_OFFSET:
            found.append(int(match[1]))
    return sorted(found)


def is_ours(names: list[str]) -> bool:
    """Whether one of the names marks the directory as logstore's."""
    return any(name.startswith(OURS) for name in names)


def has_log(names: list[str]) -> bool:
    """Whether a directory that is named as a partition is one: it has what Kafka, or we, put into each.

    >>> has_log(["org.freedesktop.conf"]), has_log(["partition.metadata"])
    (False, True)
    """
    return any(name in _KAFKA_FILES or name.startswith(OURS) or belongs_to_a_segment(name) for name in names)


def belongs_to_a_segment(name: str) -> bool:
    """Whether a name is that of a segment's file, in use or on its way in or out.

    >>> belongs_to_a_segment("00000000000000000007.log.swap"), belongs_to_a_segment("partition.metadata.swap")
    (True, False)
    """
    match = _SEGMENT_FILE.fullmatch(_stem(name))
    return match is not None and int(match[1]) <= _LAST_OFFSET


def foreign_names(names: list[str]) -> list[str]:
    """The names in a partition's directory that neither Kafka nor logstore gives."""
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


def foreign_directories(root: Directory) -> list[str]:
    """Directories below a root that are no partitions; Kafka would refuse to start over them."""
    return foreign_among(root, root.names())


def foreign_among(root: Directory, names: list[str]) -> list[str]:
    """As `foreign_directories`, of a listing of the root."""
    return [
        name
        for name in names
        if name not in _NO_STRANGERS and _PARTITION.fullmatch(name) is None and _is_directory(root, name)
    ]


def partitions_below(root: Directory) -> list[TopicPartition]:
    """Every directory below a root that is named as a partition, sorted."""
    found = []
    for name in root.names():
        match = _PARTITION.fullmatch(name)
        if (
            match is not None
            and match[1] not in (".", "..")
            and int(match[2]) <= INT32_MAX
            and _is_directory(root, name)
        ):
            found.append(TopicPartition(match[1], int(match[2])))
    return sorted(found)


def logs_below(root: Directory) -> list[TopicPartition]:
    """Every partition below a root, sorted: `partitions_below` of which each has a log, or what is left of one."""
    return [each for each in partitions_below(root) if has_log(Directory(root.join(str(each)), root.files).names())]


def _is_directory(root: Directory, name: str) -> bool:
    return Directory(root.join(name), root.files).exists()


def refuse_file(directory: Directory) -> None:
    """Tell a file in the place of a log from a log that is not there.

    Raises:
        NotALogError: the path, or one above it, is a file.
    """
    try:
        directory.names()
    except StorageError as error:
        if errno_of(error) == errno.ENOTDIR:
            raise NotALogError(
                "a file stands where the log's directory should be; choose another path", path=directory.path
            ) from error


def refuse_incomplete(root: Directory, names: list[str]) -> None:
    """Tell a snapshot that was cut off from a root of logs.

    Raises:
        NotALogError: it is one.
    """
    marked = INCOMPLETE in names or INCOMPLETE + TEMPORARY in names
    if marked or (root.path.endswith(PARTIAL) and not set(names) - {LOCK}):
        raise NotALogError(
            "this is a snapshot that was never finished; remove it, and take another", path=root.path
        )


def refuse_swaps(directory: Directory, names: Iterable[str]) -> None:
    """For a reader, which must not finish the swap of a compaction: the old segments may be gone already.

    ``names`` is the listing that the segments are taken from: another one, of a moment before, may show no swap
    although this one shows the log between its old segments and its new one.

    Raises:
        NotALogError: there is a ``.swap`` of a segment.
    """
    for name in names:
        if name.endswith(LOG + SWAP):
            raise NotALogError(
                "a compaction is at its swap, or was cut off there; try again if a process writes the log, else "
                "open it for writing once (or let Kafka open it), which finishes the swap",
                path=directory.join(name),
            )


def remove_leftovers(directory: Directory, names: list[str]) -> list[str]:
    """Remove what a crash has left half made or half removed, which decides nothing; the names that are left."""
    left = []
    for name in names:
        if name.endswith((DELETED, CLEANED, TEMPORARY)):
            directory.remove(name)
        else:
            left.append(name)
    return left
