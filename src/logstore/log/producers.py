"""Producer state of one log: idempotence, fencing, open transactions.

The rules are those of Kafka's `ProducerStateManager` and `ProducerAppendInfo`. `Producers.check` decides whether a
batch may be written, and changes nothing. `Producers.apply` records a written batch. The caller holds the log's
lock, calls in offset order, and leaves out batches without a producer id. This module uses no files and no clock;
`formats.producer_snapshot` encodes the state.

Invariants: a producer's remembered batches are of its current epoch, oldest first, at most five. Open transactions
are in the order of their first offsets. A completed transaction is kept while it may hold the last stable offset
back. In the list of these, both first and last offsets rise, so the first entry decides.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from logstore.errors import (
    CoordinatorFencedError,
    DuplicateSequenceError,
    InvalidRecordError,
    InvalidTransactionError,
    OutOfOrderSequenceError,
    ProducerFencedError,
)
from logstore.records import SEQUENCE_COUNT, AbortedTransaction, AppendResult, Marker, Origin

REMEMBERED_BATCHES = 5  #: as many as a client may have in flight (max.in.flight.requests.per.connection)
NO_SEQUENCE = -1  #: of batches that a coordinator writes, such as offset commits

_CHAIN_LIMIT = 2**30  #: below half of all sequences, so that an older sequence differs from a newer one


class ProducedBatch(NamedTuple):
    """The fields of a batch that producer state needs: of its header, and of its marker if it has one."""

    base_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    timestamp_ms: int  #: the largest timestamp of the batch
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


@dataclass(slots=True)
class ProducerState:
    """The state of one producer id.

    The last ``chain_count`` sequences, up to the newest one, are known to be written without a gap. A batch that
    is no longer remembered is refused as a duplicate only if all its sequences are among these.
    """

    producer_id: int
    epoch: int = -1
    coordinator_epoch: int = -1  #: of its last marker; -1 before the first
    timestamp_ms: int = -1  #: of its last batch or marker, as the producer gave it
    written_ms: int = -1  #: when it last wrote here; decides expiry
    transaction_first_offset: int | None = None  #: of its open transaction
    batches: tuple[WrittenBatch, ...] = ()
    chain_count: int = 0

    @property
    def next_sequence(self) -> int:
        """The base sequence of the next batch of this epoch."""
        return (self.batches[-1].last_sequence + 1) % SEQUENCE_COUNT if self.batches else 0


class Producers:
    """The producers of one log.

    >>> producers = Producers()
    >>> batch = ProducedBatch(0, 9, 1, 0, 0, 9, 1_000)
    >>> producers.check(batch, Origin.CLIENT), producers.apply(batch)
    (None, None)
    >>> producers.check(batch, Origin.CLIENT)
    AppendResult(first_offset=0, last_offset=9, timestamp_ms=1000, duplicate=True)
    """

    __slots__ = ("_completed", "_expiration_ms", "_open", "_states")

    def __init__(
        self,
        states: Iterable[ProducerState] = (),
        completed: Iterable[CompletedTransaction] = (),
        *,
        expiration_ms: int = 86_400_000,
    ) -> None:
        """Begin with the states of a snapshot. The states belong to this object now, which changes them.

        ``expiration_ms`` is Kafka's producer.id.expiration.ms.
        """
        self._expiration_ms = expiration_ms
        self._states = {state.producer_id: state for state in states}
        opened = [
            (state.transaction_first_offset, state.producer_id)
            for state in self._states.values()
            if state.transaction_first_offset is not None
        ]
        self._open = OrderedDict((producer_id, first) for first, producer_id in sorted(opened))
        self._completed: deque[CompletedTransaction] = deque()
        for transaction in completed:
            self._hold_back(transaction)

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[ProducerState]:
        """Iterate over all known producers; the caller must not change them."""
        return iter(self._states.values())

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    # -- before a batch is written

    def check(self, batch: ProducedBatch, origin: Origin) -> AppendResult | None:
        """Check whether this batch may be written next. Changes nothing.

        Returns None for a new batch. For a repetition of one of the producer's last five batches, returns the
        offsets and the largest timestamp of the first append. Sequences of a coordinator's batches are not
        checked. Replicated batches are not checked at all: their leader has checked them. An unknown producer may
        begin at any sequence, since retention or expiry may have deleted its earlier batches.

        Raises:
            DuplicateSequenceError: the batch was written before the batches that are remembered.
            OutOfOrderSequenceError: a sequence is missing before the batch.
            ProducerFencedError: a newer epoch of the producer has written here.
            CoordinatorFencedError: the marker comes from an older transaction coordinator.
            InvalidTransactionError: the batch is not transactional, while the producer's transaction is open.
            InvalidRecordError: a client's batch has a producer id and no sequence.
        """
        if origin is Origin.REPLICATION:
            return None
        if origin is Origin.CLIENT and not batch.is_control and batch.base_sequence < 0:
            raise InvalidRecordError(
                f"{_producer_name(batch)}: a batch with a producer id needs a sequence, found {batch.base_sequence}"
            )
        state = self._states.get(batch.producer_id)
        if state is None:
            return None
        if batch.producer_epoch < state.epoch:
            raise ProducerFencedError(f"{_producer_name(batch)}: epoch {state.epoch} has written here")
        if batch.is_control:
            if batch.marker is not None and batch.coordinator_epoch < state.coordinator_epoch:
                raise CoordinatorFencedError(
                    f"{_producer_name(batch)}: marker of coordinator epoch {batch.coordinator_epoch},"
                    f" epoch {state.coordinator_epoch} has written here"
                )
            return None
        if origin is Origin.CLIENT:
            written = _check_sequence(state, batch)
            if written is not None:
                return AppendResult(written.base_offset, written.last_offset, written.timestamp_ms, True)
        if state.transaction_first_offset is not None and not batch.is_transactional:
            raise InvalidTransactionError(
                f"{_producer_name(batch)}: expected a transactional batch, since its transaction is open"
                f" from offset {state.transaction_first_offset}"
            )
        return None

    # -- after it was written

    def apply(self, batch: ProducedBatch, now_ms: int = -1) -> CompletedTransaction | None:
        """Record a written batch; return the transaction that it ends, if any.

        ``now_ms`` is the time of writing or, when batches are replayed, of opening the log. Without it the
        batch's own timestamp counts for expiry, so a producer of records with old timestamps expires too early.
        """
        if batch.is_control and batch.marker is None:
            return None  # a compaction has deleted the marker of this batch
        producer_id = batch.producer_id
        assert producer_id >= 0, batch
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(producer_id, batch.producer_epoch)
        elif state.epoch != batch.producer_epoch:
            state.epoch = batch.producer_epoch
            state.batches = ()
            state.chain_count = 0
        state.timestamp_ms = batch.timestamp_ms
        state.written_ms = max(state.written_ms, batch.timestamp_ms if now_ms < 0 else now_ms)
        if batch.is_control:
            return self._complete(state, batch)
        _remember(state, batch)
        if batch.is_transactional and state.transaction_first_offset is None:
            assert not self._open or next(reversed(self._open.values())) < batch.base_offset, batch
            state.transaction_first_offset = self._open[producer_id] = batch.base_offset
        return None

    def _complete(self, state: ProducerState, batch: ProducedBatch) -> CompletedTransaction | None:
        state.coordinator_epoch = batch.coordinator_epoch
        if state.transaction_first_offset is None:
            return None  # a transaction without records here, or a marker sent twice
        completed = CompletedTransaction(
            state.producer_id, state.transaction_first_offset, batch.base_offset, batch.marker is Marker.ABORT
        )
        state.transaction_first_offset = None
        del self._open[state.producer_id]
        self._hold_back(completed)
        return completed

    def _hold_back(self, transaction: CompletedTransaction) -> None:
        """Keep a completed transaction until its marker is below the high watermark.

        Earlier entries whose transactions began later are dropped: the new entry holds back at least as much.
        """
        completed = self._completed
        while completed and completed[-1].first_offset >= transaction.first_offset:
            completed.pop()
        assert not completed or completed[-1].last_offset < transaction.last_offset, transaction
        completed.append(transaction)

    # -- the last stable offset

    @property
    def completed(self) -> tuple[CompletedTransaction, ...]:
        """Completed transactions that may still hold the last stable offset back."""
        return tuple(self._completed)

    @property
    def open_transactions(self) -> tuple[tuple[int, int], ...]:
        """Producer id and first offset of each open transaction, oldest first."""
        return tuple(self._open.items())

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the first offset of a transaction that is open, or whose marker is not replicated yet.

        Returns None if there is no such transaction: the last stable offset is then the high watermark.
        Transactions whose marker is below ``high_watermark`` are forgotten, so later calls must not give a lower
        one.
        """
        completed = self._completed
        while completed and completed[0].last_offset < high_watermark:
            completed.popleft()
        first = next(iter(self._open.values()), None)
        if completed and (first is None or completed[0].first_offset < first):
            return completed[0].first_offset
        return first

    def abort_entry(self, completed: CompletedTransaction | None) -> AbortedTransaction | None:
        """Return the ``.txnindex`` entry of a transaction that has just ended; None unless it was aborted."""
        if completed is None or not completed.is_aborted:
            return None
        return AbortedTransaction(*completed[:3], self.last_stable_offset_after(completed))

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """Return the last stable offset once this transaction has ended, for its ``.txnindex`` entry."""
        for producer_id, first_offset in self._open.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    # -- expiry

    def expire_after(self, expiration_ms: int) -> None:
        """Set producer.id.expiration.ms."""
        self._expiration_ms = expiration_ms

    def expire(self, now_ms: int) -> list[int]:
        """Forget producers that wrote nothing for producer.id.expiration.ms; return their ids.

        A producer with an open transaction stays: its marker needs the transaction's first offset.
        """
        written_before = now_ms - self._expiration_ms
        expired = [
            state.producer_id
            for state in self._states.values()
            if state.written_ms <= written_before and state.transaction_first_offset is None
        ]
        for producer_id in expired:
            del self._states[producer_id]
        return expired


