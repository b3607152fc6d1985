"""Segment swap: replacing a run of old segments by a new one while the log is in use.

The only module that replaces sealed segments while the log is open. Its steps, which `interrupted_swap` finishes
after a crash: the files of the complete new segment get the suffix ``.swap``; the old files get ``.deleted``. Then
the suffix ``.swap`` is removed, and the ``.deleted`` files are deleted. Appends continue: the log's lock is held
to change the tuple of segments and the marks, not for renames. Truncation, deletion and close wait
(`State.segments_mutex`).

Readers in this process always hold a tuple of segments whose files exist. These are first the old files, then the
``.swap`` file, which stays open during its last rename. Readers in other processes see an odd generation meanwhile
and retry.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence

from logstore._segment import Segment
from logstore.errors import OUT_OF_RESOURCES, StorageError, TooManyFilesError
from logstore.io._files import File
from logstore.io._interrupts import held
from logstore.log.directory import files
from logstore.log.formats import transaction_index
from logstore.log.state import State
from logstore.records import AbortedTransaction

_logger = logging.getLogger(__name__)

_NEW_SUFFIXES = (files.OFFSET_INDEX, files.TIME_INDEX, files.ABORTED_INDEX)


class Superseded(Exception):
    """Failure of a swap whose old segments were truncated or deleted meanwhile."""


def discard(state: State, new: Segment) -> None:
    """Remove a new segment that is not needed; files that cannot be removed are deleted at the next open."""
    new.close()
    try:
        for suffix in (files.LOG, *_NEW_SUFFIXES):
            state.directory.remove(files.segment_file(new.base_offset, suffix) + files.CLEANED)
    except StorageError as error:
        _logger.warning("half made segment not removed: segment=%s error=%s", new.path, error)


def swap(
    state: State, old: Sequence[Segment], new: Segment, listed: list[AbortedTransaction], generation: int
) -> int:
    """Replace ``old`` by ``new``, written completely under its ``.cleaned`` name; durable on return.

    ``listed`` are the aborted transactions whose markers are in ``new``. ``generation`` is that of the log when
    the old segments were read: a truncation since then invalidates the new segment. Returns the
    next generation.

    Raises:
        Superseded: the old segments were truncated or deleted. Nothing was changed.
        DiskFullError, StorageError: the new segment could not be written or renamed. Nothing was changed.
        StorageFailedError: the swap failed half way; opening the log again finishes it.
    """
    _finish_aside(state, new, listed)
    with held(state.segments_mutex):
        # Else a roll would later write a snapshot that is older than the swap's.
        state.rolls.finish_held()
        try:
            # Synced before any name changes: without a free descriptor the sync fails.
            state.directory.sync()
        except TooManyFilesError:
            raise
        except StorageError as error:
            with held(state.lock):
                raise state.fail_locked(error) from error
        with held(state.lock):
            state.check_writable()
            if generation != state.segments.generation or any(segment not in state.segments.all for segment in old):
                raise Superseded
            state.segments.begin_change()
        try:
            with held(state.lock):
                state.publish_locked()
            try:
                _name_swap(state, new.base_offset)
            except BaseException:
                # The swap is not decided yet. If its files cannot be removed durably, the log is failed.
                _take_back(state, new.base_offset)
                raise
            try:
                _replace(state, old, new, listed)
            except StorageError as error:
                with held(state.lock):
                    raise state.fail_locked(error) from error
            except BaseException:
                with held(state.lock):
                    state.fail_locked(StorageError(f"{state.name}: a compaction was interrupted at its swap"))
                raise
        finally:
            with held(state.lock):
                state.segments.end_change()
                if state.failed is None:
                    state.publish_locked()
        return state.segments.generation


def _finish_aside(state: State, new: Segment, listed: list[AbortedTransaction]) -> None:
    """Write the index files of the new segment; sync its .log file and its list of aborted transactions."""
    base = new.base_offset
    directory = state.directory
    contents = {files.OFFSET_INDEX: new.index.offsets.to_bytes(), files.TIME_INDEX: new.index.times.to_bytes()}
    if listed:
        # Synced below, unlike the indexes: without it readers would see the records of aborted transactions.
        contents[files.ABORTED_INDEX] = transaction_index.encode(listed)
    for suffix, data in contents.items():
        name = files.segment_file(base, suffix) + files.CLEANED
        with directory.open(name, create=True, writable=True, truncate=True) as file:
            file.write(data, 0)
            if suffix == files.ABORTED_INDEX:
                _sync(file)
    _sync(new.file)
    new.close()


def _sync(file: File) -> None:
    file.sync()


def _name_swap(state: State, base: int) -> None:
    names = set(state.directory.names())
    for name in names:
        # Left by an earlier run, this file would make a recovery take the new segment for incomplete.
        if name.endswith(files.CLEANED) and files.belongs_to_a_segment(name) and int(name[:20]) != base:
            state.directory.remove(name)
    # The .log file last: recovery discards the new segment before this rename, and finds it complete after it.
    for suffix in (*_NEW_SUFFIXES, files.LOG):
        name = files.segment_file(base, suffix)
        if name + files.CLEANED in names:
            state.directory.rename(name + files.CLEANED, name + files.SWAP)


def _take_back(state: State, base: int) -> None:
    directory = state.directory
    try:
        # The .log file first: if a crash left it without the others, recovery would finish the swap without the
        # list of aborted transactions.
        for suffix in (files.LOG, *_NEW_SUFFIXES):
            directory.remove(files.segment_file(base, suffix) + files.SWAP)
            directory.remove(files.segment_file(base, suffix) + files.CLEANED)
        directory.sync()
    except StorageError as error:
        with held(state.lock):
            raise state.fail_locked(error) from error


def _replace(state: State, old: Sequence[Segment], new: Segment, listed: list[AbortedTransaction]) -> None:
    directory, segments = state.directory, state.segments
    base, end = old[0].base_offset, old[-1].next_offset
    final = files.segment_file(base, files.LOG)
    # From here on a power cut leaves the new segment, or the files to finish the swap.
    directory.sync()
    passing = segments.open_sealed(final + files.SWAP, base, new.size, end)
    passing.index.replace(new.index.offsets, new.index.times)
    pin = passing.locate(base, 1, end)
    # First without the lock: opening files and loading indexes under it would block appends.
    state.holds.keep(old, state.transactions.aborted_between)
    try:
        with held(state.lock):
            state.check_writable()
            state.holds.keep(old, state.transactions.aborted_between)
            # Before the tuple changes: a reader with the new segment would not find its aborted transactions.
            state.transactions.segments_replaced([segment.base_offset for segment in old], listed)
            segments.replace(old, passing)
            state.holds.lose(old)
            state.unsynced.remove(old)
        with contextlib.suppress(*OUT_OF_RESOURCES):
            state.save_aborted()
        for segment in old:
            segment.close()
        removed = _take_away(state, old)
        # Deleted durably before the rename: a crash would leave two segments with the same offsets.
        directory.sync()
        names = set(directory.names())
        for suffix in (files.LOG, *_NEW_SUFFIXES):
            name = files.segment_file(base, suffix)
            if name + files.SWAP in names:
                directory.rename(name + files.SWAP, name)
        directory.sync()
        settled = segments.open_sealed(final, base, new.size, end)
        with held(state.lock):
            state.check_writable()
            segments.replace([passing], settled)
            generation = segments.replaced()
            state.durability.write_locked()
            state.transactions.save_own_snapshot(state.end.value, generation)
    finally:
        if pin is not None:
            pin.close()
    passing.close()
    for name in removed:
        directory.remove(name)


def _take_away(state: State, old: Sequence[Segment]) -> list[str]:
    """Rename the files of the old segments; return the new names, which are still to be unlinked."""
    doomed = [
        files.segment_file(segment.base_offset, suffix)
        for place, segment in enumerate(old)
        # The snapshot at the first base offset is that of the new segment, too.
        for suffix in (files.SEGMENT_SUFFIXES if place else (files.LOG, *_NEW_SUFFIXES))
    ]
    return files.put_aside(state.directory, doomed, state.directory.names())
