"""Kafka 4.3.1's values inside messages of groups as classes; brokers pass them on unread.

Written by codegen/generate.py from codegen/embedded.txt; change those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from logstore.protocol._schema import Schema
from logstore.protocol.message import KafkaRecord, Struct


class ConsumerProtocolAssignment(KafkaRecord):
    __slots__ = {
        "assigned_partitions": "[]TopicPartition 0+",
        "user_data": "bytes 0+ null 0+",
    }
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_SINCE: ClassVar[int | None] = None

    class TopicPartition(Struct):
        __slots__ = {
            "topic": "string 0+",
            "partitions": "[]int32 0+",
        }

        def __init__(
            self,
            *,
            topic: str = "",
            partitions: Sequence[int] = (),
        ) -> None:
            self.topic = topic
            self.partitions = partitions

    def __init__(
        self,
        *,
        assigned_partitions: Sequence[ConsumerProtocolAssignment.TopicPartition] = (),
        user_data: bytes | None = None,
    ) -> None:
        self.assigned_partitions = assigned_partitions
        self.user_data = user_data


class ConsumerProtocolSubscription(KafkaRecord):
    __slots__ = {
        "topics": "[]string 0+",
        "user_data": "bytes 0+ null 0+",
        "owned_partitions": "[]TopicPartition 1+ ignorable",
        "generation_id": "int32 2+ ignorable",
        "rack_id": "string 3+ null 3+ ignorable",
    }
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_SINCE: ClassVar[int | None] = None

    class TopicPartition(Struct):
        __slots__ = {
            "topic": "string 1+",
            "partitions": "[]int32 1+",
        }

        def __init__(
            self,
            *,
            topic: str = "",
            partitions: Sequence[int] = (),
        ) -> None:
            self.topic = topic
            self.partitions = partitions

    def __init__(
        self,
        *,
        topics: Sequence[str] = (),
        user_data: bytes | None = None,
        owned_partitions: Sequence[ConsumerProtocolSubscription.TopicPartition] = (),
        generation_id: int = -1,
        rack_id: str | None = None,
    ) -> None:
        self.topics = topics
        self.user_data = user_data
        self.owned_partitions = owned_partitions
        self.generation_id = generation_id
        self.rack_id = rack_id

_CLASSES: tuple[type[KafkaRecord], ...] = (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
for _class in _CLASSES:
    _class.SCHEMA = Schema(_class)
