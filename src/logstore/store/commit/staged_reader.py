"""Reader of staged files: each is checked whole before anything is written, then read again piece by piece.

Knows bytes and the settings of a log, and neither the log nor the state of the query. The second pass checks the
CRCs again when it sets the headers. So a file that changes in between is detected before its bytes are in a log. A
few MiB are held at a time, whatever the file's size.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Final, NamedTuple

from logstore.batch._batch import BatchView
from logstore.config.log import LogConfig, check_keys, check_timestamps
from logstore.errors import CorruptRecordError, InvalidRecordError, RecordError, StagedFileError, StorageError
from logstore.io._files import File, errno_of
from logstore.log.append.ingest_file import Whole
from logstore.log.append.validation import too_large
from logstore.log.directory.files import Directory
from logstore.records import BATCH_HEADER_BYTES, INT64_MAX, TimestampType
from logstore.store.commit.staged_writer import STAGING, StagedFile, staged_directory

#: Bytes that are read, stamped and written at a time.
CHUNK_BYTES: Final = 2 << 20
#: A batch's header.


class Checked(NamedTuple):
    """A staged file that may be ingested as it is."""

    staged: StagedFile
    file: File
    config: LogConfig  #: of the log when it was checked
    first_offset: int  #: of the first record, which matters for a replay only
    last_offset: int
    first_ms: int = -1  #: the newest timestamp of the first batch
    newest_ms: int = -1  #: the newest timestamp of all

    def whole(self) -> Whole:
        """Return the facts that a log needs to ingest the file as it is."""
        staged = self.staged
        return Whole(
            f"{STAGING}/{staged.name}",
            staged.size,
            staged.batch_count,
            staged.record_count,
            self.first_ms,
            self.newest_ms,
        )


def check(root: Directory, staged: StagedFile, config: LogConfig, now_ms: int, *, replay: bool = False) -> Checked:
    """Open a staged file and check every byte of it against its manifest and the rules of the log.

    Raises:
        StagedFileError: the file is missing, or has another size or other counts.
        CorruptRecordError, UnsupportedFormatError, UnsupportedCodecError: the bytes are wrong.
        InvalidRecordError, InvalidTimestampError, RecordTooLargeError: a rule of the log is broken.
    """
    directory = staged_directory(root, staged.place)
    try:
        file = directory.open(staged.name)
    except StorageError as error:
        if errno_of(error) not in (errno.ENOENT, errno.ENOTDIR):
            raise
        raise StagedFileError(
            f"a staged file of {staged.place} is missing: it was swept, or its batch aborted; stage it again",
            path=directory.join(staged.name),
        ) from error
    try:
        return _checked(staged, file, config, now_ms, replay)
    except BaseException:
        file.close()
        raise


def _checked(staged: StagedFile, file: File, config: LogConfig, now_ms: int, replay: bool) -> Checked:
    size = file.size()
    if size != staged.size:
        raise StagedFileError(
            f"a staged file of {staged.place} has {size} bytes, its manifest says {staged.size}", path=file.path
        )
    batch_count = record_count = position = 0
    first, last = -1, -1
    first_ms, newest_ms = -1, -1
    for run, _ in runs(file, size, config):
        for start, end in _bounds(run):
            try:
                view = BatchView(run[start:end])
                _check_batch(view, config, now_ms, replay)
                if replay and view.base_offset <= last:
                    raise InvalidRecordError(
                        f"a batch begins at offset {view.base_offset}, the one before it ends at {last}"
                    )
            except RecordError as error:
                raise _placed(error, staged, file.path, position + start) from error
            first = view.base_offset if first < 0 else first
            last = view.last_offset
            first_ms = view.max_timestamp_ms if not batch_count else first_ms
            newest_ms = max(newest_ms, view.max_timestamp_ms)
            batch_count += 1
            record_count += view.record_count
        position += len(run)
    if (batch_count, record_count) != (staged.batch_count, staged.record_count):
        raise StagedFileError(
            f"a staged file of {staged.place} has {batch_count} batches with {record_count} records, its manifest "
            f"says {staged.batch_count} with {staged.record_count}",
            path=file.path,
        )
    return Checked(staged, file, config, first, last, first_ms, newest_ms)


def _check_batch(view: BatchView, config: LogConfig, now_ms: int, replay: bool) -> None:
    """Raise if one batch breaks a rule."""
    limit = config.batch_limit
    if view.size > limit:
        raise too_large(view.size, config)
    view.check()
    if view.is_control or view.is_transactional or view.producer_id >= 0 or view.delete_horizon_ms is not None:
        raise InvalidRecordError("a staged batch has no producer, no transaction and is no control batch")
    if not view.record_count:
        raise InvalidRecordError("the batch holds no records")
    if not replay and view.base_offset:
        raise InvalidRecordError(f"a staged batch has base offset 0, found {view.base_offset}")
    least, most, null_keys = view.validate(contiguous=not replay, limit=config.decompressed_max_bytes)
    check_keys(null_keys, config)
    log_gives_time = config.timestamp_type is TimestampType.LOG_APPEND_TIME
    if view.timestamp_type is TimestampType.LOG_APPEND_TIME:
        if not log_gives_time:
            raise InvalidRecordError(
                "the topic's records have times of their own, the batch says the log gave them"
            )
    elif most != view.max_timestamp_ms:
        # Indexes and retention use the timestamp in the header.
        raise InvalidRecordError(f"the newest timestamp is {most}, the header says {view.max_timestamp_ms}")
    if not replay and not log_gives_time:
        check_timestamps(least, most, config, now_ms)


def _placed(error: RecordError, staged: StagedFile, path: str, position: int) -> RecordError:
    """Return the same error, with its file and position."""
    return type(error)(f"staged file of {staged.place}: {error}", path=path, position=position)


def runs(
    file: File, size: int, config: LogConfig, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[memoryview, int]]:
    """Iterate over the file's batches, a chunk of whole ones at a time, with their record count.

    Raises:
        StagedFileError: the file ends inside a batch.
        RecordTooLargeError: a batch's length is larger than any may be.
    """
    position = 0
    limit = max(config.max_message_bytes, config.segment_bytes)
    while position < size:
        data = file.read(position, chunk_bytes)
        whole = max((end for _, end in _bounds(data)), default=0)
        if not whole:
            # One batch larger than a chunk: its length is a claim, and may be anything.
            length = _length(data, 0)
            if length > size - position or len(data) < min(BATCH_HEADER_BYTES, size - position):
                raise StagedFileError("a staged file ends inside a batch", path=file.path, position=position)
            if length < BATCH_HEADER_BYTES:
                raise CorruptRecordError(f"a batch of {length} bytes cannot be", path=file.path, position=position)
            if length > limit:
                raise too_large(length, config)
            data = file.read(position, length)
            whole = len(data)
        run = memoryview(data)[:whole]
        yield run, sum(int.from_bytes(run[start + 57 : start + 61], "big") for start, _ in _bounds(run))
        position += whole


def _bounds(data: bytes | memoryview) -> Iterator[tuple[int, int]]:
    """Iterate over the bounds of each whole batch; bytes that do not look like one end the run."""
    start = 0
    while len(data) - start >= BATCH_HEADER_BYTES:
        end = start + _length(data, start)
        if end < start + BATCH_HEADER_BYTES or end > len(data):
            return
        yield start, end
        start = end


def newest_ms(run: bytes | bytearray) -> int:
    """Return the largest timestamp in the headers of whole batches."""
    view = memoryview(run)
    return max(int.from_bytes(view[start + 35 : start + 43], "big", signed=True) for start, _ in _bounds(view))


def _length(data: bytes | memoryview, start: int) -> int:
    """Return the size that a batch at a position claims; without a whole header, more than there is."""
    if len(data) - start < BATCH_HEADER_BYTES:
        return INT64_MAX
    return int.from_bytes(data[start + 8 : start + 12], "big", signed=True) + 12
