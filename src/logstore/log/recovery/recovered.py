"""A log that is locked and recovered, but not in use yet: what `Log.recover` returns.

Recovery reads, writes and syncs files, for as long as it takes. A program with an event loop has a thread do it,
and attaches the log in the loop. Any thread may call the methods.
"""

from __future__ import annotations

import threading
from typing import Generic, Protocol, TypeVar

from logstore.errors import LogClosedError
from logstore.io._interrupts import held, made, shielded
from logstore.records import TopicPartition


class _Log(Protocol):
    """What is recovered: a `Log`, which stands above this module."""

    name: TopicPartition
    path: str

    def close(self) -> None: ...


L = TypeVar("L", bound=_Log)


class RecoveredLog(Generic[L]):
    """One partition's log, recovered by `Log.recover`, until `attach` gives it to its user.

    It holds the lock of the root and the log's open files. One that is neither attached nor closed releases them
    when it is dropped, as a dropped `Log` does, with a ResourceWarning.

    >>> import asyncio
    >>> async def attached(path):
    ...     recovered = await asyncio.to_thread(Log.recover, path)
    ...     return recovered.attach()
    >>> with asyncio.run(attached(tmp / "flights-0")) as log:
    ...     log.append([b"AA 1141"]).first_offset
    0
    """

    def __init__(self, log: L) -> None:
        self.name = log.name
        self.path = log.path
        #: The log, which no user has yet; None once it is attached or closed.
        self._log: L | None = log
        self._lock = threading.Lock()

    def attach(self) -> L:
        """Return the log, once; the caller closes it. Makes no file operation, and waits for none.

        If an interrupt (Ctrl-C) comes before the caller has the log, the log is closed.

        Raises:
            LogClosedError: the log was attached or closed before.
        """
        return made(self._attached, _close)

    def _attached(self) -> L:
        log = self._taken()
        if log is None:
            raise LogClosedError(
                f"{self.name}: the recovered log was attached or closed before; call Log.recover() again once it "
                "is closed",
                path=self.path,
            )
        return log

    def close(self) -> None:
        """Close a log that was not attached, as `Log.close` does. May be called again, and after `attach`."""
        shielded(self._end)

    def _end(self) -> None:
        log = self._taken()
        if log is not None:
            log.close()

    def _taken(self) -> L | None:
        with held(self._lock):
            log, self._log = self._log, None
        return log

    def __enter__(self) -> RecoveredLog[L]:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RecoveredLog {self.name} {'attached or closed' if self._log is None else 'ready'} {self.path!r}>"


def _close(log: _Log) -> None:
    log.close()
