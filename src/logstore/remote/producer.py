"""Producer of record batches to the leaders of partitions: each is written once, even if requests are lost.

`IdempotentProducer` sets a producer id and sequences in finished batches, and keeps a few requests in flight to
each broker. A retry has the same sequences, so a broker detects a batch that it has already.
The producer has no thread: requests are in flight while the caller encodes the next batches. Each `submit` reads
the answers that have arrived; `flush` waits for all. One thread uses a producer at a time; a lock enforces this.
"""

from __future__ import annotations

import logging
import threading
import time
import warnings
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any

from logstore.accumulator.lifecycle import Gathering
from logstore.batch._encode import Encoder
from logstore.errors import ClientClosedError, DeliveryTimeoutError, LogstoreError
from logstore.protocol import codes
from logstore.protocol._batches import sequenced
from logstore.protocol.generated.messages import InitProducerIdRequest
from logstore.records import INT32_MAX, TopicPartition
from logstore.remote.backoff import Attempts, pause_s
from logstore.remote.client import Client
from logstore.remote.connection import BrokerConnection
from logstore.remote.in_flight import Delivery, PendingBatch, PendingPartition, ProduceConnection

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Delivery", "IdempotentProducer"]

_logger = logging.getLogger(__name__)


class IdempotentProducer(Gathering):
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
        self._cluster = client.cluster
        self._config = client.config
        self._lock = threading.RLock()
        self._numbers = 0
        self._newest = (-1, -1)  # producer id and epoch
        self._acks = -1 if self._config.enable_idempotence or self._config.acks == "all" else 1
        # Without sequences, a retry would be written after later batches that were in flight with it.
        self._most = self._config.max_in_flight_requests_per_connection if self._config.enable_idempotence else 1
        self._brokers: dict[int, ProduceConnection] = {}
        self._partitions: dict[TopicPartition, PendingPartition] = {}
        self._busy: dict[TopicPartition, PendingPartition] = {}
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
                self._busy[tp] = partition
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
        count = sum(len(partition.pending()) for partition in self._busy.values())
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

    def _take_answers(self) -> bool:
        """Read one answer from each broker that has sent one; return whether there was any answer."""
        ready = [broker for broker in self._brokers.values() if broker.in_flight and broker.connection.has_answer()]
        for broker in ready:
            self._receive(broker)
        return bool(ready)

    def _step(self) -> None:
        """Send the batches that may be sent, then wait for an answer.

        If no request is in flight and no batch was sent, wait until the first pause of a partition ends.
        """
        if any(each.awaits_id() for each in self._busy.values()):
            self._renew()
        sent = self._send_ready()
        if any(broker.in_flight for broker in self._brokers.values()):
            self._receive_oldest()
            return
        left_s = min((each.not_before for each in self._busy.values()), default=0.0) - time.monotonic()
        if not sent and left_s > 0:
            time.sleep(left_s)

    def _send_ready(self) -> bool:
        """Send all batches that may be sent now; return whether there was any batch."""
        now = time.monotonic()
        sent = False
        by_leader: dict[int, list[PendingPartition]] = {}
        for partition in list(self._busy.values()):
            if partition.not_before > now:
                continue
            if partition.returned:
                if partition.in_flight:
                    continue  # sending now would put the returned batches after later ones
                partition.unsent = deque(partition.pending())
                partition.returned = []
            if not partition.may_send():
                continue
            try:
                node, _ = self._cluster.leader(partition.tp, self._attempts(partition))
            except LogstoreError as error:
                self._put_off(partition, error)
                continue
            # A batch to another broker could be written before the batches that are in flight.
            if not partition.in_flight or partition.node == node:
                by_leader.setdefault(node, []).append(partition)
        for node, partitions in by_leader.items():
            sent |= self._send_to(node, partitions)
        return sent

    def _send_to(self, node: int, partitions: list[PendingPartition]) -> bool:
        sent = False
        broker = self._brokers.get(node)
        try:
            if broker is None:
                broker = self._brokers[node] = ProduceConnection(self._cluster.take(node), node)
            while broker.in_flight < self._most and any(each.may_send() for each in partitions):
                self._send_one(broker, partitions)
                sent = True
        except LogstoreError as error:
            if broker is not None:
                self._disconnect(broker, error)
            if broker is None or not error.retriable:
                for partition in partitions:
                    if partition.unsent:
                        self._put_off(partition, error)
        return sent

    def _attempts(self, partition: PendingPartition) -> Attempts:
        """Return the `Attempts` to find a leader, which do not outlast the deadline of the first unsent batch."""
        left_s = partition.unsent[0].deadline - time.monotonic()
        timeout_ms = min(self._config.default_api_timeout_ms, max(1, int(left_s * 1000)))
        return self._cluster.attempts(f"produce to {partition.tp}", timeout_ms)

    def _send_one(self, broker: ProduceConnection, partitions: list[PendingPartition]) -> None:
        """Send one request with one batch of each partition, as many as ``max.request.size`` allows."""
        chosen: list[PendingPartition] = []
        size = 0
        for partition in partitions:
            if partition.may_send():
                more = len(partition.unsent[0].data)
                if chosen and size + more > self._config.max_request_size:
                    continue
                chosen.append(partition)
                size += more
        topics = self._cluster.known.topics
        broker.send(chosen, topics, acks=self._acks, timeout_ms=self._config.request_timeout_ms)

    def _receive_oldest(self) -> None:
        waiting = [broker for broker in self._brokers.values() if broker.in_flight]
        self._receive(min(waiting, key=lambda broker: broker.sent_at))

    def _receive(self, broker: ProduceConnection) -> None:
        """Wait for the next answer of a broker, and handle it."""
        try:
            answers = broker.receive()
        except LogstoreError as error:
            self._disconnect(broker, error)
            return
        for each in answers:
            each.partition.completed(each.batch)
            if each.code == 0:
                self._acknowledge(each.partition, each.batch, each.base_offset)
            elif each.code == codes.DUPLICATE_SEQUENCE_NUMBER:
                self._acknowledge(each.partition, each.batch, -1)
            elif each.code is None:
                each.batch.is_lost = True
                self._return(each.partition, each.batch, broker.error_of(each))
            else:
                each.batch.is_lost |= each.code in codes.MAYBE_WRITTEN
                self._refuse(each.partition, each.batch, each.code, broker.error_of(each))

    def _disconnect(self, broker: ProduceConnection, error: LogstoreError) -> None:
        """Handle a broken connection: retry its batches in flight, or fail them if the error is not retriable."""
        self._brokers.pop(broker.node, None)
        for partition, batch in broker.fail_all():
            partition.completed(batch)
            batch.is_lost = True
            if error.retriable:
                self._return(partition, batch, error)
            else:
                self._fail(partition, error, batch)

    # -- handling of answers -----------------------------------------------------------------------

    def _acknowledge(self, partition: PendingPartition, batch: PendingBatch, base_offset: int) -> None:
        partition.is_known = self._config.enable_idempotence
        if batch.is_done:
            return  # the batch has failed already; its answer arrived later
        self._finish(batch)
        delivery = batch.delivery
        delivery.waiting -= 1
        if base_offset >= 0:
            if batch.is_first:
                delivery.first_offset = base_offset
            delivery.last_offset = max(delivery.last_offset, base_offset + batch.record_count - 1)
        if partition.is_empty():
            self._busy.pop(partition.tp, None)

    def _refuse(self, partition: PendingPartition, batch: PendingBatch, code: int, error: LogstoreError) -> None:
        if batch.is_done:
            return
        if code in (codes.OUT_OF_ORDER_SEQUENCE_NUMBER, codes.UNKNOWN_PRODUCER_ID, codes.INVALID_PRODUCER_EPOCH):
            oldest = partition.oldest()
            if 0 <= oldest < batch.number:
                # An earlier batch is missing and will be retried: failing this one would break the order.
                partition.returned.append(batch)
                return
            if self._config.enable_idempotence:
                # The broker has forgotten this producer or its earlier batches: it would refuse every retry.
                _logger.warning("%s; going on with another producer id", error)
                partition.needs_id = True
                partition.doubt = error
                self._return(partition, batch, error)
                return
        if not codes.is_retriable(code):
            self._fail(partition, error, batch)
            return
        self._return(partition, batch, error)

    def _return(self, partition: PendingPartition, batch: PendingBatch, error: LogstoreError) -> None:
        """Retry a batch after a pause, or fail it if no time or no retry is left."""
        if batch.is_done:
            return
        batch.tries += 1
        if time.monotonic() >= batch.deadline or batch.tries > self._config.retries:
            late = DeliveryTimeoutError(
                f"{batch.delivery.record_count} records for {partition.tp} were not acknowledged in {batch.tries} "
                f"tries and delivery.timeout.ms={self._config.delivery_timeout_ms}; they may have been written. "
                f"The last reason: {error}"
            )
            late.__cause__ = error
            self._fail(partition, late, batch)
            return
        partition.returned.append(batch)
        self._delay(partition, batch)

    def _put_off(self, partition: PendingPartition, error: LogstoreError) -> None:
        """Delay a partition whose leader cannot be reached, or fail its batches if no time is left."""
        batch = partition.unsent[0]
        if error.retriable and time.monotonic() < batch.deadline:
            batch.tries += 1
            self._delay(partition, batch)
            return
        if error.retriable:
            late = DeliveryTimeoutError(
                f"{batch.delivery.record_count} records for {partition.tp} were not sent within "
                f"delivery.timeout.ms={self._config.delivery_timeout_ms}. The last reason: {error}"
            )
            late.__cause__ = error
            error = late
        self._fail(partition, error)

    def _delay(self, partition: PendingPartition, batch: PendingBatch) -> None:
        """Send no batch of a partition for a while, then ask for its leader again."""
        config = self._config
        pause = pause_s(batch.tries - 1, config.retry_backoff_ms, config.retry_backoff_max_ms)
        partition.not_before = time.monotonic() + pause
        self._cluster.forget([partition.tp.topic])

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
        self._busy.pop(partition.tp, None)
        # The sequences have a gap now: the broker would refuse every later batch.
        partition.needs_id = self._config.enable_idempotence
        partition.doubt = None

    def _finish(self, batch: PendingBatch) -> None:
        if not batch.is_done:
            batch.is_done = True
            self._unacknowledged_bytes -= len(batch.data)

    # -- the producer id ---------------------------------------------------------------------------

    def _renew(self) -> None:
        """Get a producer id for the partitions that need one, and give their waiting batches sequences from 0.

        Other partitions keep theirs: a broker detects repeated batches by their old id and sequences.

        Raises:
            LogstoreError: no broker has given a producer id. The waiting batches of these partitions have failed.
        """
        for partition in list(self._busy.values()):
            if partition.awaits_id():
                self._check_doubt(partition)

        def ask(connection: BrokerConnection) -> Any:
            answer = connection.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT32_MAX))
            if answer.error_code:
                raise codes.error_of(answer.error_code, f"a producer id from {connection}")
            return answer

        timeout_ms = min(self._config.default_api_timeout_ms, self._config.delivery_timeout_ms)
        try:
            answer = self._cluster.at_any("a producer id", ask, timeout_ms)
        except LogstoreError as error:
            for partition in list(self._busy.values()):
                if partition.needs_id:
                    self._fail(partition, error)
            raise
        self._newest = answer.producer_id, answer.producer_epoch
        for partition in self._partitions.values():
            if not partition.awaits_id():
                continue
            sequence = 0
            for batch in partition.pending():
                sequenced(batch.data, *self._newest, sequence)
                sequence = (sequence + batch.record_count) & INT32_MAX
            partition.producer = self._newest
            partition.next_sequence = sequence
            partition.is_known = False
            partition.needs_id = False
            partition.doubt = None

    def _check_doubt(self, partition: PendingPartition) -> None:
        """Fail a partition with a batch that may have been written: a new id and sequence could write it twice."""
        lost = next((each for each in partition.pending() if each.is_lost), None)
        if lost is not None:
            late = DeliveryTimeoutError(
                f"{lost.delivery.record_count} records for {partition.tp} may have been written or not: their "
                f"answer was lost, and the leader no longer knows this producer: {partition.doubt}"
            )
            late.__cause__ = partition.doubt
            self._fail(partition, late)
