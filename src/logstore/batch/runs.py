"""Runs of a read: whole batches, one run after another, as its reader takes them; and how much of them.

No logs and no network: whatever reads batches has these. One thread uses an iterator at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from logstore.batch._batch import Batches
from logstore.errors import RecordError

#: Most bytes of one read, unless its caller says otherwise.
DEFAULT_READ_BYTES = 1 << 20


def values_of(chunks: Iterable[Batches]) -> Iterator[list[bytes | None]]:
    """Iterate over the values of runs, a list for each; values before damage come before its error."""
    for batches in chunks:
        try:
            values = batches.values()
        except RecordError:
            found = batches.damage()
            if found is not None and found[1]:
                yield batches.between(0, found[1], batches.next_offset).values()
            raise
        yield values


def limited(chunks: Iterable[Batches], limit: int) -> Iterator[Batches]:
    """Iterate over the runs up to the ``limit``-th of their records."""
    for batches in chunks:
        try:
            count = batches.count()
            part = batches if count <= limit else batches.first(limit)
        except RecordError:
            # The run's reader gets the error itself, after the records before the damage.
            part, count = batches, 0
        yield part
        limit -= count
        if limit <= 0:
            return


def check_limit(limit: object) -> None:
    """Check that a limit is a count of records, or None.

    Raises:
        ValueError: it is neither.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise ValueError(f"limit= is the largest number of records to read, from 0 on, or None; found {limit!r}")
