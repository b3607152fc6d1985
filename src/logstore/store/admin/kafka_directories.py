"""Kafka directory: adopted by `logstore.adopt_kafka_directory` and given back by `release_to_kafka`.

`adopt_kafka_directory` changes nothing of Kafka's. It writes the catalogue, in one step and only after everything
has been checked, and then a mark for logs that are opened alone. Kafka's files stay as they are until the store is
opened for writing. The setting of each key comes from the topic in Kafka's metadata log, else from the whole
cluster there, else from the caller. Retention that none of them sets is *for ever*, since Kafka may have had it in
a file outside of the directory. The store's own topics are compacted. The settings are written into each topic, so
that no later default deletes anything.

`release_to_kafka`, on a closed store, removes every file of ours, the catalogue last: Kafka does not maintain
them, so they would no longer be true. What is left is a directory that Kafka wrote, and may be adopted again.
Kafka knows only the topics in its own metadata and moves others aside as ``-stray``, for good. So the ingested
batches of the sinks, and the producer ids given out, are stored in a file that Kafka ignores
(`store.commit.kept`). The next adoption reads it.

Kafka continues with the leader epochs of its own metadata. With an epoch of ours above them, its consumers would
wait for a leader that never comes, and ours would see a truncated log. So no log raises an epoch in a directory
that was adopted. Earlier versions did. `release_to_kafka` lowers those epochs to the newest that Kafka has given
out, in the headers of batches, the epoch files, and the commits of groups.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.config.log import LogConfig, Setting, canonical
from logstore.config.store import StoreConfig
from logstore.errors import OUT_OF_RESOURCES, ConfigError, NotALogError, StorageError, UnsupportedFormatError
from logstore.groups.offsets import OffsetAndMetadata, OffsetKey, decode_key, decode_value, encode_key, encode_value
from logstore.io._files import LIBC, Files
from logstore.log.directory import files as log_files
from logstore.log.directory import next_segment
from logstore.log.directory.files import Directory
from logstore.log.formats import checkpoints
from logstore.log.formats.leader_epochs import Epochs
from logstore.log.root import under_lock
from logstore.records import Ack, Isolation, TopicPartition
from logstore.store.admin import kafka_metadata
from logstore.store.catalog import layout
from logstore.store.catalog.topic_list import (
    CATALOGUE,
    FIRST_PRODUCER_ID,
    Catalogue,
    TopicEntry,
    TopicState,
    new_id,
)
from logstore.store.commit.commit_log import SinkState, read_states
from logstore.store.commit.kept import Kept, newest
from logstore.store.commit.staged_writer import staged_directory
from logstore.topic_names import CLUSTER_METADATA, CONSUMER_OFFSETS, SINKS

if TYPE_CHECKING:
    import random

_logger = logging.getLogger(__name__)

Path = str | os.PathLike[str]

#: Kafka's own name for the same setting, used where segments are smaller than it allows.
_INTERNAL_SEGMENT_BYTES: Final = "internal.segment.bytes"

_MAGIC_AT, _MAGIC = 16, 2

#: Producer ids of one adoption; those of another begin elsewhere.
_ID_BLOCK: Final = 1 << 20


@dataclass(frozen=True)
class Adopted:
    """Result of an adoption."""

    path: str
    cluster_id: str
    topics: Mapping[str, TopicEntry]
    from_metadata: bool  #: whether Kafka's metadata log was there, and told names, ids and settings
    ignored: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict
    )  #: settings without meaning here, by topic


@dataclass(frozen=True)
class HandBack:
    """State of a released directory, as Kafka finds it when it starts there."""

    path: str
    known: tuple[str, ...]  #: topics that Kafka knows, and will serve
    stray: tuple[str, ...]  #: topics that Kafka does not know: it moves them aside as ``-stray``
    was_clean: bool  #: whether Kafka can start without recovering every log


def adopt_kafka_directory(
    path: Path,
    settings: Mapping[str, Setting] | StoreConfig | Path | None = None,
    *,
    clock: Clock = SYSTEM_CLOCK,
    files: Files = LIBC,
    rng: random.Random | None = None,
) -> Adopted:
    """Adopt a directory that Kafka wrote, so that `logstore.open` opens it for writing. Kafka must be stopped.

    ``settings`` are for topics without retention in Kafka's metadata: a mapping, a
    `StoreConfig`, or the path of the broker's ``server.properties``. Without them such topics are kept for ever.
    Durable on return; nothing but ``logstore.topics`` and ``logstore.adopted`` has been written. Batches that
    sinks had ingested before `release_to_kafka` are remembered.

    Raises:
        DirectoryLockedError: Kafka, or another process, has the directory open.
        NotALogError: it is no directory of Kafka's, was adopted already, holds topics that Kafka is about to
            remove, or only some partitions of a topic. Nothing was changed.
        DiskFullError, TooManyFilesError: there is no space, or no file can be opened. Nothing was changed.
        UnsupportedFormatError: a log is in a format from before Kafka 0.11. Nothing was changed.
        CorruptRecordError: the metadata log, or the file that `release_to_kafka` has kept, is damaged. Nothing
            was changed.
        ConfigError: settings are unknown or out of range.
    """
    given = StoreConfig.load(settings) if isinstance(settings, str | os.PathLike) else StoreConfig.of(settings)
    directory = Directory(path, files)
    _check_is_kafkas(directory)

    def take_over() -> Adopted:
        _check_is_kafkas(directory)
        adopted = _look(directory, given, clock, rng)
        kept = Kept.load(directory)
        catalogue = Catalogue(
            cluster_id=adopted.cluster_id,
            next_producer_id=first_producer_id(rng) if kept is None else kept.next_producer_id,
            topics=adopted.topics,
            adopted=True,
        )
        try:
            catalogue.save(directory)
        except StorageError:
            # The file may have its name already, and the caller must know that nothing was changed.
            directory.remove(CATALOGUE)
            raise
        # After the catalogue: a mark without one would look like a lost catalogue. An open store makes up for it.
        try:
            layout.mark_adopted(directory)
        except OUT_OF_RESOURCES as error:
            _logger.warning("not marked as adopted, which the next open does: root=%s error=%s", path, error)
        return adopted

    adopted = under_lock(directory, clock, take_over)
    _logger.info(
        "adopted: root=%s topics=%d cluster_id=%s", directory.path, len(adopted.topics), adopted.cluster_id
    )
    return adopted


def release_to_kafka(
    path: Path, *, leave_stray: bool = False, clock: Clock = SYSTEM_CLOCK, files: Files = LIBC
) -> HandBack:
    """Release a directory to Kafka, for it to start on. The store must be closed.

    Records, topics and ids stay. Kafka does not know settings that were changed here; it uses its own.
    To come back, call `adopt_kafka_directory` again: the ingested batches of sinks are kept for that in a file of
    the root, ``logstore-kept``. May be called again after a failure half way: until the last step it is a store.
    Leader epochs that an earlier version has raised above Kafka's are lowered to those.

    Raises:
        DirectoryLockedError: a store, or Kafka, has the directory open.
        NotALogError: there is no store here, a batch of a Spark query is undecided, or the store has topics that
            Kafka does not know. With ``leave_stray`` these are left for Kafka to move aside; if
            ``__consumer_offsets`` is one of them, so are the committed offsets of groups. Nothing was changed.
        CorruptRecordError: Kafka's log of metadata is damaged. Nothing was changed.
        DamagedLogError: a log whose leader epochs have to be lowered is damaged.
    """
    directory = Directory(path, files)
    log_files.refuse_file(directory)
    if not directory.exists() or CATALOGUE not in directory.names():
        raise NotALogError(
            "the directory holds no store that could be released; check the path", path=directory.path
        )

    def look() -> dict[TopicPartition, int]:
        _compare(directory, leave_stray)
        _states_of_sinks(directory, clock, files)
        return _raised_epochs(directory)

    raised = under_lock(directory, clock, look)
    if raised:
        _settle_raised(directory, raised, clock, files)

    def give() -> HandBack:
        _make_new(directory)
        told = _compare(directory, leave_stray)
        states = _states_of_sinks(directory, clock, files)
        for place, most in raised.items():
            from logstore.log.tools.repair import lower_epochs

            lower_epochs(layout.partition_directory(directory, place), most, clock=clock)
        _keep(directory, states)
        for name in log_files.partitions_below(directory):
            # Staged files there will not be ingested any more.
            staged_directory(directory, name).remove_tree()
            _remove_ours(layout.partition_directory(directory, name))
        # Last: after a crash before this, it is still a store that opens.
        _remove_ours(directory, last=CATALOGUE)
        return told

    told = under_lock(directory, clock, give)
    _logger.info("handed back: root=%s known=%d stray=%d", directory.path, len(told.known), len(told.stray))
    return told


def _make_new(directory: Directory) -> None:
    """Make the directories of topics that were never used, which Kafka needs: a power cut may have taken some."""
    catalogue = Catalogue.load(directory) or Catalogue(cluster_id="")
    for name, entry in catalogue.topics.items():
        if not entry.is_synced:
            places = (TopicPartition(name, number) for number in range(entry.partitions))
            layout.make_partitions(directory, dict.fromkeys(places, entry.id))


def _states_of_sinks(directory: Directory, clock: Clock, files: Files) -> dict[str, SinkState]:
    """Return the newest state of each query, also from an earlier time in which this was a store.

    Raises:
        NotALogError: a batch is undecided: Kafka could not end its transaction, and readers would wait for ever.
    """
    kept = Kept.load(directory)
    known: Mapping[str, SinkState] = {} if kept is None else kept.sinks
    place = TopicPartition(SINKS, 0)
    entry = (Catalogue.load(directory) or Catalogue(cluster_id="")).topics.get(SINKS)
    is_going = entry is not None and entry.state is TopicState.DELETING
    # Being deleted by a `release_to_kafka` that was interrupted: all of it is kept already.
    if is_going or not layout.partition_directory(directory, place).exists():
        return dict(known)
    from logstore.log import Log

    with Log.open(directory.join(str(place)), read_only=True, clock=clock, files=files) as log:
        states = read_states(log)
    undecided = sorted(query for query, state in states.items() if state.is_pending)
    if undecided:
        raise NotALogError(
            f"a batch of {', '.join(undecided[:5])} is undecided, and Kafka's readers would wait for its end for "
            "ever; open the store, call housekeep(), and close it, which decides it",
            path=directory.path,
        )
    return newest(states, known)


def _keep(directory: Directory, states: Mapping[str, SinkState]) -> None:
    """Save the next producer id and the states of sinks for the next adoption; delete the topic of the sinks.

    The producer id is in no log. Kafka would move the topic's directory aside and never return it.
    """
    catalogue = Catalogue.load(directory) or Catalogue(cluster_id="")
    if states or catalogue.next_producer_id % _ID_BLOCK:
        Kept(catalogue.next_producer_id, states).save(directory)
    entry = catalogue.topics.get(SINKS)
    if entry is not None:
        # Marked first: after a crash the store opens, finishes the deletion, and restores the saved states.
        catalogue.with_topic(SINKS, entry.replace(state=TopicState.DELETING)).save(directory)
        layout.remove_partitions(directory, SINKS, range(entry.partitions))
        directory.sync()


def _raised_epochs(directory: Directory) -> dict[TopicPartition, int]:
    """Return the partitions with leader epochs above the newest of Kafka's, and that epoch."""
    catalogue = Catalogue.load(directory) or Catalogue(cluster_id="")
    cluster = kafka_metadata.read(layout.partition_directory(directory, TopicPartition(CLUSTER_METADATA, 0)))
    raised: dict[TopicPartition, int] = {}
    if cluster is None:
        # Kafka's metadata are elsewhere, and nothing here says which epochs Kafka has given out.
        return raised
    for place in log_files.partitions_below(directory):
        entry = catalogue.topics.get(place.topic)
        most = -1 if entry is None else cluster.leader_epochs.get((entry.id, place.partition), -1)
        epochs = Epochs.load(layout.partition_directory(directory, place))
        if most >= 0 and epochs is not None and epochs.latest is not None and epochs.latest.epoch > most:
            raised[place] = most
    return raised


