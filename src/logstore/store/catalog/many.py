"""One step for each of many things: in turn, or by several threads where the steps wait for the disk.

Syncs of several files that are asked for at the same time cost a disk little more than one. So the syncs of many
directories, and the closes of many logs, are made side by side.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")

#: From this number of things on, several threads do the work; and how many.
MANY: Final = 16
_THREADS: Final = 16


def in_turn(work: Callable[[T], object], things: Iterable[T]) -> None:
    """Call ``work`` for each thing, one after the other. After the last one, raise the first failure."""
    failure: BaseException | None = None
    for thing in things:
        try:
            work(thing)
        except BaseException as error:  # noqa: BLE001  raised below, after the last thing
            failure = failure or error
    if failure is not None:
        raise failure


def side_by_side(work: Callable[[T], object], things: Iterable[T]) -> None:
    """Call ``work`` for each thing, by several threads if there are many. After the last one, raise a failure."""
    todo = list(things)
    # A thread that is started while the interpreter ends would never run.
    if len(todo) < MANY or sys.is_finalizing():
        in_turn(work, todo)
        return
    left = deque(todo)
    failures: list[BaseException] = []

    def do_some() -> None:
        try:
            in_turn(work, _taken_from(left))
        except BaseException as error:  # noqa: BLE001  raised below, after the last thing
            failures.append(error)

    helpers = []
    for _ in range(_THREADS - 1):
        helper = threading.Thread(target=do_some, name="logstore-many", daemon=True)
        try:
            helper.start()
        except RuntimeError:
            break  # no more threads can be had: those that there are do all
        helpers.append(helper)
    do_some()
    for helper in helpers:
        helper.join()
    if failures:
        raise failures[0]


def _taken_from(left: deque[T]) -> Iterator[T]:
    """Yield things until none is left; other threads take some, too."""
    with contextlib.suppress(IndexError):
        while True:
            yield left.popleft()
