"""Putting one new segment in the place of a run of old ones, under a log that goes on.

The only module that changes which files are the log's sealed segments while the log is open. Its
steps are those that `interrupted_swap` finishes after a crash, in the same order: the whole new form gets the
suffix ``.swap``; the old files go; the suffix goes. Appends go on all the while: the log's lock is held
only to change the tuple of segments. Whoever cuts, deletes or closes waits (`State.segments_mutex`).

Readers in this process hold a tuple whose files are all there: the old ones until the new ones are
named ``.swap``, then those, pinned over their last change of name. Readers in other processes see an
odd generation meanwhile and look again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from logstore._segment import Segment
from logstore.errors import DiskFullError, StorageError, TooManyFilesError
from logstore.io._files import File
from logstore.io._interrupts import held
from logstore.log.directory import files
from logstore.log.formats import transaction_index
from logstore.log.state import State
from logstore.records import AbortedTransaction

_logger = logging.getLogger(__name__)

_NEW_SUFFIXES = (files.OFFSET_INDEX, files.TIME_INDEX, files.ABORTED_INDEX)


class Superseded(Exception):
    """The segments that were to be replaced are no longer the log's: cut or deleted meanwhile."""


def discard(state: State, new: Segment) -> None:
    """Remove a new form that is not needed; what cannot be removed goes at the next open."""
    new.close()
    try:
        for suffix in (files.LOG, *_NEW_SUFFIXES):
            state.directory.remove(files.segment_file(new.base_offset, suffix) + files.CLEANED)
    except StorageError as error:
        _logger.warning("half made segment not removed: segment=%s error=%s", new.path, error)


def exchange(
    state: State, old: Sequence[Segment], new: Segment, listed: list[AbortedTransaction], generation: int
) -> int:
    """Put ``new``, written whole under its ``.cleaned`` name, in the place of ``old``; durable on return.

    ``listed`` are the aborted transactions whose markers are in it. ``generation`` is that of the log when
    the old segments were read: a truncation since then makes the new form worthless. Returns the
    generation that follows.

    Raises:
        Superseded: the old segments are gone. Nothing was changed.
        DiskFullError, StorageError: the new form could not be written or named. Nothing was changed.
        StorageFailedError: the exchange failed half way; opening the log again finishes it.
    """
    _finish_aside(state, new, listed)
    with held(state.segments_mutex):
        try:
            # Asked now: where no directory can be opened, that has to show before any name has changed.
            state.directory.sync()
        except TooManyFilesError:
            raise
        except StorageError as error:
            with held(state.lock):
                raise state.fail_locked(error) from error
        with held(state.lock):
            state.check_writable()
            if generation != state.generation or any(segment not in state.segments.all for segment in old):
                raise Superseded
            state.files_changing += 1
        try:
            with held(state.lock):
                state.publish_locked()
            try:
                _name_swap(state, new.base_offset)
            except BaseException:
                # Nothing says yet that the new form counts. If that cannot be made sure, the log is failed.
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
                state.files_changing -= 1
                if state.failed is None:
                    state.publish_locked()
        return state.generation


def _finish_aside(state: State, new: Segment, listed: list[AbortedTransaction]) -> None:
    """The new form's other files, and all of it on disk that is no hint."""
    base = new.base_offset
    directory = state.directory
    contents = {files.OFFSET_INDEX: new.index.to_bytes(), files.TIME_INDEX: new.times.to_bytes()}
    if listed:
        # Not a hint: without it the records of aborted transactions would be seen.
        contents[files.ABORTED_INDEX] = transaction_index.encode(listed)
    for suffix, data in contents.items():
        name = files.segment_file(base, suffix) + files.CLEANED
        file = directory.open(name, create=True, writable=True, truncate=True)
        try:
            file.write(data, 0)
            if suffix == files.ABORTED_INDEX:
                _sync(file)
        finally:
            file.close()
    _sync(new.file)
    new.close()


def _sync(file: File) -> None:
    file.sync()


def _name_swap(state: State, base: int) -> None:
    names = set(state.directory.names())
    for name in names:
        # What an earlier run could not remove would tell a recovery that this new form is half made.
        if name.endswith(files.CLEANED) and files.belongs_to_a_segment(name) and int(name[:20]) != base:
            state.directory.remove(name)
    # The records last: while their name says .cleaned, all of it is worthless.
    for suffix in (*_NEW_SUFFIXES, files.LOG):
        name = files.segment_file(base, suffix)
        if name + files.CLEANED in names:
            state.directory.rename(name + files.CLEANED, name + files.SWAP)


def _take_back(state: State, base: int) -> None:
    directory = state.directory
    try:
        # The records first: without them the rest is nothing.
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
    # From here on a power cut leaves the new form, or what leads to it.
    directory.sync()
    passing = segments.open_sealed(final + files.SWAP, base, new.size, end)
    passing.set_indexes(new.index, new.times)
    pin = passing.locate(base, 1, end)
    # Nearly all of it is done here: opening files and loading indexes would keep appends waiting for the lock.
    state.holds.keep(old, state.transactions.aborted_between)
    try:
        with held(state.lock):
            state.check_writable()
            state.holds.keep(old, state.transactions.aborted_between)
            # Before the tuple changes: whoever has the new segment finds its list.
            state.transactions.exchanged([segment.base_offset for segment in old], listed)
            segments.exchange(old, passing)
            state.holds.lose(old)
            state.unsynced = [segment for segment in state.unsynced if segment not in old]
        for segment in old:
            segment.close()
        removed = _take_away(state, old)
        # Gone for good before anything takes their place: two segments would hold the same offsets.
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
            segments.exchange([passing], settled)
            state.generation += 1
            state.recovery.write(state.point_now(clean=False))
            state.transactions.save_own_snapshot(state.end.value, state.generation)
    finally:
        if pin is not None:
            pin.close()
    passing.close()
    for name in removed:
        directory.remove(name)


def _take_away(state: State, old: Sequence[Segment]) -> list[str]:
    """Take the names of the old segments away; the files that are still to be unlinked."""
    directory = state.directory
    names = set(directory.names())
    renamed = []
    for place, segment in enumerate(old):
        suffixes = files.SEGMENT_SUFFIXES if place else (files.LOG, *_NEW_SUFFIXES)
        for suffix in suffixes:
            name = files.segment_file(segment.base_offset, suffix)
            if name not in names:
                continue
            try:
                directory.rename(name, name + files.DELETED)
                renamed.append(name + files.DELETED)
            except DiskFullError:
                # A longer name may need a new block of the directory.
                directory.remove(name)
    return renamed
