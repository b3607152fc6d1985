"""CreatePartitions and DescribeTopicPartitions. In the pool: partitions are made on the disk."""

from __future__ import annotations

from collections import Counter

from logstore.broker._loop import ClientConnection
from logstore.broker.access.authorizer import AclOperation, ResourceType
from logstore.broker.families.cluster import NOT_ASKED
from logstore.broker.served import Served
from logstore.errors import InvalidTopicError, LogstoreError
from logstore.protocol import codes
from logstore.protocol.frames import Request
from logstore.protocol.generated.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from logstore.topic_names import INTERNAL, check_name

#: Kafka's default of ``max.request.partition.size.limit``: the most partitions of one answer.
MOST_DESCRIBED = 2000

_Grown = CreatePartitionsResponse.CreatePartitionsTopicResult
_Topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
_Partition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition


def create_partitions(served: Served, request: Request, connection: ClientConnection) -> CreatePartitionsResponse:
    """Give topics more partitions, each for itself. Durable when the answer is sent."""
    asked = request.message
    assert isinstance(asked, CreatePartitionsRequest)
    times = Counter(topic.name for topic in asked.topics)
    once = [name for name, count in times.items() if count == 1]
    rights = served.rights(request.client_id, connection)
    denied = rights.denied(AclOperation.ALTER, ResourceType.TOPIC, once)
    results = {
        topic.name: _Grown(
            name=topic.name, error_code=codes.INVALID_REQUEST, error_message="the topic is named twice"
        )
        if times[topic.name] > 1
        else _Grown(name=topic.name, error_code=codes.TOPIC_AUTHORIZATION_FAILED, error_message=None)
        if topic.name in denied
        else _checked(served, topic)
        for topic in asked.topics
    }
    if not asked.validate_only:
        grows = {topic.name: topic.count for topic in asked.topics if not results[topic.name].error_code}
        for name, error in served.add_partitions(grows).items():
            results[name] = _Grown(name=name, error_code=error.code, error_message=str(error))
    return CreatePartitionsResponse(results=list(results.values()))


def _checked(served: Served, topic: CreatePartitionsRequest.CreatePartitionsTopic) -> _Grown:
    """Return the answer for a topic that can grow, or why it cannot."""
    name, total = topic.name, topic.count
    try:
        more = total - served.host.topics_table.check_grow(name, total).partitions
        assigned = topic.assignments
        node = served.node
        if served.is_replicated(name):
            return _Grown(
                name=name,
                error_code=codes.INVALID_PARTITIONS,
                error_message=f"topic {name!r} has replicas: it keeps the partitions that Node.create_topic made",
            )
        if assigned is not None and [list(each.broker_ids) for each in assigned] != [[node]] * more:
            return _Grown(
                name=name,
                error_code=codes.INVALID_REPLICA_ASSIGNMENT,
                error_message=f"expected node {node} for each of {more} new partitions",
            )
    except LogstoreError as error:
        return _Grown(name=name, error_code=error.code, error_message=str(error))
    return _Grown(name=name)


def describe_topic_partitions(
    served: Served, request: Request, connection: ClientConnection
) -> DescribeTopicPartitionsResponse:
    """Return topics and their partitions in the order of their names, up to a limit, from a cursor on.

    The next cursor is the first partition that is left out; that of a topic may be 0 if there is none of it yet.
    """
    asked = request.message
    assert isinstance(asked, DescribeTopicPartitionsRequest)
    names = [each.name for each in asked.topics]
    cursor = asked.cursor
    if cursor is not None and (cursor.partition_index < 0 or (names and cursor.topic_name not in names)):
        refused = [_Topic(name=name, error_code=codes.INVALID_REQUEST) for name in names]
        return DescribeTopicPartitionsResponse(topics=refused)
    first = "" if cursor is None else cursor.topic_name
    wanted = sorted({name for name in names or served.host.topics(internal=True) if name >= first})
    rights = served.rights(request.client_id, connection)
    denied = rights.denied(AclOperation.DESCRIBE, ResourceType.TOPIC, wanted)
    wanted = [name for name in wanted if name not in denied]
    allowed = rights.bits_of(ResourceType.TOPIC, wanted)
    left = max(1, min(asked.response_partition_limit, MOST_DESCRIBED))
    answer = DescribeTopicPartitionsResponse()
    topics = []
    for name in wanted:
        if not left:
            answer.next_cursor = _cursor(name, 0)
            break
        begin = cursor.partition_index if cursor is not None and name == first else 0
        topic, rest = _described(served, allowed[name], name, begin, left)
        if topic.error_code and not names:
            continue  # deleted since
        topics.append(topic)
        left -= len(topic.partitions)
        if rest is not None:
            answer.next_cursor = _cursor(name, rest)
            break
    if names:
        # Of all topics, those that the client may not see are left out; of others, it is not said if they exist.
        code = codes.TOPIC_AUTHORIZATION_FAILED
        topics += [
            _Topic(name=name, error_code=code, topic_authorized_operations=NOT_ASKED) for name in sorted(denied)
        ]
    answer.topics = topics
    return answer


def _cursor(topic: str, partition: int) -> DescribeTopicPartitionsResponse.Cursor:
    return DescribeTopicPartitionsResponse.Cursor(topic_name=topic, partition_index=partition)


def _described(served: Served, allowed: int, name: str, begin: int, most: int) -> tuple[_Topic, int | None]:
    """Return a topic with some of its partitions, and the first one that is left out, if any is."""
    try:
        entry = served.entry(check_name(name))
    except LogstoreError as error:
        code = error.code if isinstance(error, InvalidTopicError) else codes.UNKNOWN_TOPIC_OR_PARTITION
        return _Topic(name=name, error_code=code, topic_authorized_operations=allowed), None
    end = min(entry.partitions, begin + most)
    topic = _Topic(
        name=name,
        topic_id=entry.id,
        is_internal=name in INTERNAL,
        partitions=[_partition(served, name, number) for number in range(begin, end)],
        topic_authorized_operations=allowed,
    )
    return topic, end if end < entry.partitions else None


def _partition(served: Served, name: str, number: int) -> _Partition:
    state = served.state(name, number)
    return _Partition(
        partition_index=number,
        # Another node has no address that a client could be told.
        leader_id=state.leader if state.leader == served.node else -1,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        eligible_leader_replicas=state.eligible,
        last_known_elr=() if state.leader >= 0 or state.last_leader < 0 else (state.last_leader,),
        offline_replicas=served.offline(name, state.replicas),
    )
