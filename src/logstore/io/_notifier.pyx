# cython: language_level=3
"""Notifiers: what waits for watermarks, and is woken by the threads that move them.

A `Notifier` wakes a thread. In a `NotifierGroup` it also makes an eventfd readable, for which an event loop waits.
A notification runs no code of a caller: the class is final, so a thread that moves a mark calls this `notify`. With
the machine's clock it runs no Python code at all: no signal handler can interrupt it.

Threads: any. What a notifier knows changes under the GIL, in steps that do not release it.
"""

cimport cython

from _thread import allocate_lock

from logstore.io._eventfd cimport EventFd

from logstore.clock import SYSTEM_CLOCK, SystemClock
from logstore.io._interrupts import Condition, held

cdef double GIVE_WAY_S = 0.001   # at most: a waiter that gets no core by then must not hold up others


cdef class NotifierGroup:
    """The notifiers of one event loop: one eventfd tells it that some of them were notified.

    Owns: the eventfd, until `close`.
    """

    def __cinit__(self):
        self._event = EventFd()
        self._notified = []

    def fileno(self) -> int:
        """Return the eventfd. It is readable while notifiers are left for `take`."""
        return self._event.fileno()

    def take(self) -> list[Notifier]:
        """Return the notifiers that were notified since the last call, each once."""
        cdef list taken = self._notified
        cdef Notifier notifier
        self._event.clear()
        self._notified = []
        for notifier in taken:
            notifier._notified = False
        return taken

    def close(self) -> None:
        """Close the eventfd. Later notifications reach no loop."""
        self._event.close()


@cython.final
cdef class Notifier:
    """Wakes one waiting thread, or the event loop of its group, for any number of watermarks.

    A notification is kept until the next `wait` or `NotifierGroup.take`, so none is missed between a check and the
    wait that follows it.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK, group: NotifierGroup | None = None):
        self._clock = clock
        self._group = group
        if isinstance(clock, SystemClock):
            self._bell = allocate_lock()
            self._bell.acquire()
            self._gate = allocate_lock()
            self._gate.acquire()
        else:
            # Only the clock knows when its waits end, and it waits by a condition.
            self._changed = Condition()

    cpdef bint notify(self) except -1:
        """Wake the waiter, or let the next `wait` return at once; return whether a thread was woken."""
        if self._changed is None:
            return self._take_note()
        with held(self._changed):
            self._take_note()
            self._changed.notify_all()
        return False

    def notify_first(self) -> None:
        """Notify, and let the woken thread run first: wait, without the GIL, until it does.

        Else the notifying thread would take the GIL again at once after each system call, and keep the woken one
        waiting until it waits itself. For one thread at a time, which holds no lock that the waiter takes.
        """
        cdef bint was_told = False
        if not self.notify():
            return
        self._gives_way = True
        try:
            was_told = self._gate.acquire(True, GIVE_WAY_S)
        finally:
            if self._gives_way:
                self._gives_way = False
            elif not was_told:
                # Told at the end of the time: the gate must be held again.
                self._gate.acquire(False)

    cdef bint _take_note(self) except -1:
        if self._notified:
            return False
        self._notified = True
        if self._group is not None:
            if not self._group._notified:
                self._group._event.set()
            self._group._notified.append(self)
        if self._waits:
            self._waits = False
            self._bell.release()
            return True
        return False

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until notified; return False on timeout. For one thread at a time."""
        deadline = self._clock.deadline_s(timeout_s)
        if self._changed is not None:
            return self._wait_by_clock(deadline)
        while not self._notified:
            left = -1 if deadline is None else deadline - self._clock.monotonic_s()
            if deadline is not None and left <= 0:
                return False
            self._sleep(left)
        self._notified = False
        return True

    def _sleep(self, left_s: float) -> None:
        cdef bint was_woken = False
        self._waits = True
        try:
            was_woken = self._bell.acquire(True, left_s)
        finally:
            if self._waits:
                self._waits = False
            elif not was_woken:
                # Notified at the end of the time, or right before an interrupt: the bell must be held again.
                self._bell.acquire(False)
            if self._gives_way:
                self._gives_way = False
                self._gate.release()

    def _wait_by_clock(self, deadline: float | None) -> bool:
        with held(self._changed):
            while not self._notified:
                left = None if deadline is None else deadline - self._clock.monotonic_s()
                if left is not None and left <= 0:
                    return False
                self._clock.wait(self._changed, left)
            self._notified = False
            return True
