"""Sender of one producer's batches: which go to which leader, in which order, and what an answer means.

A `Sending` is a service of the thread of the sockets. It has a connection of its own to each broker, and several
requests in flight on it. A producer hands batches over from any thread, and is told once they are settled. Only the
thread of the sockets touches what is in flight, so nothing but the claims is locked. It runs no code of users.
"""

from __future__ import annotations

import logging
import math
import random
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from logstore.clock import retry_pause_ms
from logstore.config.remote import WireConfig
from logstore.errors import (
    BrokerError,
    BrokerUnreachableError,
    ClientClosedError,
    DeliveryTimeoutError,
    LogstoreError,
    MalformedMessageError,
    UnknownPartitionError,
    UnknownTopicError,
)
from logstore.io._interrupts import held
from logstore.protocol import codes
from logstore.protocol._batches import sequenced
from logstore.protocol.frames import encode_request
from logstore.protocol.generated.messages import InitProducerIdRequest, ProduceRequest
from logstore.records import INT32_MAX
from logstore.remote.metadata.known import KnownBroker, KnownCluster, KnownTopic, NewLeader
from logstore.remote.network.calls import Call, Waiting, answer_of
from logstore.remote.network.connection import NodeConnection, Stage
from logstore.remote.network.loop import NetworkThread
from logstore.remote.network.metadata_updates import MetadataUpdates
from logstore.remote.network.opening import version_for
from logstore.remote.produce.batches import (
    MAYBE_WRITTEN,
    NUMBER_STEP,
    DeliveredPart,
    HandedBatch,
    PendingBatch,
    PendingPartition,
    SendQueue,
    going_on,
)
from logstore.remote.produce.requests import SentRequest, chosen_of, produce_request
from logstore.remote.produce.splitting import parts_of

_logger = logging.getLogger(__name__)

#: A partition counts as missing after it was missed so often.
_MISSING = 3


class ProduceSettings(NamedTuple):
    """Settings of one producer."""

    is_idempotent: bool
    acks: int  #: as Produce has them: -1 for all
    most_in_flight: int  #: requests to one broker
    batch_size: int
    max_request_size: int
    retries: int
    delivery_timeout_ms: int
    retry_backoff_ms: int
    #: Whether the other batches of a partition fail with one that does; else they go on.
    fails_together: bool


class _Broker:
    """One broker: the connection, and how many requests it has not answered."""

    __slots__ = ("connection", "in_flight", "is_opening", "number", "version")

    def __init__(self, number: int) -> None:
        self.number = number
        self.connection: NodeConnection | None = None
        self.is_opening = False
        self.in_flight = 0
        self.version = -1  #: of Produce, once it is known

    def ready(self) -> NodeConnection | None:
        """Return the connection if it takes requests."""
        found = self.connection
        return None if found is None or self.is_opening or found.stage is Stage.CLOSED else found


