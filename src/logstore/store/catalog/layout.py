"""The directories below a store's root: recognizing ours, and making and removing those of a topic.

Knows names and directories, not the contents of a log, and of the catalogue only whether it exists. Called under
the store's lock, or before another process can have the root.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping

from logstore.errors import DamagedCatalogueError, NotALogError
from logstore.io.side_by_side import MANY, side_by_side
from logstore.log.cleanup.truncation import remove_partition
from logstore.log.directory import files
from logstore.log.directory.files import PARTITION_METADATA, Directory
from logstore.log.formats import checkpoints
from logstore.log.formats.leader_epochs import Epochs
from logstore.log.root import ADOPTED, CHECKPOINTS
from logstore.records import TopicPartition
from logstore.store.catalog.topic_list import CATALOGUE
from logstore.topic_names import INTERNAL

#: The facts of a registry that is kept in the store, see `logstore.replication.local.facts_file`.
FACTS_FILE = "logstore.facts"


def partition_directory(root: Directory, name: TopicPartition) -> Directory:
    """Return the directory of a partition, whether it exists or not."""
    return Directory(root.join(str(name)), root.files)


def is_ours(directory: Directory) -> bool:
    """Return whether a file of ours marks the directory."""
    return files.is_ours(directory.names())


def check_root(root: Directory) -> list[str] | None:
    """Check that a store may write below a root, and return the names in it; nothing is changed.

    A missing root may be made: None.

    Raises:
        NotALogError: Kafka wrote it, or it holds files that belong to no store.
        DamagedCatalogueError: it was a store, and its catalogue is missing.
    """
    names = files.refuse_file(root)
    files.refuse_incomplete(root, names or [])
    if names is None:
        return None
    refuse_lost_catalogue(root, names)
    strangers = files.foreign_directories(root, names)
    partitions = []
    if not files.is_ours(names):
        # Directories named as partitions, with other contents. In a root of ours `doctor` names them.
        partitions = files.logs_below(root, names)
        named = set(files.partitions_below(root, names)) - set(partitions)
        strangers += [str(name) for name in sorted(named) if partition_directory(root, name).names()]
    if strangers:
        raise NotALogError(
            f"the directory holds others that are no partitions: {', '.join(strangers[:5])}; give the store a "
            "directory of its own",
            path=root.path,
        )
    if files.is_ours(names) or any(is_ours(partition_directory(root, name)) for name in partitions):
        return names
    if partitions:
        raise NotALogError(
            "Kafka wrote this directory; open it with read_only=True, or call adopt_kafka_directory()",
            path=root.path,
        )
    foreign = [
        name
        for name in names
        if name not in files.KAFKA_ROOT_FILES and name not in (files.LOCK, files.LOST_AND_FOUND)
    ]
    if foreign:
        raise NotALogError(
            f"the directory holds files that belong to no store: {', '.join(foreign[:5])}; give the store a "
            "directory of its own",
            path=root.path,
        )
    return names


def left_of_a_store(root: Directory, names: list[str] | None = None) -> str:
    """Return a file that a store has made in a root without a catalogue; "" if there is none.

    A root that only Kafka wrote, or that holds only single logs, never had a catalogue. ``names`` are those in
    the root, if they are known.
    """
    names = root.names() if names is None else names
    if CATALOGUE in names:
        return ""
    partitions = files.partitions_below(root, names)
    ours = [name for name in partitions if is_ours(partition_directory(root, name))]
    # The catalogue's temporary file is no mark: its first write may be in progress.
    marks = [name for name in names if name.startswith(files.OURS) and name != CATALOGUE + files.TEMPORARY]
    found = ""
    if not partitions or ours or marks:
        # The mark of the checkpoints proves no store: single logs write it too.
        told = [name for name in marks if name.removesuffix(files.TEMPORARY) != CHECKPOINTS]
        told += [name for name in names if name == files.META_PROPERTIES]
        for name in partitions:
            if PARTITION_METADATA in partition_directory(root, name).names():
                told.append(f"{name}/{PARTITION_METADATA}")
        told += [str(name) for name in ours if name.topic in INTERNAL]
        found = told[0] if told else ""
    # Looked for last: a writer that makes the store at this moment writes the catalogue before the rest.
    return found if found and CATALOGUE not in root.names() else ""


def refuse_lost_catalogue(root: Directory, names: list[str] | None = None) -> None:
    """Refuse a store without its catalogue: taken for a new one, it would delete records by the defaults.

    ``names`` are those in the root, if they are known.

    Raises:
        DamagedCatalogueError: the root was a store.
    """
    found = left_of_a_store(root, names)
    if found:
        raise DamagedCatalogueError(
            f"the catalogue of the store is missing: {found} is here, and nothing says which topics there are and "
            "how long they keep their records; restore it from a copy, or make it again from the directories with "
            f"`logstore rebuild --dir {root.path}` or logstore.rebuild() (where Kafka has only formatted the "
            "directory, call adopt_kafka_directory())",
            path=root.join(CATALOGUE),
        )


def holds_a_log(names: list[str]) -> bool:
    """Return whether the names in a partition's directory are a log's; one that lost its files is no new log."""
    return checkpoints.RECOVERY in names or any(
        files.belongs_to_a_segment(name) and files.LOG in name for name in names
    )


def is_a_log(directory: Directory) -> bool:
    """Return whether a partition's directory is there and holds a log. It is listed only if a file is missing."""
    with files.passing(errno.ENOTDIR):
        if directory.read(checkpoints.RECOVERY) is not None:
            return True
    return holds_a_log(directory.names_if_there() or [])


