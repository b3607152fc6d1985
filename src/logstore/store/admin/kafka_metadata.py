"""Topics in Kafka's own metadata log, ``__cluster_metadata-0``. Reads only.

A record's value is a frame: unsigned varints for the frame's version (1), the record's type and its version,
then the fields (`logstore.protocol.generated.records`). Records of other types are skipped. Each change that
names a leader, or -1 for none, raises the partition's leader epoch by one. With -2, or without the field, the
leader stays (`PartitionRegistration.merge`). A snapshot (``OFFSET-EPOCH.checkpoint``) replaces all records below
its offset.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from logstore.batch._batch import Batches
from logstore.errors import CorruptRecordError, MalformedMessageError
from logstore.log import Log
from logstore.log.directory import files
from logstore.log.directory.files import Directory
from logstore.log.directory.segments import scan_file
from logstore.protocol._schema import record_frame
from logstore.protocol.generated.records import (
    METADATA,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

_LEADER_STAYS = -2
_OF_TOPIC, _OF_BROKER = 2, 4

_CHECKPOINT = re.compile(r"(\d{20})-(\d{10})\.checkpoint", re.ASCII)
_FRAME_VERSION: Final = 1


@dataclass
class KafkaMetadata:
    """The topics of a cluster, as the log describes them: ids, partitions, leader epochs and settings."""

    ids: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, set[int]] = field(default_factory=dict)  #: by topic id
    leader_epochs: dict[tuple[str, int], int] = field(default_factory=dict)  #: by topic id and partition
    topic_settings: dict[str, dict[str, str]] = field(default_factory=dict)  #: by name
    broker_settings: dict[str, str] = field(default_factory=dict)  #: dynamic defaults of all brokers


def read(directory: Directory) -> KafkaMetadata | None:
    """Return the cluster that the log in a directory describes; None if there is no such log.

    Raises:
        CorruptRecordError: a record cannot be parsed.
        RecordError, StorageError: the log is damaged.
    """
    if not directory.exists():
        return None
    cluster = KafkaMetadata()
    from_offset = 0
    snapshots = [match for name in directory.names() if (match := _CHECKPOINT.fullmatch(name))]
    newest = max(snapshots, key=_place, default=None)
    if newest is not None:
        from_offset = int(newest[1])
        data = directory.read(newest[0]) or b""
        for record in Batches(data, path=directory.join(newest[0])):
            apply(cluster, bytes(record.value or b""))
    _check_whole(directory)
    with Log.open(directory.path, read_only=True, files=directory.files) as log:
        for record in log.scan(max(from_offset, log.log_start_offset)):
            apply(cluster, bytes(record.value or b""))
    return cluster


def _check_whole(directory: Directory) -> None:
    """Raise for a bad batch: a reader would take it for the end of the log and miss the settings after it."""
    for base in files.base_offsets(directory.names()):
        name = files.segment_file(base, files.LOG)
        extent = scan_file(directory, name)
        if extent.problem is not None:
            raise CorruptRecordError(
                f"Kafka's log of metadata is damaged, or torn by a crash: {extent.problem}; start and stop "
                "Kafka once, which repairs a torn end",
                path=directory.join(name),
                position=extent.valid_bytes,
            )


def _place(match: re.Match[str]) -> tuple[int, int]:
    return int(match[1]), int(match[2])


def apply(cluster: KafkaMetadata, value: bytes) -> None:
    """Apply one record to the cluster.

    Raises:
        CorruptRecordError: the record ends too early, or its frame has another version.
    """
    try:
        frame, number, version, position = record_frame(value)
        if frame != _FRAME_VERSION:
            raise CorruptRecordError(
                f"a metadata record has frame version {frame}, this program knows {_FRAME_VERSION}"
            )
        kind = METADATA.get(number)
        if kind is None:
            return
        # A later version is read by its first fields, which are those of the newest known one.
        record = kind.decode(value, min(version, kind.MAX_VERSION), position)
    except MalformedMessageError as error:
        raise CorruptRecordError(f"a metadata record of {len(value)} bytes: {error}") from error
    if isinstance(record, TopicRecord):
        cluster.ids[record.name] = record.topic_id
        cluster.partitions.setdefault(record.topic_id, set())
    elif isinstance(record, PartitionRecord):
        cluster.partitions.setdefault(record.topic_id, set()).add(record.partition_id)
        cluster.leader_epochs[record.topic_id, record.partition_id] = record.leader_epoch
    elif isinstance(record, PartitionChangeRecord):
        if record.leader != _LEADER_STAYS:
            place = record.topic_id, record.partition_id
            cluster.leader_epochs[place] = cluster.leader_epochs.get(place, -1) + 1
    elif isinstance(record, RemoveTopicRecord):
        for partition in cluster.partitions.pop(record.topic_id, ()):
            cluster.leader_epochs.pop((record.topic_id, partition), None)
        for name in [name for name, known in cluster.ids.items() if known == record.topic_id]:
            del cluster.ids[name]
            cluster.topic_settings.pop(name, None)
    elif isinstance(record, ConfigRecord):
        if record.resource_type == _OF_TOPIC:
            settings = cluster.topic_settings.setdefault(record.resource_name, {})
        elif record.resource_type == _OF_BROKER and not record.resource_name:
            settings = cluster.broker_settings
        else:
            return
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value
