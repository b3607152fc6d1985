"""The user data of sticky assignors in a member's subscription.

``StickyAssignor`` (version 1; version 0 has no generation, KIP-341)::

    int32 count of topics, then for each: string topic, int32 count, int32 partition ...
    int32 generation

``CooperativeStickyAssignor``: int32 generation.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from logstore.errors import MalformedMessageError
from logstore.groups.assignors.members import NO_GENERATION
from logstore.protocol._schema import Schema
from logstore.protocol.grouping import by_topic
from logstore.protocol.message import KafkaRecord, Struct
from logstore.records import TopicPartition


class StickyUserData(KafkaRecord):
    """The user data of `StickyAssignor`. It does not say its version: the longer one is tried first."""

    __slots__ = {"previous_assignment": "[]TopicPartitions 0+", "generation": "int32 1+ ignorable"}  # noqa: RUF023 -- in the order of the bytes
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_SINCE = None

    class TopicPartitions(Struct):
        """One topic of it."""

        __slots__ = {"topic": "string 0+", "partitions": "[]int32 0+"}  # noqa: RUF023 -- in the order of the bytes

        def __init__(self, *, topic: str = "", partitions: Sequence[int] = ()) -> None:
            self.topic = topic
            self.partitions = partitions

    def __init__(
        self, *, previous_assignment: Sequence[StickyUserData.TopicPartitions] = (), generation: int = -1
    ) -> None:
        self.previous_assignment = previous_assignment
        self.generation = generation


StickyUserData.SCHEMA = Schema(StickyUserData)


def encode_sticky(partitions: Iterable[TopicPartition], generation: int, version: int = 1) -> bytes:
    """Encode what a member has got in a round.

    >>> encode_sticky([TopicPartition("t", 2)], 7).hex(" ", 4)
    '000000 01000174 00000001 00000002 00000007'
    """
    rows = [
        StickyUserData.TopicPartitions(topic=topic, partitions=found)
        for topic, found in by_topic(partitions).items()
    ]
    return StickyUserData(previous_assignment=rows, generation=generation).encode(version)


def decode_sticky(data: bytes | None) -> tuple[list[TopicPartition], int] | None:
    """Return the partitions and the generation (-1 in version 0), or None if the bytes cannot be read.

    >>> decode_sticky(bytes.fromhex("00000001 000174 00000001 00000002 00000007"))
    ([TopicPartition(topic='t', partition=2)], 7)
    """
    for version in (1, 0):
        try:
            found = StickyUserData.decode(data or b"", version)
        except MalformedMessageError:
            continue
        return [TopicPartition(one.topic, n) for one in found.previous_assignment for n in one.partitions], (
            found.generation if version else NO_GENERATION
        )
    return None


def encode_cooperative(generation: int) -> bytes:
    """Encode the generation of a round."""
    return struct.pack(">i", generation)


def decode_cooperative(data: bytes | None) -> int:
    """Return the generation, or -1 if the bytes are too short for one."""
    if data is None or len(data) < 4:
        return NO_GENERATION
    generation: int = struct.unpack_from(">i", data)[0]
    return generation
