"""Requests to the writer of a store: this process opens it briefly, or asks the process that has it open.

`ask` opens a store that no process writes, without housekeeping and with the partitions of the request alone,
carries the request out and closes the store again; other openers wait for that moment, but not for a snapshot. If a
process has the store open, its *owner*, `ask` sends it the request (`channel`), and waits for the answer. An owner
may end without one: then the lock of the root is free or another's, and `ask` begins again.

A request may be answered twice, late, or never, and be made again. `Store.ingest` knows which batches it
has ingested; a commit names its time, and does not replace a later one; a snapshot exists or does not.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading
from typing import Any, Final, Protocol, TypeVar

from logstore.clock import SYSTEM_CLOCK, Clock, seconds_of
from logstore.errors import DirectoryLockedError, LogstoreError, OwnerTimeoutError, ReadOnlyError, TooManyFilesError
from logstore.io._files import LIBC, Files
from logstore.io._interrupts import Condition, held, interrupted
from logstore.log.directory.files import Directory
from logstore.log.directory.lock import Holder, holder_of
from logstore.store.catalog.layout import check_root
from logstore.store.catalog.topic_list import CATALOGUE
from logstore.store.requests import channel
from logstore.store.requests.requests import VERSION, ClosableWriter, Request, message_of

_logger = logging.getLogger(__name__)

R = TypeVar("R")

#: Default of the time that an owner may take to accept a request.
PATIENCE_S: Final = 30.0

#: Wait between two looks whether the owner still lives.
_LOOK_S: Final = 0.05
#: An owner that has accepted the request gets at least so much longer.
_LEAST_GRACE_S: Final = 10.0
#: An owner that has just taken the lock makes its socket within this time.
_SOCKET_S: Final = 5.0


class Opener(Protocol):
    """Opens the store for a request."""

    def __call__(self, *, brief: bool) -> ClosableWriter:
        """Open the store, ``brief`` or for longer.

        Raises:
            DirectoryLockedError: at once, if another process has it.
        """


class _OwnerGoneError(Exception):
    """The owner has ended, or another process has become the owner."""


def ask(
    root: Directory,
    request: Request[R],
    opener: Opener,
    *,
    timeout_s: float = PATIENCE_S,
    clock: Clock = SYSTEM_CLOCK,
) -> R:
    """Have a request carried out, and return its result.

    An owner gets ``timeout_s`` to accept it, and as long again, or as it lives, to finish.

    Raises:
        OwnerTimeoutError: the process that writes the store does not answer, or takes no requests; it is named.
        NotALogError: there is no store.
        ReadOnlyError: no process writes the store, and this one may not.
        LogstoreError: the error of the request, here or in the owner's process.
    """
    wait = _Wait(root, request, timeout_s, clock)
    while True:
        found = _do_here(root, request, opener, clock)
        if found is None:
            found = _ask_owner(root, request, wait)
        if found is not None:
            return found[0]


def check(root: str | os.PathLike[str], *, files: Files = LIBC) -> None:
    """Refuse a directory that can be read and not written, such as one of Kafka's, before any request.

    Where there is no directory, nothing is refused.

    Raises:
        NotALogError: Kafka wrote it, or it holds files that belong to no store.
        ReadOnlyError: this process may not write it.
    """
    directory = Directory(root, files)
    if not directory.exists():
        return
    if files is LIBC and not os.access(directory.path, os.W_OK):
        raise ReadOnlyError("the directory cannot be written; check its owner and mode", path=directory.path)
    if directory.read(CATALOGUE) is None:
        check_root(directory)


def _do_here(root: Directory, request: Request[R], opener: Opener, clock: Clock) -> tuple[R] | None:
    """Do it in this process; None if another one writes the store."""
    try:
        store = opener(brief=not request.takes_long)
    except DirectoryLockedError:
        return None
    except ReadOnlyError:
        # The lock's file may belong to another user, whose process writes the store.
        if holder_of(root) is None:
            raise
        return None
    try:
        found = request.done_by(store, lambda: None)
        request.tidy(root, clock)
        return (found,)
    finally:
        try:
            store.close()
        except LogstoreError as error:
            # The request is done by now, and its failure has an error of its own.
            _logger.warning("a store was not closed cleanly: store=%s error=%s", root.path, error)


def _ask_owner(root: Directory, request: Request[R], wait: _Wait) -> tuple[R] | None:
    """Have the owner do it; None if there is no owner any more."""
    try:
        wait.begin()
        with wait.connection() as connection:
            told = channel.receive(connection, wait.until_ready)
            wait.accepted_by(told)
            channel.send(connection, message_of(request), wait.until_ready)
            told = channel.receive(connection, wait.until_ready)
    except (_OwnerGoneError, EOFError, ConnectionError):
        wait.pause()
        return None
    return (request.result(channel.result_of(told)),)


class _Wait:
    """The waits of one sender."""

    def __init__(self, root: Directory, request: Request[Any], timeout_s: float, clock: Clock) -> None:
        self._root = root
        self._request = request
        self._clock = clock
        found_s = seconds_of(timeout_s)
        # An owner that has accepted the request gets as long again: infinity would overflow in that sum.
        self._timeout_s = threading.TIMEOUT_MAX if found_s is None else found_s
        self._grace_s = threading.TIMEOUT_MAX if request.takes_long else max(self._timeout_s, _LEAST_GRACE_S)
        self._began_s = clock.monotonic_s()
        self._never = Condition()
        self._owner: Holder | None = None
        self._is_accepted = False

    def begin(self) -> None:
        """Ask the process that is the owner now.

        Raises:
            OwnerTimeoutError: the time is over, or the wait was interrupted.
            _OwnerGoneError: there is none.
        """
        self._is_accepted = False
        self._owner = holder_of(self._root)
        self._check(self._look())

    def connection(self) -> socket.socket:
        """Return a connection to the owner, once it has a socket.

        Raises:
            OwnerTimeoutError: it has none, is hung, or the time is over.
            _OwnerGoneError: there is no owner any more.
        """
        until_s = min(self._clock.monotonic_s() + _SOCKET_S, self._began_s + self._timeout_s)
        while True:
            try:
                return channel.connect(self._root)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    raise TooManyFilesError.to("ask the writer", error, path=self._root.path) from error
                owner = self._look()
                # Refused are senders while the owner opens its store, and where a killed one has left its socket.
                is_silent = not isinstance(error, ConnectionRefusedError | BlockingIOError) and not owner.is_brief
                if is_silent and self._clock.monotonic_s() >= until_s:
                    raise OwnerTimeoutError(
                        f"the store {self._root.path} is open for writing in {self._named(owner)}, which takes no "
                        f"requests ({self._root.join(channel.SOCKET)}: {error.strerror}), such as to "
                        f"{self._request.deed}; nothing was done. It is of an earlier version of logstore, or a "
                        "single Log, or its file system has no sockets, or its user refuses this one: upgrade and "
                        f"restart it, or close it{self._request.other_way}"
                    ) from error
                self._check(owner)
            self.pause()

    def accepted_by(self, told: dict[str, Any]) -> None:
        """Note that the owner waits for the request.

        Raises:
            OwnerTimeoutError: it is of another version.
        """
        version = told.get("accepted")
        if version != VERSION or self._request.kind not in told.get("kinds", ()):
            is_later = isinstance(version, int) and version > VERSION
            raise OwnerTimeoutError(
                f"the store {self._root.path} is open for writing in {self._named(self._owner)}, which is of "
                f"{'a later' if is_later else 'an earlier'} version of logstore and does not {self._request.deed} "
                "for this one; nothing was done. "
                f"Upgrade {'this process' if is_later else 'and restart that process'}"
            )
        self._is_accepted = True

    def until_ready(self, connection: socket.socket, events: int) -> None:
        """Wait until the owner has sent, or has read, more.

        Raises:
            OwnerTimeoutError: the time is over, or the wait was interrupted.
            _OwnerGoneError: there is another owner, or none.
        """
        while not channel.is_ready(connection, events, _LOOK_S):
            try:
                owner = self._look()
            except _OwnerGoneError:
                # An owner that ended has written its answers by now.
                if channel.is_ready(connection, events, 0):
                    return
                raise
            if self._clock is not SYSTEM_CLOCK:
                self.pause()
            now_s = self._clock.monotonic_s()
            if self._is_accepted and now_s >= self._began_s + self._timeout_s + self._grace_s:
                raise OwnerTimeoutError(
                    self._silent(owner, f"within {self._timeout_s + self._grace_s:g} s")
                    + "; it has that in hand and may still finish it, which asking again will tell"
                )
            self._check(owner)

    def pause(self) -> None:
        """Wait a moment."""
        with held(self._never):
            self._clock.wait(self._never, _LOOK_S)

    def _look(self) -> Holder:
        owner = holder_of(self._root)
        if owner is None or owner != self._owner:
            raise _OwnerGoneError
        return owner

    def _check(self, owner: Holder) -> None:
        if interrupted():
            raise OwnerTimeoutError(self._silent(owner, "until it was interrupted"))
        if not self._is_accepted and self._clock.monotonic_s() >= self._began_s + self._timeout_s:
            raise OwnerTimeoutError(self._silent(owner, f"within {self._timeout_s:g} s") + "; nothing was done")

    def _silent(self, owner: Holder, when: str) -> str:
        return (
            f"the store {self._root.path} is open for writing in {self._named(owner)}, which did not "
            f"{self._request.deed} {when}: is it hung, or does it keep no house (logstore.housekeeping=manual, or "
            f"a single Log)? Close it{self._request.other_way}"
        )

    @staticmethod
    def _named(owner: Holder | None) -> str:
        which = "this" if owner is not None and owner.pid == os.getpid() else "another"
        return f"{which} process ({owner})"


__all__ = ["PATIENCE_S", "Opener", "ask", "check"]
