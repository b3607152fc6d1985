# cython: language_level=3
"""Steps that a signal cannot interrupt half way.

Python runs signal handlers in its main thread, between two bytecodes. An exception of a handler (Ctrl-C:
KeyboardInterrupt) is raised by the line that happens to run. Compiled code runs no bytecode: it is interrupted
only where it calls Python, or waits. So steps that must not be interrupted are here, or are called from here:

`shielded` runs a step in another thread, which no signal reaches, while the main thread waits: for rare steps.
`locked` runs a step under a lock and, if it was interrupted, repairs the state before the lock is released: for
frequent steps. `held` and `Condition` are a lock that no interrupt leaves locked, and a wait that none breaks.
`undone` takes back what a call has done whose result an interrupt keeps from its caller.

Threads: any. In all but the main thread a step is simply called, since no signal is handled there.
"""

import functools
import os
import sys
import threading
from _thread import allocate_lock, start_new_thread

cimport cython

from logstore.errors import LogstoreError

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident()
    int PyErr_CheckSignals() except -1


#: Longest wait of a signal for its handler while a step runs.
cdef double _LOOK_S = 0.1

cdef unsigned long _main_thread = threading.main_thread().ident
cdef bint _is_interrupted = False
cdef unsigned long _step_thread = 0  # the thread that makes the newest step of `shielded`
cdef _Worker _worker = None


cdef bint in_main_thread() noexcept:
    """Return whether signals are handled in this thread."""
    return PyThread_get_thread_ident() == _main_thread


def _before_fork():
    """Stop an idle worker: Python warns when a process with a second thread forks."""
    global _worker
    cdef _Worker worker = _worker
    if worker is not None and not worker.is_busy:
        _worker = None
        worker.go.release()
        worker.ended.acquire()


def _after_fork():
    """Reset the state in a child: the thread that has forked is its main thread."""
    global _main_thread, _is_interrupted, _worker
    _main_thread = PyThread_get_thread_ident()
    _is_interrupted = False
    _worker = None


os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


@cython.final
cdef class _Step:
    """Call that another thread makes, and its result or error."""

    cdef object step, args, options, result, error, done

    def run(self):
        self.make()
        self.done.release()

    cdef make(self):
        global _step_thread
        cdef unsigned long before = _step_thread
        _step_thread = PyThread_get_thread_ident()
        try:
            self.result = self.step(*self.args, **self.options)
        except BaseException as error:
            self.error = error
        _step_thread = before
        # Cleared before the caller continues: objects that it drops would stay alive in this thread.
        self.step = self.args = self.options = None


