"""Kafka 4.3.1's messages as classes, one for each request and response, with what they nest inside them.

Written by codegen/generate.py from codegen/messages.txt; change those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from logstore.protocol._schema import Schema
from logstore.protocol.message import Message, Struct

if TYPE_CHECKING:
    from typing_extensions import Buffer



class ProduceRequest(Message):
    __slots__ = {
        "transactional_id": "string 3+ null 3+",
        "acks": "int16 3+",
        "timeout_ms": "int32 3+",
        "topic_data": "[]TopicProduceData 3+",
    }
    API_KEY = 0
    IS_REQUEST = True
    MIN_VERSION = 3
    MAX_VERSION = 13
    FLEXIBLE_SINCE: ClassVar[int | None] = 9

    class PartitionProduceData(Struct):
        __slots__ = {
            "index": "int32 3+",
            "records": "records 3+ null 3+",
        }

        def __init__(
            self,
            *,
            index: int = 0,
            records: Buffer | None = None,
        ) -> None:
            self.index = index
            self.records = records

    class TopicProduceData(Struct):
        __slots__ = {
            "name": "string 3-12 ignorable",
            "topic_id": "uuid 13+ ignorable",
            "partition_data": "[]PartitionProduceData 3+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            topic_id: str = "",
            partition_data: Sequence[ProduceRequest.PartitionProduceData] = (),
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.partition_data = partition_data

    def __init__(
        self,
        *,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: Sequence[ProduceRequest.TopicProduceData] = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = topic_data


class ProduceResponse(Message):
    __slots__ = {
        "responses": "[]TopicProduceResponse 3+",
        "throttle_time_ms": "int32 3+ ignorable",
        "node_endpoints": "[]NodeEndpoint 10+ tag 0",
    }
    API_KEY = 0
    IS_REQUEST = False
    MIN_VERSION = 3
    MAX_VERSION = 13
    FLEXIBLE_SINCE: ClassVar[int | None] = 9

    class BatchIndexAndErrorMessage(Struct):
        __slots__ = {
            "batch_index": "int32 8+",
            "batch_index_error_message": "string 8+ null 8+",
        }

        def __init__(
            self,
            *,
            batch_index: int = 0,
            batch_index_error_message: str | None = None,
        ) -> None:
            self.batch_index = batch_index
            self.batch_index_error_message = batch_index_error_message

    class LeaderIdAndEpoch(Struct):
        __slots__ = {
            "leader_id": "int32 10+",
            "leader_epoch": "int32 10+",
        }

        def __init__(
            self,
            *,
            leader_id: int = -1,
            leader_epoch: int = -1,
        ) -> None:
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch

    class PartitionProduceResponse(Struct):
        __slots__ = {
            "index": "int32 3+",
            "error_code": "int16 3+",
            "base_offset": "int64 3+",
            "log_append_time_ms": "int64 3+ ignorable",
            "log_start_offset": "int64 5+ ignorable",
            "record_errors": "[]BatchIndexAndErrorMessage 8+ ignorable",
            "error_message": "string 8+ null 8+ ignorable",
            "current_leader": "LeaderIdAndEpoch 10+ tag 0",
        }

        def __init__(
            self,
            *,
            index: int = 0,
            error_code: int = 0,
            base_offset: int = 0,
            log_append_time_ms: int = -1,
            log_start_offset: int = -1,
            record_errors: Sequence[ProduceResponse.BatchIndexAndErrorMessage] = (),
            error_message: str | None = None,
            current_leader: ProduceResponse.LeaderIdAndEpoch | None = None,
        ) -> None:
            self.index = index
            self.error_code = error_code
            self.base_offset = base_offset
            self.log_append_time_ms = log_append_time_ms
            self.log_start_offset = log_start_offset
            self.record_errors = record_errors
            self.error_message = error_message
            self.current_leader = current_leader or ProduceResponse.LeaderIdAndEpoch()

    class TopicProduceResponse(Struct):
        __slots__ = {
            "name": "string 3-12 ignorable",
            "topic_id": "uuid 13+ ignorable",
            "partition_responses": "[]PartitionProduceResponse 3+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            topic_id: str = "",
            partition_responses: Sequence[ProduceResponse.PartitionProduceResponse] = (),
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.partition_responses = partition_responses

    class NodeEndpoint(Struct):
        __slots__ = {
            "node_id": "int32 10+",
            "host": "string 10+",
            "port": "int32 10+",
            "rack": "string 10+ null 10+",
        }

        def __init__(
            self,
            *,
            node_id: int = 0,
            host: str = "",
            port: int = 0,
            rack: str | None = None,
        ) -> None:
            self.node_id = node_id
            self.host = host
            self.port = port
            self.rack = rack

    def __init__(
        self,
        *,
        responses: Sequence[ProduceResponse.TopicProduceResponse] = (),
        throttle_time_ms: int = 0,
        node_endpoints: Sequence[ProduceResponse.NodeEndpoint] = (),
    ) -> None:
        self.responses = responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints = node_endpoints


class FetchRequest(Message):
    __slots__ = {
        "cluster_id": "string 12+ null 12+ tag 0 ignorable",
        "replica_id": "int32 4-14",
        "replica_state": "ReplicaState 15+ tag 1",
        "max_wait_ms": "int32 4+",
        "min_bytes": "int32 4+",
        "max_bytes": "int32 4+ ignorable",
        "isolation_level": "int8 4+ ignorable",
        "session_id": "int32 7+ ignorable",
        "session_epoch": "int32 7+ ignorable",
        "topics": "[]FetchTopic 4+",
        "forgotten_topics_data": "[]ForgottenTopic 7+",
        "rack_id": "string 11+ ignorable",
    }
    API_KEY = 1
    IS_REQUEST = True
    MIN_VERSION = 4
    MAX_VERSION = 18
    FLEXIBLE_SINCE: ClassVar[int | None] = 12

    class ReplicaState(Struct):
        __slots__ = {
            "replica_id": "int32 15+",
            "replica_epoch": "int64 15+",
        }

        def __init__(
            self,
            *,
            replica_id: int = -1,
            replica_epoch: int = -1,
        ) -> None:
            self.replica_id = replica_id
            self.replica_epoch = replica_epoch

    class FetchPartition(Struct):
        __slots__ = {
            "partition": "int32 4+",
            "current_leader_epoch": "int32 9+ ignorable",
            "fetch_offset": "int64 4+",
            "last_fetched_epoch": "int32 12+",
            "log_start_offset": "int64 5+ ignorable",
            "partition_max_bytes": "int32 4+",
            "replica_directory_id": "uuid 17+ tag 0 ignorable",
            "high_watermark": "int64 18+ tag 1 ignorable",
        }

        def __init__(
            self,
            *,
            partition: int = 0,
            current_leader_epoch: int = -1,
            fetch_offset: int = 0,
            last_fetched_epoch: int = -1,
            log_start_offset: int = -1,
            partition_max_bytes: int = 0,
            replica_directory_id: str = "",
            high_watermark: int = 9223372036854775807,
        ) -> None:
            self.partition = partition
            self.current_leader_epoch = current_leader_epoch
            self.fetch_offset = fetch_offset
            self.last_fetched_epoch = last_fetched_epoch
            self.log_start_offset = log_start_offset
            self.partition_max_bytes = partition_max_bytes
            self.replica_directory_id = replica_directory_id
            self.high_watermark = high_watermark

    class FetchTopic(Struct):
        __slots__ = {
            "topic": "string 4-12 ignorable",
            "topic_id": "uuid 13+ ignorable",
            "partitions": "[]FetchPartition 4+",
        }

        def __init__(
            self,
            *,
            topic: str = "",
            topic_id: str = "",
            partitions: Sequence[FetchRequest.FetchPartition] = (),
        ) -> None:
            self.topic = topic
            self.topic_id = topic_id
            self.partitions = partitions

    class ForgottenTopic(Struct):
        __slots__ = {
            "topic": "string 7-12 ignorable",
            "topic_id": "uuid 13+ ignorable",
            "partitions": "[]int32 7+",
        }

        def __init__(
            self,
            *,
            topic: str = "",
            topic_id: str = "",
            partitions: Sequence[int] = (),
        ) -> None:
            self.topic = topic
            self.topic_id = topic_id
            self.partitions = partitions

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        replica_id: int = -1,
        replica_state: FetchRequest.ReplicaState | None = None,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: Sequence[FetchRequest.FetchTopic] = (),
        forgotten_topics_data: Sequence[FetchRequest.ForgottenTopic] = (),
        rack_id: str = "",
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.replica_state = replica_state or FetchRequest.ReplicaState()
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = topics
        self.forgotten_topics_data = forgotten_topics_data
        self.rack_id = rack_id


class FetchResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 4+ ignorable",
        "error_code": "int16 7+ ignorable",
        "session_id": "int32 7+",
        "responses": "[]FetchableTopicResponse 4+",
        "node_endpoints": "[]NodeEndpoint 16+ tag 0",
    }
    API_KEY = 1
    IS_REQUEST = False
    MIN_VERSION = 4
    MAX_VERSION = 18
    FLEXIBLE_SINCE: ClassVar[int | None] = 12

    class EpochEndOffset(Struct):
        __slots__ = {
            "epoch": "int32 12+",
            "end_offset": "int64 12+",
        }

        def __init__(
            self,
            *,
            epoch: int = -1,
            end_offset: int = -1,
        ) -> None:
            self.epoch = epoch
            self.end_offset = end_offset

    class LeaderIdAndEpoch(Struct):
        __slots__ = {
            "leader_id": "int32 12+",
            "leader_epoch": "int32 12+",
        }

        def __init__(
            self,
            *,
            leader_id: int = -1,
            leader_epoch: int = -1,
        ) -> None:
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch

    class SnapshotId(Struct):
        __slots__ = {
            "end_offset": "int64 4+",
            "epoch": "int32 4+",
        }

        def __init__(
            self,
            *,
            end_offset: int = -1,
            epoch: int = -1,
        ) -> None:
            self.end_offset = end_offset
            self.epoch = epoch

    class AbortedTransaction(Struct):
        __slots__ = {
            "producer_id": "int64 4+",
            "first_offset": "int64 4+",
        }

        def __init__(
            self,
            *,
            producer_id: int = 0,
            first_offset: int = 0,
        ) -> None:
            self.producer_id = producer_id
            self.first_offset = first_offset

    class PartitionData(Struct):
        __slots__ = {
            "partition_index": "int32 4+",
            "error_code": "int16 4+",
            "high_watermark": "int64 4+",
            "last_stable_offset": "int64 4+ ignorable",
            "log_start_offset": "int64 5+ ignorable",
            "diverging_epoch": "EpochEndOffset 12+ tag 0",
            "current_leader": "LeaderIdAndEpoch 12+ tag 1",
            "snapshot_id": "SnapshotId 12+ tag 2",
            "aborted_transactions": "[]AbortedTransaction 4+ null 4+ ignorable",
            "preferred_read_replica": "int32 11+",
            "records": "records 4+ null 4+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
            high_watermark: int = 0,
            last_stable_offset: int = -1,
            log_start_offset: int = -1,
            diverging_epoch: FetchResponse.EpochEndOffset | None = None,
            current_leader: FetchResponse.LeaderIdAndEpoch | None = None,
            snapshot_id: FetchResponse.SnapshotId | None = None,
            aborted_transactions: Sequence[FetchResponse.AbortedTransaction] | None = (),
            preferred_read_replica: int = -1,
            records: Buffer | None = None,
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.high_watermark = high_watermark
            self.last_stable_offset = last_stable_offset
            self.log_start_offset = log_start_offset
            self.diverging_epoch = diverging_epoch or FetchResponse.EpochEndOffset()
            self.current_leader = current_leader or FetchResponse.LeaderIdAndEpoch()
            self.snapshot_id = snapshot_id or FetchResponse.SnapshotId()
            self.aborted_transactions = aborted_transactions
            self.preferred_read_replica = preferred_read_replica
            self.records = records

    class FetchableTopicResponse(Struct):
        __slots__ = {
            "topic": "string 4-12 ignorable",
            "topic_id": "uuid 13+ ignorable",
            "partitions": "[]PartitionData 4+",
        }

        def __init__(
            self,
            *,
            topic: str = "",
            topic_id: str = "",
            partitions: Sequence[FetchResponse.PartitionData] = (),
        ) -> None:
            self.topic = topic
            self.topic_id = topic_id
            self.partitions = partitions

    class NodeEndpoint(Struct):
        __slots__ = {
            "node_id": "int32 16+",
            "host": "string 16+",
            "port": "int32 16+",
            "rack": "string 16+ null 16+",
        }

        def __init__(
            self,
            *,
            node_id: int = 0,
            host: str = "",
            port: int = 0,
            rack: str | None = None,
        ) -> None:
            self.node_id = node_id
            self.host = host
            self.port = port
            self.rack = rack

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: Sequence[FetchResponse.FetchableTopicResponse] = (),
        node_endpoints: Sequence[FetchResponse.NodeEndpoint] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses = responses
        self.node_endpoints = node_endpoints


class ListOffsetsRequest(Message):
    __slots__ = {
        "replica_id": "int32 1+",
        "isolation_level": "int8 2+",
        "topics": "[]ListOffsetsTopic 1+",
        "timeout_ms": "int32 10+ ignorable",
    }
    API_KEY = 2
    IS_REQUEST = True
    MIN_VERSION = 1
    MAX_VERSION = 11
    FLEXIBLE_SINCE: ClassVar[int | None] = 6

    class ListOffsetsPartition(Struct):
        __slots__ = {
            "partition_index": "int32 1+",
            "current_leader_epoch": "int32 4+ ignorable",
            "timestamp": "int64 1+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            current_leader_epoch: int = -1,
            timestamp: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.current_leader_epoch = current_leader_epoch
            self.timestamp = timestamp

    class ListOffsetsTopic(Struct):
        __slots__ = {
            "name": "string 1+",
            "partitions": "[]ListOffsetsPartition 1+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            partitions: Sequence[ListOffsetsRequest.ListOffsetsPartition] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    def __init__(
        self,
        *,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: Sequence[ListOffsetsRequest.ListOffsetsTopic] = (),
        timeout_ms: int = 0,
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = topics
        self.timeout_ms = timeout_ms


class ListOffsetsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 2+ ignorable",
        "topics": "[]ListOffsetsTopicResponse 1+",
    }
    API_KEY = 2
    IS_REQUEST = False
    MIN_VERSION = 1
    MAX_VERSION = 11
    FLEXIBLE_SINCE: ClassVar[int | None] = 6

    class ListOffsetsPartitionResponse(Struct):
        __slots__ = {
            "partition_index": "int32 1+",
            "error_code": "int16 1+",
            "timestamp": "int64 1+",
            "offset": "int64 1+",
            "leader_epoch": "int32 4+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
            timestamp: int = -1,
            offset: int = -1,
            leader_epoch: int = -1,
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.timestamp = timestamp
            self.offset = offset
            self.leader_epoch = leader_epoch

    class ListOffsetsTopicResponse(Struct):
        __slots__ = {
            "name": "string 1+",
            "partitions": "[]ListOffsetsPartitionResponse 1+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            partitions: Sequence[ListOffsetsResponse.ListOffsetsPartitionResponse] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: Sequence[ListOffsetsResponse.ListOffsetsTopicResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


class MetadataRequest(Message):
    __slots__ = {
        "topics": "[]MetadataRequestTopic 0+ null 1+",
        "allow_auto_topic_creation": "bool 4+",
        "include_cluster_authorized_operations": "bool 8-10",
        "include_topic_authorized_operations": "bool 8+",
    }
    API_KEY = 3
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 13
    FLEXIBLE_SINCE: ClassVar[int | None] = 9

    class MetadataRequestTopic(Struct):
        __slots__ = {
            "topic_id": "uuid 10+ ignorable",
            "name": "string 0+ null 10+",
        }

        def __init__(
            self,
            *,
            topic_id: str = "",
            name: str | None = "",
        ) -> None:
            self.topic_id = topic_id
            self.name = name

    def __init__(
        self,
        *,
        topics: Sequence[MetadataRequest.MetadataRequestTopic] | None = (),
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
    ) -> None:
        self.topics = topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations


class MetadataResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 3+ ignorable",
        "brokers": "[]MetadataResponseBroker 0+",
        "cluster_id": "string 2+ null 2+ ignorable",
        "controller_id": "int32 1+ ignorable",
        "topics": "[]MetadataResponseTopic 0+",
        "cluster_authorized_operations": "int32 8-10",
        "error_code": "int16 13+ ignorable",
    }
    API_KEY = 3
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 13
    FLEXIBLE_SINCE: ClassVar[int | None] = 9

    class MetadataResponseBroker(Struct):
        __slots__ = {
            "node_id": "int32 0+",
            "host": "string 0+",
            "port": "int32 0+",
            "rack": "string 1+ null 1+ ignorable",
        }

        def __init__(
            self,
            *,
            node_id: int = 0,
            host: str = "",
            port: int = 0,
            rack: str | None = None,
        ) -> None:
            self.node_id = node_id
            self.host = host
            self.port = port
            self.rack = rack

    class MetadataResponsePartition(Struct):
        __slots__ = {
            "error_code": "int16 0+",
            "partition_index": "int32 0+",
            "leader_id": "int32 0+",
            "leader_epoch": "int32 7+ ignorable",
            "replica_nodes": "[]int32 0+",
            "isr_nodes": "[]int32 0+",
            "offline_replicas": "[]int32 5+ ignorable",
        }

        def __init__(
            self,
            *,
            error_code: int = 0,
            partition_index: int = 0,
            leader_id: int = 0,
            leader_epoch: int = -1,
            replica_nodes: Sequence[int] = (),
            isr_nodes: Sequence[int] = (),
            offline_replicas: Sequence[int] = (),
        ) -> None:
            self.error_code = error_code
            self.partition_index = partition_index
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch
            self.replica_nodes = replica_nodes
            self.isr_nodes = isr_nodes
            self.offline_replicas = offline_replicas

    class MetadataResponseTopic(Struct):
        __slots__ = {
            "error_code": "int16 0+",
            "name": "string 0+ null 12+",
            "topic_id": "uuid 10+ ignorable",
            "is_internal": "bool 1+ ignorable",
            "partitions": "[]MetadataResponsePartition 0+",
            "topic_authorized_operations": "int32 8+",
        }

        def __init__(
            self,
            *,
            error_code: int = 0,
            name: str | None = "",
            topic_id: str = "",
            is_internal: bool = False,
            partitions: Sequence[MetadataResponse.MetadataResponsePartition] = (),
            topic_authorized_operations: int = -2147483648,
        ) -> None:
            self.error_code = error_code
            self.name = name
            self.topic_id = topic_id
            self.is_internal = is_internal
            self.partitions = partitions
            self.topic_authorized_operations = topic_authorized_operations

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        brokers: Sequence[MetadataResponse.MetadataResponseBroker] = (),
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: Sequence[MetadataResponse.MetadataResponseTopic] = (),
        cluster_authorized_operations: int = -2147483648,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers = brokers
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics = topics
        self.cluster_authorized_operations = cluster_authorized_operations
        self.error_code = error_code


class OffsetCommitRequest(Message):
    __slots__ = {
        "group_id": "string 2+",
        "generation_id_or_member_epoch": "int32 2+ ignorable",
        "member_id": "string 2+ ignorable",
        "group_instance_id": "string 7+ null 7+",
        "retention_time_ms": "int64 2-4 ignorable",
        "topics": "[]OffsetCommitRequestTopic 2+",
    }
    API_KEY = 8
    IS_REQUEST = True
    MIN_VERSION = 2
    MAX_VERSION = 10
    FLEXIBLE_SINCE: ClassVar[int | None] = 8

    class OffsetCommitRequestPartition(Struct):
        __slots__ = {
            "partition_index": "int32 2+",
            "committed_offset": "int64 2+",
            "committed_leader_epoch": "int32 6+ ignorable",
            "committed_metadata": "string 2+ null 2+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            committed_offset: int = 0,
            committed_leader_epoch: int = -1,
            committed_metadata: str | None = "",
        ) -> None:
            self.partition_index = partition_index
            self.committed_offset = committed_offset
            self.committed_leader_epoch = committed_leader_epoch
            self.committed_metadata = committed_metadata

    class OffsetCommitRequestTopic(Struct):
        __slots__ = {
            "name": "string 2-9 ignorable",
            "topic_id": "uuid 10+ ignorable",
            "partitions": "[]OffsetCommitRequestPartition 2+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            topic_id: str = "",
            partitions: Sequence[OffsetCommitRequest.OffsetCommitRequestPartition] = (),
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.partitions = partitions

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        retention_time_ms: int = -1,
        topics: Sequence[OffsetCommitRequest.OffsetCommitRequestTopic] = (),
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.retention_time_ms = retention_time_ms
        self.topics = topics


class OffsetCommitResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 3+ ignorable",
        "topics": "[]OffsetCommitResponseTopic 2+",
    }
    API_KEY = 8
    IS_REQUEST = False
    MIN_VERSION = 2
    MAX_VERSION = 10
    FLEXIBLE_SINCE: ClassVar[int | None] = 8

    class OffsetCommitResponsePartition(Struct):
        __slots__ = {
            "partition_index": "int32 2+",
            "error_code": "int16 2+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code

    class OffsetCommitResponseTopic(Struct):
        __slots__ = {
            "name": "string 2-9 ignorable",
            "topic_id": "uuid 10+ ignorable",
            "partitions": "[]OffsetCommitResponsePartition 2+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            topic_id: str = "",
            partitions: Sequence[OffsetCommitResponse.OffsetCommitResponsePartition] = (),
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.partitions = partitions

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: Sequence[OffsetCommitResponse.OffsetCommitResponseTopic] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


class OffsetFetchRequest(Message):
    __slots__ = {
        "group_id": "string 1-7",
        "topics": "[]OffsetFetchRequestTopic 1-7 null 2+",
        "groups": "[]OffsetFetchRequestGroup 8+",
        "require_stable": "bool 7+",
    }
    API_KEY = 9
    IS_REQUEST = True
    MIN_VERSION = 1
    MAX_VERSION = 10
    FLEXIBLE_SINCE: ClassVar[int | None] = 6

    class OffsetFetchRequestTopic(Struct):
        __slots__ = {
            "name": "string 1-7",
            "partition_indexes": "[]int32 1-7",
        }

        def __init__(
            self,
            *,
            name: str = "",
            partition_indexes: Sequence[int] = (),
        ) -> None:
            self.name = name
            self.partition_indexes = partition_indexes

    class OffsetFetchRequestTopics(Struct):
        __slots__ = {
            "name": "string 8-9 ignorable",
            "topic_id": "uuid 10+ ignorable",
            "partition_indexes": "[]int32 8+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            topic_id: str = "",
            partition_indexes: Sequence[int] = (),
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.partition_indexes = partition_indexes

    class OffsetFetchRequestGroup(Struct):
        __slots__ = {
            "group_id": "string 8+",
            "member_id": "string 9+ null 9+ ignorable",
            "member_epoch": "int32 9+ ignorable",
            "topics": "[]OffsetFetchRequestTopics 8+ null 8+",
        }

        def __init__(
            self,
            *,
            group_id: str = "",
            member_id: str | None = None,
            member_epoch: int = -1,
            topics: Sequence[OffsetFetchRequest.OffsetFetchRequestTopics] | None = (),
        ) -> None:
            self.group_id = group_id
            self.member_id = member_id
            self.member_epoch = member_epoch
            self.topics = topics

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: Sequence[OffsetFetchRequest.OffsetFetchRequestTopic] | None = (),
        groups: Sequence[OffsetFetchRequest.OffsetFetchRequestGroup] = (),
        require_stable: bool = False,
    ) -> None:
        self.group_id = group_id
        self.topics = topics
        self.groups = groups
        self.require_stable = require_stable


class OffsetFetchResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 3+ ignorable",
        "topics": "[]OffsetFetchResponseTopic 1-7",
        "error_code": "int16 2-7 ignorable",
        "groups": "[]OffsetFetchResponseGroup 8+",
    }
    API_KEY = 9
    IS_REQUEST = False
    MIN_VERSION = 1
    MAX_VERSION = 10
    FLEXIBLE_SINCE: ClassVar[int | None] = 6

    class OffsetFetchResponsePartition(Struct):
        __slots__ = {
            "partition_index": "int32 1-7",
            "committed_offset": "int64 1-7",
            "committed_leader_epoch": "int32 5-7 ignorable",
            "metadata": "string 1-7 null 1+",
            "error_code": "int16 1-7",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            committed_offset: int = 0,
            committed_leader_epoch: int = -1,
            metadata: str | None = "",
            error_code: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.committed_offset = committed_offset
            self.committed_leader_epoch = committed_leader_epoch
            self.metadata = metadata
            self.error_code = error_code

    class OffsetFetchResponseTopic(Struct):
        __slots__ = {
            "name": "string 1-7",
            "partitions": "[]OffsetFetchResponsePartition 1-7",
        }

        def __init__(
            self,
            *,
            name: str = "",
            partitions: Sequence[OffsetFetchResponse.OffsetFetchResponsePartition] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    class OffsetFetchResponsePartitions(Struct):
        __slots__ = {
            "partition_index": "int32 8+",
            "committed_offset": "int64 8+",
            "committed_leader_epoch": "int32 8+ ignorable",
            "metadata": "string 8+ null 8+",
            "error_code": "int16 8+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            committed_offset: int = 0,
            committed_leader_epoch: int = -1,
            metadata: str | None = "",
            error_code: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.committed_offset = committed_offset
            self.committed_leader_epoch = committed_leader_epoch
            self.metadata = metadata
            self.error_code = error_code

    class OffsetFetchResponseTopics(Struct):
        __slots__ = {
            "name": "string 8-9 ignorable",
            "topic_id": "uuid 10+ ignorable",
            "partitions": "[]OffsetFetchResponsePartitions 8+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            topic_id: str = "",
            partitions: Sequence[OffsetFetchResponse.OffsetFetchResponsePartitions] = (),
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.partitions = partitions

    class OffsetFetchResponseGroup(Struct):
        __slots__ = {
            "group_id": "string 8+",
            "topics": "[]OffsetFetchResponseTopics 8+",
            "error_code": "int16 8+",
        }

        def __init__(
            self,
            *,
            group_id: str = "",
            topics: Sequence[OffsetFetchResponse.OffsetFetchResponseTopics] = (),
            error_code: int = 0,
        ) -> None:
            self.group_id = group_id
            self.topics = topics
            self.error_code = error_code

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: Sequence[OffsetFetchResponse.OffsetFetchResponseTopic] = (),
        error_code: int = 0,
        groups: Sequence[OffsetFetchResponse.OffsetFetchResponseGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
        self.error_code = error_code
        self.groups = groups


class FindCoordinatorRequest(Message):
    __slots__ = {
        "key": "string 0-3",
        "key_type": "int8 1+",
        "coordinator_keys": "[]string 4+",
    }
    API_KEY = 10
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_SINCE: ClassVar[int | None] = 3

    def __init__(
        self,
        *,
        key: str = "",
        key_type: int = 0,
        coordinator_keys: Sequence[str] = (),
    ) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys = coordinator_keys


class FindCoordinatorResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 1+ ignorable",
        "error_code": "int16 0-3",
        "error_message": "string 1-3 null 1+ ignorable",
        "node_id": "int32 0-3",
        "host": "string 0-3",
        "port": "int32 0-3",
        "coordinators": "[]Coordinator 4+",
    }
    API_KEY = 10
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_SINCE: ClassVar[int | None] = 3

    class Coordinator(Struct):
        __slots__ = {
            "key": "string 4+",
            "node_id": "int32 4+",
            "host": "string 4+",
            "port": "int32 4+",
            "error_code": "int16 4+",
            "error_message": "string 4+ null 4+ ignorable",
        }

        def __init__(
            self,
            *,
            key: str = "",
            node_id: int = 0,
            host: str = "",
            port: int = 0,
            error_code: int = 0,
            error_message: str | None = "",
        ) -> None:
            self.key = key
            self.node_id = node_id
            self.host = host
            self.port = port
            self.error_code = error_code
            self.error_message = error_message

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        coordinators: Sequence[FindCoordinatorResponse.Coordinator] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
        self.coordinators = coordinators


class JoinGroupRequest(Message):
    __slots__ = {
        "group_id": "string 0+",
        "session_timeout_ms": "int32 0+",
        "rebalance_timeout_ms": "int32 1+ ignorable",
        "member_id": "string 0+",
        "group_instance_id": "string 5+ null 5+",
        "protocol_type": "string 0+",
        "protocols": "[]JoinGroupRequestProtocol 0+",
        "reason": "string 8+ null 8+ ignorable",
    }
    API_KEY = 11
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 9
    FLEXIBLE_SINCE: ClassVar[int | None] = 6

    class JoinGroupRequestProtocol(Struct):
        __slots__ = {
            "name": "string 0+",
            "metadata": "bytes 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            metadata: bytes = b"",
        ) -> None:
            self.name = name
            self.metadata = metadata

    def __init__(
        self,
        *,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: Sequence[JoinGroupRequest.JoinGroupRequestProtocol] = (),
        reason: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.reason = reason


class JoinGroupResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 2+ ignorable",
        "error_code": "int16 0+",
        "generation_id": "int32 0+",
        "protocol_type": "string 7+ null 7+ ignorable",
        "protocol_name": "string 0+ null 7+",
        "leader": "string 0+",
        "skip_assignment": "bool 9+",
        "member_id": "string 0+",
        "members": "[]JoinGroupResponseMember 0+",
    }
    API_KEY = 11
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 9
    FLEXIBLE_SINCE: ClassVar[int | None] = 6

    class JoinGroupResponseMember(Struct):
        __slots__ = {
            "member_id": "string 0+",
            "group_instance_id": "string 5+ null 5+ ignorable",
            "metadata": "bytes 0+",
        }

        def __init__(
            self,
            *,
            member_id: str = "",
            group_instance_id: str | None = None,
            metadata: bytes = b"",
        ) -> None:
            self.member_id = member_id
            self.group_instance_id = group_instance_id
            self.metadata = metadata

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = "",
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: Sequence[JoinGroupResponse.JoinGroupResponseMember] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members = members


class HeartbeatRequest(Message):
    __slots__ = {
        "group_id": "string 0+",
        "generation_id": "int32 0+",
        "member_id": "string 0+",
        "group_instance_id": "string 3+ null 3+",
    }
    API_KEY = 12
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_SINCE: ClassVar[int | None] = 4

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id


class HeartbeatResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 1+ ignorable",
        "error_code": "int16 0+",
    }
    API_KEY = 12
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_SINCE: ClassVar[int | None] = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code


class LeaveGroupRequest(Message):
    __slots__ = {
        "group_id": "string 0+",
        "member_id": "string 0-2",
        "members": "[]MemberIdentity 3+",
    }
    API_KEY = 13
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_SINCE: ClassVar[int | None] = 4

    class MemberIdentity(Struct):
        __slots__ = {
            "member_id": "string 3+",
            "group_instance_id": "string 3+ null 3+",
            "reason": "string 5+ null 5+ ignorable",
        }

        def __init__(
            self,
            *,
            member_id: str = "",
            group_instance_id: str | None = None,
            reason: str | None = None,
        ) -> None:
            self.member_id = member_id
            self.group_instance_id = group_instance_id
            self.reason = reason

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        members: Sequence[LeaveGroupRequest.MemberIdentity] = (),
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members = members


class LeaveGroupResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 1+ ignorable",
        "error_code": "int16 0+",
        "members": "[]MemberResponse 3+",
    }
    API_KEY = 13
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_SINCE: ClassVar[int | None] = 4

    class MemberResponse(Struct):
        __slots__ = {
            "member_id": "string 3+",
            "group_instance_id": "string 3+ null 3+",
            "error_code": "int16 3+",
        }

        def __init__(
            self,
            *,
            member_id: str = "",
            group_instance_id: str | None = "",
            error_code: int = 0,
        ) -> None:
            self.member_id = member_id
            self.group_instance_id = group_instance_id
            self.error_code = error_code

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        members: Sequence[LeaveGroupResponse.MemberResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members = members


class SyncGroupRequest(Message):
    __slots__ = {
        "group_id": "string 0+",
        "generation_id": "int32 0+",
        "member_id": "string 0+",
        "group_instance_id": "string 3+ null 3+",
        "protocol_type": "string 5+ null 5+ ignorable",
        "protocol_name": "string 5+ null 5+ ignorable",
        "assignments": "[]SyncGroupRequestAssignment 0+",
    }
    API_KEY = 14
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_SINCE: ClassVar[int | None] = 4

    class SyncGroupRequestAssignment(Struct):
        __slots__ = {
            "member_id": "string 0+",
            "assignment": "bytes 0+",
        }

        def __init__(
            self,
            *,
            member_id: str = "",
            assignment: bytes = b"",
        ) -> None:
            self.member_id = member_id
            self.assignment = assignment

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: Sequence[SyncGroupRequest.SyncGroupRequestAssignment] = (),
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = assignments


class SyncGroupResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 1+ ignorable",
        "error_code": "int16 0+",
        "protocol_type": "string 5+ null 5+ ignorable",
        "protocol_name": "string 5+ null 5+ ignorable",
        "assignment": "bytes 0+",
    }
    API_KEY = 14
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_SINCE: ClassVar[int | None] = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignment: bytes = b"",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment


class DescribeGroupsRequest(Message):
    __slots__ = {
        "groups": "[]string 0+",
        "include_authorized_operations": "bool 3+",
    }
    API_KEY = 15
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_SINCE: ClassVar[int | None] = 5

    def __init__(
        self,
        *,
        groups: Sequence[str] = (),
        include_authorized_operations: bool = False,
    ) -> None:
        self.groups = groups
        self.include_authorized_operations = include_authorized_operations


class DescribeGroupsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 1+ ignorable",
        "groups": "[]DescribedGroup 0+",
    }
    API_KEY = 15
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_SINCE: ClassVar[int | None] = 5

    class DescribedGroupMember(Struct):
        __slots__ = {
            "member_id": "string 0+",
            "group_instance_id": "string 4+ null 4+ ignorable",
            "client_id": "string 0+",
            "client_host": "string 0+",
            "member_metadata": "bytes 0+",
            "member_assignment": "bytes 0+",
        }

        def __init__(
            self,
            *,
            member_id: str = "",
            group_instance_id: str | None = None,
            client_id: str = "",
            client_host: str = "",
            member_metadata: bytes = b"",
            member_assignment: bytes = b"",
        ) -> None:
            self.member_id = member_id
            self.group_instance_id = group_instance_id
            self.client_id = client_id
            self.client_host = client_host
            self.member_metadata = member_metadata
            self.member_assignment = member_assignment

    class DescribedGroup(Struct):
        __slots__ = {
            "error_code": "int16 0+",
            "error_message": "string 6+ null 6+",
            "group_id": "string 0+",
            "group_state": "string 0+",
            "protocol_type": "string 0+",
            "protocol_data": "string 0+",
            "members": "[]DescribedGroupMember 0+",
            "authorized_operations": "int32 3+",
        }

        def __init__(
            self,
            *,
            error_code: int = 0,
            error_message: str | None = None,
            group_id: str = "",
            group_state: str = "",
            protocol_type: str = "",
            protocol_data: str = "",
            members: Sequence[DescribeGroupsResponse.DescribedGroupMember] = (),
            authorized_operations: int = -2147483648,
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.group_id = group_id
            self.group_state = group_state
            self.protocol_type = protocol_type
            self.protocol_data = protocol_data
            self.members = members
            self.authorized_operations = authorized_operations

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: Sequence[DescribeGroupsResponse.DescribedGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups


class ListGroupsRequest(Message):
    __slots__ = {
        "states_filter": "[]string 4+",
        "types_filter": "[]string 5+",
    }
    API_KEY = 16
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_SINCE: ClassVar[int | None] = 3

    def __init__(
        self,
        *,
        states_filter: Sequence[str] = (),
        types_filter: Sequence[str] = (),
    ) -> None:
        self.states_filter = states_filter
        self.types_filter = types_filter


class ListGroupsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 1+ ignorable",
        "error_code": "int16 0+",
        "groups": "[]ListedGroup 0+",
    }
    API_KEY = 16
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_SINCE: ClassVar[int | None] = 3

    class ListedGroup(Struct):
        __slots__ = {
            "group_id": "string 0+",
            "protocol_type": "string 0+",
            "group_state": "string 4+ ignorable",
            "group_type": "string 5+ ignorable",
        }

        def __init__(
            self,
            *,
            group_id: str = "",
            protocol_type: str = "",
            group_state: str = "",
            group_type: str = "",
        ) -> None:
            self.group_id = group_id
            self.protocol_type = protocol_type
            self.group_state = group_state
            self.group_type = group_type

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        groups: Sequence[ListGroupsResponse.ListedGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups = groups


class SaslHandshakeRequest(Message):
    __slots__ = {
        "mechanism": "string 0+",
    }
    API_KEY = 17
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_SINCE: ClassVar[int | None] = None

    def __init__(
        self,
        *,
        mechanism: str = "",
    ) -> None:
        self.mechanism = mechanism


class SaslHandshakeResponse(Message):
    __slots__ = {
        "error_code": "int16 0+",
        "mechanisms": "[]string 0+",
    }
    API_KEY = 17
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_SINCE: ClassVar[int | None] = None

    def __init__(
        self,
        *,
        error_code: int = 0,
        mechanisms: Sequence[str] = (),
    ) -> None:
        self.error_code = error_code
        self.mechanisms = mechanisms


class ApiVersionsRequest(Message):
    __slots__ = {
        "client_software_name": "string 3+ ignorable",
        "client_software_version": "string 3+ ignorable",
    }
    API_KEY = 18
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_SINCE: ClassVar[int | None] = 3

    def __init__(
        self,
        *,
        client_software_name: str = "",
        client_software_version: str = "",
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version


class ApiVersionsResponse(Message):
    __slots__ = {
        "error_code": "int16 0+",
        "api_keys": "[]ApiVersion 0+",
        "throttle_time_ms": "int32 1+ ignorable",
        "supported_features": "[]SupportedFeatureKey 3+ tag 0 ignorable",
        "finalized_features_epoch": "int64 3+ tag 1 ignorable",
        "finalized_features": "[]FinalizedFeatureKey 3+ tag 2 ignorable",
        "zk_migration_ready": "bool 3+ tag 3 ignorable",
    }
    API_KEY = 18
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_SINCE: ClassVar[int | None] = 3

    class ApiVersion(Struct):
        __slots__ = {
            "api_key": "int16 0+",
            "min_version": "int16 0+",
            "max_version": "int16 0+",
        }

        def __init__(
            self,
            *,
            api_key: int = 0,
            min_version: int = 0,
            max_version: int = 0,
        ) -> None:
            self.api_key = api_key
            self.min_version = min_version
            self.max_version = max_version

    class SupportedFeatureKey(Struct):
        __slots__ = {
            "name": "string 3+",
            "min_version": "int16 3+",
            "max_version": "int16 3+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            min_version: int = 0,
            max_version: int = 0,
        ) -> None:
            self.name = name
            self.min_version = min_version
            self.max_version = max_version

    class FinalizedFeatureKey(Struct):
        __slots__ = {
            "name": "string 3+",
            "max_version_level": "int16 3+",
            "min_version_level": "int16 3+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            max_version_level: int = 0,
            min_version_level: int = 0,
        ) -> None:
            self.name = name
            self.max_version_level = max_version_level
            self.min_version_level = min_version_level

    def __init__(
        self,
        *,
        error_code: int = 0,
        api_keys: Sequence[ApiVersionsResponse.ApiVersion] = (),
        throttle_time_ms: int = 0,
        supported_features: Sequence[ApiVersionsResponse.SupportedFeatureKey] = (),
        finalized_features_epoch: int = -1,
        finalized_features: Sequence[ApiVersionsResponse.FinalizedFeatureKey] = (),
        zk_migration_ready: bool = False,
    ) -> None:
        self.error_code = error_code
        self.api_keys = api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features = supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features = finalized_features
        self.zk_migration_ready = zk_migration_ready


class CreateTopicsRequest(Message):
    __slots__ = {
        "topics": "[]CreatableTopic 2+",
        "timeout_ms": "int32 2+",
        "validate_only": "bool 2+",
    }
    API_KEY = 19
    IS_REQUEST = True
    MIN_VERSION = 2
    MAX_VERSION = 7
    FLEXIBLE_SINCE: ClassVar[int | None] = 5

    class CreatableReplicaAssignment(Struct):
        __slots__ = {
            "partition_index": "int32 2+",
            "broker_ids": "[]int32 2+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            broker_ids: Sequence[int] = (),
        ) -> None:
            self.partition_index = partition_index
            self.broker_ids = broker_ids

    class CreatableTopicConfig(Struct):
        __slots__ = {
            "name": "string 2+",
            "value": "string 2+ null 2+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            value: str | None = "",
        ) -> None:
            self.name = name
            self.value = value

    class CreatableTopic(Struct):
        __slots__ = {
            "name": "string 2+",
            "num_partitions": "int32 2+",
            "replication_factor": "int16 2+",
            "assignments": "[]CreatableReplicaAssignment 2+",
            "configs": "[]CreatableTopicConfig 2+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            num_partitions: int = 0,
            replication_factor: int = 0,
            assignments: Sequence[CreateTopicsRequest.CreatableReplicaAssignment] = (),
            configs: Sequence[CreateTopicsRequest.CreatableTopicConfig] = (),
        ) -> None:
            self.name = name
            self.num_partitions = num_partitions
            self.replication_factor = replication_factor
            self.assignments = assignments
            self.configs = configs

    def __init__(
        self,
        *,
        topics: Sequence[CreateTopicsRequest.CreatableTopic] = (),
        timeout_ms: int = 60000,
        validate_only: bool = False,
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreateTopicsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 2+ ignorable",
        "topics": "[]CreatableTopicResult 2+",
    }
    API_KEY = 19
    IS_REQUEST = False
    MIN_VERSION = 2
    MAX_VERSION = 7
    FLEXIBLE_SINCE: ClassVar[int | None] = 5

    class CreatableTopicConfigs(Struct):
        __slots__ = {
            "name": "string 5+",
            "value": "string 5+ null 5+",
            "read_only": "bool 5+",
            "config_source": "int8 5+ ignorable",
            "is_sensitive": "bool 5+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            value: str | None = "",
            read_only: bool = False,
            config_source: int = -1,
            is_sensitive: bool = False,
        ) -> None:
            self.name = name
            self.value = value
            self.read_only = read_only
            self.config_source = config_source
            self.is_sensitive = is_sensitive

    class CreatableTopicResult(Struct):
        __slots__ = {
            "name": "string 2+",
            "topic_id": "uuid 7+ ignorable",
            "error_code": "int16 2+",
            "error_message": "string 2+ null 2+ ignorable",
            "topic_config_error_code": "int16 5+ tag 0 ignorable",
            "num_partitions": "int32 5+ ignorable",
            "replication_factor": "int16 5+ ignorable",
            "configs": "[]CreatableTopicConfigs 5+ null 5+ ignorable",
        }

        def __init__(
            self,
            *,
            name: str = "",
            topic_id: str = "",
            error_code: int = 0,
            error_message: str | None = "",
            topic_config_error_code: int = 0,
            num_partitions: int = -1,
            replication_factor: int = -1,
            configs: Sequence[CreateTopicsResponse.CreatableTopicConfigs] | None = (),
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.error_code = error_code
            self.error_message = error_message
            self.topic_config_error_code = topic_config_error_code
            self.num_partitions = num_partitions
            self.replication_factor = replication_factor
            self.configs = configs

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: Sequence[CreateTopicsResponse.CreatableTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


class DeleteTopicsRequest(Message):
    __slots__ = {
        "topics": "[]DeleteTopicState 6+",
        "topic_names": "[]string 1-5 ignorable",
        "timeout_ms": "int32 1+",
    }
    API_KEY = 20
    IS_REQUEST = True
    MIN_VERSION = 1
    MAX_VERSION = 6
    FLEXIBLE_SINCE: ClassVar[int | None] = 4

    class DeleteTopicState(Struct):
        __slots__ = {
            "name": "string 6+ null 6+",
            "topic_id": "uuid 6+",
        }

        def __init__(
            self,
            *,
            name: str | None = None,
            topic_id: str = "",
        ) -> None:
            self.name = name
            self.topic_id = topic_id

    def __init__(
        self,
        *,
        topics: Sequence[DeleteTopicsRequest.DeleteTopicState] = (),
        topic_names: Sequence[str] = (),
        timeout_ms: int = 0,
    ) -> None:
        self.topics = topics
        self.topic_names = topic_names
        self.timeout_ms = timeout_ms


class DeleteTopicsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 1+ ignorable",
        "responses": "[]DeletableTopicResult 1+",
    }
    API_KEY = 20
    IS_REQUEST = False
    MIN_VERSION = 1
    MAX_VERSION = 6
    FLEXIBLE_SINCE: ClassVar[int | None] = 4

    class DeletableTopicResult(Struct):
        __slots__ = {
            "name": "string 1+ null 6+",
            "topic_id": "uuid 6+ ignorable",
            "error_code": "int16 1+",
            "error_message": "string 5+ null 5+ ignorable",
        }

        def __init__(
            self,
            *,
            name: str | None = "",
            topic_id: str = "",
            error_code: int = 0,
            error_message: str | None = None,
        ) -> None:
            self.name = name
            self.topic_id = topic_id
            self.error_code = error_code
            self.error_message = error_message

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: Sequence[DeleteTopicsResponse.DeletableTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = responses


class DeleteRecordsRequest(Message):
    __slots__ = {
        "topics": "[]DeleteRecordsTopic 0+",
        "timeout_ms": "int32 0+",
    }
    API_KEY = 21
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    class DeleteRecordsPartition(Struct):
        __slots__ = {
            "partition_index": "int32 0+",
            "offset": "int64 0+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            offset: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.offset = offset

    class DeleteRecordsTopic(Struct):
        __slots__ = {
            "name": "string 0+",
            "partitions": "[]DeleteRecordsPartition 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            partitions: Sequence[DeleteRecordsRequest.DeleteRecordsPartition] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    def __init__(
        self,
        *,
        topics: Sequence[DeleteRecordsRequest.DeleteRecordsTopic] = (),
        timeout_ms: int = 0,
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms


class DeleteRecordsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "topics": "[]DeleteRecordsTopicResult 0+",
    }
    API_KEY = 21
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    class DeleteRecordsPartitionResult(Struct):
        __slots__ = {
            "partition_index": "int32 0+",
            "low_watermark": "int64 0+",
            "error_code": "int16 0+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            low_watermark: int = 0,
            error_code: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.low_watermark = low_watermark
            self.error_code = error_code

    class DeleteRecordsTopicResult(Struct):
        __slots__ = {
            "name": "string 0+",
            "partitions": "[]DeleteRecordsPartitionResult 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            partitions: Sequence[DeleteRecordsResponse.DeleteRecordsPartitionResult] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: Sequence[DeleteRecordsResponse.DeleteRecordsTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


class InitProducerIdRequest(Message):
    __slots__ = {
        "transactional_id": "string 0+ null 0+",
        "transaction_timeout_ms": "int32 0+",
        "producer_id": "int64 3+",
        "producer_epoch": "int16 3+",
        "enable2_pc": "bool 6+",
        "keep_prepared_txn": "bool 6+",
    }
    API_KEY = 22
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_SINCE: ClassVar[int | None] = 2
    UNSTABLE_VERSION = 6

    def __init__(
        self,
        *,
        transactional_id: str | None = "",
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        enable2_pc: bool = False,
        keep_prepared_txn: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.enable2_pc = enable2_pc
        self.keep_prepared_txn = keep_prepared_txn


class InitProducerIdResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+ ignorable",
        "error_code": "int16 0+",
        "producer_id": "int64 0+",
        "producer_epoch": "int16 0+",
        "ongoing_txn_producer_id": "int64 6+",
        "ongoing_txn_producer_epoch": "int16 6+",
    }
    API_KEY = 22
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
        ongoing_txn_producer_id: int = -1,
        ongoing_txn_producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.ongoing_txn_producer_id = ongoing_txn_producer_id
        self.ongoing_txn_producer_epoch = ongoing_txn_producer_epoch


class OffsetForLeaderEpochRequest(Message):
    __slots__ = {
        "replica_id": "int32 3+ ignorable",
        "topics": "[]OffsetForLeaderTopic 2+",
    }
    API_KEY = 23
    IS_REQUEST = True
    MIN_VERSION = 2
    MAX_VERSION = 4
    FLEXIBLE_SINCE: ClassVar[int | None] = 4

    class OffsetForLeaderPartition(Struct):
        __slots__ = {
            "partition": "int32 2+",
            "current_leader_epoch": "int32 2+ ignorable",
            "leader_epoch": "int32 2+",
        }

        def __init__(
            self,
            *,
            partition: int = 0,
            current_leader_epoch: int = -1,
            leader_epoch: int = 0,
        ) -> None:
            self.partition = partition
            self.current_leader_epoch = current_leader_epoch
            self.leader_epoch = leader_epoch

    class OffsetForLeaderTopic(Struct):
        __slots__ = {
            "topic": "string 2+",
            "partitions": "[]OffsetForLeaderPartition 2+",
        }

        def __init__(
            self,
            *,
            topic: str = "",
            partitions: Sequence[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = (),
        ) -> None:
            self.topic = topic
            self.partitions = partitions

    def __init__(
        self,
        *,
        replica_id: int = -2,
        topics: Sequence[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = (),
    ) -> None:
        self.replica_id = replica_id
        self.topics = topics


class OffsetForLeaderEpochResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 2+ ignorable",
        "topics": "[]OffsetForLeaderTopicResult 2+",
    }
    API_KEY = 23
    IS_REQUEST = False
    MIN_VERSION = 2
    MAX_VERSION = 4
    FLEXIBLE_SINCE: ClassVar[int | None] = 4

    class EpochEndOffset(Struct):
        __slots__ = {
            "error_code": "int16 2+",
            "partition": "int32 2+",
            "leader_epoch": "int32 2+ ignorable",
            "end_offset": "int64 2+",
        }

        def __init__(
            self,
            *,
            error_code: int = 0,
            partition: int = 0,
            leader_epoch: int = -1,
            end_offset: int = -1,
        ) -> None:
            self.error_code = error_code
            self.partition = partition
            self.leader_epoch = leader_epoch
            self.end_offset = end_offset

    class OffsetForLeaderTopicResult(Struct):
        __slots__ = {
            "topic": "string 2+",
            "partitions": "[]EpochEndOffset 2+",
        }

        def __init__(
            self,
            *,
            topic: str = "",
            partitions: Sequence[OffsetForLeaderEpochResponse.EpochEndOffset] = (),
        ) -> None:
            self.topic = topic
            self.partitions = partitions

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: Sequence[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


class AddPartitionsToTxnRequest(Message):
    __slots__ = {
        "transactions": "[]AddPartitionsToTxnTransaction 4+",
        "v3_and_below_transactional_id": "string 0-3",
        "v3_and_below_producer_id": "int64 0-3",
        "v3_and_below_producer_epoch": "int16 0-3",
        "v3_and_below_topics": "[]AddPartitionsToTxnTopic 0-3",
    }
    API_KEY = 24
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_SINCE: ClassVar[int | None] = 3

    class AddPartitionsToTxnTopic(Struct):
        __slots__ = {
            "name": "string 0+",
            "partitions": "[]int32 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            partitions: Sequence[int] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    class AddPartitionsToTxnTransaction(Struct):
        __slots__ = {
            "transactional_id": "string 4+",
            "producer_id": "int64 4+",
            "producer_epoch": "int16 4+",
            "verify_only": "bool 4+",
            "topics": "[]AddPartitionsToTxnTopic 4+",
        }

        def __init__(
            self,
            *,
            transactional_id: str = "",
            producer_id: int = 0,
            producer_epoch: int = 0,
            verify_only: bool = False,
            topics: Sequence[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = (),
        ) -> None:
            self.transactional_id = transactional_id
            self.producer_id = producer_id
            self.producer_epoch = producer_epoch
            self.verify_only = verify_only
            self.topics = topics

    def __init__(
        self,
        *,
        transactions: Sequence[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = (),
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: Sequence[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = (),
    ) -> None:
        self.transactions = transactions
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics = v3_and_below_topics


class AddPartitionsToTxnResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "error_code": "int16 4+ ignorable",
        "results_by_transaction": "[]AddPartitionsToTxnResult 4+",
        "results_by_topic_v3_and_below": "[]AddPartitionsToTxnTopicResult 0-3",
    }
    API_KEY = 24
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_SINCE: ClassVar[int | None] = 3

    class AddPartitionsToTxnTopicResult(Struct):
        __slots__ = {
            "name": "string 0+",
            "results_by_partition": "[]AddPartitionsToTxnPartitionResult 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            results_by_partition: Sequence[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = (),
        ) -> None:
            self.name = name
            self.results_by_partition = results_by_partition

    class AddPartitionsToTxnPartitionResult(Struct):
        __slots__ = {
            "partition_index": "int32 0+",
            "partition_error_code": "int16 0+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            partition_error_code: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.partition_error_code = partition_error_code

    class AddPartitionsToTxnResult(Struct):
        __slots__ = {
            "transactional_id": "string 4+",
            "topic_results": "[]AddPartitionsToTxnTopicResult 4+",
        }

        def __init__(
            self,
            *,
            transactional_id: str = "",
            topic_results: Sequence[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = (),
        ) -> None:
            self.transactional_id = transactional_id
            self.topic_results = topic_results

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: Sequence[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = (),
        results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction = results_by_transaction
        self.results_by_topic_v3_and_below = results_by_topic_v3_and_below


class AddOffsetsToTxnRequest(Message):
    __slots__ = {
        "transactional_id": "string 0+",
        "producer_id": "int64 0+",
        "producer_epoch": "int16 0+",
        "group_id": "string 0+",
    }
    API_KEY = 25
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_SINCE: ClassVar[int | None] = 3

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        group_id: str = "",
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.group_id = group_id


class AddOffsetsToTxnResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "error_code": "int16 0+",
    }
    API_KEY = 25
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_SINCE: ClassVar[int | None] = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code


class EndTxnRequest(Message):
    __slots__ = {
        "transactional_id": "string 0+",
        "producer_id": "int64 0+",
        "producer_epoch": "int16 0+",
        "committed": "bool 0+",
    }
    API_KEY = 26
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_SINCE: ClassVar[int | None] = 3

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        committed: bool = False,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.committed = committed


class EndTxnResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "error_code": "int16 0+",
        "producer_id": "int64 5+ ignorable",
        "producer_epoch": "int16 5+ ignorable",
    }
    API_KEY = 26
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_SINCE: ClassVar[int | None] = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch


class TxnOffsetCommitRequest(Message):
    __slots__ = {
        "transactional_id": "string 0+",
        "group_id": "string 0+",
        "producer_id": "int64 0+",
        "producer_epoch": "int16 0+",
        "generation_id": "int32 3+",
        "member_id": "string 3+",
        "group_instance_id": "string 3+ null 3+",
        "topics": "[]TxnOffsetCommitRequestTopic 0+",
    }
    API_KEY = 28
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_SINCE: ClassVar[int | None] = 3

    class TxnOffsetCommitRequestPartition(Struct):
        __slots__ = {
            "partition_index": "int32 0+",
            "committed_offset": "int64 0+",
            "committed_leader_epoch": "int32 2+ ignorable",
            "committed_metadata": "string 0+ null 0+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            committed_offset: int = 0,
            committed_leader_epoch: int = -1,
            committed_metadata: str | None = "",
        ) -> None:
            self.partition_index = partition_index
            self.committed_offset = committed_offset
            self.committed_leader_epoch = committed_leader_epoch
            self.committed_metadata = committed_metadata

    class TxnOffsetCommitRequestTopic(Struct):
        __slots__ = {
            "name": "string 0+",
            "partitions": "[]TxnOffsetCommitRequestPartition 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            partitions: Sequence[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    def __init__(
        self,
        *,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: Sequence[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics = topics


class TxnOffsetCommitResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "topics": "[]TxnOffsetCommitResponseTopic 0+",
    }
    API_KEY = 28
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_SINCE: ClassVar[int | None] = 3

    class TxnOffsetCommitResponsePartition(Struct):
        __slots__ = {
            "partition_index": "int32 0+",
            "error_code": "int16 0+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code

    class TxnOffsetCommitResponseTopic(Struct):
        __slots__ = {
            "name": "string 0+",
            "partitions": "[]TxnOffsetCommitResponsePartition 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            partitions: Sequence[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: Sequence[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


class DescribeAclsRequest(Message):
    __slots__ = {
        "resource_type_filter": "int8 1+",
        "resource_name_filter": "string 1+ null 1+",
        "pattern_type_filter": "int8 1+",
        "principal_filter": "string 1+ null 1+",
        "host_filter": "string 1+ null 1+",
        "operation": "int8 1+",
        "permission_type": "int8 1+",
    }
    API_KEY = 29
    IS_REQUEST = True
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    def __init__(
        self,
        *,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = "",
        pattern_type_filter: int = 3,
        principal_filter: str | None = "",
        host_filter: str | None = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type


class DescribeAclsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 1+",
        "error_code": "int16 1+",
        "error_message": "string 1+ null 1+",
        "resources": "[]DescribeAclsResource 1+",
    }
    API_KEY = 29
    IS_REQUEST = False
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    class AclDescription(Struct):
        __slots__ = {
            "principal": "string 1+",
            "host": "string 1+",
            "operation": "int8 1+",
            "permission_type": "int8 1+",
        }

        def __init__(
            self,
            *,
            principal: str = "",
            host: str = "",
            operation: int = 0,
            permission_type: int = 0,
        ) -> None:
            self.principal = principal
            self.host = host
            self.operation = operation
            self.permission_type = permission_type

    class DescribeAclsResource(Struct):
        __slots__ = {
            "resource_type": "int8 1+",
            "resource_name": "string 1+",
            "pattern_type": "int8 1+",
            "acls": "[]AclDescription 1+",
        }

        def __init__(
            self,
            *,
            resource_type: int = 0,
            resource_name: str = "",
            pattern_type: int = 3,
            acls: Sequence[DescribeAclsResponse.AclDescription] = (),
        ) -> None:
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.pattern_type = pattern_type
            self.acls = acls

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        resources: Sequence[DescribeAclsResponse.DescribeAclsResource] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.resources = resources


class CreateAclsRequest(Message):
    __slots__ = {
        "creations": "[]AclCreation 1+",
    }
    API_KEY = 30
    IS_REQUEST = True
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    class AclCreation(Struct):
        __slots__ = {
            "resource_type": "int8 1+",
            "resource_name": "string 1+",
            "resource_pattern_type": "int8 1+",
            "principal": "string 1+",
            "host": "string 1+",
            "operation": "int8 1+",
            "permission_type": "int8 1+",
        }

        def __init__(
            self,
            *,
            resource_type: int = 0,
            resource_name: str = "",
            resource_pattern_type: int = 3,
            principal: str = "",
            host: str = "",
            operation: int = 0,
            permission_type: int = 0,
        ) -> None:
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.resource_pattern_type = resource_pattern_type
            self.principal = principal
            self.host = host
            self.operation = operation
            self.permission_type = permission_type

    def __init__(
        self,
        *,
        creations: Sequence[CreateAclsRequest.AclCreation] = (),
    ) -> None:
        self.creations = creations


class CreateAclsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 1+",
        "results": "[]AclCreationResult 1+",
    }
    API_KEY = 30
    IS_REQUEST = False
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    class AclCreationResult(Struct):
        __slots__ = {
            "error_code": "int16 1+",
            "error_message": "string 1+ null 1+",
        }

        def __init__(
            self,
            *,
            error_code: int = 0,
            error_message: str | None = "",
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: Sequence[CreateAclsResponse.AclCreationResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results


class DeleteAclsRequest(Message):
    __slots__ = {
        "filters": "[]DeleteAclsFilter 1+",
    }
    API_KEY = 31
    IS_REQUEST = True
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    class DeleteAclsFilter(Struct):
        __slots__ = {
            "resource_type_filter": "int8 1+",
            "resource_name_filter": "string 1+ null 1+",
            "pattern_type_filter": "int8 1+",
            "principal_filter": "string 1+ null 1+",
            "host_filter": "string 1+ null 1+",
            "operation": "int8 1+",
            "permission_type": "int8 1+",
        }

        def __init__(
            self,
            *,
            resource_type_filter: int = 0,
            resource_name_filter: str | None = "",
            pattern_type_filter: int = 3,
            principal_filter: str | None = "",
            host_filter: str | None = "",
            operation: int = 0,
            permission_type: int = 0,
        ) -> None:
            self.resource_type_filter = resource_type_filter
            self.resource_name_filter = resource_name_filter
            self.pattern_type_filter = pattern_type_filter
            self.principal_filter = principal_filter
            self.host_filter = host_filter
            self.operation = operation
            self.permission_type = permission_type

    def __init__(
        self,
        *,
        filters: Sequence[DeleteAclsRequest.DeleteAclsFilter] = (),
    ) -> None:
        self.filters = filters


class DeleteAclsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 1+",
        "filter_results": "[]DeleteAclsFilterResult 1+",
    }
    API_KEY = 31
    IS_REQUEST = False
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    class DeleteAclsMatchingAcl(Struct):
        __slots__ = {
            "error_code": "int16 1+",
            "error_message": "string 1+ null 1+",
            "resource_type": "int8 1+",
            "resource_name": "string 1+",
            "pattern_type": "int8 1+",
            "principal": "string 1+",
            "host": "string 1+",
            "operation": "int8 1+",
            "permission_type": "int8 1+",
        }

        def __init__(
            self,
            *,
            error_code: int = 0,
            error_message: str | None = "",
            resource_type: int = 0,
            resource_name: str = "",
            pattern_type: int = 3,
            principal: str = "",
            host: str = "",
            operation: int = 0,
            permission_type: int = 0,
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.pattern_type = pattern_type
            self.principal = principal
            self.host = host
            self.operation = operation
            self.permission_type = permission_type

    class DeleteAclsFilterResult(Struct):
        __slots__ = {
            "error_code": "int16 1+",
            "error_message": "string 1+ null 1+",
            "matching_acls": "[]DeleteAclsMatchingAcl 1+",
        }

        def __init__(
            self,
            *,
            error_code: int = 0,
            error_message: str | None = "",
            matching_acls: Sequence[DeleteAclsResponse.DeleteAclsMatchingAcl] = (),
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.matching_acls = matching_acls

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        filter_results: Sequence[DeleteAclsResponse.DeleteAclsFilterResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.filter_results = filter_results


class DescribeConfigsRequest(Message):
    __slots__ = {
        "resources": "[]DescribeConfigsResource 1+",
        "include_synonyms": "bool 1+",
        "include_documentation": "bool 3+",
    }
    API_KEY = 32
    IS_REQUEST = True
    MIN_VERSION = 1
    MAX_VERSION = 4
    FLEXIBLE_SINCE: ClassVar[int | None] = 4

    class DescribeConfigsResource(Struct):
        __slots__ = {
            "resource_type": "int8 1+",
            "resource_name": "string 1+",
            "configuration_keys": "[]string 1+ null 1+",
        }

        def __init__(
            self,
            *,
            resource_type: int = 0,
            resource_name: str = "",
            configuration_keys: Sequence[str] | None = (),
        ) -> None:
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.configuration_keys = configuration_keys

    def __init__(
        self,
        *,
        resources: Sequence[DescribeConfigsRequest.DescribeConfigsResource] = (),
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> None:
        self.resources = resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation


class DescribeConfigsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 1+",
        "results": "[]DescribeConfigsResult 1+",
    }
    API_KEY = 32
    IS_REQUEST = False
    MIN_VERSION = 1
    MAX_VERSION = 4
    FLEXIBLE_SINCE: ClassVar[int | None] = 4

    class DescribeConfigsSynonym(Struct):
        __slots__ = {
            "name": "string 1+",
            "value": "string 1+ null 1+",
            "source": "int8 1+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            value: str | None = "",
            source: int = 0,
        ) -> None:
            self.name = name
            self.value = value
            self.source = source

    class DescribeConfigsResourceResult(Struct):
        __slots__ = {
            "name": "string 1+",
            "value": "string 1+ null 1+",
            "read_only": "bool 1+",
            "config_source": "int8 1+ ignorable",
            "is_sensitive": "bool 1+",
            "synonyms": "[]DescribeConfigsSynonym 1+ ignorable",
            "config_type": "int8 3+ ignorable",
            "documentation": "string 3+ null 3+ ignorable",
        }

        def __init__(
            self,
            *,
            name: str = "",
            value: str | None = "",
            read_only: bool = False,
            config_source: int = -1,
            is_sensitive: bool = False,
            synonyms: Sequence[DescribeConfigsResponse.DescribeConfigsSynonym] = (),
            config_type: int = 0,
            documentation: str | None = "",
        ) -> None:
            self.name = name
            self.value = value
            self.read_only = read_only
            self.config_source = config_source
            self.is_sensitive = is_sensitive
            self.synonyms = synonyms
            self.config_type = config_type
            self.documentation = documentation

    class DescribeConfigsResult(Struct):
        __slots__ = {
            "error_code": "int16 1+",
            "error_message": "string 1+ null 1+",
            "resource_type": "int8 1+",
            "resource_name": "string 1+",
            "configs": "[]DescribeConfigsResourceResult 1+",
        }

        def __init__(
            self,
            *,
            error_code: int = 0,
            error_message: str | None = "",
            resource_type: int = 0,
            resource_name: str = "",
            configs: Sequence[DescribeConfigsResponse.DescribeConfigsResourceResult] = (),
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.configs = configs

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: Sequence[DescribeConfigsResponse.DescribeConfigsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results


class AlterConfigsRequest(Message):
    __slots__ = {
        "resources": "[]AlterConfigsResource 0+",
        "validate_only": "bool 0+",
    }
    API_KEY = 33
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    class AlterableConfig(Struct):
        __slots__ = {
            "name": "string 0+",
            "value": "string 0+ null 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            value: str | None = "",
        ) -> None:
            self.name = name
            self.value = value

    class AlterConfigsResource(Struct):
        __slots__ = {
            "resource_type": "int8 0+",
            "resource_name": "string 0+",
            "configs": "[]AlterableConfig 0+",
        }

        def __init__(
            self,
            *,
            resource_type: int = 0,
            resource_name: str = "",
            configs: Sequence[AlterConfigsRequest.AlterableConfig] = (),
        ) -> None:
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.configs = configs

    def __init__(
        self,
        *,
        resources: Sequence[AlterConfigsRequest.AlterConfigsResource] = (),
        validate_only: bool = False,
    ) -> None:
        self.resources = resources
        self.validate_only = validate_only


class AlterConfigsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "responses": "[]AlterConfigsResourceResponse 0+",
    }
    API_KEY = 33
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    class AlterConfigsResourceResponse(Struct):
        __slots__ = {
            "error_code": "int16 0+",
            "error_message": "string 0+ null 0+",
            "resource_type": "int8 0+",
            "resource_name": "string 0+",
        }

        def __init__(
            self,
            *,
            error_code: int = 0,
            error_message: str | None = "",
            resource_type: int = 0,
            resource_name: str = "",
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.resource_type = resource_type
            self.resource_name = resource_name

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: Sequence[AlterConfigsResponse.AlterConfigsResourceResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = responses


class AlterReplicaLogDirsRequest(Message):
    __slots__ = {
        "dirs": "[]AlterReplicaLogDir 1+",
    }
    API_KEY = 34
    IS_REQUEST = True
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    class AlterReplicaLogDirTopic(Struct):
        __slots__ = {
            "name": "string 1+",
            "partitions": "[]int32 1+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            partitions: Sequence[int] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    class AlterReplicaLogDir(Struct):
        __slots__ = {
            "path": "string 1+",
            "topics": "[]AlterReplicaLogDirTopic 1+",
        }

        def __init__(
            self,
            *,
            path: str = "",
            topics: Sequence[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = (),
        ) -> None:
            self.path = path
            self.topics = topics

    def __init__(
        self,
        *,
        dirs: Sequence[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = (),
    ) -> None:
        self.dirs = dirs


class AlterReplicaLogDirsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 1+",
        "results": "[]AlterReplicaLogDirTopicResult 1+",
    }
    API_KEY = 34
    IS_REQUEST = False
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    class AlterReplicaLogDirPartitionResult(Struct):
        __slots__ = {
            "partition_index": "int32 1+",
            "error_code": "int16 1+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code

    class AlterReplicaLogDirTopicResult(Struct):
        __slots__ = {
            "topic_name": "string 1+",
            "partitions": "[]AlterReplicaLogDirPartitionResult 1+",
        }

        def __init__(
            self,
            *,
            topic_name: str = "",
            partitions: Sequence[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = (),
        ) -> None:
            self.topic_name = topic_name
            self.partitions = partitions

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: Sequence[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results


class DescribeLogDirsRequest(Message):
    __slots__ = {
        "topics": "[]DescribableLogDirTopic 1+ null 1+",
    }
    API_KEY = 35
    IS_REQUEST = True
    MIN_VERSION = 1
    MAX_VERSION = 5
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    class DescribableLogDirTopic(Struct):
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
        topics: Sequence[DescribeLogDirsRequest.DescribableLogDirTopic] | None = (),
    ) -> None:
        self.topics = topics


class DescribeLogDirsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 1+",
        "error_code": "int16 3+ ignorable",
        "results": "[]DescribeLogDirsResult 1+",
    }
    API_KEY = 35
    IS_REQUEST = False
    MIN_VERSION = 1
    MAX_VERSION = 5
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    class DescribeLogDirsPartition(Struct):
        __slots__ = {
            "partition_index": "int32 1+",
            "partition_size": "int64 1+",
            "offset_lag": "int64 1+",
            "is_future_key": "bool 1+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            partition_size: int = 0,
            offset_lag: int = 0,
            is_future_key: bool = False,
        ) -> None:
            self.partition_index = partition_index
            self.partition_size = partition_size
            self.offset_lag = offset_lag
            self.is_future_key = is_future_key

    class DescribeLogDirsTopic(Struct):
        __slots__ = {
            "name": "string 1+",
            "partitions": "[]DescribeLogDirsPartition 1+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            partitions: Sequence[DescribeLogDirsResponse.DescribeLogDirsPartition] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    class DescribeLogDirsResult(Struct):
        __slots__ = {
            "error_code": "int16 1+",
            "log_dir": "string 1+",
            "topics": "[]DescribeLogDirsTopic 1+",
            "total_bytes": "int64 4+ ignorable",
            "usable_bytes": "int64 4+ ignorable",
            "is_cordoned": "bool 5+ ignorable",
        }

        def __init__(
            self,
            *,
            error_code: int = 0,
            log_dir: str = "",
            topics: Sequence[DescribeLogDirsResponse.DescribeLogDirsTopic] = (),
            total_bytes: int = -1,
            usable_bytes: int = -1,
            is_cordoned: bool = False,
        ) -> None:
            self.error_code = error_code
            self.log_dir = log_dir
            self.topics = topics
            self.total_bytes = total_bytes
            self.usable_bytes = usable_bytes
            self.is_cordoned = is_cordoned

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results: Sequence[DescribeLogDirsResponse.DescribeLogDirsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results = results


class SaslAuthenticateRequest(Message):
    __slots__ = {
        "auth_bytes": "bytes 0+",
    }
    API_KEY = 36
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    def __init__(
        self,
        *,
        auth_bytes: bytes = b"",
    ) -> None:
        self.auth_bytes = auth_bytes


class SaslAuthenticateResponse(Message):
    __slots__ = {
        "error_code": "int16 0+",
        "error_message": "string 0+ null 0+",
        "auth_bytes": "bytes 0+",
        "session_lifetime_ms": "int64 1+ ignorable",
    }
    API_KEY = 36
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        auth_bytes: bytes = b"",
        session_lifetime_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms


class CreatePartitionsRequest(Message):
    __slots__ = {
        "topics": "[]CreatePartitionsTopic 0+",
        "timeout_ms": "int32 0+",
        "validate_only": "bool 0+",
    }
    API_KEY = 37
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    class CreatePartitionsAssignment(Struct):
        __slots__ = {
            "broker_ids": "[]int32 0+",
        }

        def __init__(
            self,
            *,
            broker_ids: Sequence[int] = (),
        ) -> None:
            self.broker_ids = broker_ids

    class CreatePartitionsTopic(Struct):
        __slots__ = {
            "name": "string 0+",
            "count": "int32 0+",
            "assignments": "[]CreatePartitionsAssignment 0+ null 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            count: int = 0,
            assignments: Sequence[CreatePartitionsRequest.CreatePartitionsAssignment] | None = (),
        ) -> None:
            self.name = name
            self.count = count
            self.assignments = assignments

    def __init__(
        self,
        *,
        topics: Sequence[CreatePartitionsRequest.CreatePartitionsTopic] = (),
        timeout_ms: int = 0,
        validate_only: bool = False,
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatePartitionsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "results": "[]CreatePartitionsTopicResult 0+",
    }
    API_KEY = 37
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    class CreatePartitionsTopicResult(Struct):
        __slots__ = {
            "name": "string 0+",
            "error_code": "int16 0+",
            "error_message": "string 0+ null 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            error_code: int = 0,
            error_message: str | None = None,
        ) -> None:
            self.name = name
            self.error_code = error_code
            self.error_message = error_message

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: Sequence[CreatePartitionsResponse.CreatePartitionsTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results


class DeleteGroupsRequest(Message):
    __slots__ = {
        "groups_names": "[]string 0+",
    }
    API_KEY = 42
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    def __init__(
        self,
        *,
        groups_names: Sequence[str] = (),
    ) -> None:
        self.groups_names = groups_names


class DeleteGroupsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "results": "[]DeletableGroupResult 0+",
    }
    API_KEY = 42
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    class DeletableGroupResult(Struct):
        __slots__ = {
            "group_id": "string 0+",
            "error_code": "int16 0+",
        }

        def __init__(
            self,
            *,
            group_id: str = "",
            error_code: int = 0,
        ) -> None:
            self.group_id = group_id
            self.error_code = error_code

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: Sequence[DeleteGroupsResponse.DeletableGroupResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results


class ElectLeadersRequest(Message):
    __slots__ = {
        "election_type": "int8 1+",
        "topic_partitions": "[]TopicPartitions 0+ null 0+",
        "timeout_ms": "int32 0+",
    }
    API_KEY = 43
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    class TopicPartitions(Struct):
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
        election_type: int = 0,
        topic_partitions: Sequence[ElectLeadersRequest.TopicPartitions] | None = (),
        timeout_ms: int = 60000,
    ) -> None:
        self.election_type = election_type
        self.topic_partitions = topic_partitions
        self.timeout_ms = timeout_ms


class ElectLeadersResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "error_code": "int16 1+",
        "replica_election_results": "[]ReplicaElectionResult 0+",
    }
    API_KEY = 43
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 2

    class PartitionResult(Struct):
        __slots__ = {
            "partition_id": "int32 0+",
            "error_code": "int16 0+",
            "error_message": "string 0+ null 0+",
        }

        def __init__(
            self,
            *,
            partition_id: int = 0,
            error_code: int = 0,
            error_message: str | None = "",
        ) -> None:
            self.partition_id = partition_id
            self.error_code = error_code
            self.error_message = error_message

    class ReplicaElectionResult(Struct):
        __slots__ = {
            "topic": "string 0+",
            "partition_result": "[]PartitionResult 0+",
        }

        def __init__(
            self,
            *,
            topic: str = "",
            partition_result: Sequence[ElectLeadersResponse.PartitionResult] = (),
        ) -> None:
            self.topic = topic
            self.partition_result = partition_result

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: Sequence[ElectLeadersResponse.ReplicaElectionResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results = replica_election_results


class IncrementalAlterConfigsRequest(Message):
    __slots__ = {
        "resources": "[]AlterConfigsResource 0+",
        "validate_only": "bool 0+",
    }
    API_KEY = 44
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_SINCE: ClassVar[int | None] = 1

    class AlterableConfig(Struct):
        __slots__ = {
            "name": "string 0+",
            "config_operation": "int8 0+",
            "value": "string 0+ null 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            config_operation: int = 0,
            value: str | None = "",
        ) -> None:
            self.name = name
            self.config_operation = config_operation
            self.value = value

    class AlterConfigsResource(Struct):
        __slots__ = {
            "resource_type": "int8 0+",
            "resource_name": "string 0+",
            "configs": "[]AlterableConfig 0+",
        }

        def __init__(
            self,
            *,
            resource_type: int = 0,
            resource_name: str = "",
            configs: Sequence[IncrementalAlterConfigsRequest.AlterableConfig] = (),
        ) -> None:
            self.resource_type = resource_type
            self.resource_name = resource_name
            self.configs = configs

    def __init__(
        self,
        *,
        resources: Sequence[IncrementalAlterConfigsRequest.AlterConfigsResource] = (),
        validate_only: bool = False,
    ) -> None:
        self.resources = resources
        self.validate_only = validate_only


class IncrementalAlterConfigsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "responses": "[]AlterConfigsResourceResponse 0+",
    }
    API_KEY = 44
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_SINCE: ClassVar[int | None] = 1

    class AlterConfigsResourceResponse(Struct):
        __slots__ = {
            "error_code": "int16 0+",
            "error_message": "string 0+ null 0+",
            "resource_type": "int8 0+",
            "resource_name": "string 0+",
        }

        def __init__(
            self,
            *,
            error_code: int = 0,
            error_message: str | None = "",
            resource_type: int = 0,
            resource_name: str = "",
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.resource_type = resource_type
            self.resource_name = resource_name

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: Sequence[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = responses


class AlterPartitionReassignmentsRequest(Message):
    __slots__ = {
        "timeout_ms": "int32 0+",
        "allow_replication_factor_change": "bool 1+",
        "topics": "[]ReassignableTopic 0+",
    }
    API_KEY = 45
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class ReassignablePartition(Struct):
        __slots__ = {
            "partition_index": "int32 0+",
            "replicas": "[]int32 0+ null 0+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            replicas: Sequence[int] | None = None,
        ) -> None:
            self.partition_index = partition_index
            self.replicas = replicas

    class ReassignableTopic(Struct):
        __slots__ = {
            "name": "string 0+",
            "partitions": "[]ReassignablePartition 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            partitions: Sequence[AlterPartitionReassignmentsRequest.ReassignablePartition] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        allow_replication_factor_change: bool = True,
        topics: Sequence[AlterPartitionReassignmentsRequest.ReassignableTopic] = (),
    ) -> None:
        self.timeout_ms = timeout_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.topics = topics


class AlterPartitionReassignmentsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "allow_replication_factor_change": "bool 1+ ignorable",
        "error_code": "int16 0+",
        "error_message": "string 0+ null 0+",
        "responses": "[]ReassignableTopicResponse 0+",
    }
    API_KEY = 45
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class ReassignablePartitionResponse(Struct):
        __slots__ = {
            "partition_index": "int32 0+",
            "error_code": "int16 0+",
            "error_message": "string 0+ null 0+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
            error_message: str | None = "",
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.error_message = error_message

    class ReassignableTopicResponse(Struct):
        __slots__ = {
            "name": "string 0+",
            "partitions": "[]ReassignablePartitionResponse 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            partitions: Sequence[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        allow_replication_factor_change: bool = True,
        error_code: int = 0,
        error_message: str | None = "",
        responses: Sequence[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.error_code = error_code
        self.error_message = error_message
        self.responses = responses


class ListPartitionReassignmentsRequest(Message):
    __slots__ = {
        "timeout_ms": "int32 0+",
        "topics": "[]ListPartitionReassignmentsTopics 0+ null 0+",
    }
    API_KEY = 46
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class ListPartitionReassignmentsTopics(Struct):
        __slots__ = {
            "name": "string 0+",
            "partition_indexes": "[]int32 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            partition_indexes: Sequence[int] = (),
        ) -> None:
            self.name = name
            self.partition_indexes = partition_indexes

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        topics: Sequence[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics


class ListPartitionReassignmentsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "error_code": "int16 0+",
        "error_message": "string 0+ null 0+",
        "topics": "[]OngoingTopicReassignment 0+",
    }
    API_KEY = 46
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class OngoingPartitionReassignment(Struct):
        __slots__ = {
            "partition_index": "int32 0+",
            "replicas": "[]int32 0+",
            "adding_replicas": "[]int32 0+",
            "removing_replicas": "[]int32 0+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            replicas: Sequence[int] = (),
            adding_replicas: Sequence[int] = (),
            removing_replicas: Sequence[int] = (),
        ) -> None:
            self.partition_index = partition_index
            self.replicas = replicas
            self.adding_replicas = adding_replicas
            self.removing_replicas = removing_replicas

    class OngoingTopicReassignment(Struct):
        __slots__ = {
            "name": "string 0+",
            "partitions": "[]OngoingPartitionReassignment 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            partitions: Sequence[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        topics: Sequence[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics = topics


class OffsetDeleteRequest(Message):
    __slots__ = {
        "group_id": "string 0+",
        "topics": "[]OffsetDeleteRequestTopic 0+",
    }
    API_KEY = 47
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_SINCE: ClassVar[int | None] = None

    class OffsetDeleteRequestPartition(Struct):
        __slots__ = {
            "partition_index": "int32 0+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
        ) -> None:
            self.partition_index = partition_index

    class OffsetDeleteRequestTopic(Struct):
        __slots__ = {
            "name": "string 0+",
            "partitions": "[]OffsetDeleteRequestPartition 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            partitions: Sequence[OffsetDeleteRequest.OffsetDeleteRequestPartition] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: Sequence[OffsetDeleteRequest.OffsetDeleteRequestTopic] = (),
    ) -> None:
        self.group_id = group_id
        self.topics = topics


class OffsetDeleteResponse(Message):
    __slots__ = {
        "error_code": "int16 0+",
        "throttle_time_ms": "int32 0+ ignorable",
        "topics": "[]OffsetDeleteResponseTopic 0+",
    }
    API_KEY = 47
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_SINCE: ClassVar[int | None] = None

    class OffsetDeleteResponsePartition(Struct):
        __slots__ = {
            "partition_index": "int32 0+",
            "error_code": "int16 0+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code

    class OffsetDeleteResponseTopic(Struct):
        __slots__ = {
            "name": "string 0+",
            "partitions": "[]OffsetDeleteResponsePartition 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            partitions: Sequence[OffsetDeleteResponse.OffsetDeleteResponsePartition] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    def __init__(
        self,
        *,
        error_code: int = 0,
        throttle_time_ms: int = 0,
        topics: Sequence[OffsetDeleteResponse.OffsetDeleteResponseTopic] = (),
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


class DescribeClientQuotasRequest(Message):
    __slots__ = {
        "components": "[]ComponentData 0+",
        "strict": "bool 0+",
    }
    API_KEY = 48
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_SINCE: ClassVar[int | None] = 1

    class ComponentData(Struct):
        __slots__ = {
            "entity_type": "string 0+",
            "match_type": "int8 0+",
            "match": "string 0+ null 0+",
        }

        def __init__(
            self,
            *,
            entity_type: str = "",
            match_type: int = 0,
            match: str | None = "",
        ) -> None:
            self.entity_type = entity_type
            self.match_type = match_type
            self.match = match

    def __init__(
        self,
        *,
        components: Sequence[DescribeClientQuotasRequest.ComponentData] = (),
        strict: bool = False,
    ) -> None:
        self.components = components
        self.strict = strict


class DescribeClientQuotasResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "error_code": "int16 0+",
        "error_message": "string 0+ null 0+",
        "entries": "[]EntryData 0+ null 0+",
    }
    API_KEY = 48
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_SINCE: ClassVar[int | None] = 1

    class EntityData(Struct):
        __slots__ = {
            "entity_type": "string 0+",
            "entity_name": "string 0+ null 0+",
        }

        def __init__(
            self,
            *,
            entity_type: str = "",
            entity_name: str | None = "",
        ) -> None:
            self.entity_type = entity_type
            self.entity_name = entity_name

    class ValueData(Struct):
        __slots__ = {
            "key": "string 0+",
            "value": "float64 0+",
        }

        def __init__(
            self,
            *,
            key: str = "",
            value: float = 0.0,
        ) -> None:
            self.key = key
            self.value = value

    class EntryData(Struct):
        __slots__ = {
            "entity": "[]EntityData 0+",
            "values": "[]ValueData 0+",
        }

        def __init__(
            self,
            *,
            entity: Sequence[DescribeClientQuotasResponse.EntityData] = (),
            values: Sequence[DescribeClientQuotasResponse.ValueData] = (),
        ) -> None:
            self.entity = entity
            self.values = values

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        entries: Sequence[DescribeClientQuotasResponse.EntryData] | None = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries = entries


class AlterClientQuotasRequest(Message):
    __slots__ = {
        "entries": "[]EntryData 0+",
        "validate_only": "bool 0+",
    }
    API_KEY = 49
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_SINCE: ClassVar[int | None] = 1

    class EntityData(Struct):
        __slots__ = {
            "entity_type": "string 0+",
            "entity_name": "string 0+ null 0+",
        }

        def __init__(
            self,
            *,
            entity_type: str = "",
            entity_name: str | None = "",
        ) -> None:
            self.entity_type = entity_type
            self.entity_name = entity_name

    class OpData(Struct):
        __slots__ = {
            "key": "string 0+",
            "value": "float64 0+",
            "remove": "bool 0+",
        }

        def __init__(
            self,
            *,
            key: str = "",
            value: float = 0.0,
            remove: bool = False,
        ) -> None:
            self.key = key
            self.value = value
            self.remove = remove

    class EntryData(Struct):
        __slots__ = {
            "entity": "[]EntityData 0+",
            "ops": "[]OpData 0+",
        }

        def __init__(
            self,
            *,
            entity: Sequence[AlterClientQuotasRequest.EntityData] = (),
            ops: Sequence[AlterClientQuotasRequest.OpData] = (),
        ) -> None:
            self.entity = entity
            self.ops = ops

    def __init__(
        self,
        *,
        entries: Sequence[AlterClientQuotasRequest.EntryData] = (),
        validate_only: bool = False,
    ) -> None:
        self.entries = entries
        self.validate_only = validate_only


class AlterClientQuotasResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "entries": "[]EntryData 0+",
    }
    API_KEY = 49
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_SINCE: ClassVar[int | None] = 1

    class EntityData(Struct):
        __slots__ = {
            "entity_type": "string 0+",
            "entity_name": "string 0+ null 0+",
        }

        def __init__(
            self,
            *,
            entity_type: str = "",
            entity_name: str | None = "",
        ) -> None:
            self.entity_type = entity_type
            self.entity_name = entity_name

    class EntryData(Struct):
        __slots__ = {
            "error_code": "int16 0+",
            "error_message": "string 0+ null 0+",
            "entity": "[]EntityData 0+",
        }

        def __init__(
            self,
            *,
            error_code: int = 0,
            error_message: str | None = "",
            entity: Sequence[AlterClientQuotasResponse.EntityData] = (),
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.entity = entity

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        entries: Sequence[AlterClientQuotasResponse.EntryData] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries = entries


class DescribeUserScramCredentialsRequest(Message):
    __slots__ = {
        "users": "[]UserName 0+ null 0+",
    }
    API_KEY = 50
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class UserName(Struct):
        __slots__ = {
            "name": "string 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
        ) -> None:
            self.name = name

    def __init__(
        self,
        *,
        users: Sequence[DescribeUserScramCredentialsRequest.UserName] | None = (),
    ) -> None:
        self.users = users


class DescribeUserScramCredentialsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "error_code": "int16 0+",
        "error_message": "string 0+ null 0+",
        "results": "[]DescribeUserScramCredentialsResult 0+",
    }
    API_KEY = 50
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class CredentialInfo(Struct):
        __slots__ = {
            "mechanism": "int8 0+",
            "iterations": "int32 0+",
        }

        def __init__(
            self,
            *,
            mechanism: int = 0,
            iterations: int = 0,
        ) -> None:
            self.mechanism = mechanism
            self.iterations = iterations

    class DescribeUserScramCredentialsResult(Struct):
        __slots__ = {
            "user": "string 0+",
            "error_code": "int16 0+",
            "error_message": "string 0+ null 0+",
            "credential_infos": "[]CredentialInfo 0+",
        }

        def __init__(
            self,
            *,
            user: str = "",
            error_code: int = 0,
            error_message: str | None = "",
            credential_infos: Sequence[DescribeUserScramCredentialsResponse.CredentialInfo] = (),
        ) -> None:
            self.user = user
            self.error_code = error_code
            self.error_message = error_message
            self.credential_infos = credential_infos

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: Sequence[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = results


class AlterUserScramCredentialsRequest(Message):
    __slots__ = {
        "deletions": "[]ScramCredentialDeletion 0+",
        "upsertions": "[]ScramCredentialUpsertion 0+",
    }
    API_KEY = 51
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class ScramCredentialDeletion(Struct):
        __slots__ = {
            "name": "string 0+",
            "mechanism": "int8 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            mechanism: int = 0,
        ) -> None:
            self.name = name
            self.mechanism = mechanism

    class ScramCredentialUpsertion(Struct):
        __slots__ = {
            "name": "string 0+",
            "mechanism": "int8 0+",
            "iterations": "int32 0+",
            "salt": "bytes 0+",
            "salted_password": "bytes 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            mechanism: int = 0,
            iterations: int = 0,
            salt: bytes = b"",
            salted_password: bytes = b"",
        ) -> None:
            self.name = name
            self.mechanism = mechanism
            self.iterations = iterations
            self.salt = salt
            self.salted_password = salted_password

    def __init__(
        self,
        *,
        deletions: Sequence[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = (),
        upsertions: Sequence[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = (),
    ) -> None:
        self.deletions = deletions
        self.upsertions = upsertions


class AlterUserScramCredentialsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "results": "[]AlterUserScramCredentialsResult 0+",
    }
    API_KEY = 51
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class AlterUserScramCredentialsResult(Struct):
        __slots__ = {
            "user": "string 0+",
            "error_code": "int16 0+",
            "error_message": "string 0+ null 0+",
        }

        def __init__(
            self,
            *,
            user: str = "",
            error_code: int = 0,
            error_message: str | None = "",
        ) -> None:
            self.user = user
            self.error_code = error_code
            self.error_message = error_message

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: Sequence[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = results


class DescribeQuorumRequest(Message):
    __slots__ = {
        "topics": "[]TopicData 0+",
    }
    API_KEY = 55
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class PartitionData(Struct):
        __slots__ = {
            "partition_index": "int32 0+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
        ) -> None:
            self.partition_index = partition_index

    class TopicData(Struct):
        __slots__ = {
            "topic_name": "string 0+",
            "partitions": "[]PartitionData 0+",
        }

        def __init__(
            self,
            *,
            topic_name: str = "",
            partitions: Sequence[DescribeQuorumRequest.PartitionData] = (),
        ) -> None:
            self.topic_name = topic_name
            self.partitions = partitions

    def __init__(
        self,
        *,
        topics: Sequence[DescribeQuorumRequest.TopicData] = (),
    ) -> None:
        self.topics = topics


class DescribeQuorumResponse(Message):
    __slots__ = {
        "error_code": "int16 0+",
        "error_message": "string 2+ null 2+ ignorable",
        "topics": "[]TopicData 0+",
        "nodes": "[]Node 2+",
    }
    API_KEY = 55
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class ReplicaState(Struct):
        __slots__ = {
            "replica_id": "int32 0+",
            "replica_directory_id": "uuid 2+",
            "log_end_offset": "int64 0+",
            "last_fetch_timestamp": "int64 1+ ignorable",
            "last_caught_up_timestamp": "int64 1+ ignorable",
        }

        def __init__(
            self,
            *,
            replica_id: int = 0,
            replica_directory_id: str = "",
            log_end_offset: int = 0,
            last_fetch_timestamp: int = -1,
            last_caught_up_timestamp: int = -1,
        ) -> None:
            self.replica_id = replica_id
            self.replica_directory_id = replica_directory_id
            self.log_end_offset = log_end_offset
            self.last_fetch_timestamp = last_fetch_timestamp
            self.last_caught_up_timestamp = last_caught_up_timestamp

    class PartitionData(Struct):
        __slots__ = {
            "partition_index": "int32 0+",
            "error_code": "int16 0+",
            "error_message": "string 2+ null 2+ ignorable",
            "leader_id": "int32 0+",
            "leader_epoch": "int32 0+",
            "high_watermark": "int64 0+",
            "current_voters": "[]ReplicaState 0+",
            "observers": "[]ReplicaState 0+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
            error_message: str | None = "",
            leader_id: int = 0,
            leader_epoch: int = 0,
            high_watermark: int = 0,
            current_voters: Sequence[DescribeQuorumResponse.ReplicaState] = (),
            observers: Sequence[DescribeQuorumResponse.ReplicaState] = (),
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.error_message = error_message
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch
            self.high_watermark = high_watermark
            self.current_voters = current_voters
            self.observers = observers

    class TopicData(Struct):
        __slots__ = {
            "topic_name": "string 0+",
            "partitions": "[]PartitionData 0+",
        }

        def __init__(
            self,
            *,
            topic_name: str = "",
            partitions: Sequence[DescribeQuorumResponse.PartitionData] = (),
        ) -> None:
            self.topic_name = topic_name
            self.partitions = partitions

    class Listener(Struct):
        __slots__ = {
            "name": "string 2+",
            "host": "string 2+",
            "port": "uint16 2+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            host: str = "",
            port: int = 0,
        ) -> None:
            self.name = name
            self.host = host
            self.port = port

    class Node(Struct):
        __slots__ = {
            "node_id": "int32 2+",
            "listeners": "[]Listener 2+",
        }

        def __init__(
            self,
            *,
            node_id: int = 0,
            listeners: Sequence[DescribeQuorumResponse.Listener] = (),
        ) -> None:
            self.node_id = node_id
            self.listeners = listeners

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        topics: Sequence[DescribeQuorumResponse.TopicData] = (),
        nodes: Sequence[DescribeQuorumResponse.Node] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.topics = topics
        self.nodes = nodes


class UpdateFeaturesRequest(Message):
    __slots__ = {
        "timeout_ms": "int32 0+",
        "feature_updates": "[]FeatureUpdateKey 0+",
        "validate_only": "bool 1+",
    }
    API_KEY = 57
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class FeatureUpdateKey(Struct):
        __slots__ = {
            "feature": "string 0+",
            "max_version_level": "int16 0+",
            "allow_downgrade": "bool 0-0",
            "upgrade_type": "int8 1+",
        }

        def __init__(
            self,
            *,
            feature: str = "",
            max_version_level: int = 0,
            allow_downgrade: bool = False,
            upgrade_type: int = 1,
        ) -> None:
            self.feature = feature
            self.max_version_level = max_version_level
            self.allow_downgrade = allow_downgrade
            self.upgrade_type = upgrade_type

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        feature_updates: Sequence[UpdateFeaturesRequest.FeatureUpdateKey] = (),
        validate_only: bool = False,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.feature_updates = feature_updates
        self.validate_only = validate_only


class UpdateFeaturesResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "error_code": "int16 0+",
        "error_message": "string 0+ null 0+",
        "results": "[]UpdatableFeatureResult 0-1 ignorable",
    }
    API_KEY = 57
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class UpdatableFeatureResult(Struct):
        __slots__ = {
            "feature": "string 0+",
            "error_code": "int16 0+",
            "error_message": "string 0+ null 0+",
        }

        def __init__(
            self,
            *,
            feature: str = "",
            error_code: int = 0,
            error_message: str | None = "",
        ) -> None:
            self.feature = feature
            self.error_code = error_code
            self.error_message = error_message

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: Sequence[UpdateFeaturesResponse.UpdatableFeatureResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = results


class DescribeClusterRequest(Message):
    __slots__ = {
        "include_cluster_authorized_operations": "bool 0+",
        "endpoint_type": "int8 1+",
        "include_fenced_brokers": "bool 2+",
    }
    API_KEY = 60
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    def __init__(
        self,
        *,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,
        include_fenced_brokers: bool = False,
    ) -> None:
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.endpoint_type = endpoint_type
        self.include_fenced_brokers = include_fenced_brokers


class DescribeClusterResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "error_code": "int16 0+",
        "error_message": "string 0+ null 0+",
        "endpoint_type": "int8 1+",
        "cluster_id": "string 0+",
        "controller_id": "int32 0+",
        "brokers": "[]DescribeClusterBroker 0+",
        "cluster_authorized_operations": "int32 0+",
    }
    API_KEY = 60
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class DescribeClusterBroker(Struct):
        __slots__ = {
            "broker_id": "int32 0+",
            "host": "string 0+",
            "port": "int32 0+",
            "rack": "string 0+ null 0+",
            "is_fenced": "bool 2+",
        }

        def __init__(
            self,
            *,
            broker_id: int = 0,
            host: str = "",
            port: int = 0,
            rack: str | None = None,
            is_fenced: bool = False,
        ) -> None:
            self.broker_id = broker_id
            self.host = host
            self.port = port
            self.rack = rack
            self.is_fenced = is_fenced

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        endpoint_type: int = 1,
        cluster_id: str = "",
        controller_id: int = -1,
        brokers: Sequence[DescribeClusterResponse.DescribeClusterBroker] = (),
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.endpoint_type = endpoint_type
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers = brokers
        self.cluster_authorized_operations = cluster_authorized_operations


class DescribeProducersRequest(Message):
    __slots__ = {
        "topics": "[]TopicRequest 0+",
    }
    API_KEY = 61
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class TopicRequest(Struct):
        __slots__ = {
            "name": "string 0+",
            "partition_indexes": "[]int32 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            partition_indexes: Sequence[int] = (),
        ) -> None:
            self.name = name
            self.partition_indexes = partition_indexes

    def __init__(
        self,
        *,
        topics: Sequence[DescribeProducersRequest.TopicRequest] = (),
    ) -> None:
        self.topics = topics


class DescribeProducersResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "topics": "[]TopicResponse 0+",
    }
    API_KEY = 61
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class ProducerState(Struct):
        __slots__ = {
            "producer_id": "int64 0+",
            "producer_epoch": "int32 0+",
            "last_sequence": "int32 0+",
            "last_timestamp": "int64 0+",
            "coordinator_epoch": "int32 0+",
            "current_txn_start_offset": "int64 0+",
        }

        def __init__(
            self,
            *,
            producer_id: int = 0,
            producer_epoch: int = 0,
            last_sequence: int = -1,
            last_timestamp: int = -1,
            coordinator_epoch: int = 0,
            current_txn_start_offset: int = -1,
        ) -> None:
            self.producer_id = producer_id
            self.producer_epoch = producer_epoch
            self.last_sequence = last_sequence
            self.last_timestamp = last_timestamp
            self.coordinator_epoch = coordinator_epoch
            self.current_txn_start_offset = current_txn_start_offset

    class PartitionResponse(Struct):
        __slots__ = {
            "partition_index": "int32 0+",
            "error_code": "int16 0+",
            "error_message": "string 0+ null 0+",
            "active_producers": "[]ProducerState 0+",
        }

        def __init__(
            self,
            *,
            partition_index: int = 0,
            error_code: int = 0,
            error_message: str | None = None,
            active_producers: Sequence[DescribeProducersResponse.ProducerState] = (),
        ) -> None:
            self.partition_index = partition_index
            self.error_code = error_code
            self.error_message = error_message
            self.active_producers = active_producers

    class TopicResponse(Struct):
        __slots__ = {
            "name": "string 0+",
            "partitions": "[]PartitionResponse 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
            partitions: Sequence[DescribeProducersResponse.PartitionResponse] = (),
        ) -> None:
            self.name = name
            self.partitions = partitions

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: Sequence[DescribeProducersResponse.TopicResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


class DescribeTransactionsRequest(Message):
    __slots__ = {
        "transactional_ids": "[]string 0+",
    }
    API_KEY = 65
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    def __init__(
        self,
        *,
        transactional_ids: Sequence[str] = (),
    ) -> None:
        self.transactional_ids = transactional_ids


class DescribeTransactionsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "transaction_states": "[]TransactionState 0+",
    }
    API_KEY = 65
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class TopicData(Struct):
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

    class TransactionState(Struct):
        __slots__ = {
            "error_code": "int16 0+",
            "transactional_id": "string 0+",
            "transaction_state": "string 0+",
            "transaction_timeout_ms": "int32 0+",
            "transaction_start_time_ms": "int64 0+",
            "producer_id": "int64 0+",
            "producer_epoch": "int16 0+",
            "topics": "[]TopicData 0+",
        }

        def __init__(
            self,
            *,
            error_code: int = 0,
            transactional_id: str = "",
            transaction_state: str = "",
            transaction_timeout_ms: int = 0,
            transaction_start_time_ms: int = 0,
            producer_id: int = 0,
            producer_epoch: int = 0,
            topics: Sequence[DescribeTransactionsResponse.TopicData] = (),
        ) -> None:
            self.error_code = error_code
            self.transactional_id = transactional_id
            self.transaction_state = transaction_state
            self.transaction_timeout_ms = transaction_timeout_ms
            self.transaction_start_time_ms = transaction_start_time_ms
            self.producer_id = producer_id
            self.producer_epoch = producer_epoch
            self.topics = topics

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        transaction_states: Sequence[DescribeTransactionsResponse.TransactionState] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.transaction_states = transaction_states


class ListTransactionsRequest(Message):
    __slots__ = {
        "state_filters": "[]string 0+",
        "producer_id_filters": "[]int64 0+",
        "duration_filter": "int64 1+",
        "transactional_id_pattern": "string 2+ null 2+",
    }
    API_KEY = 66
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    def __init__(
        self,
        *,
        state_filters: Sequence[str] = (),
        producer_id_filters: Sequence[int] = (),
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters = state_filters
        self.producer_id_filters = producer_id_filters
        self.duration_filter = duration_filter
        self.transactional_id_pattern = transactional_id_pattern


class ListTransactionsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "error_code": "int16 0+",
        "unknown_state_filters": "[]string 0+",
        "transaction_states": "[]TransactionState 0+",
    }
    API_KEY = 66
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class TransactionState(Struct):
        __slots__ = {
            "transactional_id": "string 0+",
            "producer_id": "int64 0+",
            "transaction_state": "string 0+",
        }

        def __init__(
            self,
            *,
            transactional_id: str = "",
            producer_id: int = 0,
            transaction_state: str = "",
        ) -> None:
            self.transactional_id = transactional_id
            self.producer_id = producer_id
            self.transaction_state = transaction_state

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: Sequence[str] = (),
        transaction_states: Sequence[ListTransactionsResponse.TransactionState] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.unknown_state_filters = unknown_state_filters
        self.transaction_states = transaction_states


class ConsumerGroupHeartbeatRequest(Message):
    __slots__ = {
        "group_id": "string 0+",
        "member_id": "string 0+",
        "member_epoch": "int32 0+",
        "instance_id": "string 0+ null 0+",
        "rack_id": "string 0+ null 0+",
        "rebalance_timeout_ms": "int32 0+",
        "subscribed_topic_names": "[]string 0+ null 0+",
        "subscribed_topic_regex": "string 1+ null 1+",
        "server_assignor": "string 0+ null 0+",
        "topic_partitions": "[]TopicPartitions 0+ null 0+",
    }
    API_KEY = 68
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class TopicPartitions(Struct):
        __slots__ = {
            "topic_id": "uuid 0+",
            "partitions": "[]int32 0+",
        }

        def __init__(
            self,
            *,
            topic_id: str = "",
            partitions: Sequence[int] = (),
        ) -> None:
            self.topic_id = topic_id
            self.partitions = partitions

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        subscribed_topic_names: Sequence[str] | None = None,
        subscribed_topic_regex: str | None = None,
        server_assignor: str | None = None,
        topic_partitions: Sequence[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.subscribed_topic_names = subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.server_assignor = server_assignor
        self.topic_partitions = topic_partitions


class ConsumerGroupHeartbeatResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "error_code": "int16 0+",
        "error_message": "string 0+ null 0+",
        "member_id": "string 0+ null 0+",
        "member_epoch": "int32 0+",
        "heartbeat_interval_ms": "int32 0+",
        "assignment": "Assignment 0+ null 0+",
    }
    API_KEY = 68
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class TopicPartitions(Struct):
        __slots__ = {
            "topic_id": "uuid 0+",
            "partitions": "[]int32 0+",
        }

        def __init__(
            self,
            *,
            topic_id: str = "",
            partitions: Sequence[int] = (),
        ) -> None:
            self.topic_id = topic_id
            self.partitions = partitions

    class Assignment(Struct):
        __slots__ = {
            "topic_partitions": "[]TopicPartitions 0+",
        }

        def __init__(
            self,
            *,
            topic_partitions: Sequence[ConsumerGroupHeartbeatResponse.TopicPartitions] = (),
        ) -> None:
            self.topic_partitions = topic_partitions

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: ConsumerGroupHeartbeatResponse.Assignment | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment


class ConsumerGroupDescribeRequest(Message):
    __slots__ = {
        "group_ids": "[]string 0+",
        "include_authorized_operations": "bool 0+",
    }
    API_KEY = 69
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    def __init__(
        self,
        *,
        group_ids: Sequence[str] = (),
        include_authorized_operations: bool = False,
    ) -> None:
        self.group_ids = group_ids
        self.include_authorized_operations = include_authorized_operations


class ConsumerGroupDescribeResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "groups": "[]DescribedGroup 0+",
    }
    API_KEY = 69
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class TopicPartitions(Struct):
        __slots__ = {
            "topic_id": "uuid 0+",
            "topic_name": "string 0+",
            "partitions": "[]int32 0+",
        }

        def __init__(
            self,
            *,
            topic_id: str = "",
            topic_name: str = "",
            partitions: Sequence[int] = (),
        ) -> None:
            self.topic_id = topic_id
            self.topic_name = topic_name
            self.partitions = partitions

    class Assignment(Struct):
        __slots__ = {
            "topic_partitions": "[]TopicPartitions 0+",
        }

        def __init__(
            self,
            *,
            topic_partitions: Sequence[ConsumerGroupDescribeResponse.TopicPartitions] = (),
        ) -> None:
            self.topic_partitions = topic_partitions

    class Member(Struct):
        __slots__ = {
            "member_id": "string 0+",
            "instance_id": "string 0+ null 0+",
            "rack_id": "string 0+ null 0+",
            "member_epoch": "int32 0+",
            "client_id": "string 0+",
            "client_host": "string 0+",
            "subscribed_topic_names": "[]string 0+",
            "subscribed_topic_regex": "string 0+ null 0+",
            "assignment": "Assignment 0+",
            "target_assignment": "Assignment 0+",
            "member_type": "int8 1+ ignorable",
        }

        def __init__(
            self,
            *,
            member_id: str = "",
            instance_id: str | None = None,
            rack_id: str | None = None,
            member_epoch: int = 0,
            client_id: str = "",
            client_host: str = "",
            subscribed_topic_names: Sequence[str] = (),
            subscribed_topic_regex: str | None = None,
            assignment: ConsumerGroupDescribeResponse.Assignment | None = None,
            target_assignment: ConsumerGroupDescribeResponse.Assignment | None = None,
            member_type: int = -1,
        ) -> None:
            self.member_id = member_id
            self.instance_id = instance_id
            self.rack_id = rack_id
            self.member_epoch = member_epoch
            self.client_id = client_id
            self.client_host = client_host
            self.subscribed_topic_names = subscribed_topic_names
            self.subscribed_topic_regex = subscribed_topic_regex
            self.assignment = assignment or ConsumerGroupDescribeResponse.Assignment()
            self.target_assignment = target_assignment or ConsumerGroupDescribeResponse.Assignment()
            self.member_type = member_type

    class DescribedGroup(Struct):
        __slots__ = {
            "error_code": "int16 0+",
            "error_message": "string 0+ null 0+",
            "group_id": "string 0+",
            "group_state": "string 0+",
            "group_epoch": "int32 0+",
            "assignment_epoch": "int32 0+",
            "assignor_name": "string 0+",
            "members": "[]Member 0+",
            "authorized_operations": "int32 0+",
        }

        def __init__(
            self,
            *,
            error_code: int = 0,
            error_message: str | None = None,
            group_id: str = "",
            group_state: str = "",
            group_epoch: int = 0,
            assignment_epoch: int = 0,
            assignor_name: str = "",
            members: Sequence[ConsumerGroupDescribeResponse.Member] = (),
            authorized_operations: int = -2147483648,
        ) -> None:
            self.error_code = error_code
            self.error_message = error_message
            self.group_id = group_id
            self.group_state = group_state
            self.group_epoch = group_epoch
            self.assignment_epoch = assignment_epoch
            self.assignor_name = assignor_name
            self.members = members
            self.authorized_operations = authorized_operations

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: Sequence[ConsumerGroupDescribeResponse.DescribedGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups


class ListConfigResourcesRequest(Message):
    __slots__ = {
        "resource_types": "[]int8 1+",
    }
    API_KEY = 74
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    def __init__(
        self,
        *,
        resource_types: Sequence[int] = (),
    ) -> None:
        self.resource_types = resource_types


class ListConfigResourcesResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+",
        "error_code": "int16 0+",
        "config_resources": "[]ConfigResource 0+",
    }
    API_KEY = 74
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class ConfigResource(Struct):
        __slots__ = {
            "resource_name": "string 0+",
            "resource_type": "int8 1+ ignorable",
        }

        def __init__(
            self,
            *,
            resource_name: str = "",
            resource_type: int = 16,
        ) -> None:
            self.resource_name = resource_name
            self.resource_type = resource_type

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        config_resources: Sequence[ListConfigResourcesResponse.ConfigResource] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources = config_resources


class DescribeTopicPartitionsRequest(Message):
    __slots__ = {
        "topics": "[]TopicRequest 0+",
        "response_partition_limit": "int32 0+",
        "cursor": "Cursor 0+ null 0+",
    }
    API_KEY = 75
    IS_REQUEST = True
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class TopicRequest(Struct):
        __slots__ = {
            "name": "string 0+",
        }

        def __init__(
            self,
            *,
            name: str = "",
        ) -> None:
            self.name = name

    class Cursor(Struct):
        __slots__ = {
            "topic_name": "string 0+",
            "partition_index": "int32 0+",
        }

        def __init__(
            self,
            *,
            topic_name: str = "",
            partition_index: int = 0,
        ) -> None:
            self.topic_name = topic_name
            self.partition_index = partition_index

    def __init__(
        self,
        *,
        topics: Sequence[DescribeTopicPartitionsRequest.TopicRequest] = (),
        response_partition_limit: int = 2000,
        cursor: DescribeTopicPartitionsRequest.Cursor | None = None,
    ) -> None:
        self.topics = topics
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor


class DescribeTopicPartitionsResponse(Message):
    __slots__ = {
        "throttle_time_ms": "int32 0+ ignorable",
        "topics": "[]DescribeTopicPartitionsResponseTopic 0+",
        "next_cursor": "Cursor 0+ null 0+",
    }
    API_KEY = 75
    IS_REQUEST = False
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_SINCE: ClassVar[int | None] = 0

    class DescribeTopicPartitionsResponsePartition(Struct):
        __slots__ = {
            "error_code": "int16 0+",
            "partition_index": "int32 0+",
            "leader_id": "int32 0+",
            "leader_epoch": "int32 0+ ignorable",
            "replica_nodes": "[]int32 0+",
            "isr_nodes": "[]int32 0+",
            "eligible_leader_replicas": "[]int32 0+ null 0+",
            "last_known_elr": "[]int32 0+ null 0+",
            "offline_replicas": "[]int32 0+ ignorable",
        }

        def __init__(
            self,
            *,
            error_code: int = 0,
            partition_index: int = 0,
            leader_id: int = 0,
            leader_epoch: int = -1,
            replica_nodes: Sequence[int] = (),
            isr_nodes: Sequence[int] = (),
            eligible_leader_replicas: Sequence[int] | None = None,
            last_known_elr: Sequence[int] | None = None,
            offline_replicas: Sequence[int] = (),
        ) -> None:
            self.error_code = error_code
            self.partition_index = partition_index
            self.leader_id = leader_id
            self.leader_epoch = leader_epoch
            self.replica_nodes = replica_nodes
            self.isr_nodes = isr_nodes
            self.eligible_leader_replicas = eligible_leader_replicas
            self.last_known_elr = last_known_elr
            self.offline_replicas = offline_replicas

    class DescribeTopicPartitionsResponseTopic(Struct):
        __slots__ = {
            "error_code": "int16 0+",
            "name": "string 0+ null 0+",
            "topic_id": "uuid 0+ ignorable",
            "is_internal": "bool 0+ ignorable",
            "partitions": "[]DescribeTopicPartitionsResponsePartition 0+",
            "topic_authorized_operations": "int32 0+",
        }

        def __init__(
            self,
            *,
            error_code: int = 0,
            name: str | None = "",
            topic_id: str = "",
            is_internal: bool = False,
            partitions: Sequence[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = (),
            topic_authorized_operations: int = -2147483648,
        ) -> None:
            self.error_code = error_code
            self.name = name
            self.topic_id = topic_id
            self.is_internal = is_internal
            self.partitions = partitions
            self.topic_authorized_operations = topic_authorized_operations

    class Cursor(Struct):
        __slots__ = {
            "topic_name": "string 0+",
            "partition_index": "int32 0+",
        }

        def __init__(
            self,
            *,
            topic_name: str = "",
            partition_index: int = 0,
        ) -> None:
            self.topic_name = topic_name
            self.partition_index = partition_index

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: Sequence[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = (),
        next_cursor: DescribeTopicPartitionsResponse.Cursor | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
        self.next_cursor = next_cursor

_CLASSES: tuple[type[Message], ...] = (
    ProduceRequest,
    ProduceResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
for _class in _CLASSES:
    _class.SCHEMA = Schema(_class)

#: API key -> the class of its request.
REQUESTS: dict[int, type[Message]] = {
    0: ProduceRequest,
    1: FetchRequest,
    2: ListOffsetsRequest,
    3: MetadataRequest,
    8: OffsetCommitRequest,
    9: OffsetFetchRequest,
    10: FindCoordinatorRequest,
    11: JoinGroupRequest,
    12: HeartbeatRequest,
    13: LeaveGroupRequest,
    14: SyncGroupRequest,
    15: DescribeGroupsRequest,
    16: ListGroupsRequest,
    17: SaslHandshakeRequest,
    18: ApiVersionsRequest,
    19: CreateTopicsRequest,
    20: DeleteTopicsRequest,
    21: DeleteRecordsRequest,
    22: InitProducerIdRequest,
    23: OffsetForLeaderEpochRequest,
    24: AddPartitionsToTxnRequest,
    25: AddOffsetsToTxnRequest,
    26: EndTxnRequest,
    28: TxnOffsetCommitRequest,
    29: DescribeAclsRequest,
    30: CreateAclsRequest,
    31: DeleteAclsRequest,
    32: DescribeConfigsRequest,
    33: AlterConfigsRequest,
    34: AlterReplicaLogDirsRequest,
    35: DescribeLogDirsRequest,
    36: SaslAuthenticateRequest,
    37: CreatePartitionsRequest,
    42: DeleteGroupsRequest,
    43: ElectLeadersRequest,
    44: IncrementalAlterConfigsRequest,
    45: AlterPartitionReassignmentsRequest,
    46: ListPartitionReassignmentsRequest,
    47: OffsetDeleteRequest,
    48: DescribeClientQuotasRequest,
    49: AlterClientQuotasRequest,
    50: DescribeUserScramCredentialsRequest,
    51: AlterUserScramCredentialsRequest,
    55: DescribeQuorumRequest,
    57: UpdateFeaturesRequest,
    60: DescribeClusterRequest,
    61: DescribeProducersRequest,
    65: DescribeTransactionsRequest,
    66: ListTransactionsRequest,
    68: ConsumerGroupHeartbeatRequest,
    69: ConsumerGroupDescribeRequest,
    74: ListConfigResourcesRequest,
    75: DescribeTopicPartitionsRequest,
}

#: API key -> the class of its response.
RESPONSES: dict[int, type[Message]] = {
    0: ProduceResponse,
    1: FetchResponse,
    2: ListOffsetsResponse,
    3: MetadataResponse,
    8: OffsetCommitResponse,
    9: OffsetFetchResponse,
    10: FindCoordinatorResponse,
    11: JoinGroupResponse,
    12: HeartbeatResponse,
    13: LeaveGroupResponse,
    14: SyncGroupResponse,
    15: DescribeGroupsResponse,
    16: ListGroupsResponse,
    17: SaslHandshakeResponse,
    18: ApiVersionsResponse,
    19: CreateTopicsResponse,
    20: DeleteTopicsResponse,
    21: DeleteRecordsResponse,
    22: InitProducerIdResponse,
    23: OffsetForLeaderEpochResponse,
    24: AddPartitionsToTxnResponse,
    25: AddOffsetsToTxnResponse,
    26: EndTxnResponse,
    28: TxnOffsetCommitResponse,
    29: DescribeAclsResponse,
    30: CreateAclsResponse,
    31: DeleteAclsResponse,
    32: DescribeConfigsResponse,
    33: AlterConfigsResponse,
    34: AlterReplicaLogDirsResponse,
    35: DescribeLogDirsResponse,
    36: SaslAuthenticateResponse,
    37: CreatePartitionsResponse,
    42: DeleteGroupsResponse,
    43: ElectLeadersResponse,
    44: IncrementalAlterConfigsResponse,
    45: AlterPartitionReassignmentsResponse,
    46: ListPartitionReassignmentsResponse,
    47: OffsetDeleteResponse,
    48: DescribeClientQuotasResponse,
    49: AlterClientQuotasResponse,
    50: DescribeUserScramCredentialsResponse,
    51: AlterUserScramCredentialsResponse,
    55: DescribeQuorumResponse,
    57: UpdateFeaturesResponse,
    60: DescribeClusterResponse,
    61: DescribeProducersResponse,
    65: DescribeTransactionsResponse,
    66: ListTransactionsResponse,
    68: ConsumerGroupHeartbeatResponse,
    69: ConsumerGroupDescribeResponse,
    74: ListConfigResourcesResponse,
    75: DescribeTopicPartitionsResponse,
}
