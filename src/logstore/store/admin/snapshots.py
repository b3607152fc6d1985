"""Copy of a whole store while it is in use: `Store.snapshot`.

The copy consists of hard links if the file system has them. So it takes no space until the store deletes files
that the copy still holds. It contains:

- each partition as of one moment during the call, every record before it and none after it;
- all topics, partitions and settings of one moment: creating, altering and deleting topics waits meanwhile;
- the store's own topics, committed offsets among them, as of *before* the moment of any other partition. So
  no committed offset is beyond the records of the copy; consumers that continue from it read a few records again
  at most;
- the facts of a registry that is kept in the store, as of a moment after that of the logs: no leader epoch in them
  is older than one in a log. And which node the store belongs to, as a directory that was never registered: the
  copy takes part in no election with others before it has copied what they have;
- everything that was acknowledged before the call, also if it was not yet synced: the copy is on disk when the call
  returns.

The copy is built under another name, with a mark of an unfinished copy, then synced and renamed.
The mark is the first file written and the last removed, when the copy is whole under its name. So readers
and writers refuse whatever a crash leaves. The next snapshot of the same store to the same path removes
it, recognized by its mark and by nothing else.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from logstore.errors import CheckpointCopyError, NotALogError, StorageError
from logstore.log import Log
from logstore.log.directory import files
from logstore.log.directory.files import Directory
from logstore.log.formats import checkpoints
from logstore.log.tools.checkpoint_copy import LogCheckpoint
from logstore.records import TopicPartition
from logstore.store.catalog import layout
from logstore.store.catalog.node_file import NodeFile
from logstore.store.catalog.topic_list import Catalogue, TopicState
from logstore.store.commit.kept import KEPT
from logstore.topic_names import INTERNAL

if TYPE_CHECKING:
    from logstore.store.catalog.partitions import Partitions
    from logstore.store.catalog.topics import Topics
    from logstore.store.maintenance.scheduler import Progress

_logger = logging.getLogger(__name__)

PARTIAL: Final = files.PARTIAL

#: How often the logs may delete segments being copied before the copy fails.
_ATTEMPTS: Final = 10


class Snapshot(NamedTuple):
    """Contents and cost of a snapshot."""

    path: str
    topics: int
    partitions: int
    linked_bytes: int  #: shared with the store until it deletes them
    copied_bytes: int
    verified_bytes: int  #: of batches whose checksums were compared; 0 unless asked for


def take(
    topics: Topics,
    partitions: Partitions,
    root: Directory,
    path: str | os.PathLike[str],
    *,
    link: bool,
    verify: bool,
    progress: Progress | None,
) -> Snapshot:
    """Take a snapshot, see `Store.snapshot`; maintenance is paused meanwhile."""
    target = Directory(path, root.files)
    if target.path == root.path or target.path.startswith(root.path + "/"):
        raise NotALogError("a snapshot cannot be inside its store; choose another path", path=target.path)
    cluster_id = topics.catalogue.cluster_id
    if target.exists():
        if not _is_unfinished(target, target.names(), cluster_id):
            raise NotALogError("the path exists already; choose one that does not exist", path=target.path)
        # A snapshot that was interrupted between the rename and the removal of its mark.
        _remove(target)
    above = Directory(os.path.dirname(target.path), root.files)
    above.create_durably()
    partial = Directory(target.path + PARTIAL, root.files)
    with topics.unchanged():
        made = _build(topics, partitions, root, partial, link, verify, progress or (lambda done, total: None))
    try:
        root.files.rename(partial.path, target.path)
    except StorageError:
        # Anything at the target was made meanwhile by another program: only the partial copy is ours.
        with contextlib.suppress(StorageError):
            _remove(partial)
        raise
    try:
        above.sync()
        target.remove(files.INCOMPLETE)
        target.sync()
    except StorageError:
        with contextlib.suppress(StorageError):
            # Its mark first: a partly removed copy, also after a crash, must never be taken for a store.
            target.replace(files.INCOMPLETE, _mark(cluster_id), durable=True)
            _remove(target)
        raise
    _logger.info(
        "took a snapshot: store=%s path=%s partitions=%d linked_bytes=%d copied_bytes=%d",
        root.path,
        target.path,
        made.partitions,
        made.linked_bytes,
        made.copied_bytes,
    )
    return made._replace(path=target.path)


def _build(
    topics: Topics,
    partitions: Partitions,
    root: Directory,
    partial: Directory,
    link: bool,
    verify: bool,
    progress: Progress,
) -> Snapshot:
    logs = _logs(topics, partitions)
    total = len(logs) * (2 if verify else 1)
    for attempt in range(1, _ATTEMPTS + 1):
        _begin(partial, topics.catalogue.cluster_id)
        try:
            taken, made = _copy_logs(logs, partial, link=link, step=lambda done: progress(done, total))
            for log in logs:
                # Without this, a power cut could lose the segments after the linked ones, and the store
                # would append to a file that the snapshot shares.
                log.flush()
            checked = 0
            for number, log in enumerate(logs if verify else [], 1):
                checked += log.maintenance.verify(taken[log.name], _below(partial, log))
                progress(len(logs) + number, total)
            _finish(topics.catalogue, root, partial, taken)
        except CheckpointCopyError:
            _remove(partial)
            if attempt == _ATTEMPTS:
                raise
        except BaseException:
            with contextlib.suppress(StorageError):
                _remove(partial)
            raise
        else:
            count = sum(entry.state is not TopicState.DELETING for entry in topics.catalogue.topics.values())
            return made._replace(topics=count, verified_bytes=checked)
    raise AssertionError("unreachable")


def _logs(topics: Topics, partitions: Partitions) -> list[Log]:
    """Return every log of the store, opened and flushed: those of the store's own topics first."""
    names = topics.names(internal=True)
    logs = []
    for topic in sorted(names, key=lambda name: (name not in INTERNAL, name)):
        for number in range(topics.entry(topic).partitions):
            log = partitions.get(TopicPartition(topic, number))
            assert isinstance(log, Log)
            log.flush()
            logs.append(log)
    return logs


