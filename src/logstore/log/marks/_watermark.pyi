from typing import Self, final

from typing_extensions import disjoint_base

from logstore.clock import Clock
from logstore.io._notifier import Notifier

@final
class Registration:
    """Interest of a notifier in a watermark, for as long as the registration lives."""

    def __new__(cls, mark: Watermark, notifier: Notifier) -> Self: ...
    @property
    def mark(self) -> Watermark: ...
    @property
    def notifier(self) -> Notifier: ...
    @property
    def is_armed(self) -> bool: ...
    def arm_for(self, wanted: int) -> bool:
        """Have the notifier notified once the offset is at least ``wanted``, or has fallen, or is closed."""

    def arm_while(self, value: int) -> bool:
        """Have the notifier notified once the offset differs from ``value``, or is closed; False as `arm_for`."""

    def disarm(self) -> None:
        """Have the notifier not notified."""

@disjoint_base
class Watermark:
    """An offset that only its owner moves. Any thread may read it and wait for it."""

    def __init__(self, value: int, *, clock: Clock = ..., lock: LogLock | None = None) -> None:
        """Begin at an offset. With a lock, waiters are notified when it is released: the caller moves under it."""

    @property
    def value(self) -> int: ...
    @property
    def waiters(self) -> int: ...
    def advance(self, value: int) -> bool:
        """Raise the offset to ``value`` and return whether it rose; a lower ``value`` changes nothing."""

    def reset(self, value: int) -> None:
        """Set the offset, even to a lower value, after a truncation. Every waiter is notified."""

    def wait_for(self, value: int, timeout_s: float | None = None) -> bool:
        """Block until the offset is at least ``value``; return False on timeout or if the watermark is closed."""

    def wait_while(self, value: int, timeout_s: float | None = None) -> bool:
        """Block until the offset differs from ``value``, higher or lower; return False as `wait_for`."""

    def close(self) -> None:
        """Notify every waiter; no later wait blocks."""

@final
class LogLock:
    """The lock of one log, with the interface of `threading.Lock`. Marks that were moved under it notify after it."""

    def __init__(self) -> None: ...
    def acquire(self, blocking: bool = True, timeout: float = -1.0) -> bool:
        """Acquire the lock, as `threading.Lock` does."""

    def release(self) -> None:
        """Release the lock, then notify the waiters of marks that have reached what they wait for."""

    def locked(self) -> bool:
        """Return whether the lock is held."""

    def __enter__(self) -> bool: ...
    def __exit__(self, *exc_info: object) -> None: ...