@cython.final
cdef class _Worker:
    """Thread that makes one call after the other, until a fork or the end of the process.

    A new thread for each call would touch a new stack and a new heap, which takes longer than most steps. The
    fields change under the GIL, which compiled code releases only where it waits.
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
            # Before the release: the caller may make its next call at once, and would start a new thread for it.
            self.is_busy = False
            call.done.release()
            call = None
        self.ended.release()


cdef int _hand_over(_Step call) except -1:
    """Pass a call to the worker; if the worker is busy, as inside a signal handler, to a new thread."""
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
    """Call ``step``; an exception that a signal handler raises meanwhile is raised after its end.

    Its result is lost then: see `made` for one that must be released.
    """
    return _shielded(step, args, options, None)


def made(make, unmake):
    """Call ``make`` as `shielded` does; ``unmake`` releases its result if the caller does not get it."""
    return _shielded(make, (), {}, unmake)


def interrupted():
    """Return whether a handler has raised in the main thread while it waits for a step of `shielded`.

    For steps that wait or are long: they may skip work that they have not begun.
    """
    return _is_interrupted


def in_step():
    """Return whether this thread makes a step of `shielded`: no signal ends its waits."""
    return PyThread_get_thread_ident() == _step_thread


def step_interrupted():
    """Return whether this thread makes a step of `shielded`, and a handler has raised in the main thread."""
    return _is_interrupted and PyThread_get_thread_ident() == _step_thread


cdef object _shielded(object step, tuple args, dict options, object unmake):
    global _is_interrupted
    cdef _Step call
    cdef bint has_ended = False
    # A thread that is started while the interpreter ends would never run.
    if not in_main_thread() or sys.is_finalizing():
        return step(*args, **options)
    call = _Step.__new__(_Step)
    call.step, call.args, call.options = step, args, options
    call.done = allocate_lock()
    call.done.acquire()
    try:
        _hand_over(call)
    except RuntimeError:
        # No thread could be started; an unprotected step is better than none.
        return step(*args, **options)
    interrupt = None
    while True:
        try:
            if not has_ended:
                # A signal right before the wait would not end a wait without a timeout.
                has_ended = call.done.acquire(True, _LOOK_S)
            # A signal that is still pending would be raised by the caller's next bytecode, and the result lost.
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


cdef dict _kept = {}  # thread -> what the innermost call of `undone` in it keeps


def undone(undo):
    """Decorate a call: if an exception other than `LogstoreError` ends it, what it `kept` is passed to ``undo``.

    Its caller gets no result then. No bytecode runs between the end of the call and ``undo``, which is shielded: a
    second Ctrl-C finds the first one's undone.
    """
    def decorate(call):
        def made(*args, **options):
            cdef list mine = []
            cdef unsigned long thread = PyThread_get_thread_ident()
            before = _kept.get(thread)
            _kept[thread] = mine
            try:
                return call(*args, **options)
            except LogstoreError:
                raise
            except BaseException:
                if mine:
                    _shielded(undo, (mine,), {}, None)
                raise
            finally:
                if before is None:
                    del _kept[thread]
                else:
                    _kept[thread] = before
        functools.update_wrapper(made, call)
        return made
    return decorate


def kept():
    """Return the list of what the innermost call of `undone` in this thread keeps."""
    return _kept[PyThread_get_thread_ident()]


def guarded(step, cleanup):
    """Call ``step``, then ``cleanup``, even if the step raised; ``cleanup`` may be called twice."""
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
        # An interrupt may have left the cleanup half done: the second call cannot be interrupted.
        _shielded(cleanup, (), {}, None)
        raise
    return 0


def together(*steps):
    """Call compiled steps, such as list methods and partial calls of setattr, without an interrupt in between."""
    for step in steps:
        step()


def tried(lock, bint wait, step, otherwise):
    """Call ``step`` under a lock; without ``wait``, return ``otherwise`` if another thread holds it."""
    if not lock.acquire(wait):
        return otherwise
    try:
        return step()
    finally:
        lock.release()


def locked(lock, settle, step, *args):
    """Call ``step`` under a lock; if it was interrupted, call ``settle`` to repair the state.

    Every exception except `LogstoreError` counts as an interrupt. The lock is released after ``settle``, so that no
    thread sees a half finished step.
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
            # The caller gets the first error; a log that could not be repaired reports that itself.
            if second.__context__ is None:
                second.__context__ = error
        raise error
    finally:
        lock.release()


@cython.final
@cython.no_gc
@cython.freelist(16)
cdef class held:
    """``with held(lock):`` holds a lock that is released after the block, wherever the block was interrupted.

    With ``refusal`` it does not wait for the lock, but raises the exception that ``refusal`` returns; ``check``
    is called once the lock is held.

    Owns: the lock, from the beginning of the block on; freed without the block's end, it releases the lock.
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
            # An error of the check skips the block and `__exit__`: `__dealloc__` releases the lock.
            self._check()

    def __exit__(self, *exc_info):
        self._is_held = False
        self._lock.release()

    def __dealloc__(self):
        if self._is_held:
            self._lock.release()


class Condition(threading.Condition):
    """Condition whose lock and waits survive an interrupt: `threading.Condition` has bytecodes inside."""

    def __init__(self):
        super().__init__(threading.RLock())

    def __enter__(self):
        return self._lock.__enter__()

    def __exit__(self, *exc_info):
        self._lock.release()

    def wait(self, timeout=None):
        """Wait as `threading.Condition` does."""
        lock, waiters = self._lock, self._waiters
        if not lock._is_owned():
            raise RuntimeError("the lock is not held: wait() needs it")
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
                # Notified and interrupted at once: without this, the notification would be lost.
                self.notify()
            raise
        lock._acquire_restore(saved)
        if not was_told and waiter in waiters:
            waiters.remove(waiter)
        return was_told

    def notify(self, n=1):
        """Notify as `threading.Condition` does."""
        if not self._lock._is_owned():
            raise RuntimeError("the lock is not held: notify() needs it")
        waiters = self._waiters
        while n > 0 and waiters:
            waiters.popleft().release()
            n -= 1

    def notify_all(self):
        """Notify all as `threading.Condition` does."""
        self.notify(len(self._waiters))
