"""Waiting for another process to write: inotify, as a hint to look again."""

from typing import Self

from typing_extensions import disjoint_base

@disjoint_base
class Watch:
    """Waits until a file is written to, by inotify. Not through the table: it is a hint to look again."""

    def __new__(cls, path: str) -> Self: ...
    def wait(self, timeout_ms: int) -> None:
        """Block until a write or the end of the time, whichever comes first; never an error."""
