"""The questions of followers and the answers of leaders as bytes: Kafka's Fetch, version 17.

One request asks for every partition that a follower has of a leader. It names the replica and its life
(``ReplicaState``, KIP-903), and for each partition the leader epoch, the log end, and the epoch of the last record
(``last_fetched_epoch``, KIP-595). A topic stands in it by its id, which the registry has. An answer names in
``snapshot_id`` the offset below which the leader lacks tombstones.

A request belongs to a session or to none (KIP-227); in a session it names the partitions that have changed.

The bytes are a frame without its size, with Kafka's header. What is not such a frame is refused as malformed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from logstore.errors import MalformedMessageError
from logstore.io._file_region import FileRegion
from logstore.protocol.frames import decode_request, decode_response, encode_request, encode_response
from logstore.protocol.generated.messages import FetchRequest, FetchResponse
from logstore.records import INT32_MAX
from logstore.replication.api import Diverging, FetchAnswer, FetchFrom, FetchRefusal, NodeId

VERSION = 17
_KEY = FetchRequest.API_KEY
_NOT_DIVERGING = FetchResponse.EpochEndOffset()


class Slot(NamedTuple):
    """A partition in a message: the topic's id in Kafka's text form, and the partition's number."""

    topic_id: str
    partition: int


class Session(NamedTuple):
    """A follower's session, and the turn of a request in it: `FIRST_EPOCH` begins one, below it there is none."""

    id: int
    epoch: int


NO_SESSION = Session(0, -1)
FIRST_EPOCH = 0


def following_epoch(epoch: int) -> int:
    """Return the turn after one in a session; behind the largest number comes the first one that is not a begin."""
    return epoch + 1 if epoch < INT32_MAX else FIRST_EPOCH + 1


#: Kafka's codes FETCH_SESSION_ID_NOT_FOUND and INVALID_FETCH_SESSION_EPOCH.
SESSION_NOT_FOUND, WRONG_SESSION_EPOCH = 70, 71


class Question(NamedTuple):
    """A follower's request."""

    node: NodeId
    life: int
    wait_ms: int  #: how long the leader may wait for records
    correlation_id: int
    wants: dict[Slot, FetchFrom]
    max_bytes: int  #: of all records together; the first partition may exceed it
    session: Session
    forgotten: list[Slot]  #: partitions that the session shall not have any more


class LeaderResponse(NamedTuple):
    """A leader's answer. In a session it has the partitions with news."""

    answers: dict[Slot, FetchAnswer]
    session_id: int  #: 0: there is no session
    has_lost_session: bool  #: the leader does not know the session of the request, or takes it for another one's


def encode_question(
    wants: Mapping[Slot, FetchFrom],
    *,
    node: NodeId,
    life: int,
    wait_ms: int,
    max_bytes: int,
    correlation_id: int,
    session: Session = NO_SESSION,
    forgotten: Iterable[Slot] = (),
) -> bytes:
    """Encode a request for partitions of one leader."""
    topics: dict[str, list[FetchRequest.FetchPartition]] = {}
    for (topic_id, partition), each in wants.items():
        topics.setdefault(topic_id, []).append(
            FetchRequest.FetchPartition(
                partition=partition,
                current_leader_epoch=each.leader_epoch,
                fetch_offset=each.offset,
                last_fetched_epoch=each.last_epoch,
                log_start_offset=each.log_start_offset,
                partition_max_bytes=each.max_bytes,
            )
        )
    gone: dict[str, list[int]] = {}
    for topic_id, partition in forgotten:
        gone.setdefault(topic_id, []).append(partition)
    request = FetchRequest(
        replica_state=FetchRequest.ReplicaState(replica_id=node, replica_epoch=life),
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        session_id=session.id,
        session_epoch=session.epoch,
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(topic_id=name, partitions=all_) for name, all_ in gone.items()
        ],
        topics=[FetchRequest.FetchTopic(topic_id=name, partitions=asked) for name, asked in topics.items()],
    )
    return encode_request(request, VERSION, correlation_id, f"replica-{node}", sized=False)


