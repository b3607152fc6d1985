"""Produce requests on a connection to one broker: encoded, in flight, and answered, oldest first.

This module is responsible for the versions of Produce. The producer decides what an answer means for a batch.
Used by the thread of the producer.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from logstore.errors import BrokerUnreachableError, LogstoreError
from logstore.protocol import codes
from logstore.protocol.generated.messages import ProduceRequest
from logstore.remote.cluster import TopicMetadata
from logstore.remote.connection import Connection
from logstore.remote.in_flight import PendingBatch, PendingPartition

#: The first version of Produce that names topics by their ids.
PRODUCE_BY_ID = 13

Sent = tuple[PendingPartition, PendingBatch]


class _Request(NamedTuple):
    """Batches of a request in flight, by the topic's name or id and the partition's number."""

    batches: dict[tuple[str, int], Sent]
    by_id: bool
    sent_at: float


class Answer(NamedTuple):
    """A broker's answer for one batch."""

    partition: PendingPartition
    batch: PendingBatch
    code: int | None  #: 0: no error; None: the batch is not in the answer
    base_offset: int = -1
    message: str | None = None


class ProduceConnection:
    """A connection to one broker and the requests in flight on it."""

    __slots__ = ("_requests", "connection", "node")

    def __init__(self, connection: Connection, node: int) -> None:
        self.connection = connection
        self.node = node
        self._requests: deque[_Request] = deque()

    @property
    def in_flight(self) -> int:
        """The number of requests in flight."""
        return len(self._requests)

    @property
    def sent_at(self) -> float:
        """The time at which the oldest request in flight was sent, by `time.monotonic`."""
        return self._requests[0].sent_at

    def send(
        self, chosen: Sequence[PendingPartition], topics: Mapping[str, TopicMetadata], *, acks: int, timeout_ms: int
    ) -> None:
        """Send one request with the first unsent batch of each partition; they are in flight even if it fails.

        Raises:
            BrokerUnreachableError: the connection is lost; the request may have arrived.
            UnsupportedVersionError: the broker knows no version of ours. Nothing is in flight.
        """
        by_id = all(topics[partition.tp.topic].id for partition in chosen)
        version = self.connection.version_of(ProduceRequest, None if by_id else PRODUCE_BY_ID - 1)
        by_id = version >= PRODUCE_BY_ID
        data: dict[str, list[Any]] = {}
        batches: dict[tuple[str, int], Sent] = {}
        for partition in chosen:
            name, number = partition.tp
            batch = partition.unsent[0]
            label = topics[name].id if by_id else name
            data.setdefault(label, []).append(ProduceRequest.PartitionProduceData(index=number, records=batch.data))
            batches[label, number] = partition, batch
        request = ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name="" if by_id else label, topic_id=label if by_id else "", partition_data=partitions
                )
                for label, partitions in data.items()
            ],
        )
        # A request that fails halfway may have arrived: its batches must count as sent.
        for partition in chosen:
            partition.sent(self.node)
        self._requests.append(_Request(batches, by_id, time.monotonic()))
        self.connection.send(request, version=version)

    def receive(self) -> list[Answer]:
        """Wait for the broker's answers to the oldest request; the caller calls `completed` for each.

        Raises:
            BrokerUnreachableError: the connection is lost. Everything is in flight as before.
        """
        answer = self.connection.receive()
        request = self._requests.popleft()
        left = dict(request.batches)
        found = []
        for topic in answer.responses:
            for each in topic.partition_responses:
                sent = left.pop((topic.topic_id if request.by_id else topic.name, each.index), None)
                if sent is not None:
                    found.append(Answer(*sent, each.error_code, each.base_offset, each.error_message))
        return found + [Answer(*sent, None) for sent in left.values()]

    def fail_all(self) -> list[Sent]:
        """Close the connection; return its batches, which may have arrived. The caller calls `completed`."""
        self.connection.close()
        failed = [sent for request in self._requests for sent in request.batches.values()]
        self._requests.clear()
        return failed

    def error_of(self, answer: Answer) -> LogstoreError:
        """Return the error of a batch that was not accepted."""
        if answer.code is None:
            return BrokerUnreachableError(f"{self.connection} left {answer.partition.tp} out of its answer")
        return codes.error_of(answer.code, f"produce to {answer.partition.tp} at {self.connection}", answer.message)
