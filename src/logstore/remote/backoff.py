"""Backoff between retries of a call, and its deadline.

`Attempts` counts the tries of one call. Pauses grow; after the deadline the call raises the last error. It only
sleeps, does no I/O, and is used by the thread that makes the call.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from logstore.errors import BrokerTimeoutError, LogstoreError

T = TypeVar("T")


def pause_s(count: int, backoff_ms: int, backoff_max_ms: int) -> float:
    """Return how long to wait after so many pauses: twice as long each time, up to a maximum."""
    # Without jitter, clients that fail together would retry together (a fifth, as Kafka's clients).
    return min(backoff_ms * 2.0 ** min(count, 30), backoff_max_ms) / 1000 * random.uniform(0.8, 1.2)


class Attempts:
    """The tries of one call, which take at most ``timeout_ms`` together.

    >>> Attempts("list offsets", timeout_ms=1000, backoff_ms=10, backoff_max_ms=100).run(lambda: 7)
    7
    """

    def __init__(self, what: str, *, timeout_ms: int, backoff_ms: int, backoff_max_ms: int) -> None:
        self.what = what
        self.count = 0  #: number of pauses so far
        self._timeout_ms = timeout_ms
        self._deadline = time.monotonic() + timeout_ms / 1000
        self._backoff_ms = backoff_ms
        self._backoff_max_ms = backoff_max_ms

    def run(self, call: Callable[[], T]) -> T:
        """Return the result of a call, which is made again after a retriable error."""
        while True:
            try:
                return call()
            except LogstoreError as error:
                self.retry(error)

    def retry(self, error: LogstoreError) -> None:
        """Call `pause` if an error is retriable, else raise it."""
        if not error.retriable:
            raise error
        self.pause(error)

    def pause(self, error: LogstoreError) -> None:
        """Wait before the next try; ``error`` is the reason for it.

        Raises:
            LogstoreError: ``error`` itself, when no time is left.
        """
        pause = pause_s(self.count, self._backoff_ms, self._backoff_max_ms)
        if time.monotonic() + pause >= self._deadline:
            if not isinstance(error, BrokerTimeoutError):
                error.add_note(f"{self.what} was tried {self.count + 1} times in {self._timeout_ms} ms")
            raise error
        self.count += 1
        time.sleep(pause)
