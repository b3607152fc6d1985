"""The catalogue of a store, rebuilt from its directories: `logstore.rebuild`, if it was lost or damaged.

The directories tell the topics and partitions, ``partition.metadata`` a topic's id, ``meta.properties`` the
cluster's. The topics' own settings are lost. So nothing of a rebuilt topic is deleted or compacted until its user
sets that. Only the store's own topics are compacted as before. Only the catalogue is written, last and in one
step; a damaged one is kept beside it.
"""

from __future__ import annotations

import errno
import logging
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.errors import DamagedCatalogueError, LaterCatalogueError, NotALogError, StorageError
from logstore.io._files import LIBC, Files, errno_of
from logstore.log.directory import files as log_files
from logstore.log.directory import next_segment
from logstore.log.directory.files import Directory
from logstore.log.root import is_kafkas, under_lock
from logstore.records import BATCH_HEADER_BYTES, TopicPartition
from logstore.store.admin.kafka_directories import first_producer_id
from logstore.store.catalog import layout
from logstore.store.catalog.topic_list import CATALOGUE, FIRST_PRODUCER_ID, Catalogue, TopicEntry, new_id
from logstore.store.catalog.topics import FOR_EVER, PRODUCER_ID_BLOCK, settings_unknown
from logstore.store.commit import commit_log
from logstore.topic_names import CLUSTER_METADATA, INTERNAL

if TYPE_CHECKING:
    import random

_logger = logging.getLogger(__name__)

Path = str | os.PathLike[str]

DAMAGED: Final = CATALOGUE + ".damaged"

#: Kafka protocol guide, record batch v2: base offset, length, (leader epoch), magic, (CRC, attributes), last offset
#: delta, (timestamps), producer id.
_HEADER: Final = struct.Struct(">qi4xb6xi16xq")
_SIZE_BYTES: Final = 12
_MAGIC: Final = 2
_READ_BYTES: Final = 1 << 18

#: Added where bytes could not be read: unread bytes may hold any id given out until now.
_UNREAD_IDS: Final = 1 << 40

#: Errors of the disk, or its file system, about bytes that it cannot read.
_UNREADABLE: Final = (errno.EIO, errno.EBADMSG, errno.EUCLEAN)


@dataclass(frozen=True)
class Rebuilt:
    """The new catalogue, and what could not be found out."""

    path: str
    cluster_id: str
    topics: Mapping[str, TopicEntry]
    missing: tuple[TopicPartition, ...]  #: below the highest partition of a topic, and not there
    damaged: Mapping[TopicPartition, str]  #: partitions that could not be read to their end, and why
    kept_as: str = ""  #: where the damaged catalogue is now


class _Walked(NamedTuple):
    """Facts from the batch headers of a log."""

    highest_producer_id: int
    by_position: bool  #: its offsets are positions
    problem: str


class _Head(NamedTuple):
    """Fields of a batch's first bytes."""

    base_offset: int
    size: int
    last_delta: int
    producer_id: int


def rebuild(
    path: Path, *, clock: Clock = SYSTEM_CLOCK, files: Files = LIBC, rng: random.Random | None = None
) -> Rebuilt:
    """Rebuild the lost catalogue of a store from its directories. The store must be closed.

    Topics keep their ids and partitions. Their settings are lost: each keeps all its records for ever until
    `Store.alter_topic` sets retention. Missing and damaged partitions are named in the result. A topic may have had
    more partitions than are here, where the highest are lost too; a topic that was being deleted may be back.
    Reads the head of every batch. Durable on return; nothing but ``logstore.topics`` has been written, and a
    damaged one is kept as ``logstore.topics.damaged``.

    Raises:
        DirectoryLockedError: another process has the directory open.
        NotALogError: it has a catalogue that is whole, or was never a store, or the partitions of a topic belong to
            different ones. Nothing was changed.
        LaterCatalogueError: the catalogue is whole, and of a later program. Nothing was changed.
        TooManyFilesError, StorageError: the directory or a log could not be opened or read, for a reason other
            than its contents, or the catalogue could not be written. Nothing was changed.
    """
    directory = Directory(path, files)
    _check(directory)

    def make() -> Rebuilt:
        # Checked above without the lock: another process may have changed the directory since.
        _check(directory)
        rebuilt, next_producer_id = _look(directory, clock, rng)
        damaged = directory.read(CATALOGUE)
        if damaged is not None:
            directory.replace(DAMAGED, damaged, durable=True)
        Catalogue(
            cluster_id=rebuilt.cluster_id,
            next_producer_id=next_producer_id,
            topics=rebuilt.topics,
            adopted=is_kafkas(directory),
        ).save(directory)
        return rebuilt

    rebuilt = under_lock(directory, clock, make)
    _logger.info(
        "rebuilt the catalogue: root=%s topics=%d missing=%d damaged=%d",
        directory.path,
        len(rebuilt.topics),
        len(rebuilt.missing),
        len(rebuilt.damaged),
    )
    return rebuilt


def _check(directory: Directory) -> None:
    log_files.refuse_file(directory)
    if not directory.exists():
        raise NotALogError("the directory does not exist; check the path", path=directory.path)
    log_files.refuse_incomplete(directory, directory.names())
    try:
        found = Catalogue.load(directory)
    except LaterCatalogueError:
        raise
    except DamagedCatalogueError:
        return
    if found is not None:
        raise NotALogError(
            "the store has its catalogue, and it is whole; open it with logstore.open()", path=directory.path
        )
    if not layout.left_of_a_store(directory):
        raise NotALogError(
            "the directory holds no store that has lost its catalogue: single logs open as a store without one, "
            "and adopt_kafka_directory() takes over a directory of Kafka's",
            path=directory.path,
        )


