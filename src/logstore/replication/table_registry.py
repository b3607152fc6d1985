"""`TableRegistry`: a registry on rows of a database with transactions, for adapters that bring only the rows.

Commits by the rules of `commit_rules`, sessions and watches stand here. An adapter says how a row is read and
written, what a transaction is, and when a session has ended.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress

from logstore.errors import RegistryUnreachableError
from logstore.replication.api import Change, Fact, Registry, RegistryWatch, Watches, check_path
from logstore.replication.commit_rules import changed

_logger = logging.getLogger(__name__)


class TableRegistry(Registry):
    """A `Registry` whose facts are rows of a table, each with the session that owns it if the fact is ephemeral.

    A subclass says what a transaction is, and implements the methods that are called in one. Its constructor calls
    `open` once they work. From then on a thread renews the session every quarter of ``timeout_s`` seconds, and
    looks every ``poll_s`` seconds whether the table has changed, to notify the watches.
    """

    def __init__(self, *, timeout_s: float = 1.0, poll_s: float = 0.01) -> None:
        self.timeout_s = timeout_s
        self.session = uuid.uuid4().hex  #: the name of the session, which no other one has
        self._poll_s = poll_s
        self._watches = Watches()
        self._lock = threading.Lock()
        self._has_ended = threading.Event()
        self._thread = threading.Thread(
            target=self._tend, name=f"logstore-registry-{self.session[:8]}", daemon=True
        )

    # -- what a subclass implements

    @abstractmethod
    def transaction(self) -> AbstractContextManager[object]:
        """Return a context in which nothing of others is seen half done, and whose changes are kept all or none.

        They are kept when the block ends, durably, and none if it raises. One thread at a time is in it. The facts
        of sessions that have ended are gone in it.

        Raises:
            RegistryUnreachableError: the database refuses.
        """

    @abstractmethod
    def begin_session(self) -> None:
        """Add this session: it ends ``timeout_s`` seconds from now. Called in a transaction, as all that follow."""

    @abstractmethod
    def renew_session(self) -> bool:
        """Let this session end ``timeout_s`` seconds from now; False if it has ended."""

    @abstractmethod
    def end_session(self) -> None:
        """End this session now."""

    @abstractmethod
    def version(self) -> object:
        """Return something that is another after each change of the table by any process. In no transaction."""

    @abstractmethod
    def row(self, path: str) -> tuple[Fact, str | None] | None:
        """Return the fact of a path with the session that owns it, None if there is no fact."""

    @abstractmethod
    def paths_below(self, prefix: str) -> Iterable[str]:
        """Return the paths of all facts that begin with ``prefix``, which ends with a slash."""

    @abstractmethod
    def put(self, fact: Fact, owner: str | None) -> None:
        """Insert a row, or replace the one of its path."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Delete the row of a path."""

    @abstractmethod
    def next_number(self, name: str) -> int:
        """Return a number that is larger than all that were returned for a name; 0 at first. Kept with the rows."""

    # -- the registry

    def open(self) -> None:
        """Begin the session.

        Raises:
            RegistryUnreachableError: the database refuses.
        """
        with self._lock, self.transaction():
            self.begin_session()
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return not self._has_ended.is_set()

    def read(self, path: str) -> Fact | None:
        check_path(path, root=True)
        with self._alive():
            row = self.row(path)
            return None if row is None else row[0]

    def children(self, path: str) -> frozenset[str]:
        prefix = check_path(path, root=True).rstrip("/") + "/"
        with self._alive():
            return frozenset(below[len(prefix) :].split("/")[0] for below in self.paths_below(prefix))

    def commit(self, changes: Sequence[Change]) -> list[Fact | None]:
        for change in changes:
            check_path(change.path)
        with self._alive():
            return [changed(self, change, self.session) for change in changes]

    def watch(self, path: str, notify: Callable[[], object]) -> RegistryWatch:
        self.read(path)  # refuses a path that is none, and an ended session
        return self._watches.add(notify)

    def close(self) -> None:
        """End the session; where the database refuses, it ends after ``timeout_s`` seconds."""
        try:
            with suppress(RegistryUnreachableError), self._alive():
                self.end_session()
        finally:
            self._has_ended.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    @contextmanager
    def _alive(self) -> Iterator[None]:
        with self._lock:
            if not self.is_alive:
                raise RegistryUnreachableError("the session has ended; connect again")
            with self.transaction():
                yield

    def _tend(self) -> None:
        """Renew the session, and notify the watches after each change, until the session has ended."""
        seen: object = None
        renew_at_s = time.monotonic() + self.timeout_s / 4
        while not self._has_ended.wait(self._poll_s):
            try:
                if time.monotonic() >= renew_at_s:
                    renew_at_s = time.monotonic() + self.timeout_s / 4
                    with self._alive():
                        is_there = self.renew_session()
                    if not is_there:
                        self._has_ended.set()
                with self._lock:
                    now = self.version()
                if now != seen:
                    seen = now
                    self._watches.notify_all()
            except Exception as error:  # noqa: BLE001  a database may raise anything, and is asked again
                _logger.debug("registry session %s: %s: %s", self.session, type(error).__name__, error)
        self._watches.notify_all()
