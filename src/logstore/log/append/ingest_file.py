"""A file of finished batches that becomes a segment of the log as it is: its bytes are written once.

The file lies below the log's directory, in the same file system, and nobody writes to it any more; its batches
were checked by the caller. It is stamped in place, synced, and renamed behind the last segment. Until the rename
nothing of the log has changed; from then on it is an append like any other: above the recovery point, of which
recovery keeps what is whole. A stamped file that is not adopted may still be copied, in the same call of the store;
no later one takes it.

An empty active segment gives its name to the file. Readers in other processes may hold the empty file open, so
they are told to look again, as after a cut.

Imports what writes a log. Other appends wait for the rename and for a few bytes in each header, not for the disk.
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
from logstore.log.append.append import ProducerStamp, produced_run, write_locked
from logstore.log.directory.segments import NotTaken
from logstore.log.space_quota import with_room
from logstore.log.state import INT32_MAX, State, batches_of
from logstore.records import AppendResult, Origin

_logger = logging.getLogger(__name__)

#: Fewer bytes are copied behind the active segment: each segment costs files, descriptors and an entry in memory.
LEAST_BYTES: Final = 16 << 20
#: Of batches that are smaller on average so many headers have to be stamped that a copy is as cheap.
LEAST_BATCH_BYTES: Final = 64 << 10

_HEADER = 61
_FRONT = struct.Struct(">qii")  # of a batch: base offset, length, leader epoch; outside the CRC
_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS)


class Whole(NamedTuple):
    """What is in a file that may be adopted: every byte of it, as it was checked."""

    name: str  #: in the log's directory, or below it
    size: int
    batch_count: int
    record_count: int
    first_timestamp_ms: int  #: the newest timestamp of the first batch
    max_timestamp_ms: int  #: that of all


class _Place(NamedTuple):
    """A stamped batch in the file."""

    position: int
    length: int
    shift: int  #: from the first offset of the file to its own


def adopt(
    state: State,
    whole: Whole,
    runs: Iterable[tuple[bytearray, int]],
    producer: ProducerStamp,
    now_ms: int,
    *,
    append_time: bool,
) -> AppendResult | None:
    """Make a file the newest segment; None, with the log as it was, if it has to be copied instead.

    ``runs`` gives its batches from the beginning, with their counts of records. Raises as `Log.adopt`.
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
        places = list(_stamp(file, runs, producer, now_ms if append_time else -1))
        # The disk takes its time while others may still append; under the lock only the headers are left.
        file.sync()

        def attempt() -> AppendResult | None:
            with held(state.lock):
                # Again: settings may have changed meanwhile. A stamped file may still be copied.
                if not _is_fit(state, whole, append_time):
                    return None
                return _adopt_locked(state, whole, file, places, producer, newest, now_ms)

        return with_room(state.quota, whole.size, attempt)
    except NotTaken as error:
        # Removed by whoever staged it, or not ours to move. Its bytes are there through an open descriptor.
        _logger.warning("a staged file is copied: log=%s error=%s", state.path, error)
        return None
    finally:
        file.close()


def _is_fit(state: State, whole: Whole, append_time: bool) -> bool:
    """Whether a file is large enough, and makes a segment that the log's settings allow."""
    config = state.config
    active = state.segments.active
    entries = config.segment_index_bytes // 12
    return (
        LEAST_BYTES <= whole.size <= config.segment_bytes
        and whole.size // LEAST_BATCH_BYTES >= whole.batch_count
        and whole.batch_count < entries
        and whole.record_count <= INT32_MAX
        and (append_time or whole.max_timestamp_ms - whole.first_timestamp_ms <= state.roll_after_ms)
        # Where offsets are places in the file, or appends wait in memory, the writer decides where each batch goes.
        and state.positions is None
        and state.tail is None
        # Its keys were looked for before the log became a compacted one: what is copied is looked at again.
        and not state.must_check_keys
        # The file gets the name of the next offset; an empty segment that has another name stays.
        and (active.size > 0 or active.base_offset == state.end.value)
    )


def _stamp(
    file: File, runs: Iterable[tuple[bytearray, int]], producer: ProducerStamp, append_time_ms: int
) -> Iterator[_Place]:
    """Make every batch in the file the producer's, as if the file began at offset 0."""
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
            file.write(batch[:_HEADER], position)
            yield _Place(position, len(batch) - 12, shift)
            shift += int.from_bytes(batch[23:27], "big") + 1
            position += len(batch)


def _adopt_locked(
    state: State,
    whole: Whole,
    file: File,
    places: list[_Place],
    producer: ProducerStamp,
    newest: int,
    now_ms: int,
) -> AppendResult:
    count = whole.record_count
    produced = produced_run(producer, count, newest) if producer.producer_id >= 0 else None

    def put(state: State, _data: object, first: int, *_rest: object) -> int:
        for place in places:
            file.write(_FRONT.pack(first + place.shift, place.length, state.leader_epoch), place.position)
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
    """Put the file behind the last segment, or in the place of an empty one."""

    def begin(base_offset: int) -> Segment:
        end = first + whole.record_count
        segment = state.segments.take(whole.name, base_offset, size=whole.size, next_offset=end)
        if file.sync_failed:
            # Synced to make room for another descriptor, and lost: a later sync would not say so again.
            raise StorageFailedError(f"{state.name}: a sync of the file failed", path=segment.path)
        return segment

    if whole.size > state.reserved_bytes:
        state.reserved_bytes += state.quota.reserve(whole.size - state.reserved_bytes)
    if state.segments.active.size:
        state.roll_locked(begin=begin)
    else:
        _replace_empty_locked(state, begin)
    state.reserved_bytes -= whole.size


def _replace_empty_locked(state: State, begin: Callable[[int], Segment]) -> None:
    base = state.segments.active.base_offset
    state.files_changing += 1
    try:
        with state.storing_locked():
            # Raised and told before the name changes: that alone has readers look again, and does no harm.
            state.generation += 1
            state.recovery.write(state.point_now(clean=False))
            state.publish_locked()
            begin(base)
            state.transactions.save_own_snapshot(base, state.generation)
    finally:
        state.files_changing -= 1
        if state.failed is None:
            state.publish_locked()
    state.names_changed()


__all__ = ["LEAST_BATCH_BYTES", "LEAST_BYTES", "Whole", "adopt"]
