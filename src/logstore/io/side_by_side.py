"""One step for each of many things: in turn, or by several threads where the steps wait for the disk.

Syncs of several files that are asked for at the same time cost a disk little more than one. Writes of several files
are done by several processors. Imports `_files` alone, to know a simulated machine.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from logstore.io._files import LIBC, Files

T = TypeVar("T")

#: Sixteen syncs took 10 ms together, and 54 ms one after the other (ext4 on a virtual disk).
MOST_THREADS: Final = 16
#: From this number of things on, threads are worth while for steps that seldom wait.
MANY: Final = 16


def in_turn(work: Callable[[T], object], things: Iterable[T]) -> None:
    """Call ``work`` for each thing, one after the other. After the last one, raise the first failure."""
    failures: list[BaseException] = []
    _take(work, deque(things), failures)
    if failures:
        raise failures[0]


def side_by_side(
    work: Callable[[T], object],
    things: Iterable[T],
    files: Files = LIBC,
    *,
    at_least: int = 2,
    threads: int = MOST_THREADS,
) -> None:
    """Call ``work`` for each thing, by several threads if there are ``at_least`` so many things.

    All have had their turn and nothing is under way any more when the call is over, also where it is interrupted or
    a step fails: then the interrupt, else the first failure, is raised. On a simulated machine (``files``) things
    are taken in their order by the caller alone, so that a run can be repeated.
    """
    left = deque(things)
    failures: list[BaseException] = []
    helpers: list[threading.Thread] = []
    # A thread that is started while the interpreter ends would never run.
    is_alone = files is not LIBC or len(left) < at_least or sys.is_finalizing()
    try:
        for _ in range(0 if is_alone else min(threads, len(left)) - 1):
            helper = threading.Thread(target=_take, args=(work, left, failures), name="logstore-side", daemon=True)
            helpers.append(helper)
            helper.start()
    except RuntimeError:
        helpers.pop()  # no more threads can be had: those that there are do all
    except BaseException as error:  # noqa: BLE001  an interrupt: raised below
        failures.insert(0, error)
    _take(work, left, failures)
    for helper in helpers:
        while helper.is_alive():
            try:
                helper.join()
            except BaseException as error:  # noqa: BLE001  as above
                failures.insert(0, error)
    if failures:
        raise failures[0]


def _take(work: Callable[[T], object], left: deque[T], failures: list[BaseException]) -> None:
    """Do the work for things until none is left; other threads take some, too."""
    while True:
        try:
            thing = left.popleft()
        except IndexError:
            return
        try:
            work(thing)
        except BaseException as error:  # noqa: BLE001  raised by the caller, after the last thing
            failures.append(error)
