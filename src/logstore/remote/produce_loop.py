"""Loop of a producer of record batches: which batches go to which leader, in which order, what an answer means.

`ProduceLoop` has the steps that every producer of batches takes. A subclass says who takes them, a thread or each
call, and what becomes of the other batches of a partition when one has failed. One thread at a time.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from logstore.errors import DeliveryTimeoutError, LogstoreError
from logstore.protocol import codes
from logstore.protocol._batches import sequenced
from logstore.protocol.generated.messages import InitProducerIdRequest
from logstore.records import INT32_MAX
from logstore.remote.backoff import pause_s
from logstore.remote.cluster import Cluster, TopicMetadata
from logstore.remote.connection import BrokerConnection
from logstore.remote.in_flight import Answer, PendingBatch, PendingPartition, ProduceConnection

_logger = logging.getLogger(__name__)


class ProduceSettings(NamedTuple):
    """Settings of one loop."""

    is_idempotent: bool
    acks: int  #: as Produce has them: -1 for all
    most_in_flight: int  #: requests to one broker
    max_request_size: int
    retries: int
    delivery_timeout_ms: int
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int


class ProduceLoop(ABC):
    """The batches of one producer until they are acknowledged. Owns: the connections of its requests."""

    def __init__(self, cluster: Cluster, settings: ProduceSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._numbers = 0
        self._newest = (-1, -1)  # producer id and epoch
        self._brokers: dict[int, ProduceConnection] = {}
        self._busy: dict[PendingPartition, None] = {}  #: those with batches

    def _take_answers(self) -> bool:
        """Read one answer from each broker that has sent one; return whether there was any answer."""
        ready = [broker for broker in self._brokers.values() if broker.in_flight and broker.connection.has_answer()]
        for broker in ready:
            self._receive(broker)
        return bool(ready)

    def _send_ready(self) -> bool:
        """Send all batches that may be sent now; return whether there was any batch."""
        now = time.monotonic()
        sent = False
        by_leader: dict[int, list[PendingPartition]] = {}
        for partition in list(self._busy):
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
                node = self._leader_of(partition)
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
        # Another thread may learn meanwhile that a topic is gone.
        topics = self._cluster.known.topics
        partitions = [each for each in partitions if each.tp.topic in topics]
        broker = self._brokers.get(node)
        if broker is not None and not broker.in_flight and not broker.connection.is_usable():
            # The broker has closed it: a request would be lost, and count as one that may have arrived.
            del self._brokers[node]
            broker.connection.close()
            broker = None
        try:
            if broker is None:
                broker = self._brokers[node] = ProduceConnection(self._cluster.take(node), node)
            while broker.in_flight < self._settings.most_in_flight and any(each.may_send() for each in partitions):
                self._send_one(broker, partitions, topics)
                sent = True
        except LogstoreError as error:
            if broker is not None:
                self._disconnect(broker, error)
            if broker is None or not error.retriable:
                for partition in partitions:
                    if partition.unsent:
                        self._put_off(partition, error)
        return sent

    def _send_one(
        self, broker: ProduceConnection, partitions: list[PendingPartition], topics: Mapping[str, TopicMetadata]
    ) -> None:
        """Send one request with one batch of each partition, as many as ``max.request.size`` allows."""
        chosen: list[PendingPartition] = []
        size = 0
        for partition in partitions:
            if partition.may_send():
                more = len(partition.unsent[0].data)
                if chosen and size + more > self._settings.max_request_size:
                    continue
                chosen.append(partition)
                size += more
        for partition in chosen:
            # To the end: where requests are full, each partition has its turn.
            self._busy.pop(partition, None)
            self._busy[partition] = None
        broker.send(chosen, topics, acks=self._settings.acks, timeout_ms=self._settings.request_timeout_ms)

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
                self._acknowledge(each.partition, each.batch, each)
            elif each.code == codes.DUPLICATE_SEQUENCE_NUMBER:
                self._acknowledge(each.partition, each.batch, each._replace(base_offset=-1))
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

    def _acknowledge(self, partition: PendingPartition, batch: PendingBatch, answer: Answer) -> None:
        partition.is_known = self._settings.is_idempotent
        if batch.is_done:
            return  # the batch has failed already; its answer arrived later
        self._finish(batch)
        delivery = batch.delivery
        delivery.waiting -= 1
        delivery.append_time_ms = answer.append_time_ms
        if answer.base_offset >= 0:
            if batch.is_first:
                delivery.first_offset = answer.base_offset
            delivery.last_offset = max(delivery.last_offset, answer.base_offset + batch.record_count - 1)
        if partition.is_empty():
            self._busy.pop(partition, None)

    def _refuse(self, partition: PendingPartition, batch: PendingBatch, code: int, error: LogstoreError) -> None:
        if batch.is_done:
            return
        if code in (codes.OUT_OF_ORDER_SEQUENCE_NUMBER, codes.UNKNOWN_PRODUCER_ID, codes.INVALID_PRODUCER_EPOCH):
            oldest = partition.oldest()
            if 0 <= oldest < batch.number:
                # An earlier batch is missing and will be retried: failing this one would break the order.
                partition.returned.append(batch)
                return
            if self._settings.is_idempotent:
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
        if time.monotonic() >= batch.deadline or batch.tries > self._settings.retries:
            self._fail(partition, self._final(partition, batch, error), batch)
            return
        partition.returned.append(batch)
        self._delay(partition, batch)

    def _final(self, partition: PendingPartition, batch: PendingBatch, error: LogstoreError) -> LogstoreError:
        """Return the error of a batch that is not tried again after a retriable one."""
        late = DeliveryTimeoutError(
            f"{batch.delivery.record_count} records for {partition.tp} were not acknowledged in {batch.tries} "
            f"tries and delivery.timeout.ms={self._settings.delivery_timeout_ms}; they may have been written. "
            f"The last reason: {error}"
        )
        late.__cause__ = error
        return late

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
                f"delivery.timeout.ms={self._settings.delivery_timeout_ms}. The last reason: {error}"
            )
            late.__cause__ = error
            error = late
        self._fail(partition, error)

    def _delay(self, partition: PendingPartition, batch: PendingBatch) -> None:
        """Send no batch of a partition for a while, then ask for its leader again."""
        settings = self._settings
        pause = pause_s(batch.tries - 1, settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        partition.not_before = time.monotonic() + pause
        self._cluster.forget([partition.tp.topic])

    def _finish(self, batch: PendingBatch) -> None:
        """Count a batch as acknowledged or failed."""
        batch.is_done = True

    # -- what a subclass decides

    @abstractmethod
    def _leader_of(self, partition: PendingPartition) -> int:
        """Return the broker that leads a partition, which has batches to send.

        Raises:
            LogstoreError: the partition is gone, or no broker leads it now.
        """

    @abstractmethod
    def _fail(self, partition: PendingPartition, error: LogstoreError, batch: PendingBatch | None = None) -> None:
        """Fail a batch that is neither unsent nor in flight nor returned; without one, the first unsent batch."""

    # -- the producer id

    def _new_producer_id(self, timeout_ms: int) -> None:
        """Ask any broker for a producer id; raises as `Cluster.at_any`."""

        def ask(connection: BrokerConnection) -> Any:
            answer = connection.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT32_MAX))
            if answer.error_code:
                raise codes.error_of(answer.error_code, f"a producer id from {connection}")
            return answer

        answer = self._cluster.at_any("a producer id", ask, timeout_ms)
        self._newest = answer.producer_id, answer.producer_epoch

    def _begin_again(self, partition: PendingPartition) -> None:
        """Give the batches of a partition the newest producer id, and sequences from 0 on. None is in flight."""
        sequence = 0
        for batch in partition.pending():
            sequenced(batch.data, *self._newest, sequence)
            sequence = (sequence + batch.record_count) & INT32_MAX
        partition.producer = self._newest
        partition.next_sequence = sequence
        partition.is_known = False
        partition.needs_id = False
        partition.doubt = None

    def _doubtful(self, partition: PendingPartition) -> tuple[PendingBatch, DeliveryTimeoutError] | None:
        """Return a batch that may have been written, and its error: a new id and sequence could write it twice."""
        lost = next((each for each in partition.pending() if each.is_lost), None)
        if lost is None:
            return None
        late = DeliveryTimeoutError(
            f"{lost.delivery.record_count} records for {partition.tp} may have been written or not: their "
            f"answer was lost, and the leader no longer knows this producer: {partition.doubt}"
        )
        late.__cause__ = partition.doubt
        return lost, late
