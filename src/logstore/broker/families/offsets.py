"""ListOffsets: offsets of a partition by its ends and by time. In the pool: a search by time reads files."""

from __future__ import annotations

from logstore.broker._loop import ClientConnection
from logstore.broker.offsets import epoch_error
from logstore.broker.served import Served
from logstore.errors import LogstoreError
from logstore.log import Log
from logstore.protocol.frames import Request
from logstore.protocol.generated.messages import ListOffsetsRequest, ListOffsetsResponse
from logstore.records import Isolation

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
#: Of tiered storage: the oldest offset on this machine, and the newest elsewhere.
EARLIEST_LOCAL = -4
LATEST_TIERED = -5

UNSUPPORTED_VERSION = 35

#: The first version whose answer names a leader epoch.
_WITH_EPOCH = 4

_Answered = ListOffsetsResponse.ListOffsetsPartitionResponse


def list_offsets(served: Served, request: Request, _connection: ClientConnection) -> ListOffsetsResponse:
    """Return, for each partition, the first offset at or after a time, or an end of it."""
    asked = request.message
    assert isinstance(asked, ListOffsetsRequest)
    isolation = Isolation.READ_COMMITTED if asked.isolation_level == 1 else Isolation.READ_UNCOMMITTED
    topics = []
    for topic in asked.topics:
        found = []
        for each in topic.partitions:
            try:
                log = served.led(topic.name, each.partition_index)
                found.append(_of_partition(log, each, isolation, request.version))
            except LogstoreError as error:
                found.append(_Answered(partition_index=each.partition_index, error_code=error.code))
        topics.append(ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=found))
    return ListOffsetsResponse(topics=topics)


def _of_partition(
    log: Log, asked: ListOffsetsRequest.ListOffsetsPartition, isolation: Isolation, version: int
) -> _Answered:
    answer = _Answered(partition_index=asked.partition_index)
    answer.error_code = epoch_error(log, asked.current_leader_epoch)
    if answer.error_code:
        return answer
    epoch = log.replica.leader_epoch
    end = log.last_stable_offset if isolation is Isolation.READ_COMMITTED else log.high_watermark
    when = asked.timestamp
    if when == LATEST:
        answer.offset = end
    elif when in (EARLIEST, EARLIEST_LOCAL):
        answer.offset = log.log_start_offset
    elif when == LATEST_TIERED:
        pass  # nothing is elsewhere
    elif when == MAX_TIMESTAMP:
        newest = log.replica.offset_of_max_timestamp(isolation=isolation)
        if newest is not None:
            answer.timestamp, answer.offset = newest
    elif when < 0:
        answer.error_code = UNSUPPORTED_VERSION
    else:
        found = log.offset_for_time(when, isolation=isolation)
        if found is not None:
            answer.timestamp, answer.offset = found
    if answer.offset >= 0 and version >= _WITH_EPOCH:
        answer.leader_epoch = epoch
    return answer
