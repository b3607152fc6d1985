"""Lifecycle of an object that gathers records: opened in one process, and closed once or dropped without `close`.

`Producer`, `Appender` and `IdempotentProducer` derive from `Gathering`. Each implements `close`. The fork check,
the ``with`` block, the release of a dropped object and its warning are here. Any thread may close.
"""

from __future__ import annotations

import logging
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from logstore.dropped import hand_over
from logstore.errors import ForkedError, LogstoreError
from logstore.io._files import fork_generation


class Gathering(ABC):
    """An object that gathers records and has to be closed.

    If it is dropped without `close`, another thread closes it and warns.
    """

    _kind: str  #: what the object is, in the message that records of it were lost
    _fork_advice: str  #: the message of `ForkedError`
    _closed = True  #: also true until the constructor has ended
    _fork: int  #: number of forks before the object was opened
    _closing: threading.RLock  #: held while closing: a second caller waits until the first has finished

    def _begin_lifecycle(self) -> None:
        """Count as open from now on: the last step of a constructor, since an earlier one may fail."""
        self._fork = fork_generation()
        self._closing = threading.RLock()
        self._closed = False

    @abstractmethod
    def close(self) -> None:
        """Write the gathered records and release all resources. May be called again."""

    def _is_forked(self) -> bool:
        """Return whether this process was forked after the object was opened."""
        return self._fork != fork_generation()

    def _check_process(self) -> None:
        # Before any lock: a thread of the parent may have held it at the fork, and a child would wait forever.
        if self._fork != fork_generation():
            raise ForkedError(self._fork_advice)

    @abstractmethod
    def _when_dropped(self) -> None:
        """Tell the log or store that the object was dropped. A finalizer calls this: it must not take a lock."""

    def _describe(self) -> str:
        return repr(self)

    def __del__(self) -> None:
        if self._closed or self._is_forked() or sys.is_finalizing():
            return
        self._when_dropped()
        hand_over(self._release_dropped)

    def _release_dropped(self) -> None:
        message = f"{self._describe()} was dropped without close(): it has been flushed"
        try:
            self.close()
        except LogstoreError as error:
            logging.getLogger(type(self).__module__).error(
                "records of a dropped %s were not written: of=%s error=%s", self._kind, self._describe(), error
            )
        warnings.warn(message, ResourceWarning, stacklevel=1, source=self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
