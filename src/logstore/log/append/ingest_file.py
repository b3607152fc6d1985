"""File ingestion: a file of finished batches becomes a segment of the log, so its bytes are written once.

The file is below the log's directory, in the same file system, and has no writer any more; the caller has checked
its batches. It is stamped in place, synced, and renamed to follow the last segment. Until the rename the log is
unchanged. From then on it is an append like any other: above the recovery point, where recovery keeps whole
batches. A stamped file that was not ingested may still be copied, in the same call of the store, but not later.

An empty active segment gives its name to the file. Readers in other processes may hold the empty file open, so
the generation rises, as after a truncation.

Imports the modules that write a log. Other appends wait for the rename and for a few bytes of each header, and for
no sync.
"""

from __future__ import annotations

import errno
import logging
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from logstore._segment import Segment
from logstore.batch._batch import stamp_producer
from logstore.errors import StorageError, StorageFailedError
from logstore.io._files import File, errno_of
from logstore.io._interrupts import held
from logstore.log._partition_log import READY_ATTEMPTS
from logstore.log.append.append import produced_run, write_locked
from logstore.log.directory.segments import NotTaken
from logstore.log.space_quota import with_space
from logstore.log.state import State, batches_of
from logstore.log.write_modes import DIRECT
from logstore.records import BATCH_HEADER_BYTES, INT32_MAX, AppendResult, Origin, ProducerStamp

_logger = logging.getLogger(__name__)

#: Smaller files are copied into the active segment: each segment costs files, descriptors and an entry in memory.
LEAST_BYTES: Final = 16 << 20
#: Files of smaller batches on average are copied: stamping that many headers costs as much.
LEAST_BATCH_BYTES: Final = 64 << 10

_FRONT = struct.Struct(">qii")  # of a batch: base offset, length, leader epoch; outside the CRC
_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS)


class Whole(NamedTuple):
    """Checked contents of a file that may be ingested; they cover every byte of it."""

    name: str  #: in the log's directory, or below it
    size: int
    batch_count: int
    record_count: int
    first_timestamp_ms: int  #: the newest timestamp of the first batch
    max_timestamp_ms: int  #: that of all


class _StampedBatch(NamedTuple):
    """A stamped batch in the file."""

    position: int
    length: int
    shift: int  #: from the first offset of the file to its own


def ingest(
    state: State,
    whole: Whole,
    runs: Iterable[tuple[bytearray, int]],
    producer: ProducerStamp,
    now_ms: int,
    *,
    append_time: bool,
) -> AppendResult | None:
    """Make a file the newest segment; return None, with the log unchanged, if it has to be copied instead.

    ``runs`` gives its batches from the beginning, with their counts of records. Raises as `LogReplica.ingest_file`.
    """
    newest = now_ms if append_time else whole.max_timestamp_ms
    if not _is_fit(state, whole, append_time):
        return None
    try:
        file = state.directory.open(whole.name, writable=True)
    except StorageError as error:
        if errno_of(error) in _NOT_OURS:
            return None
        raise
    try:
        batches = list(_stamp(file, runs, producer, now_ms if append_time else -1))
        # Before the lock: a sync of the whole file under it would block other appends.
        file.sync()

        def attempt() -> AppendResult | None:
            with held(state.segments_mutex):
                for left in reversed(range(READY_ATTEMPTS)):
                    # What a roll would sync, before the lock. An append may roll in between, and leave such work.
                    state.rolls.get_ready_to_adopt()
                    with held(state.lock):
                        # Settings may have changed since the first check. A stamped file may still be copied.
                        if not _is_fit(state, whole, append_time):
                            return None
                        if left and state.segments.active.size and not state.rolls.may_adopt_locked():
                            continue
                        result = _ingest_locked(state, whole, file, batches, producer, newest, now_ms)
                    return result
            raise AssertionError(f"{state.name}: no attempt was the last")

        result = with_space(state.quota, whole.size, attempt)
        # Not in the attempt: an error of it would have the records appended again.
        with held(state.segments_mutex):
            state.rolls.remove_left()
        if state.has_work:
            state.follow_up()
        return result
    except NotTaken as error:
        # Removed by the staging writer, or not ours to move. The open descriptor still reads its bytes.
        _logger.warning("a staged file is copied: log=%s error=%s", state.path, error)
        return None
    finally:
        file.close()


