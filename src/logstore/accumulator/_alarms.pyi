from typing import Any, Final, final
from weakref import ref

@final
class Alarm:
    """When one member is ticked next: at ``due_s`` or soon after."""

    @property
    def due_s(self) -> float: ...
    @property
    def member(self) -> ref[Any]: ...
    def set(self, due_s: float) -> int:
        """Have the member ticked at a monotonic time, unless it is ticked before that anyway."""

NEVER: Final[Alarm]

@final
class Alarms:
    """The alarms of all members of one ticker."""

    def __len__(self) -> int: ...
    @property
    def sleeps_until_s(self) -> float: ...
    def add(self, member: object) -> Alarm:
        """Return a new alarm for a member, which is not kept alive."""

    def discard(self, member: object) -> None:
        """Forget a member: its alarm cannot be set from now on."""

    def take(self, now_s: float) -> list[Alarm]:
        """Return the alarms that are due, in the order of their times; each is to be set again from now on."""

    def begin_sleep(self) -> float:
        """Return the time of the first alarm, inf if there is none; an earlier one ends `sleep` from now on."""

    def sleep(self, timeout_s: float) -> bool:
        """Wait for an earlier alarm, or until the last member is forgotten; False if seconds have passed."""
