"""Producer state as bytes: Kafka's snapshots, and logstore's own with all remembered batches.

Functions over whole files. A snapshot is a hint that saves replay. A damaged one is None, and the state is rebuilt
from an older snapshot or from batch headers. On a roll logstore's is written before Kafka's, so that after a crash
it is never the older one (`load_newest`).

**Kafka's** ``%020d.snapshot``: the state before the offset in the name. It holds only the last
batch of a producer. Big-endian (Kafka's `ProducerSnapshot`, version 1)::

    0  2  version 1        6  4  number of producers
    2  4  CRC-32C of       10    46 bytes for each producer:
          all from 6 on

     0  8  producer id             22  4  offset delta: last minus base offset of that batch
     8  2  epoch                   26  8  timestamp of the last batch or marker
    10  4  last sequence, or -1    34  4  coordinator epoch, or -1
    14  8  last offset, or -1      38  8  first offset of the open transaction, or -1

**logstore's own** ``logstore.producers``: one file, replaced at each snapshot, with all remembered batches. So a
duplicate among the last five is detected after a restart even if a segment has just been rolled. Big-endian::

     0  4  magic "lpro"       24  4  number of producers
     4  2  version 1          28  4  number of completed transactions
     6  2  zero               32     43 bytes for each producer
     8  8  generation                then 32 bytes for each of their batches, in their order
    16  8  offset                    then 25 bytes for each completed transaction
                                     then CRC-32C of all before

The generation is that of the log: after a truncation an older file describes offsets that other
batches have now.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from logstore.batch._crc32c import crc32c
from logstore.log._producers import (
    NO_SEQUENCE,
    REMEMBERED_BATCHES,
    CompletedTransaction,
    Producers,
    ProducerState,
    WrittenBatch,
)
from logstore.log.formats.checkpoints import with_crc, without_crc
from logstore.records import INT32_MAX, SEQUENCE_COUNT

if TYPE_CHECKING:
    from logstore.log.directory.files import Directory

PRODUCERS = "logstore.producers"

_NAME = re.compile(r"([0-9]{20})\.snapshot", re.ASCII)

_HEAD = struct.Struct(">hI")
_VERSION = 1
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")

_OWN_HEAD = struct.Struct(">4sHHQqII")
_OWN_MAGIC = b"lpro"
_OWN_VERSION = 1
_OWN_STATE = struct.Struct(">qhiqqqIB")
_OWN_BATCH = struct.Struct(">iiqqq")
_OWN_COMPLETED = struct.Struct(">qqqB")

#: Stands for the last batch of a producer that is remembered by its markers alone.
_NO_BATCH = WrittenBatch(NO_SEQUENCE, NO_SEQUENCE, -1, -1, -1)


class SavedProducers(NamedTuple):
    """State of all producers before ``offset``; batches from there on must be replayed."""

    offset: int
    states: list[ProducerState]
    completed: list[CompletedTransaction]

    @classmethod
    def of(cls, producers: Producers, offset: int) -> SavedProducers:
        """Refer to the current state without a copy: encode it before the producers change."""
        return cls(offset, list(producers), list(producers.completed))


# --- Kafka's ---------------------------------------------------------------------------------


def snapshot_name(offset: int) -> str:
    """Return the name of Kafka's snapshot of the state before ``offset``.

    >>> snapshot_name(42)
    '00000000000000000042.snapshot'
    """
    return f"{offset:020d}.snapshot"


def snapshot_offset(name: str) -> int | None:
    """Return the offset in the name of a snapshot; None for any other file."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def encode_snapshot(states: Iterable[ProducerState]) -> bytes:
    """Encode Kafka's snapshot of these producers."""
    entries = []
    for state in states:
        first_offset = -1 if state.transaction_first_offset is None else state.transaction_first_offset
        last = state.batches[-1] if state.batches else _NO_BATCH
        entries.append(
            _ENTRY.pack(
                state.producer_id,
                state.epoch,
                last.last_sequence,
                last.last_offset,
                last.last_offset - last.base_offset,
                state.timestamp_ms,
                state.coordinator_epoch,
                first_offset,
            )
        )
    body = b"".join([_COUNT.pack(len(entries)), *entries])
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes, offset: int) -> list[ProducerState] | None:
    """Return the producers in Kafka's snapshot at ``offset``; None if it is damaged.

    Each remembers one batch at most. Expiry uses the timestamps that the producers gave.
    """
    start = _HEAD.size + _COUNT.size
    if len(data) < start or _HEAD.unpack_from(data) != (_VERSION, crc32c(memoryview(data)[_HEAD.size :])):
        return None
    if len(data) != start + _COUNT.unpack_from(data, _HEAD.size)[0] * _ENTRY.size:
        return None
    states = []
    for entry in _ENTRY.iter_unpack(memoryview(data)[start:]):
        producer_id, epoch, sequence, last_offset, delta, timestamp_ms, coordinator_epoch, first_offset = entry
        state = ProducerState(producer_id, epoch, coordinator_epoch, timestamp_ms, timestamp_ms)
        if first_offset >= 0:
            state.transaction_first_offset = first_offset
        if last_offset >= 0:
            if not 0 <= delta <= last_offset:
                return None
            base_sequence = NO_SEQUENCE
            if sequence >= 0:
                # As Kafka derives it: in one batch, sequences and offsets rise together.
                base_sequence = (sequence - delta) % SEQUENCE_COUNT
                state.chain_count = delta + 1
            state.batches = (WrittenBatch(base_sequence, sequence, last_offset - delta, last_offset, timestamp_ms),)
        states.append(state)
    return states if _holds_together(states, offset) else None


