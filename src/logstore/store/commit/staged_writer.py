"""Staged files: whole record batches stored beside a log until they are ingested, and the manifest that lists them.

A writer without the store's lock, such as a task of Spark, stages the batches of one partition in its own file::

    <root>/<topic>-<partition>/.staging/<query>.<batch>.<attempt>.<random>

``<query>`` is a digest of the query's name, so that file names are short and contain no path. The batches are
complete, each with its CRC. They have base offset 0 and no producer; for a replay they have their final offsets.
Staged files are not synced: after a power loss before the ingest, the writer stages the batches again. `sweep`
removes files of ingested batches, and files older than `STALE_MS`.

A `Manifest` lists the files of batch ``batch`` of ``query``; `StoreHost.ingest` ingests them, all or none.
This module writes staged files and removes them; the ingest checks their contents. It touches no log. A
`StagedFileWriter` belongs to one thread; everything else may be called from any thread.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from logstore.batch._batch import stamp_run
from logstore.batch._encode import Encoder
from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.errors import (
    InvalidManifestError,
    LogClosedError,
    StorageError,
    StorageFailedError,
    UnknownTopicError,
)
from logstore.io._files import LIBC, File, Files, errno_of
from logstore.log.directory.files import Directory, partitions_named
from logstore.records import INT64_MAX, TopicPartition
from logstore.topic_names import check_name, check_writable_by_users

STAGING: Final = ".staging"

EXACTLY_ONCE: Final = "exactly_once"
AT_LEAST_ONCE: Final = "at_least_once"
REPLAY: Final = "replay"
MODES: Final = (EXACTLY_ONCE, AT_LEAST_ONCE, REPLAY)

#: A staged file older than this is unused: its writer ended long ago.
STALE_MS: Final = 7 * 86_400_000

#: After this many new bytes the kernel begins to write them to the disk.
WRITEBACK_BYTES: Final = 8 << 20

#: The longest name of a query, in bytes: the name is the key of a record.
LONGEST_QUERY: Final = 1024
#: The name of an attempt.
_ATTEMPT = re.compile(r"[0-9A-Za-z_-]{1,64}", re.ASCII)
_NAME = re.compile(r"(?P<query>[0-9a-f]{32})\.(?P<batch>\d{1,19})\.[0-9A-Za-z_-]{1,64}\.[0-9a-f]{16}", re.ASCII)
_VERSION = 1


def query_tag(query: str) -> str:
    """Return the digest of a query's name for use in file names."""
    return hashlib.sha256(query.encode()).hexdigest()[:32]


def is_job(query: str) -> bool:
    """Return whether a query is a job, which has only one batch."""
    return query.startswith("job:")


class StagedFile(NamedTuple):
    """One staged file: its partition, its name in ``.staging`` there, and its contents."""

    topic: str
    topic_id: str
    partition: int
    name: str
    size: int
    batch_count: int
    record_count: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Manifest(NamedTuple):
    """The staged files that one batch of a query consists of.

    The store remembers the ingested batches by ``query``; ``batch`` rises with each batch of the query. ``mode``
    is "exactly_once" (all files become visible together, an ingested batch is not ingested again), "at_least_once"
    (batches are only appended and synced) or "replay" (batches keep their offsets). A query ``job:…`` has one
    batch; the store forgets it some days later.
    """

    query: str
    batch: int
    mode: str
    files: tuple[StagedFile, ...]

    @property
    def is_job(self) -> bool:
        return is_job(self.query)

    def check(self) -> Manifest:
        """Check the rules that need no store; return the manifest itself.

        Raises:
            InvalidManifestError, InvalidTopicError: the manifest breaks a rule.
        """
        _check_query(self.query)
        _check_count(self.batch, f"the batch of query {self.query!r}")
        if self.mode not in MODES:
            raise InvalidManifestError(f"a manifest's mode is one of {', '.join(MODES)}, found {self.mode!r:.80}")
        tag = query_tag(self.query)
        seen = set()
        for file in self.files:
            check_name(file.topic)
            check_writable_by_users(file.topic)
            _check_count(file.partition, f"the partition of a staged file of topic {file.topic!r}")
            what = f"staged file {file.name!r:.200} of {file.place}"
            if not _is_name_of(file.name, tag, self.batch):
                raise InvalidManifestError(
                    f"{what} is no file of batch {self.batch} of query {self.query!r}; "
                    "`StagedFileWriter` names them"
                )
            if not _is_text(file.topic_id):
                raise InvalidManifestError(f"{what} names no topic id")
            for field in ("size", "batch_count", "record_count"):
                _check_count(getattr(file, field), f"{field} of {what}")
            if (file.place, file.name) in seen:
                raise InvalidManifestError(f"{what} is listed twice")
            seen.add((file.place, file.name))
        return self

    def to_json(self) -> str:
        """Return the manifest as text, for `from_json`."""
        return json.dumps({"version": _VERSION, **self._asdict()})  # tuples become lists

    @classmethod
    def from_json(cls, text: str | bytes) -> Manifest:
        """Return the manifest that `to_json` wrote, checked.

        Raises:
            InvalidManifestError, InvalidTopicError: the text is no manifest, or breaks a rule.
        """
        try:
            found: Any = json.loads(text)
            if found["version"] != _VERSION:
                raise InvalidManifestError(
                    f"a manifest of version {found['version']!r:.40}, this package knows {_VERSION}; "
                    "use the same version of logstore everywhere"
                )
            listed = tuple(StagedFile(*file) for file in found["files"])
            manifest = cls(found["query"], found["batch"], found["mode"], listed)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if isinstance(error, InvalidManifestError):
                raise
            raise InvalidManifestError(f"the manifest cannot be parsed: {error!r:.200}") from None
        return manifest.check()


