"""Several ranges read at once, each by a thread of its own, and handed out by turns.

`read_ahead` knows neither records nor brokers: a range is whatever gives an iterator of pieces. At most ``at_once``
ranges have begun and not ended. Of each, one piece is ready at most, and the next one is being read or waits for
its place. So twice ``at_once`` pieces bound the memory.

A range's pieces keep their order. The ranges take turns in the order given, a piece each. A range that has ended
leaves its turn to the next one, which joins as the last. So the order does not depend on which range is the
fastest, and a slow one is waited for while the others are ahead.

The threads are daemons: none outlives the iterator by more than the read that it is in, and the end of the program
waits for none.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar

from logstore.errors import ForkedError
from logstore.io._files import fork_generation

_T = TypeVar("_T")


def read_ahead(ranges: Iterable[Callable[[], Iterator[_T]]], at_once: int) -> Iterator[_T]:
    """Iterate over the pieces of some ranges, of which ``at_once`` are read at the same time.

    An error of a range is raised in its turn, after the pieces before it; it ends the iteration. For one thread at
    a time.

    Raises:
        ForkedError: the iterator was begun before a fork, and is used in the child.
        and what a range raises.

    >>> list(read_ahead([lambda: iter("ab"), lambda: iter("c"), lambda: iter("de")], at_once=2))
    ['a', 'c', 'b', 'd', 'e']
    """
    waiting = deque(ranges)
    row: deque[_Ahead[_T]] = deque()
    try:
        while waiting or row:
            while waiting and len(row) < at_once:
                row.append(_Ahead(waiting.popleft()))
            ahead = row[0]
            piece = ahead.next()
            if piece is None:
                row.popleft()
                continue
            row.rotate(-1)
            yield piece[0]
            del piece  # it would be held while the next one is waited for
    finally:
        for ahead in row:
            ahead.stop()


class _Ahead(Generic[_T]):
    """One range and the thread that reads it. Owns: the thread."""

    def __init__(self, begin: Callable[[], Iterator[_T]]) -> None:
        self._begin = begin
        #: a piece, alone in a tuple; an error; or None for the end
        self._ready: SimpleQueue[tuple[_T] | BaseException | None] = SimpleQueue()
        self._space = threading.Semaphore(1)
        self._is_stopped = False
        self._fork = fork_generation()
        threading.Thread(target=self._read, name="logstore-scan", daemon=True).start()

    def next(self) -> tuple[_T] | None:
        """Wait for the next piece and return it; None at the end of the range."""
        if self._fork != fork_generation():
            raise ForkedError("the scan was begun before a fork; call topic.scan() in the child")
        found = self._ready.get()
        if isinstance(found, BaseException):
            raise found
        self._space.release()
        return found

    def stop(self) -> None:
        """End the thread when its read is done. Does not wait."""
        self._is_stopped = True
        self._space.release()

    def _read(self) -> None:
        end: BaseException | None = None
        try:
            for piece in self._begin():
                self._space.acquire()
                if self._is_stopped:
                    return
                self._ready.put((piece,))
                del piece  # it would be held beside the next one
        except BaseException as error:  # noqa: BLE001  the reader raises it
            end = error
        self._ready.put(end)
