"""Records of ``__consumer_offsets``, byte for byte as Kafka 4.3 writes them, and their partition.

This module is responsible for their layout (Kafka, ``group-coordinator/src/main/resources/common/message``).
Integers are big-endian; ``string`` is an int16 length with UTF-8; ``compact`` is an unsigned varint of
length + 1 with UTF-8.

Key, of a commit (type 1, or 0 as old versions wrote it)::

    int16 type | string group | string topic | int32 partition

Value, by its version; Kafka 4.3 writes 4, or 1 for a commit with an expiry time of its own::

    0, 2   int16 version | int64 offset | string metadata | int64 commit ms
    1      int16 version | int64 offset | string metadata | int64 commit ms | int64 expire ms
    3      int16 version | int64 offset | int32 leader epoch | string metadata | int64 commit ms
    4      int16 version | int64 offset | int32 leader epoch | compact metadata | int64 commit ms | tags
    tags   varint count, then for each: varint tag | varint size | bytes; tag 0 is the topic's id, 16 bytes

Keys of other types (2 and above: members, assignments, share groups) belong to the group coordinator and
are skipped here. A value that is null deletes the commit of its key.
"""

from __future__ import annotations

import base64
import struct
from typing import NamedTuple

from logstore.errors import CorruptRecordError, InvalidGroupError, InvalidOffsetError, OffsetMetadataTooLargeError
from logstore.records import INT16_MAX, INT64_MAX, TopicPartition
from logstore.topic_names import CONSUMER_OFFSETS

#: Kafka's offset.metadata.max.bytes; counted, as Kafka does, in UTF-16 units.
METADATA_MAX = 4096

_COMMIT_TYPES = (0, 1)
_KEY_TYPE = 1
_WITH_EXPIRY = 1
_CURRENT = 4
_TAG_TOPIC_ID = 0
_ID_BYTES = 16
_NO_ID = bytes(_ID_BYTES)


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
    _encoded(group, "a group's name", InvalidGroupError)
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
    _encoded(metadata, f"{partition}: the metadata", OffsetMetadataTooLargeError)


def _encoded(text: str, what: str, refused: type[InvalidGroupError | OffsetMetadataTooLargeError]) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise refused(f"{what} must be text that UTF-8 can hold: {error}") from error
    if len(data) > INT16_MAX:
        raise refused(f"{what} must be at most {INT16_MAX} bytes of UTF-8, found {len(data)}")
    return data


# --- writing -----------------------------------------------------------------------------------------


def encode_key(key: OffsetKey) -> bytes:
    """Encode the key of a commit's record.

    >>> encode_key(OffsetKey("g", TopicPartition("t", 0))).hex(" ", 2)
    '0001 0001 6700 0174 0000 0000'
    """
    topic, partition = key.partition
    return b"".join(
        (_int16(_KEY_TYPE), _string(key.group.encode()), _string(topic.encode()), partition.to_bytes(4, "big"))
    )


def encode_value(found: OffsetAndMetadata) -> bytes:
    """Encode the value of a commit's record; the offset and the metadata have passed `check_commit`."""
    metadata = found.metadata.encode()
    if found.expire_ms >= 0:
        return b"".join(
            (
                struct.pack(">hq", _WITH_EXPIRY, found.offset),
                _string(metadata),
                struct.pack(">qq", found.commit_ms, found.expire_ms),
            )
        )
    topic_id = base64.urlsafe_b64decode(found.topic_id + "==") if found.topic_id else _NO_ID
    tags = b"\0" if topic_id == _NO_ID else bytes((1, _TAG_TOPIC_ID, _ID_BYTES)) + topic_id
    return b"".join(
        (
            struct.pack(">hqi", _CURRENT, found.offset, found.leader_epoch),
            _varint(len(metadata) + 1),
            metadata,
            struct.pack(">q", found.commit_ms),
            tags,
        )
    )


def _int16(number: int) -> bytes:
    return number.to_bytes(2, "big")


def _string(data: bytes) -> bytes:
    return _int16(len(data)) + data


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


# --- reading -----------------------------------------------------------------------------------------


class _Cursor:
    """A reader of fields from unchecked bytes; every length in them is a claim."""

    __slots__ = ("_at", "_data", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        self._data, self._what, self._at = data, what, 0

    def take(self, size: int) -> bytes:
        if size < 0 or size > len(self._data) - self._at:
            raise CorruptRecordError(
                f"{self._what} of {CONSUMER_OFFSETS}: {size} bytes expected at byte {self._at}, the field ends at "
                f"{len(self._data)}"
            )
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def varint(self) -> int:
        found = shift = 0
        while True:
            byte = self.take(1)[0]
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7
            if shift > 28:
                raise CorruptRecordError(
                    f"{self._what} of {CONSUMER_OFFSETS}: a varint at byte {self._at} is too long"
                )

    def text(self, size: int) -> str:
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise CorruptRecordError(f"{self._what} of {CONSUMER_OFFSETS}: no UTF-8 at byte {self._at}") from error

    def string(self) -> str:
        return self.text(self.number(2))


def decode_key(key: bytes | None) -> OffsetKey | None:
    """Decode the key of a record, or return None if it is no commit.

    Raises:
        CorruptRecordError: the key has a commit's type and is malformed.
    """
    if key is None or len(key) < 2 or int.from_bytes(key[:2], "big", signed=True) not in _COMMIT_TYPES:
        return None
    cursor = _Cursor(key, "a key")
    cursor.take(2)
    group, topic, partition = cursor.string(), cursor.string(), cursor.number(4)
    if partition < 0:
        raise CorruptRecordError(f"a key of {CONSUMER_OFFSETS}: partition {partition} of topic {topic!r}")
    return OffsetKey(group, TopicPartition(topic, partition))


def decode_value(value: bytes) -> OffsetAndMetadata:
    """Decode a commit. Unknown tags are skipped: later versions of Kafka may write more.

    Raises:
        CorruptRecordError: the bytes are no commit, or one of a version above 4.
    """
    cursor = _Cursor(value, "a value")
    version = cursor.number(2)
    if not 0 <= version <= _CURRENT:
        raise CorruptRecordError(
            f"a value of {CONSUMER_OFFSETS}: version {version} is unknown, 0 to {_CURRENT} can be read"
        )
    offset = cursor.number(8)
    leader_epoch = cursor.number(4) if version >= 3 else -1
    metadata = cursor.text(cursor.varint() - 1) if version >= 4 else cursor.string()
    commit_ms = cursor.number(8)
    expire_ms = cursor.number(8) if version == _WITH_EXPIRY else -1
    topic_id = ""
    for _ in range(cursor.varint() if version >= 4 else 0):
        tag, data = cursor.varint(), cursor.take(cursor.varint())
        if tag == _TAG_TOPIC_ID:
            if len(data) != _ID_BYTES:
                raise CorruptRecordError(f"a value of {CONSUMER_OFFSETS}: a topic id of {len(data)} bytes")
            topic_id = "" if data == _NO_ID else base64.urlsafe_b64encode(data).decode().rstrip("=")
    return OffsetAndMetadata(offset, metadata, leader_epoch, commit_ms, expire_ms, topic_id)
