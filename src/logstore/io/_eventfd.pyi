from typing import final

@final
class EventFd:
    """Descriptor that is readable from `set` until `clear`."""

    def __init__(self) -> None: ...
    def fileno(self) -> int:
        """Return the descriptor, -1 once it is closed."""

    def set(self) -> None:
        """Make the descriptor readable. The write fails only if the counter is full, which is readable, too."""

    def clear(self) -> None:
        """Make the descriptor unreadable."""

    def close(self) -> None:
        """Close the descriptor; `set` then does nothing. May be called again."""
