"""Commits of consumer groups as Kafka 4.3 writes them into ``__consumer_offsets``, and their partition.

Their fields are Kafka's OffsetCommitKey and OffsetCommitValue (`logstore.protocol.generated.records`). The fields
of a key follow its type in an int16: 1, or 0 as old versions wrote it. Those of a value follow its version in
an int16: Kafka 4.3 writes 4, or 1 for a commit with an expiry time of its own; 0 to 4 are read.

Keys of other types (2 and above: members, assignments, share groups) belong to the group coordinator and
are skipped here. A value that is null deletes the commit of its key.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from logstore.errors import (
    CorruptRecordError,
    InvalidGroupError,
    InvalidOffsetError,
    MalformedMessageError,
    OffsetMetadataTooLargeError,
)
from logstore.records import INT16_MAX, INT64_MAX, TopicPartition
from logstore.topic_names import CONSUMER_OFFSETS

#: Kafka's offset.metadata.max.bytes; counted, as Kafka does, in UTF-16 units.
METADATA_MAX = 4096

_PREFIX = 2  #: bytes of the type or version before the fields
_COMMIT_TYPES = (0, 1)
_WITH_EXPIRY = 1
_CURRENT = 4


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the next record that the group has to read, with metadata of the application.

    ``leader_epoch`` is that of the last record read, or -1. ``commit_ms`` is the time of the commit, or -1 before
    it. ``expire_ms`` is the time from which it may be deleted, if it has its own expiry time. ``topic_id`` tells a
    topic from a later one of the same name: 128 bits in Kafka's text form, "" if unknown.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1
    commit_ms: int = -1
    expire_ms: int = -1
    topic_id: str = ""


class OffsetKey(NamedTuple):
    """The group and partition of a commit."""

    group: str
    partition: TopicPartition


# --- partition of a group --------------------------------------------------------------------------


def java_hash(text: str) -> int:
    """Return Java's ``String.hashCode``: over UTF-16 units, wrapped to 32 bits with sign.

    >>> java_hash("hello"), java_hash("polygenelubricants")
    (99162322, -2147483648)
    """
    units = text.encode("utf-16-be", "surrogatepass")
    found = 0
    for (unit,) in struct.iter_unpack(">H", units):
        found = (31 * found + unit) & 0xFFFFFFFF
    return found - (1 << 32) if found >= 1 << 31 else found


def partition_of(group: str, partition_count: int) -> int:
    """Return the partition of ``__consumer_offsets`` that holds a group.

    >>> partition_of("crew", 50), partition_of("crew", 1)
    (13, 0)
    """
    # Kafka's Utils.abs: the least int has no opposite, and becomes 0.
    found = java_hash(group)
    return (0 if found == -(1 << 31) else abs(found)) % partition_count


# --- checks of a caller's values ---------------------------------------------------------------------


def check_group(group: object) -> str:
    """Return the name of a group, which may be any text that is not empty and fits Kafka's strings.

    Raises:
        InvalidGroupError: the name is invalid.
    """
    if not isinstance(group, str) or not group:
        raise InvalidGroupError(f"a group's name must be a str that is not empty, found {group!r}")
    _check_fits(group, "a group's name", InvalidGroupError)
    return group


def is_whole(number: object) -> bool:
    """Tell whether something is a whole number, and no bool."""
    return isinstance(number, int) and not isinstance(number, bool)


def check_commit(partition: TopicPartition, found: OffsetAndMetadata, metadata_max: int = METADATA_MAX) -> None:
    """Raise if no record can hold a commit.

    Raises:
        InvalidOffsetError: the offset is no whole number from 0 to 2**63 - 1.
        OffsetMetadataTooLargeError: the metadata is longer than ``metadata_max``.
    """
    offset, metadata = found.offset, found.metadata
    if not is_whole(offset) or not 0 <= offset <= INT64_MAX:
        raise InvalidOffsetError(f"{partition}: an offset from 0 to {INT64_MAX} can be committed, found {offset!r}")
    if type(metadata) is not str:
        raise InvalidOffsetError(f"{partition}: the metadata of a commit is a str, found {metadata!r}")
    size = len(metadata.encode("utf-16-be", "surrogatepass")) // 2
    if size > metadata_max:
        raise OffsetMetadataTooLargeError(
            f"{partition}: the metadata has {size} characters, offset.metadata.max.bytes allows {metadata_max}"
        )
    _check_fits(metadata, f"{partition}: the metadata", OffsetMetadataTooLargeError)


def _check_fits(text: str, what: str, refused: type[InvalidGroupError | OffsetMetadataTooLargeError]) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise refused(f"{what} must be text that UTF-8 can hold: {error}") from error
    if size > INT16_MAX:
        raise refused(f"{what} must be at most {INT16_MAX} bytes of UTF-8, found {size}")


# --- records -----------------------------------------------------------------------------------------

# The classes of records are imported when the first commit is read or written, not with every store.


def encode_key(key: OffsetKey) -> bytes:
    """Encode the key of a commit's record.

    >>> encode_key(OffsetKey("g", TopicPartition("t", 0))).hex(" ", 2)
    '0001 0001 6700 0174 0000 0000'
    """
    from logstore.protocol.generated.records import OffsetCommitKey

    topic, partition = key.partition
    record = OffsetCommitKey(group=key.group, topic=topic, partition=partition)
    return OffsetCommitKey.TYPE.to_bytes(_PREFIX, "big") + record.encode(0)


def encode_value(found: OffsetAndMetadata) -> bytes:
    """Encode the value of a commit's record; the offset and the metadata have passed `check_commit`."""
    from logstore.protocol.generated.records import OffsetCommitValue

    version = _WITH_EXPIRY if found.expire_ms >= 0 else _CURRENT
    record = OffsetCommitValue(
        offset=found.offset,
        leader_epoch=found.leader_epoch,
        metadata=found.metadata,
        commit_timestamp=found.commit_ms,
        expire_timestamp=found.expire_ms,
        topic_id=found.topic_id,
    )
    return version.to_bytes(_PREFIX, "big") + record.encode(version)


