"""Columns of a scan as numpy arrays, for programs without an Arrow library.

All of the range is in memory at once. numpy is imported here, at its first use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from logstore.columns._numpy import format_of, numbers_of, objects_of

if TYPE_CHECKING:
    from logstore.columns._export import ColumnBatch

#: Arrow format -> numpy type; times are in UTC, which numpy types do not express.
_TYPES = {
    b"c": "i1", b"C": "u1", b"s": "<i2", b"S": "<u2", b"i": "<i4", b"I": "<u4", b"l": "<i8", b"L": "<u8",
    b"e": "<f2", b"f": "<f4", b"g": "<f8", b"tss:UTC": "<M8[s]", b"tsm:UTC": "<M8[ms]", b"tsu:UTC": "<M8[us]",
    b"tsn:UTC": "<M8[ns]",
}  # fmt: skip
_OBJECTS = (b"z", b"vz", b"u", b"+l")


def arrays_of(batches: Iterable[ColumnBatch], columns: Sequence[str], fields: Sequence[str]) -> dict[str, Any]:
    """Return one array for each of ``columns``; those of ``fields`` are masked where they are null."""
    parts: dict[str, list[Any]] = {name: [] for name in columns}
    for batch in batches:
        for name in columns:
            parts[name].append(_array_of(batch, name, name in fields))
    return {
        name: (np.ma.concatenate if isinstance(found[0], np.ma.MaskedArray) else np.concatenate)(found)
        for name, found in parts.items()
    }


def _array_of(batch: ColumnBatch, name: str, masked: bool) -> Any:
    format = format_of(batch, name)
    if format in _OBJECTS:
        return np.fromiter(objects_of(batch, name), dtype=object, count=len(batch))
    if format == b"b":
        data, valid = numbers_of(batch, name, 0)
        values = _bits(data, len(batch))
    else:
        kind = _type_of(format)
        data, valid = numbers_of(batch, name, kind.itemsize)
        values = np.frombuffer(data, dtype=kind)
        if format == b"tdD":
            values = values.astype("<M8[D]")
    if not masked:
        return values
    return np.ma.MaskedArray(
        values, mask=np.zeros(len(batch), bool) if valid is None else ~_bits(valid, len(batch))
    )


def _type_of(format: bytes) -> Any:
    if format == b"tdD":
        return np.dtype("<i4")
    return np.dtype(f"V{format[2:].decode()}" if format.startswith(b"w:") else _TYPES[format])


def _bits(data: bytes, count: int) -> Any:
    return np.unpackbits(np.frombuffer(data, np.uint8), count=count, bitorder="little").astype(bool)
