"""Range reader: turns successive fetches of a back end into Arrow batches.

Memory is that of one fetch and its batch, whatever the range. Over a network it is one fetch more: the next one is
in flight while one is used. (From the page cache a thread gains nothing.) A task may be run again, or twice
concurrently, since reading changes nothing. Back ends stay open as long as the process lives, keyed by their
options: Spark reuses its workers, and pickles readers again for every task. Imports the store or the remote client
through a back end. Any thread may use it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from logstore.batch._batch import Batches
from logstore.client.backend.ranges import Range, RangeBackend
from logstore.errors import DataLossError, OffsetOutOfRangeError, UnknownTopicError
from logstore.spark.reading.options import ReadOptions
from logstore.spark.reading.plan import data_loss
from logstore.spark.reading.schema import QueryColumns

if TYPE_CHECKING:
    import pyarrow as pa

_logger = logging.getLogger(__name__)

_backends: dict[Any, RangeBackend] = {}
_lock = threading.Lock()


def backend_of(options: ReadOptions, wanted: Range | None = None) -> RangeBackend:
    """Return the back end for some options, opened if this process has none yet that reaches ``wanted``.

    Do not close it.

    Raises:
        NotALogError: the path is no store.
        WireError: no broker answers.
    """
    # A forked process opens its own: it must not share descriptors and connections.
    key = (os.getpid(), options.path, options.bootstrap, options.isolation, tuple(sorted(options.kafka.items())))
    with _lock:
        found = _backends.get(key)
        if found is not None and found.is_current(wanted):
            return found
        if found is not None:
            found.close()
            del _backends[key]
        made = _backends[key] = _open(options)
        return made


def _open(options: ReadOptions) -> RangeBackend:
    if options.path is not None:
        from logstore.store.ranges import StoreRanges

        return StoreRanges(options.path, options.isolation)
    from logstore.remote.backend.ranges import (
        ClusterRanges,  # imports sockets and the protocol, which files do not need
    )

    assert options.bootstrap is not None
    return ClusterRanges(options.bootstrap, isolation=options.isolation, settings=options.kafka)


def read(
    range: Range,
    options: ReadOptions,
    table: QueryColumns,
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read the visible records of a range as Arrow batches, those from ``since_ms`` on and before ``until_ms``.

    Raises:
        DataLossError: a part of the range is missing, and ``failOnDataLoss`` is true.
        CorruptRecordError: stored bytes are damaged.
        PayloadError: a value does not match ``valueSchema``.
    """
    backend = backend_of(options, range)
    found = runs(backend, range, options)
    if backend.is_remote:
        found = ahead(found)
    if since_ms is not None or until_ms is not None:
        found = (run.within(since_ms, until_ms) for run in found)
    return table.batches_of(found)


def runs(backend: RangeBackend, range: Range, options: ReadOptions) -> Iterator[Batches]:
    """Fetch a range run by run; missing records are skipped or raise, depending on ``failOnDataLoss``."""
    tp, fail = range.tp, options.fail_on_data_loss
    offset, end = range.start, range.end
    while offset < end:
        try:
            batches = backend.fetch(range._replace(start=offset, end=end), options.fetch_bytes)
        except OffsetOutOfRangeError:
            first, last = backend.earliest([tp])[tp], backend.latest([tp])[tp]
            if offset < first:
                lost, offset = offset, min(first, end)
                data_loss(f"{tp}: offsets {lost} to {offset - 1} are deleted, the log begins at {first}", fail=fail)
            elif last < end:
                lost, end = max(last, offset), min(last, end)
                data_loss(
                    f"{tp}: offsets {lost} to {range.end - 1} are not there, the log ends at {last}", fail=fail
                )
            continue
        except UnknownTopicError:
            data_loss(
                f"topic {tp.topic!r} was deleted: offsets {offset} to {end - 1} of partition {tp.partition} are "
                "gone",
                fail=fail,
            )
            return
        except DataLossError as error:  # the topic was re-created
            data_loss(str(error), fail=fail)
            return
        reached = batches.next_offset
        yield batches
        if reached <= offset:
            return
        offset = reached


def ahead(source: Iterator[Batches]) -> Iterator[Batches]:
    """Yield the same runs, with one fetch in flight while the one before is used."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="logstore-fetch")
    try:
        coming = thread.submit(next, source, None)
        while (batches := coming.result()) is not None:
            coming = thread.submit(next, source, None)
            yield batches
    finally:
        # Waiting could deadlock: the garbage collector may close this generator inside code that the fetch needs.
        thread.shutdown(wait=False)
