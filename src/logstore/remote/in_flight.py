"""Record batches of a producer until a broker has acknowledged them.

It keeps for each partition which batches are unsent, in flight, or returned for a retry, and the order in which
they must be sent. Pure state: no socket, no clock. Used by the thread of the producer.
"""

from __future__ import annotations

from collections import deque

from logstore.errors import LogstoreError
from logstore.records import TopicPartition

__all__ = ["Delivery", "PendingBatch", "PendingPartition"]


class Delivery:
    """Delivery result of the batches of one `submit`.

    ``first_offset`` and ``last_offset`` are valid once ``is_done`` and no ``error``; -1 if the broker answered that
    it has had the records long ago, and no longer knows their offsets.
    """

    __slots__ = ("error", "first_offset", "last_offset", "record_count", "topic_partition", "waiting")

    def __init__(self, tp: TopicPartition, record_count: int, batch_count: int) -> None:
        self.topic_partition = tp
        self.record_count = record_count
        self.first_offset = -1
        self.last_offset = -1
        self.error: LogstoreError | None = None
        self.waiting = batch_count

    @property
    def is_done(self) -> bool:
        """True once every batch was acknowledged, or one was refused."""
        return self.waiting == 0 or self.error is not None


class PendingBatch:
    """A batch that is not acknowledged yet."""

    __slots__ = (
        *("data", "deadline", "delivery", "is_done", "is_first"),
        *("is_lost", "number", "record_count", "send_count", "tries"),
    )

    def __init__(
        self, number: int, data: memoryview, record_count: int, delivery: Delivery, is_first: bool, deadline: float
    ) -> None:
        self.number = number
        self.data = data
        self.record_count = record_count
        self.delivery = delivery
        self.is_first = is_first
        self.deadline = deadline
        self.tries = 0
        self.send_count = 0
        self.is_done = False  #: acknowledged, or given up
        self.is_lost = False  #: sent, and its answer was lost: it may have been written


class PendingPartition:
    """The batches of one partition: unsent, in flight, and returned for a retry; each has its number."""

    __slots__ = (
        *("doubt", "in_flight", "is_known", "needs_id", "next_sequence", "node", "not_before"),
        *("producer", "returned", "tp", "unsent"),
    )

    def __init__(self, tp: TopicPartition, producer: tuple[int, int], *, needs_id: bool) -> None:
        self.tp = tp
        self.producer = producer  #: its producer id and epoch
        self.needs_id = needs_id  #: its sequences must start again, with another producer id
        self.doubt: LogstoreError | None = None  #: error of a leader that no longer knows the producer
        self.node = -1  #: the broker to which its batches are in flight
        self.is_known = False  #: whether the leader has a batch of this producer id
        self.next_sequence = 0
        self.not_before = 0.0
        self.unsent: deque[PendingBatch] = deque()
        self.in_flight: dict[int, PendingBatch] = {}
        self.returned: list[PendingBatch] = []

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

    def may_send_to(self, node: int) -> bool:
        """Return whether batches may be sent to this broker: not while earlier ones are in flight to another."""
        return not self.in_flight or self.node == node

    def depart(self, node: int) -> PendingBatch:
        """Move the first unsent batch in flight to a broker, and return it."""
        batch = self.unsent.popleft()
        batch.send_count += 1
        self.in_flight[batch.number] = batch
        self.node = node
        return batch

    def land(self, batch: PendingBatch) -> None:
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
