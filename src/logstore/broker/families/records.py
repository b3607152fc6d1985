"""DeleteRecords: the records of partitions below an offset. In the pool: it waits for the disk."""

from __future__ import annotations

from logstore.broker._loop import ClientConnection
from logstore.broker.served import Served
from logstore.errors import LogstoreError
from logstore.protocol.frames import Request
from logstore.protocol.generated.messages import DeleteRecordsRequest, DeleteRecordsResponse
from logstore.topic_names import check_writable_by_users

_Deleted = DeleteRecordsResponse.DeleteRecordsPartitionResult


def delete_records(served: Served, request: Request, _connection: ClientConnection) -> DeleteRecordsResponse:
    """Delete records of each partition for itself, and return where it begins now. Durable when it is answered."""
    asked = request.message
    assert isinstance(asked, DeleteRecordsRequest)
    topics = [
        DeleteRecordsResponse.DeleteRecordsTopicResult(
            name=topic.name, partitions=[_deleted(served, topic.name, each) for each in topic.partitions]
        )
        for topic in asked.topics
    ]
    return DeleteRecordsResponse(topics=topics)


def _deleted(served: Served, name: str, asked: DeleteRecordsRequest.DeleteRecordsPartition) -> _Deleted:
    number = asked.partition_index
    try:
        check_writable_by_users(name)
        served.led(name, number)
        start = served.store.topic(name).delete_records({number: asked.offset})[number]
    except LogstoreError as error:
        return _Deleted(partition_index=number, low_watermark=-1, error_code=error.code)
    return _Deleted(partition_index=number, low_watermark=start)