def _settle_raised(directory: Directory, raised: Mapping[TopicPartition, int], clock: Clock, files: Files) -> None:
    """Recover the logs, and lower epochs in commits, before headers change: no commit may name a removed epoch."""
    from logstore.log import Log

    catalogue = Catalogue.load(directory) or Catalogue(cluster_id="")
    for place in log_files.partitions_below(directory):
        if place not in raised and place.topic != CONSUMER_OFFSETS:
            continue
        entry = catalogue.topics.get(place.topic)
        if entry is None:
            continue
        # Kafka's own settings: compaction deletes here what it would delete there.
        with Log.open(
            directory.join(str(place)), entry.settings, clock=clock, files=files, drop_keyless=True
        ) as log:
            if place.topic != CONSUMER_OFFSETS:
                continue
            commits: dict[OffsetKey, OffsetAndMetadata | None] = {}
            for record in log.scan(isolation=Isolation.READ_COMMITTED):
                key = decode_key(record.key)
                if key is not None:
                    commits[key] = None if record.value is None else decode_value(record.value)
            lowered = [
                (encode_key(key), encode_value(commit._replace(leader_epoch=raised[key.partition])))
                for key, commit in commits.items()
                if commit is not None and commit.leader_epoch > raised.get(key.partition, commit.leader_epoch)
            ]
            if lowered:
                log.append(lowered, timestamp=clock.now_ms(), ack=Ack.SYNCED)


