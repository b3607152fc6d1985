"""Producer of record batches to the leaders of partitions: each is written once, even if requests are lost.

`IdempotentProducer` sets a producer id and sequences in finished batches, and keeps a few requests in flight to
each broker. A retry has the same sequences, so a broker detects a batch that it has already.
The producer has no thread: requests are in flight while the caller encodes the next batches. Each `submit` reads
the answers that have arrived; `flush` waits for all. One thread uses a producer at a time; a lock enforces this.
"""

from __future__ import annotations

import threading
import time
import warnings
from types import TracebackType
from typing import TYPE_CHECKING

from logstore.accumulator.lifecycle import Gathering
from logstore.batch._encode import Encoder
from logstore.errors import ClientClosedError, LogstoreError
from logstore.protocol._batches import sequenced
from logstore.records import INT32_MAX, TopicPartition
from logstore.remote.client import Client
from logstore.remote.in_flight import Delivery, PendingBatch, PendingPartition
from logstore.remote.produce_loop import ProduceLoop, ProduceSettings

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Delivery", "IdempotentProducer"]


class IdempotentProducer(ProduceLoop, Gathering):
    """A producer of finished record batches, over a client's connections.

    The client's settings apply. Those of a producer are ``enable.idempotence`` (true by default), ``acks``,
    ``max.in.flight.requests.per.connection``, ``max.request.size``, ``buffer.memory``, ``delivery.timeout.ms`` and
    ``retries``. With idempotence all in-sync replicas have a batch when it is acknowledged, and the log has it
    once. Without idempotence a retry may write a batch twice, and ``acks=1`` or ``0`` waits for the leader alone.

    >>> with IdempotentProducer(client) as producer:                      # doctest: +SKIP
    ...     encoder = Encoder().begin(timestamp_ms=now_ms, codec=client.config.codec)
    ...     encoder.add_all([b"a", b"b"])
    ...     producer.send(TopicPartition("orders", 0), encoder)
    0

    Owns: the connections of its requests, not the client. A producer that is dropped without `close` warns if
    batches are not acknowledged, and does not wait for them.
    """

    _kind = "producer of record batches"
    _fork_advice = "the producer was made before a fork: make one in the child"

    def __init__(self, client: Client) -> None:
        config = self._config = client.config
        idempotent = config.enable_idempotence
        settings = ProduceSettings(
            is_idempotent=idempotent,
            acks=-1 if idempotent or config.acks == "all" else 1,
            # Without sequences, a retry would be written after later batches that were in flight with it.
            most_in_flight=config.max_in_flight_requests_per_connection if idempotent else 1,
            max_request_size=config.max_request_size,
            retries=config.retries,
            delivery_timeout_ms=config.delivery_timeout_ms,
            request_timeout_ms=config.request_timeout_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
        )
        super().__init__(client.cluster, settings)
        self._lock = threading.RLock()
        self._partitions: dict[TopicPartition, PendingPartition] = {}
        self._error: LogstoreError | None = None
        self._unacknowledged_bytes = 0
        self._begin_lifecycle()

    @property
    def producer_id(self) -> int:
        """The newest producer id; -1 before the first batch, and without idempotence."""
        return self._newest[0]

    # -- calls -------------------------------------------------------------------------------------

    def submit(self, tp: TopicPartition, batches: Encoder | Buffer) -> Delivery:
        """Send batches without waiting for their acknowledgement.

        ``batches`` are copied: an encoder may be used again at once. Later calls fill the returned `Delivery`, at
        the latest `flush`. This call blocks while more than ``buffer.memory`` bytes are not acknowledged. It may
        also block to find a leader, to open a connection, or to get a producer id.

        Raises:
            ClientClosedError, ForkedError: the producer is closed, or was created by another process.
            CorruptRecordError, UnsupportedFormatError: the bytes are not whole batches.
            LogstoreError: no broker has given a producer id. These batches were not sent.
        """
        with self._lock:
            self._check()
            if isinstance(batches, Encoder):
                batches.finish()
            data = bytearray(batches)
            idempotent = self._config.enable_idempotence
            partition = self._partitions.get(tp)
            if partition is None:
                needs_id = idempotent and self._newest[0] < 0
                partition = self._partitions[tp] = PendingPartition(tp, self._newest, needs_id=needs_id)
            while partition.needs_id:
                if partition.in_flight:
                    self._receive_oldest()
                else:
                    self._renew()
            found = sequenced(data, *partition.producer, partition.next_sequence if idempotent else -1)
            count = sum(records for _, _, records, _ in found)
            delivery = Delivery(tp, count, len(found))
            view = memoryview(data)
            deadline = time.monotonic() + self._config.delivery_timeout_ms / 1000
            for position, size, records, _ in found:
                self._numbers += 1
                partition.unsent.append(
                    PendingBatch(
                        self._numbers, view[position : position + size], records, delivery, position == 0, deadline
                    )
                )
            partition.next_sequence = (partition.next_sequence + count) & INT32_MAX
            if found:
                self._busy[partition] = None
                self._unacknowledged_bytes += len(data)
                self._pump()
            return delivery

    def send(self, tp: TopicPartition, batches: Encoder | Buffer) -> int:
        """Send batches, wait for their acknowledgement, and return the first offset; raises also as `submit`.

        Raises:
            DeliveryTimeoutError: a batch was not acknowledged within ``delivery.timeout.ms`` or ``retries``. It
                may have been written.
            RecordTooLargeError, InvalidRecordError, UnknownTopicError, BrokerError: a batch was refused.
        """
        delivery = self.submit(tp, batches)
        with self._lock:
            while not delivery.is_done:
                self._step()
        if delivery.error is not None:
            if self._error is delivery.error:
                self._error = None
            raise delivery.error
        return delivery.first_offset

    def flush(self) -> None:
        """Wait until every submitted batch is acknowledged or has failed.

        Raises:
            LogstoreError: the first error since the last flush that no `send` has raised; see `send`.
        """
        with self._lock:
            self._check()
            while self._busy:
                self._step()
            error, self._error = self._error, None
        if error is not None:
            raise error

    def close(self) -> None:
        """Call `flush` and release the connections. Calling it again does nothing."""
        with self._lock:
            if self._closed:
                return
            try:
                if not self._is_forked():
                    self.flush()
            finally:
                self.abandon()

    def abandon(self) -> None:
        """Release the connections without waiting. Batches in flight may be written; unsent ones are dropped."""
        with self._lock:
            self._closed = True
            for broker in self._brokers.values():
                if broker.in_flight:
                    broker.connection.close()
                self._cluster.give_back(broker.connection)
            self._brokers.clear()
            self._busy.clear()

    def _when_dropped(self) -> None:
        """Do nothing: the client does not know its producers."""

    def _release_dropped(self) -> None:
        if not self._busy:
            return
        count = sum(len(partition.pending()) for partition in self._busy)
        self.abandon()
        message = f"a producer of record batches was dropped without close(): {count} were not acknowledged"
        warnings.warn(message, ResourceWarning, stacklevel=1, source=self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close() if kind is None else self.abandon()

    def _check(self) -> None:
        if self._closed:
            raise ClientClosedError("the producer is closed")
        self._check_process()

    # -- the loop ----------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Send the batches that may be sent and read the answers that have arrived.

        Wait for answers only while more than ``buffer.memory`` bytes are not acknowledged.
        """
        self._send_ready()
        while self._take_answers():
            self._send_ready()
        while self._unacknowledged_bytes > self._config.buffer_memory:
            self._step()

    def _step(self) -> None:
        """Send the batches that may be sent, then wait for an answer.

        If no request is in flight and no batch was sent, wait until the first pause of a partition ends.
        """
        if any(each.awaits_id() for each in self._busy):
            self._renew()
        sent = self._send_ready()
        if any(broker.in_flight for broker in self._brokers.values()):
            self._receive_oldest()
            return
        left_s = min((each.not_before for each in self._busy), default=0.0) - time.monotonic()
        if not sent and left_s > 0:
            time.sleep(left_s)

    def _receive_oldest(self) -> None:
        waiting = [broker for broker in self._brokers.values() if broker.in_flight]
        self._receive(min(waiting, key=lambda broker: broker.sent_at))

    def _leader_of(self, partition: PendingPartition) -> int:
        # Not beyond the deadline of the first unsent batch.
        left_s = partition.unsent[0].deadline - time.monotonic()
        timeout_ms = min(self._config.default_api_timeout_ms, max(1, int(left_s * 1000)))
        attempts = self._cluster.attempts(f"produce to {partition.tp}", timeout_ms)
        return self._cluster.leader(partition.tp, attempts)[0]

    def _fail(self, partition: PendingPartition, error: LogstoreError, batch: PendingBatch | None = None) -> None:
        """Fail all batches of a partition: the broker would refuse the batches after a missing one.

        ``batch`` is one more, which is neither unsent nor in flight nor returned: the caller handles its answer.
        """
        failed = partition.pending() + ([batch] if batch is not None else [])
        failed = [each for each in failed if not each.is_done]
        for each in failed:
            self._finish(each)
            if each.delivery.error is None:
                each.delivery.error = error
        if self._error is None and failed:
            self._error = error
        partition.unsent.clear()
        partition.returned.clear()
        partition.in_flight.clear()
        self._busy.pop(partition, None)
        # The sequences have a gap now: the broker would refuse every later batch.
        partition.needs_id = self._settings.is_idempotent
        partition.doubt = None

    def _finish(self, batch: PendingBatch) -> None:
        if not batch.is_done:
            super()._finish(batch)
            self._unacknowledged_bytes -= len(batch.data)

    # -- the producer id ---------------------------------------------------------------------------

    def _renew(self) -> None:
        """Get a producer id for the partitions that need one, and give their waiting batches sequences from 0.

        Other partitions keep theirs: a broker detects repeated batches by their old id and sequences.

        Raises:
            LogstoreError: no broker has given a producer id. The waiting batches of these partitions have failed.
        """
        for partition in list(self._busy):
            if partition.awaits_id() and (found := self._doubtful(partition)) is not None:
                self._fail(partition, found[1])
        try:
            self._new_producer_id(min(self._config.default_api_timeout_ms, self._config.delivery_timeout_ms))
        except LogstoreError as error:
            for partition in list(self._busy):
                if partition.needs_id:
                    self._fail(partition, error)
            raise
        for partition in self._partitions.values():
            if partition.awaits_id():
                self._begin_again(partition)
