# cython: language_level=3
"""Producer state of one log: idempotence, fencing, open transactions.

The rules are those of Kafka's `ProducerStateManager` and `ProducerAppendInfo`. `Producers.check` decides whether a
batch may be written, and changes nothing. `Producers.apply` records a written batch. The caller holds the log's
lock, calls in offset order, and leaves out batches without a producer id. This module uses no files and no clock;
`formats.producer_snapshot` encodes the state.

Invariants: a producer's remembered batches are of its current epoch, oldest first, at most five. Open transactions
are in the order of their first offsets. A completed transaction is kept while it may hold the last stable offset
back. In the list of these, both first and last offsets rise, so the first entry decides.
"""

from libc.stdint cimport int32_t, int64_t

from collections import OrderedDict, deque
from typing import NamedTuple

from logstore.errors import (
    CoordinatorFencedError,
    DuplicateSequenceError,
    InvalidRecordError,
    InvalidTransactionError,
    OutOfOrderSequenceError,
    ProducerFencedError,
)
from logstore.records import AbortedTransaction, AppendResult, Marker, Origin

REMEMBERED_BATCHES = REMEMBERED  #: as many as a client may have in flight (max.in.flight.requests.per.connection)
NO_SEQUENCE = -1  #: of batches that a coordinator writes, such as offset commits

cdef enum:
    CHAIN_LIMIT = 1 << 30         # below half of all sequences, so that an older sequence differs from a newer one
    LAST_SEQUENCE = 0x7FFFFFFF    # sequences begin again at 0 after it

cdef object _CLIENT = Origin.CLIENT
cdef object _REPLICATION = Origin.REPLICATION


cdef inline int64_t sequences(int64_t base_sequence, int64_t last_sequence) noexcept nogil:
    """Return the number of sequences from one to another, which may be beyond the wrap to 0."""
    return ((last_sequence - base_sequence) & LAST_SEQUENCE) + 1


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


cdef class ProducerState:
    """The state of one producer id.

    The last ``chain_count`` sequences, up to the newest one, are known to be written without a gap. A batch that
    is no longer remembered is refused as a duplicate only if all its sequences are among these.
    ``coordinator_epoch`` is that of its last marker, -1 before the first. ``timestamp_ms`` is the time of its last
    batch or marker, as the producer gave it; ``written_ms`` is when it last wrote here, which decides expiry.
    """

    def __init__(self, int64_t producer_id, int32_t epoch=-1, int32_t coordinator_epoch=-1, int64_t timestamp_ms=-1,
                 int64_t written_ms=-1, transaction_first_offset=None, batches=(), int64_t chain_count=0):
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = coordinator_epoch
        self.timestamp_ms = timestamp_ms
        self.written_ms = written_ms
        self.transaction_first_offset = transaction_first_offset
        self.batches = batches
        self.chain_count = chain_count

    @property
    def transaction_first_offset(self):
        """First offset of its open transaction, or None."""
        return None if self._transaction_first < 0 else self._transaction_first

    @transaction_first_offset.setter
    def transaction_first_offset(self, value):
        self._transaction_first = -1 if value is None else value

    @property
    def batches(self):
        """Its last batches, oldest first: at most five, as `WrittenBatch`."""
        return tuple([self._written(n) for n in range(self._count)])

    @batches.setter
    def batches(self, value):
        cdef Written *written
        self._count = 0
        for each in value[max(0, len(value) - REMEMBERED):]:
            written = &self._batches[self._count]
            (written.base_sequence, written.last_sequence, written.base_offset, written.last_offset,
             written.timestamp_ms) = each
            self._count += 1

    @property
    def next_sequence(self):
        """The base sequence of the next batch of this epoch."""
        return self._next_sequence()

    cdef int32_t _next_sequence(self) noexcept:
        if not self._count:
            return 0
        return (self._batches[self._count - 1].last_sequence + <int64_t>1) & LAST_SEQUENCE

    cdef object _written(self, int n):
        cdef Written *written = &self._batches[n]
        return WrittenBatch(written.base_sequence, written.last_sequence, written.base_offset, written.last_offset,
                            written.timestamp_ms)

    cdef int _find(self, int32_t base_sequence, int32_t last_sequence) noexcept:
        """Return the number of the remembered batch with these sequences, or -1."""
        cdef int n
        for n in range(self._count):
            if (self._batches[n].base_sequence == base_sequence
                    and self._batches[n].last_sequence == last_sequence):
                return n
        return -1

    cdef void _remember(self, int32_t base_sequence, int32_t last_sequence, int64_t base_offset,
                        int64_t last_offset, int64_t timestamp_ms) noexcept:
        cdef int n
        cdef Written *written
        # A coordinator's batch has no sequence (-1). As in Kafka it is remembered, so the next sequence is 0.
        if base_sequence < 0:
            self.chain_count = 0
        else:
            if base_sequence != self._next_sequence():
                self.chain_count = 0
            self.chain_count = min(self.chain_count + sequences(base_sequence, last_sequence), <int64_t>CHAIN_LIMIT)
        if self._count == REMEMBERED:
            for n in range(REMEMBERED - 1):
                self._batches[n] = self._batches[n + 1]
            self._count -= 1
        written = &self._batches[self._count]
        written.base_sequence, written.last_sequence = base_sequence, last_sequence
        written.base_offset, written.last_offset = base_offset, last_offset
        written.timestamp_ms = timestamp_ms
        self._count += 1

    cdef bint _overlaps(self, int64_t base_sequence, int64_t last_sequence) noexcept:
        """Return whether a remembered batch has one of these sequences. Those of either may wrap to 0."""
        cdef int n
        cdef Written *written
        for n in range(self._count):
            written = &self._batches[n]
            if ((base_sequence - written.base_sequence) & LAST_SEQUENCE) < (
                    sequences(written.base_sequence, written.last_sequence)):
                return True
            if ((written.base_sequence - base_sequence) & LAST_SEQUENCE) < sequences(base_sequence, last_sequence):
                return True
        return False

    cdef tuple _fields(self):
        return (self.producer_id, self.epoch, self.coordinator_epoch, self.timestamp_ms, self.written_ms,
                self.transaction_first_offset, self.batches, self.chain_count)

    def __eq__(self, other):
        if not isinstance(other, ProducerState):
            return NotImplemented
        return self._fields() == (<ProducerState>other)._fields()

    __hash__ = None

    def __reduce__(self):
        return ProducerState, self._fields()

    def __repr__(self):
        return f"<ProducerState {self._fields()}>"