def _check_query(query: object) -> None:
    try:
        size = len(query.encode()) if isinstance(query, str) else 0
    except UnicodeEncodeError:
        # A lone surrogate cannot be encoded.
        size = 0
    if not 0 < size <= LONGEST_QUERY:
        raise InvalidManifestError(f"a query is named with 1 to {LONGEST_QUERY} bytes, found {query!r:.80}")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_name_of(name: object, tag: str, batch: int) -> bool:
    """Return whether a name is that of a staged file of this batch and query; a path is not."""
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    return match is not None and match["query"] == tag and match["batch"] == str(batch)


def _check_count(value: object, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= INT64_MAX:
        raise InvalidManifestError(f"{what}: expected a whole number from 0 on, found {value!r:.80}")


class StagedFileWriter:
    """One task's staged file for one partition, while it is written.

    Owns: the file, until `close` gives it to a manifest or `abandon` removes it.

    >>> with logstore.open(tmp / "staging") as store:
    ...     flights = store.create_topic("flights")
    >>> encoder = Encoder().begin(timestamp_ms=0)
    >>> encoder.add_all([b"AA 1141", b"UA 1545"])
    >>> staged = StagedFileWriter.create(tmp / "staging", "flights", flights.id, 0, query="q", batch=0, attempt=0)
    >>> staged.write(encoder.finish())
    >>> staged.close().record_count
    2
    """

    def __init__(self, directory: Directory, topic: str, topic_id: str, partition: int, name: str) -> None:
        self._directory = directory
        self._file = directory.open(name, create=True, writable=True)
        self._staged = StagedFile(topic, topic_id, partition, name, 0, 0, 0)
        self._begun = 0  # bytes whose writeback has begun

    @classmethod
    def create(
        cls,
        root: str | os.PathLike[str],
        topic: str,
        topic_id: str,
        partition: int,
        *,
        query: str,
        batch: int,
        attempt: str | int,
        files: Files = LIBC,
    ) -> StagedFileWriter:
        """Create a file for a partition that exists. ``attempt`` tells the attempts of one task apart.

        Raises:
            UnknownTopicError: the partition does not exist, or was deleted.
            StorageError: the file could not be created.
        """
        check_name(topic)
        check_writable_by_users(topic)
        if _ATTEMPT.fullmatch(str(attempt)) is None:
            raise InvalidManifestError(
                f"an attempt is named with letters, digits, '_' and '-', found {attempt!r:.80}"
            )
        directory = staged_directory(Directory(root, files), TopicPartition(topic, partition))
        _check_query(query)
        _check_count(batch, f"the batch of query {query!r}")
        name = f"{query_tag(query)}.{batch}.{attempt}.{os.urandom(8).hex()}"
        try:
            # Without its parents, which would create a deleted partition again.
            _make(directory)
            return cls(directory, topic, topic_id, partition, name)
        except StorageError as error:
            if errno_of(error) in (errno.ENOENT, errno.ENOTDIR):
                raise UnknownTopicError(
                    f"partition {topic}-{partition} does not exist, so no records can be staged for it; check "
                    f"the topic",
                    path=os.path.dirname(directory.path),
                ) from error
            raise

    @property
    def size(self) -> int:
        """The number of bytes so far."""
        return self._staged.size

    @property
    def record_count(self) -> int:
        """The number of records so far."""
        return self._staged.record_count

    def write(self, encoder: Encoder, *, base_offset: int | None = None) -> None:
        """Append the finished batches of an encoder; for a replay, with the offset of their first record.

        Raises:
            DiskFullError, StorageError: the batches could not be written. Abandon the file.
        """
        data: Any = encoder
        if base_offset is not None:
            data = bytearray(encoder)
            stamp_run(data, base_offset, 0)
        staged = self._staged
        file = self._opened()
        file.write(data, staged.size)
        if staged.size + len(data) - self._begun >= WRITEBACK_BYTES:
            # The disk writes while the task continues: the commit has less to sync.
            file.begin_writeback(self._begun, staged.size + len(data) - self._begun)
            self._begun = staged.size + len(data)
        self._staged = staged._replace(
            size=staged.size + len(data),
            batch_count=staged.batch_count + encoder.batch_count,
            record_count=staged.record_count + encoder.record_count,
        )

    def close(self) -> StagedFile:
        """Close the file; return its entry for a manifest. Not durable: see the module's docstring.

        Raises:
            StorageFailedError: a part of the file did not reach the disk, and is lost. Abandon the file.
        """
        file = self._opened()
        file.close()
        if file.sync_failed:
            # The kernel reports a failed write once: a later sync of the file as a segment would succeed.
            raise StorageFailedError(
                "a staged file could not be written to the disk; stage it again", path=file.path
            )
        return self._staged

    def abandon(self) -> None:
        """Remove the file. May be called again, and after `close`."""
        self._file.close()
        self._directory.remove(self._staged.name)

    def _opened(self) -> File:
        if self._file.closed:
            raise LogClosedError("the staged file was closed; StagedFileWriter() begins another")
        return self._file

    def __enter__(self) -> StagedFileWriter:
        return self

    def __exit__(self, kind: object, *exc_info: object) -> None:
        if kind is not None:
            self.abandon()
        elif not self._file.closed:
            self._file.close()


def _make(directory: Directory) -> None:
    try:
        directory.files.mkdir(directory.path)
    except StorageError as error:
        if errno_of(error) != errno.EEXIST:
            raise


def staged_directory(root: Directory, place: TopicPartition) -> Directory:
    """Return the directory of a partition's staged files, whether it exists or not."""
    return Directory(root.join(f"{place}/{STAGING}"), root.files)


def remove_staged(root: Directory, staged: Iterable[StagedFile]) -> int:
    """Remove the files of a checked manifest; return the number of removed files.

    Files that cannot be removed are left to a sweep.
    """
    count = 0
    for file in staged:
        with contextlib.suppress(StorageError):
            count += staged_directory(root, file.place).remove(file.name)
    return count


def sweep(
    root: str | os.PathLike[str],
    query: str,
    through_batch: int,
    *,
    places: Iterable[TopicPartition] | None = None,
    files: Files = LIBC,
    clock: Clock = SYSTEM_CLOCK,
) -> int:
    """Remove the staged files of a query up to an ingested batch, and stale ones of any query; return the count.

    ``places`` are the partitions to look at, by default all below the root. Files that cannot be removed are left
    to the next sweep. Never touches a log.
    """
    directory = Directory(root, files)
    tag = query_tag(query)
    count = 0
    for place in partitions_named(directory.names()) if places is None else places:
        staging = staged_directory(directory, place)
        try:
            names = staging.names()
        except StorageError:
            # There is no staging directory, no partition of that name, or the topic is being deleted.
            continue
        for name in names:
            match = _NAME.fullmatch(name)
            if match is None:
                continue
            with contextlib.suppress(StorageError):
                over = match["query"] == tag and int(match["batch"]) <= through_batch
                if over or _is_stale(staging, name, clock.now_ms()):
                    count += staging.remove(name)
    return count


def _is_stale(staging: Directory, name: str, now_ms: int) -> bool:
    with staging.open(name) as file:
        return now_ms - file.modified_ms() > STALE_MS


__all__ = [
    "AT_LEAST_ONCE",
    "EXACTLY_ONCE",
    "REPLAY",
    "Manifest",
    "StagedFile",
    "StagedFileWriter",
    "query_tag",
    "remove_staged",
    "staged_directory",
    "sweep",
]


#: Old name -> new name, kept for one release.
_RENAMED = {"StagingFile": "StagedFileWriter", "staging_directory": "staged_directory"}  # former name

if not TYPE_CHECKING:
    # A type checker that sees it accepts every name of the module.
    def __getattr__(name: str) -> object:
        if name not in _RENAMED:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from logstore.renamed import warn

        warn(f"{__name__}.{name}", _RENAMED[name])
        return globals()[_RENAMED[name]]
