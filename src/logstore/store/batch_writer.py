"""BatchWriter over the logs of a store: a batch is written by the thread that filled it, or that flushes.

It returns the batchers of `accumulator` as they are, so no call stands between a producer and a log. Finished
batches (`LocalBatchAppends`) are written by the thread that hands them over.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from logstore.accumulator._batcher import BatchResult
from logstore.accumulator._memory import BufferMemory
from logstore.accumulator._partition_batches import Shared
from logstore.accumulator.acknowledging import Acknowledging
from logstore.accumulator.partition_batcher import PartitionBatcher
from logstore.accumulator.replicated_batcher import ReplicatedBatcher
from logstore.accumulator.syncing import AppendableLog, Syncing
from logstore.batch._encode import Encoder
from logstore.client.backend.batch_appends import BatchAppends, Delivery
from logstore.client.backend.batch_writer import BatchWriter, WritableTopic
from logstore.config.client import ProducerConfig
from logstore.errors import LogstoreError, StoreClosedError
from logstore.records import Ack, TopicPartition, acks_of
from logstore.store.host import StoreHost


class LocalBatchWriter(BatchWriter):
    """The batches of one producer of an open store.

    Owns: the threads that answer batches, which end with `close`.
    """

    AWAITED = "space on the disk, or acks of replicas"
    ADVICE = "free space, or look at the followers"
    AFTER_FORK = "call logstore.open() and store.producer() in the child"

    def __init__(self, host: StoreHost, config: ProducerConfig, failures: list[BatchResult]) -> None:
        self._host = host
        self._config = config
        self._rng = host.rng or random.Random()
        self._syncing = Syncing(host.clock)
        self._acknowledging = Acknowledging(host.clock)
        self.topics_known = host._topics_known
        self.memory = BufferMemory(config.buffer_memory, host.clock)
        self.shared = Shared(
            config=config,
            clock=host.clock,
            memory=self.memory,
            syncing=self._syncing,
            stamp=(host.next_producer_id(), 0) if config.is_idempotent else None,
            ack=_ack_of(config),
            failures=None if config.acks == "0" else failures,
        )

    def topic(self, name: str) -> WritableTopic:
        found = self._host.topic_to_send_to(name)
        config = found.config
        make: Callable[[TopicPartition, Callable[[], AppendableLog]], PartitionBatcher]
        make = partial(PartitionBatcher, shared=self.shared)
        if config.replicated and self._config.acks != "0":
            make = partial(
                ReplicatedBatcher,
                shared=self.shared,
                acks=acks_of(self._config.acks),
                replicas=partial(getattr, self._host, "replicas"),
                acknowledging=self._acknowledging,
                # Random: with a number that another node has given, new batches would count as repeated ones.
                new_producer_id=partial(self._rng.getrandbits, 62),
            )

        def batcher(number: int) -> PartitionBatcher:
            return make(TopicPartition(name, number), partial(found._log_to_write, number))

        return WritableTopic(found.id, found.partition_count, config.compacts, batcher)

    @property
    def producer_id(self) -> int:
        return -1 if self.shared.stamp is None else self.shared.stamp[0]

    @property
    def answer_count(self) -> int:
        return self._acknowledging.answer_count

    def wait(self, answer_count: int, timeout_s: float) -> None:
        self._acknowledging.wait(answer_count, timeout_s)

    def sync(self) -> None:
        self._syncing.sync()

    @property
    def sync_count(self) -> int:
        return self._syncing.sync_count

    def close(self) -> None:
        self._acknowledging.close()
        self._syncing.close()


def _ack_of(config: ProducerConfig) -> Ack | None:
    """Return ``logstore.ack`` if it is set, else `Ack.WRITTEN` for acks 0 and 1, else None: the topic's."""
    if config.default_ack is not None:
        return config.default_ack
    return None if config.acks == "all" else Ack.WRITTEN


class LocalBatchAppends(BatchAppends):
    """Appends of finished batches to the logs of a store: each is written when it is handed over."""

    #: Large enough for every codec and reader.
    batch_bytes = 512 << 10

    def __init__(self, host: StoreHost) -> None:
        self._host = host
        self._error: LogstoreError | None = None
        self._closed = False

    def submit(self, tp: TopicPartition, batches: Encoder) -> Delivery:
        self._check()
        batches.finish()
        delivery = Delivery(tp, batches.record_count, 0)
        if batches.record_count:
            try:
                log = self._host.topic(tp.topic)._log_to_write(tp.partition)
                result = log._append_encoded(batches)
            except LogstoreError as error:
                delivery.error = error
                self._error = self._error or error
            else:
                delivery.first_offset, delivery.last_offset = result.first_offset, result.last_offset
                delivery.append_time_ms = result.timestamp_ms
        return delivery

    def flush(self) -> None:
        self._check()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _check(self) -> None:
        self._host.check_open()
        if self._closed:
            raise StoreClosedError(
                "the batches come after close(); call batch_appends() again", path=self._host.path
            )

    def close(self) -> None:
        if not self._closed:
            try:
                self.flush()
            finally:
                self.abandon()

    def abandon(self) -> None:
        self._closed = True