cdef class Producers:
    """The producers of one log.

    >>> producers = Producers()
    >>> batch = ProducedBatch(0, 9, 1, 0, 0, 9, 1_000)
    >>> producers.check(batch, Origin.CLIENT), producers.apply(batch)
    (None, None)
    >>> producers.check(batch, Origin.CLIENT)
    AppendResult(first_offset=0, last_offset=9, timestamp_ms=1000, duplicate=True)
    """

    def __init__(self, states=(), completed=(), *, int64_t expiration_ms=86_400_000):
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
        self._completed = deque()
        for transaction in completed:
            self._hold_back(transaction)

    def __len__(self):
        return len(self._states)

    def __iter__(self):
        """Iterate over all known producers; the caller must not change them."""
        return iter(self._states.values())

    def get(self, int64_t producer_id):
        return self._states.get(producer_id)

    # -- before a batch is written

    def check(self, batch, origin):
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
        if origin is _REPLICATION:
            return None
        if origin is _CLIENT and not batch.is_control and batch.base_sequence < 0:
            raise InvalidRecordError(
                f"{_producer_name(batch)}: a batch with a producer id needs a sequence, found {batch.base_sequence}"
            )
        cdef ProducerState state = self._states.get(batch.producer_id)
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
        if origin is _CLIENT:
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

    def apply(self, batch, int64_t now_ms=-1):
        """Record a written batch; return the transaction that it ends, if any.

        ``now_ms`` is the time of writing or, when batches are replayed, of opening the log. Without it the
        batch's own timestamp counts for expiry, so a producer of records with old timestamps expires too early.
        """
        if batch.is_control and batch.marker is None:
            return None  # a compaction has deleted the marker of this batch
        cdef int64_t producer_id = batch.producer_id
        cdef ProducerState state
        assert producer_id >= 0, batch
        if not batch.is_control:
            self.record(producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence,
                        batch.base_offset, batch.last_offset, batch.timestamp_ms, batch.is_transactional, now_ms)
            return None
        state = self._known(producer_id, batch.producer_epoch, batch.timestamp_ms, now_ms)
        return self._complete(state, batch)

    cdef int record(self, int64_t producer_id, int32_t epoch, int32_t base_sequence, int32_t last_sequence,
                    int64_t base_offset, int64_t last_offset, int64_t timestamp_ms, bint transactional,
                    int64_t now_ms) except -1:
        """Record a written batch of records, as `apply` does."""
        cdef ProducerState state = self._known(producer_id, epoch, timestamp_ms, now_ms)
        state._remember(base_sequence, last_sequence, base_offset, last_offset, timestamp_ms)
        if transactional and state._transaction_first < 0:
            assert not self._open or next(reversed(self._open.values())) < base_offset, (producer_id, base_offset)
            self._open[producer_id] = base_offset
            state._transaction_first = base_offset
        return 0

    cdef ProducerState _known(self, int64_t producer_id, int32_t epoch, int64_t timestamp_ms, int64_t now_ms):
        """Return the state of the producer of a written batch, in the batch's epoch and with its times."""
        cdef ProducerState state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(producer_id, epoch)
        elif state.epoch != epoch:
            state.epoch = epoch
            state._count = 0
            state.chain_count = 0
        state.timestamp_ms = timestamp_ms
        state.written_ms = max(state.written_ms, timestamp_ms if now_ms < 0 else now_ms)
        return state

    def _complete(self, ProducerState state, batch):
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

    def _hold_back(self, transaction):
        """Keep a completed transaction until its marker is below the high watermark.

        Earlier entries whose transactions began later are dropped: the new entry holds back at least as much.
        """
        completed = self._completed
        while completed and completed[len(completed) - 1].first_offset >= transaction.first_offset:
            completed.pop()
        assert not completed or completed[len(completed) - 1].last_offset < transaction.last_offset, transaction
        completed.append(transaction)

    # -- the usual batch of a client, in one step each

    cdef ProducerState expecting(self, int64_t producer_id, int32_t epoch, int32_t base_sequence,
                                 int32_t last_sequence, bint transactional):
        """Return the state of a producer if this is its next batch and nothing is to be decided, else None."""
        cdef object found = self._states.get(producer_id)
        cdef ProducerState state
        if found is None:
            return None
        state = found
        if (state.epoch != epoch or base_sequence < 0 or base_sequence != state._next_sequence()
                or transactional != (state._transaction_first >= 0)
                or state._find(base_sequence, last_sequence) >= 0):
            return None
        return state

    cdef bint knows(self, int64_t producer_id) except -1:
        """Return whether the producer has a state."""
        return producer_id in self._states

    cdef void take(self, ProducerState state, int32_t base_sequence, int32_t last_sequence, int64_t base_offset,
                   int64_t last_offset, int64_t timestamp_ms, int64_t now_ms) noexcept:
        """Record a written batch as `apply`, of the producer that `expecting` has returned."""
        state.timestamp_ms = timestamp_ms
        state.written_ms = max(state.written_ms, now_ms)
        state._remember(base_sequence, last_sequence, base_offset, last_offset, timestamp_ms)

    cdef bint is_all_stable(self) except -1:
        """Return whether no transaction can hold the last stable offset back."""
        return not self._open and not self._completed

    # -- the last stable offset

    @property
    def completed(self):
        """Completed transactions that may still hold the last stable offset back."""
        return tuple(self._completed)

    @property
    def open_transactions(self):
        """Producer id and first offset of each open transaction, oldest first."""
        return tuple(self._open.items())

    def first_unstable_offset(self, int64_t high_watermark):
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

    def abort_entry(self, completed):
        """Return the ``.txnindex`` entry of a transaction that has just ended; None unless it was aborted."""
        if completed is None or not completed.is_aborted:
            return None
        return AbortedTransaction(*completed[:3], self.last_stable_offset_after(completed))

    def last_stable_offset_after(self, completed):
        """Return the last stable offset once this transaction has ended, for its ``.txnindex`` entry."""
        for producer_id, first_offset in self._open.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    # -- expiry

    def expire_after(self, int64_t expiration_ms):
        """Set producer.id.expiration.ms."""
        self._expiration_ms = expiration_ms

    def expire(self, int64_t now_ms):
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


