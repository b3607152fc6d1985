"""Remainder: what can be read of a log although there is damage before it.

It is looked for only after a read has failed; `damage` finds the next batch that can be trusted. No locks; any
thread.
"""

from __future__ import annotations

from logstore.batch._batch import Batches
from logstore.errors import DamagedLogError, RecordError
from logstore.log.marks.view import View
from logstore.log.read import damage
from logstore.log.read.range import Bounds, Hint
from logstore.log.read.viewed_log import ViewedLog
from logstore.records import Isolation


def read_behind(
    log: ViewedLog,
    view: View,
    error: RecordError,
    offset: int,
    max_bytes: int,
    isolation: Isolation,
    bounds: Bounds,
) -> tuple[Batches, Hint]:
    """Read at an offset of a log although the search for it has found damage before it.

    Raises:
        RecordError: the damage is at the offset; names the unreadable range.
    """
    segments, end = view.segments, view.end_offset(isolation)
    since: damage.WholeBatch | None = None
    while True:
        before, since = since, damage.behind(segments, error, end, since)
        if before is not None and since is not None and since[:2] == before[:2]:
            raise error
        if since is None or since.base_offset > offset:
            error.bound(offset, end if since is None else min(since.base_offset, end))
            raise error
        try:
            found = since.segment.index.holding(offset, since.position)
            if found is None:
                # Nothing is left in this segment. The next one is found without a search.
                first = offset
                offset = min((each.base_offset for each in segments if each.base_offset > offset), default=end)
                if since.segment.sealed and log._is_contiguous():
                    raise DamagedLogError(
                        f"{log.name}: offsets {first} to {offset - 1} are missing: the segment ends before "
                        f"the next one begins; read on from offset {offset}",
                        path=since.segment.path,
                        position=since.segment.size,
                        offset=first,
                        next_offset=offset,
                    )
                return log._read_whole(view, None, offset, max_bytes, isolation, None, bounds)
            position, base_offset = found
            read = since.segment.read(base_offset, max_bytes, end, position)
            assert read is not None
            batches = log._run_of(view, end, (*read, since.segment.path), offset, isolation, bounds)
            return batches, (batches.path, batches.position + batches.size)
        except RecordError as another:
            if another.next_offset is not None:
                raise
            # More damage on the way. The next readable batch is further on, so the loop ends.
            error = another
