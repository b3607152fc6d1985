"""Histories of producers, and the slow and obvious model of what a log knows of them."""

from __future__ import annotations

from hypothesis import strategies as st

from logstore.errors import (
    CoordinatorFencedError,
    DuplicateSequenceError,
    InvalidTransactionError,
    OutOfOrderSequenceError,
    ProducerFencedError,
)
from logstore.log._producers import CompletedTransaction, ProducedBatch, Producers
from logstore.records import AppendResult, Marker, Origin

SEQUENCES = 2**31


def batch_of(offset, producer_id=1, epoch=0, sequence=0, count=1, transactional=False, timestamp_ms=None):
    return ProducedBatch(
        base_offset=offset,
        last_offset=offset + count - 1,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        last_sequence=(sequence + count - 1) % SEQUENCES,
        timestamp_ms=1_000 + offset if timestamp_ms is None else timestamp_ms,
        is_transactional=transactional,
    )


def marker_of(offset, producer_id=1, epoch=0, marker=Marker.COMMIT, coordinator_epoch=0):
    return ProducedBatch(
        offset,
        offset,
        producer_id,
        epoch,
        -1,
        -1,
        1_000 + offset,
        is_transactional=True,
        is_control=True,
        marker=marker,
        coordinator_epoch=coordinator_epoch,
    )


class Model:
    """All batches ever applied; every question is answered by reading them all again."""

    def __init__(self):
        self.batches: list[ProducedBatch] = []

    def of(self, producer_id):
        return [batch for batch in self.batches if batch.producer_id == producer_id]

    def epoch_of(self, producer_id):
        return self.of(producer_id)[-1].producer_epoch

    def data_of_epoch(self, producer_id):
        """The data batches since the epoch last changed."""
        run = []
        for batch in self.of(producer_id):
            if run and run[-1].producer_epoch != batch.producer_epoch:
                run = []
            run.append(batch)
        return [batch for batch in run if not batch.is_control]

    def transactions(self):
        """Open ones by producer id, and all completed ones."""
        opened, completed = {}, []
        for batch in self.batches:
            pid = batch.producer_id
            if batch.is_control:
                if pid in opened:
                    aborted = batch.marker is Marker.ABORT
                    completed.append(CompletedTransaction(pid, opened.pop(pid), batch.base_offset, aborted))
            elif batch.is_transactional:
                opened.setdefault(pid, batch.base_offset)
        return opened, completed

    def check(self, batch, origin):
        """None, an AppendResult, or the class of the error."""
        history = self.of(batch.producer_id)
        if origin is Origin.REPLICATION or not history:
            return None
        epoch = self.epoch_of(batch.producer_id)
        if batch.producer_epoch < epoch:
            return ProducerFencedError
        if batch.is_control:
            markers = [other.coordinator_epoch for other in history if other.is_control]
            return CoordinatorFencedError if markers and batch.coordinator_epoch < markers[-1] else None
        if batch.producer_epoch > epoch:
            if origin is Origin.CLIENT and batch.base_sequence != 0:
                return OutOfOrderSequenceError
        elif origin is Origin.CLIENT:
            answer = self.check_sequence(batch)
            if answer is not None:
                return answer
        opened, _ = self.transactions()
        if batch.producer_id in opened and not batch.is_transactional:
            return InvalidTransactionError
        return None

    def check_sequence(self, batch):
        data = self.data_of_epoch(batch.producer_id)
        for old in data[-5:]:
            if (old.base_sequence, old.last_sequence) == (batch.base_sequence, batch.last_sequence):
                return AppendResult(old.base_offset, old.last_offset, old.timestamp_ms, True)
        if batch.base_sequence == ((data[-1].last_sequence + 1) % SEQUENCES if data else 0):
            return None
        chain = []
        for old in data:
            if chain and (chain[-1].last_sequence + 1) % SEQUENCES != old.base_sequence:
                chain = []
            chain.append(old)
        remembered = {s for old in data[-5:] for s in sequences_of(old)}
        written = {s for old in chain for s in sequences_of(old)}
        repeated = set(sequences_of(batch))
        if repeated <= written and not repeated & remembered:
            return DuplicateSequenceError
        return OutOfOrderSequenceError

    def first_unstable_offset(self, high_watermark):
        opened, completed = self.transactions()
        unstable = [t.first_offset for t in completed if t.last_offset >= high_watermark]
        return min([*opened.values(), *unstable], default=None)


def sequences_of(batch):
    count = (batch.last_sequence - batch.base_sequence) % SEQUENCES + 1
    return [(batch.base_sequence + n) % SEQUENCES for n in range(count)]


def checked(producers: Producers, batch, origin):
    """What `check` answers, an error as its class."""
    try:
        return producers.check(batch, origin)
    except (
        CoordinatorFencedError,
        DuplicateSequenceError,
        InvalidTransactionError,
        OutOfOrderSequenceError,
        ProducerFencedError,
    ) as error:
        return type(error)


@st.composite
def attempts(draw, max_size=40):
    """What producers and coordinators try, most of it in order: functions of offset and model."""
    steps = []
    for _ in range(draw(st.integers(0, max_size))):
        pid = draw(st.sampled_from([1, 2, 2**62 + 3]))
        steps.append(
            (
                pid,
                draw(st.sampled_from(["data", "data", "data", "data", "marker"])),
                draw(st.sampled_from([0, 0, 0, 0, 0, 0, 1, -1])),  # epoch, from the current one
                draw(st.sampled_from(["next", "next", "next", "repeat", "any"])),
                draw(st.integers(0, 12)),
                draw(st.integers(1, 3)),
                draw(st.sampled_from([None, None, None, False, True])),
                draw(st.integers(0, 2)),
                draw(st.sampled_from([Origin.CLIENT] * 4 + [Origin.COORDINATOR, Origin.REPLICATION])),
                draw(st.sampled_from(Marker)),
            )
        )
    return steps, draw(st.sampled_from([0, 5, SEQUENCES - 4]))


def batch_for(step, model: Model, offset, first_sequence):
    """The batch that a step tries at this offset, after what the model has seen."""
    pid, kind, epoch_step, which, back, count, transactional, coordinator_epoch, _, marker = step
    history = model.of(pid)
    epoch = max(0, (model.epoch_of(pid) if history else 0) + epoch_step)
    if kind == "marker":
        return marker_of(offset, pid, epoch, marker, coordinator_epoch)
    data = model.data_of_epoch(pid)
    if which == "repeat" and data:
        old = data[-1 - back % len(data)]
        sequence, count = old.base_sequence, old.last_offset - old.base_offset + 1
    elif which == "any":
        sequence = (first_sequence + back) % SEQUENCES
    elif data and epoch_step == 0:
        sequence = (data[-1].last_sequence + 1) % SEQUENCES
    else:
        sequence = 0 if history else first_sequence
    if transactional is None:
        transactional = pid in model.transactions()[0] or pid == 2
    return batch_of(offset, pid, epoch, sequence, count, transactional)


def run(steps):
    """Drive a model by the steps; yields it before each batch that is tried."""
    attempted, first_sequence = steps
    model, offset = Model(), 0
    for step in attempted:
        batch = batch_for(step, model, offset, first_sequence)
        origin = step[8]
        if batch.is_control and origin is Origin.CLIENT:
            origin = Origin.COORDINATOR
        yield model, batch, origin
        if model.check(batch, origin) is None:
            model.batches.append(batch)
            offset = batch.last_offset + 1
