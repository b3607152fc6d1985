from typing import final

from typing_extensions import disjoint_base

@disjoint_base
class Rounds:
    """What a group commit asks of a log."""

    def is_done(self, offset: int) -> bool:
        """Return whether everything below an offset is on disk; raise if it never will be."""
    def sync(self, commit: GroupCommit) -> None:
        """Make durable what is written now; one thread at a time calls this."""

@final
class GroupCommit:
    """Runs rounds so that at most one runs at a time and no thread syncs bytes that another has synced."""

    def __init__(self, rounds: Rounds, *, patience: float = 0.625) -> None: ...
    @property
    def waiting(self) -> int: ...
    @property
    def is_led(self) -> bool: ...
    def run(self, offset: int) -> int:
        """Return once everything below ``offset`` is on disk; sync as the leader if no thread leads."""
    def wake_served(self) -> int:
        """Wake the waiters whose bytes are on disk, or who will get an error."""