def decode_key(key: bytes | None) -> OffsetKey | None:
    """Decode the key of a record, or return None if it is no commit.

    Raises:
        CorruptRecordError: the key has a commit's type and is malformed.
    """
    from logstore.protocol.generated.records import OffsetCommitKey

    if key is None or len(key) < _PREFIX or _prefix_of(key) not in _COMMIT_TYPES:
        return None
    try:
        found = OffsetCommitKey.decode(key, 0, _PREFIX)
    except MalformedMessageError as error:
        raise CorruptRecordError(f"a key of {CONSUMER_OFFSETS}: {error}") from error
    if found.partition < 0:
        raise CorruptRecordError(
            f"a key of {CONSUMER_OFFSETS}: partition {found.partition} of topic {found.topic!r}"
        )
    return OffsetKey(found.group, TopicPartition(found.topic, found.partition))


def decode_value(value: bytes) -> OffsetAndMetadata:
    """Decode a commit. Unknown tags are skipped: later versions of Kafka may write more.

    Raises:
        CorruptRecordError: the bytes are no commit, or one of a version above 4.
    """
    from logstore.protocol.generated.records import OffsetCommitValue

    version = _prefix_of(value) if len(value) >= _PREFIX else -1
    if not 0 <= version <= _CURRENT:
        raise CorruptRecordError(
            f"a value of {CONSUMER_OFFSETS}: version {version} is unknown, 0 to {_CURRENT} can be read"
        )
    try:
        found = OffsetCommitValue.decode(value, version, _PREFIX)
    except MalformedMessageError as error:
        raise CorruptRecordError(f"a value of {CONSUMER_OFFSETS}: {error}") from error
    return OffsetAndMetadata(
        found.offset,
        found.metadata,
        found.leader_epoch,
        found.commit_timestamp,
        found.expire_timestamp,
        found.topic_id,
    )


def _prefix_of(data: bytes) -> int:
    return int.from_bytes(data[:_PREFIX], "big", signed=True)
