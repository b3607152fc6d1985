"""Record batches of a producer until a broker has acknowledged them, and the requests that carry them.

`PendingPartition` keeps for each partition which batches are unsent, in flight, or returned for a retry, and the
order in which they must be sent: pure state. `ProduceConnection` has the requests in flight to one broker. Used by
the thread of the producer.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from logstore.errors import BrokerUnreachableError, LogstoreError
from logstore.protocol import codes
from logstore.protocol.generated.messages import ProduceRequest
from logstore.records import TopicPartition
from logstore.remote.cluster import TopicMetadata
from logstore.remote.connection import BrokerConnection

#: The first version of Produce that names topics by their ids.
PRODUCE_BY_ID = 13


@dataclass(slots=True, eq=False)
class Delivery:
    """Delivery result of the batches of one `submit`.

    ``first_offset`` and ``last_offset`` are valid once ``is_done`` and no ``error``; -1 if the broker answered that
    it has had the records long ago, and no longer knows their offsets.
    """

    topic_partition: TopicPartition
    record_count: int
    waiting: int  #: batches that are not acknowledged
    first_offset: int = -1
    last_offset: int = -1
    error: LogstoreError | None = None

    @property
    def is_done(self) -> bool:
        """True once every batch was acknowledged, or one was refused."""
        return self.waiting == 0 or self.error is not None


@dataclass(slots=True, eq=False)
class PendingBatch:
    """A batch that is not acknowledged yet."""

    number: int
    data: memoryview
    record_count: int
    delivery: Delivery
    is_first: bool  #: of its delivery
    deadline: float
    tries: int = 0
    send_count: int = 0
    is_done: bool = False  #: acknowledged, or given up
    is_lost: bool = False  #: sent, and its answer was lost: it may have been written


@dataclass(slots=True, eq=False)
class PendingPartition:
    """The batches of one partition: unsent, in flight, and returned for a retry; each has its number."""

    tp: TopicPartition
    producer: tuple[int, int]  #: its producer id and epoch
    needs_id: bool  #: its sequences must start again, with another producer id
    doubt: LogstoreError | None = None  #: error of a leader that no longer knows the producer
    node: int = -1  #: the broker to which its batches are in flight
    is_known: bool = False  #: whether the leader has a batch of this producer id
    next_sequence: int = 0
    not_before: float = 0.0
    unsent: deque[PendingBatch] = field(default_factory=deque)
    in_flight: dict[int, PendingBatch] = field(default_factory=dict)
    returned: list[PendingBatch] = field(default_factory=list)

    def may_send(self) -> bool:
        """Return whether a batch may be sent now.

        A leader that does not know a producer accepts any sequence as its first. If the first batch were refused
        with the second in flight, the second would be written before it. So the first is sent alone. A retry is
        sent alone, too: a leader remembers the last five batches of a producer, and a written batch whose answer
        was lost must be among them when it is sent again (Kafka's `RecordAccumulator` also sends retries alone).
        """
        if not self.unsent or self.needs_id:
            return False
        if not self.in_flight:
            return True
        return (
            self.is_known
            and not self.unsent[0].send_count
            and all(batch.send_count == 1 for batch in self.in_flight.values())
        )

    def awaits_id(self) -> bool:
        """Return whether it needs another producer id and no batch is in flight."""
        return self.needs_id and not self.in_flight

    def sent(self, node: int) -> PendingBatch:
        """Move the first unsent batch in flight to a broker, and return it."""
        batch = self.unsent.popleft()
        batch.send_count += 1
        self.in_flight[batch.number] = batch
        self.node = node
        return batch

    def completed(self, batch: PendingBatch) -> None:
        """Remove a batch from those in flight: its answer has arrived, or none will."""
        self.in_flight.pop(batch.number, None)

    def is_empty(self) -> bool:
        return not (self.unsent or self.in_flight or self.returned)

    def oldest(self) -> int:
        """Return the number of the oldest batch that was sent and is not acknowledged; -1 if there is none."""
        return min([*self.in_flight, *(each.number for each in self.returned)], default=-1)

    def pending(self) -> list[PendingBatch]:
        """Return every batch that is not acknowledged, in order."""
        return sorted([*self.in_flight.values(), *self.returned, *self.unsent], key=lambda each: each.number)


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
    """A connection to one broker and the requests in flight on it: encoded, sent, and answered, oldest first.

    Responsible for the versions of Produce. The producer decides what an answer means for a batch.
    """

    __slots__ = ("_requests", "connection", "node")

    def __init__(self, connection: BrokerConnection, node: int) -> None:
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
