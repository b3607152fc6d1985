from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from typing_extensions import disjoint_base

from logstore.records import AbortedTransaction, AppendResult, Marker, Origin

REMEMBERED_BATCHES: Final[int]
NO_SEQUENCE: Final[int]

class ProducedBatch(NamedTuple):
    """The fields of a batch that producer state needs: of its header, and of its marker if it has one."""

    base_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    timestamp_ms: int
    is_transactional: bool = False
    is_control: bool = False
    marker: Marker | None = None
    coordinator_epoch: int = -1

class WrittenBatch(NamedTuple):
    """One of a producer's last five batches."""

    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int

class CompletedTransaction(NamedTuple):
    """A transaction whose marker is at ``last_offset``."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool

@disjoint_base
class ProducerState:
    """The state of one producer id."""

    epoch: int
    coordinator_epoch: int
    timestamp_ms: int
    written_ms: int
    transaction_first_offset: int | None
    batches: tuple[WrittenBatch, ...]
    chain_count: int

    def __init__(
        self,
        producer_id: int,
        epoch: int = -1,
        coordinator_epoch: int = -1,
        timestamp_ms: int = -1,
        written_ms: int = -1,
        transaction_first_offset: int | None = None,
        batches: tuple[WrittenBatch, ...] = (),
        chain_count: int = 0,
    ) -> None: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def next_sequence(self) -> int:
        """The base sequence of the next batch of this epoch."""

    def __eq__(self, other: object, /) -> bool: ...
    __hash__ = None  # type: ignore[assignment]  # a state changes

@disjoint_base
class Producers:
    """The producers of one log."""

    def __init__(
        self,
        states: Iterable[ProducerState] = (),
        completed: Iterable[CompletedTransaction] = (),
        *,
        expiration_ms: int = 86_400_000,
    ) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[ProducerState]: ...
    def get(self, producer_id: int) -> ProducerState | None: ...
    def check(self, batch: ProducedBatch, origin: Origin) -> AppendResult | None:
        """Check whether this batch may be written next. Changes nothing."""

    def apply(self, batch: ProducedBatch, now_ms: int = -1) -> CompletedTransaction | None:
        """Record a written batch; return the transaction that it ends, if any."""

    @property
    def completed(self) -> tuple[CompletedTransaction, ...]:
        """Completed transactions that may still hold the last stable offset back."""

    @property
    def open_transactions(self) -> tuple[tuple[int, int], ...]:
        """Producer id and first offset of each open transaction, oldest first."""

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the first offset of a transaction that is open, or whose marker is not replicated yet."""

    def abort_entry(self, completed: CompletedTransaction | None) -> AbortedTransaction | None:
        """Return the ``.txnindex`` entry of a transaction that has just ended; None unless it was aborted."""

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """Return the last stable offset once this transaction has ended, for its ``.txnindex`` entry."""

    def expire_after(self, expiration_ms: int) -> None:
        """Set producer.id.expiration.ms."""

    def expire(self, now_ms: int) -> list[int]:
        """Forget producers that wrote nothing for producer.id.expiration.ms; return their ids."""

@disjoint_base
class ProducersOfLog:
    """Producer state as each append reads it; the subclass, `Transactions`, keeps its files."""

    producers: Producers
    has_producers: bool
    last_expiry_ms: int
    listed_end: int
