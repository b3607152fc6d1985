# cython: language_level=3
"""Steps that a signal cannot cut in half.

Python runs signal handlers in its main thread, between two bytecodes, and what a handler raises (Ctrl-C:
KeyboardInterrupt) comes out of the line that happens to run. Compiled code runs no bytecode: an interrupt comes
out of it only where it calls Python, or waits. So what must not be cut lies here, or is called from here:

`shielded` runs a step in another thread, which no signal reaches, while the main thread waits: for what is
done rarely. `locked` runs a step under a lock and, if it was cut, puts things right before the lock is free: for
what is done often. `held` and `Condition` are a lock that no interrupt leaves locked, and a wait that none breaks.

Threads: any. In all but the main thread a step is simply called, since no signal is handled there.
"""

import os
import sys
import threading
from _thread import allocate_lock, start_new_thread

cimport cython

from logstore.errors import LogstoreError

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident()
    int PyErr_CheckSignals() except -1


#: How long a signal may wait for its handler while a step takes its time.
cdef double _LOOK_S = 0.1

cdef unsigned long _main_thread = threading.main_thread().ident
cdef bint _is_interrupted = False
cdef _Worker _worker = None


def _before_fork():
    """A process with a second thread is warned when it forks."""
    global _worker
    cdef _Worker worker = _worker
    if worker is not None and not worker.is_busy:
        _worker = None
        worker.go.release()
        worker.ended.acquire()


def _after_fork():
    """The thread that has forked is the child's main thread."""
    global _main_thread, _is_interrupted, _worker
    _main_thread = PyThread_get_thread_ident()
    _is_interrupted = False
    _worker = None


os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


@cython.final
cdef class _Step:
    """A call that another thread makes, and what came of it."""

    cdef object step, args, options, result, error, done

    def run(self):
        self.make()
        self.done.release()

    cdef make(self):
        try:
            self.result = self.step(*self.args, **self.options)
        except BaseException as error:
            self.error = error
        # Before the caller goes on: what it drops then must not live on in this thread.
        self.step = self.args = self.options = None


@cython.final
cdef class _Worker:
    """A thread that makes one call after the other, up to a fork or the end of the process.

    A new one for each would touch a new stack and a new heap, which takes longer than most steps. The fields change
    under the interpreter's lock, which compiled code gives back only where it waits.
    """

    cdef object go, ended
    cdef _Step call
    cdef bint is_busy

    def run(self):
        cdef _Step call
        while True:
            self.go.acquire()
            call, self.call = self.call, None
            if call is None:
                break
            call.make()
            # The caller may have the next one at once.
            self.is_busy = False
            call.done.release()
            call = None
        self.ended.release()


cdef int _hand_over(_Step call) except -1:
    """Have a call made by the thread that is kept for it; by one of its own where a handler is inside of a step."""
    global _worker
    cdef _Worker worker = _worker
    if worker is None:
        worker = _Worker.__new__(_Worker)
        worker.go, worker.ended = allocate_lock(), allocate_lock()
        worker.go.acquire()
        worker.ended.acquire()
        start_new_thread(worker.run, ())
        _worker = worker
    if worker.is_busy:
        start_new_thread(call.run, ())
    else:
        worker.is_busy = True
        worker.call = call
        worker.go.release()
    return 0


def shielded(step, *args, **options):
    """Call ``step``; what a signal handler raises meanwhile is raised once it has ended.

    Its result is lost then: see `made` for one that has to be given back.
    """
    return _shielded(step, args, options, None)


def made(make, unmake):
    """As `shielded`, for a step whose result has to be given back by ``unmake`` if the caller does not get it."""
    return _shielded(make, (), {}, unmake)


def interrupted():
    """Whether the main thread waits for a step that `shielded` runs, and a handler has raised something there.

    For steps that wait, or that are long: what they have not begun, they may leave.
    """
    return _is_interrupted


cdef object _shielded(object step, tuple args, dict options, object unmake):
    global _is_interrupted
    cdef _Step call
    cdef bint has_ended = False
    # A thread that is begun while the interpreter ends would never run.
    if PyThread_get_thread_ident() != _main_thread or sys.is_finalizing():
        return step(*args, **options)
    call = _Step.__new__(_Step)
    call.step, call.args, call.options = step, args, options
    call.done = allocate_lock()
    call.done.acquire()
    try:
        _hand_over(call)
    except RuntimeError:
        # There is no room for another thread; better unprotected than not at all.
        return step(*args, **options)
    interrupt = None
    while True:
        try:
            if not has_ended:
                # A signal that comes right before the wait does not end it.
                has_ended = call.done.acquire(True, _LOOK_S)
            # One that has come just now would be raised by the caller's next bytecode, which loses the result.
            PyErr_CheckSignals()
            if has_ended:
                break
        except BaseException as error:
            _is_interrupted = True
            if interrupt is None:
                interrupt = error
    _is_interrupted = False
    if interrupt is not None:
        if call.error is None and unmake is not None:
            _shielded(unmake, (call.result,), {}, None)
        raise interrupt
    if call.error is not None:
        raise call.error
    return call.result