def _check_sequence(state: ProducerState, batch: ProducedBatch) -> WrittenBatch | None:
    """Return the remembered batch that this one repeats; None if it is the next one."""
    base_sequence = batch.base_sequence
    if batch.producer_epoch != state.epoch:
        if base_sequence:
            raise OutOfOrderSequenceError(
                f"{_producer_name(batch)}: a new epoch begins with sequence 0, found {base_sequence}"
            )
        return None
    for written in state.batches:
        if written.base_sequence == base_sequence and written.last_sequence == batch.last_sequence:
            return written
    expected = state.next_sequence
    if base_sequence == expected:
        return None
    # A producer counts a duplicate as acknowledged. So a batch that was never written would be lost. A duplicate
    # is therefore wholly in the unbroken chain. It overlaps no remembered batch: a repeated one has equal bounds.
    behind = (expected - base_sequence) % SEQUENCE_COUNT
    if _count(base_sequence, batch.last_sequence) <= behind <= state.chain_count and not any(
        _overlap(written, batch) for written in state.batches
    ):
        raise DuplicateSequenceError(
            f"{_producer_name(batch)}: sequence {base_sequence} was written before the last"
            f" {len(state.batches)} batches; the next one is {expected}"
        )
    raise OutOfOrderSequenceError(f"{_producer_name(batch)}: expected sequence {expected}, found {base_sequence}")


