# cython: language_level=3
"""Alarms: when each member of a ticker has timed work, and until when the ticker's thread may sleep.

A member sets its alarm when it has something to do: a log at its first unflushed record, a producer at the first
record of a batch. An alarm that is set costs a comparison. One that is not costs an entry in a list, and wakes the
thread only if that would sleep longer. So an idle member costs nothing, and the thread of idle members sleeps.

Threads: any may set an alarm, also under a lock, inside a signal handler or in a finalizer: no step here waits,
takes a lock or runs bytecode. Steps change their fields under the GIL, which none releases. Only the thread of the
ticker calls `take`, `begin_sleep` and `sleep`. It imports nothing of logstore.

No wake-up is lost. `set` first adds the alarm to the list, then looks until when the thread sleeps. `begin_sleep`
empties the list, says until when the thread sleeps, and begins again if the list has an alarm by then: objects that
it makes may run the collector of garbage, and finalizers with it. An alarm set after that look releases a lock, and
`sleep` ends at once if it was released before.
"""

cimport cython
from libc.math cimport INFINITY

import threading
from _thread import allocate_lock
from heapq import heapify, heappop, heappush
from weakref import ref

cdef enum:
    STALE = 64               # entries of the heap beyond two for each member, before the stale ones are dropped


@cython.final
cdef class Alarm:
    """When one member is ticked next: at ``due_s`` or soon after."""

    def __cinit__(self):
        self.due_s = -INFINITY

    cpdef int set(self, double due_s) except -1:
        """Have the member ticked at a monotonic time, unless it is ticked before that anyway."""
        if due_s < self.due_s:
            self.due_s = due_s
            self._alarms._new.append(self)
            if due_s < self._alarms.sleeps_until_s:
                self._alarms._wake()
        return 0


#: The alarm of what no thread ticks: to set it does nothing.
NEVER = Alarm()


@cython.final
cdef class Alarms:
    """The alarms of all members of one ticker.

    Invariant: an alarm whose ``due_s`` is finite is in the list of new ones, or in the heap with that ``due_s``.
    """

    def __cinit__(self):
        self._members = {}
        self._new = []
        self._heap = []
        self._go = allocate_lock()
        self._go.acquire()
        self.sleeps_until_s = -INFINITY

    def __len__(self):
        return len(self._members)

    def add(self, member: object) -> Alarm:
        """Return a new alarm for a member, which is not kept alive."""
        cdef Alarm alarm = Alarm.__new__(Alarm)
        alarm._alarms = self
        alarm.member = ref(member, self._forget)
        alarm.due_s = INFINITY
        self._members[alarm.member] = alarm
        return alarm

    def discard(self, member: object) -> None:
        """Forget a member: its alarm cannot be set from now on."""
        self._forget(ref(member))

    def _forget(self, member: ref[object]) -> None:
        """Forget a member by a weak reference; called by the garbage collector, too."""
        cdef Alarm alarm = self._members.pop(member, None)
        if alarm is not None:
            alarm.due_s = -INFINITY
        if not self._members:
            # The thread ends.
            self._wake()

    cdef int _wake(self) except -1:
        self.sleeps_until_s = -INFINITY
        try:
            self._go.release()
        except RuntimeError:
            pass             # released before, and the thread has not taken it yet
        return 0

    def take(self, double now_s: float) -> list[Alarm]:
        """Return the alarms that are due, in the order of their times; each is to be set again from now on."""
        cdef Alarm alarm
        cdef list due = []
        cdef double due_s
        self.sleeps_until_s = -INFINITY
        self._sort_in()
        while self._heap:
            due_s = self._heap[0][0]
            if due_s > now_s:
                break
            alarm = heappop(self._heap)[2]
            if alarm.due_s == due_s:
                # Before the tick: a member may get new work while it is ticked.
                alarm.due_s = INFINITY
                due.append(alarm)
        return due

    def begin_sleep(self) -> float:
        """Return the time of the first alarm, inf if there is none; an earlier one ends `sleep` from now on."""
        cdef double first_s
        while True:
            first_s = INFINITY
            self._sort_in()
            while self._heap:
                first_s = self._heap[0][0]
                if (<Alarm>self._heap[0][2]).due_s == first_s:
                    break
                heappop(self._heap)
                first_s = INFINITY
            self.sleeps_until_s = first_s
            if not self._new:
                return first_s

    def sleep(self, double timeout_s: float) -> bool:
        """Wait for an earlier alarm, or until the last member is forgotten; False if seconds have passed."""
        if timeout_s == INFINITY:
            return self._go.acquire()
        return self._go.acquire(True, min(max(timeout_s, 0.0), threading.TIMEOUT_MAX))

    cdef int _sort_in(self) except -1:
        cdef Alarm alarm
        cdef list new = self._new
        self._new = []
        for alarm in new:
            if -INFINITY < alarm.due_s < INFINITY:
                self._number += 1
                heappush(self._heap, (alarm.due_s, self._number, alarm))
        if len(self._heap) > STALE + 2 * len(self._members):
            self._heap = [entry for entry in self._heap if (<Alarm>entry[2]).due_s == entry[0]]
            heapify(self._heap)
        return 0
