"""What a caller waits for while the thread of the sockets works: one result or one error.

A `Waiting` is settled once, by the thread of the sockets. Either one thread waits for it, or a function is called
when it is settled; that function is logstore's, runs in the thread of the sockets and must not wait. Ctrl-C ends a
wait; the call itself goes on, and its answer is dropped.
"""

from __future__ import annotations

import copy
import logging
from _thread import allocate_lock
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from logstore.errors import ClientClosedError, LogstoreError
from logstore.io._interrupts import in_step, step_interrupted
from logstore.protocol.frames import decode_response

_T = TypeVar("_T")

_logger = logging.getLogger(__name__)

#: How often a waiting caller looks whether the thread of the sockets still runs.
_LOOK_S = 5.0
#: The same within a step that no signal reaches: how long Ctrl-C may take.
_STEP_LOOK_S = 0.1


class Waiting(Generic[_T]):
    """A result that another thread gives."""

    __slots__ = ("_lock", "_then", "error", "is_settled", "result")

    def __init__(self, then: Callable[[Any], object] | None = None) -> None:
        self.is_settled = False
        self.result: _T | None = None
        self.error: LogstoreError | None = None
        self._then = then
        self._lock = None if then else allocate_lock()
        if self._lock is not None:
            self._lock.acquire()

    def settle(self, result: _T | None, error: LogstoreError | None = None) -> None:
        """Give the result, or an error. A second time does nothing."""
        if self.is_settled:
            return
        self.result, self.error = result, error
        self.is_settled = True
        if self._lock is not None:
            self._lock.release()
        then, self._then = self._then, None
        if then is not None:
            try:
                then(self)
            except Exception as error:
                # The others that wait on the same connection are still to be told.
                _logger.error("the thread of the sockets goes on after an error", exc_info=error)

    def wait(self, is_alive: Callable[[], bool]) -> _T:
        """Wait for the result and return it, or raise the error. For one thread.

        ``is_alive`` tells whether the thread of the sockets runs: without it no answer would come.
        """
        lock = self._lock
        assert lock is not None, "a function was given: no thread waits"
        look_s = _STEP_LOOK_S if in_step() else _LOOK_S
        while not self.is_settled and not lock.acquire(True, look_s):
            if step_interrupted() and not self.is_settled:
                # As where a consumer commits in its `close`: Ctrl-C must not wait for a broker.
                raise ClientClosedError("the wait for an answer of a broker was interrupted")
            if not is_alive() and not self.is_settled:
                raise ClientClosedError("the client is closed: the thread of its sockets has ended")
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # None only while it waits, or with an error


class Call(Waiting[Any]):
    """One request on one connection, and the frame of its answer.

    ``timeout_s`` counts from when the request is given to the socket.
    """

    __slots__ = ("api_key", "correlation_id", "deadline_s", "frame", "timeout_s", "version")

    def __init__(
        self,
        frame: bytes,
        api_key: int,
        version: int,
        correlation_id: int,
        timeout_s: float,
        then: Callable[[Any], object] | None = None,
    ) -> None:
        super().__init__(then)
        self.frame = frame
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.timeout_s = timeout_s
        self.deadline_s = 0.0


def answer_of(call: Call) -> Any:
    """Return the message of a settled call, or raise its error.

    Raises:
        MalformedMessageError: the answer cannot be read.
        BrokerUnreachableError, BrokerTimeoutError: there is none.
    """
    if call.error is not None:
        raise call.error
    # Settled, and without an error: there is a result.
    return decode_response(call.api_key, call.version, call.result).message  # type: ignore[arg-type]


def each_its_own(error: LogstoreError) -> LogstoreError:
    """Return a copy of an error: several threads raise it, and each raise changes its traceback."""
    made = copy.copy(error)
    made.__cause__, made.__suppress_context__ = error.__cause__, error.__suppress_context__
    return made
