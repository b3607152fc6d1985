from typing import Self, final

SLOT_BYTES: int
ENDED: int
DECIDE: int
FILLED: int

def allocated_bytes() -> int:
    """Bytes of the slots of all maps that are alive in this process."""

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
        """How many keys fit."""

    def __len__(self) -> int: ...
    def put(self, key: bytes, offset: int) -> bool:
        """Remember the offset of a key; False if there is no room for a new one."""

    def get(self, key: bytes) -> int:
        """The offset of a key, or -1."""

    def digest(self, key: bytes) -> bytes:
        """What stands for a key in here: 16 bytes."""

    def pass_over(self, last_offset: int) -> None:
        """Take the batch that ends at an offset for known, without its keys."""

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
        """Take the keys of whole batches from ``position`` on: (where it stopped, why)."""

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
        """As `add_run` for the one batch at ``position``, which may be part of a transaction."""
