"""Inotify watch for writes of another process, as a hint to look again."""

from typing import Self

from typing_extensions import disjoint_base

@disjoint_base
class Watch:
    """Inotify watch on one file. Outside the table of file operations: it is only a hint to look again."""

    def __new__(cls, path: str) -> Self: ...
    def wait(self, timeout_ms: int) -> None:
        """Block until a write or the timeout, whichever comes first; never an error."""
