from collections.abc import Callable, Sequence
from typing import Self, final

from logstore.batch._offset_map import KeyMap

ENDED: int
DECIDE: int

@final
class Filter:
    """A filter that removes records replaced by a newer one of the same key."""

    def __new__(
        cls,
        keys: KeyMap,
        *,
        known_offset: int,
        now_ms: int,
        delete_retention_ms: int,
        level_of: Callable[[int], int],
        limit: int = 67_108_864,
    ) -> Self: ...
    @property
    def records_read(self) -> int: ...
    @property
    def records_kept(self) -> int: ...
    @property
    def keyless_records(self) -> int: ...
    @property
    def bytes_read(self) -> int: ...
    @property
    def bytes_kept(self) -> int: ...
    @property
    def batches_copied(self) -> int: ...
    @property
    def batches_rewritten(self) -> int: ...
    @property
    def batches_emptied(self) -> int: ...
    @property
    def batches_dropped(self) -> int: ...
    @property
    def next_horizon_ms(self) -> int: ...
    @property
    def last_dropped(self) -> int: ...
    def begin(self, base_offset: int, last_offsets: Sequence[int]) -> None:
        """Begin another group of segments."""

    def run(
        self,
        data: bytes,
        position: int,
        end_offset: int,
        ends_group: bool,
        *,
        path: str | None = None,
        file_position: int = 0,
    ) -> tuple[int, int]:
        """Pass whole batches on from ``position``; return (where it stopped, why)."""

    def decide(
        self,
        data: bytes,
        position: int,
        end_offset: int,
        *,
        discard: bool,
        marker_goes: bool,
        stays_empty: bool,
        path: str | None = None,
        file_position: int = 0,
    ) -> int:
        """Pass on the one batch at ``position`` as the caller decided; return where the next begins."""

    def clear(self) -> None:
        """Empty the output after it was written."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
