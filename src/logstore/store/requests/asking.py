"""Requests to the writer of a store: this process opens it briefly, or asks the process that has it open.

`ask` opens a store that no process writes, without maintenance tasks and with only the partitions of the request.
It executes the request and closes the store again. Other openers wait for that, but not for a snapshot. If a
process has the store open, its *owner*, `ask` sends it the request (`channel`), and waits for the answer. An owner
may end without one: then the lock of the root is free or another's, and `ask` begins again.

A request may be answered twice, late, or never, and be made again. `StoreHost.ingest` knows which batches it
has ingested; a commit names its time, and does not replace a later one; a snapshot exists or does not.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import threading
from typing import Any, Final, Generic, Protocol, TypeVar

from logstore.clock import SYSTEM_CLOCK, Clock, seconds_of
from logstore.errors import DirectoryLockedError, LogstoreError, OwnerTimeoutError, ReadOnlyError, TooManyFilesError
from logstore.io._files import LIBC, Files
from logstore.io._interrupts import Condition, held, interrupted
from logstore.log.directory.files import Directory
from logstore.log.directory.lock import holder_of
from logstore.store.catalog.layout import check_root
from logstore.store.catalog.topic_list import CATALOGUE
from logstore.store.requests import channel
from logstore.store.requests.requests import VERSION, StoreRequest, StoreWriter, message_of

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

    def __call__(self, *, brief: bool) -> StoreWriter:
        """Open the store, ``brief`` or for longer.

        Raises:
            DirectoryLockedError: at once, if another process has it.
        """


def ask(
    root: Directory,
    request: StoreRequest[R],
    opener: Opener,
    *,
    timeout_s: float = PATIENCE_S,
    clock: Clock = SYSTEM_CLOCK,
) -> R:
    """Execute a request, here or by the store's owner, and return its result.

    An owner gets ``timeout_s`` to accept it, and as long again, or as it lives, to finish.

    Raises:
        OwnerTimeoutError: the process that writes the store does not answer, or takes no requests; it is named.
        NotALogError: there is no store.
        ReadOnlyError: no process writes the store, and this one may not.
        LogstoreError: the error of the request, here or in the owner's process.
    """
    sender = _Sender(root, request, timeout_s, clock)
    while True:
        found = _do_here(root, request, opener, clock) or sender.ask()
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


def _do_here(root: Directory, request: StoreRequest[R], opener: Opener, clock: Clock) -> tuple[R] | None:
    """Execute the request in this process; None if another one writes the store."""
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


class _Sender(Generic[R]):
    """One request to the owners of a store, until one of them has answered or the time is over."""

    def __init__(self, root: Directory, request: StoreRequest[R], timeout_s: float, clock: Clock) -> None:
        self._root = root
        self._request = request
        self._clock = clock
        found_s = seconds_of(timeout_s)
        # An owner that has accepted the request gets as long again: infinity would overflow in that sum.
        self._timeout_s = threading.TIMEOUT_MAX if found_s is None else found_s
        self._grace_s = threading.TIMEOUT_MAX if request.takes_long else max(self._timeout_s, _LEAST_GRACE_S)
        self._began_s = clock.monotonic_s()

    def ask(self) -> tuple[R] | None:
        """Send the request to the owner and return its result; None if there is no owner any more."""
        self._is_accepted = False
        self._owner = holder_of(self._root)
        self._connection: socket.socket | None = None
        with contextlib.suppress(EOFError, ConnectionError), self._connected() as connection:
            self._connection = connection
            self._accept(channel.receive(connection, self._check))
            channel.send(connection, message_of(self._request), self._check)
            told = channel.receive(connection, self._check)
            return (self._request.result(channel.result_of(told)),)
        self._pause()
        return None

    def _connected(self) -> socket.socket:
        until_s = min(self._clock.monotonic_s() + _SOCKET_S, self._began_s + self._timeout_s)
        while True:
            try:
                return channel.connect(self._root)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    raise TooManyFilesError.to("ask the writer", error, path=self._root.path) from error
                if holder_of(self._root) != self._owner or self._owner is None:
                    raise EOFError from error
                # Refused are senders while the owner opens its store, and where a killed one has left its socket.
                waits = isinstance(error, ConnectionRefusedError | BlockingIOError) or self._owner.is_brief
                if not waits and self._clock.monotonic_s() >= until_s:
                    raise self._refusal(
                        f"takes no requests ({self._root.join(channel.SOCKET)}: {error.strerror}), such as to "
                        f"{self._request.deed}; nothing was done. It is of an earlier version of logstore, or a "
                        "single Log, or its file system has no sockets, or its user refuses this one: upgrade and "
                        f"restart it, or end it{self._request.other_way}"
                    ) from error
            self._check()
            self._pause()

    def _accept(self, told: dict[str, Any]) -> None:
        version = told.get("accepted")
        if version != VERSION or self._request.kind not in told.get("kinds", ()):
            is_later = isinstance(version, int) and version > VERSION
            raise self._refusal(
                f"is of {'a later' if is_later else 'an earlier'} version of logstore and does not "
                f"{self._request.deed} for this one; nothing was done. "
                f"Upgrade {'this process' if is_later else 'and restart that process'}"
            )
        self._is_accepted = True

    def _check(self) -> None:
        """Go on waiting, unless the time is over.

        Raises:
            OwnerTimeoutError: it is, or the wait was interrupted.
        """
        if self._connection is not None and (self._owner is None or holder_of(self._root) != self._owner):
            # A child of an owner that ended may keep the connection open. What is in it is received.
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_RD)
            return
        if self._clock is not SYSTEM_CLOCK:
            self._pause()
        if interrupted():
            raise self._silence("until it was interrupted", "")
        waited_s = self._clock.monotonic_s() - self._began_s
        if not self._is_accepted and waited_s >= self._timeout_s:
            raise self._silence(f"within {self._timeout_s:g} s", "; nothing was done")
        if waited_s >= self._timeout_s + self._grace_s:
            raise self._silence(
                f"within {self._timeout_s + self._grace_s:g} s",
                "; it has that in hand and may still finish it, which asking again will tell",
            )

    def _pause(self) -> None:
        never = Condition()
        with held(never):
            self._clock.wait(never, _LOOK_S)

    def _silence(self, when: str, end: str) -> OwnerTimeoutError:
        return self._refusal(
            f"did not {self._request.deed} {when}; check whether it hangs or answers no "
            f"requests (logstore.housekeeping=manual, or a single Log), and end it{self._request.other_way}{end}"
        )

    def _refusal(self, text: str) -> OwnerTimeoutError:
        owner = self._owner
        which = "this" if owner is not None and owner.pid == os.getpid() else "another"
        return OwnerTimeoutError(
            f"the store {self._root.path} is open for writing in {which} process ({owner}), which {text}"
        )