def _is_unfinished(directory: Directory, names: list[str], cluster_id: str) -> bool:
    """Return whether a directory is an unfinished snapshot of this store, which no store opens."""
    if files.INCOMPLETE in names:
        of = directory.read(files.INCOMPLETE)
        # Earlier programs left the mark empty.
        return not of or of == _mark(cluster_id)
    return False


def _mark(cluster_id: str) -> bytes:
    return f"snapshot of {cluster_id}\n".encode()


def _begin(partial: Directory, cluster_id: str) -> None:
    """Make an empty directory with the mark of an unfinished snapshot."""
    if partial.exists():
        names = partial.names()
        # Empty, or with a mark that is being written: the snapshot had only begun.
        if set(names) - {files.INCOMPLETE + files.TEMPORARY} and not _is_unfinished(partial, names, cluster_id):
            raise NotALogError(
                "the path is taken by files that are no unfinished snapshot of this store; move them, or choose "
                "another path",
                path=partial.path,
            )
        _remove(partial)
    partial.create()
    try:
        partial.replace(files.INCOMPLETE, _mark(cluster_id), durable=True)
    except StorageError:
        with contextlib.suppress(StorageError):
            _remove(partial)
        raise


def _remove(partial: Directory) -> None:
    """Remove an unfinished copy, its mark last: the remains after a crash are never taken for a store."""
    if not partial.exists():
        return
    for name in partial.names():
        if name != files.INCOMPLETE and not partial.remove_if_file(name):
            Directory(partial.join(name), partial.files).remove_tree()
    partial.sync()
    partial.remove_tree()


def _below(partial: Directory, log: Log) -> Directory:
    return layout.partition_directory(partial, log.name)


def _copy_logs(
    logs: list[Log], partial: Directory, *, link: bool, step: Callable[[int], object]
) -> tuple[dict[TopicPartition, LogCheckpoint], Snapshot]:
    # All of them before the first byte is copied, in this order: see the module's docstring.
    taken = {log.name: log.maintenance.checkpoint() for log in logs}
    linked = copied = 0
    for number, log in enumerate(logs, 1):
        directory = _below(partial, log)
        directory.create()
        done = log.maintenance.copy(taken[log.name], directory, link=link)
        linked, copied = linked + done.linked_bytes, copied + done.copied_bytes
        step(number)
    return taken, Snapshot("", 0, len(logs), linked, copied, 0)


def _finish(
    catalogue: Catalogue, root: Directory, partial: Directory, taken: dict[TopicPartition, LogCheckpoint]
) -> None:
    meta = root.read(files.META_PROPERTIES)
    if meta is not None:
        partial.replace(files.META_PROPERTIES, meta, durable=False, whole=True)
    sinks = root.read(KEPT)
    if sinks is not None:
        partial.replace(KEPT, sinks, durable=False, whole=True)
    facts = root.read(layout.FACTS_FILE)
    if facts is not None:
        partial.replace(layout.FACTS_FILE, facts, durable=False, whole=True)
    node = NodeFile.load(root)
    if node is not None:
        node.copied().save(partial)
    # Kafka recovers a log without a recovery point, but could not know its log start offset.
    starts = {name: checkpoint.log_start_offset for name, checkpoint in taken.items()}
    partial.replace(checkpoints.LOG_START_OFFSETS, checkpoints.write_offsets(starts), durable=False, whole=True)
    kept = {
        name: entry.replace(state=TopicState.READY, target=0, is_synced=True)
        for name, entry in catalogue.topics.items()
    }
    there = {name.topic for name in taken}
    copy = Catalogue(
        cluster_id=catalogue.cluster_id,
        next_producer_id=catalogue.next_producer_id,
        adopted=catalogue.adopted,
        topics={name: entry for name, entry in kept.items() if name in there},
    )
    copy.save(partial)
    partial.sync()