# --- logstore's own --------------------------------------------------------------------------


def encode_producers(saved: SavedProducers, generation: int) -> bytes:
    """Encode ``logstore.producers`` in this generation of the log."""
    heads, batches = [], []
    for state in saved.states:
        first_offset = -1 if state.transaction_first_offset is None else state.transaction_first_offset
        heads.append(
            _OWN_STATE.pack(
                state.producer_id,
                state.epoch,
                state.coordinator_epoch,
                state.timestamp_ms,
                state.written_ms,
                first_offset,
                state.chain_count,
                len(state.batches),
            )
        )
        for batch in state.batches:
            batches.append(_OWN_BATCH.pack(*batch))
    completed = [_OWN_COMPLETED.pack(*transaction) for transaction in saved.completed]
    head = _OWN_HEAD.pack(_OWN_MAGIC, _OWN_VERSION, 0, generation, saved.offset, len(heads), len(saved.completed))
    return with_crc(b"".join([head, *heads, *batches, *completed]))


def decode_producers(data: bytes, generation: int) -> SavedProducers | None:
    """Decode ``logstore.producers``; None if it is damaged or of another generation."""
    body = without_crc(data)
    if body is None or len(body) < _OWN_HEAD.size:
        return None
    magic, version, zero, found, offset, state_count, completed_count = _OWN_HEAD.unpack_from(body)
    if magic != _OWN_MAGIC or version != _OWN_VERSION or zero or found != generation or offset < 0:
        return None
    states_end = _OWN_HEAD.size + state_count * _OWN_STATE.size
    batches_end = len(body) - completed_count * _OWN_COMPLETED.size
    if states_end > batches_end or (batches_end - states_end) % _OWN_BATCH.size:
        return None
    view = memoryview(body)
    batches = [WrittenBatch(*fields) for fields in _OWN_BATCH.iter_unpack(view[states_end:batches_end])]
    states = []
    taken = 0
    for fields in _OWN_STATE.iter_unpack(view[_OWN_HEAD.size : states_end]):
        producer_id, epoch, coordinator_epoch, timestamp_ms, written_ms, first_offset, chain_count, count = fields
        own = tuple(batches[taken : taken + count])
        if count > REMEMBERED_BATCHES or len(own) < count or not _follow(own):
            return None
        taken += count
        state = ProducerState(producer_id, epoch, coordinator_epoch, timestamp_ms, written_ms)
        state.transaction_first_offset = None if first_offset < 0 else first_offset
        state.batches, state.chain_count = own, chain_count
        states.append(state)
    completed = [
        CompletedTransaction(producer_id, first, last, bool(is_aborted))
        for producer_id, first, last, is_aborted in _OWN_COMPLETED.iter_unpack(view[batches_end:])
    ]
    if taken != len(batches) or not _holds_together(states, offset) or not _rises(completed, offset):
        return None
    return SavedProducers(offset, states, completed)


# --- the files of a partition ----------------------------------------------------------------


def save(directory: Directory, producers: Producers, offset: int, generation: int, *, durable: bool) -> None:
    """Write both snapshots of the state before ``offset``, logstore's first.

    ``durable`` for a recovery that replays from ``offset`` on and nothing before it.
    """
    saved = SavedProducers.of(producers, offset)
    directory.replace(PRODUCERS, encode_producers(saved, generation), durable=durable)
    directory.replace(snapshot_name(offset), encode_snapshot(saved.states), durable=durable)


