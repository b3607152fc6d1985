"""The values that pass between a log and its callers: enumerations and small tuples.

Pure data, no I/O. `Record` itself is compiled (`logstore.batch._batch.Record`), since a scan makes one for
every record.
"""

from __future__ import annotations

import enum
from typing import NamedTuple, NoReturn

from logstore.errors import InvalidSettingError, UnsupportedCodecError


class Codec(enum.IntEnum):
    """How the records of a batch are compressed: bits 0-2 of its attributes."""

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
    """Who gave a record its timestamp: bit 3 of the batch's attributes."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class _Word(enum.Enum):
    """A choice that callers may also give as its word, in an argument named like the class."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        words = " or ".join(repr(member.value) for member in cls)
        raise InvalidSettingError({cls.__name__.lower(): f"expected {words}, found {value!r}"})


class Ack(_Word):
    """What an append has reached when it returns."""

    WRITTEN = "written"  #: the page cache: survives the process, not the machine
    SYNCED = "synced"  #: the disk: survives power loss


class Isolation(_Word):
    """What a reader sees of transactions (Kafka's isolation.level)."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class Origin(enum.Enum):
    """Who hands a batch to the log, which decides what is checked and what is set."""

    CLIENT = "client"  #: a producer: everything is checked, base offset and epoch are set
    COORDINATOR = "coordinator"  #: a transaction marker: control batches are allowed
    REPLICATION = "replication"  #: the leader: its offsets and epochs are kept


class Marker(enum.IntEnum):
    """How a transaction ended: the type in the key of a control record."""

    ABORT = 0
    COMMIT = 1


class TopicPartition(NamedTuple):
    """Name of one partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class RecordMetadata(NamedTuple):
    """Where a record went: what a producer is told (Kafka's class of the same name).

    ``timestamp_ms`` is the record's own, or the append time of a log with log-append time.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int = -1


class AppendResult(NamedTuple):
    """Where an append went.

    ``timestamp_ms`` is the append time of a log with log-append time, else -1. With
    ``duplicate`` the batch had been written before and the offsets are those of then.
    """

    first_offset: int
    last_offset: int
    timestamp_ms: int = -1
    duplicate: bool = False


class AbortedTransaction(NamedTuple):
    """Offsets ``[first_offset, last_offset]`` of one producer that a committed reader skips.

    ``last_offset`` is the offset of the abort marker; ``last_stable_offset`` is what it was
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
