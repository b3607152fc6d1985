from typing import Any

from typing_extensions import disjoint_base

from logstore.io._files import File

SLOT_BYTES: int
SLOT_SPACING_BYTES: int

def encode_slot(point: tuple[Any, ...]) -> bytes:
    """Encode the 64 bytes to write at `slot_position` of the point's sequence."""

def slot_position(sequence: int) -> int:
    """Return the position in the file of the slot with this sequence."""

@disjoint_base
class RecoverySlots:
    """The point in the newest slot of a file, and the file, which its subclass opens and closes."""

    @property
    def point(self) -> Any: ...
    @property
    def file(self) -> File | None: ...
    def begin_at(self, point: tuple[Any, ...]) -> None:
        """Begin with the point that recovery has found."""

    def use(self, file: File) -> None:
        """Write to this file from now on."""

    def put_next(self, point: tuple[Any, ...]) -> None:
        """Overwrite the older slot with a point, whose sequence follows on the newest one's; not synced."""
