"""Sender of the batches of all producers of one cluster: one thread, and for each producer its batches in flight.

A batcher hands a `HandedBatch` over, and is told once it is settled. Only the thread touches what is in flight, so
nothing is locked. It runs no code of users. It ends with the last producer, and begins with the next.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from logstore.errors import DeliveryTimeoutError, LogstoreError, UnknownTopicError
from logstore.io._interrupts import held
from logstore.protocol._batches import sequenced
from logstore.records import INT32_MAX, TopicPartition
from logstore.remote.backoff import pause_s
from logstore.remote.cluster import UNKNOWN_TOPIC_TRIES, Cluster, TopicMetadata
from logstore.remote.in_flight import Answer, Delivery, PendingBatch, PendingPartition, ProduceConnection
from logstore.remote.produce_loop import ProduceLoop, ProduceSettings

_logger = logging.getLogger(__name__)

#: How long the thread sleeps at most while nothing happens.
_IDLE_S = 30.0


@dataclass(slots=True, eq=False)
class SendQueue:
    """The batches that one batcher has handed over."""

    name: TopicPartition
    topic_id: str
    notify: Callable[[], object]  #: tells the batcher that a batch is settled; calls nothing else
    #: The thread's.
    partition: PendingPartition | None = None
    unknown_count: int = 0  #: how often in a row no broker has known the topic


@dataclass(slots=True, eq=False)
class HandedBatch(Delivery):
    """A batch from its hand-over until it is settled.

    The batcher makes it and may give it up. The thread sets everything else.
    """

    data: bytearray = field(default_factory=bytearray)
    deadline: float = 0.0  #: of `time.monotonic`
    is_handed: bool = False
    is_taken: bool = False  #: by the thread
    is_sent: bool = False  #: it may have left this process; then so have all before it
    is_settled: bool = False  #: acknowledged, or failed with `error`
    is_given_up: bool = False  #: its futures are answered
    retries: int = 0


class Sending(ProduceLoop):
    """What one producer has handed over."""

    def __init__(self, cluster: Cluster, settings: ProduceSettings) -> None:
        super().__init__(cluster, settings)
        self._handed: deque[tuple[SendQueue, HandedBatch]] = deque()
        self._queues: dict[PendingPartition, SendQueue] = {}
        self._claims = threading.Lock()  #: for `is_sent` and `is_given_up`: the one or the other comes first
        self._has_given_up = False
        self._forgotten: dict[str, float] = {}  #: topic -> when its leaders were last asked for after an error
        self.wake: Callable[[], object] = _nothing
        self.ends = False

    @property
    def producer_id(self) -> int:
        return self._newest[0]

    # -- from the batchers

    def hand_over(self, queue: SendQueue, batch: HandedBatch) -> None:
        """Send a batch after those that were handed over before. Does not block.

        A call that is repeated after an interrupt does nothing.
        """
        self._handed.append((queue, batch))
        batch.is_handed = True
        self.wake()

    def give_up(self, batch: HandedBatch) -> bool:
        """Forget a batch that is not settled; return whether it may have been sent."""
        with held(self._claims):
            batch.is_given_up = True
            self._has_given_up = True
            return batch.is_sent

    # -- the thread

    def turn(self) -> float:
        """Send what may be sent and take the answers that have come; return how long nothing else is to be done."""
        self._take_handed()
        self._drop_given_up()
        self._renew()
        self._send_ready()
        while self._take_answers():
            self._drop_given_up()
            self._renew()
            self._send_ready()
        now = time.monotonic()
        for broker in list(self._brokers.values()):
            if broker.in_flight and now >= broker.connection.answer_due:
                self._receive(broker)
                return 0.0
        return self._idle_s(now)

    def _idle_s(self, now: float) -> float:
        due = [broker.connection.answer_due for broker in self._brokers.values() if broker.in_flight]
        pauses = [each.not_before for each in self._busy if not each.in_flight]
        if any(broker.in_flight >= self._settings.most_in_flight for broker in self._brokers.values()):
            # A partition that is not delayed waits for an answer to others.
            pauses = [max(each, now + self._settings.retry_backoff_ms / 1000) for each in pauses]
        return max(min([*due, *pauses], default=now + _IDLE_S) - now, 0.0)

    def sockets(self) -> list[int]:
        """Return what to wait for: the sockets on which answers come."""
        return [broker.connection.fileno() for broker in self._brokers.values() if broker.in_flight]

    def has_answer(self) -> bool:
        return any(broker.in_flight and broker.connection.has_answer() for broker in self._brokers.values())

    def release(self) -> None:
        """Give the connections back. Batches in flight may be written; unsent ones are dropped."""
        for broker in self._brokers.values():
            if broker.in_flight:
                broker.connection.close()
            self._cluster.give_back(broker.connection)
        self._brokers.clear()
        self._busy.clear()

    def fail_all(self, error: LogstoreError) -> None:
        """Fail every batch, after an error that is a bug."""
        self._take_handed()
        for broker in self._brokers.values():
            broker.connection.close()
        self._brokers.clear()
        for partition in list(self._busy):
            for batch in partition.pending():
                self._settle(partition, batch, error)
            partition.unsent.clear()
            partition.returned.clear()
            partition.in_flight.clear()
            partition.needs_id = self._settings.is_idempotent
        self._busy.clear()

    def _take_handed(self) -> None:
        while self._handed:
            queue, handed = self._handed.popleft()
            if handed.is_taken:
                continue
            handed.is_taken = True
            if handed.is_given_up:
                continue
            partition = queue.partition
            if partition is None:
                needs_id = self._settings.is_idempotent and self._newest[0] < 0
                partition = queue.partition = PendingPartition(queue.name, self._newest, needs_id=needs_id)
                self._queues[partition] = queue
            self._numbers += 1
            partition.unsent.append(
                PendingBatch(
                    self._numbers, memoryview(handed.data), handed.record_count, handed, True, handed.deadline
                )
            )
            if self._settings.is_idempotent and not partition.needs_id:
                sequenced(handed.data, *partition.producer, partition.next_sequence)
                partition.next_sequence = (partition.next_sequence + handed.record_count) & INT32_MAX
            self._busy[partition] = None

    def _drop_given_up(self) -> None:
        """Forget the batches whose futures are answered."""
        if not self._has_given_up:
            return
        self._has_given_up = False
        for partition in list(self._busy):
            for batch in partition.pending():
                handed = _handed(batch)
                if not handed.is_given_up:
                    break  # those behind it were sent later
                if batch.number in partition.in_flight:
                    batch.is_done = True  # it holds its place until the answer comes
                    continue
                self._remove(partition, batch)
            self._forget_if_empty(partition)

    def _leader_of(self, partition: PendingPartition) -> int:
        # One try: a partition that has no leader now does not keep the others waiting.
        node, _ = self._cluster.leader(partition.tp, self._cluster.attempts(f"produce to {partition.tp}", 0))
        queue = self._queues[partition]
        queue.unknown_count = 0
        found = self._cluster.known.topics.get(partition.tp.topic)
        if queue.topic_id and found is not None and found.id and queue.topic_id != found.id:
            raise UnknownTopicError(
                f"{partition.tp}: the topic was deleted, and another one has its name; the records were not sent"
            )
        return node

    def _put_off(self, partition: PendingPartition, error: LogstoreError) -> None:
        if isinstance(error, UnknownTopicError) and error.retriable:
            queue = self._queues[partition]
            queue.unknown_count += 1
            if queue.unknown_count >= UNKNOWN_TOPIC_TRIES:
                error = UnknownTopicError(
                    f"the cluster has no topic {partition.tp.topic!r}; the records were not sent"
                )
        if error.retriable:
            batch = partition.unsent[0]
            tries = batch.tries
            super()._put_off(partition, error)
            batch.tries = tries  # it was not sent
            return
        while partition.unsent:
            self._fail(partition, error)

    def _final(self, partition: PendingPartition, batch: PendingBatch, error: LogstoreError) -> LogstoreError:
        # As a store's: what ends with its retries has the last error.
        is_late = time.monotonic() >= batch.deadline
        return super()._final(partition, batch, error) if is_late else error

    def _delay(self, partition: PendingPartition, batch: PendingBatch) -> None:
        settings, now = self._settings, time.monotonic()
        pause = pause_s(batch.tries - 1, settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        partition.not_before = now + pause
        # Once for all partitions that have lost their leader.
        topic = partition.tp.topic
        if now - self._forgotten.get(topic, 0.0) >= settings.retry_backoff_ms / 2000:
            self._forgotten[topic] = now
            self._cluster.forget([topic])

    def _send_one(
        self, broker: ProduceConnection, partitions: list[PendingPartition], topics: Mapping[str, TopicMetadata]
    ) -> None:
        with held(self._claims):
            for partition in partitions:
                while partition.may_send() and _handed(partition.unsent[0]).is_given_up:
                    self._remove(partition, partition.unsent[0])
                if partition.may_send():
                    _handed(partition.unsent[0]).is_sent = True
        if any(each.may_send() for each in partitions):
            super()._send_one(broker, partitions, topics)
        for partition in partitions:
            self._forget_if_empty(partition)

    def _fail(self, partition: PendingPartition, error: LogstoreError, batch: PendingBatch | None = None) -> None:
        """Fail one batch; the others go on."""
        failed = partition.unsent[0] if batch is None else batch
        self._settle(partition, failed, error)
        self._remove(partition, failed)
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

    def _acknowledge(self, partition: PendingPartition, batch: PendingBatch, answer: Answer) -> None:
        is_new = not batch.is_done
        super()._acknowledge(partition, batch, answer)
        if is_new:
            self._settle(partition, batch, None)
        self._forget_if_empty(partition)

    def _settle(self, partition: PendingPartition, batch: PendingBatch, error: LogstoreError | None) -> None:
        handed = _handed(batch)
        handed.error = error
        handed.retries = batch.tries
        batch.is_done = True
        handed.is_settled = True
        self._queues[partition].notify()

    def _forget_if_empty(self, partition: PendingPartition) -> None:
        if partition.is_empty():
            self._busy.pop(partition, None)

    def _renew(self) -> None:
        """Get a producer id for the partitions that need one."""
        now = time.monotonic()
        waiting = [each for each in self._busy if each.awaits_id() and each.not_before <= now]
        for partition in waiting:
            while (found := self._doubtful(partition)) is not None:
                batch, error = found
                self._settle(partition, batch, error)
                self._remove(partition, batch)
            self._forget_if_empty(partition)
        waiting = [each for each in waiting if not each.is_empty()]
        if not waiting:
            return
        # A partition whose id has failed needs one that no leader knows; one that has had none takes the newest.
        if self._newest[0] < 0 or any(each.producer == self._newest for each in waiting):
            try:
                self._new_producer_id(0)
            except LogstoreError as error:
                for partition in waiting:
                    partition.unsent = deque(partition.pending())
                    partition.returned = []
                    self._put_off(partition, error)
                return
        for partition in waiting:
            self._begin_again(partition)


class SendThread:
    """The thread that sends for the producers of one back end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._producers: list[Sending] = []
        # Open as long as the object lives: a wake-up that comes late must not write to another file.
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self._wakeup).atexit = False
        self._thread: threading.Thread | None = None

    def add(self, producer: Sending) -> None:
        """Send for a producer from now on."""
        with held(self._lock):
            self._producers.append(producer)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="logstore-send", daemon=True)
                self._thread.start()
            producer.wake = self.wake

    def wake(self) -> None:
        """Have the thread look for what there is to send."""
        os.eventfd_write(self._wakeup, 1)

    def remove(self, producer: Sending) -> None:
        """Send no more for a producer. What it has in flight may be written."""
        producer.ends = True
        self.wake()

    def _run(self) -> None:
        while True:
            with held(self._lock):
                ended = [each for each in self._producers if each.ends]
                self._producers = [each for each in self._producers if not each.ends]
                producers = list(self._producers)
                if not producers:
                    self._thread = None
            for each in ended:
                each.release()
            if not producers:
                return
            self._turn(producers)

    def _turn(self, producers: list[Sending]) -> None:
        wait_s = _IDLE_S
        for each in producers:
            try:
                wait_s = min(wait_s, each.turn())
            except LogstoreError as error:
                each.fail_all(error)
            except Exception as error:  # a bug: its batches fail, and the other producers go on
                _logger.exception("the batches of a producer have failed")
                failed = DeliveryTimeoutError(f"the batches were not acknowledged: {error!r}; they may be written")
                failed.__cause__ = error
                each.fail_all(failed)
        if not any(each.has_answer() for each in producers):
            poll = select.poll()
            poll.register(self._wakeup, select.POLLIN)
            for each in producers:
                for descriptor in each.sockets():
                    poll.register(descriptor, select.POLLIN)
            poll.poll(wait_s * 1000)
        try:
            os.eventfd_read(self._wakeup)
        except BlockingIOError:
            pass


def _handed(batch: PendingBatch) -> HandedBatch:
    assert isinstance(batch.delivery, HandedBatch)
    return batch.delivery


def _nothing() -> None:
    """Do nothing: no thread sends for the producer yet."""
