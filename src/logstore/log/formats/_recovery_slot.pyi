from typing import Any

from logstore.io._files import File

SLOT_BYTES: int
SLOT_SPACING_BYTES: int

def encode_slot(point: tuple[Any, ...]) -> bytes:
    """Encode the 64 bytes to write at `slot_position` of the point's sequence."""

def slot_position(sequence: int) -> int:
    """Return the position in the file of the slot with this sequence."""

def write_slot(file: File, point: tuple[Any, ...]) -> int:
    """Overwrite the slot of the point's sequence by one `pwrite`."""
