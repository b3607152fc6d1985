"""ListOffsets and OffsetForLeaderEpoch: offsets of a partition by its ends, by time and by leader epoch.

In the pool: a search by time reads files.
"""

from __future__ import annotations

from collections import Counter

from logstore.broker._loop import ClientConnection
from logstore.broker.access.authorizer import AclOperation, ResourceType
from logstore.broker.served import Served, end_of_epoch, epoch_error
from logstore.errors import LogstoreError
from logstore.log import Log
from logstore.protocol import codes
from logstore.protocol.frames import Request
from logstore.protocol.generated.messages import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from logstore.records import Isolation

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
#: Of tiered storage: the oldest offset on this machine, the newest elsewhere, and the oldest that is only here and
#: is to be copied. Nothing is elsewhere.
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

#: The first version in which each special time may be asked for (Kafka's ``timestampMinSupportedVersion``).
_SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


#: The first version whose answer names a leader epoch.
_WITH_EPOCH = 4

_Answered = ListOffsetsResponse.ListOffsetsPartitionResponse
_Ended = OffsetForLeaderEpochResponse.EpochEndOffset


def list_offsets(served: Served, request: Request, connection: ClientConnection) -> ListOffsetsResponse:
    """Return, for each partition, the first offset at or after a time, or an end of it."""
    asked = request.message
    assert isinstance(asked, ListOffsetsRequest)
    isolation = Isolation.READ_COMMITTED if asked.isolation_level == 1 else Isolation.READ_UNCOMMITTED
    times = Counter((topic.name, each.partition_index) for topic in asked.topics for each in topic.partitions)
    rights = served.rights(request.client_id, connection)
    denied = rights.denied(AclOperation.DESCRIBE, ResourceType.TOPIC, (topic.name for topic in asked.topics))
    topics = []
    for topic in asked.topics:
        if topic.name in denied:
            continue
        found = []
        # One that is named twice is refused, and answered once.
        for each in {each.partition_index: each for each in topic.partitions}.values():
            answer = _Answered(partition_index=each.partition_index)
            try:
                if times[topic.name, each.partition_index] > 1:
                    answer.error_code = codes.INVALID_REQUEST
                elif each.timestamp < 0 and request.version < _SINCE.get(each.timestamp, request.version + 1):
                    answer.error_code = codes.UNSUPPORTED_VERSION
                else:
                    _look_up(served.led(topic.name, each.partition_index), each, isolation, request.version, answer)
            except LogstoreError as error:
                answer = _Answered(partition_index=each.partition_index, error_code=error.code)
            found.append(answer)
        topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=found))
    topics += [
        ListOffsetsResponse.ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                _Answered(partition_index=each.partition_index, error_code=codes.TOPIC_AUTHORIZATION_FAILED)
                for each in topic.partitions
            ],
        )
        for topic in asked.topics
        if topic.name in denied
    ]
    return ListOffsetsResponse(topics=topics)


def _look_up(
    log: Log,
    asked: ListOffsetsRequest.ListOffsetsPartition,
    isolation: Isolation,
    version: int,
    answer: _Answered,
) -> None:
    answer.error_code = epoch_error(log, asked.current_leader_epoch)
    if answer.error_code:
        return
    when = asked.timestamp
    if when == LATEST:
        answer.offset = log.end_offset(isolation)
    elif when in (EARLIEST, EARLIEST_LOCAL):
        answer.offset = log.log_start_offset
    elif when not in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        found = (
            log.replica.offset_of_max_timestamp(isolation=isolation)
            if when == MAX_TIMESTAMP
            else log.offset_for_time(when, isolation=isolation)
        )
        if found is not None:
            answer.timestamp, answer.offset = found
    if answer.offset >= 0 and version >= _WITH_EPOCH:
        epoch = None if when == LATEST else log.replica.epochs.epoch_at(answer.offset)
        answer.leader_epoch = log.replica.leader_epoch if epoch is None else epoch


def offset_for_leader_epoch(
    served: Served, request: Request, connection: ClientConnection
) -> OffsetForLeaderEpochResponse:
    """Return, for each partition, where the records of a leader epoch end: a reader beyond it has lost some."""
    asked = request.message
    assert isinstance(asked, OffsetForLeaderEpochRequest)
    rights = served.rights(request.client_id, connection)
    denied: frozenset[str] = frozenset()
    if not rights.on_cluster(AclOperation.CLUSTER_ACTION):
        names = (topic.topic for topic in asked.topics)
        denied = rights.denied(AclOperation.DESCRIBE, ResourceType.TOPIC, names)
    topics = []
    for topic in asked.topics:
        if topic.topic in denied:
            continue
        found = []
        for each in topic.partitions:
            answer = _Ended(partition=each.partition)
            try:
                log = served.led(topic.topic, each.partition)
                answer.error_code = epoch_error(log, each.current_leader_epoch)
                if not answer.error_code:
                    answer.leader_epoch, answer.end_offset = end_of_epoch(log, each.leader_epoch)
            except LogstoreError as error:
                answer.error_code = error.code
            found.append(answer)
        topics.append(OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=topic.topic, partitions=found))
    topics += [
        OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[
                _Ended(partition=each.partition, error_code=codes.TOPIC_AUTHORIZATION_FAILED)
                for each in topic.partitions
            ],
        )
        for topic in asked.topics
        if topic.topic in denied
    ]
    return OffsetForLeaderEpochResponse(topics=topics)
