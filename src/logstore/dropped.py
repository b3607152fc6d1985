"""What was dropped without `close`: handed over by finalizers, released by one thread.

A finalizer runs in the middle of anything: the collector of cycles may call it while the same thread holds the
very lock that a close needs, or the ticker's. So a finalizer of logstore does nothing but `hand_over`, which takes
no lock, waits for nothing and runs no code of the program's. A thread begins with the first object that is handed
over and ends with the last; a program that closes what it opens never has it. A caller in whose way a dropped
object stands releases it itself, with `release_all`.

Any thread may call. A forked child forgets what was handed over: it is its parent's.
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

_queue: deque[Callable[[], None]] = deque()

#: Held while objects are released, never by a finalizer. A release may drop, and wait for, other objects.
_turn = threading.RLock()

_has_thread = False

#: Finalizers of one collection run within milliseconds of each other, unless the machine stands still.
_FINALIZERS_S = 10.0


def hand_over(release: Callable[[], None]) -> None:
    """Have a thread call ``release`` soon, once: for finalizers. It holds what it releases, which lives until then.

    What it raises goes to `threading.excepthook`, as a thread's error does.
    """
    global _has_thread
    _queue.append(release)
    if not _has_thread:
        _has_thread = True
        try:
            # Not `Thread.start`, which waits for the thread and takes locks.
            _thread.start_new_thread(_begin, ())
        except (RuntimeError, MemoryError):
            # The next object tries again; the end of the program releases what is left.
            _has_thread = False


def release_all(timeout_s: float = -1) -> bool:
    """Release what was handed over, in this thread, and wait for what another thread is releasing.

    False if the wait takes longer than ``timeout_s`` (-1: for ever): a caller that holds a lock which a release
    may want gives one. The main thread calls it inside `shielded`: an interrupt could leave the lock taken.
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
    """Wait for finalizers of the same collection to have handed over what belongs to an object; not for ever."""
    until_s = time.monotonic() + _FINALIZERS_S
    while not is_so() and time.monotonic() < until_s:
        time.sleep(0.001)


def _release(release: Callable[[], None]) -> None:
    try:
        release()
    except Exception:  # noqa: BLE001  a warning that filters make an error, too: there is no caller to raise it to
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))
    except BaseException:
        # An interrupt of the thread that waits: another one, or the next call, releases it.
        _queue.appendleft(release)
        raise


def _begin() -> None:
    """Start the thread, from one that holds no lock."""
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
        # Looked at again: whoever came in between has seen a thread that was about to end.
        if not _queue or _has_thread:
            return
        _has_thread = True


def _forget() -> None:
    """In a forked child: the objects are the parent's, and a thread that is gone may hold the lock."""
    global _turn, _has_thread
    _queue.clear()
    _turn = threading.RLock()
    _has_thread = False


os.register_at_fork(after_in_child=_forget)
atexit.register(release_all)

__all__ = ["hand_over", "release_all", "wait_until"]
