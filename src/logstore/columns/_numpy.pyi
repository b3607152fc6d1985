from typing import Any

from logstore.columns._export import ColumnBatch

def format_of(batch: ColumnBatch, name: str) -> bytes:
    """Return the type of a column, in the format of the Arrow C data interface."""

def numbers_of(batch: ColumnBatch, name: str, width: int) -> tuple[bytes, bytes | None]:
    """Return (data, validity) of a column of numbers of ``width`` bytes each, or of bits if ``width`` is 0."""

def objects_of(batch: ColumnBatch, name: str) -> list[Any]:
    """Return a list with the bytes or text of every row, None for null; of headers, tuples of (key, value)."""
