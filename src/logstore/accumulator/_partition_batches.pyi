from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, final

from typing_extensions import disjoint_base

from logstore.accumulator._alarms import Alarm
from logstore.accumulator._batcher import BatchResult, FastBatcher, SendFuture
from logstore.accumulator._memory import BufferMemory
from logstore.accumulator.syncing import AppendableLog, Syncing
from logstore.batch._encode import Encoder
from logstore.clock import Clock
from logstore.records import Ack, AppendResult, Codec, TopicPartition

class _BatchSettings(Protocol):
    """`ProducerConfig`, or the `BatchConfig` of an appender."""

    @property
    def linger_ms(self) -> int: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def codec(self) -> Codec: ...
    @property
    def level(self) -> int: ...
    @property
    def max_request_size(self) -> float: ...
    @property
    def retries(self) -> float: ...
    @property
    def retry_backoff_ms(self) -> int: ...
    @property
    def delivery_timeout_ms(self) -> float: ...

@final
class Counts:
    """Counters of a batcher; changed only while it writes."""

    records: int
    batches: int
    bytes: int
    retries: int
    failed_records: int

@final
class Shared:
    """State that all batchers of one producer share."""

    @property
    def writes_wait(self) -> bool: ...
    alarm: Alarm
    def __init__(
        self,
        config: _BatchSettings,
        clock: Clock,
        *,
        raises: bool = False,
        memory: BufferMemory | None = None,
        syncing: Syncing | None = None,
        stamp: tuple[int, int] | None = None,
        ack: Ack | None = None,
        failures: list[BatchResult] | None = None,
    ) -> None:
        """Share settings and parts."""

    @property
    def config(self) -> _BatchSettings: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def raises(self) -> bool: ...
    @property
    def memory(self) -> BufferMemory | None: ...
    @property
    def syncing(self) -> Syncing | None: ...
    @property
    def stamp(self) -> tuple[int, int] | None: ...
    @property
    def ack(self) -> Ack | None: ...
    @property
    def active(self) -> set[Any]: ...
    @property
    def spare_bytes(self) -> int: ...
    @property
    def failures(self) -> list[BatchResult] | None: ...

@final
class ProducerBatch:
    """One batch, open or sealed."""

    retries: int
    acks: Any
    result: AppendResult | None
    @property
    def written(self) -> tuple[AppendResult, ...] | None:
        """Results of the appends before the last one, oldest first; None if there was none."""

    @property
    def may_be_written(self) -> bool:
        """Whether an append has written the batch: a log may have it, unless it was truncated since."""

    @property
    def encoder(self) -> Encoder: ...
    @property
    def batch_result(self) -> BatchResult: ...
    @property
    def reserved(self) -> int: ...
    @property
    def opened_s(self) -> float: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def sequence(self) -> int: ...

@final
class WriteTurn:
    """Result of one call of `PartitionBatches.write`."""

    error: Exception | None
    is_done: bool
    @property
    def ack(self) -> Ack | str | None: ...
    @property
    def waits(self) -> bool: ...
    @property
    def answered(self) -> list[BatchResult]: ...
    @property
    def appended(self) -> list[AppendResult]: ...

@disjoint_base
class PartitionBatches(FastBatcher):
    """The batches of one partition, and the order of their appends."""

    failure: Exception | None
    _refusal: Callable[[], Exception] | None
    _next_sequence: int
    _retry_s: float
    _producer_id: int
    _is_answered_later: bool
    _sends_ahead: bool
    def __init__(self, name: TopicPartition, open_log: Callable[[], AppendableLog], shared: Shared) -> None: ...
    @property
    def name(self) -> TopicPartition: ...
    @property
    def counts(self) -> Counts: ...
    @property
    def _lock(self) -> Any: ...
    @property
    def _writing(self) -> Any: ...
    @property
    def _batch(self) -> ProducerBatch | None: ...
    @property
    def _sealed(self) -> deque[ProducerBatch]: ...
    @property
    def _shared(self) -> Shared: ...
    @property
    def log(self) -> AppendableLog:
        """The partition's log, opened when the first record is added."""

    def add(self, value: Any, key: Any, timestamp: Any, headers: Any) -> SendFuture | int:
        """Add one record and return its future."""

    def _seal_locked(self) -> None:
        """Seal the open batch, so that it is written; the next record opens another."""

    def is_due(self) -> bool:
        """Return whether a batch is sealed or full, so that it is written without regard to linger."""

    def is_ready(self) -> bool:
        """Return whether a batch is sealed or full, or has lingered."""

    def is_oversized(self) -> bool:
        """Return whether the open batch is above the limit, so that only compression can make it fit."""

    def set_alarm(self) -> int:
        """Set the alarm for what a tick has to do here, unless another call does it before."""

    @property
    def is_empty(self) -> bool: ...
    def write(self, *, force: bool = False, wait: bool = True, ack: Ack | str | None = ...) -> WriteTurn:
        """Append the batches that are sealed, full or have lingered, or with ``force`` all batches."""

    def _write_later(self, force: bool, turn: WriteTurn) -> None:
        """Write what may be written now, and answer what is settled; under `_writing`."""

    @property
    def _waits(self) -> bool: ...
    def _seal_later(self, force: bool, lingered: bool) -> None:
        """Seal the open batch if it is full, or with ``lingered`` if it has lingered, or with ``force`` in any case."""

    def _closed(self, batch: ProducerBatch) -> Encoder:
        """Close and compress a sealed batch; return its encoder."""

    def _front(self, limit: int) -> list[ProducerBatch]: ...
    def _put_again(self, batch: ProducerBatch, ack: Ack | str | None) -> AppendResult:
        """Append a batch, even if an earlier call has: the log may have been truncated since."""

    def _put_together(self, batches: list[ProducerBatch]) -> list[AppendResult]:
        """Append batches, none of which was appended before, in one write; return the results of the first ones."""

    def _acknowledge(self, batch: ProducerBatch, turn: WriteTurn) -> None:
        """Acknowledge the oldest batch by its result."""

    def _answer_plainly(self) -> bool:
        """Answer the acknowledged batches at the front; return whether that was all there is to do here."""

    def _renew_producer(self, producer_id: int) -> None:
        """Take another producer id, for the batches from the first one on that does not wait for acks."""

    def _notify(self, answered: list[BatchResult]) -> None:
        """Run the callbacks of these results, and mark the batcher as active if it holds batches."""

    def _release(self, batch: ProducerBatch) -> None:
        """Release the memory of a batch, and keep its encoder for another."""