def guarded(step, cleanup):
    """Call ``step``, then ``cleanup``, however the step has ended; ``cleanup`` may be called twice."""
    try:
        result = step()
    except BaseException:
        _finish(cleanup)
        raise
    _finish(cleanup)
    return result


cdef int _finish(object cleanup) except -1:
    try:
        cleanup()
    except BaseException:
        # Cut off, perhaps: this time it is done to the end.
        _shielded(cleanup, (), {}, None)
        raise
    return 0


def together(*steps):
    """Call compiled steps, such as methods of lists and partial calls of setattr, with nothing in between."""
    for step in steps:
        step()


def tried(lock, bint wait, step, otherwise):
    """Call ``step`` under a lock; without ``wait``, ``otherwise`` is returned if another thread has it."""
    if not lock.acquire(wait):
        return otherwise
    try:
        return step()
    finally:
        lock.release()


def locked(lock, settle, step, *args):
    """Call ``step`` under a lock; one that ends by no error of ours was cut off, and ``settle`` puts things right.

    That happens before the lock is free, so that no thread sees what was half done.
    """
    lock.acquire()
    try:
        return step(*args)
    except LogstoreError:
        raise
    except BaseException as error:
        try:
            _shielded(settle, (), {}, None)
        except BaseException as second:
            # The first is what the caller is told; a log that could not be put right says so itself.
            if second.__context__ is None:
                second.__context__ = error
        raise error
    finally:
        lock.release()


@cython.final
@cython.no_gc
@cython.freelist(16)
cdef class held:
    """``with held(lock):`` holds a lock that is free again after the block, wherever the block was cut off.

    With ``refusal`` it does not wait for the lock, but raises what that returns; ``check`` is called once it is
    held.

    Owns: the lock, from the beginning of the block on; dropped without its end, it gives the lock back.
    """

    cdef object _lock, _refusal, _check
    cdef bint _is_held

    def __cinit__(self, lock, *, refusal=None, check=None):
        self._lock, self._refusal, self._check = lock, refusal, check

    def __enter__(self):
        if self._refusal is None:
            self._lock.acquire()
        elif not self._lock.acquire(False):
            raise self._refusal()
        self._is_held = True
        if self._check is not None:
            # What it raises keeps the block from its beginning: the lock goes with this object.
            self._check()

    def __exit__(self, *exc_info):
        self._is_held = False
        self._lock.release()

    def __dealloc__(self):
        if self._is_held:
            self._lock.release()


class Condition(threading.Condition):
    """A condition whose lock and waits an interrupt leaves whole: `threading.Condition` has bytecodes inside."""

    def __init__(self):
        super().__init__(threading.RLock())

    def __enter__(self):
        return self._lock.__enter__()

    def __exit__(self, *exc_info):
        self._lock.release()

    def wait(self, timeout=None):
        """As in `threading.Condition`."""
        lock, waiters = self._lock, self._waiters
        if not lock._is_owned():
            raise RuntimeError("cannot wait on un-acquired lock")
        waiter = allocate_lock()
        waiter.acquire()
        waiters.append(waiter)
        saved = lock._release_save()
        was_told = False
        try:
            if timeout is None:
                was_told = waiter.acquire()
            elif timeout > 0:
                was_told = waiter.acquire(True, timeout)
            else:
                was_told = waiter.acquire(False)
        except BaseException:
            lock._acquire_restore(saved)
            if waiter in waiters:
                waiters.remove(waiter)
            else:
                # Told, and cut off at that moment: another gets what was meant for this one.
                self.notify()
            raise
        lock._acquire_restore(saved)
        if not was_told and waiter in waiters:
            waiters.remove(waiter)
        return was_told

    def notify(self, n=1):
        """As in `threading.Condition`."""
        if not self._lock._is_owned():
            raise RuntimeError("cannot notify on un-acquired lock")
        waiters = self._waiters
        while n > 0 and waiters:
            waiters.popleft().release()
            n -= 1

    def notify_all(self):
        """As in `threading.Condition`."""
        self.notify(len(self._waiters))
