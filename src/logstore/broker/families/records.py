"""DeleteRecords: the records of partitions below an offset. In the pool: it waits for the disk."""

from __future__ import annotations

from logstore.broker._loop import ClientConnection
from logstore.broker.access.authorizer import AclOperation, ResourceType
from logstore.broker.served import Served
from logstore.errors import LogstoreError
from logstore.protocol import codes
from logstore.protocol.frames import Request
from logstore.protocol.generated.messages import DeleteRecordsRequest, DeleteRecordsResponse
from logstore.topic_names import check_writable_by_users

_Deleted = DeleteRecordsResponse.DeleteRecordsPartitionResult


def delete_records(served: Served, request: Request, connection: ClientConnection) -> DeleteRecordsResponse:
    """Delete records of each partition for itself, and return where it begins now. Durable when it is answered."""
    asked = request.message
    assert isinstance(asked, DeleteRecordsRequest)
    rights = served.rights(request.client_id, connection)
    denied = rights.denied(AclOperation.DELETE, ResourceType.TOPIC, (topic.name for topic in asked.topics))
    topics = [
        DeleteRecordsResponse.DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[
                _refused(each) if topic.name in denied else _deleted(served, topic.name, each)
                for each in topic.partitions
            ],
        )
        for topic in asked.topics
    ]
    return DeleteRecordsResponse(topics=topics)


def _refused(asked: DeleteRecordsRequest.DeleteRecordsPartition) -> _Deleted:
    code = codes.TOPIC_AUTHORIZATION_FAILED
    return _Deleted(partition_index=asked.partition_index, low_watermark=-1, error_code=code)


def _deleted(served: Served, name: str, asked: DeleteRecordsRequest.DeleteRecordsPartition) -> _Deleted:
    number = asked.partition_index
    try:
        check_writable_by_users(name)
        served.led(name, number)
        start = served.store.topic(name).delete_records({number: asked.offset})[number]
    except LogstoreError as error:
        return _Deleted(partition_index=number, low_watermark=-1, error_code=error.code)
    return _Deleted(partition_index=number, low_watermark=start)
