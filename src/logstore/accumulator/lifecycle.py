"""Life of an object that gathers records: opened in one process, ticked, closed once, or dropped without it.

`Producer`, `Appender` and the remote producer derive from `Gathering`. Each says how it closes; the fork check, the
``with`` block, the release of a dropped object and its warning are here only. Any thread may close.
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

    Dropped without that, it is closed by a thread and warns.
    """

    _kind: str  #: in the message of records that were lost
    _fork_advice: str
    _closed = True  #: also while the constructor has not ended
    _fork: int
    _closing: threading.RLock  #: held while closing: a second caller returns once nothing is left

    def _begin_lifecycle(self) -> None:
        """Count as open from now on: the last step of a constructor that may fail."""
        self._fork = fork_generation()
        self._closing = threading.RLock()
        self._closed = False

    @abstractmethod
    def close(self) -> None:
        """Write what was gathered and release what is held. May be called again."""

    def _is_forked(self) -> bool:
        """Tell whether this process is a child of the one that has opened the object."""
        return self._fork != fork_generation()

    def _check_process(self) -> None:
        # Before any lock: a thread of the parent may have held it at the fork, and a child would wait forever.
        if self._fork != fork_generation():
            raise ForkedError(self._fork_advice)

    @abstractmethod
    def _when_dropped(self) -> None:
        """Tell the owner, from a finalizer: without a lock."""

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
