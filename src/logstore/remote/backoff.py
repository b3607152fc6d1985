"""Backoff between retries of a call, and its deadline.

`Attempts` counts the tries of one call. Pauses grow. If the next try would begin after the deadline, the call
raises the last error instead. `Attempts` sleeps and does no I/O. It is used by the thread that makes the call.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from logstore.clock import retry_pause_ms
from logstore.errors import BrokerTimeoutError, LogstoreError
from logstore.io._interrupts import step_interrupted

T = TypeVar("T")


def pause_s(count: int, backoff_ms: int, backoff_max_ms: int) -> float:
    """Return the next pause in seconds, after ``count`` pauses; see `logstore.clock.retry_pause_ms`."""
    return retry_pause_ms(count, backoff_ms, backoff_max_ms, random) / 1000


class Attempts:
    """The tries of one call: none begins later than ``timeout_ms`` after the first.

    A try that has begun is not interrupted; it has its own timeouts.

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
        """Call ``call`` until it raises no retriable error, and return its result."""
        while True:
            try:
                return call()
            except LogstoreError as error:
                self.retry(error)

    def retry(self, error: LogstoreError) -> None:
        """Wait before the next try if ``error`` is retriable, else raise it."""
        if not error.retriable:
            raise error
        self.pause(error)

    def pause(self, error: LogstoreError) -> None:
        """Wait before the next try; ``error`` is the reason for it.

        Raises:
            LogstoreError: ``error`` itself, if the pause would end after the deadline.
        """
        pause = pause_s(self.count, self._backoff_ms, self._backoff_max_ms)
        if step_interrupted():
            raise error  # a call within a step that no signal reaches, as the commit of a consumer's `close`
        if time.monotonic() + pause >= self._deadline:
            if not isinstance(error, BrokerTimeoutError):
                error.add_note(f"{self.what} was tried {self.count + 1} times in {self._timeout_ms} ms")
            raise error
        self.count += 1
        time.sleep(pause)
