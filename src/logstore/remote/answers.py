"""What stands in the parts of brokers' answers, read the same way by every reader of them. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from logstore.errors import ProtocolError
from logstore.protocol._batches import aborted_ranges, whole_batches


class PartRecords(NamedTuple):
    """The records of one partition in the answer to a fetch.

    ``next_offset`` is behind the last whole batch, -1 without one. ``batch_bytes`` is the size of the first batch
    by its header, 0 without any bytes: if ``data`` is empty, only a part of it has come. ``aborted`` is as
    `Batches` accepts it.
    """

    data: bytes
    next_offset: int
    batch_bytes: int
    aborted: tuple[tuple[int, int, int], ...]


def records_of(part: Any, *, is_committed: bool) -> PartRecords:
    """Return the whole batches of a partition's part, and what a committed reader skips in them."""
    data, next_offset, batch_bytes = whole_batches(part.records)
    aborted: tuple[tuple[int, int, int], ...] = ()
    if is_committed and part.aborted_transactions:
        told = [(each.producer_id, each.first_offset) for each in part.aborted_transactions]
        aborted = aborted_ranges(data, told)
    return PartRecords(data, next_offset, batch_bytes, aborted)


def the_one(parts: Sequence[Any], where: str) -> Any:
    """Return the part of an answer that tells of the one thing that was asked for; ``where`` names that.

    Raises:
        ProtocolError: the answer has none, or several.
    """
    if len(parts) != 1:
        raise ProtocolError(f"{where}: the answer tells of {len(parts)} things, and was asked for one")
    return parts[0]
