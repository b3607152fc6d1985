"""Values that pass between a log and its callers: enumerations, small tuples, and the limits of their numbers.

Pure data, no I/O. `Record` itself is compiled (`logstore.batch._batch.Record`), since a scan makes one for
every record.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from logstore.errors import InvalidSettingError, UnsupportedCodecError

INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

#: Sequences of a producer's records: after the last one, `INT32_MAX`, comes 0.
SEQUENCE_COUNT = INT32_MAX + 1

#: Bytes of a record batch before its records.
BATCH_HEADER_BYTES = 61


class Codec(enum.IntEnum):
    """Compression codec of a batch: bits 0-2 of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        if isinstance(value, int):
            known = ", ".join(f"{member.value} {member.name.lower()}" for member in cls)
            raise UnsupportedCodecError(f"codec {value} is unknown; known are {known}")
        words = ", ".join(f"Codec.{member.name}" for member in cls)
        raise InvalidSettingError({"codec": f"expected one of {words} (from logstore), found {value!r}"})


class TimestampType(enum.IntEnum):
    """Source of a record's timestamp, the producer or the log: bit 3 of the batch's attributes."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class _Word(enum.Enum):
    """An enumeration whose members callers may give as words, in an argument named like the class."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        words = " or ".join(repr(member.value) for member in cls)
        raise InvalidSettingError({cls.__name__.lower(): f"expected {words}, found {value!r}"})


class Acks(enum.IntEnum):
    """What an append waits for; the values are Kafka's."""

    NONE = 0  #: nothing: the producer hears of no error
    LEADER = 1  #: the leader has written it
    ALL = -1  #: every replica in sync has written it (with a quorum: a majority has synced it)


def acks_of(value: Acks | int | str) -> Acks:
    """Return the acks that a caller has named as Kafka does: 0, 1, -1 or "all".

    Raises:
        ValueError: it is none of them.
    """
    if value == "all":
        return Acks.ALL
    try:
        return Acks(int(value))
    except ValueError:
        raise ValueError(f'acks= is 0, 1 or "all", found {value!r}') from None


class Ack(_Word):
    """Durability of an append when it returns."""

    WRITTEN = "written"  #: the page cache: survives the process, not the machine
    SYNCED = "synced"  #: the disk: survives power loss


class Isolation(_Word):
    """Visibility of transactions to a reader (Kafka's isolation.level)."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class Origin(enum.Enum):
    """Source of an appended batch; it decides which fields the log checks and sets."""

    CLIENT = "client"  #: a producer: everything is checked, base offset and epoch are set
    COORDINATOR = "coordinator"  #: a transaction marker: control batches are allowed
    REPLICATION = "replication"  #: the leader: its offsets and epochs are kept


class Marker(enum.IntEnum):
    """Outcome of a transaction: the type in the key of a control record."""

    ABORT = 0
    COMMIT = 1


class TopicPartition(NamedTuple):
    """Name of one partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class NewTopic(NamedTuple):
    """A topic to create. With -1 a number is the default of the store, or of the brokers."""

    name: str
    partitions: int = -1
    replication_factor: int = -1  #: a store has one copy: 1 or -1 there
    settings: Mapping[str, Any] = MappingProxyType({})


class RecordMetadata(NamedTuple):
    """Partition, offset and timestamp of a written record (Kafka's class of the same name).

    ``timestamp_ms`` is the record's own, or the append time of a log with log-append time.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int = -1


class LeftOut(NamedTuple):
    """Offsets that a scan has skipped, and the reason; ``next_offset`` is where it continued."""

    partition: TopicPartition
    first_offset: int
    next_offset: int
    path: str | None
    position: int | None
    reason: str

    def __str__(self) -> str:
        last = self.next_offset - 1
        return f"{self.partition}: offsets {self.first_offset} to {last} are left out: {self.reason}"


class AppendResult(NamedTuple):
    """Offsets of an append.

    ``timestamp_ms`` is the append time of a log with log-append time, else -1. With
    ``duplicate`` the batch had been written before, and the offsets are those of that write.
    """

    first_offset: int
    last_offset: int
    timestamp_ms: int = -1
    duplicate: bool = False


class ProducerStamp(NamedTuple):
    """The producer of a batch: makes the append idempotent, and transactional if ``transactional`` is set."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool = False


class AbortedTransaction(NamedTuple):
    """Offsets ``[first_offset, last_offset]`` of one producer that a committed reader skips.

    ``last_offset`` is the offset of the abort marker; ``last_stable_offset`` is the log's
    once the transaction had ended.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TimestampOffset(NamedTuple):
    """A record found by time: its timestamp and its offset."""

    timestamp_ms: int
    offset: int
