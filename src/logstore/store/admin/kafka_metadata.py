"""Topics in Kafka's own metadata log, ``__cluster_metadata-0``. Reads only.

A record's value is a frame: unsigned varints for the frame's version (1), the record's type and its version,
then the fields (apache/kafka, `metadata/src/main/resources/common/metadata/*.json`). This module reads only these
types::

     2  TopicRecord          name, id
     3  PartitionRecord      partition, topic id, four arrays of brokers, leader, leader epoch
     4  ConfigRecord         resource type (2 topic, 4 broker), resource name, key, value or null
     5  PartitionChange…     partition, topic id; tagged: 1 leader
     9  RemoveTopicRecord    topic id

Strings and arrays are compact: an unsigned varint one above the length, 0 for null; ids are 16 bytes. The later
fields of a record are skipped. Each change that names a leader, or -1 for none, raises the partition's leader
epoch by one. With -2, or without the field, the leader stays (`PartitionRegistration.merge`). A snapshot
(``OFFSET-EPOCH.checkpoint``) replaces all records below its offset.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import Final

from logstore.batch._batch import Batches
from logstore.errors import CorruptRecordError
from logstore.log import Log
from logstore.log.directory import files
from logstore.log.directory.files import Directory
from logstore.log.directory.segments import scan_file

_TOPIC, _PARTITION, _CONFIG, _CHANGE, _REMOVE_TOPIC = 2, 3, 4, 5, 9
_LEADER_TAG, _LEADER_STAYS = 1, -2
_OF_TOPIC, _OF_BROKER = 2, 4

_CHECKPOINT = re.compile(r"(\d{20})-(\d{10})\.checkpoint", re.ASCII)
_FRAME_VERSION: Final = 1


@dataclass
class Cluster:
    """The topics of a cluster, as the log describes them: ids, partitions, leader epochs and settings."""

    ids: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, set[int]] = field(default_factory=dict)  #: by topic id
    leader_epochs: dict[tuple[str, int], int] = field(default_factory=dict)  #: by topic id and partition
    topic_settings: dict[str, dict[str, str]] = field(default_factory=dict)  #: by name
    broker_settings: dict[str, str] = field(default_factory=dict)  #: dynamic defaults of all brokers


def read(directory: Directory) -> Cluster | None:
    """Return the cluster that the log in a directory describes; None if there is no such log.

    Raises:
        CorruptRecordError: a record cannot be parsed.
        RecordError, StorageError: the log is damaged.
    """
    if not directory.exists():
        return None
    cluster = Cluster()
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


def apply(cluster: Cluster, value: bytes) -> None:
    """Apply one record to the cluster.

    Raises:
        CorruptRecordError: the record ends too early, or its frame has another version.
    """
    fields = _Fields(value)
    version, kind, _ = fields.number(), fields.number(), fields.number()
    if version != _FRAME_VERSION:
        raise CorruptRecordError(
            f"a metadata record has frame version {version}, this program knows {_FRAME_VERSION}"
        )
    if kind == _TOPIC:
        name, topic_id = fields.text() or "", fields.id()
        cluster.ids[name] = topic_id
        cluster.partitions.setdefault(topic_id, set())
    elif kind == _PARTITION:
        number, topic_id = fields.int32(), fields.id()
        cluster.partitions.setdefault(topic_id, set()).add(number)
        for _ in range(4):  # replicas, in-sync ones, removed ones, added ones
            fields.pass_int32s()
        fields.int32()  # the leader
        cluster.leader_epochs[topic_id, number] = fields.int32()
    elif kind == _CHANGE:
        number, topic_id = fields.int32(), fields.id()
        if fields.tagged_int32(_LEADER_TAG, _LEADER_STAYS) != _LEADER_STAYS:
            cluster.leader_epochs[topic_id, number] = cluster.leader_epochs.get((topic_id, number), -1) + 1
    elif kind == _REMOVE_TOPIC:
        topic_id = fields.id()
        for number in cluster.partitions.pop(topic_id, ()):
            cluster.leader_epochs.pop((topic_id, number), None)
        for name in [name for name, known in cluster.ids.items() if known == topic_id]:
            del cluster.ids[name]
            cluster.topic_settings.pop(name, None)
    elif kind == _CONFIG:
        what, whose, key, setting = fields.int8(), fields.text() or "", fields.text() or "", fields.text()
        if what == _OF_TOPIC:
            settings = cluster.topic_settings.setdefault(whose, {})
        elif what == _OF_BROKER and not whose:
            settings = cluster.broker_settings
        else:
            return
        if setting is None:
            settings.pop(key, None)
        else:
            settings[key] = setting


class _Fields:
    """The fields of one record, one after the other. Invariant: ``_at`` never passes the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, count: int) -> bytes:
        if not 0 <= count <= len(self._data) - self._at:
            raise CorruptRecordError(f"a metadata record of {len(self._data)} bytes needs {count} at {self._at}")
        taken = self._data[self._at : self._at + count]
        self._at += count
        return taken

    def number(self) -> int:
        value = shift = 0
        while shift < 35:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise CorruptRecordError("a metadata record has a number of more than 32 bits")

    def int8(self) -> int:
        return int.from_bytes(self._take(1), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def pass_int32s(self) -> None:
        self._take(4 * max(self.number() - 1, 0))

    def tagged_int32(self, wanted: int, default: int) -> int:
        """Return the tagged field ``wanted``. Call it after the last untagged field."""
        for _ in range(self.number()):
            tag, data = self.number(), self._take(self.number())
            if tag == wanted:
                return int.from_bytes(data, "big", signed=True)
        return default

    def id(self) -> str:
        return base64.urlsafe_b64encode(self._take(16)).decode().rstrip("=")

    def text(self) -> str | None:
        length = self.number()
        if not length:
            return None
        try:
            return self._take(length - 1).decode()
        except UnicodeDecodeError as error:
            raise CorruptRecordError(f"a metadata record holds text that is no UTF-8: {error}") from error
