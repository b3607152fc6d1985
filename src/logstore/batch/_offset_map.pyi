from typing import Self, final

SLOT_BYTES: int
ENDED: int
DECIDE: int
FILLED: int

def allocated_bytes() -> int:
    """Return the bytes of the slots of all maps that are alive in this process."""

@final
class KeyMap:
    """Newest offset by key."""

    def __new__(cls, size: int, secret: bytes) -> Self: ...
    @property
    def latest_offset(self) -> int: ...
    @property
    def size(self) -> int:
        """Bytes of all slots."""

    @property
    def capacity(self) -> int:
        """The number of keys that fit."""

    def __len__(self) -> int: ...
    def put(self, key: bytes, offset: int) -> bool:
        """Store the offset of a key; return False if the key is new and the map is full."""

    def get(self, key: bytes) -> int:
        """Return the offset of a key, or -1."""

    def digest(self, key: bytes) -> bytes:
        """Return the hash stored in place of a key: 16 bytes."""

    def pass_over(self, last_offset: int) -> None:
        """Raise `latest_offset` to the end of a batch whose keys are not added."""

    def add_run(
        self,
        data: bytes,
        start_offset: int,
        *,
        position: int = 0,
        limit: int = 67_108_864,
        path: str | None = None,
        file_position: int = 0,
    ) -> tuple[int, int]:
        """Add the keys of whole batches from ``position`` on; return (position of the next batch, reason)."""

    def add_batch(
        self,
        data: bytes,
        start_offset: int,
        *,
        position: int = 0,
        limit: int = 67_108_864,
        path: str | None = None,
        file_position: int = 0,
    ) -> tuple[int, int]:
        """Add the keys of the one batch at ``position`` as `add_run` does; it may be part of a transaction."""
