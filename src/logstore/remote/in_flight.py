"""Record batches on their way to a broker, until it has acknowledged them.

What a producer keeps of each batch and of each partition: which are unsent, in flight, or come back to be sent
again, and in which order they have to go. Pure state: no socket, no clock. The thread of the producer uses it.
"""

from __future__ import annotations

from collections import deque

from logstore.errors import LogstoreError
from logstore.records import TopicPartition

__all__ = ["Delivery", "PendingBatch", "PendingPartition"]


class Delivery:
    """What became of the batches of one `submit`.

    ``first_offset`` and ``last_offset`` stand once ``is_done`` and no ``error``; -1 where a broker said that it
    has had the records long ago, and no more where.
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
        """Whether every batch was acknowledged, or one was refused."""
        return self.waiting == 0 or self.error is not None


class PendingBatch:
    """One batch until it is acknowledged."""

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
        self.is_lost = False  #: sent, and whether it was written nobody has said


class PendingPartition:
    """The batches of one partition: unsent, in flight, and come back to be sent again; each has its number."""

    __slots__ = (
        *("doubt", "in_flight", "is_known", "needs_id", "next_sequence", "node", "not_before"),
        *("producer", "returned", "tp", "unsent"),
    )

    def __init__(self, tp: TopicPartition, producer: tuple[int, int], *, needs_id: bool) -> None:
        self.tp = tp
        self.producer = producer  #: its producer id and epoch
        self.needs_id = needs_id  #: its sequences begin anew, with another producer id
        self.doubt: LogstoreError | None = None  #: what a leader that no longer knows the producer has said
        self.node = -1  #: where its batches are in flight
        self.is_known = False  #: whether the leader has a batch of this producer id
        self.next_sequence = 0
        self.not_before = 0.0
        self.unsent: deque[PendingBatch] = deque()
        self.in_flight: dict[int, PendingBatch] = {}
        self.returned: list[PendingBatch] = []

    def may_send(self) -> bool:
        """Whether there is a batch that may go out now.

        A leader that knows nothing of a producer takes any sequence for its first: were the first batch refused and
        the second in flight, the second would stand before it. So the first goes alone. So does each batch that is
        sent again: a leader remembers the last five batches of a producer, and one that was written, whose answer
        was lost, has to be among them when it comes again (Kafka's `RecordAccumulator` sends retries alone, too).
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
        """Whether nothing is left to come back before it gets another producer id."""
        return self.needs_id and not self.in_flight

    def may_send_to(self, node: int) -> bool:
        """Whether batches may go to this broker: not while others, which belong before them, are at another."""
        return not self.in_flight or self.node == node

    def depart(self, node: int) -> PendingBatch:
        """The first unsent batch is on its way to a broker."""
        batch = self.unsent.popleft()
        batch.send_count += 1
        self.in_flight[batch.number] = batch
        self.node = node
        return batch

    def land(self, batch: PendingBatch) -> None:
        """A batch is no longer on its way: its answer is here, or none will come."""
        self.in_flight.pop(batch.number, None)

    def is_empty(self) -> bool:
        return not (self.unsent or self.in_flight or self.returned)

    def oldest(self) -> int:
        """The number of the oldest batch that was sent and is not acknowledged."""
        return min([*self.in_flight, *(each.number for each in self.returned)], default=-1)

    def pending(self) -> list[PendingBatch]:
        """Every batch that is not acknowledged, in order."""
        return sorted([*self.in_flight.values(), *self.returned, *self.unsent], key=lambda each: each.number)
