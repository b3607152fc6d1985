from collections.abc import Iterable

from typing_extensions import Buffer

def whole_batches(source: Buffer | None) -> tuple[bytes, int, int]:
    """The whole record batches at the beginning of a fetch's records, which may be cut anywhere."""

def aborted_ranges(data: bytes, transactions: Iterable[tuple[int, int]]) -> tuple[tuple[int, int, int], ...]:
    """(producer id, first offset, last offset) of each aborted transaction: what `Batches` takes."""

def sequenced(
    batches: Buffer, producer_id: int, producer_epoch: int, base_sequence: int
) -> list[tuple[int, int, int, int]]:
    """Give batches in a writable buffer a producer id and running sequences, and their CRCs anew."""
