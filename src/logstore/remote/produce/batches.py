"""Record batches of a producer until a broker has acknowledged them.

A `PendingPartition` holds the batches of one partition that are unsent, in flight, or returned for a retry, and
decides which may be sent next. No I/O; one thread uses it, that of the sockets.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from logstore.client.backend.batch_appends import Delivery
from logstore.errors import LogstoreError
from logstore.records import TopicPartition

#: What a caller is told of records that a leader may have, and of those that none has.
MAYBE_WRITTEN = "may have been written"
NOT_WRITTEN = "were not written"
NOT_SENT = "were not sent"

#: Between the numbers of two batches: those into which the first one may be split come there.
NUMBER_STEP = 1 << 32


class DeliveredPart(NamedTuple):
    """What became of one of the batches into which a batch was split that was too large for its broker."""

    first_record: int  #: the place of its first record in the batch that was split
    first_offset: int  #: -1 with an error
    append_time_ms: int
    error: LogstoreError | None


@dataclass(slots=True, eq=False)
class HandedBatch(Delivery):
    """Batches from their hand-over until they are settled.

    Their producer makes it and may give it up. The thread of the sockets sets everything else.
    """

    data: bytearray = field(default_factory=bytearray)
    deadline: float = 0.0  #: no retry after it; a time of `time.monotonic`
    is_handed: bool = False
    is_taken: bool = False  #: by the thread
    is_sent: bool = False  #: it may have left this process; then so have all before it
    is_settled: bool = False  #: acknowledged, or failed with `error`
    is_given_up: bool = False  #: its futures are answered
    retries: int = 0
    #: The results of its parts, in any order, if a broker found it too large and it was split.
    parts: list[DeliveredPart] | None = None


@dataclass(slots=True, eq=False)
class SendQueue:
    """The batches that one producer has handed over for one partition."""

    name: TopicPartition
    topic_id: str  #: of the topic that they are for; empty: brokers have no ids
    notify: Callable[[], object]  #: tells the producer that a batch is settled; calls nothing else
    #: The thread's.
    partition: PendingPartition | None = None


@dataclass(slots=True, eq=False)
class PendingBatch:
    """A batch that is not acknowledged yet."""

    number: int  #: in the order of the hand-overs
    data: memoryview
    record_count: int
    delivery: HandedBatch
    is_first: bool  #: whether it is the first batch of its delivery
    tries: int = 0  #: failed tries
    send_count: int = 0
    is_done: bool = False  #: acknowledged, or given up
    is_lost: bool = False  #: sent, and its answer was lost: it may have been written
    first_record: int = -1  #: the place of its first record, if it is a part of a batch that was split
    span: int = NUMBER_STEP  #: numbers up to the next batch's

    @property
    def deadline(self) -> float:
        return self.delivery.deadline

    @property
    def fate(self) -> str:
        """What is known of its records while they are not acknowledged."""
        if self.is_lost:
            return MAYBE_WRITTEN
        return NOT_WRITTEN if self.send_count or self.first_record >= 0 else NOT_SENT


@dataclass(slots=True, eq=False)
class PendingPartition:
    """The batches of one queue: unsent, in flight, and returned for a retry."""

    queue: SendQueue
    producer: tuple[int, int]  #: producer id and epoch of its batches
    needs_id: bool  #: its sequences must start again, with another producer id
    doubt: LogstoreError | None = None  #: the error by which a leader no longer knew the producer
    node: int = -1  #: the broker to which its batches are in flight
    is_known: bool = False  #: whether a batch of this producer id was acknowledged
    was_led: bool = False  #: whether a leader has acknowledged any batch
    next_sequence: int = 0
    not_before: float = 0.0
    delays: int = 0  #: pauses in a row for which no batch could be sent
    absences: int = 0  #: how often in a row the metadata had no such partition
    unsent: deque[PendingBatch] = field(default_factory=deque)
    in_flight: dict[int, PendingBatch] = field(default_factory=dict)
    returned: list[PendingBatch] = field(default_factory=list)

    @property
    def tp(self) -> TopicPartition:
        return self.queue.name

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

    def fate_with_others(self, batch: PendingBatch) -> str:
        """Return what is known of a batch's delivery, of which other batches may be pending or acknowledged."""
        delivery = batch.delivery
        fates = {each.fate for each in (batch, *self.pending()) if each.delivery is delivery}
        is_in_flight = any(each.delivery is delivery for each in self.in_flight.values())
        if MAYBE_WRITTEN in fates or is_in_flight or delivery.last_offset >= 0:
            return MAYBE_WRITTEN
        return NOT_SENT if fates == {NOT_SENT} else NOT_WRITTEN

    def pending(self) -> list[PendingBatch]:
        """Return all batches, unsent, in flight and returned, in the order of their numbers."""
        return sorted([*self.in_flight.values(), *self.returned, *self.unsent], key=lambda each: each.number)


def going_on(error: LogstoreError, what: str) -> LogstoreError:
    """Return a copy of an error whose message goes on with ``what``, which says more of the records."""
    made = copy.copy(error)
    made.args = (f"{error}; {what}",)
    made.__cause__ = error.__cause__ or error
    return made
