"""Ingest of batches that keep their offsets (mode "replay"): a topic is restored as it was archived.

The batches of a partition may come from many staged files; they are merged by their offsets, whole batches at a
time. A log appends them as it appends batches of a leader: offsets only rise, and gaps stay gaps. Only the leader
epoch is the log's own. No transaction is opened, and no intent is recorded (see `ingest`). Records that are in the
log already are skipped. So the same manifest may be ingested again after a crash, even if it is split into other
batches, and the result is the same.

Every record to be skipped is first compared with the log. A record below the log end offset must be in the log at
that offset, with the same key, value, headers and timestamp. Otherwise the topic holds other records, and the
manifest is refused before anything is written. Records below the log start offset cannot be compared, so they are
refused too. This happens when the parts of an archive are ingested in the wrong order. Below the end of the last
compaction a record may be missing in the log; it then counts as compacted.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from logstore.batch._batch import BatchView, Record, stamp
from logstore.batch._encode import encode
from logstore.errors import InvalidManifestError, UnexpectedOffsetError
from logstore.log import Log
from logstore.records import Isolation, Origin, TimestampType
from logstore.store.commit import staged_reader
from logstore.store.commit.staged_reader import Checked


class _StagedBatch(NamedTuple):
    """One staged batch; staged batches are sorted by their first offsets."""

    first_offset: int
    last_offset: int
    file: int  #: the number of its file
    data: bytearray


class Restore:
    """The restore of one partition from its staged batches."""

    def __init__(self, log: Log, checked: Sequence[Checked]) -> None:
        self._log = log
        self._replica = log.replica
        self._checked = checked
        self._end = log.log_end_offset
        self.first_offset = min(each.first_offset for each in checked)
        self.last_offset = max(each.last_offset for each in checked)

    def check(self) -> None:
        """Check that the batches can be ingested; nothing is written.

        Raises:
            InvalidManifestError: two staged batches hold the same offsets.
            UnexpectedOffsetError: the log holds another record at an offset, or it begins above the first one.
        """
        end = self._end = self._log.log_end_offset
        start = self._log.log_start_offset
        if self.first_offset < start:
            raise UnexpectedOffsetError(
                f"{self._log.name}: the log begins at offset {start}, the records to replay at offset "
                f"{self.first_offset}: no record can be added below the start of a log; replay into an empty topic "
                "that keeps records for ever (retention.ms=-1), the oldest first",
                offset=self.first_offset,
            )
        known = _Known(self._log, self.first_offset, end)
        before: _StagedBatch | None = None
        for batch in self._merged():
            if before is not None and batch.first_offset <= before.last_offset:
                raise InvalidManifestError(
                    f"{self._log.name}: two staged batches overlap: offsets {before.first_offset} to "
                    f"{before.last_offset} in {self._checked[before.file].staged.name}, {batch.first_offset} to "
                    f"{batch.last_offset} in {self._checked[batch.file].staged.name}"
                )
            before = batch._replace(data=bytearray())
            if batch.first_offset < end:
                for record in BatchView(batch.data):
                    if record.offset < end and not known.has(record):
                        raise UnexpectedOffsetError(
                            f"{self._log.name}: the log ends at offset {end} and holds another record, or none, "
                            f"where one is to be replayed (offsets {self.first_offset} to {self.last_offset}); "
                            "replay into an empty topic, or go on where its records end",
                            offset=record.offset,
                        )

    def append(self) -> tuple[int, int]:
        """Append the records that were missing at `check`; return the first and last offset of all. Not synced.

        Raises:
            UnexpectedOffsetError: another writer has appended to the log since `check`, at the offsets of these
                records.
        """
        end = self._end
        for batch in self._merged():
            if batch.first_offset >= end:
                self._append(batch.data, batch.first_offset)
            elif batch.last_offset >= end:
                # An earlier attempt had split the records into other batches: the whole one would repeat records.
                for first_offset, data in _rest(BatchView(batch.data), end):
                    self._append(data, first_offset)
        return self.first_offset, self.last_offset

    def _append(self, data: bytearray, first_offset: int) -> None:
        stamp(data, first_offset, self._replica.leader_epoch)
        self._replica.append_batch(data, origin=Origin.REPLICATION, ack="written")

    def raise_start(self) -> None:
        """Raise the log start offset to the first restored record if it is the log's first. Call after a sync."""
        log = self._log
        if log.log_start_offset < self.first_offset <= log.high_watermark:
            batches = log.read(log.log_start_offset, max_bytes=1).batches()
            if batches and batches[0].base_offset == self.first_offset:
                log.delete_before(self.first_offset)

    def _merged(self) -> Iterator[_StagedBatch]:
        """Iterate over all staged batches in the order of their first offsets."""
        return heapq.merge(*map(self._batches, range(len(self._checked))))

    def _batches(self, number: int) -> Iterator[_StagedBatch]:
        each = self._checked[number]
        for run, _ in staged_reader.runs(each.file, each.staged.size, each.config):
            rest = run
            while rest:
                view = BatchView(rest)
                yield _StagedBatch(view.base_offset, view.last_offset, number, bytearray(view))
                rest = rest[view.size :]


class _Known:
    """The records that are in a log already. `has` must be called with rising offsets."""

    def __init__(self, log: Log, first_offset: int, end: int) -> None:
        self._gone_below = log.maintenance.cleanable().first_dirty_offset if log._config.compacts else -1
        held: Iterable[Record] = ()
        if first_offset < end:
            held = log.scan(first_offset, end, isolation=Isolation.READ_UNCOMMITTED)
        self._records = iter(held)
        self._next: Record | None = next(self._records, None)

    def has(self, record: Record) -> bool:
        """Return whether the log holds this record, or a compaction may have deleted it."""
        while self._next is not None and self._next.offset < record.offset:
            self._next = next(self._records, None)
        found = self._next
        if found is None or found.offset != record.offset:
            return record.offset < self._gone_below
        return _content(found) == _content(record)


def _content(record: Record) -> tuple[object, ...]:
    return record.timestamp_ms, record.key, record.value, record.headers


def _rest(view: BatchView, start: int) -> Iterator[tuple[int, bytearray]]:
    """Encode the records of a batch from ``start`` on as batches without gaps, each with its first offset."""
    run: list[Record] = []
    for record in view:
        if record.offset < start:
            continue
        if run and record.offset != run[-1].offset + 1:
            yield run[0].offset, _encoded(view, run)
            run = []
        run.append(record)
    if run:
        yield run[0].offset, _encoded(view, run)


def _encoded(view: BatchView, run: list[Record]) -> bytearray:
    append_time = view.timestamp_type is TimestampType.LOG_APPEND_TIME
    return bytearray(encode(run, timestamp_ms=view.max_timestamp_ms, codec=view.codec, append_time=append_time))


if not TYPE_CHECKING:
    # Hidden from type checkers: with a module-level `__getattr__` they would accept every name of the module.
    def __getattr__(name: str) -> object:
        if name != "Replay":  # former name
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from logstore.renamed import warn

        warn(f"{__name__}.Replay", "Restore")  # former name
        return Restore
