from typing import final

from logstore.clock import Clock

@final
class BufferMemory:
    """A number of bytes, of which each batch reserves and releases a share."""

    def __init__(self, limit: int, clock: Clock) -> None: ...
    @property
    def limit(self) -> int: ...
    @property
    def reserved(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    def try_reserve(self, size: int) -> bool:
        """Reserve ``size`` bytes if so many are available; return whether they were reserved."""

    def release(self, size: int) -> int:
        """Release ``size`` bytes and wake the threads that wait for memory."""

    def wait(self, seen: int, timeout_s: float) -> None:
        """Wait for the next release, at most ``timeout_s``; return at once if less than ``seen`` is reserved."""
