"""Damage: the next readable batch after bytes that are no batch, and the offsets skipped on the way to it.

This module decides where reading continues after damage; `Segment.behind` decides which bytes of a file can be
trusted. It is called only after a read has failed. No locks; any thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from logstore._segment import Segment
from logstore.batch._batch import Batches
from logstore.errors import CorruptRecordError, RecordError, UnsupportedFormatError
from logstore.records import LeftOut, TopicPartition

#: Errors for wrong stored bytes; a codec that is not installed is not among them.
DAMAGE = (CorruptRecordError, UnsupportedFormatError)


class WholeBatch(NamedTuple):
    """A batch that can be read: its segment, position and base offset."""

    segment: Segment
    position: int
    base_offset: int


def behind(
    segments: tuple[Segment, ...], error: RecordError, end: int, since: WholeBatch | None = None
) -> WholeBatch | None:
    """Return the first whole batch below ``end`` after the damage that an error names, or None.

    ``since`` is an earlier result of this function, before that damage.

    Raises:
        RecordError: ``error`` itself, if it names no position in a segment.
    """
    places = [number for number, segment in enumerate(segments) if segment.path == error.path]
    if not places or error.position is None:
        raise error
    position = error.position
    for number in range(places[0], len(segments)):
        segment = segments[number]
        if segment.base_offset >= end:
            break
        limit = min(end, segments[number + 1].base_offset) if number + 1 < len(segments) else end
        known = since is not None and since.segment is segment and 0 <= since.position <= position
        found = segment.behind(position, limit, since.position if since is not None and known else -1)
        if found is not None:
            return WholeBatch(segment, *found)
        position = -1
    return None


def readable(batches: Batches) -> Iterator[Batches | RecordError]:
    """Iterate over the readable parts of a run and, between them, the errors of the other batches.

    A checksum proves that the bytes are those that were written, not that they can be decompressed.
    """
    while (found := batches.damage()) is not None:
        error, position, size = found
        assert error.offset is not None
        if position:
            yield batches.between(0, position, error.offset)
        yield error
        batches = batches.between(position + size, batches.size, batches.next_offset)
    if batches:
        yield batches


def left_out(partition: TopicPartition, error: RecordError, offset: int, end: int) -> LeftOut:
    """Return the offsets below ``end`` to skip to continue after an error.

    Raises:
        RecordError: ``error`` itself, if it is no damage, or does not tell where reading can continue.
    """
    if not isinstance(error, DAMAGE) or error.next_offset is None or error.next_offset <= offset:
        raise error
    first = offset if error.offset is None else max(offset, error.offset)
    return LeftOut(partition, first, min(error.next_offset, end), error.path, error.position, error.reason)
