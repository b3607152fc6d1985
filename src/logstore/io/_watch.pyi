"""Inotify watch for writes of another process, as a hint to look again."""

from typing import Self

from typing_extensions import disjoint_base

@disjoint_base
class Watch:
    """Inotify watch on the files of a directory. Outside the table of file operations: only a hint to look again."""

    def __new__(cls, path: str) -> Self: ...
    def wait(self, timeout_ms: int) -> bool:
        """Block until a write or the timeout, whichever comes first; return whether there was a write."""