def _compare(directory: Directory, leave_stray: bool) -> HandBack:
    catalogue = Catalogue.load(directory) or Catalogue(cluster_id="")
    cluster = kafka_metadata.read(layout.partition_directory(directory, TopicPartition(CLUSTER_METADATA, 0)))
    # The states of the sinks are kept elsewhere.
    there = {name.topic for name in log_files.partitions_below(directory)} - {CLUSTER_METADATA, SINKS}
    if cluster is None:
        # Kafka's metadata are elsewhere: with another controller, or with ZooKeeper.
        known = set(catalogue.topics)
    else:
        known = {name for name, entry in catalogue.topics.items() if cluster.ids.get(name) == entry.id}
    was_clean = checkpoints.was_shut_down_cleanly(directory)
    told = HandBack(directory.path, tuple(sorted(known & there)), tuple(sorted(there - known)), was_clean)
    if told.stray and not leave_stray:
        lost = ", and what groups have committed is lost with __consumer_offsets"
        raise NotALogError(
            f"Kafka does not know {', '.join(told.stray[:5])}, and would move them aside for good"
            f"{lost if CONSUMER_OFFSETS in told.stray else ''}; delete them, have Kafka make topics of these names "
            "and copy their records, or call release_to_kafka(leave_stray=True)",
            path=directory.path,
        )
    return told


