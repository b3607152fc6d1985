"""Kafka 4.3.1's records in its internal topics as classes.

Written by codegen/generate.py from codegen/records.txt; change those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from logstore.protocol._schema import Schema
from logstore.protocol.message import KafkaRecord

if TYPE_CHECKING:
    from typing_extensions import Buffer



class OffsetCommitKey(KafkaRecord):
    __slots__ = {
        "group": "string 0+",
        "topic": "string 0+",
        "partition": "int32 0+",
    }
    TYPE = 1
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_SINCE: ClassVar[int | None] = None

    def __init__(
        self,
        *,
        group: str = "",
        topic: str = "",
        partition: int = 0,
    ) -> None:
        self.group = group
        self.topic = topic
        self.partition = partition


class OffsetCommitValue(KafkaRecord):
    __slots__ = {
        "offset": "int64 0+",
        "leader_epoch": "int32 3+ ignorable",
        "metadata": "string 0+",
        "commit_timestamp": "int64 0+",
        "expire_timestamp": "int64 1-1 ignorable",
        "topic_id": "uuid 4+ tag 0 ignorable",
    }
    TYPE = 1
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_SINCE: ClassVar[int | None] = 4

    def __init__(
        self,
        *,
        offset: int = 0,
        leader_epoch: int = -1,
        metadata: str = "",
        commit_timestamp: int = 0,
        expire_timestamp: int = -1,
        topic_id: str = "",
    ) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp
        self.expire_timestamp = expire_timestamp
        self.topic_id = topic_id


class TopicRecord(KafkaRecord):
    __slots__ = {
        "name": "string 0+",
        "topic_id": "uuid 0+",
    }
    TYPE = 2
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: str = "",
    ) -> None:
        self.name = name
        self.topic_id = topic_id


class PartitionRecord(KafkaRecord):
    __slots__ = {
        "partition_id": "int32 0+",
        "topic_id": "uuid 0+",
        "replicas": "[]int32 0+",
        "isr": "[]int32 0+",
        "removing_replicas": "[]int32 0+",
        "adding_replicas": "[]int32 0+",
        "leader": "int32 0+",
        "leader_recovery_state": "int8 0+ tag 0",
        "leader_epoch": "int32 0+",
        "partition_epoch": "int32 0+",
        "directories": "[]uuid 1+",
        "eligible_leader_replicas": "[]int32 2+ null 2+ tag 1",
        "last_known_elr": "[]int32 2+ null 2+ tag 2",
    }
    TYPE = 3
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    def __init__(
        self,
        *,
        partition_id: int = -1,
        topic_id: str = "",
        replicas: Sequence[int] = (),
        isr: Sequence[int] = (),
        removing_replicas: Sequence[int] = (),
        adding_replicas: Sequence[int] = (),
        leader: int = -1,
        leader_recovery_state: int = 0,
        leader_epoch: int = -1,
        partition_epoch: int = -1,
        directories: Sequence[str] = (),
        eligible_leader_replicas: Sequence[int] | None = None,
        last_known_elr: Sequence[int] | None = None,
    ) -> None:
        self.partition_id = partition_id
        self.topic_id = topic_id
        self.replicas = replicas
        self.isr = isr
        self.removing_replicas = removing_replicas
        self.adding_replicas = adding_replicas
        self.leader = leader
        self.leader_recovery_state = leader_recovery_state
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.directories = directories
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr


class ConfigRecord(KafkaRecord):
    __slots__ = {
        "resource_type": "int8 0+",
        "resource_name": "string 0+",
        "name": "string 0+",
        "value": "string 0+ null 0+",
    }
    TYPE = 4
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        name: str = "",
        value: str | None = "",
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.name = name
        self.value = value


class PartitionChangeRecord(KafkaRecord):
    __slots__ = {
        "partition_id": "int32 0+",
        "topic_id": "uuid 0+",
        "isr": "[]int32 0+ null 0+ tag 0",
        "leader": "int32 0+ tag 1",
        "replicas": "[]int32 0+ null 0+ tag 2",
        "removing_replicas": "[]int32 0+ null 0+ tag 3",
        "adding_replicas": "[]int32 0+ null 0+ tag 4",
        "leader_recovery_state": "int8 0+ tag 5",
        "directories": "[]uuid 1+ null 1+ tag 8",
        "eligible_leader_replicas": "[]int32 2+ null 2+ tag 6",
        "last_known_elr": "[]int32 2+ null 2+ tag 7",
    }
    TYPE = 5
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    def __init__(
        self,
        *,
        partition_id: int = -1,
        topic_id: str = "",
        isr: Sequence[int] | None = None,
        leader: int = -2,
        replicas: Sequence[int] | None = None,
        removing_replicas: Sequence[int] | None = None,
        adding_replicas: Sequence[int] | None = None,
        leader_recovery_state: int = -1,
        directories: Sequence[str] | None = None,
        eligible_leader_replicas: Sequence[int] | None = None,
        last_known_elr: Sequence[int] | None = None,
    ) -> None:
        self.partition_id = partition_id
        self.topic_id = topic_id
        self.isr = isr
        self.leader = leader
        self.replicas = replicas
        self.removing_replicas = removing_replicas
        self.adding_replicas = adding_replicas
        self.leader_recovery_state = leader_recovery_state
        self.directories = directories
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr


class RemoveTopicRecord(KafkaRecord):
    __slots__ = {
        "topic_id": "uuid 0+",
    }
    TYPE = 9
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    def __init__(
        self,
        *,
        topic_id: str = "",
    ) -> None:
        self.topic_id = topic_id

_CLASSES: tuple[type[KafkaRecord], ...] = (
    OffsetCommitKey,
    OffsetCommitValue,
    TopicRecord,
    PartitionRecord,
    ConfigRecord,
    PartitionChangeRecord,
    RemoveTopicRecord,
)
for _class in _CLASSES:
    _class.SCHEMA = Schema(_class)

#: record type -> its class, of the log of metadata.
METADATA: dict[int, type[KafkaRecord]] = {
    2: TopicRecord,
    3: PartitionRecord,
    4: ConfigRecord,
    5: PartitionChangeRecord,
    9: RemoveTopicRecord,
}
