"""Record batches of a producer until a broker has acknowledged them, and the requests that carry them.

A `PendingPartition` holds the batches of one partition that are unsent, in flight, or returned for a retry, and
decides which may be sent next; it does no I/O. A `ProduceConnection` holds the requests in flight to one broker.
`ProduceLoop` uses both, in one thread at a time.
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
    """Delivery result of the batches of one `IdempotentProducer.submit`.

    ``first_offset`` and ``last_offset`` are valid once ``is_done`` is true and ``error`` is None. They are -1 if
    the broker detects a repeated batch whose offsets it no longer knows.
    """

    topic_partition: TopicPartition
    record_count: int
    waiting: int  #: batches that are not acknowledged
    first_offset: int = -1
    last_offset: int = -1
    append_time_ms: int = -1  #: of the last batch, in a topic with log-append time
    error: LogstoreError | None = None

    @property
    def is_done(self) -> bool:
        """True once every batch is acknowledged, or one has failed."""
        return self.waiting == 0 or self.error is not None


@dataclass(slots=True, eq=False)
class PendingBatch:
    """A batch that is not acknowledged yet."""

    number: int  #: in the order of `submit`
    data: memoryview
    record_count: int
    delivery: Delivery
    is_first: bool  #: whether it is the first batch of its delivery
    deadline: float  #: no retry after it; a time of `time.monotonic`
    tries: int = 0  #: failed tries, including those for which no leader was reached
    send_count: int = 0
    is_done: bool = False  #: acknowledged, or given up
    is_lost: bool = False  #: sent, and its answer was lost: it may have been written


@dataclass(slots=True, eq=False)
class PendingPartition:
    """The batches of one partition: unsent, in flight, and returned for a retry."""

    tp: TopicPartition
    producer: tuple[int, int]  #: producer id and epoch of its batches
    needs_id: bool  #: its sequences must start again, with another producer id
    doubt: LogstoreError | None = None  #: the error by which a leader no longer knew the producer
    node: int = -1  #: the broker to which its batches are in flight
    is_known: bool = False  #: whether a batch of this producer id was acknowledged
    next_sequence: int = 0
    not_before: float = 0.0
    unsent: deque[PendingBatch] = field(default_factory=deque)
    in_flight: dict[int, PendingBatch] = field(default_factory=dict)
    returned: list[PendingBatch] = field(default_factory=list)

    def may_send(self) -> bool:
        """Return whether a batch may be sent now.

        A leader that does not know a producer accepts any sequence as the producer's first. If it refused the
        first batch while the second is in flight, it would write the second before the first. So the first batch
        is sent alone. A retry is sent alone, too. A leader remembers the last five batches of a producer. A batch
        that was written and whose answer was lost must be among these five when it is sent again. Kafka's
        `RecordAccumulator` also sends retries alone.
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
        """Return whether the partition needs another producer id and has no batch in flight."""
        return self.needs_id and not self.in_flight

    def sent(self, node: int) -> PendingBatch:
        """Count the first unsent batch as in flight to broker ``node``, and return it."""
        batch = self.unsent.popleft()
        batch.send_count += 1
        self.in_flight[batch.number] = batch
        self.node = node
        return batch

    def completed(self, batch: PendingBatch) -> None:
        """Count a batch as no longer in flight: its answer has arrived, or will never arrive."""
        self.in_flight.pop(batch.number, None)

    def is_empty(self) -> bool:
        return not (self.unsent or self.in_flight or self.returned)

    def oldest(self) -> int:
        """Return the number of the oldest batch that is in flight or returned; -1 if there is none."""
        return min([*self.in_flight, *(each.number for each in self.returned)], default=-1)

    def pending(self) -> list[PendingBatch]:
        """Return all batches, unsent, in flight and returned, in the order of their numbers."""
        return sorted([*self.in_flight.values(), *self.returned, *self.unsent], key=lambda each: each.number)


Sent = tuple[PendingPartition, PendingBatch]


class _Request(NamedTuple):
    """A request in flight: its batches by (topic name or id, partition number)."""

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
    append_time_ms: int = -1


class ProduceConnection:
    """A connection to one broker and the requests in flight on it, which the broker answers oldest first.

    It encodes Produce in the version that the broker knows. The producer decides what an answer means for a batch.
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
        """Send one request with the first unsent batch of each partition.

        Raises:
            BrokerUnreachableError, BrokerTimeoutError: the connection is lost. The request may have arrived, so
                its batches count as in flight.
            UnsupportedVersionError: the broker knows no version of Produce that this client knows. None of the
                batches is in flight.
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
        """Wait for the broker's answer to the oldest request, and return one `Answer` for each of its batches.

        The caller calls `PendingPartition.completed` for each.

        Raises:
            BrokerUnreachableError, BrokerTimeoutError, ProtocolError: the connection is broken. The same batches
                are in flight as before.
        """
        answer = self.connection.receive()
        request = self._requests.popleft()
        left = dict(request.batches)
        found = []
        for topic in answer.responses:
            for each in topic.partition_responses:
                sent = left.pop((topic.topic_id if request.by_id else topic.name, each.index), None)
                if sent is not None:
                    found.append(
                        Answer(
                            *sent, each.error_code, each.base_offset, each.error_message, each.log_append_time_ms
                        )
                    )
        return found + [Answer(*sent, None) for sent in left.values()]

    def fail_all(self) -> list[Sent]:
        """Close the connection and return its batches in flight, which may have been written.

        The caller calls `PendingPartition.completed` for each.
        """
        self.connection.close()
        failed = [sent for request in self._requests for sent in request.batches.values()]
        self._requests.clear()
        return failed

    def error_of(self, answer: Answer) -> LogstoreError:
        """Return the error for an answer that does not acknowledge its batch."""
        if answer.code is None:
            return BrokerUnreachableError(f"{self.connection} left {answer.partition.tp} out of its answer")
        return codes.error_of(answer.code, f"produce to {answer.partition.tp} at {self.connection}", answer.message)
