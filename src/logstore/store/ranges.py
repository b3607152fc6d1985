"""Ranges of a store's files, read in place, concurrently with their writer, in any process.

A `StoreRanges` is a store opened read-only. It takes no locks: the writer publishes how far its files may be read,
and every answer here follows that. Only `commit` asks the writer for something. Any thread may use it.
"""

from __future__ import annotations

import os

from logstore.batch._batch import Batches
from logstore.client.backend.ranges import Range, RangeBackend
from logstore.client.backend.source import Opened
from logstore.client.scan import spans
from logstore.errors import LogstoreError
from logstore.records import Isolation, TopicPartition
from logstore.store.store import Store, open_store


class StoreRanges(RangeBackend):
    """Back end for the store in a directory.

    Owns: the store that it has opened, until `close`.
    """

    def __init__(self, path: str, isolation: Isolation = Isolation.READ_COMMITTED) -> None:
        """Open the store in a directory.

        Raises:
            NotALogError: the directory has no store.
        """
        self._path = path
        self._identity = _identity(path)
        self._store: Store = open_store(path, read_only=True, environ={})
        super().__init__(self._store._backend, isolation)

    def is_current(self, wanted: Range | None = None) -> bool:
        """Return whether the directory is still the one that was opened, not another in its place.

        A log that Kafka writes publishes no end: its reader sees the records of its opening. So a range beyond that
        end, which another process has planned, needs a new opening.
        """
        if self._store._host.closed or _identity(self._path) != self._identity:
            return False
        try:
            return wanted is None or self._log(wanted.tp).end_offset(self._isolation) >= wanted.end
        except LogstoreError:
            return True  # the fetch raises it, or skips what is lost

    def epoch_at(self, tp: TopicPartition) -> int:
        log = self._log(tp)
        latest = log.replica.epochs.latest
        epoch = -1 if latest is None else latest.epoch
        end = log.high_watermark
        if end > log.log_start_offset:
            # The epoch file may be written after the first batch of a new epoch, so read the last batch too.
            for batch in log.read(end - 1, max_bytes=1).batches():
                epoch = max(epoch, batch.leader_epoch)
        return epoch

    def _log(self, tp: TopicPartition) -> Opened:
        return self._store[tp.topic][tp.partition]

    # -- ranges

    def offset_after_bytes(self, tp: TopicPartition, start: int, end: int, max_bytes: int) -> int:
        return spans.offset_after(self._log(tp), start, end, max_bytes)

    def split(self, range: Range, parts: int) -> list[Range]:
        log = self._log(range.tp)
        return [
            range._replace(start=start, end=end)
            for start, end in spans.parts_of(log, range.start, range.end, parts)
        ]

    def prune_by_time(self, range: Range, since_ms: int | None, until_ms: int | None) -> Range:
        if since_ms is None:
            return range
        log = self._log(range.tp)
        start, end = spans.narrowed(log, range.start, range.end, since_ms)
        return range._replace(start=start, end=end)

    # -- records

    def fetch(self, range: Range, max_bytes: int) -> Batches:
        topic = self._store.topic(range.topic)
        if range.topic_id and topic.id and topic.id != range.topic_id:
            raise range.recreated()
        scan = topic[range.partition].scan(range.start, range.end, isolation=self._isolation, max_bytes=max_bytes)
        for batches in scan.chunks():
            return batches
        return Batches(b"", start_offset=range.start, end_offset=range.end, next_offset=range.end)

    def close(self) -> None:
        self._store.close()


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
