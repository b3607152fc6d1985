# cython: language_level=3
"""Offsets that rise and can be waited for.

A `Watermark` is one of the marks of a log. The `Registration` of a notifier with it names the offset that the
notifier waits for. An append compares the new offset with the lowest one wanted; below that, any number of waiters
cost it nothing. `LogLock` notifies once it is released, so no other thread waits for that.

Invariants: `_lowest` is the offset of the first registration in the heap, or INT64_MAX; a registration is in the
heap of its watermark from `arm_for` or `arm_while` until it is notified, armed again, disarmed or freed.

Threads: any. What is not guarded by the log's lock changes under the GIL, in steps that do not release it. So no
waiter registers between the rise of an offset and the look at who waits for it.
"""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport free, realloc

from logstore.io._notifier cimport Notifier

from logstore.clock import SYSTEM_CLOCK

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef extern from "pythread.h" nogil:
    enum: NOWAIT_LOCK
    ctypedef enum PyLockStatus:
        PY_LOCK_ACQUIRED
        PY_LOCK_INTR
    PyThread_type_lock PyThread_allocate_lock()
    void PyThread_free_lock(PyThread_type_lock lock)
    bint PyThread_acquire_lock(PyThread_type_lock lock, int waits)
    PyLockStatus PyThread_acquire_lock_timed(PyThread_type_lock lock, long long most_us, int ends_by_signal)
    void PyThread_release_lock(PyThread_type_lock lock)


@cython.final
@cython.no_gc
cdef class Registration:
    """Interest of a notifier in a watermark, for as long as the registration lives.

    It is armed for one notification at a time, and keeps its place until it is armed for another offset. The
    watermark refers to it without owning it.
    """

    def __cinit__(self, Watermark mark not None, Notifier notifier not None):
        self.mark = mark
        self.notifier = notifier
        self._place = -1

    def __dealloc__(self):
        if self.notifier is not None:  # else its arguments were refused
            self.disarm()

    cpdef bint arm_for(self, int64_t wanted) except -1:
        """Have the notifier notified once the offset is at least ``wanted``, or has fallen, or is closed.

        Returns False, with nothing armed, if the offset is there already, or the watermark is closed.
        """
        if self.mark.value >= wanted or self.mark._closed:
            self.disarm()
            return False
        if self._place < 0 or self._wanted != wanted:
            self.disarm()
            self.mark._add(self, wanted)
        return True

    cpdef bint arm_while(self, int64_t value) except -1:
        """Have the notifier notified once the offset differs from ``value``, or is closed; False as `arm_for`."""
        if self.mark.value != value:
            self.disarm()
            return False
        return self.arm_for(value + 1)

    @property
    def is_armed(self) -> bool:
        """Whether the notifier is still to be notified."""
        return self._place >= 0

    def disarm(self) -> None:
        """Have the notifier not notified."""
        if self._place >= 0:
            self.mark._remove(self)


