"""Damage to a file of a partition, as a disk or a careless hand does it."""

from __future__ import annotations

import os
from pathlib import Path


def flip(path: Path, position: int, bits: int = 1) -> None:
    """Flip bits of one byte; a negative position counts from the end."""
    data = bytearray(path.read_bytes())
    data[position] ^= bits
    path.write_bytes(data)


def cut(path: Path, size: int) -> None:
    """Cut a file to a size; a negative one is taken from its end."""
    os.truncate(path, size if size >= 0 else path.stat().st_size + size)
