"""Batcher of one partition: the open batch, the sealed batches, and their order.

A record is added to the open batch under `_lock`, or without a lock on the fast path (`_batcher.FastBatcher`).
Batches are appended in order under `_writing`, so records can be added meanwhile. With a producer id a batch gets
its sequence when it is first appended, and keeps it until it is in the log. So the log detects a retried batch.
The next batch reuses the sequence of a batch that is given up: there is no gap. Lock order: `_writing`, then
`_lock`. Neither is held while a future's callbacks run.

The steps of every batch are compiled (`_partition_batches`); those after an error, and the close, are here. The
batcher does not close the log. Any thread may use a batcher.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf
from typing import NamedTuple

from logstore.accumulator._batcher import BatchResult
from logstore.accumulator._partition_batches import PartitionBatches, ProducerBatch, WriteTurn
from logstore.errors import OUT_OF_RESOURCES, NotSyncedError, RecordError
from logstore.io._interrupts import held
from logstore.records import Codec

_logger = logging.getLogger(__name__)


class BatchConfig(NamedTuple):
    """Batch settings of an appender, which never gives up a batch for lack of time or space.

    A producer uses its `ProducerConfig` instead, which has the same fields and more.
    """

    linger_ms: int
    batch_size: int
    codec: Codec
    level: int  #: of the codec
    max_request_size: float = inf
    retries: float = inf
    retry_backoff_ms: int = 0
    delivery_timeout_ms: float = inf


class PartitionBatcher(PartitionBatches):
    """A batcher that collects records for one partition and appends them in order."""

    def newest_result(self) -> BatchResult | None:
        """Return the result of the newest batch, which is written last; None if no batch is left."""
        with held(self._lock):
            batch = self._batch or (self._sealed[-1] if self._sealed else None)
            return None if batch is None else batch.batch_result

    def _fail(self, batch: ProducerBatch, error: Exception, turn: WriteTurn) -> None:
        """Give up a batch that could not be appended, or leave it for another try."""
        turn.error = turn.error or error
        if isinstance(error, OUT_OF_RESOURCES):
            if self._may_retry(batch):
                _logger.info("records wait for room: partition=%s error=%s", self.name, error)
                turn.is_done = False
                return
        elif self._shared.raises:
            if not turn.waits:
                # Set under `_writing`: a flush that waits for this write finds the error afterwards.
                self.failure = error
            if not isinstance(error, (RecordError, NotSyncedError)):
                batch.batch_result.fail(error)
                turn.answered.append(batch.batch_result)
                turn.is_done = False
                return
        self._give_up(batch, error, turn.answered)

    def _may_retry(self, batch: ProducerBatch) -> bool:
        now_s = self._shared.clock.monotonic_s()
        batch.retries += 1
        self.counts.retries += 1
        self._retry_s = now_s + self._shared.config.retry_backoff_ms / 1000
        return (
            batch.retries <= self._shared.config.retries
            and (now_s - batch.opened_s) * 1000 < self._shared.config.delivery_timeout_ms
        )

    def _give_up(self, batch: ProducerBatch, error: BaseException, answered: list[BatchResult]) -> None:
        batch.batch_result.fail(error)
        answered.append(batch.batch_result)
        self._sealed.remove(batch)
        if batch.sequence >= 0 and not batch.may_be_written:
            # Batches are in order, so no later batch has a sequence yet: the next one reuses this.
            self._next_sequence = batch.sequence
        self.counts.failed_records += batch.encoder.pending_records
        self._release(batch)

    def abandon(self, error: BaseException) -> None:
        """Give up all batches that are not written: their futures are answered with ``error``."""
        answered: list[BatchResult] = []
        with held(self._writing):
            with held(self._lock):
                self._seal_locked()
            while self._sealed:
                self._give_up(self._sealed[0], error, answered)
        for batch_result in answered:
            batch_result.notify()

    def close(self, refusal: Callable[[], Exception] | None) -> None:
        """Refuse further records with the error that ``refusal`` makes; None accepts records again.

        Batches that are not written stay.
        """
        with held(self._lock):
            self._refusal = refusal
            self.pause()

    def __repr__(self) -> str:
        return f"<PartitionBatcher {self.name}>"
