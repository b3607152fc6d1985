"""Having a manifest taken in, whoever writes the store: this process for a moment, or the one that has it open.

Where nobody writes the store, `commit` opens it, without housekeeping and with the partitions of the manifest
alone, takes the files in and closes it again; who wants to open it meanwhile waits for that moment. Where a process
has it open, the manifest goes into that one's inbox (`store.mailbox`), and `commit` waits for the answer. Whenever
the lock of the root is free meanwhile, the letter is taken back and the work done here.

Exactly once does not rest on any of this: `Store.ingest` knows what it has taken in, so that a letter may be
answered twice, or its answer lost, and the batch committed again.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from typing import Final

from logstore._files import LIBC, Files
from logstore._interrupts import Condition, held
from logstore.clock import SYSTEM_CLOCK, Clock, seconds_of
from logstore.config import Setting
from logstore.errors import DirectoryLockedError, LogstoreError, OwnerTimeoutError
from logstore.log.files import Directory
from logstore.log.lock import Holder, holder_of
from logstore.store import mailbox
from logstore.store.catalogue import CATALOGUE
from logstore.store.ingest import Ingested
from logstore.store.layout import check_root
from logstore.store.mailbox import Letter
from logstore.store.staging import Manifest, remove_staged, sweep
from logstore.store_config import StoreConfig

_logger = logging.getLogger(__name__)

#: How long it waits between two looks for an answer: first, and at most.
_FIRST_WAIT_S: Final = 0.002
_LONGEST_WAIT_S: Final = 0.05
#: Where nobody keeps house, every so many batches (and every job) look beside all logs for what was left behind.
_SWEEP_BATCHES: Final = 256
#: An owner that has the letter in hand gets at least so much longer.
_LEAST_GRACE_S: Final = 10.0


def commit(
    root: str | os.PathLike[str],
    manifest: Manifest,
    *,
    timeout_s: float,
    settings: Mapping[str, Setting] | StoreConfig | None = None,
    files: Files = LIBC,
    clock: Clock = SYSTEM_CLOCK,
) -> Ingested:
    """Have the staged files of a manifest taken in; durable and visible together on return.

    Done by this process if nobody writes the store, with ``settings`` of the store (those that its other writers
    give); else by the one that does, which gets ``timeout_s`` to take it in hand, and as long again to finish.

    Raises:
        OwnerTimeoutError: the process that writes the store does not answer; it is named.
        NotALogError: there is no store.
        LogstoreError: as `Store.ingest`, here or in the owner's process.
    """
    directory = Directory(root, files)
    manifest = manifest._replace(files=tuple(manifest.files)).check()
    found_s = seconds_of(timeout_s)
    # An owner that has the letter in hand gets as long again: a sum that infinity would not have.
    timeout_s = threading.TIMEOUT_MAX if found_s is None else found_s
    until_s = clock.monotonic_s() + timeout_s
    while True:
        found = _take_in(directory, manifest, settings, clock)
        if found is None:
            found = _ask(directory, manifest, until_s, timeout_s, clock)
        if found is not None:
            return found


def check(root: str | os.PathLike[str], *, files: Files = LIBC) -> None:
    """Refuse a directory that can be read and not written, such as one of Kafka's, before anything is staged there.

    Where there is no directory, nothing is refused.

    Raises:
        NotALogError: Kafka wrote it, or it holds what belongs to no store.
    """
    directory = Directory(root, files)
    if directory.exists() and directory.read(CATALOGUE) is None:
        check_root(directory)


def abort(root: str | os.PathLike[str], manifest: Manifest, *, files: Files = LIBC) -> None:
    """Remove the staged files of a manifest that is not to be taken in. Never touches a log.

    One that an owner is taking in at this moment may be taken in nevertheless; committing the same batch again
    says so.
    """
    manifest = manifest._replace(files=tuple(manifest.files)).check()
    remove_staged(Directory(root, files), manifest.files)


def _take_in(
    root: Directory, manifest: Manifest, settings: Mapping[str, Setting] | StoreConfig | None, clock: Clock
) -> Ingested | None:
    """Take the files in here; None if another process writes the store."""
    from logstore.store.store import open_briefly  # which answers letters itself

    try:
        store = open_briefly(root.path, settings, patient=False, clock=clock, files=root.files)
    except DirectoryLockedError:
        return None
    try:
        found = store.ingest(manifest)
        if manifest.batch % _SWEEP_BATCHES == 0:
            sweep(root.path, manifest.query, manifest.batch, files=root.files, clock=clock)
        return found
    finally:
        try:
            store.close()
        except LogstoreError as error:
            # What was taken in is durable by now, and a failure is told by its own error.
            _logger.warning("a store was not closed cleanly: store=%s error=%s", root.path, error)


def _ask(root: Directory, manifest: Manifest, until_s: float, timeout_s: float, clock: Clock) -> Ingested | None:
    """Have the owner take the files in; None if there is no owner any more."""
    left_s = max(until_s - clock.monotonic_s(), 0)
    slip = mailbox.post(root, Letter(manifest, clock.now_ms() + int(left_s * 1000)))
    grace_s = max(timeout_s, _LEAST_GRACE_S)
    wait_s = _FIRST_WAIT_S
    never = Condition()
    is_taken = False
    try:
        while True:
            found = mailbox.fetch(root, slip)
            if found is not None:
                return found
            owner = holder_of(root)
            if owner is None:
                # Whatever it has answered before it went is there by now.
                is_taken = False
                return mailbox.fetch(root, slip)
            now_s = clock.monotonic_s()
            is_taken = is_taken or (now_s >= until_s and not mailbox.withdraw(root, slip))
            if now_s >= until_s and not is_taken:
                raise OwnerTimeoutError(_silent(root, owner, manifest, timeout_s) + "; nothing was taken in")
            if now_s >= until_s + grace_s:
                raise OwnerTimeoutError(
                    _silent(root, owner, manifest, timeout_s + grace_s)
                    + "; it has the batch in hand and may still finish it, which committing it again will tell"
                )
            with held(never):
                clock.wait(never, wait_s)
            wait_s = min(wait_s * 1.5, _LONGEST_WAIT_S)
    finally:
        if not is_taken:
            mailbox.clear(root, slip)


def _silent(root: Directory, owner: Holder, manifest: Manifest, after_s: float) -> str:
    return (
        f"the store {root.path} is open for writing in another process ({owner}), which did not take in batch "
        f"{manifest.batch} of query {manifest.query!r} within {after_s:g} s: is it hung, or does it keep no house "
        "(logstore.housekeeping=manual, or a single Log)? Close it, or write through a broker (option bootstrap)"
    )


__all__ = ["abort", "check", "commit"]