class Sending:
    """What one producer has handed over. `hand_over`, `give_up` and `stop` are for any thread."""

    def __init__(
        self, thread: NetworkThread, metadata: MetadataUpdates, config: WireConfig, settings: ProduceSettings
    ) -> None:
        self._thread = thread
        self._metadata = metadata
        self._config = config
        self._settings = settings
        self._handed: deque[tuple[SendQueue, HandedBatch]] = deque()
        self._claims = threading.Lock()  #: for `is_sent` and `is_given_up`: the one or the other comes first
        self._has_given_up = False
        self._has_begun = False
        self._ended: LogstoreError | None = None
        self._is_told = False  #: whether the thread has been told of what was handed over
        # -- of the thread
        self._must_look = False
        self._due_s = math.inf
        self._known: KnownCluster | None = None
        self._numbers = 0
        self._newest = (-1, -1)  #: producer id and epoch
        self._asks_for_id = False
        self._id_failures = 0
        self._brokers: dict[int, _Broker] = {}
        self._busy: dict[PendingPartition, None] = {}  #: those with batches

    @property
    def producer_id(self) -> int:
        return self._newest[0]

    # -- from other threads ------------------------------------------------------------------------

    def hand_over(self, queue: SendQueue, batch: HandedBatch) -> None:
        """Send batches after those that were handed over before. Does not block.

        A call that is repeated after an interrupt does nothing. Once the client is closed, they fail at once.
        """
        self._handed.append((queue, batch))
        batch.is_handed = True
        try:
            if not self._has_begun:
                self._has_begun = True
                self._thread.hand_over(self._thread.add, self)
            if not self._is_told:
                self._is_told = True
                self._thread.hand_over(self._look)
        except LogstoreError as error:
            batch.error, batch.is_settled = error, True
            queue.notify()

    def give_up(self, batch: HandedBatch) -> bool:
        """Forget a batch that is not settled; return whether it may have been sent."""
        with held(self._claims):
            batch.is_given_up = True
            self._has_given_up = True
        self._must_look = True
        return batch.is_sent

    def stop(self) -> None:
        """Send no more. What is in flight may be written. Takes no lock, and may be called again."""
        if self._has_begun and self._thread.is_usable():
            self._thread.hand_over(self._thread.remove, self)

    # -- the thread: a service ---------------------------------------------------------------------

    def _look(self, now_s: float) -> None:
        # Before the look: what is handed over from now on tells the thread again.
        self._is_told = False
        self._must_look = True
        if self._ended is None:
            # At once: in the turn of all services the next fetches of consumers could be made before.
            self.turn(now_s)

    def turn(self, now_s: float) -> float:
        known = self._metadata.known
        if self._must_look or known is not self._known or now_s >= self._due_s:
            self._must_look = False
            self._known = known
            try:
                self._due_s = self._look_at_all(known, now_s)
            except Exception as error:  # noqa: BLE001  a bug: the batches fail with it
                # Else another thread closes the client: `end` fails them in a moment.
                if self._thread.is_usable() or not isinstance(error, ClientClosedError):
                    self._failed(error)
        return now_s if self._must_look else self._due_s

    def _look_at_all(self, known: KnownCluster, now_s: float) -> float:
        self._take_handed()
        if self._has_given_up:
            self._drop_given_up()
        self._renew(known, now_s)
        return self._send_ready(known, now_s)

    def end(self, error: LogstoreError) -> None:
        self._ended = error
        self._fail_all(error)

    def _failed(self, error: Exception) -> None:
        """Fail every batch after an error that is a bug: no caller may wait for ever."""
        _logger.exception("the batches of a producer have failed", exc_info=error)
        failed = DeliveryTimeoutError(f"the batches were not acknowledged: {error!r}; they {MAYBE_WRITTEN}")
        failed.__cause__ = error
        self._fail_all(failed)

    def _fail_all(self, error: LogstoreError) -> None:
        """Fail every batch, and close the connections."""
        self._take_handed()
        for broker in self._brokers.values():
            if broker.connection is not None:
                broker.connection.fail(ClientClosedError(f"{broker.connection}: the producer is closed"))
        for each in list(self._busy):
            for batch in each.pending():
                self._settle(each, batch, error)
            each.unsent.clear()
            each.returned.clear()
            each.in_flight.clear()
            each.needs_id = self._settings.is_idempotent
        self._busy.clear()

    def _take_handed(self) -> None:
        is_idempotent = self._settings.is_idempotent
        while self._handed:
            queue, handed = self._handed.popleft()
            if handed.is_taken:
                continue
            handed.is_taken = True
            if handed.is_given_up:
                continue
            partition = queue.partition
            if partition is None:
                needs_id = is_idempotent and self._newest[0] < 0
                partition = queue.partition = PendingPartition(queue, self._newest, needs_id=needs_id)
                if not self._metadata.is_wanted(queue.name.topic):
                    self._metadata.want([queue.name.topic])
            sequence = partition.next_sequence if is_idempotent else -1
            found: list[tuple[int, int, int, int]] = [(0, len(handed.data), handed.record_count, 0)]
            if handed.waiting > 1 or (is_idempotent and not partition.needs_id):
                found = sequenced(handed.data, *partition.producer, sequence)
            view = memoryview(handed.data)
            for position, size, record_count, _ in found:
                self._numbers += NUMBER_STEP
                data = view[position : position + size]
                partition.unsent.append(PendingBatch(self._numbers, data, record_count, handed, position == 0))
            if is_idempotent:
                partition.next_sequence = (sequence + handed.record_count) & INT32_MAX
            self._busy[partition] = None

    def _drop_given_up(self) -> None:
        """Forget the batches whose futures are answered."""
        self._has_given_up = False
        for partition in list(self._busy):
            for batch in partition.pending():
                if not batch.delivery.is_given_up:
                    break  # those behind it were sent later
                if batch.number in partition.in_flight:
                    batch.is_done = True  # it holds its place until the answer comes
                    continue
                self._remove(partition, batch)
            self._forget_if_empty(partition)

    # -- sending -----------------------------------------------------------------------------------

    def _send_ready(self, known: KnownCluster, now_s: float) -> float:
        """Send all batches that may be sent now; return when something else is due."""
        due_s = math.inf
        by_leader: dict[int, list[PendingPartition]] = {}
        for partition in list(self._busy):
            if partition.not_before > now_s:
                if not partition.in_flight:
                    due_s = min(due_s, partition.not_before)
                continue
            if partition.returned:
                if partition.in_flight:
                    continue  # sending now would put the returned batches after later ones
                partition.unsent = deque(partition.pending())
                partition.returned = []
            if not partition.may_send():
                continue
            try:
                node = self._leader_of(partition, known)
                if node < 0:
                    # The answer with its topic makes the next turn.
                    due_s = min(due_s, now_s + self._settings.retry_backoff_ms / 1000)
                    continue
            except LogstoreError as error:
                self._put_off(partition, error, now_s)
                if partition in self._busy:
                    due_s = min(due_s, partition.not_before)
                continue
            # A batch to another broker could be written before the batches that are in flight.
            if not partition.in_flight or partition.node == node:
                by_leader.setdefault(node, []).append(partition)
        for node, partitions in by_leader.items():
            self._send_to(self._broker(node), partitions, known, now_s)
        return due_s

    def _leader_of(self, partition: PendingPartition, known: KnownCluster) -> int:
        """Return the broker that leads a partition; -1 while brokers are asked for its topic.

        Raises:
            LogstoreError: the topic or partition is gone, or no broker is known to lead it now.
        """
        name, metadata = partition.queue.name, self._metadata
        topic = known.topics.get(name.topic)
        if topic is None:
            if not metadata.is_wanted(name.topic):
                metadata.want([name.topic])  # it was missing for long, and then dropped
            if metadata.is_missing(name.topic):
                raise UnknownTopicError(f"the cluster has no topic {name.topic!r}")
            if metadata.refusal(name.topic):
                raise codes.error_of(metadata.refusal(name.topic), f"topic {name.topic!r}")
            if metadata.problem is not None:
                raise metadata.problem
            return -1
        topic_id = partition.queue.topic_id
        if topic_id and topic.id and topic_id != topic.id:
            raise UnknownTopicError(f"{name}: the topic was deleted, and another one has its name")
        found = topic.partitions.get(name.partition)
        if found is None:
            partition.absences += 1
            count = len(topic.partitions)
            absent = UnknownPartitionError(
                f"topic {name.topic!r} has partitions 0 to {count - 1}, but no {name.partition}"
            )
            absent.retriable = partition.absences < _MISSING  # type: ignore[misc]  # it may have been added just now
            raise absent
        partition.absences = 0
        if found.leader not in known.brokers:
            raise BrokerError(
                f"partition {name} has no leader now",
                code=codes.LEADER_NOT_AVAILABLE,
                name="LEADER_NOT_AVAILABLE",
                retriable=True,
            )
        return found.leader

    def _send_to(
        self, broker: _Broker, partitions: list[PendingPartition], known: KnownCluster, now_s: float
    ) -> None:
        connection = broker.ready()
        if connection is None:
            self._open(broker, known)
            return
        if broker.version < 0:
            try:
                broker.version = version_for(ProduceRequest, connection.versions, connection)
            except LogstoreError as error:
                for partition in partitions:
                    self._put_off(partition, error, now_s)
                return
        while broker.in_flight < self._settings.most_in_flight:
            chosen = self._claimed(chosen_of(partitions, self._settings.max_request_size))
            if not chosen:
                return
            self._send_one(broker, connection, chosen, known.topics, now_s)
            if connection.stage is Stage.CLOSED:
                return

    def _claimed(self, chosen: list[PendingPartition]) -> list[PendingPartition]:
        """Mark the next batches of partitions as sent; return those that have one that is not given up."""
        with held(self._claims):
            for partition in chosen:
                while partition.may_send() and partition.unsent[0].delivery.is_given_up:
                    self._remove(partition, partition.unsent[0])
                if partition.may_send():
                    partition.unsent[0].delivery.is_sent = True
        kept = []
        for partition in chosen:
            if partition.may_send():
                kept.append(partition)
            else:
                self._forget_if_empty(partition)
        return kept

    def _send_one(
        self,
        broker: _Broker,
        connection: NodeConnection,
        chosen: list[PendingPartition],
        topics: Mapping[str, KnownTopic],
        now_s: float,
    ) -> None:
        """Send one request with one batch of each partition."""
        for partition in chosen:
            # To the end: where requests are full, each partition has its turn.
            self._busy.pop(partition, None)
            self._busy[partition] = None
        request = produce_request(
            chosen,
            topics,
            broker.version,
            node=broker.number,
            acks=self._settings.acks,
            timeout_ms=self._config.request_timeout_ms,
        )
        broker.in_flight += 1
        then = partial(self._answered, broker, request)
        self._put(connection, request.message, request.version, then, now_s)

    def _put(
        self, connection: NodeConnection, request: Any, version: int, then: Callable[[Call], object], now_s: float
    ) -> None:
        number = connection.next_number()
        frame = encode_request(request, version, number, self._config.client_id)
        limit_s = self._config.request_timeout_ms / 1000
        connection.put(Call(frame, request.API_KEY, version, number, limit_s, then), now_s)

    # -- connections -------------------------------------------------------------------------------

    def _broker(self, number: int) -> _Broker:
        return self._brokers.get(number) or self._brokers.setdefault(number, _Broker(number))

    def _open(self, broker: _Broker, known: KnownCluster) -> None:
        """Open a connection, if it is not being opened."""
        if broker.is_opening:
            return
        broker.is_opening = True
        broker.version = -1
        address = known.brokers[broker.number].address
        broker.connection = self._thread.open_soon(address, node=broker.number, then=partial(self._opened, broker))

    def _opened(self, broker: _Broker, found: Waiting[None]) -> None:
        broker.is_opening = False
        self._must_look = True
        error = found.error
        if error is None or self._ended is not None:
            return
        broker.connection = None
        now_s = self._thread.now_s()
        # Another broker may lead these partitions now.
        for partition in list(self._busy):
            leader = self._metadata.known.leader(partition.queue.name)
            if partition.unsent and not partition.in_flight and leader and leader.leader == broker.number:
                self._put_off(partition, error, now_s)
        if any(each.awaits_id() for each in self._busy):
            self._id_failed(error, now_s)

    # -- answers -----------------------------------------------------------------------------------

    def _answered(self, broker: _Broker, request: SentRequest, call: Call) -> None:
        """Handle the answer to a request, or its loss."""
        broker.in_flight -= 1
        self._must_look = True
        try:
            self._take_answer(broker, request, call)
        except Exception as error:  # noqa: BLE001  a bug: the batches fail with it
            self._failed(error)

    def _take_answer(self, broker: _Broker, request: SentRequest, call: Call) -> None:
        connection, now_s = broker.connection, self._thread.now_s()
        try:
            answer = answer_of(call)
        except LogstoreError as error:
            self._lost(request, error, now_s)
            if isinstance(error, MalformedMessageError) and connection is not None:
                connection.fail(error)
            return
        if answer.throttle_time_ms > 0 and connection is not None:
            connection.throttle(answer.throttle_time_ms)
        for partition, batch, part in request.answers(answer):
            partition.completed(batch)
            if part is None:
                batch.is_lost = True
                where = f"broker {broker.number} left {partition.tp} out of its answer"
                self._return(partition, batch, BrokerUnreachableError(where), now_s)
            elif part.error_code in (0, codes.DUPLICATE_SEQUENCE_NUMBER):
                self._acknowledge(partition, batch, part)
            else:
                batch.is_lost |= part.error_code in codes.MAYBE_WRITTEN
                self._refuse(partition, batch, part, answer, f"{connection or broker.number}", now_s)

    def _lost(self, request: SentRequest, error: LogstoreError, now_s: float) -> None:
        """Retry the batches of a request without an answer, or fail them if the error is not retriable."""
        for partition, batch in request.batches.values():
            partition.completed(batch)
            batch.is_lost = True
            if batch.is_done:
                self._forget_if_empty(partition)
            elif error.retriable:
                self._return(partition, batch, error, now_s)
            else:
                self._fail(partition, error, batch)

    def _acknowledge(self, partition: PendingPartition, batch: PendingBatch, part: Any) -> None:
        if not batch.is_done:  # else it has failed already, and its answer came later
            partition.is_known = self._settings.is_idempotent
            partition.was_led = True
            partition.delays = 0
            batch.is_done = True
            delivery = batch.delivery
            delivery.waiting -= 1
            delivery.append_time_ms = part.log_append_time_ms
            base_offset = -1 if part.error_code else part.base_offset
            if base_offset >= 0:
                if batch.is_first:
                    delivery.first_offset = base_offset
                delivery.last_offset = max(delivery.last_offset, base_offset + batch.record_count - 1)
            if batch.first_record >= 0:
                self._add_part(batch, base_offset, part.log_append_time_ms, None)
            if not delivery.waiting:
                self._tell(partition, batch)
        self._forget_if_empty(partition)

    def _refuse(
        self, partition: PendingPartition, batch: PendingBatch, part: Any, answer: Any, where: str, now_s: float
    ) -> None:
        if batch.is_done:
            self._forget_if_empty(partition)
            return
        code = part.error_code
        error = codes.error_of(code, f"produce to {partition.tp} at {where}", part.error_message)
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
                self._return(partition, batch, error, now_s)
                return
        if code == codes.MESSAGE_TOO_LARGE and batch.record_count > 1:
            self._split(partition, batch, error)
            return
        if not codes.is_retriable(code):
            self._fail(partition, error, batch)
            return
        if code == codes.NOT_LEADER_OR_FOLLOWER and not (self._settings.retries or partition.was_led):
            # The topic is new, and its leader is not ready yet. Without a retry each first batch could be lost.
            batch.tries -= 1
        led = False
        told = getattr(part, "current_leader", None)
        if told is not None and told.leader_id >= 0:
            endpoints = {
                each.node_id: KnownBroker(each.host, each.port, each.rack)
                for each in getattr(answer, "node_endpoints", ())
            }
            led = self._metadata.led([NewLeader(partition.tp, told.leader_id, told.leader_epoch)], endpoints)
        self._return(partition, batch, error, now_s, at_once=led)

    def _split(self, partition: PendingPartition, batch: PendingBatch, error: LogstoreError) -> None:
        """Send the records of a batch that is too large for its broker in smaller ones, in its place."""
        parts = parts_of(batch, self._settings.batch_size)
        _logger.info("%s; sending its %d records in %d batches", error, batch.record_count, len(parts))
        batch.delivery.waiting += len(parts) - 1
        batch.is_done = True
        partition.returned += parts

    def _return(
        self,
        partition: PendingPartition,
        batch: PendingBatch,
        error: LogstoreError,
        now_s: float,
        *,
        at_once: bool = False,
    ) -> None:
        """Retry a batch after a pause, or fail it if no time or no retry is left."""
        if batch.is_done:
            self._forget_if_empty(partition)
            return
        batch.tries += 1
        is_late = now_s >= batch.deadline
        if is_late or batch.tries > self._settings.retries:
            # As a store's: what ends with its retries has the last error.
            late = is_late or self._settings.fails_together
            self._fail(partition, self._late(partition, batch, error) if late else error, batch)
            return
        partition.returned.append(batch)
        if not at_once:
            self._delay(partition, batch.tries - 1, now_s)

    def _late(self, partition: PendingPartition, batch: PendingBatch, error: LogstoreError) -> LogstoreError:
        """Return the error of a batch that is not tried again after a retriable one."""
        count, fate = self._fate(partition, batch)
        late = DeliveryTimeoutError(
            f"{count} records for {partition.tp} were not acknowledged in {batch.tries} "
            f"tries and delivery.timeout.ms={self._settings.delivery_timeout_ms}; they {fate}. "
            f"The last reason: {error}"
        )
        late.__cause__ = error
        return late

    def _put_off(self, partition: PendingPartition, error: LogstoreError, now_s: float) -> None:
        """Delay a partition whose leader cannot be reached, or fail its batches if no time is left."""
        while partition.unsent and (not error.retriable or now_s >= partition.unsent[0].deadline):
            batch = partition.unsent[0]
            count, fate = self._fate(partition, batch)
            if error.retriable:
                found: LogstoreError = DeliveryTimeoutError(
                    f"{count} records for {partition.tp} were not acknowledged within "
                    f"delivery.timeout.ms={self._settings.delivery_timeout_ms}; they {fate}. "
                    f"The last reason: {error}"
                )
                found.__cause__ = error
            else:
                found = going_on(error, f"{count} records for {partition.tp} {fate}")
            self._fail(partition, found)
        if partition.unsent:
            self._delay(partition, partition.delays, now_s)
            partition.delays += 1

    def _delay(self, partition: PendingPartition, count: int, now_s: float) -> None:
        """Send no batch of a partition for a while, then go by newer metadata."""
        first_ms, longest_ms = self._settings.retry_backoff_ms, self._config.retry_backoff_max_ms
        partition.not_before = now_s + retry_pause_ms(count, first_ms, longest_ms, random) / 1000
        self._metadata.mark_out_of_date()

    # -- the end of a batch ------------------------------------------------------------------------

    def _fail(self, partition: PendingPartition, error: LogstoreError, batch: PendingBatch | None = None) -> None:
        """Fail a batch that is not in flight; without one, the first unsent batch.

        With `ProduceSettings.fails_together` all others of its partition fail with it.
        """
        failed = partition.unsent[0] if batch is None else batch
        if not self._settings.fails_together:
            self._settle(partition, failed, error)
            self._remove(partition, failed)
        else:
            for each in [*partition.pending(), failed]:
                self._settle(partition, each, error)
            partition.unsent.clear()
            partition.returned.clear()
            # The sequences have a gap now: the broker would refuse every later batch.
            partition.needs_id = self._settings.is_idempotent
            partition.doubt = None
        self._forget_if_empty(partition)

    def _remove(self, partition: PendingPartition, batch: PendingBatch) -> None:
        """Take a batch out of the order that has failed or was given up, and is not in flight.

        What was never sent leaves no gap in the sequences. What may have been written keeps its sequence. If the
        leader lacks it, the next batch is refused as out of order, and begins with another producer id.
        """
        if batch in partition.unsent:
            partition.unsent.remove(batch)
        if batch in partition.returned:
            partition.returned.remove(batch)
        batch.is_done = True
        if not self._settings.is_idempotent or partition.needs_id:
            return
        if batch.send_count:
            if not batch.is_lost:
                partition.needs_id = True
            return
        later = [each for each in partition.unsent if each.number > batch.number]
        sequence = partition.next_sequence - batch.record_count - sum(each.record_count for each in later)
        for each in later:
            sequenced(each.data, *partition.producer, sequence & INT32_MAX)
            sequence += each.record_count
        partition.next_sequence = sequence & INT32_MAX

    def _fate(self, partition: PendingPartition, batch: PendingBatch) -> tuple[int, str]:
        """Return of how many records an error tells, and what is known of them."""
        if self._settings.fails_together:
            return batch.delivery.record_count, partition.fate_with_others(batch)
        return batch.record_count, batch.fate

    def _settle(self, partition: PendingPartition, batch: PendingBatch, error: LogstoreError) -> None:
        """Tell that a batch has failed."""
        if batch.is_done:
            return
        count, fate = self._fate(partition, batch)
        if fate == MAYBE_WRITTEN and MAYBE_WRITTEN not in str(error):
            # The error says why the batch is not tried again. An earlier try may have been carried out.
            error = going_on(error, f"{count} records for {partition.tp} {fate}")
        batch.is_done = True
        delivery = batch.delivery
        if batch.first_record >= 0 and not self._settings.fails_together:
            delivery.waiting -= 1
            self._add_part(batch, -1, -1, error)
            if delivery.waiting:
                return  # the other parts go on
        if delivery.error is None:
            delivery.error = error
            self._tell(partition, batch)

    def _add_part(
        self, batch: PendingBatch, first_offset: int, append_time_ms: int, error: LogstoreError | None
    ) -> None:
        delivery = batch.delivery
        if delivery.parts is None:
            delivery.parts = []
        delivery.parts.append(DeliveredPart(batch.first_record, first_offset, append_time_ms, error))

    def _tell(self, partition: PendingPartition, batch: PendingBatch) -> None:
        handed = batch.delivery
        handed.retries = batch.tries
        handed.is_settled = True
        partition.queue.notify()

    def _forget_if_empty(self, partition: PendingPartition) -> None:
        if partition.is_empty():
            self._busy.pop(partition, None)

    # -- the producer id ---------------------------------------------------------------------------

    def _renew(self, known: KnownCluster, now_s: float) -> None:
        """Give the partitions that need one another producer id, and ask for one if it is not there yet."""
        waiting = [each for each in self._busy if each.needs_id and not each.in_flight and each.not_before <= now_s]
        if not waiting:
            return
        for partition in waiting:
            self._fail_doubtful(partition)
        waiting = [each for each in waiting if not each.is_empty()]
        # A partition whose id has failed needs one that no leader knows; one that has had none takes the newest.
        if waiting and (self._newest[0] < 0 or any(each.producer == self._newest for each in waiting)):
            self._ask_for_id(waiting[0], known, now_s)
            return
        for partition in waiting:
            self._begin_again(partition)

    def _fail_doubtful(self, partition: PendingPartition) -> None:
        """Fail batches that may have been written: with a new id and sequence they could be written twice."""
        while (lost := next((each for each in partition.pending() if each.is_lost), None)) is not None:
            late = DeliveryTimeoutError(
                f"{lost.delivery.record_count} records for {partition.tp} were not acknowledged; they "
                f"{MAYBE_WRITTEN} or not: their answer was lost, and the leader no longer knows this producer: "
                f"{partition.doubt}"
            )
            late.__cause__ = partition.doubt
            self._fail(partition, late, lost)

    def _ask_for_id(self, partition: PendingPartition, known: KnownCluster, now_s: float) -> None:
        """Ask a broker for a producer id: one that is connected, after a failure each in its turn."""
        if self._asks_for_id:
            return
        if not known.brokers:
            unknown = BrokerUnreachableError("a producer id: no broker is known yet")
            self._id_failed(self._metadata.problem or unknown, now_s)
            return
        numbers = sorted(known.brokers, key=lambda each: (self._broker(each).ready() is None, each))
        broker = self._broker(numbers[self._id_failures % len(numbers)])
        connection = broker.ready()
        if connection is None:
            self._open(broker, known)
            return
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT32_MAX)
        try:
            version = version_for(request, connection.versions, connection)
        except LogstoreError as error:
            self._id_failed(error, now_s)
            return
        self._asks_for_id = True
        self._put(connection, request, version, partial(self._id_given, str(connection)), now_s)

    def _id_given(self, where: str, call: Call) -> None:
        self._asks_for_id = False
        self._must_look = True
        try:
            answer = answer_of(call)
            if answer.error_code:
                raise codes.error_of(answer.error_code, f"a producer id from {where}")
        except LogstoreError as error:
            if self._ended is None:
                self._id_failed(error, self._thread.now_s())
            return
        self._id_failures = 0
        self._newest = answer.producer_id, answer.producer_epoch

    def _id_failed(self, error: LogstoreError, now_s: float) -> None:
        """Put off the partitions that wait for a producer id."""
        self._id_failures += 1
        for partition in list(self._busy):
            if partition.awaits_id():
                partition.unsent = deque(partition.pending())
                partition.returned = []
                self._put_off(partition, error, now_s)

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