class NewDirectory(Directory):
    """The directory of a partition in which no log was ever opened for writing: what a power cut took is there."""

    def names(self) -> list[str]:
        found: list[str] = []
        with files.passing(errno.ENOENT):
            found = super().names()
        return found if holds_a_log(found) else sorted({*found, checkpoints.RECOVERY})


def begin_partitions(root: Directory, topic_ids: Mapping[TopicPartition, str]) -> None:
    """Make the directories of partitions, with the mark that they are ours. A power cut may take any of it."""
    for name, topic_id in topic_ids.items():
        directory = partition_directory(root, name)
        directory.create()
        _mark_ours(directory)
        with directory.open(PARTITION_METADATA, create=True, writable=True, hint=True) as file:
            file.write(_partition_metadata(topic_id), 0)


def make_partitions(root: Directory, topic_ids: Mapping[TopicPartition, str]) -> None:
    """Make the directories of partitions, where they are not there in part or whole. Durable on return."""

    def make(place: tuple[TopicPartition, str]) -> None:
        name, topic_id = place
        directory = partition_directory(root, name)
        directory.create()
        _mark_ours(directory)
        if read_partition_metadata(directory) == topic_id:
            # Written by `begin_partitions`; replacing thousands of files costs a file system as many new ones.
            with directory.open(PARTITION_METADATA, writable=True) as file:
                file.mark_dirty()
                file.sync()
        else:
            write_partition_metadata(directory, topic_id)
        directory.sync()

    side_by_side(make, topic_ids.items(), at_least=MANY)
    root.sync()


def _mark_ours(directory: Directory) -> None:
    # Before any segment: a segment alone would look like Kafka's. Empty, it says that nothing is known yet.
    directory.open(checkpoints.RECOVERY, create=True, writable=True).close()


def is_unused(directory: Directory) -> bool:
    """Return whether no log was ever opened for writing in a partition's directory: opening it begins the mark."""
    if directory.read(checkpoints.RECOVERY) != b"":
        return False
    return not any(directory.read(name) for name in directory.names() if name.endswith(files.LOG))


def was_closed(directory: Directory) -> bool:
    """Return whether the log in a partition's directory was closed, and not opened for writing since."""
    point = checkpoints.decode_slots(directory.read(checkpoints.RECOVERY) or b"")
    return point is not None and point.clean


def closed_epoch(directory: Directory) -> int:
    """Return the leader epoch that a log which is not open will have; -1 if only its recovery can tell."""
    if is_unused(directory):
        return 0
    epochs = Epochs.load(directory) if was_closed(directory) else None
    return -1 if epochs is None or not epochs.entries else epochs.entries[-1].epoch


def write_partition_metadata(directory: Directory, topic_id: str) -> None:
    """Write Kafka's file with the topic's id, by which Kafka recognizes a partition as its own."""
    # Not synced, a hint for Kafka only: after a power cut it is whole or absent.
    directory.replace(PARTITION_METADATA, _partition_metadata(topic_id), durable=False, whole=True)


def _partition_metadata(topic_id: str) -> bytes:
    return f"version: 0\ntopic_id: {topic_id}\n".encode()


def read_partition_metadata(directory: Directory) -> str | None:
    """Return the topic id in a partition's directory, or None if there is none."""
    data = directory.read(PARTITION_METADATA) or b""
    for line in data.decode("ascii", errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "topic_id" and value.strip():
            return value.strip()
    return None


def remove_partitions(root: Directory, topic: str, numbers: range) -> int:
    """Remove partitions of a topic, highest first; return how many there were. Durable once the root is synced."""
    names = (TopicPartition(topic, number) for number in reversed(numbers))
    return sum([remove_partition(partition_directory(root, name)) for name in names])


def write_meta_properties(root: Directory, cluster_id: str, node_id: int, directory_id: str) -> None:
    """Write Kafka's file with the ids of cluster, node and directory, unless there is one."""
    if root.read(files.META_PROPERTIES) is None:
        text = f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id={directory_id}\n"
        root.replace(files.META_PROPERTIES, text.encode(), durable=True)


def mark_adopted(root: Directory) -> None:
    """Mark, for logs that are opened alone, that Kafka's metadata name the leader epochs. Durable on return."""
    root.replace(ADOPTED, b"the leader epochs are Kafka's\n", durable=True)


def read_meta_properties(root: Directory) -> dict[str, str]:
    """Return the properties that Kafka, or we, wrote for the directory; empty if there are none."""
    found = {}
    for line in (root.read(files.META_PROPERTIES) or b"").decode("utf-8", errors="replace").splitlines():
        key, separator, value = line.partition("=")
        if separator and not key.startswith("#"):
            found[key.strip()] = value.strip()
    return found