def encode_both(producers: Producers, offset: int, generation: int) -> dict[str, bytes]:
    """Return both snapshots of the state before ``offset`` as `save` writes them: by name, in that order."""
    saved = SavedProducers.of(producers, offset)
    return {PRODUCERS: encode_producers(saved, generation), snapshot_name(offset): encode_snapshot(saved.states)}


def save_own(directory: Directory, producers: Producers, offset: int, generation: int) -> None:
    """Write logstore's own snapshot of the state before ``offset``, a hint."""
    data = encode_producers(SavedProducers.of(producers, offset), generation)
    directory.replace(PRODUCERS, data, durable=False)


def remove_beyond(
    directory: Directory, end_offset: int, generation: int, names: list[str] | None = None
) -> list[str]:
    """Remove every snapshot beyond the log end offset, durably; return the other names.

    ``names`` are those in the directory, if they are known. A truncated log grows again: a snapshot left from
    before would then describe other batches.
    """
    names = directory.names() if names is None else names
    own = decode_producers(directory.read(PRODUCERS, names) or b"", generation)
    stale = [name for name in names if (snapshot_offset(name) or 0) > end_offset]
    if own is not None and own.offset > end_offset:
        stale.append(PRODUCERS)
    for name in stale:
        directory.remove(name)
    if stale:
        directory.sync()
        names = [name for name in names if name not in stale]
    return names


def remove_all(directory: Directory) -> None:
    """Remove every snapshot, durably: the log begins again, and no producer has written in it."""
    stale = [name for name in directory.names() if name == PRODUCERS or snapshot_offset(name) is not None]
    for name in stale:
        directory.remove(name)
    if stale:
        directory.sync()


def remove_strays(directory: Directory, base_offsets: set[int], names: list[str]) -> None:
    """Remove Kafka's snapshots, except the newest, at which no segment begins.

    Each clean close leaves one at the log end offset. ``names`` are those in the directory. Kafka's
    `ProducerStateManager.removeStraySnapshots` does the same when a log is loaded.
    """
    offsets = [offset for name in names if (offset := snapshot_offset(name)) is not None]
    newest = max(offsets, default=0)
    for offset in offsets:
        if offset != newest and offset not in base_offsets:
            directory.remove(snapshot_name(offset))


def load_newest(
    directory: Directory, end_offset: int, generation: int, names: list[str] | None = None
) -> SavedProducers | None:
    """Return the newest whole snapshot at or before ``end_offset``; None if everything must be replayed.

    That is logstore's own, unless Kafka's is newer. Damaged files are skipped and left in place. ``names`` are
    those in the directory, if they are known.

    Raises:
        StorageError: a file exists and cannot be read.
    """
    own = decode_producers(directory.read(PRODUCERS) or b"", generation)
    if own is not None and own.offset > end_offset:
        own = None
    names = directory.names() if names is None else names
    offsets = [offset for name in names if (offset := snapshot_offset(name)) is not None]
    for offset in sorted(offsets, reverse=True):
        if own is not None and offset <= own.offset:
            break
        if offset > end_offset:
            continue
        states = decode_snapshot(directory.read(snapshot_name(offset)) or b"", offset)
        if states is not None:
            return SavedProducers(offset, states, [])
    return own


def _holds_together(states: list[ProducerState], offset: int) -> bool:
    """Return whether each id has one state, and no state refers to ``offset`` or a later one."""
    for state in states:
        first_offset = state.transaction_first_offset
        if state.producer_id < 0 or (first_offset is not None and first_offset >= offset):
            return False
        if state.batches and state.batches[-1].last_offset >= offset:
            return False
    return len({state.producer_id for state in states}) == len(states)


def _follow(batches: tuple[WrittenBatch, ...]) -> bool:
    """Return whether each batch has a valid range of offsets, after that of the batch before it."""
    next_offset = 0
    for batch in batches:
        if not next_offset <= batch.base_offset <= batch.last_offset <= batch.base_offset + INT32_MAX:
            return False
        next_offset = batch.last_offset + 1
    return True


def _rises(completed: list[CompletedTransaction], offset: int) -> bool:
    first = last = -1
    for transaction in completed:
        if transaction.first_offset <= first or transaction.last_offset <= last:
            return False
        first, last = transaction.first_offset, transaction.last_offset
    return last < offset