cdef class Watermark:
    """An offset that only its owner moves. Any thread may read it and wait for it.

    Owns: the heap of registrations, but not these.

    >>> mark = Watermark(5)
    >>> mark.advance(8)
    True
    >>> mark.wait_for(8, timeout_s=0)
    True
    """

    def __init__(self, int64_t value: int, *, clock: Clock = SYSTEM_CLOCK, lock: LogLock | None = None):
        """Begin at an offset. With a lock, waiters are notified when it is released: the caller moves under it."""
        self.value = value
        self._clock = clock
        self._lowest = INT64_MAX
        self._lock = lock

    def __dealloc__(self):
        free(self._heap)

    cpdef bint advance(self, int64_t value) except -1:
        """Raise the offset to ``value`` and return whether it rose; a lower ``value`` changes nothing."""
        if value <= self.value:
            return False
        self.value = value
        if value >= self._lowest:
            self._owe()
        return True

    def reset(self, int64_t value: int) -> None:
        """Set the offset, even to a lower value, after a truncation. Every waiter is notified."""
        self.value = value
        self._all = True
        self._owe()

    def close(self) -> None:
        """Notify every waiter; no later wait blocks."""
        self._closed = True
        self._all = True
        self._owe()

    cdef int _owe(self) except -1:
        if self._lock is None:
            self._notify_due()
        elif self._lock._due is None:
            self._lock._due = [self]
        else:
            self._lock._due.append(self)
        return 0

    cdef int _notify_due(self) except -1:
        """Notify each waiter that waits for no more than the offset; all of them after a fall or the end."""
        cdef Registration waiter
        # Counted once: a waiter may be armed again while the others are notified.
        cdef Py_ssize_t left = self._count
        cdef bint every = self._all
        self._all = False
        while left > 0 and self._count and (every or self._lowest <= self.value):
            left -= 1
            waiter = <Registration>self._heap[0]
            self._remove(waiter)
            waiter.notifier.notify()
        return 0

    cdef int _add(self, Registration waiter, int64_t wanted) except -1:
        cdef void *heap
        cdef Py_ssize_t capacity
        if self._count == self._capacity:
            capacity = max(8, 2 * self._capacity)
            heap = realloc(self._heap, <size_t>capacity * sizeof(PyObject *))
            if heap == NULL:
                raise MemoryError
            self._heap, self._capacity = <PyObject **>heap, capacity
        waiter._wanted = wanted
        self._count += 1
        self._sift(waiter, self._count - 1)
        self._lowest = (<Registration>self._heap[0])._wanted
        return 0

    cdef void _remove(self, Registration waiter) noexcept:
        cdef Py_ssize_t place = waiter._place
        waiter._place = -1
        self._count -= 1
        if place < self._count:
            self._sift(<Registration>self._heap[self._count], place)
        self._lowest = (<Registration>self._heap[0])._wanted if self._count else INT64_MAX

    cdef void _sift(self, Registration waiter, Py_ssize_t place) noexcept:
        """Put a registration at a free place of the heap, or where it belongs above or below that."""
        cdef Py_ssize_t other
        while place > 0:
            other = (place - 1) // 2
            if (<Registration>self._heap[other])._wanted <= waiter._wanted:
                break
            self._heap[place] = self._heap[other]
            (<Registration>self._heap[place])._place = place
            place = other
        while True:
            other = 2 * place + 1
            if other + 1 < self._count and (
                    (<Registration>self._heap[other + 1])._wanted < (<Registration>self._heap[other])._wanted):
                other += 1
            if other >= self._count or (<Registration>self._heap[other])._wanted >= waiter._wanted:
                break
            self._heap[place] = self._heap[other]
            (<Registration>self._heap[place])._place = place
            place = other
        self._heap[place] = <PyObject *>waiter
        waiter._place = place

    @property
    def waiters(self) -> int:
        """Count of registrations that are armed."""
        return self._count

    def wait_for(self, value: int, timeout_s: float | None = None) -> bool:
        """Block until the offset is at least ``value``; return False on timeout or if the watermark is closed."""
        return self.value >= value or self._wait(value, False, timeout_s)

    def wait_while(self, value: int, timeout_s: float | None = None) -> bool:
        """Block until the offset differs from ``value``, higher or lower; return False as `wait_for`.

        For a reader at the log's end: a truncation must wake this reader, too.
        """
        return self.value != value or self._wait(value, True, timeout_s)

    def _wait(self, int64_t value: int, bint differs: bool, timeout_s: float | None) -> bool:
        cdef Notifier notifier = Notifier(self._clock)
        cdef Registration waiter = Registration(self, notifier)
        deadline = self._clock.deadline_s(timeout_s)
        while waiter.arm_while(value) if differs else waiter.arm_for(value):
            left = None if deadline is None else deadline - self._clock.monotonic_s()
            if not notifier.wait(left):
                break
        return self.value != value if differs else self.value >= value

    def __repr__(self):
        return f"<Watermark {self.value}>"


@cython.final
cdef class LogLock:
    """The lock of one log, with the interface of `threading.Lock`. Marks that were moved under it notify after it.

    It is a lock of the interpreter, without the calls of Python around it: they took half a microsecond an append.

    Owns: the lock. Invariants: `_is_held` is whether a thread holds it; `_due` changes only under it, and is None
    when it is free.
    """

    def __cinit__(self):
        self._lock = PyThread_allocate_lock()
        if self._lock == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self._lock != NULL:
            if self._is_held:
                PyThread_release_lock(self._lock)
            PyThread_free_lock(self._lock)

    cpdef bint acquire(self, bint blocking=True, double timeout=-1) except -1:
        """Acquire the lock, as `threading.Lock` does."""
        if timeout != -1 and (timeout < 0 or not blocking):
            raise ValueError(f"timeout={timeout}: expected seconds, and only for a call that may block")
        if PyThread_acquire_lock(self._lock, NOWAIT_LOCK):
            self._is_held = True
            return True
        return blocking and self._wait(timeout)

    cdef bint _wait(self, double timeout) except -1:
        """Acquire the lock once another thread has released it. A signal handler runs meanwhile, and may raise."""
        cdef PyLockStatus status
        cdef double until = 0 if timeout < 0 else SYSTEM_CLOCK.monotonic_s() + timeout
        cdef long long most_us = -1
        while True:
            if timeout >= 0:
                most_us = <long long>(1e6 * min(max(until - <double>SYSTEM_CLOCK.monotonic_s(), 0.0), 1e9))
            with nogil:
                status = PyThread_acquire_lock_timed(self._lock, most_us, 1)
            if status == PY_LOCK_ACQUIRED:
                self._is_held = True
                return True
            if status != PY_LOCK_INTR:
                return False
            PyErr_CheckSignals()

    cpdef release(self):
        """Release the lock, then notify the waiters of marks that have reached what they wait for."""
        cdef Watermark mark
        cdef list due = self._due
        if not self._is_held:
            raise RuntimeError(f"{type(self).__name__}: no thread holds the lock")
        self._due = None
        self._is_held = False
        PyThread_release_lock(self._lock)
        if due is not None:
            for mark in due:
                mark._notify_due()

    def locked(self) -> bool:
        """Return whether the lock is held."""
        return self._is_held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc_info: object) -> None:
        self.release()
