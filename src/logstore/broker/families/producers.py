"""DescribeProducers: the producers that each partition remembers. In the pool: it may open logs."""

from __future__ import annotations

from logstore.broker._loop import ClientConnection
from logstore.broker.access.authorizer import AclOperation, ResourceType
from logstore.broker.served import Served
from logstore.errors import LogstoreError
from logstore.log.replica import ActiveProducer
from logstore.protocol import codes
from logstore.protocol.frames import Request
from logstore.protocol.generated.messages import DescribeProducersRequest, DescribeProducersResponse
from logstore.topic_names import check_name

_Answered = DescribeProducersResponse.PartitionResponse
_Told = DescribeProducersResponse.ProducerState


def describe_producers(served: Served, request: Request, connection: ClientConnection) -> DescribeProducersResponse:
    """Return, for each partition, the producers with an id: epoch, sequence, time, start of an open transaction."""
    asked = request.message
    assert isinstance(asked, DescribeProducersRequest)
    rights = served.rights(request.client_id, connection)
    denied = rights.denied(AclOperation.READ, ResourceType.TOPIC, (topic.name for topic in asked.topics))
    topics = [
        DescribeProducersResponse.TopicResponse(
            name=topic.name,
            partitions=[
                _refused(topic.name, each) if topic.name in denied else _of_partition(served, topic.name, each)
                for each in topic.partition_indexes
            ],
        )
        for topic in asked.topics
    ]
    return DescribeProducersResponse(topics=topics)


def _refused(name: str, number: int) -> _Answered:
    message = f"topic {name!r} may not be read by this client"
    return _Answered(partition_index=number, error_code=codes.TOPIC_AUTHORIZATION_FAILED, error_message=message)


def _of_partition(served: Served, name: str, number: int) -> _Answered:
    try:
        log = served.led(check_name(name), number)
        found = [_told(each) for each in log.replica.active_producers()]
    except LogstoreError as error:
        return _Answered(partition_index=number, error_code=error.code, error_message=str(error))
    return _Answered(partition_index=number, active_producers=found)


def _told(producer: ActiveProducer) -> _Told:
    begin = producer.transaction_first_offset
    return _Told(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp_ms,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=-1 if begin is None else begin,
    )
