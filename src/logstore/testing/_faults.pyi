from typing import Final

from typing_extensions import disjoint_base

from logstore.io._files import Files

CHANGES: Final[frozenset[str]]

@disjoint_base
class FaultyFiles(Files):
    """`Files` with planned faults. Pass it to `Log.open(..., files=FaultyFiles())`."""

    spares: bool
    """Whether planned failures wait: calls succeed, and no plan counts them."""

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
        """Fail the ``nth`` call of an operation from now on, and the ``times - 1`` calls after it (-1: all)."""
    def heal(self) -> None:
        """Remove all planned faults."""
    def delay(self, op: str, delay_ms: float) -> None:
        """Delay every call of an operation from now on, as on a slow disk; 0 ends it."""
    def watch_thread(self) -> None:
        """Count the calls of the calling thread from now on."""
    def watched_calls(self) -> int:
        """Return how many calls the thread of `watch_thread` has made."""
    def hold_syncs(self, path_contains: str = "") -> None:
        """Make each sync of a file whose path contains ``path_contains`` wait until `release_syncs`."""
    def hold_reads(self, path_contains: str = "") -> None:
        """Make each read by the calling thread of such a file wait, before it reads, until `release_syncs`."""
    def held_syncs(self) -> int:
        """Return how many calls have reached `hold_syncs` or `hold_reads`."""
    def release_syncs(self) -> None:
        """Release the waiting calls, and hold no further ones."""
    def fired(self) -> list[tuple[str, str, int]]:
        """Return (operation, path of the last such call, how often) of each plan that has affected a call."""
    def counts(self) -> dict[str, int]:
        """Return how many calls of each operation have reached the table, including failed ones."""
    @property
    def changes(self) -> int:
        """The number of calls that changed files or names, made a change durable, or failed to."""
    def record(self) -> None:
        """Record every call from now on, and forget the earlier record."""
    def recorded(self) -> list[tuple[str, str, int, int, int]]:
        """Return (operation, path, position, size, status) of each recorded call, in order."""
