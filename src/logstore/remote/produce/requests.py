"""Produce requests and their answers: which batches go together, and what an answer says of each. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from logstore.protocol.generated.messages import ProduceRequest
from logstore.remote.metadata.known import KnownTopic
from logstore.remote.produce.batches import PendingBatch, PendingPartition

#: The first version of Produce that names topics by their ids.
PRODUCE_BY_ID = 13

Sent = tuple[PendingPartition, PendingBatch]


class SentRequest(NamedTuple):
    """A request: its batches by (topic name or id, partition number)."""

    message: ProduceRequest
    version: int
    batches: dict[tuple[str, int], Sent]

    def answers(self, answer: Any) -> Iterator[tuple[PendingPartition, PendingBatch, Any | None]]:
        """Yield for each batch what an answer says of it; None: the answer leaves it out."""
        left = dict(self.batches)
        by_id = self.version >= PRODUCE_BY_ID
        for topic in answer.responses:
            label = topic.topic_id if by_id else topic.name
            for part in topic.partition_responses:
                sent = left.pop((label, part.index), None)
                if sent is not None:
                    yield (*sent, part)
        for sent in left.values():
            yield (*sent, None)


def chosen_of(partitions: Sequence[PendingPartition], max_request_size: int) -> list[PendingPartition]:
    """Return the partitions of which a batch may be sent, as many as fit in one request, at least one."""
    chosen: list[PendingPartition] = []
    size = 0
    for partition in partitions:
        if partition.may_send():
            more = len(partition.unsent[0].data)
            if chosen and size + more > max_request_size:
                continue
            chosen.append(partition)
            size += more
    return chosen


def produce_request(
    chosen: Sequence[PendingPartition],
    topics: Mapping[str, KnownTopic],
    version: int,
    *,
    node: int,
    acks: int,
    timeout_ms: int,
) -> SentRequest:
    """Return the request to broker ``node`` with the first unsent batch of each partition, which counts as sent.

    A version that names topics by their ids names those that the batches are for: a broker refuses them once
    another topic has the name. ``version`` is lowered if one of the topics has no id.
    """
    ids = [each.queue.topic_id or topics[each.queue.name.topic].id for each in chosen]
    if version >= PRODUCE_BY_ID and not all(ids):
        version = PRODUCE_BY_ID - 1
    by_id = version >= PRODUCE_BY_ID
    data: dict[str, list[Any]] = {}
    batches: dict[tuple[str, int], Sent] = {}
    for partition, topic_id in zip(chosen, ids, strict=True):
        name, number = partition.queue.name
        label = topic_id if by_id else name
        batch = partition.sent(node)
        data.setdefault(label, []).append(ProduceRequest.PartitionProduceData(index=number, records=batch.data))
        batches[label, number] = partition, batch
    message = ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name="" if by_id else label, topic_id=label if by_id else "", partition_data=partitions
            )
            for label, partitions in data.items()
        ],
    )
    return SentRequest(message, version, batches)