def decode_question(data: bytes) -> Question:
    """Decode a follower's request.

    Raises:
        MalformedMessageError, UnsupportedVersionError: the bytes are something else.
    """
    found = decode_request(data)
    message: Any = found.message
    if not isinstance(message, FetchRequest) or message.replica_state.replica_id < 0:
        raise MalformedMessageError("the request is no Fetch of a replica", position=0)
    node, life = message.replica_state.replica_id, message.replica_state.replica_epoch
    wants = {
        Slot(topic.topic_id, each.partition): FetchFrom(
            node,
            life,
            each.current_leader_epoch,
            each.fetch_offset,
            each.last_fetched_epoch,
            each.log_start_offset,
            each.partition_max_bytes,
        )
        for topic in message.topics
        for each in topic.partitions
    }
    forgotten = [Slot(topic.topic_id, each) for topic in message.forgotten_topics_data for each in topic.partitions]
    session = Session(message.session_id, message.session_epoch)
    return Question(
        node, life, message.max_wait_ms, found.correlation_id, wants, message.max_bytes, session, forgotten
    )


def encode_answers(
    answers: Mapping[Slot, FetchAnswer | None], correlation_id: int, *, session_id: int = 0, error_code: int = 0
) -> bytes:
    """Encode a leader's response. None stands for a partition that is not known here."""
    topics: dict[str, list[FetchResponse.PartitionData]] = {}
    for (topic_id, partition), each in answers.items():
        topics.setdefault(topic_id, []).append(_partition_data(partition, each))
    response = FetchResponse(
        error_code=error_code,
        session_id=session_id,
        responses=[
            FetchResponse.FetchableTopicResponse(topic_id=name, partitions=made) for name, made in topics.items()
        ],
    )
    try:
        return encode_response(response, VERSION, correlation_id, sized=False)
    finally:
        for each in answers.values():
            if each is not None and isinstance(each.records, FileRegion):
                each.records.close()


def _partition_data(partition: int, found: FetchAnswer | None) -> FetchResponse.PartitionData:
    if found is None:
        return FetchResponse.PartitionData(
            partition_index=partition, error_code=FetchRefusal.NOT_LEADER, high_watermark=-1
        )
    diverging = found.diverging
    return FetchResponse.PartitionData(
        partition_index=partition,
        error_code=0 if found.refusal is None else int(found.refusal),
        high_watermark=found.high_watermark,
        log_start_offset=found.log_start_offset,
        diverging_epoch=None
        if diverging is None
        else FetchResponse.EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset),
        # Kafka's quorum names a snapshot to begin with if records before it are gone. Here tombstones are.
        snapshot_id=FetchResponse.SnapshotId(end_offset=found.dropped_end) if found.dropped_end else None,
        # The epoch in which this was answered: an answer of an older leader has no effect.
        current_leader=FetchResponse.LeaderIdAndEpoch(leader_epoch=found.leader_epoch),
        aborted_transactions=None,
        records=cast(Any, found.records),  # a region is read into the message
    )


def decode_answers(data: bytes, correlation_id: int) -> LeaderResponse:
    """Decode the response to the request of that number; records are views of ``data``.

    Raises:
        MalformedMessageError: the bytes are something else, or answer another request.
    """
    found = decode_response(_KEY, VERSION, data)
    message: Any = found.message
    if found.correlation_id != correlation_id:
        raise MalformedMessageError(
            f"an answer to request {found.correlation_id}, expected one to {correlation_id}", position=0
        )
    has_lost_session = message.error_code in (SESSION_NOT_FOUND, WRONG_SESSION_EPOCH)
    if message.error_code and not has_lost_session:
        raise MalformedMessageError(f"a Fetch was answered with error {message.error_code}", position=0)
    return LeaderResponse(dict(_answers(message.responses)), message.session_id, has_lost_session)


def _answers(topics: Iterable[Any]) -> Iterable[tuple[Slot, FetchAnswer]]:
    for topic in topics:
        for each in topic.partitions:
            try:
                refusal = FetchRefusal(each.error_code) if each.error_code else None
            except ValueError:
                refusal = FetchRefusal.STORAGE_FAILED  # an error of a later version: ask again
            diverging = each.diverging_epoch
            yield (
                Slot(topic.topic_id, each.partition_index),
                FetchAnswer(
                    each.current_leader.leader_epoch,
                    each.high_watermark,
                    each.log_start_offset,
                    each.records if each.records is not None and len(each.records) else None,
                    None
                    if diverging.epoch < 0 and diverging.end_offset < 0
                    else Diverging(diverging.epoch, diverging.end_offset),
                    refusal,
                    max(each.snapshot_id.end_offset, 0),
                ),
            )
