"""The end of a store: what has to be given back, in which order, also if nobody closes it.

A store that was dropped warns and is flushed and closed; so is one that is open when the program ends. This
module knows logs, members (producers, consumers) and the hold on the root only as things to be closed. Any
thread may call.
"""

from __future__ import annotations

import atexit
import logging
import threading
import warnings
import weakref
from typing import TYPE_CHECKING, Protocol

from logstore._files import fork_generation
from logstore.log.lock import RootLock
from logstore.store.housekeeping import Housekeeper
from logstore.store.partitions import Partitions

if TYPE_CHECKING:
    from logstore.log.root import RootHold

_logger = logging.getLogger(__name__)


class Closeable(Protocol):
    """What lives no longer than its store."""

    def close(self) -> None: ...


#: Of every store that was opened and is not yet gone.
_LIVES: weakref.WeakSet[Life] = weakref.WeakSet()


@atexit.register
def _close_forgotten() -> None:
    """The program ends: whatever is still open is flushed and closed."""
    for life in list(_LIVES):
        life.forgotten_now()


class Life:
    """What has to be given back when a store ends, also one that nobody closed."""

    def __init__(self, path: str, partitions: Partitions, hold: RootHold | None) -> None:
        self.path = path
        self.closed = False
        self._partitions = partitions
        self._hold = hold
        self._fork = fork_generation()
        self._lock = threading.RLock()
        self.members: weakref.WeakSet[Closeable] = weakref.WeakSet()
        self.keepers: list[
            Housekeeper
        ] = []  #: each runs tasks in a thread of its own, which ends before anything else
        _LIVES.add(self)

    def close(self) -> None:
        with self._lock:
            if self.closed:
                return
            failure: BaseException | None = None
            # A producer writes what it holds: the store is still open for it.
            for member in (*self.keepers, *self.members, self._partitions):
                try:
                    member.close()
                except BaseException as error:  # noqa: BLE001  raised below, once everything has been closed
                    failure = failure or error
            self.closed = True
        if self._hold is not None:
            self._hold.release()
        if failure is not None:
            raise failure

    def forgotten(self) -> None:
        """The store was dropped: flush what it has, and say so.

        Its last user may have let it go anywhere, and the collector of cycles runs in the middle of anything,
        perhaps of an append to one of its logs in this very thread: then a thread of its own closes it.
        """
        if self.closed or self._fork != fork_generation():
            return
        current = [keeper for keeper in self.keepers if keeper.is_current()]
        if current:
            current[0].at_last(self.forgotten_now)
        elif self._partitions.is_busy() or RootLock.is_guarded():
            threading.Thread(target=self.forgotten_now, name="logstore-closing").start()
        else:
            self.forgotten_now()

    def forgotten_now(self) -> None:
        """As `forgotten`, where this thread is in the middle of nothing."""
        if self.closed or self._fork != fork_generation():
            return
        if self._hold is not None:
            message = f"store {self.path} was left open: it is flushed and closed now; use `with` or close()"
            warnings.warn(message, ResourceWarning, stacklevel=1)
        try:
            self.close()
        except OSError as error:
            _logger.error("a store that was left open could not be closed: store=%s error=%s", self.path, error)


__all__ = ["Closeable", "Life"]
