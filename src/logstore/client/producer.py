"""A producer: single records, from any thread, collected into batches for many partitions.

This module decides the partition of a record and the time at which its batch is written. `partition_batcher` is
responsible for the order within a partition, `_batcher` for the fast path of a record. The thread whose record
filled a batch writes the batch. A batch that has lingered is written by the timer thread of the process, or by
`tick` in a store with its own clock. So no work is handed between threads while a program sends continuously.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from logstore.accumulator._batcher import BatchResult, FastSend, SendFuture, TopicBatchers
from logstore.accumulator.lifecycle import Gathering
from logstore.accumulator.partition_batcher import PartitionBatcher
from logstore.accumulator.timer import TICKER
from logstore.client.backend.backend import Backend
from logstore.client.partitioners import Choice, Partitioner, checked, partitioner_of
from logstore.clock import SYSTEM_CLOCK
from logstore.config.client import ProducerConfig
from logstore.errors import (
    BufferExhaustedError,
    DeliveryTimeoutError,
    LogstoreError,
    StoreClosedError,
)
from logstore.io._interrupts import held, interrupted, shielded
from logstore.renamed import keep_names
from logstore.topic_names import check_is_name, check_writable_by_users

if TYPE_CHECKING:
    from logstore.config.schema import Setting


_logger = logging.getLogger(__name__)


class ProducerMetrics(NamedTuple):
    """Metrics of a producer at one moment."""

    records: int  #: appended
    batches: int
    appended_bytes: int  #: after compression
    retries: int  #: of batches, for lack of disk space or of a file descriptor, or for their replicas
    failed_records: int
    syncs: int  #: of single logs, to answer ack="synced"
    buffered_bytes: int  #: the part of buffer.memory that is in use
    waiting_threads: int  #: that wait for buffer memory


#: Names of the last release -> their replacements.
FORMER = {
    "config": "the settings given to store.producer()",
    "partitioner": "the argument partitioner= of store.producer()",
}


@keep_names("Producer", {name: (advice, f"_{name}") for name, advice in FORMER.items()})
class Producer(FastSend, Gathering):
    """A producer that sends records to the topics of a store or of a cluster.

    `send` collects records; a batch is appended when it holds ``batch.size`` bytes, has waited for ``linger.ms``,
    or `flush` is called. Each record has a future, which may be dropped. An error that no future has raised is
    raised by a later `send`, `flush` or `close`; of several errors only the first. With ``acks=0`` they are
    discarded.

    `close` flushes, and so do the end of a ``with`` block and the store's `close`. A producer that is dropped
    without any of these warns. Another thread flushes it, at the latest when the store is closed.

    >>> with logstore.open(tmp / "data") as store:
    ...     flights = store.create_topic("flights", partitions=4)
    ...     with store.producer(linger_ms=20) as producer:
    ...         future = producer.send("flights", b"AA 1141", b"AA")
    ...     future.result().offset
    0
    """

    _kind = "producer"

    def __init__(
        self,
        backend: Backend,
        config: ProducerConfig | Mapping[str, Setting] | None = None,
        *,
        partitioner: str | Partitioner | Choice | None = None,
        **settings: Setting,
    ) -> None:
        """Open a producer over a back end; settings as in `ProducerConfig`.

        ``partitioner`` is a word (default, sticky, round_robin, random), a `Partitioner`, or a function
        ``choose(topic, key, value, partition_count)``; None: ``partitioner.class`` applies.

        Raises:
            ConfigError: settings are unknown or out of range; every one is named.
            ReadOnlyError: the store is open read-only.
        """
        self._config = backend.producer_config.of(config, **settings)
        self._backend = backend
        self._clock = backend.clock
        self._rng = backend.rng or random.Random()
        self._partitioner = partitioner_of(
            self._config.partitioner_class if partitioner is None else partitioner,
            ignore_keys=self._config.partitioner_ignore_keys,
            rng=self._rng,
        )
        self._failures: list[BatchResult] = []  #: errors that no future has raised
        self._writer = backend.batch_writer(self._config, self._failures)
        self._fork_advice = f"the producer was opened before a fork; {self._writer.AFTER_FORK}"
        self._topics_known = self._writer.topics_known
        self._shared = self._writer.shared
        self._memory = self._writer.memory
        self._batchers: list[PartitionBatcher] = []
        self._lock = threading.Lock()  # guards `_batchers`, and the batchers of each topic
        self._begin_lifecycle()
        _producers.add(self)
        backend.attach(self)
        self._shared.alarm = TICKER.add(self, self._clock)

    @property
    def producer_id(self) -> int:
        """The producer id that is in its batches; -1 without idempotence.

        Batches of topics with replicas have another one, since nodes do not share their counters.
        """
        return self._writer.producer_id

    @property
    def closed(self) -> bool:
        return self._closed

    # -- sending: `send` itself is compiled

    def _send_slowly(
        self, topic: str, value: Any, key: Any, partition: Any, timestamp: Any, headers: Any
    ) -> SendFuture:
        self._check_usable()
        self._raise_failures()
        batchers = self._batchers_of(topic)
        count = len(batchers.batchers)
        if partition is not None:
            chosen = checked(topic, partition, count)
        else:
            chosen = self._choose(batchers, topic, value, key)
            quick = self._offer(topic, value, key, partition=chosen, timestamp=timestamp, headers=headers)
            if quick is not None:
                return quick
        batcher: PartitionBatcher = batchers.batchers[chosen]
        future = self._add(batcher, value, key, timestamp, headers)
        if batcher.is_due():
            batcher.write()
        return future

    def _choose(self, batchers: TopicBatchers, topic: str, value: Any, key: Any) -> int:
        partitioner = self._partitioner
        if (partitioner.sticks or partitioner.in_turn) and not (partitioner.hashes and key is not None):
            return batchers.take(sum(len(part) for part in (value, key) if isinstance(part, bytes)))
        count = len(batchers.batchers)
        return checked(topic, partitioner.partition(topic, key, value, count), count, by=partitioner)

    def _add(self, batcher: PartitionBatcher, value: Any, key: Any, timestamp: Any, headers: Any) -> SendFuture:
        """Add a record to its batch, waiting for buffer memory if needed."""
        memory = self._memory
        until_s = None
        while True:
            added = batcher.add(value, key, timestamp, headers)
            if not isinstance(added, int):
                return added
            reserved = memory.reserved
            if until_s is None:
                until_s = self._clock.monotonic_s() + self._config.max_block_ms / 1000
            # Lingering batches are written first: that frees memory.
            self._write(force=True)
            if memory.reserved < reserved:
                continue
            left_s = until_s - self._clock.monotonic_s()
            if left_s <= 0:
                raise BufferExhaustedError(
                    f"{batcher.name}: {memory.reserved} of {memory.limit} bytes of buffer.memory hold records that "
                    f"cannot be written, and {added} more were not free within max.block.ms "
                    f"{self._config.max_block_ms}; the record was not sent"
                )
            memory.wait(reserved, min(left_s, max(self._config.retry_backoff_ms, 1) / 1000))

    def _batchers_of(self, topic: str) -> TopicBatchers:
        """Return the batchers of a topic as it is now: it may have been created again, or have more partitions."""
        batchers, known = self._known(check_is_name(topic)), self._topics_known()
        if batchers is not None and batchers.checked_with is known:
            return batchers
        check_writable_by_users(topic)
        found = self._writer.topic(topic)
        count, topic_id = found.partitions, found.id
        with held(self._lock):
            batchers = self._known(topic)
            old = batchers.batchers if batchers is not None and batchers.topic_id == topic_id else []
            if batchers is None or len(old) != count:
                new = [found.batcher(number) for number in range(len(old), count)]
                self._batchers += new
                batchers = TopicBatchers(
                    [*old, *new],
                    topic_id=topic_id,
                    hashes=self._partitioner.hashes,
                    sticks=self._partitioner.sticks,
                    in_turn=self._partitioner.in_turn,
                    needs_key=found.needs_key,
                    partition=self._rng.randrange(count),
                    sticky_bytes=max(self._config.batch_size, 1),
                )
                self._check_usable()
                self._use(topic, batchers)
            batchers.checked_with = known
            return batchers

    def partitions_for(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions.

        Raises:
            UnknownTopicError: there is no topic of that name.
        """
        self._check_usable()
        return set(range(self._backend.facts(topic).partitions))

    # -- writing

    def flush(self, timeout_s: float | None = None) -> None:
        """Append all records sent before this call, and wait until they are acknowledged.

        With ``ack="synced"`` they are on disk on return, with one sync for each partition. While the disk is full,
        or replicas do not acknowledge them, batches are retried until ``delivery.timeout.ms`` has passed.

        Raises:
            DeliveryTimeoutError: ``timeout_s`` has passed; the remaining records are kept and retried.
            LogstoreError: records were not written or not synced, and no future has raised the error; of several
                errors the first. Every future was answered.
        """
        self._check_process()
        self._flush(self._clock.deadline_s(timeout_s), timeout_s)
        self._raise_failures()

    def _flush(self, until_s: float | None, timeout_s: float | None) -> None:
        # Records sent concurrently are not waited for: on a full disk senders could keep this call here for ever.
        asked = [result for batcher in list(self._batchers) if (result := batcher.newest_result()) is not None]
        while True:
            answer_count = self._writer.answer_count
            if self._write(force=True) or all(result.is_answered or result.first_offset >= 0 for result in asked):
                break
            wait_s = max(self._config.retry_backoff_ms, 1) / 1000
            if until_s is not None:
                wait_s = min(wait_s, until_s - self._clock.monotonic_s())
                if wait_s <= 0:
                    raise DeliveryTimeoutError(
                        f"{self._memory.reserved} bytes of records still wait for {self._writer.AWAITED}, after "
                        f"{timeout_s} s; they stay buffered: {self._writer.ADVICE}, then call flush() again"
                    )
            if interrupted():
                # Nothing else would end an interrupted `close` early.
                raise DeliveryTimeoutError(
                    f"{self._memory.reserved} bytes of records were not acknowledged: close() was interrupted "
                    f"while they waited for {self._writer.AWAITED}"
                )
            self._writer.wait(answer_count, wait_s)
        self._writer.sync()

    def _write(self, *, force: bool) -> bool:
        """Write the records of all batchers; return False if one has to wait for disk space."""
        done = True
        # All batchers, and not only the active set: a batcher is out of it for a moment while its write ends.
        for batcher in list(self._batchers):
            if not batcher.is_empty:
                done = batcher.write(force=force).is_done and done
        return done

    @property
    def _tick_waits(self) -> bool:
        """Whether `tick` may wait for a sync."""
        return self._shared.writes_wait

    def tick(self) -> None:
        """Append batches that are full or have lingered, and retry those that wait for disk space.

        Called by the timer thread, or by the owner of the store's own clock.
        """
        if self._closed or self._is_forked():
            return
        for batcher in list(self._shared.active):
            if batcher.is_ready():
                batcher.write(wait=False)  # sets the alarm for what is left
            else:
                batcher.set_alarm()
        if self._clock is not SYSTEM_CLOCK:
            self._writer.sync()

    # -- life

    def metrics(self) -> ProducerMetrics:
        """Return the producer's metrics at this moment."""
        counts = [batcher.counts for batcher in list(self._batchers)]
        return ProducerMetrics(
            records=sum(count.records for count in counts),
            batches=sum(count.batches for count in counts),
            appended_bytes=sum(count.bytes for count in counts),
            retries=sum(count.retries for count in counts),
            failed_records=sum(count.failed_records for count in counts),
            syncs=self._writer.sync_count,
            buffered_bytes=self._memory.reserved,
            waiting_threads=self._memory.waiting,
        )

    def close(self, timeout_s: float | None = None) -> None:
        """Refuse further records, flush, and answer every future. May be called again.

        Raises:
            DeliveryTimeoutError: ``timeout_s`` has passed; futures of the remaining records have this error.
            LogstoreError: as `flush`.
        """
        shielded(self._end, timeout_s)

    def _end(self, timeout_s: float | None) -> None:
        until_s = self._clock.deadline_s(timeout_s)
        if self._is_forked():
            # The records and the thread are the parent process's; the child only drops them.
            self._closed = True
            return
        with held(self._closing):
            if not self._closed:
                self._close(until_s, timeout_s)

    def _close(self, until_s: float | None, timeout_s: float | None) -> None:
        with held(self._lock):
            self._closed = True
            self._forget()
        for batcher in self._batchers:
            batcher.close(_refusal)
        try:
            self._flush(until_s, timeout_s)
        except LogstoreError as error:
            for batcher in self._batchers:
                batcher.abandon(error)
            raise
        finally:
            TICKER.remove(self)
            self._writer.close()
            self._backend.detach(self)
        self._raise_failures()

    def _when_dropped(self) -> None:
        self._backend.drop(self)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<Producer {state} id={self.producer_id} {self._backend.location!r}>"

    def _raise_failures(self) -> None:
        """Raise the first of the errors that no future has raised, and forget all of them."""
        error = None
        while self._failures:
            result = self._failures.pop(0)
            if not result.seen:
                error = error or result.error
        if error is not None:
            raise error

    def _check_usable(self) -> None:
        self._check_process()
        if self._closed:
            raise StoreClosedError("the producer is closed; call store.producer() for another")


def _refusal() -> StoreClosedError:
    return StoreClosedError("the producer is closed; the record was not sent")


#: All producers of this process, so that a forked child can disable their fast paths.
_producers: weakref.WeakSet[Producer] = weakref.WeakSet()


def _forget_batchers() -> None:
    """Disable the fast path in a forked child, where a batch would never be written. The slow path raises."""
    for producer in _producers:
        producer._forget()


os.register_at_fork(after_in_child=_forget_batchers)
