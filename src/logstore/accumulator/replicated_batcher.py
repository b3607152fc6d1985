"""Batcher of a partition that has replicas: a batch stays queued until its acks have come.

The oldest batches, at most `FLIGHT_BYTES`, are in the log and wait together; they are the front of the queue. What
comes meanwhile gathers, and is appended once all of them are answered: in one write, with one wait. That delays no
answer. A follower asks again only when it has what was there at its last question, and then gets all of it. So the
cost of a round, which is mostly that of its threads, is shared by what a producer sends meanwhile.

A batch that fails with an error that Kafka's producer would retry is appended again, and those behind it too, in
their order, with their producer id and sequences. So the log recognizes a batch that it has, and the batch waits
for the acks of the earlier append. It remembers the last five with their offsets, and of older ones that it had
them: those are where an append of this batcher has put them.

Retries end as those for lack of space do: after ``retries`` or ``delivery.timeout.ms``, with the last error. A
batch that waits and has got no answer until then fails with `DeliveryTimeoutError`.

Without retries a batch is appended once. If its acks fail, it fails, and so does each that waited with it.

A batch that is given up may be in the log or not, so its sequence is not used again. If the log turns out to lack
it, the next batch is out of order: that one and those behind it are not in the log either. They get another
producer id. So none is stored twice, unless an unclean election brings back a log that has what was cut here: it
has the batches by their former id, and takes them once more by the new one. Kafka's producer, which begins another
epoch after a batch that has timed out, promises no more.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

from logstore.accumulator._partition_batches import ProducerBatch, Shared, WriteTurn
from logstore.accumulator.acknowledging import Acknowledging, AckSource, no_node
from logstore.accumulator.partition_batcher import PartitionBatcher
from logstore.accumulator.syncing import AppendableLog
from logstore.errors import (
    AppendTruncatedError,
    DeliveryTimeoutError,
    DuplicateSequenceError,
    LogstoreError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderError,
    OutOfOrderSequenceError,
)
from logstore.records import Ack, Acks, AppendResult, ProducerStamp, TopicPartition

#: Of the batches of a partition that wait together. A follower asks for so much of a partition at a time
#: (``replica.fetch.max.bytes``), so one round of each serves all of them.
FLIGHT_BYTES = 1 << 20

_RETRIED = (AppendTruncatedError, NotLeaderError, NotEnoughReplicasError, NotEnoughReplicasAfterAppendError)


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
        self._is_answered_later = True
        self._thread_that_begins = 0
        if self._producer_id >= 0:
            self._producer_id = new_producer_id()

    def _write_later(self, force: bool, turn: WriteTurn) -> None:
        """Answer the batches whose acks have come, and append as many as may wait; under `_writing`."""
        self._take_answers(turn)
        # While none may be appended, an open batch gathers more records instead of being sealed.
        self._seal_later(force, not self._waits)
        if force or self._now_s() >= self._retry_s:
            while turn.is_done and self._sealed and not self._waits:
                self._begin(self._front(FLIGHT_BYTES), turn)
                self._take_answers(turn)
        if self._sealed:
            turn.is_done = False

    def _begin(self, batches: list[ProducerBatch], turn: WriteTurn) -> None:
        """Append batches in their order, up to one that fails, and let them wait for their acks."""
        late = [each for each in batches if self._is_late(each) and not (each.retries or each.may_be_written)]
        if late:
            for each in late:
                self._give_up(each, self._timed_out("not written"), turn.answered)
            return
        appended: list[ProducerBatch] = []
        try:
            replicas = self._replicas()
            if replicas is None:
                raise no_node(self.name)
            epoch = replicas.check_append(self.name, self._acks)
            try:
                while len(appended) < len(batches):
                    appended += self._append_first(batches[len(appended) :], turn)
            finally:
                if appended:
                    self._wait(replicas, epoch, appended)
        except Exception as error:
            batch = next((each for each in batches if each.acks is None), batches[0])
            if batch.encoder.appended_at >= 0 and not isinstance(error, LogstoreError):
                raise  # of a signal handler: the batch stays queued
            if isinstance(error, OutOfOrderSequenceError) and batch.sequence > 0:
                self._renew_producer(self._new_producer_id())
            else:
                self._fail(batch, error, turn)  # passed to the futures

    def _append_first(self, batches: list[ProducerBatch], turn: WriteTurn) -> list[ProducerBatch]:
        """Append the first of these batches, or as many as one write takes; return them with their results."""
        new = list(itertools.takewhile(_is_new, batches))
        if len(new) > 1 and turn.ack is Ack.WRITTEN:
            results = self._put_together(new)
            for batch, result in zip(new, results, strict=False):
                batch.result = result
            if results:
                return new[: len(results)]
        batch = batches[0]
        try:
            batch.result = self._put_again(batch, turn.ack)
        except DuplicateSequenceError:
            if batch.written is None:
                raise
            # The log has it, or had it before a compaction, and does not say where.
            batch.result = self._kept_of(batch, batch.written)
        return [batch]

    def _kept_of(self, batch: ProducerBatch, written: tuple[AppendResult, ...]) -> AppendResult:
        """Return which append of a batch the log still has: it may have been cut after one, and copied since."""
        stamp = ProducerStamp(batch.producer_id, 0, batch.sequence)
        return next((each for each in written if self.log._holds_batch(each.first_offset, stamp)), written[-1])

    def _wait(self, replicas: AckSource, epoch: int, batches: list[ProducerBatch]) -> None:
        """Let batches that are in the log wait for the acks of the last one."""
        result = batches[-1].result
        assert result is not None
        self._thread_that_begins = threading.get_ident()
        try:
            wait = replicas.wait_for_acks(self.name, result, epoch, self._acks, self._notify_answer)
        finally:
            self._thread_that_begins = 0
        for batch in batches:
            batch.acks = wait

    def _notify_answer(self) -> None:
        # The thread that begins to wait looks by itself.
        if threading.get_ident() != self._thread_that_begins:
            self._acknowledging.notify(self)

    def _take_answers(self, turn: WriteTurn) -> None:
        """Answer the oldest batches that are settled."""
        while self._sealed and self._sealed[0].acks is not None:
            batch = self._sealed[0]
            if batch.acks.is_settled and batch.acks.error is None:
                self._acknowledge(batch, turn)
            elif batch.acks.is_settled:
                error = batch.acks.error
                # Appended again from this one on: the log, or its leader epoch, may be another one by now. Without
                # retries each of them fails instead: it is in the log, and has no sequence to be recognized by.
                if self._shared.config.retries:
                    for each in self._front(FLIGHT_BYTES):
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


def _is_new(batch: ProducerBatch) -> bool:
    """Whether no append has tried to write the batch."""
    return batch.sequence < 0 and not batch.retries and not batch.may_be_written
