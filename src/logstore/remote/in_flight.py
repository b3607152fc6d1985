"""Record batches of a producer until a broker has acknowledged them.

It keeps for each partition which batches are unsent, in flight, or returned for a retry, and the order in which
they must be sent. Pure state: no socket, no clock. Used by the thread of the producer.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from logstore.errors import LogstoreError
from logstore.records import TopicPartition


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

    def may_send_to(self, node: int) -> bool:
        """Return whether batches may be sent to this broker: not while earlier ones are in flight to another."""
        return not self.in_flight or self.node == node

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
