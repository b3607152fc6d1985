"""Objects dropped without `close`: finalizers hand them over, one thread releases them.

A finalizer can run in any thread, inside any call. The garbage collector may call it while the same thread holds
the lock that a close needs, or the ticker's. So a finalizer of logstore only calls `hand_over`, which takes no
lock, does not wait and runs no code of the program. The thread starts with the first object that is handed over
and ends after the last. A program that closes what it opens never starts it. A caller that is blocked by a dropped
object releases it itself, with `release_all`.

Any thread may call. A forked child forgets what was handed over: it belongs to the parent.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import ref

T = TypeVar("T")

_queue: deque[Callable[[], None]] = deque()

#: Held while objects are released, never by a finalizer. Reentrant: a release may drop, and wait for, others.
_turn = threading.RLock()

_has_thread = False

#: Finalizers of one collection run within milliseconds of each other, unless the machine is stalled.
_FINALIZERS_S = 10.0


class UntilClosed(Generic[T]):
    """A part's reference to the object that it is a part of: strong until that is closed, weak from then on.

    The finalizer of a dropped object still uses its parts, when weak references are cleared already. After the
    close a strong reference would leave the object, which refers to its parts, to the garbage collector.
    """

    __slots__ = ("_held", "_ref")

    def __init__(self, whole: T) -> None:
        self._held: T | None = whole
        self._ref = ref(whole)

    def get(self) -> T | None:
        """Return the object; None if it is closed, and freed."""
        return self._ref() if self._held is None else self._held

    def has_closed(self) -> None:
        """Record that the object is closed."""
        self._held = None


def hand_over(release: Callable[[], None]) -> None:
    """Have a thread call ``release`` soon, once: for finalizers.

    ``release`` keeps the object alive until then. An error of it is passed to `threading.excepthook`, as a
    thread's error is.
    """
    global _has_thread
    _queue.append(release)
    if not _has_thread:
        _has_thread = True
        try:
            # `Thread.start` would wait for the thread and take locks, which can deadlock in a finalizer.
            _thread.start_new_thread(_begin, ())
        except (RuntimeError, MemoryError):
            # The next object tries again; `atexit` releases the rest.
            _has_thread = False


def release_all(timeout_s: float = -1) -> bool:
    """Release in this thread what was handed over, and wait for releases under way in another thread.

    Returns False if the wait takes longer than ``timeout_s`` (-1: for ever). A caller that holds a lock which a
    release may need gives a timeout. The main thread calls it inside `shielded`: an interrupt could leave the
    lock taken.
    """
    turn = _turn
    if not turn.acquire(timeout=timeout_s):
        return False
    try:
        while _queue:
            _release(_queue.popleft())
    finally:
        turn.release()
    return True


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until finalizers of the same collection have handed over an object's parts; at most ten seconds."""
    until_s = time.monotonic() + _FINALIZERS_S
    while not is_so() and time.monotonic() < until_s:
        time.sleep(0.001)


def _release(release: Callable[[], None]) -> None:
    try:
        release()
    except Exception:  # noqa: BLE001  a warning that filters make an error, too: there is no caller to raise it to
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
    except BaseException:
        # An interrupt would lose the object: another thread, or the next call, releases it.
        _queue.appendleft(release)
        raise


def _begin() -> None:
    """Start the releasing thread, from a thread that holds no lock."""
    global _has_thread
    try:
        threading.Thread(target=_run, name="logstore-dropped", daemon=True).start()
    except RuntimeError:
        _has_thread = False


def _run() -> None:
    global _has_thread
    while True:
        release_all()
        _has_thread = False
        # A `hand_over` since the last pop saw `_has_thread` set and started no thread.
        if not _queue or _has_thread:
            return
        _has_thread = True


def _forget() -> None:
    """Forget the parent's objects in a forked child; a thread that the fork ended may hold the lock."""
    global _turn, _has_thread
    _queue.clear()
    _turn = threading.RLock()
    _has_thread = False


os.register_at_fork(after_in_child=_forget)
atexit.register(release_all)