def _remove_ours(directory: Directory, last: str = "") -> None:
    """Remove the files of ours in one directory. Durable on return."""
    for name in directory.names():
        if name.startswith(log_files.OURS) and name != last:
            directory.remove(name)
    directory.sync()
    if last:
        directory.remove(last)
        directory.sync()


def first_producer_id(rng: random.Random | None) -> int:
    """Return the first id to give out in a directory of Kafka's."""
    # Another block at each adoption: the log may still know the producers of an earlier one.
    block = secrets.randbits(20) if rng is None else rng.getrandbits(20)
    return FIRST_PRODUCER_ID + block * _ID_BLOCK


# --- checks, before anything is written ---------------------------------------------------------


def _check_is_kafkas(directory: Directory) -> None:
    log_files.refuse_file(directory)
    if not directory.exists():
        raise NotALogError("the directory does not exist; check the path", path=directory.path)
    names = directory.names()
    log_files.refuse_incomplete(directory, names)
    if CATALOGUE in names:
        raise NotALogError("the directory is a store already; open it with logstore.open()", path=directory.path)
    strays = [name for name in names if name.endswith("-stray")]
    if strays:
        lost = "; a sink's batch that is committed once more is taken in once more then"
        raise NotALogError(
            f"Kafka has moved {', '.join(strays[:5])} aside, of topics that it does not know, and leaves them "
            "there; move them out of the directory to keep their records, or remove them"
            f"{lost if any(name.startswith(SINKS + '-') for name in strays) else ''}",
            path=directory.path,
        )
    leaving = [name for name in names if name.endswith(("-delete", "-future"))]
    if leaving:
        raise NotALogError(
            f"Kafka has not finished with {', '.join(leaving[:5])}: start and stop it once, so that it "
            "removes or moves "
            "them, or remove them yourself",
            path=directory.path,
        )
    strangers = log_files.foreign_directories(directory)
    if strangers:
        raise NotALogError(
            f"the directory holds others that are no partitions: {', '.join(strangers[:5])}", path=directory.path
        )
    if not log_files.logs_below(directory) and log_files.META_PROPERTIES not in names:
        raise NotALogError(
            "the directory is not Kafka's: it has neither partitions nor meta.properties", path=directory.path
        )


def _look(directory: Directory, given: StoreConfig, clock: Clock, rng: random.Random | None) -> Adopted:
    found: dict[str, dict[int, Directory]] = {}
    for place in log_files.partitions_below(directory):
        if place.topic != CLUSTER_METADATA:
            found.setdefault(place.topic, {})[place.partition] = layout.partition_directory(directory, place)
    for partitions in found.values():
        for partition in partitions.values():
            _check_partition(partition)
    cluster = kafka_metadata.read(layout.partition_directory(directory, TopicPartition(CLUSTER_METADATA, 0)))
    topics: dict[str, TopicEntry] = {}
    ignored: dict[str, Mapping[str, str]] = {}
    for name, partitions in sorted(found.items()):
        topic_id = _topic_id(directory, name, partitions, cluster, rng)
        count = _count(directory, name, partitions, cluster)
        own, without = _settings(name, cluster, given)
        if without:
            ignored[name] = without
        topics[name] = TopicEntry(
            # Kafka's cleaner and its replicas leave gaps between segments.
            id=topic_id,
            partitions=count,
            settings=own,
            created_ms=clock.now_ms(),
            kind=checkpoints.LogKind.GAPPED,
        )
    meta = layout.read_meta_properties(directory)
    return Adopted(directory.path, meta.get("cluster.id") or new_id(rng), topics, cluster is not None, ignored)


