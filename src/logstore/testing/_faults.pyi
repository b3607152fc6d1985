from typing import Final

from typing_extensions import disjoint_base

from logstore.io._files import Files

CHANGES: Final[frozenset[str]]

@disjoint_base
class FaultyFiles(Files):
    """`Files` that fail on order. Hand it to `Log.open(..., files=FaultyFiles())`."""

    def __new__(cls, *, descriptor_limit: int | None = None) -> FaultyFiles: ...
    def fail(
        self,
        op: str,
        nth: int = 1,
        errno: int = ...,
        *,
        times: int = 1,
        path_contains: str | None = None,
        short: int = -1,
        torn: int = -1,
    ) -> None:
        """Fail the ``nth`` call of an operation from now on, and ``times - 1`` after it (-1: all)."""
    def heal(self) -> None:
        """Forget all plans."""
    def delay(self, op: str, delay_ms: float) -> None:
        """Let every call of an operation take so much longer from now on, as on a slow disk; 0 ends it."""
    def watch_thread(self) -> None:
        """Count from now on the calls that the calling thread makes itself; a loop that never blocks has none."""
    def watched_calls(self) -> int:
        """How many calls that thread has made."""
    def hold_syncs(self, path_contains: str = "") -> None:
        """Let every sync of such a file wait from now on until `release_syncs`, called by the same thread."""
    def held_syncs(self) -> int:
        """How many syncs have come to `hold_syncs`."""
    def release_syncs(self) -> None:
        """Let them go on, and hold no more."""
    def fired(self) -> list[tuple[str, str, int]]:
        """(operation, path, how often) of each plan that has failed a call."""
    def counts(self) -> dict[str, int]:
        """How many calls of each operation have reached the table, those that failed among them."""
    @property
    def changes(self) -> int:
        """How many calls have changed files or names, or made a change durable, or were to."""
    def record(self) -> None:
        """Write every call down from now on, and forget what was written down before."""
    def recorded(self) -> list[tuple[str, str, int, int, int]]:
        """(operation, path, position, size, status) of each call, in order; stat, list and map are left out."""
