"""Append of a follower: whole batches as their leader stores them, one write for each segment.

`append_replicated` is the run's way through the log's lock. Bytes are written first; leader epochs, producer state
and marks follow, as in `append`. It stamps nothing, refuses no size, and asks no rule of clients: their leader has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logstore.errors import LogstoreError
from logstore.io._interrupts import locked, shielded
from logstore.log.append._replicated_run import Piece, ReplicatedRun
from logstore.log.append.append import LogWriter, note_epoch_locked
from logstore.log.space_quota import with_space
from logstore.log.state import State
from logstore.records import INT32_MAX, Ack, AppendResult

if TYPE_CHECKING:
    from typing_extensions import Buffer


def append_replicated(
    writer: LogWriter, data: Buffer, ack: Ack | str | None, leader_epoch: int, is_contiguous: bool
) -> AppendResult:
    """See `LogReplica.append_replicated`. The result has the first and the last offset that were written."""
    state = writer.state
    settled = writer.settled(ack)
    run = ReplicatedRun(data)
    try:
        run.end_before_wrong(state.end.value, leader_epoch, is_contiguous)
        if not run.count:
            if run.error is not None:
                raise run.error
            end = state.end.value
            return AppendResult(end, end - 1, -1)
        first = run.first_offset
        written = with_space(state.quota, run.left, lambda: _write(writer, run))
        if state.has_work:
            state.follow_up()
        # The batches before a bad one are in the log: as durable as asked before the bad one is named.
        writer.acknowledge(AppendResult(first, written - 1, -1), settled)
        if run.error is not None:
            raise run.error
        return AppendResult(first, written - 1, -1)
    finally:
        run.release()


def _write(writer: LogWriter, run: ReplicatedRun) -> int:
    state = writer.state
    now_ms = state.clock.now_ms()
    if not state.mode.in_memory:
        while True:
            state.get_ready(min(run.left, state.config.segment_bytes), 1, -1)
            written = locked(state.lock, writer.settle_locked, _write_locked, state, run, now_ms)
            if run.taken == run.count:
                return written
            # What a roll needs is prepared without the lock, however often another append takes it.
            state.follow_up()
            shielded(state.get_ready_to_roll)
    # Drained first. An interrupted append could not be undone beside it, so none comes in between.
    return shielded(locked, state.lock, writer.settle_locked, _write_locked, state, run, now_ms)


def _write_locked(state: State, run: ReplicatedRun, now_ms: int) -> int:
    """Write the batches that are left, up to a roll that has to wait; return the offset after the last one."""
    state.check_whole_locked()
    if state.mode.in_memory:
        with state.change():
            state.drain_tail_locked()
    latest = state.epochs.table.latest
    run.check_follows(state.name, state.end.value, -1 if latest is None else latest.epoch)
    if state.must_unmark:
        shielded(state.durability.unmark_locked)
    while run.taken < run.count:
        piece = run.piece(state)
        if piece is None:
            # An empty segment, which no roll would replace, cannot reach the last offset of a batch behind a gap.
            if run.first_offset - state.end.value > INT32_MAX or not state.segments.active.size:
                shielded(state.skip_to_locked, run.first_offset)
            elif state.mode.in_memory or state.rolls.may_switch_locked():
                shielded(state.roll_locked)
            else:
                break
            piece = run.piece(state)
            assert piece is not None, (state.name, run.first_offset)
        state.begin_append()
        try:
            _write_piece_locked(state, run, piece, now_ms)
        except LogstoreError:
            state.end_append()
            raise
        state.end_append()
    return state.end.value


def _write_piece_locked(state: State, run: ReplicatedRun, piece: Piece, now_ms: int) -> None:
    """Write batches that the active segment takes, and move the marks over them: all of them or none."""
    transactions = state.transactions
    has_producers = run.has_producers(piece.batch_count)
    first = state.end.value
    with run.bytes[piece.position : piece.position + piece.size] as data:
        state.append_locked(data, first, -1)
    epochs = run.epochs(piece.batch_count)
    for epoch, offset in epochs:
        note_epoch_locked(state, epoch, offset)
    if has_producers:
        for entry in run.apply(transactions.changing(), piece.batch_count, now_ms):
            state.list_aborted_locked(entry)
        state.transactions.expire(now_ms)
    state.counters.count(piece.record_count, piece.batch_count, piece.size)
    run.take(piece.batch_count)
    state.note_growth_locked()
    state.end.advance(piece.next_offset)
    # What is appended here later is of no older epoch.
    state.begin_epoch(max(state.leader_epoch, epochs[-1][0]))
    state.move_marks_locked(by_append=True)
