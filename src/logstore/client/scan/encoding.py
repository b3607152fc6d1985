"""Records of a bulk append as batches: split by key, and encoded for each partition. Nothing is written here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from logstore.batch._encode import Encoder
from logstore.columns._partition_rows import RowPartitioner
from logstore.columns.tables import Tabular
from logstore.errors import InvalidRecordError


def encode_by_key(records: Any, count: int, keyless: int, begin: Callable[[int], Encoder]) -> dict[int, Encoder]:
    """Encode records for the partitions that their keys choose; return batches that are still open, by partition.

    ``records`` are those of `Log.append`; those without a key go to the partition ``keyless``. ``count`` is the
    number of partitions. ``begin`` gives the encoder of a partition.

    Raises:
        RecordError: a record cannot be written.
    """
    partitioner = RowPartitioner(count, keyless, begin)
    if type(records) is not list:
        if isinstance(records, Tabular):
            # An Arrow source gives a stream too, but of columns, and rows with headers are none of the usual ones.
            records = iter(cast("Iterable[Any]", records))
        elif hasattr(records, "__arrow_c_array__") or hasattr(records, "__arrow_c_stream__"):
            partitioner.add_arrow(records)
            return partitioner.encoders
        elif hasattr(records, "__array_interface__"):
            from logstore.columns._import import add_numpy

            encoder = begin(keyless)
            add_numpy(encoder, records)
            return {keyless: encoder}
        elif not isinstance(records, Iterable):
            raise InvalidRecordError(
                f"records must be a list, an Arrow array or a numpy array, found {type(records).__name__}"
            )
    partitioner.add_all(records)
    return partitioner.encoders
