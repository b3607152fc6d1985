from collections.abc import Iterable

from typing_extensions import Buffer

def whole_batches(source: Buffer | None) -> tuple[bytes, int, int]:
    """Return the whole record batches at the beginning of a fetch's records, which may be truncated anywhere."""

def aborted_ranges(data: bytes, transactions: Iterable[tuple[int, int]]) -> tuple[tuple[int, int, int], ...]:
    """Return (producer id, first offset, last offset) of each aborted transaction, as `Batches` accepts them."""

def sequenced(
    batches: Buffer, producer_id: int, producer_epoch: int, base_sequence: int
) -> list[tuple[int, int, int, int]]:
    """Set the producer id and consecutive sequences in the batches of a writable buffer, and update their CRCs."""