cdef object _check_sequence(ProducerState state, batch):
    """Return the remembered batch that this one repeats; None if it is the next one."""
    cdef int32_t base_sequence = batch.base_sequence, last_sequence = batch.last_sequence
    cdef int64_t expected, behind
    cdef int n
    if batch.producer_epoch != state.epoch:
        if base_sequence:
            raise OutOfOrderSequenceError(
                f"{_producer_name(batch)}: a new epoch begins with sequence 0, found {base_sequence}"
            )
        return None
    n = state._find(base_sequence, last_sequence)
    if n >= 0:
        return state._written(n)
    expected = state._next_sequence()
    if base_sequence == expected:
        return None
    # A producer counts a duplicate as acknowledged. So a batch that was never written would be lost. A duplicate
    # is therefore wholly in the unbroken chain. It overlaps no remembered batch: a repeated one has equal bounds.
    behind = (expected - base_sequence) & LAST_SEQUENCE
    if sequences(base_sequence, last_sequence) <= behind <= state.chain_count and (
            not state._overlaps(base_sequence, last_sequence)):
        raise DuplicateSequenceError(
            f"{_producer_name(batch)}: sequence {base_sequence} was written before the last"
            f" {state._count} batches; the next one is {expected}"
        )
    raise OutOfOrderSequenceError(f"{_producer_name(batch)}: expected sequence {expected}, found {base_sequence}")


cdef str _producer_name(batch):
    return f"producer {batch.producer_id} epoch {batch.producer_epoch}"


cdef class ProducersOfLog:
    """Producer state as each append reads it; the subclass, `Transactions`, keeps its files.

    ``has_producers`` is whether any producer has written here, as far as is known. ``listed_end`` is the first
    offset of an aborted transaction that the files do not list yet, or above every offset.
    """

    cdef void note_producer(self) noexcept:
        """Record that a producer writes here."""
        self.has_producers = True
