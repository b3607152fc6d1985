from typing_extensions import disjoint_base

@disjoint_base
class EventFd:
    """Descriptor that is readable from `set` until `clear`."""

    def __init__(self) -> None: ...
    def fileno(self) -> int:
        """Return the descriptor, -1 once it is closed."""

    def close(self) -> None:
        """Close the descriptor; `set` then does nothing. May be called again."""