def _is_fit(state: State, whole: Whole, append_time: bool) -> bool:
    """Return whether a file is large enough, and would be a segment that the log's settings allow."""
    config = state.config
    active = state.segments.active
    entries = config.segment_index_bytes // 12
    return (
        LEAST_BYTES <= whole.size <= config.segment_bytes
        and whole.size // LEAST_BATCH_BYTES >= whole.batch_count
        and whole.batch_count < entries
        and whole.record_count <= INT32_MAX
        and (append_time or whole.max_timestamp_ms - whole.first_timestamp_ms <= state.roll_after_ms)
        # With offsets that are positions, or a memory tail, the log places each batch itself.
        and state.mode is DIRECT
        # The keys were checked before the log became a compacted one; only a copy is checked again.
        and not state.must_check_keys
        # The file is named by the next offset; it cannot replace an empty segment of another name.
        and (active.size > 0 or active.base_offset == state.end.value)
    )


def _stamp(
    file: File, runs: Iterable[tuple[bytearray, int]], producer: ProducerStamp, append_time_ms: int
) -> Iterator[_StampedBatch]:
    """Stamp the producer into every batch in the file, as if the file began at offset 0."""
    position = shift = 0
    sequence = producer.base_sequence
    for run, _ in runs:
        sequence = stamp_producer(
            run,
            producer.producer_id,
            producer.producer_epoch,
            sequence,
            transactional=producer.transactional,
            append_time_ms=append_time_ms,
        )
        for batch in batches_of(run):
            file.write(batch[:BATCH_HEADER_BYTES], position)
            yield _StampedBatch(position, len(batch) - 12, shift)
            shift += int.from_bytes(batch[23:27], "big") + 1
            position += len(batch)


def _ingest_locked(
    state: State,
    whole: Whole,
    file: File,
    batches: list[_StampedBatch],
    producer: ProducerStamp,
    newest: int,
    now_ms: int,
) -> AppendResult:
    count = whole.record_count
    produced = produced_run(producer, count, newest) if producer.producer_id >= 0 else None

    def put(state: State, _data: object, first: int, *_rest: object) -> int:
        for batch in batches:
            file.write(_FRONT.pack(first + batch.shift, batch.length, state.leader_epoch), batch.position)
        _make_segment_locked(state, whole, file, first)
        return first + count

    result = write_locked(
        state,
        range(whole.size),
        count,
        count,
        whole.batch_count,
        newest,
        produced,
        Origin.CLIENT,
        now_ms,
        put=put,
    )
    assert not result.duplicate, (state.name, producer)
    return result


def _make_segment_locked(state: State, whole: Whole, file: File, first: int) -> None:
    """Add the file after the last segment, or in place of an empty one."""

    def begin(base_offset: int) -> Segment:
        end = first + whole.record_count
        segment = state.segments.take(whole.name, base_offset, size=whole.size, next_offset=end)
        if file.sync_failed:
            # A sync before the descriptor was closed for another file failed; a later sync would not report it.
            raise StorageFailedError(f"{state.name}: a sync of the file failed", path=segment.path)
        return segment

    with state.storing_locked():
        state.reserve_locked(whole.size)
    if state.segments.active.size:
        state.roll_locked(begin=begin)
    else:
        _replace_empty_locked(state, begin)
    state.spend_locked(whole.size)


def _replace_empty_locked(state: State, begin: Callable[[int], Segment]) -> None:
    base = state.segments.active.base_offset
    state.segments.begin_change()
    try:
        with state.storing_locked():
            # Before the rename: a crash after it would leave readers with the empty file. Alone it is harmless.
            generation = state.segments.replaced()
            state.durability.write_locked()
            state.publish_locked()
            begin(base)
            state.transactions.save_own_snapshot(base, generation)
    finally:
        state.segments.end_change()
        if state.failed is None:
            state.publish_locked()
    state.unsynced.names_changed()