def _check_partition(partition: Directory) -> None:
    names = partition.names()
    foreign = log_files.foreign_names(names)
    if foreign:
        raise NotALogError(
            f"the partition holds files that neither Kafka nor logstore makes: {', '.join(foreign[:5])}; move them "
            "away",
            path=partition.path,
        )
    if not log_files.base_offsets(names):
        raise NotALogError(
            "the partition has no segment: its files are lost, or Kafka had only begun it; restore them, "
            "or start and stop Kafka once",
            path=partition.path,
        )
    for base in next_segment.base_offsets(partition, names):
        name = next_segment.segment_name(partition, base, names)
        with partition.open(name) as file:
            head = file.read(0, _MAGIC_AT + 1)
        # A preallocated segment without a batch is zeros, and has no size in its header.
        if len(head) > _MAGIC_AT and any(head[8:12]) and head[_MAGIC_AT] != _MAGIC:
            raise UnsupportedFormatError(
                f"the segment begins with message format {head[_MAGIC_AT]}, only format 2 (Kafka 0.11) can be "
                "adopted; let Kafka write it again",
                path=partition.join(name),
                position=0,
            )


def _topic_id(
    directory: Directory,
    name: str,
    partitions: Mapping[int, Directory],
    cluster: kafka_metadata.KafkaMetadata | None,
    rng: random.Random | None,
) -> str:
    told = {layout.read_partition_metadata(partition) for partition in partitions.values()} - {None}
    if len(told) > 1:
        raise NotALogError(
            f"the partitions of topic {name!r} belong to different topics: {', '.join(sorted(map(str, told)))}",
            path=directory.path,
        )
    known = None if cluster is None else cluster.ids.get(name)
    found = next(iter(told), None)
    if cluster is not None and (known is None or (found is not None and found != known)):
        raise NotALogError(
            f"topic {name!r} is not in Kafka's metadata any more: start and stop Kafka once, so that it moves the "
            "partitions aside, or remove them yourself",
            path=directory.path,
        )
    return known or found or new_id(rng)


def _count(
    directory: Directory,
    name: str,
    partitions: Mapping[int, Directory],
    cluster: kafka_metadata.KafkaMetadata | None,
) -> int:
    expected = set(range(max(partitions) + 1))
    if cluster is not None:
        expected |= cluster.partitions.get(cluster.ids[name], set())
    missing = sorted(expected - set(partitions))
    if missing:
        raise NotALogError(
            f"topic {name!r} lacks its partitions {', '.join(map(str, missing[:10]))}: this broker had only "
            "some of them; copy the others to this directory first",
            path=directory.path,
        )
    return len(expected)


def _settings(
    name: str, cluster: kafka_metadata.KafkaMetadata | None, given: StoreConfig
) -> tuple[dict[str, str], dict[str, str]]:
    """Return (the topic's own settings, Kafka's settings without meaning here)."""
    own: dict[str, str] = {}
    without: dict[str, str] = {}
    said = {} if cluster is None else {**cluster.broker_settings, **cluster.topic_settings.get(name, {})}
    for key, value in said.items():
        wanted = "segment.bytes" if key == _INTERNAL_SEGMENT_BYTES else key
        try:
            own |= canonical({wanted: value})
        except ConfigError:
            without[key] = value
    # Of a file only what it sets: Kafka's default of retention would delete.
    changed = {} if given.broker_file else given.log.changed()
    said_by_caller = {key: value for key, value in given.log.items() if key in given.sources or key in changed}
    own = {**canonical(said_by_caller), **own}
    if name.startswith("__"):
        own.setdefault("cleanup.policy", "compact")
    if LogConfig.of(own).deletes:
        # Retention that is set nowhere deletes nothing. Set here, so that no later default does.
        own.setdefault("retention.ms", "-1")
        own.setdefault("retention.bytes", "-1")
    return canonical(own), without


__all__ = ["FIRST_PRODUCER_ID", "Adopted", "HandBack", "adopt_kafka_directory", "release_to_kafka"]
