"""Files of aborted transactions: the aborted indexes of segments and the note, written without any lock.

`Transactions` says what the files have to hold at one moment (`AbortedFiles`), calls `write`, and uses the returned
files under the log's lock. Nothing of an open log is read or changed here. Imports the directory's files, and
`transaction_index` for their bytes.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from typing import NamedTuple

from logstore.errors import StorageError, TooManyFilesError
from logstore.io._files import File
from logstore.log.directory import files
from logstore.log.directory.files import Directory
from logstore.log.formats import transaction_index
from logstore.log.formats.transaction_index import ENTRY_BYTES, Sum
from logstore.records import AbortedTransaction

_logger = logging.getLogger(__name__)


class AbortedIndex(NamedTuple):
    """The aborted index of one segment."""

    base_offset: int
    entries: tuple[AbortedTransaction, ...]
    file: File | None  #: None: it is opened, and written from the beginning
    written: int  #: entries that the file has
    is_replaced: bool  #: what the file has may be wrong


class AbortedFiles(NamedTuple):
    """What the files have to hold at one moment, as far as they do not."""

    version: int  #: of the files at that moment
    indexes: tuple[AbortedIndex, ...]
    active: int  #: base offset of the active segment
    sums: Mapping[int, Sum] | None  #: of the note; None if it is up to date


class WrittenFiles(NamedTuple):
    """Files that were written, and that no other thread uses yet."""

    indexes: dict[int, File]  #: by base offset
    note: File | None
    opened: list[File]
    broken: list[int]  #: base offsets of indexes that have to be replaced: what they have is unknown

    def close(self) -> None:
        """Close every file that was opened for the writing."""
        for file in self.opened:
            file.close()

    def close_unused(self) -> None:
        """Close those of them that another file has replaced."""
        for file in self.opened:
            if file is not self.note and file not in self.indexes.values():
                file.close()


def write(directory: Directory, wanted: AbortedFiles) -> WrittenFiles:
    """Write the files. The note is the last: of the active segment, an index may have more entries than it.

    Raises:
        DiskFullError, TooManyFilesError: there is no space for an index, or no free descriptor; retry later.
        StorageError: an index could not be written.
    """
    written = WrittenFiles({}, None, [], [])
    try:
        for index in wanted.indexes:
            try:
                file = _write_index(directory, index, written.opened)
            except TooManyFilesError:
                raise
            except StorageError as error:
                if index.is_replaced:
                    raise
                _logger.warning("aborted transactions are written again: log=%s error=%s", directory.path, error)
                written.broken.append(index.base_offset)
            else:
                if file is not None:
                    written.indexes[index.base_offset] = file
    except BaseException:
        written.close()
        raise
    if wanted.sums is None:
        return written
    note = write_note(directory, wanted.active, wanted.sums)
    written.opened.extend(() if note is None else (note,))
    return written._replace(note=note)


def _write_index(directory: Directory, index: AbortedIndex, opened: list[File]) -> File | None:
    name = files.segment_file(index.base_offset, files.ABORTED_INDEX)
    if not index.is_replaced:
        # Readers may have it open: they find a first part of the entries, and no other bytes.
        file = index.file
        if file is None:
            file = directory.open(name, create=True, writable=True)
            opened.append(file)
        file.write(transaction_index.encode(index.entries[index.written :]), index.written * ENTRY_BYTES)
        return file
    if not index.entries:
        directory.remove(name)
        return None
    directory.replace(name, transaction_index.encode(index.entries), durable=True)
    file = directory.open(name, writable=True)
    opened.append(file)
    return file


def write_note(directory: Directory, base_offset: int, sums: Mapping[int, Sum]) -> File | None:
    """Replace the note; return it, or None after an error: then the markers of the log decide.

    If the note is lost or out of date, recovery reads the markers of the log, which takes time. So the note is
    written as a whole: after a power cut it is the old or the new one.
    """
    with contextlib.suppress(StorageError):
        data = transaction_index.encode_note(base_offset, sums)
        directory.replace(transaction_index.NOTE, data, durable=False, whole=True)
        return directory.open(transaction_index.NOTE, writable=True)
    return None
