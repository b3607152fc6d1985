"""Producer of record batches to the leaders of partitions: each is written once, even if requests are lost.

`IdempotentProducer` hands finished batches to a `Sending`, which sets a producer id and sequences in them. A retry
has the same sequences, so a broker detects a batch that it has already. Requests are in flight while the caller
encodes the next batches. One thread uses a producer at a time; a lock enforces this.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from logstore.accumulator.lifecycle import Gathering
from logstore.batch._encode import Encoder
from logstore.client.backend.batch_appends import BatchAppends, Delivery
from logstore.errors import ClientClosedError, LogstoreError
from logstore.io._interrupts import Condition, held
from logstore.protocol._batches import sequenced
from logstore.records import TopicPartition
from logstore.remote.client import Client
from logstore.remote.produce.batches import HandedBatch, SendQueue
from logstore.remote.produce.sending import ProduceSettings, Sending

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Delivery", "IdempotentProducer"]

#: How often a waiting caller looks whether the thread of the sockets still runs.
_LOOK_S = 5.0


class IdempotentProducer(Gathering, BatchAppends):
    """A producer of finished record batches, over a client's connections: the `BatchAppends` of a cluster.

    The client's settings apply. Those of a producer are ``enable.idempotence`` (true by default), ``acks``,
    ``max.in.flight.requests.per.connection``, ``max.request.size``, ``buffer.memory``, ``delivery.timeout.ms`` and
    ``retries``. With idempotence all in-sync replicas have a batch when it is acknowledged, and the log has it
    once. Without idempotence a retry may write a batch twice, and ``acks=1`` or ``0`` waits for the leader alone.
    A batch of several records that is too large for its broker is split to ``batch.size`` and sent again.

    >>> with IdempotentProducer(client) as producer:                      # doctest: +SKIP
    ...     encoder = Encoder().begin(timestamp_ms=now_ms, codec=client.config.codec)
    ...     encoder.add_all([b"a", b"b"])
    ...     producer.send(TopicPartition("orders", 0), encoder)
    0

    Owns: its sender, not the client. A producer that is dropped without `close` warns if batches are not
    acknowledged, and does not wait for them.
    """

    _kind = "producer of record batches"
    _fork_advice = "the producer was made before a fork: make one in the child"

    def __init__(self, client: Client) -> None:
        config = self._config = client.config
        self.batch_bytes = config.batch_size
        idempotent = config.enable_idempotence
        settings = ProduceSettings(
            is_idempotent=idempotent,
            acks=-1 if idempotent or config.acks == "all" else 1,
            # Without sequences, a retry would be written after later batches that were in flight with it.
            most_in_flight=config.max_in_flight_requests_per_connection if idempotent else 1,
            batch_size=config.batch_size,
            max_request_size=config.max_request_size,
            retries=config.retries,
            delivery_timeout_ms=config.delivery_timeout_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            fails_together=True,
        )
        self._cluster = client.cluster
        self._network = client.cluster.network
        self._sending = Sending(self._network.thread, client.cluster.updates, config, settings)
        self._lock = threading.RLock()
        self._settled = Condition()
        self._queues: dict[TopicPartition, SendQueue] = {}
        self._open: dict[HandedBatch, None] = {}  #: those that were not settled when they were last looked at
        self._open_bytes = 0
        self._error: LogstoreError | None = None
        self._begin_lifecycle()

    @property
    def producer_id(self) -> int:
        """The newest producer id; -1 before the first batch, and without idempotence."""
        return self._sending.producer_id

    # -- calls -------------------------------------------------------------------------------------

    def submit(self, tp: TopicPartition, batches: Encoder | Buffer) -> Delivery:
        """Send batches without waiting for their acknowledgement.

        ``batches`` are copied: an encoder may be used again at once. The returned `Delivery` is filled later, at
        the latest by `flush`. This call blocks while more than ``buffer.memory`` bytes are not acknowledged, and to
        find out about a new topic.

        Raises:
            ClientClosedError, ForkedError: the producer is closed, or was created by another process.
            CorruptRecordError, UnsupportedFormatError: the bytes are not whole batches.
        """
        self._check_process()
        with held(self._lock):
            self._check()
            if isinstance(batches, Encoder):
                batches.finish()
            data = bytearray(batches)
            found = sequenced(data, -1, -1, -1)
            count = sum(records for _, _, records, _ in found)
            deadline = time.monotonic() + self._config.delivery_timeout_ms / 1000
            delivery = HandedBatch(tp, count, len(found), data=data, deadline=deadline)
            if found:
                try:
                    queue = self._queue(tp)
                except LogstoreError as error:
                    delivery.error = error
                    delivery.is_settled = True
                    self._error = self._error or error
                    return delivery
                self._open[delivery] = None
                self._open_bytes += len(data)
                self._sending.hand_over(queue, delivery)
                while self._open and next(iter(self._open)).is_settled:
                    self._take(next(iter(self._open)))
                if self._open_bytes > self._config.buffer_memory:
                    self._wait(lambda: self._open_bytes <= self._config.buffer_memory)
            return delivery

    def send(self, tp: TopicPartition, batches: Encoder | Buffer) -> int:
        """Send batches, wait for their acknowledgement, and return the first offset; raises also as `submit`.

        Raises:
            DeliveryTimeoutError: a batch was not acknowledged within ``delivery.timeout.ms`` or ``retries``. It
                may have been written.
            RecordTooLargeError, InvalidRecordError, UnknownTopicError, BrokerError: a batch was refused.
        """
        delivery = self.submit(tp, batches)
        with held(self._lock):
            self._wait(lambda: delivery.is_done)
            if delivery.error is not None and self._error is delivery.error:
                self._error = None
        if delivery.error is not None:
            raise delivery.error
        return delivery.first_offset

    def flush(self) -> None:
        """Wait until every submitted batch is acknowledged or has failed.

        Raises:
            LogstoreError: the first error since the last flush that no `send` has raised; see `send`.
        """
        self._check_process()
        with held(self._lock):
            self._check()
            self._wait(lambda: not self._open)
            error, self._error = self._error, None
        if error is not None:
            raise error

    def close(self) -> None:
        """Call `flush` and stop sending. Calling it again does nothing."""
        if self._is_forked():
            self._closed = True
            return
        with held(self._lock):
            if self._closed:
                return
            try:
                self.flush()
            finally:
                self.abandon()

    def abandon(self) -> None:
        """Stop sending without waiting. Batches in flight may be written; unsent ones are dropped."""
        self._closed = True
        if not self._is_forked():
            self._sending.stop()

    def _when_dropped(self) -> None:
        """Do nothing: the client does not know its producers."""

    def _release_dropped(self) -> None:
        count = sum(each.waiting for each in self._open if not each.is_settled)
        self.abandon()
        if count:
            message = f"a producer of record batches was dropped without close(): {count} were not acknowledged"
            warnings.warn(message, ResourceWarning, stacklevel=1, source=self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close() if kind is None else self.abandon()

    def _check(self) -> None:
        if self._closed:
            raise ClientClosedError("the producer is closed")

    # -- waiting -----------------------------------------------------------------------------------

    def _queue(self, tp: TopicPartition) -> SendQueue:
        """Return the queue of a partition, of the topic that has the name now.

        Raises:
            LogstoreError: there is no such topic, or no broker answers.
        """
        config, cluster = self._config, self._cluster
        limit_ms = min(config.default_api_timeout_ms, config.delivery_timeout_ms)
        topic = cluster.topic(tp.topic, cluster.attempts(f"produce to {tp}", limit_ms))
        queue = self._queues.get(tp)
        if queue is None or queue.topic_id != topic.id:
            queue = self._queues[tp] = SendQueue(tp, topic.id, _notifier(self._settled))
        return queue

    def _take_settled(self) -> None:
        """Forget the batches that are settled, and keep the first error."""
        for each in [each for each in self._open if each.is_settled]:
            self._take(each)

    def _take(self, settled: HandedBatch) -> None:
        del self._open[settled]
        self._open_bytes -= len(settled.data)
        if settled.error is not None and self._error is None:
            self._error = settled.error

    def _wait(self, is_met: Callable[[], bool]) -> None:
        """Wait until something is so, by what is settled."""
        while True:
            with held(self._settled):
                self._take_settled()
                if is_met():
                    return
                self._settled.wait(_LOOK_S)
            if not self._network.is_alive() and not is_met():
                raise ClientClosedError("the client is closed: the thread of its sockets has ended")


def _notifier(settled: Condition) -> Callable[[], object]:
    def notify() -> None:
        with held(settled):
            settled.notify_all()

    # Not of the producer: one that is dropped must not be kept alive by what it has sent.
    return notify
