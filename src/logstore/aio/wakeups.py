"""Wake-ups of waiting tasks: one eventfd for an event loop, whatever the number of its consumers and partitions.

Appending threads write it (`NotifierGroup`); none of them calls into the loop. Used by the loop's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref

from logstore.io._notifier import Notifier, NotifierGroup

_of_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopWakeups] = weakref.WeakKeyDictionary()


class LoopWakeups:
    """The events that threads may set in one loop.

    Owns: the eventfd, from the first `join` until the last `leave`, or until the loop is freed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._group = NotifierGroup()
        self._events: weakref.WeakKeyDictionary[Notifier, asyncio.Event] = weakref.WeakKeyDictionary()
        loop.add_reader(self._group.fileno(), self._set_notified)

    @classmethod
    def join(cls, loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> tuple[LoopWakeups, Notifier]:
        """Return a notifier that sets an event of this loop, until `leave`. It is not kept alive."""
        joined = _of_loops.get(loop)
        if joined is None:
            joined = _of_loops[loop] = cls(loop)
        notifier = Notifier(group=joined._group)
        joined._events[notifier] = event
        return joined, notifier

    def leave(self, notifier: Notifier) -> None:
        """Have a notifier set no event any more."""
        self._events.pop(notifier, None)
        loop = self._loop()
        if loop is None or len(self._events) or _of_loops.get(loop) is not self:
            return
        del _of_loops[loop]
        with contextlib.suppress(RuntimeError):  # the loop may be closed
            loop.remove_reader(self._group.fileno())
        self._group.close()

    def _set_notified(self) -> None:
        for notifier in self._group.take():
            event = self._events.get(notifier)
            if event is not None:
                event.set()
