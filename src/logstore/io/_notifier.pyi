from typing import final

from typing_extensions import disjoint_base

from logstore.clock import Clock

@disjoint_base
class NotifierGroup:
    """The notifiers of one event loop: one eventfd tells it that some of them were notified."""

    def __init__(self) -> None: ...
    def fileno(self) -> int:
        """Return the eventfd. It is readable while notifiers are left for `take`."""

    def take(self) -> list[Notifier]:
        """Return the notifiers that were notified since the last call, each once."""

    def close(self) -> None:
        """Close the eventfd. Later notifications reach no loop."""

@final
class Notifier:
    """Wakes one waiting thread, or the event loop of its group, for any number of watermarks."""

    def __init__(self, clock: Clock = ..., group: NotifierGroup | None = None) -> None: ...
    def notify(self) -> bool:
        """Wake the waiter, or let the next `wait` return at once; return whether a thread was woken."""

    def notify_first(self) -> None:
        """Notify, and let the woken thread run first: wait, without the GIL, until it does."""

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until notified; return False on timeout. For one thread at a time."""
