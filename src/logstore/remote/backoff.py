"""When a call is tried again, and when it has been tried for long enough.

`Attempts` counts the tries of one call: pauses that grow, and a deadline behind which the last error is the
call's own. It does no I/O but sleep, and is used by the thread that makes the call.
"""

from __future__ import annotations

import random
import time

from logstore.errors import BrokerTimeoutError, LogstoreError

__all__ = ["Attempts"]


class Attempts:
    """The tries of one call, ``timeout_ms`` long together.

    >>> attempts = Attempts("list offsets", timeout_ms=1000, backoff_ms=10, backoff_max_ms=100)
    >>> attempts.left_ms() <= 1000
    True
    """

    def __init__(
        self, what: str, *, timeout_ms: int, backoff_ms: int, backoff_max_ms: int, retries: int | None = None
    ) -> None:
        self.what = what
        self.count = 0  #: of pauses so far
        self._timeout_ms = timeout_ms
        self._deadline = time.monotonic() + timeout_ms / 1000
        self._backoff_ms = backoff_ms
        self._backoff_max_ms = backoff_max_ms
        self._retries = retries

    def left_ms(self) -> int:
        """How long the call may go on; 1 at least, so that it can be a timeout."""
        return max(1, int((self._deadline - time.monotonic()) * 1000))

    def pause(self, error: LogstoreError) -> None:
        """Wait before the next try; ``error`` is why there is one.

        Raises:
            LogstoreError: ``error`` itself, when there is no time, or no try, left.
        """
        pause_s = min(self._backoff_ms * 2.0 ** min(self.count, 30), self._backoff_max_ms) / 1000
        # As Kafka's clients: a fifth up or down, so that those who fail together do not come back together.
        pause_s *= random.uniform(0.8, 1.2)
        if self._retries is not None and self.count >= self._retries:
            error.add_note(f"{self.what} was tried {self.count + 1} times")
            raise error
        if time.monotonic() + pause_s >= self._deadline:
            if isinstance(error, BrokerTimeoutError):
                raise error
            error.add_note(f"{self.what} was tried {self.count + 1} times in {self._timeout_ms} ms")
            raise error
        self.count += 1
        time.sleep(pause_s)
