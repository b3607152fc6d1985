"""Batcher of a partition that has replicas: a batch stays queued until its acks have come.

The oldest batches, at most `MAX_IN_FLIGHT`, are in the log and wait side by side; they are the front of the queue.
A batch that fails with an error that Kafka's producer would retry is appended again, and those behind it too, in
their order, with their producer id and sequences. So the log recognizes a batch that it has, and the batch waits
for the acks of the earlier append. Retries end as those for lack of space do: after ``retries`` or
``delivery.timeout.ms``, with the last error. A batch that waits and has got no answer until then fails with
`DeliveryTimeoutError`.

A batch that is given up may be in the log or not, so its sequence is not used again. If the log turns out to lack
it, the next batch is out of order: that one and those behind it are not in the log either. They get another
producer id, and none is stored twice.
"""

from __future__ import annotations

from collections.abc import Callable

from logstore.accumulator._partition_batches import ProducerBatch, Shared, WriteTurn
from logstore.accumulator.acknowledging import Acknowledging, AckSource, no_node
from logstore.accumulator.partition_batcher import PartitionBatcher
from logstore.accumulator.syncing import AppendableLog
from logstore.errors import (
    DeliveryTimeoutError,
    LogstoreError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderError,
    OutOfOrderSequenceError,
)
from logstore.records import Acks, TopicPartition

#: A log remembers so many batches of a producer, and recognizes no older one. It is Kafka's number too.
MAX_IN_FLIGHT = 5

_RETRIED = (NotLeaderError, NotEnoughReplicasError, NotEnoughReplicasAfterAppendError)


class ReplicatedBatcher(PartitionBatcher):
    """A batcher of a producer with ``acks`` 1 or all, for a partition whose log is a replica."""

    def __init__(
        self,
        name: TopicPartition,
        open_log: Callable[[], AppendableLog],
        shared: Shared,
        *,
        acks: Acks,
        replicas: Callable[[], AckSource | None],
        acknowledging: Acknowledging,
        new_producer_id: Callable[[], int],
    ) -> None:
        """Batch for a partition; ``replicas`` returns the replicas of the store, None while it has no node.

        ``new_producer_id`` returns a number that no other producer of the cluster has, on whichever node.
        """
        super().__init__(name, open_log, shared)
        self._acks = acks
        self._replicas = replicas
        self._acknowledging = acknowledging
        self._new_producer_id = new_producer_id
        self._has_replicas = True
        if self._producer_id >= 0:
            self._producer_id = new_producer_id()

    def _write_replicated(self, force: bool, turn: WriteTurn) -> None:
        """Answer the batches whose acks have come, and append as many as may wait; under `_writing`."""
        self._take_answers(turn)
        # While none may be appended, an open batch gathers more records instead of being sealed.
        self._seal_for_replicas(force, len(self._sealed) < MAX_IN_FLIGHT)
        if force or self._now_s() >= self._retry_s:
            while turn.is_done and (batch := self._next()) is not None:
                self._begin(batch, turn)
                self._take_answers(turn)
        if self._sealed:
            turn.is_done = False

    def _in_flight(self) -> list[ProducerBatch]:
        """Return the front of the queue: batches that are in flight, or may be."""
        # Not an iterator of the deque: a thread that adds a record may seal a batch meanwhile.
        return [self._sealed[index] for index in range(min(len(self._sealed), MAX_IN_FLIGHT))]

    def _next(self) -> ProducerBatch | None:
        """Return the batch to append now, None if there is none or too many wait."""
        return next((batch for batch in self._in_flight() if batch.acks is None), None)

    def _begin(self, batch: ProducerBatch, turn: WriteTurn) -> None:
        """Append a batch, and let it wait for its acks."""
        if not (batch.retries or batch.may_be_written) and self._is_late(batch):
            self._give_up(batch, self._timed_out("not written"), turn.answered)
            return
        try:
            replicas = self._replicas()
            if replicas is None:
                raise no_node(self.name)
            epoch = replicas.check_append(self.name, self._acks)
            batch.result = result = self._put_again(batch, turn.ack)
            batch.acks = replicas.wait_for_acks(self.name, result, epoch, self._acks, self._notify_answer)
        except Exception as error:
            if batch.encoder.appended_at >= 0 and not isinstance(error, LogstoreError):
                raise  # of a signal handler: the batch stays queued
            if isinstance(error, OutOfOrderSequenceError) and batch.sequence > 0:
                self._renew_producer(self._new_producer_id())
            else:
                self._fail(batch, error, turn)  # passed to the futures

    def _notify_answer(self) -> None:
        self._acknowledging.notify(self)

    def _take_answers(self, turn: WriteTurn) -> None:
        """Answer the oldest batches that are settled."""
        while self._sealed and self._sealed[0].acks is not None:
            batch = self._sealed[0]
            if batch.acks.is_settled and batch.acks.error is None:
                self._acknowledge(batch, turn)
            elif batch.acks.is_settled:
                error = batch.acks.error
                # Appended again from this one on: the log, or its leader epoch, may be another one by now.
                for each in self._in_flight():
                    each.acks = None
                self._fail(batch, error, turn)
            elif self._is_late(batch):
                first = batch.result.first_offset if batch.result is not None else -1
                error = self._timed_out(f"the records at offset {first} may be acknowledged later")
                turn.error = turn.error or error
                self._give_up(batch, error, turn.answered)
            else:
                return

    def _fail(self, batch: ProducerBatch, error: Exception, turn: WriteTurn) -> None:
        # Without a node none of them ends by itself.
        if isinstance(error, _RETRIED) and self._replicas() is not None and self._may_retry(batch):
            turn.error = turn.error or error
            turn.is_done = False
        else:
            super()._fail(batch, error, turn)

    def _is_late(self, batch: ProducerBatch) -> bool:
        return (self._now_s() - batch.opened_s) * 1000 >= self._shared.config.delivery_timeout_ms

    def _timed_out(self, what: str) -> DeliveryTimeoutError:
        limit_ms = self._shared.config.delivery_timeout_ms
        return DeliveryTimeoutError(f"{self.name}: not acknowledged within delivery.timeout.ms {limit_ms}; {what}")

    def _now_s(self) -> float:
        return self._shared.clock.monotonic_s()
