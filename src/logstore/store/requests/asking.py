"""Requests to the writer of a store: this process opens it briefly, or asks the process that has it open.

`ask` opens a store that no process writes, without housekeeping and with the partitions of the request alone,
carries the request out and closes the store again; other openers wait for that moment, but not for a snapshot. If a
process has the store open, its *owner*, the request goes into the owner's inbox (`request_files`), and `ask` waits
for the answer. Whenever the lock of the root is free meanwhile, `ask` withdraws the letter and does the work here.

A letter may be answered twice, late, or never, and the request be made again. `Store.ingest` knows which batches it
has ingested; a commit names its time, and does not replace a later one; a snapshot exists or does not.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Any, Final, Protocol, TypeVar

from logstore.clock import SYSTEM_CLOCK, Clock, seconds_of
from logstore.errors import (
    DirectoryLockedError,
    InvalidManifestError,
    LogstoreError,
    OwnerTimeoutError,
    ReadOnlyError,
)
from logstore.io._files import LIBC, Files
from logstore.io._interrupts import Condition, held, interrupted
from logstore.log.directory.files import Directory
from logstore.log.directory.lock import Holder, holder_of
from logstore.store.catalog.layout import check_root
from logstore.store.catalog.reserve import Reserve
from logstore.store.catalog.topic_list import CATALOGUE
from logstore.store.requests import request_files
from logstore.store.requests.request_files import Letter
from logstore.store.requests.requests import ClosableWriter, Intake, Request

_logger = logging.getLogger(__name__)

R = TypeVar("R")

#: Default of the time that an owner may take to accept a request.
PATIENCE_S: Final = 30.0

#: Wait between two looks for an answer: first, and at most.
_FIRST_WAIT_S: Final = 0.002
_LONGEST_WAIT_S: Final = 0.05
#: An owner that has accepted the letter gets at least so much longer.
_LEAST_GRACE_S: Final = 10.0


class Opener(Protocol):
    """Opens the store for a request."""

    def __call__(self, *, brief: bool) -> ClosableWriter:
        """Open the store, ``brief`` or for longer.

        Raises:
            DirectoryLockedError: at once, if another process has it.
        """


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
        OwnerTimeoutError: the process that writes the store does not answer; it is named.
        NotALogError: there is no store.
        ReadOnlyError: no process writes the store, and this one may not.
        LogstoreError: the error of the request, here or in the owner's process.
    """
    found_s = seconds_of(timeout_s)
    # An owner that has accepted the letter gets as long again: infinity would overflow in that sum.
    timeout_s = threading.TIMEOUT_MAX if found_s is None else found_s
    until_s = clock.monotonic_s() + timeout_s
    while True:
        found = _do_here(root, request, opener, clock)
        if found is None:
            found = _ask_owner(root, request, until_s, timeout_s, clock)
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


def _ask_owner(
    root: Directory, request: Request[R], until_s: float, timeout_s: float, clock: Clock
) -> tuple[R] | None:
    """Have the owner do it; None if there is no owner any more."""
    left_s = max(until_s - clock.monotonic_s(), 0)
    letter = Letter(request, clock.now_ms() + int(left_s * 1000))
    # A full disk is emptied also with the help of readers' requests.
    slip = Reserve(root).with_room(lambda: request_files.post(root, letter))
    first = holder_of(root)
    grace_s = threading.TIMEOUT_MAX if request.takes_long else max(timeout_s, _LEAST_GRACE_S)
    wait_s = _FIRST_WAIT_S
    never = Condition()
    is_taken = False
    try:
        while True:
            try:
                told = request_files.fetch(root, slip)
            except InvalidManifestError as error:
                if request.kind == Intake.kind:
                    raise
                raise OwnerTimeoutError(
                    f"the process that writes the store {root.path} ({holder_of(root)}) is of another version and "
                    f"does not {request.deed} for others ({error}); restart it with this one"
                ) from error
            if told is not None:
                return (request.result(told),)
            owner = holder_of(root)
            if owner is None or (owner != first and not request_files.is_there(root, slip)):
                # An owner that ended has written its answers by now; another may have dropped the letter.
                is_taken = False
                told = request_files.fetch(root, slip)
                return None if told is None else (request.result(told),)
            if interrupted():
                raise OwnerTimeoutError(_silent(root, owner, request, timeout_s, "until it was interrupted"))
            now_s = clock.monotonic_s()
            is_taken = is_taken or (now_s >= until_s and not request_files.withdraw(root, slip))
            if now_s >= until_s and not is_taken:
                raise OwnerTimeoutError(_silent(root, owner, request, timeout_s) + "; nothing was done")
            if now_s >= until_s + grace_s:
                raise OwnerTimeoutError(
                    _silent(root, owner, request, timeout_s + grace_s)
                    + "; it has that in hand and may still finish it, which asking again will tell"
                )
            with held(never):
                clock.wait(never, wait_s)
            wait_s = min(wait_s * 1.5, _LONGEST_WAIT_S)
    finally:
        if not is_taken:
            request_files.clear(root, slip)


def _silent(root: Directory, owner: Holder, request: Request[Any], after_s: float, until: str = "") -> str:
    which = "this" if owner.pid == os.getpid() else "another"
    when = until or f"within {after_s:g} s"
    return (
        f"the store {root.path} is open for writing in {which} process ({owner}), which did not {request.deed} "
        f"{when}; check whether it hangs or answers no requests (logstore.housekeeping=manual, or a single "
        f"Log), and end it{request.other_way}"
    )


__all__ = ["PATIENCE_S", "Opener", "ask", "check"]
