"""BatchWriter over brokers: a batch stays queued in its batcher until its leader has answered.

The batches of a partition are handed over in order, and `Sending` has several of them in flight.
While some wait to be sent, the open batch gathers more records. Each batch ends with its acknowledgement, with an
error that is not retried, after ``retries``, or when ``delivery.timeout.ms`` have passed since the producer was
given its first record.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from logstore.accumulator._batcher import BatchResult
from logstore.accumulator._memory import BufferMemory
from logstore.accumulator._partition_batches import ProducerBatch, Shared, WriteTurn
from logstore.accumulator.acknowledging import Acknowledging
from logstore.accumulator.partition_batcher import PartitionBatcher
from logstore.client.backend.batch_writer import BatchWriter, WritableTopic
from logstore.clock import SYSTEM_CLOCK, Clock
from logstore.config.log import LogConfig
from logstore.config.remote import RemoteProducerConfig
from logstore.errors import DeliveryTimeoutError, LogstoreError
from logstore.records import AppendResult, TopicPartition
from logstore.remote.client import Client
from logstore.remote.produce.batches import HandedBatch, SendQueue
from logstore.remote.produce.sending import ProduceSettings, Sending
from logstore.remote.topic_settings import TopicSettings


class TopicRules:
    """What a batcher asks of a log before a batch is handed over: the settings that its records must keep to."""

    path = ""  #: no directory of this machine

    def __init__(self, name: TopicPartition, config: LogConfig) -> None:
        self.name = name
        self._config = config


class RemoteBatcher(PartitionBatcher):
    """A batcher of one partition of a cluster."""

    def __init__(
        self,
        name: TopicPartition,
        rules: TopicRules,
        shared: Shared,
        *,
        topic_id: str,
        sending: Sending,
        acknowledging: Acknowledging,
    ) -> None:
        # Of a log, a batcher whose batches wait for brokers asks for these alone.
        super().__init__(name, lambda: rules, shared)  # type: ignore[arg-type, return-value]
        self._sending = sending
        self._acknowledging = acknowledging
        self._queue = SendQueue(name, topic_id, self._settled)
        self._is_answered_later = True
        self._sends_ahead = True

    def _settled(self) -> None:
        """Take the answer to a batch in the thread of the sockets; what may wait there is left to another thread.

        Waking a thread for each answer takes longer than most answers, and the two would contend for the GIL.
        """
        if self._shared.clock is SYSTEM_CLOCK and self._answer_plainly():
            self._acknowledging.note()
        else:
            self._acknowledging.notify(self)

    def _write_later(self, force: bool, turn: WriteTurn) -> None:
        """Answer the batches that are settled, and hand over those that are sealed; under `_writing`."""
        self._take_answers(turn)
        newest = self._sealed[-1].acks if self._sealed else None
        self._seal_later(force, newest is None or newest.is_sent)
        self._hand_over(turn)
        if self._sealed:
            turn.is_done = False

    def _hand_over(self, turn: WriteTurn) -> None:
        """Hand over the newest batches, up to one that was handed over before."""
        new: list[ProducerBatch] = []
        for number in range(len(self._sealed) - 1, -1, -1):
            batch = self._sealed[number]
            if batch.acks is not None and batch.acks.is_handed:
                break
            new.append(batch)
        for batch in reversed(new):
            if batch.acks is None:
                try:
                    data = bytearray(self._closed(batch))
                except Exception as error:  # noqa: BLE001  passed to the futures
                    self._fail(batch, error, turn)
                    continue
                left_s = self._shared.config.delivery_timeout_ms / 1000 - (self._now_s() - batch.opened_s)
                # One step: a batch that an interrupt leaves here is handed over by the next call.
                batch.acks = HandedBatch(
                    self.name,
                    batch.encoder.record_count,
                    1,
                    data=data,
                    deadline=time.monotonic() + left_s,
                )
            self._sending.hand_over(self._queue, batch.acks)

    def _take_answers(self, turn: WriteTurn) -> None:
        """Answer the oldest batches that are settled or late."""
        while self._sealed and self._sealed[0].acks is not None:
            batch = self._sealed[0]
            handed: HandedBatch = batch.acks
            if handed.is_settled and handed.parts is not None:
                self._end_parts(batch, handed, turn)
            elif handed.is_settled and handed.error is None:
                self.counts.retries += handed.retries
                batch.result = AppendResult(handed.first_offset, handed.last_offset, handed.append_time_ms)
                self._acknowledge(batch, turn)
            elif handed.is_settled:
                self.counts.retries += handed.retries
                self._end(batch, handed.error, turn)
            elif self._is_late(batch):
                limit_ms = self._shared.config.delivery_timeout_ms
                what = "may have been written" if self._sending.give_up(handed) else "were not sent"
                self._end(
                    batch,
                    DeliveryTimeoutError(
                        f"{self.name}: {handed.record_count} records were not acknowledged within "
                        f"delivery.timeout.ms {limit_ms}; they {what}"
                    ),
                    turn,
                )
            else:
                return

    def _end_parts(self, batch: ProducerBatch, handed: HandedBatch, turn: WriteTurn) -> None:
        """Answer a batch that was split: each part has its own offsets, or its own error."""
        assert handed.parts is not None
        parts = sorted(handed.parts, key=lambda each: each.first_record)
        ends = [*(each.first_record for each in parts[1:]), handed.record_count]
        errors = [each.error for each in parts if each.error is not None]
        failed = sum(
            end - each.first_record for each, end in zip(parts, ends, strict=True) if each.error is not None
        )
        if errors:
            turn.error = turn.error or errors[0]
        batch.batch_result.acknowledge_parts(parts)
        batch.result = AppendResult(handed.first_offset, handed.last_offset, handed.append_time_ms)
        self._acknowledge(batch, turn)
        self.counts.records -= failed
        self.counts.failed_records += failed

    def _end(self, batch: ProducerBatch, error: LogstoreError | None, turn: WriteTurn) -> None:
        assert error is not None
        turn.error = turn.error or error
        self._give_up(batch, error, turn.answered)

    def _is_late(self, batch: ProducerBatch) -> bool:
        return (self._now_s() - batch.opened_s) * 1000 >= self._shared.config.delivery_timeout_ms

    def _now_s(self) -> float:
        return self._shared.clock.monotonic_s()


class RemoteBatchWriter(BatchWriter):
    """The batches of one producer of a cluster.

    Owns: its sender, and the thread that answers futures; both end with `close`.
    """

    AWAITED = "answers of brokers"
    ADVICE = "look at the brokers"
    AFTER_FORK = "connect again and open another producer in the child"

    def __init__(
        self,
        client: Client,
        config: RemoteProducerConfig,
        failures: list[BatchResult],
        *,
        clock: Clock,
        topics_known: Callable[[], object],
        settings: TopicSettings,
    ) -> None:
        self._client = client
        self._config = config
        self._acknowledging = Acknowledging(clock)
        self.topics_known = topics_known
        self.memory = BufferMemory(config.buffer_memory, clock)
        self.shared = Shared(
            config=config, clock=clock, memory=self.memory, failures=None if config.acks == "0" else failures
        )
        self._settings = settings
        self._sending = Sending(
            client.cluster.network.thread,
            client.cluster.updates,
            client.config,
            ProduceSettings(
                is_idempotent=config.is_idempotent,
                # With 0 a broker would answer nothing, not even that another one leads the partition.
                acks=-1 if config.acks == "all" else 1,
                most_in_flight=config.max_in_flight_requests_per_connection,
                batch_size=config.batch_size,
                max_request_size=config.max_request_size,
                retries=0 if config.acks == "0" else config.retries,
                delivery_timeout_ms=config.delivery_timeout_ms,
                retry_backoff_ms=config.retry_backoff_ms,
                fails_together=False,
            ),
        )

    def topic(self, name: str) -> WritableTopic:
        cluster = self._client.cluster
        found = cluster.topic(name, cluster.attempts(f"metadata of topic {name!r}", self._config.max_block_ms))
        config = self._settings.for_writing(name, found.id)

        def batcher(number: int) -> PartitionBatcher:
            place = TopicPartition(name, number)
            return RemoteBatcher(
                place,
                TopicRules(place, config),
                self.shared,
                topic_id=found.id,
                sending=self._sending,
                acknowledging=self._acknowledging,
            )

        return WritableTopic(found.id, len(found.partitions), config.compacts, batcher)

    @property
    def producer_id(self) -> int:
        return self._sending.producer_id

    @property
    def answer_count(self) -> int:
        return self._acknowledging.answer_count

    def wait(self, answer_count: int, timeout_s: float) -> None:
        self._acknowledging.wait(answer_count, timeout_s)

    def sync(self) -> None:
        """Do nothing: an answered batch is as durable as its acks say."""

    @property
    def sync_count(self) -> int:
        return 0

    def close(self) -> None:
        self._sending.stop()
        self._acknowledging.close()