def _look(directory: Directory, clock: Clock, rng: random.Random | None) -> tuple[Rebuilt, int]:
    """Return the facts of the new catalogue, and the first producer id that it may give."""
    found: dict[str, dict[int, Directory]] = {}
    for place in log_files.partitions_below(directory):
        partition = layout.partition_directory(directory, place)
        names = partition.names()
        known = layout.holds_a_log(names) or log_files.PARTITION_METADATA in names or log_files.is_ours(names)
        if known and place.topic != CLUSTER_METADATA:
            found.setdefault(place.topic, {})[place.partition] = partition
    topics: dict[str, TopicEntry] = {}
    missing: list[TopicPartition] = []
    damaged: dict[TopicPartition, str] = {}
    highest = first_producer_id(rng) if is_kafkas(directory) else FIRST_PRODUCER_ID
    for topic, partitions in sorted(found.items()):
        missing += [TopicPartition(topic, n) for n in range(max(partitions)) if n not in partitions]
        by_position = False
        for number, partition in sorted(partitions.items()):
            walked = _walk(partition)
            highest = max(highest, walked.highest_producer_id)
            by_position = by_position or walked.by_position
            if walked.problem:
                damaged[TopicPartition(topic, number)] = walked.problem
        settings = settings_unknown(topic)
        if by_position and topic not in INTERNAL:
            settings["logstore.offset.mode"] = "bytes"
        topics[topic] = TopicEntry(
            id=_topic_id(directory, topic, partitions) or new_id(rng),
            partitions=max(partitions) + 1,
            settings=settings,
            created_ms=clock.now_ms(),
            made_with=1,  # the original count is lost: a group must skip no partition that was added
            defaults=FOR_EVER,
        )
    cluster_id = layout.read_meta_properties(directory).get("cluster.id") or new_id(rng)
    kept_as = directory.join(DAMAGED) if CATALOGUE in directory.names() else ""
    rebuilt = Rebuilt(directory.path, cluster_id, topics, tuple(missing), damaged, kept_as)
    # An id of the last block may have been given to a producer that has not written yet.
    block = (highest // PRODUCER_ID_BLOCK + 2) * PRODUCER_ID_BLOCK
    return rebuilt, block + (_UNREAD_IDS if damaged else 0)


def _topic_id(directory: Directory, topic: str, partitions: Mapping[int, Directory]) -> str:
    ids: dict[str, int] = {}
    for number, partition in sorted(partitions.items()):
        told = layout.read_partition_metadata(partition)
        if told is not None:
            ids.setdefault(told, number)
    if len(ids) > 1:
        told_of = ", ".join(f"{topic}-{number} ({each})" for each, number in ids.items())
        raise NotALogError(
            f"the partitions of topic {topic!r} belong to different topics: {told_of}; move those away that are "
            "not wanted",
            path=directory.path,
        )
    return next(iter(ids), "")


def _walk(partition: Directory) -> _Walked:
    """Read the head of every batch of a log; where one is damaged, the rest of its segment is skipped."""
    highest, problem = -1, ""
    origin, before, expected = -1, 0, -1
    are_positions, has_gap = True, False
    names = partition.names()
    for base in next_segment.base_offsets(partition, names):
        name = next_segment.segment_name(partition, base, names)
        try:
            for head in _heads(partition, name):
                # Ids of sinks are made from names, far above all that are given out.
                if head.producer_id < commit_log.FIRST_PRODUCER_ID:
                    highest = max(highest, head.producer_id)
                if origin < 0:
                    origin = head.base_offset
                else:
                    are_positions = are_positions and head.base_offset - origin == before
                    has_gap = has_gap or head.base_offset != expected
                before += head.size
                expected = head.base_offset + head.last_delta + 1
        except (StorageError, ValueError) as error:
            if isinstance(error, StorageError) and errno_of(error) not in _UNREADABLE:
                # No descriptor, permission or memory: that tells nothing about the bytes, and may pass.
                raise
            problem = problem or f"{name}: {error}"
    return _Walked(highest, are_positions and has_gap, problem)


def _heads(partition: Directory, name: str) -> Iterator[_Head]:
    """Iterate over the head of each batch in a segment's file.

    Raises:
        ValueError: the bytes from a position on are no batch, and not preallocated space.
    """
    with partition.open(name) as file:
        size = file.size()
        position = data_at = read_to = 0
        data = b""
        while position < size:
            if read_to - position < BATCH_HEADER_BYTES:
                data = bytes(file.read(position, _READ_BYTES))
                read_to = position + len(data)
                data_at = position
            head = data[position - data_at : position - data_at + BATCH_HEADER_BYTES]
            if not any(head):
                return  # preallocated space
            if len(head) < BATCH_HEADER_BYTES:
                raise ValueError(f"a batch is cut short at position {position}")
            base_offset, length, magic, last_delta, producer_id = _HEADER.unpack_from(head)
            end = position + _SIZE_BYTES + length
            if magic != _MAGIC or length < BATCH_HEADER_BYTES - _SIZE_BYTES or end > size or base_offset < 0:
                raise ValueError(f"position {position} begins no batch")
            yield _Head(base_offset, end - position, last_delta, producer_id)
            position = end
