"""The end of a store: what is released, and in which order, also if the store is never closed.

A store that was dropped warns and is flushed and closed; so is one that is open when the program ends. This
module knows logs, members (producers, consumers) and the lock on the root only as things to be closed. Any
thread may call.
"""

from __future__ import annotations

import atexit
import logging
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from logstore.dropped import hand_over, release_all, wait_until
from logstore.errors import LogstoreError
from logstore.io._files import fork_generation
from logstore.io._interrupts import held, shielded
from logstore.store.catalog.partitions import Partitions

if TYPE_CHECKING:
    from logstore.log.root import StoreLock

_logger = logging.getLogger(__name__)


class StoreMember(Protocol):
    """An object that is closed before its store."""

    def close(self) -> None: ...


class Worker(StoreMember, Protocol):
    """An object with a thread."""

    def stop(self) -> None:
        """Tell the thread to end. Does not wait for it."""


#: Every store that was opened and not collected yet. No WeakSet: iterating one fails if a thread adds to it.
_LIFECYCLES: weakref.WeakKeyDictionary[StoreLifecycle, None] = weakref.WeakKeyDictionary()


@atexit.register
def _close_forgotten() -> None:
    """Flush and close whatever is still open when the program ends."""
    shielded(release_all)
    for reference in _LIFECYCLES.keyrefs():
        lifecycle = reference()
        if lifecycle is not None:
            lifecycle.release_dropped()


class StoreLifecycle:
    """Everything that is released when a store ends, also one that its user never closed."""

    def __init__(self, path: str, partitions: Partitions, hold: StoreLock | None) -> None:
        self.path = path
        self.closed = False
        self._partitions = partitions
        self._hold = hold
        self._fork = fork_generation()
        self._lock = threading.RLock()
        #: Members that are not closed, by their ids; also those that are garbage.
        self._attached: dict[int, weakref.ref[StoreMember]] = {}
        self._dropped: set[StoreMember] = set()  #: members that were not closed; their finalizers add to it
        self.threads: list[Worker] = []  #: end before anything else
        self.before_release: Callable[[], object] | None = None  #: called once everything is closed
        _LIFECYCLES[self] = None

    def attach(self, member: StoreMember) -> None:
        """Register a member to be closed before the logs are. It is not kept alive."""
        self._attached[id(member)] = weakref.ref(member)

    def detach(self, member: StoreMember) -> None:
        """Forget a member that has been closed."""
        self._attached.pop(id(member), None)
        self._dropped.discard(member)

    def drop(self, member: StoreMember) -> None:
        """Register a dropped member to be closed before the logs are. For its finalizer: takes no lock."""
        self._dropped.add(member)

    def _members(self) -> set[StoreMember]:
        """Return the members that can be closed. Each copy is one step: other threads may attach concurrently."""
        alive = {member for reference in list(self._attached.values()) if (member := reference()) is not None}
        return alive | self._dropped

    def close(self) -> None:
        with held(self._lock):
            if self.closed:
                return
            failure: BaseException | None = None
            # Stop all of them before closing any: a task of one may hold up the other.
            for worker in self.threads:
                worker.stop()
            # Members before logs: a producer writes its buffered records while the store is still open.
            for member in (*self.threads, *self._members(), self._partitions):
                try:
                    member.close()
                except BaseException as error:  # noqa: BLE001  raised below, once everything has been closed
                    failure = failure or error
            self.closed = True
        if self.before_release is not None:
            self.before_release()
        if self._hold is not None:
            self._hold.release()
        if failure is not None:
            raise failure

    def forgotten(self) -> None:
        """Queue a dropped store for a thread that warns and flushes it. Takes no lock, and does not block."""
        if not self.closed and self._fork == fork_generation():
            hand_over(self.release_dropped)

    def release_dropped(self) -> None:
        """Flush and close a store that was left open, and warn."""
        if self.closed or self._fork != fork_generation():
            return
        # A member that is garbage with the store is not alive any more; its own finalizer may come a moment later.
        wait_until(lambda: len(self._members()) >= len(self._attached))
        try:
            self.close()
        except (LogstoreError, OSError) as error:
            _logger.error("a store that was left open could not be closed: store=%s error=%s", self.path, error)
        if self._hold is not None:
            message = f"store {self.path} was left open: it has been flushed and closed; use `with` or close()"
            warnings.warn(message, ResourceWarning, stacklevel=1)
