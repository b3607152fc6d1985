"""Split of a batch that is too large for its broker into several, as Kafka's producer does it. No I/O.

The parts hold the same records in the same order, so they take the sequences of the whole. Each split makes at
least two parts, and a single record is not split: so splits come to an end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logstore.batch._batch import BatchView, Record
from logstore.batch._encode import encode
from logstore.protocol._batches import sequenced
from logstore.records import INT32_MAX
from logstore.remote.produce.batches import PendingBatch

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: About what a record takes beside its key, value and headers.
_RECORD_BYTES = 20


def split(data: Buffer, part_bytes: int) -> list[bytearray]:
    """Return the records of a batch of at least two in batches of about ``part_bytes`` before compression."""
    view = BatchView(data)
    groups: list[list[Record]] = [[]]
    size = 0
    for record in view:
        more = _size(record)
        if groups[-1] and size + more > part_bytes:
            groups.append([])
            size = 0
        groups[-1].append(record)
        size += more
    if len(groups) == 1:
        # Already as small as that, and the broker takes less.
        (whole,) = groups
        middle = len(whole) // 2
        groups = [whole[:middle], whole[middle:]]
    return [bytearray(encode(each, timestamp_ms=view.base_timestamp_ms, codec=view.codec)) for each in groups]


def parts_of(batch: PendingBatch, batch_size: int) -> list[PendingBatch]:
    """Return what is sent in the place of a batch of at least two records, each part as if it were never tried.

    A batch is split to ``batch.size``, and a part of one in halves.
    """
    view = BatchView(batch.data)
    was_split = batch.first_record >= 0
    target = len(batch.data) // 2 if was_split else batch_size
    first_record = max(batch.first_record, 0)
    sequence = view.base_sequence
    found = split(batch.data, target)
    span = batch.span // len(found)
    parts = []
    for place, data in enumerate(found):
        ((_, _, record_count, _),) = sequenced(data, view.producer_id, view.producer_epoch, sequence)
        parts.append(
            PendingBatch(
                batch.number + place * span,
                memoryview(data),
                record_count,
                batch.delivery,
                batch.is_first and not place,
                is_lost=batch.is_lost,
                first_record=first_record,
                span=span,
            )
        )
        first_record += record_count
        if sequence >= 0:
            sequence = (sequence + record_count) & INT32_MAX
    return parts


def _size(record: Record) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in record.headers or ())
    return _RECORD_BYTES + len(record.key or b"") + len(record.value or b"") + headers
