"""What ends with its back end, or is told of changes by it: structural types."""

from __future__ import annotations

from typing import Protocol


class ReaderMember(Protocol):
    """A consumer, as its back end sees it. The back end does not keep it alive. Any thread may call."""

    def _look_around(self) -> None:
        """Look for new partitions of the topics that are read, also while waiting."""

    def _abandon(self) -> None:
        """Commit what is known to be processed, and close."""

    def _end_with_store(self) -> None:
        """End a wait of another thread with `StoreClosedError`."""