def _remember(state: ProducerState, batch: ProducedBatch) -> None:
    # A coordinator's batch has no sequence (-1). As in Kafka it is remembered, so the next sequence is 0.
    if batch.base_sequence < 0:
        state.chain_count = 0
    else:
        count = _count(batch.base_sequence, batch.last_sequence)
        follows = batch.base_sequence == state.next_sequence
        state.chain_count = min((state.chain_count if follows else 0) + count, _CHAIN_LIMIT)
    written = WrittenBatch(
        batch.base_sequence, batch.last_sequence, batch.base_offset, batch.last_offset, batch.timestamp_ms
    )
    state.batches = (*state.batches[1 - REMEMBERED_BATCHES :], written)


def _count(base_sequence: int, last_sequence: int) -> int:
    return (last_sequence - base_sequence) % SEQUENCE_COUNT + 1


def _overlap(written: WrittenBatch, batch: ProducedBatch) -> bool:
    """Return whether two batches share a sequence. Sequences of either may wrap to 0."""
    ahead = (batch.base_sequence - written.base_sequence) % SEQUENCE_COUNT
    behind = (written.base_sequence - batch.base_sequence) % SEQUENCE_COUNT
    return ahead < _count(written.base_sequence, written.last_sequence) or behind < _count(
        batch.base_sequence, batch.last_sequence
    )


def _producer_name(batch: ProducedBatch) -> str:
    return f"producer {batch.producer_id} epoch {batch.producer_epoch}"
